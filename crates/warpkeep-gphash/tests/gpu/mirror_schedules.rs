//! Many schedules of small batches through a mirror.

use warpkeep_device::{Device, Mode};
use warpkeep_gphash::Geometry;

use crate::bench::{Bench, tell};
use crate::mirror::{RUN_KEYS, run_over};
use crate::rig::{Kind, heap};

const SEEDS: u64 = 60;

#[test]
fn every_schedule_finds_what_a_map_has() {
    for seed in 0..SEEDS {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        let kind = [Kind::Packed, Kind::LongPacked, Kind::Tiled, Kind::LongTiled, Kind::Twins, Kind::Cells]
            [seed as usize % 6];
        let bench = Bench::new(&device, heap, kind, Geometry::default(), RUN_KEYS / 4);
        bench.engine.keep_keys(seed / 5 % 2 == 0);
        run_over(bench, seed, 2);
    }
    tell(&format!("{SEEDS} schedules with a mirror"));
}
