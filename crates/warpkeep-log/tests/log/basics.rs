//! The plain road: append, wait, checkpoint, close, open.

use std::sync::Arc;

use warpkeep_core::{Change, ChangeKind, Durability, Lsn};
use warpkeep_log::{ChangeBatch, Log, LogError, LogOptions, Recovery};

use crate::history::{History, MANIFESTS, STORE, create, options, recover, scan};
use crate::mem_disk::{Dice, MemDisk};

fn one(value: &[u8]) -> ChangeBatch {
    let mut batch = ChangeBatch::new();
    batch.push(&Change { table: 3, kind: ChangeKind::Put, version: 1, key: b"key", value }).unwrap();
    batch
}

#[test]
fn what_is_waited_for_comes_back() {
    let disk = MemDisk::default();
    assert!(!Log::exists(&disk).unwrap());
    let log = create(&disk);
    assert!(Log::exists(&disk).unwrap());
    let mut history = History::default();
    let mut dice = Dice::new(1);
    for _ in 0..50 {
        let lsn = history.append(&log, &mut dice, 700, Durability::Power).unwrap();
        log.wait_durable(lsn).unwrap();
        history.acknowledged = lsn;
    }
    assert_eq!((log.last_lsn(), log.durable_lsn()), (history.last(), history.last()));
    drop(log);
    let recovery = recover(&disk).unwrap();
    assert_eq!((recovery.store_id(), recovery.epoch(), recovery.closed_cleanly()), (STORE, 1, false));
    history.check(&recovery).unwrap();
    let report = recovery.report();
    assert_eq!((report.records, report.frames, report.torn_tail), (50, 50, None));
    assert!(report.segments > 10, "50 frames do not fit into ten segments of three pages");
    let json = serde_json::to_value(report).unwrap();
    assert_eq!(json["records"], 50);
}

#[test]
fn every_record_can_be_found_by_its_number() {
    let disk = MemDisk::default();
    let log = create(&disk);
    let mut history = History::default();
    let mut dice = Dice::new(2);
    for round in 0..30 {
        let durability = if round % 2 == 0 { Durability::Power } else { Durability::Process };
        history.append(&log, &mut dice, 300, durability).unwrap();
        if round % 4 == 0 {
            log.flush().unwrap();
        }
    }
    log.flush().unwrap();
    drop(log);
    let recovery = recover(&disk).unwrap();
    for (index, lsn) in history.lsns().into_iter().enumerate() {
        let found = recovery.find(lsn).unwrap().expect("it was logged");
        assert!(history.holds(&found));
        assert_eq!(found.durability() == Durability::Power, index % 2 == 0);
    }
    for missing in [Lsn::ZERO, Lsn::new(1, 31), Lsn::new(2, 1), Lsn::from_bits(u64::MAX)] {
        assert!(recovery.find(missing).unwrap().is_none());
    }
}

#[test]
fn on_lsn_hears_the_number_before_anything_is_written() {
    let disk = MemDisk::default();
    let log = create(&disk);
    let before = disk.calls();
    let mut heard = Vec::new();
    for _ in 0..3 {
        log.append(&one(b"v"), Durability::Process, |lsn| heard.push(lsn)).unwrap();
    }
    assert_eq!(heard, [Lsn::new(1, 1), Lsn::new(1, 2), Lsn::new(1, 3)]);
    assert_eq!(disk.calls(), before, "append does no I/O");
    log.flush().unwrap();
    assert_eq!(disk.syncs("log.frame"), 1, "three records, one frame");
}

#[test]
fn a_panic_in_on_lsn_leaves_the_log_whole() {
    let disk = MemDisk::default();
    let log = create(&disk);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        log.append(&one(b"lost"), Durability::Process, |_| panic!("on purpose"))
    }));
    assert!(panicked.is_err());
    let lsn = log.append(&one(b"kept"), Durability::Power, |_| ()).unwrap();
    log.wait_durable(lsn).unwrap();
    drop(log);
    let mut values = Vec::new();
    recover(&disk)
        .unwrap()
        .redo(|record| {
            values.extend(record.changes().map(|change| change.value.to_vec()));
            Ok::<(), LogError>(())
        })
        .unwrap();
    assert_eq!(values, [b"kept"]);
}

#[test]
fn a_batch_larger_than_a_segment_gets_its_own() {
    let disk = MemDisk::default();
    let log = create(&disk);
    let value = vec![9; 300_000];
    for value in [&value[..], b"small", &value[..200_000]] {
        let lsn = log.append(&one(value), Durability::Power, |_| ()).unwrap();
        log.wait_durable(lsn).unwrap();
    }
    drop(log);
    let recovery = recover(&disk).unwrap();
    let mut lengths = Vec::new();
    recovery
        .redo(|record| {
            lengths.extend(record.changes().map(|change| change.value.len()));
            Ok::<(), LogError>(())
        })
        .unwrap();
    assert_eq!(lengths, [300_000, 5, 200_000]);
}

