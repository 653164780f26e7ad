//! The power fails at every call to the disk, and recovery sees any subset of what was not yet synced.

use warpkeep_core::Durability;
use warpkeep_log::{Log, LogError, site};

use std::sync::Arc;

use crate::history::{History, STORE, options, recover, scan};
use crate::mem_disk::{Dice, MemDisk, Plan};

const SEEDS: u64 = 6;

/// Something of everything: rolls, checkpoints, a crash of the process, a clean close. Stops at the first error.
fn story(disk: &MemDisk, history: &mut History) -> Result<(), LogError> {
    let mut dice = Dice::new(77);
    let mut log = Log::create(Arc::new(disk.clone()), STORE, 1, options())?;
    for epoch in 2..6 {
        for round in 0..6 {
            let lsn = history.append(&log, &mut dice, 1500, Durability::Power)?;
            if round % 3 != 0 {
                log.wait_durable(lsn)?;
                history.acknowledged = lsn;
            }
            if round == 3 && epoch % 2 == 0 {
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
        history.check(&recovery).map_err(|what| LogError::ForeignFile { file: String::new(), what })?;
        log = recovery.start(epoch, false)?;
    }
    log.close()
}

/// Cuts the power at every call; the first promise that is broken, if any.
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
            let fault = |what: String| format!("call {at}, seed {seed}: {what}");
            let mut dice = Dice::new(at * SEEDS + seed);
            let found = disk.power_cut(&mut dice);
            cuts += 1;
            if !Log::exists(&found).map_err(|e| fault(e.to_string()))? {
                if history.acknowledged.bits() != 0 {
                    return Err(fault("the log is gone".to_owned()));
                }
                // Whatever is left of a creation that was interrupted is no obstacle to the next.
                Log::create(Arc::new(found), STORE, 1, options()).map_err(|e| fault(e.to_string()))?;
                continue;
            }
            let mut history = history.clone();
            let recovery = recover(&found).map_err(|e| fault(e.to_string()))?;
            history.check(&recovery).map_err(fault)?;
            // Go on, and have the power cut again at once.
            let epoch = recovery.epoch() + 1;
            let log = recovery.start(epoch, false).map_err(|e| fault(e.to_string()))?;
            history.acknowledged = log.last_lsn();
            for _ in 0..2 {
                let lsn = history
                    .append(&log, &mut dice, 900, Durability::Power)
                    .map_err(|e| fault(e.to_string()))?;
                log.wait_durable(lsn).map_err(|e| fault(e.to_string()))?;
                history.acknowledged = lsn;
            }
            let again = found.power_cut(&mut dice);
            let recovery = recover(&again).map_err(|e| fault(e.to_string()))?;
            history.check(&recovery).map_err(fault)?;
        }
    }
    Ok(cuts)
}

#[test]
fn no_promise_is_broken() {
    let cuts = explore(None).unwrap();
    assert!(cuts > 500, "only {cuts} cuts: the story has become too short");
}

#[test]
fn every_sync_is_needed() {
    for site in site::NEEDED {
        assert!(explore(Some(site)).is_err(), "nobody misses {site}");
    }
}

#[test]
fn pacing_is_not_needed() {
    for site in site::PACING {
        explore(Some(site)).unwrap();
    }
}
