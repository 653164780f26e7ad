//! Many schedules of small batches in tables with caches, with every access checked and stores that take their time.

use warpkeep_device::{Device, Mode};
use warpkeep_gphash::Geometry;
use warpkeep_gphash::gpu::CachePolicy;

use crate::bench::tell;
use crate::cache::{Load, run};
use crate::rig::{Kind, heap};

const SEEDS: u64 = 240;

#[test]
fn every_schedule_of_a_table_with_a_cache_does_what_a_map_does() {
    let geometries =
        [(2, 2, 8), (1, 4, 8), (4, 2, 4), (2, 1, 16)].map(|(l, h, s)| Geometry::new(l, h, s).unwrap());
    for seed in 0..SEEDS {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        let work = Load {
            seed,
            keys: 30,
            batches: 2,
            count: 10,
            share: [0.2, 1.0][(seed / 4 % 2) as usize],
            policy: [CachePolicy::Lfu, CachePolicy::Lru, CachePolicy::Random][(seed / 8 % 3) as usize],
        };
        run(&device, heap, Kind::ALL[(seed % 4) as usize], geometries[(seed / 24 % 4) as usize], work);
    }
    tell(&format!("{SEEDS} schedules of small batches in tables with a cache"));
}
