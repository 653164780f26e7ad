//! After a re-attach: logged records do not count until a checkpoint has completed.

use warpkeep_core::{Durability, Lsn};
use warpkeep_log::LogError;

use crate::history::{History, create, recover, scan};
use crate::mem_disk::{Dice, MemDisk};

/// A log with a few durable records, and a disk as a crash leaves it.
fn crashed(dice: &mut Dice) -> (MemDisk, History) {
    let disk = MemDisk::default();
    let log = create(&disk);
    let mut history = History::default();
    for _ in 0..5 {
        let lsn = history.append(&log, dice, 900, Durability::Power).unwrap();
        log.wait_durable(lsn).unwrap();
        history.acknowledged = lsn;
    }
    (disk, history)
}

#[test]
fn power_is_refused_until_the_checkpoint() {
    let mut dice = Dice::new(1);
    let (disk, mut history) = crashed(&mut dice);
    let log = recover(&disk).unwrap().start(2, true).unwrap();
    assert!(log.owes_checkpoint());
    let refused = history.append(&log, &mut dice, 100, Durability::Power);
    assert!(matches!(refused, Err(LogError::CheckpointNeeded)));
    history.append(&log, &mut dice, 100, Durability::Process).unwrap();
    log.flush().unwrap();

    log.checkpoint(|writer| scan(&history.items, writer)).unwrap();
    assert!(!log.owes_checkpoint());
    let lsn = history.append(&log, &mut dice, 100, Durability::Power).unwrap();
    log.wait_durable(lsn).unwrap();
    history.acknowledged = lsn;
    drop(log);
    let recovery = recover(&disk).unwrap();
    assert!(recovery.report().unsealed_segments.is_empty());
    history.check(&recovery).unwrap();
}

#[test]
fn without_the_checkpoint_the_log_ends_before_the_gap() {
    let mut dice = Dice::new(2);
    let (disk, mut history) = crashed(&mut dice);
    let sealed = history.last();
    for epoch in 2..5 {
        let log = recover(&disk).unwrap().start(epoch, true).unwrap();
        let mut lost = History::default();
        for _ in 0..20 {
            lost.append(&log, &mut dice, 900, Durability::Process).unwrap();
            log.flush().unwrap();
        }
        drop(log);
        let recovery = recover(&disk).unwrap();
        assert!(recovery.report().unsealed_segments.len() > 1);
        assert_eq!(recovery.last_lsn(), sealed);
        history.check(&recovery).unwrap();
    }
    // The image is gone too: go on from what the log has.
    let log = recover(&disk).unwrap().start(5, false).unwrap();
    let lsn = history.append(&log, &mut dice, 100, Durability::Power).unwrap();
    log.wait_durable(lsn).unwrap();
    history.acknowledged = lsn;
    drop(log);
    let recovery = recover(&disk).unwrap();
    assert!(recovery.report().unsealed_segments.is_empty(), "they were removed");
    history.check(&recovery).unwrap();
}

#[test]
fn a_removal_that_did_not_last_does_no_harm() {
    let mut dice = Dice::new(3);
    let (disk, mut history) = crashed(&mut dice);
    let log = recover(&disk).unwrap().start(2, true).unwrap();
    let mut lost = History::default();
    lost.append(&log, &mut dice, 900, Durability::Process).unwrap();
    log.flush().unwrap();
    drop(log);
    let number = recover(&disk).unwrap().report().unsealed_segments[0];
    let name = format!("seg-{number:016x}.wal");
    let bytes = disk.bytes(&name);

    let log = recover(&disk).unwrap().start(3, false).unwrap();
    let lsn = history.append(&log, &mut dice, 900, Durability::Power).unwrap();
    log.wait_durable(lsn).unwrap();
    history.acknowledged = lsn;
    disk.set_bytes(&name, bytes.clone());
    history.check(&recover(&disk).unwrap()).unwrap();
    log.checkpoint(|writer| scan(&history.items, writer)).unwrap();
    drop(log);
    disk.set_bytes(&name, bytes);
    let recovery = recover(&disk).unwrap();
    history.check(&recovery).unwrap();
    recovery.start(4, false).unwrap();
    assert!(!disk.names().contains(&name));
}

#[test]
fn a_log_that_owes_a_checkpoint_is_not_closed_cleanly() {
    let mut dice = Dice::new(4);
    let (disk, mut history) = crashed(&mut dice);
    let log = recover(&disk).unwrap().start(2, true).unwrap();
    assert!(matches!(log.close(), Err(LogError::CheckpointNeeded)));
    let recovery = recover(&disk).unwrap();
    assert!(!recovery.closed_cleanly());
    history.check(&recovery).unwrap();

    let log = recovery.start(3, true).unwrap();
    log.checkpoint(|writer| scan(&history.items, writer)).unwrap();
    log.close().unwrap();
    let recovery = recover(&disk).unwrap();
    assert!(recovery.closed_cleanly());
    assert_ne!(recovery.last_lsn(), Lsn::ZERO);
    history.check(&recovery).unwrap();
}
