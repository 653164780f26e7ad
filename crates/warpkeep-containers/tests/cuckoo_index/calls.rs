//! Kernels that use `warpkeep/cuckoo_index.h` as anybody's kernels may.

use std::collections::BTreeMap;

use bytemuck::NoUninit;
use warpkeep_containers::{
    CuckooIndex, CuckooIndexOptions, CuckooIndexRef, IndexOp, IndexOpKind, IndexStatus,
};
use warpkeep_device::{Device, DeviceError, DevicePtr, Grid, KernelSet as _, Program};
use warpkeep_suites::device::{Container, Dice};

use crate::container::device_error;
use crate::model::{Model, Plain, check_contents, expected};

#[derive(Clone, Copy, NoUninit)]
#[repr(C)]
struct Params {
    index: CuckooIndexRef,
    hashes: DevicePtr,
    codes: DevicePtr,
    locations: DevicePtr,
    olds: DevicePtr,
    statuses: DevicePtr,
    matches: DevicePtr,
    found: DevicePtr,
    count: u64,
}

warpkeep_device::kernel_set! {
    struct CallKernels in "cuckoo_index_calls.cu", prefix "cuckoo_index_calls_" {
        run: Params,
        search_by_tile: Params,
        replace_and_search: Params,
    }
}

/// What numbers of hashes are multiplied by. The locations of a hash are twice its number, and one more.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// An index that kernels change with calls of their threads.
pub(crate) struct Calls {
    device: Device,
    index: CuckooIndex,
    kernels: CallKernels,
}

/// Which kernel runs operations.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Thread,
    /// Eight lanes search.
    Tile,
    /// A thread replaces and eight lanes search beside it.
    Both,
}

impl Calls {
    fn call(&self, ops: &[IndexOp], by: By) -> Result<Vec<Plain>, DeviceError> {
        let (device, count) = (&self.device, ops.len());
        let stream = device.stream()?;
        let hashes = device.upload(&ops.iter().map(|op| op.hash).collect::<Vec<u64>>())?;
        let codes = device.upload(&ops.iter().map(|op| op.kind as u8).collect::<Vec<u8>>())?;
        let locations = device.upload(&ops.iter().map(|op| op.location).collect::<Vec<u32>>())?;
        let olds = device.upload(&ops.iter().map(|op| op.old).collect::<Vec<u32>>())?;
        let (statuses, matches) = (device.allocate(count)?, device.allocate(count)?);
        let found = device.allocate(8 * count)?;
        let params = Params {
            index: self.index.reference().map_err(device_error)?,
            hashes: hashes.ptr(),
            codes: codes.ptr(),
            locations: locations.ptr(),
            olds: olds.ptr(),
            statuses: statuses.ptr(),
            matches: matches.ptr(),
            found: found.ptr(),
            count: count as u64,
        };
        let (kernel, lanes) = match by {
            By::Thread => (&self.kernels.run, 1),
            By::Tile => (&self.kernels.search_by_tile, 8),
            By::Both => (&self.kernels.replace_and_search, 16),
        };
        // SAFETY: the columns have `count` elements, and no call of the host uses the index until the stream is synchronised.
        unsafe { kernel.launch(Grid::covering(lanes * count as u64, 32), &params, &stream)? };
        stream.synchronize()?;
        let statuses = statuses.to_vec::<u8>()?;
        let statuses: &[IndexStatus] = bytemuck::checked::cast_slice(&statuses);
        let (matches, found) = (matches.to_vec::<u8>()?, found.to_vec::<[u32; 2]>()?);
        let answer = |at: usize| {
            let locations = found[at].iter().copied().filter(|location| *location != u32::MAX);
            (statuses[at], matches[at], locations.collect())
        };
        Ok((0..count).map(answer).collect())
    }
}

impl Calls {
    /// In a new index: kernels replace the location of each of some entries while others search for it, by threads and by tiles. Gives how many found the
    /// old location, and how many the new one; an error if one found none, both, or half of each.
    pub(crate) fn replace_and_search(&self) -> Result<[usize; 2], String> {
        let failed = |error: DeviceError| error.to_string();
        let other = Self::create(&self.device, 60).map_err(failed)?;
        let hashes: Vec<u64> = (1..=24).map(|i: u64| i.wrapping_mul(SPREAD)).collect();
        let inserts: Vec<IndexOp> = hashes.iter().map(|hash| IndexOp::insert(*hash, 1)).collect();
        other.call(&inserts, By::Thread).map_err(failed)?;
        let mut counts = [0; 2];
        for (old, by) in [(1, By::Both), (2, By::Thread), (3, By::Both)] {
            let replaces = hashes.iter().map(|hash| IndexOp::replace(*hash, old, old + 1));
            let (ops, first, step): (Vec<IndexOp>, _, _) = match by {
                By::Both => (replaces.collect(), 0, 1),
                _ => (
                    replaces.zip(&hashes).flat_map(|(op, hash)| [op, IndexOp::search(*hash)]).collect(),
                    1,
                    2,
                ),
            };
            let answers = other.call(&ops, by).map_err(failed)?;
            for answer in answers[first..].iter().step_by(step) {
                let is = |location| *answer == (IndexStatus::Found, 1, vec![location]);
                match [is(old), is(old + 1)].iter().position(|is_it| *is_it) {
                    Some(which) => counts[which] += 1,
                    None => return Err(format!("{answer:?} while {old} was replaced by {}", old + 1)),
                }
            }
        }
        Ok(counts)
    }
}

