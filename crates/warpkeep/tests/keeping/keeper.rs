//! The store against a plain map: random histories, many threads, and invalid requests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::common::{
    Home, Model, Store, assert_holds, assert_no_leak, assert_remedy, content, say, value_of, versions,
};
use proptest::prelude::*;
use warpkeep::engine::{Cells, Change, ChangeKind, Edit, Items, Keeper, open};
use warpkeep::{Durability, Error, Origin};
use warpkeep_image::{Coherent, Heap, HeapOptions, Image, ImageError, MAX_BLOCK, MIN_CHUNK, Marker};
use warpkeep_log::{ChangeBatch, LogError, LogOptions};

/// One thing that happens to a store.
#[derive(Clone, Debug)]
enum Step {
    /// Cells and the lengths of their new values; `None` empties a cell.
    Edit {
        edits: Vec<(u64, Option<usize>)>,
        durability: Durability,
    },
    Checkpoint,
    Close,
    Drop,
    /// Everything is flushed, then the image is gone.
    LoseImage,
    /// Closed or dropped, then opened without its log.
    LogOff {
        close: bool,
    },
    LogOn {
        close: bool,
    },
}

const CELLS: u64 = 24;

fn step() -> impl Strategy<Value = Step> {
    let length = prop_oneof![12 => 0_usize..3000, 1 => 3000_usize..200_000, 1 => Just(1 << 20)];
    let edit = (0..CELLS, prop_oneof![3 => length.prop_map(Some), 1 => Just(None)]);
    let durability = prop_oneof![3 => Just(Durability::Process), 1 => Just(Durability::Power)];
    let edits = (proptest::collection::vec(edit, 1..6), durability);
    prop_oneof![
        24 => edits.prop_map(|(edits, durability)| Step::Edit { edits, durability }),
        2 => Just(Step::Checkpoint),
        2 => Just(Step::Close),
        3 => Just(Step::Drop),
        2 => Just(Step::LoseImage),
        1 => any::<bool>().prop_map(|close| Step::LogOff { close }),
        2 => any::<bool>().prop_map(|close| Step::LogOn { close }),
    ]
}

/// A store on its way through a history.
struct Life {
    home: Home,
    store: Option<Store>,
    model: Model,
    logged: bool,
    tag: u64,
}

impl Life {
    fn begin(logged: bool) -> Life {
        let home = Home { cells: CELLS, ..Home::on_disk() };
        let mut life = Life { home, store: None, model: Model::new(), logged, tag: 0 };
        life.open(&[Origin::Created]);
        life
    }

    fn open(&mut self, origins: &[Origin]) {
        let opened = if self.logged { self.home.open() } else { self.home.open_without_log() };
        let (store, report) = opened.expect("it opens");
        assert!(origins.contains(&report.origin), "{report:?}");
        let when = format!("{report:?}");
        assert_holds(&store, &self.model, &when);
        assert_no_leak(&store, &self.model, &when);
        self.store = Some(store);
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open between steps")
    }

    fn leave(&mut self, close: bool) -> Origin {
        let store = self.store.take().expect("it is open between steps");
        if close {
            store.close().expect("closed");
            return Origin::Clean;
        }
        drop(store);
        Origin::Reattached
    }

    fn edit(&mut self, edits: &[(u64, Option<usize>)], durability: Durability) {
        let values: Vec<(u64, Option<Vec<u8>>)> = edits
            .iter()
            .map(|&(cell, length)| {
                self.tag += 1;
                (cell, length.map(|length| value_of(self.tag, length)))
            })
            .collect();
        let borrowed: Vec<Edit<'_>> = values.iter().map(|(cell, value)| (*cell, value.as_deref())).collect();
        let edited = self.store().edit(&borrowed, durability);
        if !self.logged && durability == Durability::Power {
            assert!(matches!(edited, Err(Error::NoLog)), "{edited:?}");
            return;
        }
        edited.expect("there is room");
        for (cell, value) in values {
            match value {
                Some(value) => self.model.insert(cell, value),
                None => self.model.remove(&cell),
            };
        }
    }

