//! A watch over running cases: a panic in any thread is recorded, and a case that takes too long ends the process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Nothing takes this long, however busy the machine is: a damage takes milliseconds.
const LIMIT: Duration = Duration::from_secs(300);

#[derive(Default)]
struct State {
    /// The running cases, and their start times.
    under_way: BTreeMap<u64, (Instant, String)>,
    begun: u64,
    panics: Vec<String>,
}

/// There is one in a process.
pub(crate) struct Watch(Arc<Mutex<State>>);

/// A case that runs until it is dropped.
pub(crate) struct Watched<'w>(&'w Watch, u64);

impl Watch {
    pub(crate) fn start() -> Watch {
        let state: Arc<Mutex<State>> = Arc::default();
        let noted = Arc::clone(&state);
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let thread = std::thread::current().name().unwrap_or("unnamed").to_owned();
            let mut state = locked(&noted);
            let under_way: Vec<&String> = state.under_way.values().map(|(_, what)| what).collect();
            let note = format!("{panic}\nin thread {thread}, with these under way: {under_way:#?}");
            state.panics.push(note);
            drop(state);
            usual(panic);
        }));
        let watched = Arc::clone(&state);
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_millis(200));
                let state = locked(&watched);
                if let Some((_, what)) = state.under_way.values().find(|(begun, _)| begun.elapsed() > LIMIT) {
                    eprintln!("this does not end: {what}");
                    std::process::abort();
                }
            }
        });
        Watch(state)
    }

    pub(crate) fn begin(&self, what: &str) -> Watched<'_> {
        let mut state = locked(&self.0);
        state.begun += 1;
        let number = state.begun;
        state.under_way.insert(number, (Instant::now(), what.to_owned()));
        Watched(self, number)
    }

    /// Fails if a thread panicked, whichever it was.
    pub(crate) fn assert_no_panic(&self) {
        let panics = locked(&self.0).panics.clone();
        assert!(panics.is_empty(), "{} panics, the first of them: {}", panics.len(), panics[0]);
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        locked(&self.0.0).under_way.remove(&self.1);
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
