//! A disk that fails at one call or from one call on: the log under every such fault.

use std::path::Path;

use warpkeep::engine::{Edit, LogPlace};
use warpkeep::{Durability, Error, Origin};
use warpkeep_crashlab::{DiskCall, Fault, LabDisk, Trace};
use warpkeep_image::HeapOptions;
use warpkeep_log::{LogError, LogOptions};

use crate::common::{
    Home, Model, Store, assert_holds, assert_no_leak, assert_remedy, content, say, value_of,
};

/// A store whose log lies on a disk that can be made to fail.
struct Rig {
    home: Home,
    disk: LabDisk,
}

impl Rig {
    fn new() -> Rig {
        let mut home = Home::in_memory();
        home.log_options = LogOptions {
            segment_bytes: 16 << 10,
            fill_ahead_bytes: 0,
            background: false,
            ..LogOptions::default()
        };
        Rig { home, disk: LabDisk::new(&Trace::new()) }
    }

    fn log(&self) -> LogPlace {
        LogPlace::new(self.disk.clone(), self.home.log_options.clone())
    }

    fn open(&self) -> Result<Store, Error> {
        self.home.open_with(Some(self.log())).map(|(store, _)| store)
    }
}

/// The history of a store, and its possible contents.
struct History {
    /// After each step that was acknowledged, the last one last.
    states: Vec<Model>,
    /// How many of these are sure to survive the image.
    durable: usize,
    /// The state after the step with an unknown outcome, if the log failed in it.
    maybe: Option<Model>,
    errors: u64,
}

impl History {
    fn new() -> History {
        History { states: vec![Model::new()], durable: 1, maybe: None, errors: 0 }
    }

    fn last(&self) -> &Model {
        self.states.last().expect("the first is empty")
    }