impl Container for Calls {
    type Operation = IndexOp;
    type Answer = Plain;
    type Model = Model;

    const NAME: &'static str = "cuckoo index of other kernels";

    fn programs() -> Vec<Program> {
        vec![CallKernels::program()]
    }

    fn create(device: &Device, operations: usize) -> Result<Self, DeviceError> {
        let options = CuckooIndexOptions::default().items(2 * operations as u64);
        let index = CuckooIndex::new(device, &options).map_err(device_error)?;
        Ok(Self { device: device.clone(), index, kernels: CallKernels::load(device)? })
    }

    fn operation(dice: &mut Dice) -> IndexOp {
        // Half of the calls meet in a few entries.
        let hashes = if dice.below(2) == 0 { 3 } else { 400 };
        let number = dice.below(hashes);
        let hash = number.wrapping_mul(SPREAD);
        let mut location = || (2 * number + dice.below(2)) as u32;
        let (location, old) = (location(), location());
        match dice.below(8) {
            0..=2 => IndexOp::insert(hash, location),
            3 => IndexOp::replace(hash, old, location),
            4 => IndexOp::search(hash),
            _ => IndexOp::delete(hash, location),
        }
    }

    fn run(&mut self, batch: &[IndexOp]) -> Result<Vec<Plain>, DeviceError> {
        self.call(batch, By::Thread)
    }

    fn check(model: &mut Model, batch: &[IndexOp], answers: &[Plain]) -> Result<(), String> {
        // What is known whatever the order: of each entry as many are there as were, and were added, less those that were removed.
        let mut change: BTreeMap<(u64, u32), (i64, bool)> = BTreeMap::new();
        let mut count = |hash: u64, location: u32, by: i64, missed: bool| {
            let entry = change.entry((hash, location)).or_default();
            *entry = (entry.0 + by, entry.1 || missed);
        };
        for (op, (status, matches, found)) in batch.iter().zip(answers) {
            // A search beside all the others never gives the location of another hash.
            let are_its = found.iter().all(|at| u64::from(at / 2).wrapping_mul(SPREAD) == op.hash);
            if !are_its || found.len() != usize::from(*matches).min(2) {
                return Err(format!("{op:?} was answered {status:?}, {matches} at {found:?}"));
            }
            use IndexStatus::{Absent, Deleted, Found, Full, Inserted, Replaced, Truncated};
            match (op.kind, status) {
                (IndexOpKind::Insert, Inserted) => count(op.hash, op.location, 1, false),
                (IndexOpKind::Delete, Deleted) => count(op.hash, op.location, -1, false),
                (IndexOpKind::Delete, Absent) => count(op.hash, op.location, 0, true),
                (IndexOpKind::Replace, Replaced) => {
                    count(op.hash, op.old, -1, false);
                    count(op.hash, op.location, 1, false);
                }
                (IndexOpKind::Replace, Inserted | Full) => {
                    count(op.hash, op.old, 0, true);
                    count(op.hash, op.location, i64::from(*status == Inserted), false);
                }
                (IndexOpKind::Insert, Full) | (IndexOpKind::Search, Found | Absent | Truncated) => {}
                _ => return Err(format!("{op:?} was answered {status:?}")),
            }
        }
        for ((hash, location), (by, missed)) in change {
            let had =
                model.get(&hash).map_or(0, |its| its.iter().filter(|at| **at == location).count()) as i64;
            let removes = |op: &&IndexOp| {
                let removed = match op.kind {
                    IndexOpKind::Delete => op.location,
                    IndexOpKind::Replace => op.old,
                    IndexOpKind::Insert | IndexOpKind::Search => return false,
                };
                (op.hash, removed) == (hash, location)
            };
            let removing = batch.iter().filter(removes).count() as i64;
            // Every search finds an entry while there is one for each.
            if had + by < 0 || missed && had >= removing {
                return Err(format!("{hash:x} at {location} was there {had} times, and {by} is the change"));
            }
            let op = |by: i64| match by > 0 {
                true => IndexOp::insert(hash, location),
                false => IndexOp::delete(hash, location),
            };
            (0..by.abs()).for_each(|_| drop(expected(model, op(by))));
        }
        Ok(())
    }

    fn compare(&self, model: &Model) -> Result<(), String> {
        check_contents(&self.index, model).map_err(|error| error.to_string())?;
        self.replace_and_search()?;
        let ops: Vec<IndexOp> = model.keys().chain([&5]).map(|hash| IndexOp::search(*hash)).collect();
        let right: Vec<Plain> = ops.iter().map(|op| expected(&mut model.clone(), *op)).collect();
        for by in [By::Thread, By::Tile] {
            let answers = self.call(&ops, by).map_err(|error| error.to_string())?;
            if answers != right {
                return Err(format!("{answers:?} was found, and not {right:?}"));
            }
        }
        Ok(())
    }
}
