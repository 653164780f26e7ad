//! The record of a scenario: one ordered stream of events for memory and files.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use crate::buffer::Buffer;
use crate::event::{Entry, Event, Site, SiteKind};

/// Threads without a number from [`Trace::as_thread`] are numbered from here, all but the first.
const UNNAMED_THREADS: u32 = 1 << 16;

thread_local! {
    static VIRTUAL_THREAD: Cell<Option<u32>> = const { Cell::new(None) };
}

/// The record of a scenario; clones are handles to the same record.
///
/// A [`LabMemory`](crate::LabMemory) and a [`LabDisk`](crate::LabDisk) made with a trace write into it; the
/// scenario adds its own marks with [`ack`](Trace::ack).
///
/// ```
/// use warpkeep_crashlab::{LabMemory, Trace};
/// use warpkeep_image::Persist;
///
/// let trace = Trace::new();
/// let memory = LabMemory::new(&trace, 4096, 4096);
/// let recorder = memory.recorder();
/// recorder.store(memory.word(64), 7);
/// recorder.flush("seven", memory.word(64).as_ptr().cast(), 8);
/// recorder.fence("seven");
/// trace.ack(7);
/// assert_eq!(trace.sites().len(), 2, "a flush and a fence");
/// ```
#[derive(Clone, Default)]
pub struct Trace {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    entries: Vec<Entry>,
    sites: BTreeSet<Site>,
    dropping: Option<Site>,
    paused: bool,
    /// Keeps acks and sites only: this record will not be crashed.
    silent: bool,
    threads: HashMap<ThreadId, u32>,
    memory: Option<Arc<Buffer>>,
    has_disk: bool,
}

impl Trace {
    /// An empty record.
    pub fn new() -> Trace {
        Trace::default()
    }

    /// An empty record in which the calls of one site have no effect: they return `Ok`, change nothing, and are
    /// not recorded.
    pub fn dropping(site: Site) -> Trace {
        Trace::recovery(Some(site), false)
    }

    pub(crate) fn recovery(dropping: Option<Site>, silent: bool) -> Trace {
        let trace = Trace::new();
        let mut state = trace.lock();
        state.dropping = dropping;
        state.silent = silent;
        drop(state);
        trace
    }

    /// Runs `work` as virtual thread `id`: a fence completes only the flushes of its own thread.
    ///
    /// Outside of it the first thread of the operating system that records anything is number 0, and every
    /// other has a number of its own.
    pub fn as_thread<R>(&self, id: u32, work: impl FnOnce() -> R) -> R {
        struct Restore(Option<u32>);
        impl Drop for Restore {
            fn drop(&mut self) {
                VIRTUAL_THREAD.set(self.0);
            }
        }
        let _restore = Restore(VIRTUAL_THREAD.replace(Some(id)));
        work()
    }

    /// A mark of the scenario's own, usually "operation `tag` was acknowledged". The check is given the marks
    /// that came before the crash, in order.
    pub fn ack(&self, tag: u64) {
        self.record(Event::Ack(tag));
    }

    /// Pauses crashes: until [`resume`](Trace::resume) no boundary is explored. For preparation.
    pub fn pause(&self) {
        let mut state = self.lock();
        if !state.paused {
            state.paused = true;
            state.push(Event::Pause);
        }
    }

    /// Crashes again from here on. **Everything done so far, before the pause too, counts as durable.**
    pub fn resume(&self) {
        let mut state = self.lock();
        if state.paused {
            state.paused = false;
            state.push(Event::Resume);
        }
    }

    /// Every site seen so far. A dropped one is not seen.
    pub fn sites(&self) -> BTreeSet<Site> {
        self.lock().sites.clone()
    }

    /// A copy of the recorded entries.
    pub fn entries(&self) -> Vec<Entry> {
        self.lock().entries.clone()
    }

    /// How many events were recorded.
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn take_entries(&self) -> Vec<Entry> {
        std::mem::take(&mut self.lock().entries)
    }

    pub(crate) fn memory(&self) -> Option<Arc<Buffer>> {
        self.lock().memory.clone()
    }

    /// Names the one memory of this trace.
    ///
    /// # Panics
    /// If there is one already: its stores and the other's could not be distinguished.
    pub(crate) fn adopt_memory(&self, buffer: &Arc<Buffer>, event: Option<Event>) {
        let mut state = self.lock();
        assert!(
            state.memory.is_none(),
            "a trace records one memory and this one has it already: clone the LabMemory to open it again"
        );
        state.memory = Some(Arc::clone(buffer));
        if let Some(event) = event {
            state.push(event);
        }
    }

    /// Names the one disk of this trace.
    ///
    /// # Panics
    /// If there is one already: its files and the other's could not be distinguished.
    pub(crate) fn adopt_disk(&self) {
        let mut state = self.lock();
        assert!(
            !state.has_disk,
            "a trace records one disk and this one has it already: clone the LabDisk to open it again"
        );
        state.has_disk = true;
    }

    pub(crate) fn record(&self, event: Event) {
        self.lock().push(event);
    }

    /// Does `work` and records the event it returns, with no other event of this trace in between.
    pub(crate) fn record_with<R>(&self, work: impl FnOnce() -> (R, Option<Event>)) -> R {
        let mut state = self.lock();
        let (result, event) = work();
        if let Some(event) = event {
            state.push(event);
        }
        result
    }

    /// Records a call that makes something durable, unless its site is dropped; returns whether it took effect.
    pub(crate) fn record_site(&self, name: &'static str, kind: SiteKind, event: Event) -> bool {
        let mut state = self.lock();
        let site = Site { name, kind };
        if state.dropping == Some(site) {
            return false;
        }
        state.sites.insert(site);
        state.push(event);
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock leaves at worst a store that was not recorded; the explorer looks for those.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, event: Event) {
        if self.silent && !matches!(event, Event::Ack(_)) {
            return;
        }
        let thread = self.thread();
        self.entries.push(Entry { thread, event });
    }

    fn thread(&mut self) -> u32 {
        if let Some(id) = VIRTUAL_THREAD.get() {
            return id;
        }
        let next = if self.threads.is_empty() { 0 } else { UNNAMED_THREADS + self.threads.len() as u32 };
        *self.threads.entry(std::thread::current().id()).or_insert(next)
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.lock().entries.iter().map(|entry| entry.event.to_string())).finish()
    }
}
