//! Batches beside a model on the host.

use std::sync::Once;

use warpkeep_crashlab::explores_fully;
use warpkeep_device::sim::Seeded;
use warpkeep_device::{Device, DeviceChoice, DeviceError, Mode};

use super::{Container, Dice, report};

/// How many schedules are tried, unless all are asked for.
const SCHEDULES: u64 = 200;

/// The work of a run.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// The seed of the operations.
    pub seed: u64,
    /// How many batches.
    pub batches: usize,
    /// How many operations each has, at most: some are far smaller.
    pub operations: usize,
}

impl Load {
    pub(super) fn batch<C: Container>(&self, number: usize, dice: &mut Dice) -> Vec<C::Operation> {
        // Now and then an empty batch, one operation, and the largest batch.
        let count = match number % 5 {
            0 => self.operations,
            1 => dice.below(2) as usize,
            _ => dice.below(self.operations as u64 + 1) as usize,
        };
        (0..count).map(|_| C::operation(dice)).collect()
    }
}

/// Runs batches on a device and compares each with the model; returns the first error.
pub fn compare_with_model<C: Container>(device: &Device, load: Load) -> Result<(), String> {
    let failed = |error: DeviceError| format!("{}: {error}", C::NAME);
    let mut container = C::create(device, load.batches * load.operations).map_err(failed)?;
    let (mut model, mut dice) = (C::Model::default(), Dice::new(load.seed));
    for number in 0..load.batches {
        let batch = load.batch::<C>(number, &mut dice);
        let answers = container.run(&batch).map_err(failed)?;
        let place = |wrong: String| format!("{} with {load:?}, batch {number}: {wrong}", C::NAME);
        if answers.len() != batch.len() {
            return Err(place(format!("{} answers to {} operations", answers.len(), batch.len())));
        }
        C::check(&mut model, &batch, &answers).map_err(place)?;
        container.compare(&model).map_err(place)?;
    }
    Ok(())
}

/// Large batches, as fast as the simulator goes.
///
/// # Panics
/// If the container and its model differ.
pub fn fast<C: Container>() {
    let device = Device::simulated(Mode::fast()).expect("a simulator");
    for seed in 0..3 {
        let load = Load { seed, batches: 8, operations: 3000 };
        compare_with_model::<C>(&device, load).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

/// Small batches in many schedules: stores are delayed, loads are stale, lanes are interrupted.
///
/// # Panics
/// If the container and its model differ in one of them.
pub fn schedules<C: Container>() {
    let count = if explores_fully() { 8 * SCHEDULES } else { SCHEDULES };
    if let Some(wrong) = wrong_schedule::<C>(count) {
        panic!("{wrong}");
    }
    report(&format!("{}: {count} schedules", C::NAME));
}

/// Runs small batches in this many schedules until one fails; returns the failure.
pub fn wrong_schedule<C: Container>(count: u64) -> Option<String> {
    (0..count).find_map(|seed| {
        let device = Device::simulated(schedule(seed)).expect("a simulator");
        let load = Load { seed, batches: 3, operations: 40 };
        let wrong = compare_with_model::<C>(&device, load).err()?;
        Some(format!("in the schedule of seed {seed}: {wrong}"))
    })
}

/// The schedule of a seed: every other one interrupts lanes far more often.
fn schedule(seed: u64) -> Mode {
    match seed % 2 {
        0 => Mode::seeded(seed),
        _ => Mode::Seeded(Seeded { switch_chance: 400, ..Seeded::new(seed) }),
    }
}

/// Runs a test on the first GPU; prints `SKIPPED` if there is none.
///
/// # Panics
/// If there is a GPU that cannot be opened.
pub fn on_gpu(test: impl FnOnce(&Device)) {
    match Device::open(DeviceChoice::Cuda(0)) {
        Ok(device) => test(&device),
        Err(error @ DeviceError::NoCuda { .. }) => {
            static ONCE: Once = Once::new();
            ONCE.call_once(|| report(&format!("SKIPPED: no CUDA device ({error})")));
        }
        Err(other) => panic!("{other}"),
    }
}
