//! Many schedules of small batches that are written straight through, as a whole and in parts.

use warpkeep_device::{Device, Mode};
use warpkeep_gphash::Geometry;
use warpkeep_gphash::gpu::PublishBy;

use crate::bench::{Bench, tell};
use crate::rig::{Kind, heap};
use crate::straight::{MIXED_KEYS, mixed_over};

const SEEDS: u64 = 30;

#[test]
fn every_schedule_of_a_straight_batch_does_what_a_map_does() {
    for seed in 0..SEEDS {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        let kind = [Kind::Packed, Kind::LongPacked, Kind::Tiled, Kind::Twins, Kind::OddTiled, Kind::Cells]
            [seed as usize / 3 % 6];
        let part = [None, Some(4), Some(20)][seed as usize % 3];
        let words = [PublishBy::Device, PublishBy::Host(2)][seed as usize % 2];
        let bench = Bench::new(&device, heap, kind, Geometry::default(), MIXED_KEYS / 3);
        bench.engine.load_mirror(&bench.table).unwrap();
        bench.engine.adjust(|profile| profile.publish_by = words);
        mixed_over(&device, bench, seed, 3, part);
    }
    tell(&format!("{SEEDS} schedules of batches written straight through"));
}
