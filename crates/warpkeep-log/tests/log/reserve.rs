//! The reserved space lets a store on a full disk take a checkpoint and open again.

use std::io::Write as _;

use warpkeep_core::{Durability, Lsn};
use warpkeep_log::{Log, LogError};

use crate::history::{History, create, recover, scan};
use crate::mem_disk::{Dice, MemDisk, Plan};

/// All items of a history, at most.
const ITEMS: u64 = 24 * 300;
const CAPACITY: u64 = 300 << 10;

/// Writes until it is refused.
fn fill(log: &Log, history: &mut History, dice: &mut Dice) -> LogError {
    for _ in 0..10_000 {
        log.back_pressure().unwrap();
        match history.append(log, dice, 200, Durability::Power) {
            Ok(lsn) => {
                log.wait_durable(lsn).expect("what is accepted has room");
                history.acknowledged = lsn;
            }
            Err(error) => return error,
        }
    }
    panic!("the disk is never full");
}

fn reserve_files(disk: &MemDisk) -> usize {
    disk.names().iter().filter(|name| name.starts_with("reserve-")).count()
}

#[test]
fn a_checkpoint_leads_out_of_a_full_disk() {
    let disk = MemDisk::default();
    let log = create(&disk);
    let (mut history, mut dice) = (History::default(), Dice::new(4));
    disk.set_capacity(CAPACITY);
    log.keep_reserve(ITEMS).unwrap();
    for round in 0..5 {
        let refused = fill(&log, &mut history, &mut dice);
        assert!(matches!(refused, LogError::NoSegment { .. }) && refused.is_disk_full(), "{refused}");
        assert!(log.is_trimmable() && log.no_segment().is_some());
        // Other users take the remaining space.
        disk.fill();
        let info = log.checkpoint(|writer| scan(&history.items, writer));
        let info = info.unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert!(info.bytes > 4096, "{info:?}");
        assert!(!log.is_trimmable() && log.no_segment().is_none(), "round {round}");
        let (there, wanted) = log.reserve();
        assert_eq!(there, wanted, "the reserve is there again");
        disk.set_capacity(CAPACITY);
    }
    drop(log);
    history.check(&recover(&disk).unwrap()).unwrap();
}

/// Without a reserve the same is a dead end: no checkpoint, and no opening.
#[test]
fn without_a_reserve_a_full_disk_refuses() {
    let disk = MemDisk::default();
    let log = create(&disk);
    let (mut history, mut dice) = (History::default(), Dice::new(5));
    disk.set_capacity(CAPACITY);
    fill(&log, &mut history, &mut dice);
    // Other users take the remaining space.
    disk.fill();
    let error = log.checkpoint(|writer| scan(&history.items, writer)).unwrap_err();
    assert!(matches!(error, LogError::DiskFull { .. }), "{error}");
    drop(log);
    let error = recover(&disk).unwrap().start(2, false).unwrap_err();
    assert!(matches!(error, LogError::DiskFull { .. }), "{error}");
    assert_eq!(reserve_files(&disk), 0);
    history.check(&recover(&disk).unwrap()).unwrap();
}

/// The store opens on a full disk after each of several crashes; at last a checkpoint, also an owed one, frees
/// space.
#[test]
fn a_full_disk_is_opened_from_the_reserve() {
    let disk = MemDisk::default();
    let mut log = create(&disk);
    let (mut history, mut dice) = (History::default(), Dice::new(6));
    disk.set_capacity(CAPACITY);
    log.keep_reserve(ITEMS).unwrap();
    for epoch in 2..8 {
        fill(&log, &mut history, &mut dice);
        disk.fill();
        drop(log);
        let recovery = recover(&disk).unwrap();
        history.check(&recovery).unwrap();
        let gap = epoch == 5;
        log = recovery.start(epoch, gap).unwrap_or_else(|error| panic!("epoch {epoch}: {error}"));
        assert_eq!(log.owes_checkpoint(), gap);
        log.checkpoint(|writer| scan(&history.items, writer)).unwrap();
        history.acknowledged = history.last();
        disk.set_capacity(CAPACITY);
        log.keep_reserve(ITEMS).unwrap();
    }
    log.close().unwrap();
}

/// The machine dies at every call of a run on a full disk: every acknowledged record is there, and the store opens
/// on a disk that is as full as before.
#[test]
fn crashes_on_a_full_disk() {
    let life = |disk: &MemDisk, history: &mut History| -> Result<(), LogError> {
        let mut dice = Dice::new(7);
        let log = create(disk);
        log.keep_reserve(ITEMS)?;
        let write = |history: &mut History, dice: &mut Dice| -> Result<(), LogError> {
            log.back_pressure()?;
            let lsn = history.append(&log, dice, 200, Durability::Power)?;
            log.wait_durable(lsn)?;
            history.acknowledged = lsn;
            Ok(())
        };
        for _ in 0..12 {
            write(history, &mut dice)?;
        }
        disk.fill();
        while history.last() < Lsn::new(1, 200) && write(history, &mut dice).is_ok() {}
        log.checkpoint(|writer| scan(&history.items, writer))?;
        history.acknowledged = history.last();
        write(history, &mut dice)
    };
    let whole = MemDisk::default();
    life(&whole, &mut History::default()).unwrap();
    let mut images = 0;
    // Until the log is created, this test adds nothing new.
    let first = {
        let disk = MemDisk::default();
        drop(create(&disk));
        disk.calls() + 1
    };
    for at in first..=whole.calls() {
        let disk = MemDisk::default();
        disk.plan(Plan::DieAt(at));
        let mut history = History::default();
        life(&disk, &mut history).expect_err("the machine died");
        for seed in 0..8 {
            let mut dice = Dice::new(at * 8 + seed);
            let (found, mut history) =
                (if seed < 2 { disk.fork() } else { disk.power_cut(&mut dice) }, history.clone());
            let recovery = recover(&found).unwrap();
            history.check(&recovery).unwrap_or_else(|what| panic!("call {at}, seed {seed}: {what}"));
            // Only space that the crash itself released is free.
            found.set_capacity_of(&disk);
            let log =
                recovery.start(2, false).unwrap_or_else(|error| panic!("call {at}, seed {seed}: {error}"));
            log.checkpoint(|writer| scan(&history.items, writer))
                .unwrap_or_else(|error| panic!("call {at}, seed {seed}: {error}"));
            images += 1;
        }
    }
    writeln!(std::io::stdout().lock(), "crashes on a full log disk: {images} images").unwrap();
    assert!(images > 200, "only {images}");
}