    fn go(&mut self, step: &Step) {
        match step {
            Step::Edit { edits, durability } => self.edit(edits, *durability),
            Step::Checkpoint if self.logged => {
                let info = self.store().checkpoint().expect("a checkpoint");
                assert_eq!(info.changes, self.model.len() as u64);
            }
            Step::Checkpoint => assert!(matches!(self.store().checkpoint(), Err(Error::NoLog))),
            Step::Close => {
                let origin = self.leave(true);
                self.open(&[origin]);
            }
            Step::Drop => {
                let origin = self.leave(false);
                self.open(&[origin]);
            }
            Step::LoseImage if self.logged => {
                self.store().flush().expect("flushed");
                self.leave(false);
                self.home.lose_image();
                self.open(&[Origin::Rebuilt]);
            }
            Step::LoseImage => assert!(matches!(self.store().flush(), Err(Error::NoLog))),
            Step::LogOff { close } | Step::LogOn { close } => {
                let origin = self.leave(*close);
                self.logged = matches!(step, Step::LogOn { .. });
                self.open(&[origin]);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history_leaves_what_a_map_would_hold(
        logged in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..80),
    ) {
        let mut life = Life::begin(logged);
        steps.iter().for_each(|step| life.go(step));
        let when = "at the end";
        assert_holds(life.store(), &life.model, when);
        assert_no_leak(life.store(), &life.model, when);
        let origin = life.leave(true);
        life.open(&[origin]);
    }
}

/// An edit of a cell that was acknowledged, with the moments before and after it.
#[derive(Clone)]
struct Acknowledged {
    before: u64,
    after: u64,
    cell: u64,
    value: Option<Vec<u8>>,
}

const THREADS: u64 = 8;
const SHARED_CELLS: u64 = 40;

/// Edits random cells, and records the outcomes.
fn edit_away(store: &Store, thread: u64, clock: &AtomicU64) -> Vec<Acknowledged> {
    let mut random = fastrand::Rng::with_seed(thread);
    let mut done = Vec::new();
    for round in 0..400 {
        let cells: Vec<u64> = (0..random.usize(1..4)).map(|_| random.u64(0..SHARED_CELLS)).collect();
        let tag = thread << 32 | round;
        let value = random.u8(0..5) > 0;
        let value = value.then(|| value_of(tag, random.usize(8..600)));
        let edits: Vec<Edit<'_>> = cells.iter().map(|&cell| (cell, value.as_deref())).collect();
        let durability = if random.u8(0..4) == 0 { Durability::Power } else { Durability::Process };
        let before = clock.fetch_add(1, Ordering::SeqCst);
        store.edit(&edits, durability).expect("there is room");
        let after = clock.fetch_add(1, Ordering::SeqCst);
        let one = |cell| Acknowledged { before, after, cell, value: value.clone() };
        done.extend(cells.into_iter().map(one));
    }
    done
}

#[test]
fn eight_threads_and_a_checkpointer_agree_on_what_came_last() {
    let home = Home { cells: SHARED_CELLS, ..Home::on_disk() };
    let (store, _) = home.open().expect("a new store");
    let clock = AtomicU64::new(1);
    let running = AtomicU64::new(THREADS);
    let mut checkpoints = 0;
    let mut done: Vec<Acknowledged> = Vec::new();
    std::thread::scope(|scope| {
        let (store, clock, running) = (&store, &clock, &running);
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    let done = edit_away(store, thread, clock);
                    running.fetch_sub(1, Ordering::SeqCst);
                    done
                })
            })
            .collect();
        while running.load(Ordering::SeqCst) > 0 {
            store.checkpoint().expect("a checkpoint");
            checkpoints += 1;
            // One that panicked does not count itself out.
            if threads.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                break;
            }
        }
        done = threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect();
    });
    assert!(checkpoints > 0);
    let found = content(&store);
    assert_no_leak(&store, &found, "after the threads");
    for cell in 0..SHARED_CELLS {
        let of_cell: Vec<&Acknowledged> = done.iter().filter(|edit| edit.cell == cell).collect();
        // An edit that ended before another began cannot have had the last word.
        let latest_start = of_cell.iter().map(|edit| edit.before).max().expect("every cell was edited");
        let last: Vec<_> = of_cell.iter().filter(|edit| edit.after > latest_start).collect();
        assert!(last.iter().any(|edit| edit.value.as_ref() == found.get(&cell)), "cell {cell}");
    }
    say(&format!("{} edits by {THREADS} threads beside {checkpoints} checkpoints", done.len()));

    // The log has the same contents, including versions.
    let expected = versions(store.items());
    store.flush().expect("flushed");
    drop(store);
    home.lose_image();
    let (store, report) = home.open().expect("rebuilt");
    assert_eq!(report.origin, Origin::Rebuilt);
    assert_eq!(versions(store.items()), expected);
    assert_no_leak(&store, &found, "after the rebuild");
}