    /// Edits two cells, or empties one.
    fn step(&mut self, store: &Store, step: u64) {
        let durability = if step.is_multiple_of(3) { Durability::Process } else { Durability::Power };
        let cells = [step * 7 % 48, (step * 5 + 1) % 48];
        let value = (step % 5 != 4).then(|| value_of(step, 400 + (step * 37 % 900) as usize));
        let edits = cells.map(|cell| (cell, value.as_deref()) as Edit<'_>);
        let mut next = self.last().clone();
        for cell in cells {
            match &value {
                Some(value) => next.insert(cell, value.clone()),
                None => next.remove(&cell),
            };
        }
        match store.edit(&edits, durability) {
            Ok(()) => {
                self.states.push(next);
                if durability == Durability::Power {
                    self.durable = self.states.len();
                }
            }
            Err(Error::Log(LogError::Poisoned { .. })) => {
                self.errors += 1;
                // Only the first failure leaves a doubt: after it no step begins.
                self.maybe.get_or_insert(next);
            }
            Err(error) => {
                self.errors += 1;
                assert!(is_sorted_out(&error), "{error}");
                assert_holds(store, self.last(), "a refusal changed something");
            }
        }
        if self.maybe.is_none() {
            assert_holds(store, self.last(), "while it runs");
        }
    }

    fn checkpoint(&mut self, store: &Store) {
        match store.checkpoint() {
            Ok(_) => self.durable = self.states.len(),
            Err(error) => {
                self.errors += 1;
                assert!(is_sorted_out(&error), "{error}");
            }
        }
    }

    fn run(&mut self, store: &Store) {
        for step in 0..36 {
            self.step(store, step);
            if step % 12 == 11 {
                self.checkpoint(store);
            }
        }
    }

    /// The image as it was left.
    fn check_reattached(&self, store: &Store, what: &str) {
        let found = content(store);
        assert!(found == *self.last() || Some(&found) == self.maybe.as_ref(), "{what}: re-attached");
        assert_no_leak(store, &found, what);
    }

    /// From the log alone: a state that was, and no `Power` commit lost.
    fn check_rebuilt(&self, store: &Store, what: &str) {
        let found = content(store);
        let kept = self.states[self.durable - 1..].contains(&found);
        assert!(kept || Some(&found) == self.maybe.as_ref(), "{what}: rebuilt");
        assert_no_leak(store, &found, what);
    }
}

/// Whether it is an error of the log that gives the next step.
fn is_sorted_out(error: &Error) -> bool {
    let Error::Log(error) = error else { return false };
    let text = error.to_string();
    let remedies = ["open the store again", "Free some space", "Make the log directory writable"];
    remedies.iter().any(|remedy| text.contains(remedy))
}

/// Runs a history with one fault in it, and checks the remaining state.
fn suffer(fault: Fault, lose_image: bool, what: &str) -> u64 {
    let rig = Rig::new();
    let mut history = History::new();
    match rig.open() {
        Ok(store) => {
            rig.disk.inject(fault);
            history.run(&store);
            // Closing may fail as well; it is left either way.
            history.errors += u64::from(store.close().is_err());
        }
        Err(error) => panic!("{what}: {error}"),
    }
    rig.disk.heal();
    if lose_image {
        rig.home.lose_image();
    }
    let store = rig.open().unwrap_or_else(|error| panic!("{what}: {error}"));
    match lose_image {
        true => history.check_rebuilt(&store, what),
        false => history.check_reattached(&store, what),
    }
    // It is as good as new.
    store.put(63, b"goes on", Durability::Power).unwrap_or_else(|error| panic!("{what}: {error}"));
    let model = content(&store);
    drop(store);
    rig.home.lose_image();
    let store = rig.open().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_holds(&store, &model, what);
    history.errors
}

#[test]
fn every_call_of_the_disk_fails_once() {
    let (mut runs, mut errors) = (0, 0);
    let kinds = [
        (DiskCall::Create, 16),
        (DiskCall::Allocate, 12),
        (DiskCall::Write, 50),
        (DiskCall::Sync, 50),
        (DiskCall::SyncDir, 16),
        (DiskCall::Rename, 8),
        (DiskCall::Remove, 12),
    ];
    for (call, count) in kinds {
        let mut struck = 0;
        for nth in 1..=count {
            for errno in [libc::ENOSPC, libc::EIO] {
                let what = format!("{call:?} number {nth} fails with error {errno}");
                let failed = suffer(Fault::nth(call, nth, errno), nth % 2 == 0, &what);
                (runs, errors, struck) = (runs + 1, errors + failed, struck + failed.min(1));
            }
        }
        // Making a segment is tried again, and a file to be removed has no use any more: no caller sees these
        // failures.
        let unheard = [DiskCall::Allocate, DiskCall::Remove].contains(&call);
        assert!(struck > 2 || unheard, "{call:?}: the faults hit nothing");
    }
    say(&format!("{runs} runs with one failing call: {errors} errors, nothing lost"));
}

#[test]
fn a_disk_that_fills_up_for_good() {
    let mut runs = 0;
    for (call, most) in [(DiskCall::Create, 12), (DiskCall::Allocate, 6), (DiskCall::Write, 20)] {
        for spared in 0..most {
            let what = format!("no {call:?} after {spared} more");
            assert!(suffer(Fault::after(call, spared, libc::ENOSPC), spared % 2 == 0, &what) > 0, "{what}");
            runs += 1;
        }
    }
    say(&format!("{runs} runs on a disk that fills up: nothing lost"));
}

#[test]
fn opening_survives_a_failing_disk() {
    let rig = Rig::new();
    let mut history = History::new();
    let store = rig.open().expect("a new store");
    history.run(&store);
    drop(store);
    let (mut refused, mut opened) = (0, 0);
    for call in [
        DiskCall::Open,
        DiskCall::List,
        DiskCall::Read,
        DiskCall::Len,
        DiskCall::Create,
        DiskCall::Allocate,
        DiskCall::Write,
        DiskCall::Sync,
        DiskCall::SyncDir,
        DiskCall::Rename,
        DiskCall::Remove,
    ] {
        for nth in 1..=8 {
            rig.disk.inject(Fault::nth(call, nth, libc::EIO));
            match rig.open() {
                Ok(store) => {
                    assert_holds(&store, history.last(), "opened");
                    opened += 1;
                }
                Err(error) => {
                    assert!(is_sorted_out(&error), "{call:?} {nth}: {error}");
                    refused += 1;
                }
            }
            rig.disk.heal();
            let store = rig.open().unwrap_or_else(|error| panic!("{call:?} {nth}: {error}"));
            assert_holds(&store, history.last(), "healed");
        }
    }
    assert!(refused > 10 && opened > 10, "{refused} refused, {opened} opened");
    say(&format!("{} openings on a failing disk: {refused} refused, nothing lost", refused + opened));
}

#[test]
fn a_failed_sync_poisons_until_the_store_is_opened_again() {
    for background in [false, true] {
        let mut rig = Rig::new();
        rig.home.log_options.background = background;
        let store = rig.open().expect("a new store");
        for cell in 0..5 {
            store.put(cell, b"acknowledged", Durability::Power).expect("a good disk");
        }
        // In the background a segment may be made ahead, and have the failing sync: that harms no commit, and the next has another. If it was needed at once the commit is
        // refused, and goes on when the disk is good.
        let (in_doubt, acknowledged, error) = (0..100)
            .find_map(|attempt| {
                let (value, acknowledged) = (format!("in doubt, {attempt}").into_bytes(), content(&store));
                rig.disk.inject(Fault::nth(DiskCall::Sync, 1, libc::EIO));
                let error = store.put(1, &value, Durability::Power).err()?;
                if matches!(error, Error::Log(LogError::NoSegment { .. })) {
                    rig.disk.heal();
                    store.put(1, b"acknowledged", Durability::Power).expect("a good disk");
                    return None;
                }
                Some((value, acknowledged, error))
            })
            .expect("its sync failed");
        assert!(matches!(error, Error::Log(LogError::Poisoned { .. })), "{error}");
        assert_remedy(&error, &["open the store again to find out"]);
        assert!(error.to_string().contains("sync"), "{error}");
        // The disk works again, and that proves nothing.
        let later = [
            store.put(2, b"later", Durability::Power),
            store.put(2, b"later", Durability::Process),
            store.delete(3, Durability::Process),
            store.checkpoint().map(|_| ()),
            store.flush(),
        ];
        for result in later {
            let error = result.expect_err("the log has stopped");
            assert!(matches!(error, Error::Log(LogError::Poisoned { .. })), "{error}");
        }
        assert_holds(&store, &acknowledged, "reading goes on");
        assert!(matches!(store.close(), Err(Error::Log(LogError::Poisoned { .. }))));

        // Only its own log has the outcome of the commit in doubt.
        let error = rig.home.refuses_without_log();
        assert!(matches!(error, Error::LogNeeded), "{error}");
        assert_remedy(&error, &["open it with its log directory"]);
        let other = LogPlace::new(LabDisk::new(&Trace::new()), rig.home.log_options.clone());
        let error = rig.home.open_with(Some(other)).map(|_| ()).expect_err("not its log");
        assert!(matches!(error, Error::LogNeeded), "{error}");

        let (store, report) = rig.home.open_with(Some(rig.log())).expect("found out");
        assert_eq!(report.origin, Origin::Reattached);
        let mut with_doubtful = acknowledged.clone();
        with_doubtful.insert(1, in_doubt);
        let found = content(&store);
        assert!(found == acknowledged || found == with_doubtful, "old or new");
        assert_eq!(report.finished_commits, u64::from(found == with_doubtful));
        assert_no_leak(&store, &found, "reopened");
        store.put(2, b"later", Durability::Power).expect("a good disk");
    }
}

/// A batch that no segment has room for is refused before it takes effect, and the log goes on.
#[test]
fn a_batch_larger_than_the_disk_does_not_stop_the_log() {
    for durability in [Durability::Process, Durability::Power] {
        let rig = Rig::new();
        let store = rig.open().expect("a new store");
        store.put(1, b"before", Durability::Power).expect("a good disk");
        rig.disk.inject(Fault::after(DiskCall::Allocate, 0, libc::ENOSPC));
        let before = content(&store);
        let large = value_of(1, 48 << 10);
        for _ in 0..3 {
            let error = store.put(1, &large, durability).expect_err("there is no room for it");
            assert!(matches!(error, Error::Log(LogError::NoSegment { .. })), "{error}");
            assert_holds(&store, &before, "it took no effect");
        }
        store.put(2, b"small", Durability::Power).expect("the segment has room");
        rig.disk.heal();
        store.put(1, &large, durability).expect("there is room");
        store.put(3, b"after", Durability::Power).expect("there is room");
        let model = content(&store);
        assert_no_leak(&store, &model, "with room again");
        drop(store);
        rig.home.lose_image();
        assert_holds(&rig.open().expect("rebuilt"), &model, "rebuilt");
    }
}

#[test]
fn the_status_tells_that_the_log_has_stopped() {
    let rig = Rig::new();
    let place = rig.home.place();
    let open = || warpkeep::Store::open_in(&place, Some(rig.log()), HeapOptions::default());
    let store = open().expect("a new store");
    let table = store.create_typed::<u64, u64>("t", 10).expect("a table");
    assert_eq!(store.status().refuses_writes, None);
    rig.disk.inject(Fault::nth(DiskCall::Sync, 1, libc::EIO));
    table.put(&1, &2, Durability::Power).expect_err("its sync failed");
    let why = store.status().refuses_writes.expect("the log has stopped");
    assert!(why.contains("the log stopped") && why.contains("open the store again"), "{why}");
    drop((table, store));
    assert_eq!(open().expect("a good disk").status().refuses_writes, None);
}

/// An older copy of the log does not have the outcome of commits that it never saw.
#[test]
fn commits_in_doubt_are_not_settled_by_an_older_log() {
    let home = Home::on_disk();
    home.open().expect("a new store").0.close().expect("closed");
    let old = home.directory().join("old log");
    crate::common::copy_directory(&home.log, &old);
    leave_a_commit_pending(&home.image, &home);
    let with_old = Home { log: old, ..Home::at(home.directory()) };
    let error = with_old.refuses();
    assert!(matches!(error, Error::LogNeeded), "{error}");
    let (store, _) = home.open().expect("its own log");
    assert_holds(&store, &Model::new(), "the commit never reached the log");
}

/// As a process leaves it that dies in the middle of a commit.
fn leave_a_commit_pending(image: &Path, home: &Home) {
    let (store, _) = home.open().expect("clean");
    let mut pending = store.image().claim_pending().expect("a line");
    pending.name(warpkeep::engine::Lsn::new(store.image().epoch(), 1));
    drop(pending);
    drop(store);
    assert!(image.exists());
}
