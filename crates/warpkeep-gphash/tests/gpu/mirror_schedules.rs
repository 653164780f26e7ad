//! Many schedules of small batches through a mirror.

use warpkeep_device::{Device, Mode};
use warpkeep_gphash::Geometry;

use crate::bench::tell;
use crate::mirror::run;
use crate::rig::{Kind, heap};

const SEEDS: u64 = 60;

#[test]
fn every_schedule_finds_what_a_map_has() {
    for seed in 0..SEEDS {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        let kind =
            [Kind::Packed, Kind::LongPacked, Kind::Tiled, Kind::LongTiled, Kind::Twins][seed as usize % 5];
        run(&device, heap, kind, Geometry::default(), seed, 2);
    }
    tell(&format!("{SEEDS} schedules with a mirror"));
}