/// Cells whose scan stops half way until a test lets it continue.
struct SlowCells {
    cells: Cells<Coherent>,
    scan: ScanGate,
}

/// How far the scan is, and whether it may go on.
#[derive(Default)]
struct ScanGate {
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl ScanGate {
    /// Sets a flag and waits for another, for so long that only a deadlock takes longer.
    fn meet(&self, set: impl FnOnce(&mut (bool, bool)), wanted: impl Fn(&(bool, bool)) -> bool) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        set(&mut state);
        self.changed.notify_all();
        let waited = self.changed.wait_timeout_while(state, Duration::from_secs(20), |state| !wanted(state));
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Items<Coherent> for SlowCells {
    type Config = u64;

    fn create(heap: &Arc<Heap<Coherent>>, config: &u64) -> warpkeep::Result<Self> {
        Ok(SlowCells { cells: Cells::create(heap, config)?, scan: ScanGate::default() })
    }

    fn mark(image: &Image<Coherent>, marker: &Marker<'_, Coherent>) -> warpkeep::Result<()> {
        Cells::mark(image, marker)
    }

    fn attach(heap: &Arc<Heap<Coherent>>) -> warpkeep::Result<Self> {
        Ok(SlowCells { cells: Cells::attach(heap)?, scan: ScanGate::default() })
    }

    fn redo(&self, change: &Change<'_>) -> warpkeep::Result<()> {
        self.cells.redo(change)
    }

    fn scan(&self, each: &mut dyn FnMut(&Change<'_>) -> warpkeep::Result<()>) -> warpkeep::Result<()> {
        let mut seen = 0;
        self.cells.scan(&mut |change| {
            seen += 1;
            if seen == 3 && !self.scan.meet(|state| state.0 = true, |state| state.1) {
                return Err(Error::Invalid("the writers were held up by the scan".into()));
            }
            each(change)
        })
    }
}

impl SlowCells {
    fn put(
        store: &Keeper<Coherent, SlowCells>,
        cell: u64,
        value: &[u8],
        durability: Durability,
    ) -> warpkeep::Result<()> {
        store.admit(durability)?;
        let key = cell.to_le_bytes();
        let (kind, version) = (ChangeKind::Put, store.next_version());
        let change = Change { table: 1, kind, version, key: &key, value };
        let mut changes = ChangeBatch::new();
        changes.push(&change)?;
        store.write(durability, &changes, || store.items().redo(&change))?
    }
}

#[test]
fn writers_go_on_while_a_checkpoint_scans() {
    let home = Home { cells: 64, ..Home::on_disk() };
    let open_slow = || {
        let log = home.log_place().expect("the log directory");
        open::<_, SlowCells>(&home.place(), Some(log), HeapOptions::default(), &64).expect("a store")
    };
    let (store, _) = open_slow();
    for cell in 0..8 {
        SlowCells::put(&store, cell, b"before", Durability::Process).expect("there is room");
    }
    let committed = std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| store.checkpoint());
        let gate = &store.items().scan;
        assert!(gate.meet(|_| (), |state| state.0), "the scan never began");
        let mut committed = 0;
        for cell in 0..64 {
            let durability = if cell % 2 == 0 { Durability::Power } else { Durability::Process };
            SlowCells::put(&store, cell, b"meanwhile", durability).expect("there is room");
            committed += 1;
        }
        gate.meet(|state| state.1 = true, |_| true);
        checkpoint.join().expect("no panic").expect("a checkpoint");
        committed
    });
    say(&format!("{committed} commits while a checkpoint stood still"));
    let expected = versions(&store.items().cells);
    assert!(expected.values().all(|(_, value)| value == b"meanwhile"));
    store.flush().expect("flushed");
    drop(store);
    home.lose_image();
    let (store, report) = open_slow();
    assert_eq!((report.origin, report.loaded > 0), (Origin::Rebuilt, true));
    assert_eq!(
        versions(&store.items().cells),
        expected,
        "old and new in the checkpoint, and the log sets it right"
    );
}

