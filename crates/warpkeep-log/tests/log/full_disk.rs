//! The disk fails or fills up: a clear error, and no committed record is lost.

use std::io::ErrorKind;
use std::sync::Arc;

use warpkeep_core::{Change, ChangeKind, Durability, Lsn};
use warpkeep_log::{ChangeBatch, Log, LogError, LogOptions};

use crate::history::{History, STORE, create, options, recover, scan};
use crate::mem_disk::{Dice, MemDisk, Plan};

/// Commits, checkpoints, closes and reopens. A failed step is not repeated, but the log is used further if
/// possible.
fn busy(disk: &MemDisk, history: &mut History) -> Vec<LogError> {
    let mut errors = Vec::new();
    let mut dice = Dice::new(9);
    let mut log = match Log::create(Arc::new(disk.clone()), STORE, 1, options()) {
        Ok(log) => log,
        Err(error) => return vec![error],
    };
    for epoch in 2..5 {
        for round in 0..8 {
            let result = history.append(&log, &mut dice, 1500, Durability::Power).and_then(|lsn| {
                log.wait_durable(lsn)?;
                history.acknowledged = lsn;
                Ok(())
            });
            errors.extend(result.err());
            if round == 5 {
                match log.checkpoint(|writer| scan(&history.items, writer)) {
                    Ok(_) => history.acknowledged = history.last(),
                    Err(error) => errors.push(error),
                }
            }
        }
        errors.extend(log.close().err());
        let recovery = recover(disk).expect("what is on the disk is always good");
        history.check(&recovery).unwrap();
        history.acknowledged = recovery.last_lsn();
        log = match recovery.start(epoch, false) {
            Ok(log) => log,
            // Starting failed, and another attempt is always possible.
            Err(error) => {
                errors.push(error);
                let again = recover(disk).unwrap();
                let epoch = again.epoch().max(epoch) + 1;
                let again = again.start(epoch, false).expect("the disk fails once");
                drop(again);
                return errors;
            }
        };
    }
    errors
}

#[test]
fn any_call_may_fail() {
    let whole = MemDisk::default();
    assert!(busy(&whole, &mut History::default()).is_empty());
    let calls = whole.calls();
    assert!(calls > 100);
    for kind in [ErrorKind::StorageFull, ErrorKind::Other] {
        let mut survived = 0;
        for at in 1..=calls {
            let disk = MemDisk::default();
            disk.plan(Plan::FailOnce(at, kind));
            let mut history = History::default();
            let errors = busy(&disk, &mut history);
            let full = kind == ErrorKind::StorageFull;
            assert!(errors.iter().all(|error| error.is_disk_full() == full), "call {at}: {errors:?}");
            survived += u64::from(!errors.iter().any(|error| matches!(error, LogError::Poisoned { .. })));
            if Log::exists(&disk).unwrap() {
                history.check(&recover(&disk).unwrap()).unwrap();
            }
        }
        assert!(survived > calls / 3, "only {survived} of {calls} failures left the log good");
    }
}

#[test]
fn a_failed_sync_poisons() {
    let disk = MemDisk::default();
    let log = create(&disk);
    let mut history = History::default();
    let mut dice = Dice::new(1);
    let kept = history.append(&log, &mut dice, 100, Durability::Power).unwrap();
    log.wait_durable(kept).unwrap();
    history.acknowledged = kept;

    let doubtful = history.append(&log, &mut dice, 100, Durability::Power).unwrap();
    // The write, then the sync.
    disk.plan(Plan::FailOnce(disk.calls() + 2, ErrorKind::Other));
    let error = log.wait_durable(doubtful).unwrap_err();
    assert!(error.to_string().contains("cannot sync"), "{error}");
    assert!(error.to_string().contains("unknown"), "{error}");
    for later in [
        log.wait_durable(doubtful),
        log.flush(),
        log.back_pressure(),
        history.append(&log, &mut dice, 100, Durability::Process).map(drop),
        log.checkpoint(|_| Ok::<(), LogError>(())).map(drop),
    ] {
        assert!(matches!(later, Err(LogError::Poisoned { .. })), "{later:?}");
    }
    log.wait_durable(kept).expect("what was durable stays durable");
    assert!(matches!(log.close(), Err(LogError::Poisoned { .. })));
    history.check(&recover(&disk).unwrap()).unwrap();
}