#[test]
fn limits_are_errors() {
    let disk = MemDisk::default();
    let small = LogOptions { max_batch_bytes: 100, ..options() };
    let log = Log::create(Arc::new(disk), STORE, 1, small).unwrap();
    let error = log.append(&one(&[0; 200]), Durability::Power, |_| ()).unwrap_err();
    assert!(matches!(error, LogError::BatchTooLarge { limit: 100, .. }), "{error}");
    let error = log.wait_durable(Lsn::new(1, 1)).unwrap_err();
    assert!(matches!(error, LogError::NotAppended { .. }), "{error}");
    log.append(&one(b""), Durability::Power, |_| ()).unwrap();

    for bad in [
        LogOptions { segment_bytes: 8192, ..options() },
        LogOptions { segment_bytes: (16 << 10) + 512, ..options() },
        LogOptions { segment_bytes: !4095, ..options() },
        LogOptions { max_batch_bytes: u64::MAX, ..options() },
    ] {
        let error = Log::create(Arc::new(MemDisk::default()), STORE, 1, bad).unwrap_err();
        assert!(matches!(error, LogError::BadOption { .. }), "{error}");
    }
}

#[test]
fn epochs_must_grow() {
    let disk = MemDisk::default();
    drop(Log::create(Arc::new(disk.clone()), STORE, 7, options()).unwrap());
    for bad in [0, 6, 7, Lsn::MAX_EPOCH + 1] {
        let error = recover(&disk).unwrap().start(bad, false).unwrap_err();
        assert!(matches!(error, LogError::BadEpoch { last: 7, .. }), "{error}");
    }
    let log = recover(&disk).unwrap().start(9, false).unwrap();
    assert_eq!(log.append(&one(b""), Durability::Process, |_| ()).unwrap(), Lsn::new(9, 1));
}

#[test]
fn checkpoints_shorten_the_log() {
    let disk = MemDisk::default();
    let log = create(&disk);
    let mut history = History::default();
    let mut dice = Dice::new(3);
    for round in 1..=3 {
        for _ in 0..20 {
            history.append(&log, &mut dice, 900, Durability::Process).unwrap();
            log.flush().unwrap();
        }
        let before = disk.names().len();
        let info = log.checkpoint(|writer| scan(&history.items, writer)).unwrap();
        assert_eq!((info.id, info.start, info.end), (round, history.last(), history.last()));
        assert!(disk.names().len() < before);
        let left = disk.names();
        assert_eq!(left.iter().filter(|name| name.starts_with("ckpt-")).count(), 1, "{left:?}");
        assert!(left.iter().filter(|name| name.starts_with("seg-")).count() <= 2, "{left:?}");
        assert!(!left.iter().any(|name| name.ends_with(".tmp")), "{left:?}");
    }
    history.append(&log, &mut dice, 900, Durability::Process).unwrap();
    log.close().unwrap();
    let recovery = recover(&disk).unwrap();
    assert!(recovery.closed_cleanly());
    assert_eq!(recovery.last_lsn(), history.last());
    assert_eq!(recovery.checkpoint().unwrap().id, 3);
    history.check(&recovery).unwrap();
}

#[test]
fn large_checkpoints_come_back_item_by_item() {
    let disk = MemDisk::default();
    let log = create(&disk);
    let big = vec![5; 3 << 20];
    let info = log
        .checkpoint(|writer| {
            for version in 0..5000u64 {
                let (key, value) = (version.to_le_bytes(), &big[..(version as usize * 7) % 1000]);
                writer.push(&Change { table: 1, kind: ChangeKind::Put, version, key: &key, value })?;
            }
            writer.push(&Change {
                table: 1,
                kind: ChangeKind::Put,
                version: 5000,
                key: b"big",
                value: &big,
            })?;
            let delete = Change { table: 1, kind: ChangeKind::Delete, version: 1, key: b"", value: b"" };
            assert!(matches!(writer.push(&delete), Err(LogError::BadChange { .. })));
            Ok::<(), LogError>(())
        })
        .unwrap();
    assert_eq!(info.changes, 5001);
    drop(log);
    let recovery = recover(&disk).unwrap();
    let mut next = 0;
    recovery
        .load_checkpoint(|change| {
            assert_eq!(change.version, next);
            let len = if next == 5000 { big.len() } else { (next as usize * 7) % 1000 };
            assert_eq!(change.value.len(), len);
            next += 1;
            Ok::<(), LogError>(())
        })
        .unwrap();
    assert_eq!(next, 5001);
}