#[test]
fn what_cannot_be_done_changes_nothing() {
    let home = Home::on_disk();
    let (store, _) = home.open_without_log().expect("a new store");
    store.put(3, b"three", Durability::Process).expect("there is room");
    let before = content(&store);
    let usage = store.heap().usage();

    let error = store.put(3, b"more", Durability::Power).expect_err("there is no log");
    assert!(matches!(error, Error::NoLog), "{error}");
    assert_remedy(&error, &["open it with a log"]);
    assert!(matches!(store.checkpoint(), Err(Error::NoLog)));
    assert!(matches!(store.flush(), Err(Error::NoLog)));

    for (cell, durability) in [(64, Durability::Process), (u64::MAX, Durability::Power)] {
        let edits: [Edit<'_>; 2] = [(3, Some(b"changed")), (cell, Some(b"nowhere"))];
        let error = store.edit(&edits, durability).expect_err("no such cell");
        assert!(matches!(error, Error::Invalid(_)), "{error}");
        assert_remedy(&error, &["the last is 63"]);
    }
    assert!(matches!(store.get(64), Err(Error::Invalid(_))));

    let large = vec![1; MAX_BLOCK as usize - 15];
    let edits: [Edit<'_>; 3] = [(3, Some(b"changed")), (4, Some(b"new")), (5, Some(&large))];
    let error = store.edit(&edits, Durability::Process).expect_err("too large");
    assert!(matches!(error, Error::Image(ImageError::Invalid(_))), "{error}");
    assert_remedy(&error, &["the largest has"]);
    assert_holds(&store, &before, "after refusals");
    assert_eq!(store.heap().usage().used_blocks(), usage.used_blocks(), "what was prepared was given back");
    store.put(5, &large[..MAX_BLOCK as usize - 16], Durability::Process).expect("the largest value");
    store.close().expect("closed");
}

#[test]
fn a_batch_over_the_limit_is_refused_before_it_changes_anything() {
    let log_options = LogOptions { max_batch_bytes: 4096, ..Home::on_disk().log_options.clone() };
    let home = Home { log_options, ..Home::on_disk() };
    let (store, _) = home.open().expect("a new store");
    store.put(1, b"small", Durability::Power).expect("there is room");
    let before = content(&store);
    let large = vec![7; 5000];
    for durability in [Durability::Process, Durability::Power] {
        let error = store.put(1, &large, durability).expect_err("too large");
        assert!(matches!(error, Error::Log(LogError::BatchTooLarge { .. })), "{error}");
        assert_remedy(&error, &["max_batch_bytes"]);
        assert_holds(&store, &before, "after a refusal");
        assert_no_leak(&store, &before, "after a refusal");
    }
    store.put(2, b"more", Durability::Power).expect("it goes on");
}

#[test]
fn a_full_heap_refuses_and_goes_on_after_deletes() {
    let heap = HeapOptions { max_bytes: 12 * MIN_CHUNK, ..HeapOptions::default() };
    for durability in [Durability::Process, Durability::Power] {
        let home = Home { heap: heap.clone(), cells: 256, ..Home::on_disk() };
        let (store, _) = home.open().expect("a new store");
        let mut model = Model::new();
        let value = |cell: u64| value_of(cell, 3000);
        let error = (0..256).find_map(|cell| match store.put(cell, &value(cell), durability) {
            Ok(()) => {
                model.insert(cell, value(cell));
                None
            }
            Err(error) => Some(error),
        });
        let error = error.expect("it is small");
        assert!(matches!(error, Error::Image(ImageError::OutOfSpace { .. })), "{error}");
        assert_remedy(&error, &["raise its limit or delete data"]);
        assert!(model.len() > 50, "{} records", model.len());
        assert_holds(&store, &model, "when full");
        assert_no_leak(&store, &model, "when full");

        // Part of a batch may fit, but none of it may stay.
        let batch: Vec<(u64, Vec<u8>)> = (0..8).map(|cell| (cell, value_of(99, 2900))).collect();
        let edits: Vec<Edit<'_>> = batch.iter().map(|(cell, value)| (*cell, Some(&value[..]))).collect();
        let error = store.edit(&edits, durability).expect_err("still full");
        assert!(matches!(error, Error::Image(ImageError::OutOfSpace { .. })), "{error}");
        assert_holds(&store, &model, "after a batch that did not fit");
        assert_no_leak(&store, &model, "after a batch that did not fit");

        for cell in 10..30 {
            store.delete(cell, durability).expect("deleting needs no space");
            model.remove(&cell);
        }
        for (cell, value) in batch {
            store.put(cell, &value, durability).expect("there is room again");
            model.insert(cell, value);
        }
        assert_holds(&store, &model, "after deletes");
        store.flush().expect("flushed");
        drop(store);
        home.lose_image();
        let (store, _) = home.open().expect("rebuilt");
        assert_holds(&store, &model, "after the rebuild: what was refused is not in the log");
        assert_no_leak(&store, &model, "after the rebuild");
    }
}

#[test]
fn a_log_that_missed_an_opening_is_owed_a_checkpoint() {
    // Nothing was ever logged, so the log ends where a missing log would.
    let home = Home::on_disk();
    home.open().expect("a new store").0.close().expect("closed");
    let (store, _) = home.open_without_log().expect("clean");
    store.put(1, b"unlogged", Durability::Process).expect("there is room");
    let model = content(&store);
    store.close().expect("closed");

    let (store, report) = home.open().expect("clean");
    assert_eq!(report.origin, Origin::Clean);
    assert!(report.owes_checkpoint, "the image knows what the log does not: {report:?}");
    store.flush().expect("a checkpoint");
    drop(store);
    home.lose_image();
    let (store, _) = home.open().expect("rebuilt");
    assert_holds(&store, &model, "after the rebuild");
}

/// A rebuild keeps the change with the largest version, so none may reach into the range of the next opening.
#[test]
fn versions_never_reach_those_of_the_next_opening() {
    let home = Home::on_disk();
    let (store, _) = home.open().expect("a new store");
    store.next_versions((1 << 40) - (1 << 36) - 1);
    store.put(1, b"the last", Durability::Power).expect("the last that is admitted");
    for durability in [Durability::Process, Durability::Power] {
        for error in [store.put(1, b"refused", durability), store.delete(1, durability)] {
            let error = error.expect_err("its version could reach the next opening's");
            assert!(matches!(error, Error::VersionsExhausted), "{error}");
            assert_remedy(&error, &["open it again"]);
        }
    }
    assert_eq!(store.get(1).expect("a cell").as_deref(), Some(&b"the last"[..]));
    store.checkpoint().expect("it needs no versions");
    store.close().expect("closed");

    let (store, _) = home.open().expect("clean");
    store.put(1, b"newer", Durability::Power).expect("the versions begin anew");
    drop(store);
    home.lose_image();
    let (store, report) = home.open().expect("rebuilt");
    assert_eq!(report.origin, Origin::Rebuilt);
    assert_eq!(store.get(1).expect("a cell").as_deref(), Some(&b"newer"[..]));
}
