//! The header: state slots, roots and pending commits of an image on a persistent medium.

use std::path::Path;
use std::sync::Arc;

use warpkeep::engine::Lsn;
use warpkeep_crashlab::{
    Crash, Exploration, Explorer, Gate, LabMemory, MemoryModel, Recorder, Reopen, Trace, mutation_gate_of,
};
use warpkeep_image::{Heap, Image, ImageError, MIN_CHUNK};

use crate::Dropped;
use crate::lab_place::{format, surroundings};

const FORMATTED: u64 = 1;
const RECOVERING: u64 = 2;
/// Plus an epoch.
const EPOCH: u64 = 100;
/// Plus the offset that root 1 has had since, divided by 8.
const ROOT: u64 = 1000;
/// Plus the counter of an LSN: it was named; it is about to be finished; it was.
const NAMED: u64 = 10_000;
const FINISHING: u64 = 20_000;
const FINISHED: u64 = 30_000;

fn explorer() -> Explorer {
    Explorer::new([
        Crash::Process,
        Crash::PowerPersistent(MemoryModel::X86Lines),
        Crash::PowerPersistent(MemoryModel::Words),
    ])
    .per_boundary(256)
    .per_recovery(40)
}

fn work(image: &Image<Recorder>, ack: &dyn Fn(u64), epoch: u64) -> Result<(), ImageError> {
    image.begin(epoch)?;
    ack(EPOCH + epoch);
    for step in [5, 6] {
        let offset = MIN_CHUNK + 8 * (10 * epoch + step);
        image.set_root(1, Some(offset))?;
        ack(ROOT + offset / 8);
    }
    let mut pending = image.claim_pending()?;
    let counter = 10 * epoch + 1;
    pending.name(Lsn::new(epoch, counter));
    ack(NAMED + counter);
    ack(FINISHING + counter);
    pending.finish();
    ack(FINISHED + counter);
    Ok(())
}

fn scenario(trace: &Trace) {
    let memory = LabMemory::new(trace, 2 * MIN_CHUNK, 2 * MIN_CHUNK);
    let (recorder, path) = (memory.recorder(), Path::new("lab"));
    let image = Image::format(Arc::new(memory), recorder, path, &format(), surroundings(true)).unwrap();
    trace.ack(FORMATTED);
    work(&image, &|tag| trace.ack(tag), 1).unwrap();
    work(&image, &|tag| trace.ack(tag), 2).unwrap();
}

fn check((): &(), reopen: &Reopen<'_>) -> Result<(), String> {
    let acked = reopen.acked();
    let last = |base: u64, end: u64| {
        acked.iter().rev().find(|&&tag| (base..end).contains(&tag)).map(|tag| tag - base)
    };
    let Some(memory) = reopen.memory() else { return Ok(()) };
    let recorder = memory.recorder();
    let attached = match Image::attach(Arc::new(memory), recorder, Path::new("lab"), surroundings(true), true)
    {
        Ok(attached) => attached,
        Err(error) if acked.contains(&FORMATTED) => return Err(error.to_string()),
        Err(ImageError::Foreign { .. } | ImageError::Damaged { .. }) => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    let image = attached.image;
    Heap::survey::<ImageError>(&image, |_| Ok(())).map_err(|error| error.to_string())?;
    let epoch = last(EPOCH, EPOCH + 50).unwrap_or(0);
    // The opening that was cut off may have got that far, and so may each recovery that was.
    let recoveries = acked.iter().filter(|&&tag| tag == RECOVERING).count() as u64;
    reopen.ack(RECOVERING);
    if !(epoch..=epoch + 1 + recoveries).contains(&image.epoch()) {
        return Err(format!("epoch {} after {epoch} was begun", image.epoch()));
    }
    let acked_root = last(ROOT, NAMED).map(|words| 8 * words);
    let root = image.root(1).map_err(|error| error.to_string())?;
    let step = |offset: u64| (offset - MIN_CHUNK) / 8;
    let newer = root.is_some_and(|root| acked_root.is_none_or(|acked| step(root) > step(acked)));
    if root != acked_root && !newer {
        return Err(format!("root {root:?} after {acked_root:?} was set"));
    }
    let pending = image.pending().map_err(|error| error.to_string())?;
    let is_pending = |counter: u64| pending.iter().any(|lsn| lsn.counter() == counter);
    for &tag in acked.iter().filter(|&&tag| (NAMED..FINISHING).contains(&tag)) {
        let counter = tag - NAMED;
        if !is_pending(counter) && !acked.contains(&(FINISHING + counter)) {
            return Err(format!("{pending:?} pending, but {counter} was named"));
        }
        if is_pending(counter) && acked.contains(&(FINISHED + counter)) {
            return Err(format!("{pending:?} pending, but {counter} was finished"));
        }
    }
    // Recovery continues, and is crashed in its turn.
    pending.iter().for_each(|lsn| reopen.ack(FINISHING + lsn.counter()));
    let next = image.epoch() + 1;
    image.begin(next).map_err(|error| error.to_string())?;
    for lsn in &pending {
        reopen.ack(NAMED + lsn.counter());
        reopen.ack(FINISHED + lsn.counter());
    }
    work(&image, &|tag| reopen.ack(tag), next).map_err(|error| error.to_string())
}

pub(crate) fn explore() -> Exploration {
    let trace = Trace::new();
    scenario(&trace);
    explorer().explore(&trace, |reopen| check(&(), reopen))
}

pub(crate) fn gate(drop: &Dropped) -> Gate {
    mutation_gate_of(&drop.sampled(explorer()), |site| drop.has(site), scenario, check)
}