#[test]
fn a_full_disk_refuses_writes_and_lets_them_go_on() {
    let disk = MemDisk::default();
    let log = create(&disk);
    let mut history = History::default();
    let mut dice = Dice::new(2);
    disk.plan(Plan::Full);
    let refused = loop {
        log.back_pressure().unwrap();
        match history.append(&log, &mut dice, 200, Durability::Power) {
            Ok(lsn) => {
                log.wait_durable(lsn).expect("what is accepted has room");
                history.acknowledged = lsn;
            }
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, LogError::NoSegment { .. }) && refused.is_disk_full(), "{refused}");
    assert!(history.acknowledged > Lsn::ZERO);
    let error = log.checkpoint(|writer| scan(&history.items, writer)).unwrap_err();
    assert!(matches!(error, LogError::DiskFull { .. }), "{error}");
    assert!(!disk.names().iter().any(|name| name.ends_with(".tmp")));

    disk.plan(Plan::Nothing);
    log.back_pressure().unwrap();
    for _ in 0..10 {
        let lsn = history.append(&log, &mut dice, 200, Durability::Power).unwrap();
        log.wait_durable(lsn).unwrap();
        history.acknowledged = lsn;
    }
    drop(log);
    history.check(&recover(&disk).unwrap()).unwrap();
}

#[test]
fn the_logs_own_thread_notices_when_there_is_space_again() {
    let disk = MemDisk::default();
    let with_thread = LogOptions { background: true, ..options() };
    let log = Log::create(Arc::new(disk.clone()), STORE, 1, with_thread).unwrap();
    let mut history = History::default();
    let mut dice = Dice::new(3);
    let mut write_until = |accepted: bool| {
        for _ in 0..1000 {
            let appended = history.append(&log, &mut dice, 200, Durability::Power);
            if let Ok(lsn) = &appended {
                log.wait_durable(*lsn).unwrap();
            }
            if appended.is_ok() == accepted {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("the log never came to {accepted}");
    };
    write_until(true);
    disk.plan(Plan::Full);
    write_until(false);
    disk.plan(Plan::Nothing);
    write_until(true);
    log.close().unwrap();
    history.acknowledged = history.last();
    history.check(&recover(&disk).unwrap()).unwrap();
}

/// A batch whose effects precede its record must not be refused afterwards.
#[test]
fn a_promise_of_room_is_kept_while_others_fill_the_rest() {
    let disk = MemDisk::default();
    let log = create(&disk);
    let batch = |bytes: usize| {
        let mut batch = ChangeBatch::new();
        let value = vec![1; bytes];
        let change = Change { table: 1, kind: ChangeKind::Put, version: 1, key: b"key", value: &value };
        batch.push(&change).unwrap();
        batch
    };
    // From here on no new segment can be made, and the next attempt reports that.
    disk.plan(Plan::Full);
    let small = batch(100);
    let mut taken = 0;
    let promise = loop {
        log.back_pressure().unwrap();
        let promise = log.promise(&small, Durability::Process).unwrap();
        if matches!(log.promise(&batch(3900), Durability::Process), Err(LogError::NoSegment { .. })) {
            break promise;
        }
        log.append_promised(promise, &small, Durability::Process).unwrap();
        log.flush().unwrap();
        taken += 1;
        assert!(taken < 100_000, "the segment never fills");
    };
    // Others take what is left, and no more.
    while log.append(&small, Durability::Process, |_| ()).is_ok() {}
    log.append_promised(promise, &small, Durability::Process).unwrap();
    log.flush().unwrap();
    // A promise that is taken back leaves its room to others.
    assert!(matches!(log.promise(&small, Durability::Process), Err(LogError::NoSegment { .. })));
}

/// On some file systems an attempt at a segment takes as long as writing one, so not every write that is refused makes one.
#[test]
fn refused_writes_do_not_try_for_a_segment_each() {
    let disk = MemDisk::default();
    let with_thread = LogOptions { background: true, ..options() };
    let log = Log::create(Arc::new(disk.clone()), STORE, 1, with_thread).unwrap();
    let (mut history, mut dice) = (History::default(), Dice::new(8));
    disk.plan(Plan::Full);
    let mut refused = 0;
    let (mut calls, mut begun) = (0, std::time::Instant::now());
    while refused < 5000 {
        log.back_pressure().unwrap();
        match history.append(&log, &mut dice, 200, Durability::Power) {
            Ok(lsn) => log.wait_durable(lsn).unwrap(),
            Err(_) => {
                if refused == 0 {
                    (calls, begun) = (disk.calls(), std::time::Instant::now());
                }
                refused += 1;
            }
        }
    }
    let (calls, tenths) = (disk.calls() - calls, 1 + begun.elapsed().as_millis() as u64 / 100);
    // Writers and the log's own thread, ten times a second each; an attempt is a call or two.
    assert!(calls <= 8 * (tenths + 1), "{calls} calls in {tenths} tenths of a second");
}