#[test]
fn a_scan_that_fails_leaves_nothing_behind() {
    let disk = MemDisk::default();
    let log = create(&disk);
    let before = disk.names();
    let result = log.checkpoint(|writer| {
        writer.push(&Change { table: 1, kind: ChangeKind::Put, version: 1, key: b"k", value: b"v" })?;
        Err(LogError::BadChange { what: "the scan's own trouble" })
    });
    assert!(matches!(result, Err(LogError::BadChange { .. })));
    assert_eq!(disk.names(), before);
    assert_eq!(log.checkpoint(|_| Ok::<(), LogError>(())).unwrap().id, 1);
}

#[test]
fn openings_do_not_pile_up_empty_segments() {
    let disk = MemDisk::default();
    let log = create(&disk);
    let lsn = log.append(&one(b"v"), Durability::Power, |_| ()).unwrap();
    log.wait_durable(lsn).unwrap();
    drop(log);
    for epoch in 2..8 {
        let log = recover(&disk).unwrap().start(epoch, false).unwrap();
        if epoch % 2 == 0 {
            log.close().unwrap();
        }
        let segments = disk.names().iter().filter(|name| name.starts_with("seg-")).count();
        assert_eq!(segments, 2, "{:?}", disk.names());
        assert_eq!(recover(&disk).unwrap().last_lsn(), lsn);
    }
}

#[test]
fn recovery_changes_nothing() {
    let disk = MemDisk::default();
    let log = create(&disk);
    let mut history = History::default();
    let mut dice = Dice::new(5);
    for _ in 0..9 {
        history.append(&log, &mut dice, 900, Durability::Process).unwrap();
        log.flush().unwrap();
    }
    log.checkpoint(|writer| scan(&history.items, writer)).unwrap();
    disk.set_bytes("left over.tmp", vec![1, 2, 3]);
    let calls = disk.calls();
    let recovery = recover(&disk).unwrap();
    history.check(&recovery).unwrap();
    assert_eq!(disk.calls(), calls);
    recovery.start(2, false).unwrap();
    assert!(!disk.names().iter().any(|name| name.ends_with(".tmp")));
}

#[test]
fn create_refuses_what_is_not_empty() {
    let disk = MemDisk::default();
    drop(create(&disk));
    let again = |disk: &MemDisk| Log::create(Arc::new(disk.clone()), STORE, 1, options());
    assert!(matches!(again(&disk), Err(LogError::AlreadyExists)));

    disk.set_bytes("notes.txt", b"mine".to_vec());
    assert_eq!(recover(&disk).unwrap().report().foreign_files, ["notes.txt"]);
    let stranger = MemDisk::default();
    stranger.set_bytes("notes.txt", b"mine".to_vec());
    assert!(matches!(again(&stranger), Err(LogError::ForeignFile { .. })));
    assert!(matches!(recover(&stranger), Err(LogError::NoLog)));

    // Creation was interrupted before the manifest: nothing was promised yet.
    MANIFESTS.into_iter().for_each(|copy| disk.delete(copy));
    disk.delete("notes.txt");
    drop(again(&disk).unwrap());

    // But with data beside it a missing manifest is a loss.
    let log = recover(&disk).unwrap().start(2, false).unwrap();
    log.append(&one(b"v"), Durability::Power, |_| ()).unwrap();
    log.flush().unwrap();
    drop(log);
    MANIFESTS.into_iter().for_each(|copy| disk.delete(copy));
    assert!(matches!(again(&disk), Err(LogError::ManifestMissing { .. })));
    assert!(matches!(recover(&disk), Err(LogError::ManifestMissing { .. })));
}

#[test]
fn options_may_change_between_openings() {
    let disk = MemDisk::default();
    let log = create(&disk);
    let mut history = History::default();
    let mut dice = Dice::new(6);
    history.append(&log, &mut dice, 900, Durability::Process).unwrap();
    log.flush().unwrap();
    drop(log);
    let larger = LogOptions { segment_bytes: 64 << 10, ..options() };
    let log = Recovery::open(Arc::new(disk.clone()), larger).unwrap().start(2, false).unwrap();
    for _ in 0..30 {
        history.append(&log, &mut dice, 900, Durability::Process).unwrap();
        log.flush().unwrap();
    }
    drop(log);
    history.check(&recover(&disk).unwrap()).unwrap();
}
