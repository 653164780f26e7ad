//! Many schedules of small batches with values in device memory.

use warpkeep_device::{Device, Mode};
use warpkeep_gphash::Geometry;

use crate::bench::tell;
use crate::rig::{Kind, heap};
use crate::values::run;

const SEEDS: u64 = 30;

#[test]
fn every_schedule_answers_from_rows_what_a_map_has() {
    for seed in 0..SEEDS {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        let kind = [Kind::Packed, Kind::LongPacked][seed as usize % 2];
        run(&device, heap, kind, Geometry::default(), seed, 2);
    }
    tell(&format!("{SEEDS} schedules with a value cache"));
}
