//! The power fails at every call to the disk, and recovery sees any subset of what was not yet synced.

use warpkeep_core::Durability;
use warpkeep_log::{Log, LogError, site};

use std::sync::Arc;

use crate::history::{History, MANIFESTS, STORE, options, recover, scan};
use crate::mem_disk::{Dice, MemDisk, Plan};

const SEEDS: u64 = 16;

/// A history with every event: rolls, checkpoints, process crashes with and without the image, a clean close. Stops
/// at the first error.
fn story(disk: &MemDisk, history: &mut History) -> Result<(), LogError> {
    let mut dice = Dice::new(77);
    let mut log = Log::create(Arc::new(disk.clone()), STORE, 1, options())?;
    for epoch in 2..7 {
        if epoch > 3 {
            // More each time, so that there is something to make.
            log.keep_reserve(epoch << 14)?;
        }
        for round in 0..7 {
            let power = !log.owes_checkpoint();
            let durability = if power { Durability::Power } else { Durability::Process };
            let lsn = history.append(&log, &mut dice, 1500, durability)?;
            if !power {
                // Durable, but it does not count without the checkpoint.
                log.wait_durable(lsn)?;
            } else if round % 3 != 0 {
                log.wait_durable(lsn)?;
                history.acknowledged = lsn;
            }
            if round == 4 && epoch % 2 == 0 {
                log.checkpoint(|writer| scan(&history.items, writer))?;
                history.acknowledged = history.last();
            }
        }
        if epoch == 3 {
            log.close()?;
            history.acknowledged = history.last();
        } else {
            drop(log);
        }
        let recovery = recover(disk)?;
        // Once the image is still there, with more in it than was logged.
        let gap = epoch == 5;
        if !gap {
            history.check(&recovery).map_err(|what| LogError::ForeignFile { file: String::new(), what })?;
        }
        log = recovery.start(epoch, gap)?;
    }
    log.close()
}

/// Stops at every call: first only the process dies, then the power is cut. Returns the first broken promise, if
/// any.
fn explore(dropped: Option<&'static str>) -> Result<u64, String> {
    let whole = MemDisk::default();
    story(&whole, &mut History::default()).map_err(|error| error.to_string())?;
    let mut cuts = 0;
    for at in 1..=whole.calls() {
        let disk = MemDisk::default();
        if let Some(site) = dropped {
            disk.drop_site(site);
        }
        disk.plan(Plan::DieAt(at));
        let mut history = History::default();
        story(&disk, &mut history).expect_err("the machine died");
        for seed in 0..SEEDS {
            let mut dice = Dice::new(at * SEEDS + seed);
            // When only a process dies the disk keeps everything, durable or not.
            let found = if seed < 4 { disk.fork() } else { disk.power_cut(&mut dice) };
            go_on(&found, history.clone(), &mut dice)
                .map_err(|what| format!("call {at}, seed {seed}: {what}"))?;
            cuts += 1;
        }
    }
    Ok(cuts)
}

/// Recovers, writes on, cuts the power, and recovers again.
fn go_on(found: &MemDisk, mut history: History, dice: &mut Dice) -> Result<(), String> {
    let text = |error: LogError| error.to_string();
    if !Log::exists(found).map_err(text)? {
        if history.acknowledged.bits() != 0 {
            return Err("the log is gone".to_owned());
        }
        // The remains of an interrupted creation do not prevent the next one.
        return Log::create(Arc::new(found.clone()), STORE, 1, options()).map(drop).map_err(text);
    }
    // With either copy of the manifest lost as well, all promises are kept.
    for copy in MANIFESTS {
        let without = found.fork();
        without.delete(copy);
        match Log::exists(&without).map_err(text)? {
            true => history
                .clone()
                .check(&recover(&without).map_err(text)?)
                .map_err(|what| format!("without {copy}: {what}"))?,
            false if history.acknowledged.bits() != 0 => return Err(format!("only {copy} was there")),
            false => {}
        }
    }
    let recovery = recover(found).map_err(text)?;
    history.check(&recovery)?;
    let epoch = recovery.epoch() + 1;
    let log = recovery.start(epoch, false).map_err(text)?;
    // The recovered records are in the store now, so they must stay.
    history.acknowledged = log.last_lsn();
    for _ in 0..dice.roll() % 3 {
        let lsn = history.append(&log, dice, 900, Durability::Power).map_err(text)?;
        log.wait_durable(lsn).map_err(text)?;
        history.acknowledged = lsn;
    }
    history.check(&recover(&found.power_cut(dice)).map_err(text)?)
}

#[test]
fn no_promise_is_broken() {
    let cuts = explore(None).unwrap();
    assert!(cuts > 500, "only {cuts} cuts: the story has become too short");
}

#[test]
fn every_sync_is_needed() {
    let unmissed: Vec<_> = site::NEEDED.into_iter().filter(|site| explore(Some(site)).is_ok()).collect();
    assert!(unmissed.is_empty(), "nobody misses {unmissed:?}");
}

#[test]
fn pacing_is_not_needed() {
    for site in site::PACING {
        explore(Some(site)).unwrap();
    }
}
