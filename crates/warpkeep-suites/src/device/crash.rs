//! The possible states of memory that kernels write to, after a crash.

use std::collections::BTreeSet;

use warpkeep_crashlab::explores_fully;
use warpkeep_device::sim::{CrashImage, RegionId, StoreRecord};

use super::Dice;

/// Of consecutive stores from one line of a kernel, one in this many is a crash point, beside the first and the
/// last.
const ONE_IN: u64 = 4;

/// A run on a seeded simulator whose stores to an image were recorded.
#[derive(Debug)]
pub struct Recording {
    /// The bytes of the image before it.
    pub before: Vec<u8>,
    /// The simulator's id of the image.
    pub region: RegionId,
    /// The stores, from [`take_store_log`](warpkeep_device::sim::Simulator::take_store_log).
    pub log: Vec<StoreRecord>,
    /// Steps at which something began or was acknowledged.
    pub boundaries: BTreeSet<u64>,
    /// The last step.
    pub end: u64,
}

impl Recording {
    /// The steps after which the power fails. Between two of them a crash leaves the same state. Of consecutive
    /// stores from one line of a kernel only the first, the last and one in four between are taken, unless
    /// everything is explored.
    pub fn crashes(&self) -> BTreeSet<u64> {
        let mut steps: BTreeSet<u64> = self.log.iter().filter_map(|store| store.fenced).collect();
        steps.extend(&self.boundaries);
        steps.insert(self.end);
        let mut stores: Vec<&StoreRecord> = self.log.iter().collect();
        stores.sort_by_key(|store| store.issued);
        let (mut dice, full, mut taken_steps) = (Dice::new(self.end), explores_fully(), BTreeSet::new());
        for alike in stores.chunk_by(|one, next| {
            one.place == next.place && steps.range(one.issued..next.issued).next().is_none()
        }) {
            let last = alike.len() - 1;
            let taken = alike
                .iter()
                .enumerate()
                .filter(|&(index, _)| index == 0 || index == last || full || dice.below(ONE_IN) == 0);
            taken_steps.extend(taken.map(|(_, store)| store.issued));
        }
        &steps | &taken_steps
    }

    /// Opens each state that a crash could leave, with `check`, which gets the step, the bytes and the number of
    /// the image. For crashes with more than `samples` possible images, none, all, and a sample of the stores at
    /// risk are tried. Returns the number of images, or the first error.
    pub fn explore(
        &self,
        samples: u64,
        mut check: impl FnMut(u64, &[u8], u64) -> Result<(), String>,
    ) -> Result<u64, String> {
        let mut images = 0;
        for step in self.crashes() {
            let crash = CrashImage::new(&self.before, self.region, &self.log, step);
            let possible = crash.all(samples.ilog2()).unwrap_or_else(|| {
                (0..samples - 1).map(|sample| crash.sample(sample)).chain([crash.arrived(step)]).collect()
            });
            for bytes in possible {
                check(step, &bytes, images).map_err(|what| format!("step {step} of {}: {what}", self.end))?;
                images += 1;
            }
        }
        Ok(images)
    }
}
