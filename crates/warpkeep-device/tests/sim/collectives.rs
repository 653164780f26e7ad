//! Every collective, against what it must give.

use bytemuck::{Pod, Zeroable};
use warpkeep_device::sim::{Grid, Mode, Simulator};

use crate::support::{
    Kernel, Random, Words, collectives_block, collectives_masks, collectives_tile4, collectives_tile8,
    collectives_tile16, collectives_tile32, launch, modes, tell,
};

/// Results a lane, as in `tests/kernels/collectives.h`.
const RESULTS: usize = 13;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct CollectiveParams {
    masks: u64,
    values: u64,
    from: u64,
    results: u64,
}

/// What lanes bring along, and what they take home.
struct Lanes {
    masks: Vec<u32>,
    values: Vec<u64>,
    from: Vec<u32>,
}

impl Lanes {
    fn run(&self, mode: Mode, kernel: Kernel, grid: Grid) -> Vec<u64> {
        let simulator = Simulator::new(mode).expect("there is a compiler");
        let pack = |words: &[u32]| -> Vec<u64> {
            words.chunks(2).map(|pair| u64::from(pair[0]) | u64::from(pair[1]) << 32).collect()
        };
        let mut masks = Words::from(&pack(&self.masks)).on(&simulator);
        let mut values = Words::from(&self.values).on(&simulator);
        let mut from = Words::from(&pack(&self.from)).on(&simulator);
        let mut results = Words::new(self.values.len() * RESULTS).on(&simulator);
        let params = CollectiveParams {
            masks: masks.address(),
            values: values.address(),
            from: from.address(),
            results: results.address(),
        };
        launch(&simulator, kernel, grid, &params).expect("the kernel is right");
        results.as_ref().to_vec()
    }
}

/// Values of which some are equal, and lanes to ask.
fn random_lanes(random: &mut Random, count: usize) -> Lanes {
    let values =
        (0..count).map(|_| if random.next() & 1 == 0 { random.next() % 8 } else { random.next() }).collect();
    let from = (0..count).map(|_| random.next() as u32 % 32).collect();
    Lanes { masks: vec![u32::MAX; count], values, from }
}

/// Divides each warp's lanes among up to `groups` masks, and lets each lane ask one of its own group.
fn divide(random: &mut Random, lanes: &mut Lanes, groups: u64) {
    for warp in 0..lanes.values.len() / 32 {
        let group: Vec<u64> = (0..32).map(|_| random.next() % groups).collect();
        for lane in 0..32 {
            let members: Vec<u32> = (0..32).filter(|other| group[*other as usize] == group[lane]).collect();
            lanes.masks[warp * 32 + lane] = members.iter().map(|member| 1 << member).sum();
            lanes.from[warp * 32 + lane] = members[random.next() as usize % members.len()];
        }
    }
}

fn bits(lanes: impl Iterator<Item = (u32, bool)>) -> u64 {
    lanes.filter(|(_, set)| *set).map(|(lane, _)| 1u64 << lane).sum()
}

#[test]
fn over_tiles() {
    let mut random = Random(11);
    let mut checked = 0;
    let kernels =
        [(4, collectives_tile4), (8, collectives_tile8), (16, collectives_tile16), (32, collectives_tile32)];
    for (size, kernel) in kernels {
        for mode in modes() {
            let lanes = random_lanes(&mut random, 2 * 96);
            let results = lanes.run(mode, kernel, Grid { blocks: 2, threads: 96, shared_bytes: 0 });
            for t in 0..lanes.values.len() {
                let first = t - t % 32 % size;
                let tile = &lanes.values[first..first + size];
                let (v, from, rank) = (lanes.values[t], lanes.from[t] as usize, t - first);
                let of = |want: &dyn Fn(u64) -> bool| {
                    bits(tile.iter().enumerate().map(|(i, v)| (i as u32, want(*v))))
                };
                let wanting = of(&|v| v & 8 != 0);
                let expected = [
                    of(&|v| v & 1 != 0),
                    u64::from(of(&|v| v & 2 != 0) != 0),
                    u64::from(tile.iter().all(|v| v & 4 != 0)),
                    tile[from % size],
                    tile[from % size] & 0xFFFF_FFFF,
                    tile[rank ^ (from % size)],
                    tile[rank ^ (from % size)] & 0xFFFF_FFFF,
                    of(&|other| other == v),
                    of(&|other| other as u32 % 3 == v as u32 % 3),
                    u64::from(wanting != 0 && wanting.trailing_zeros() as usize == rank),
                    (rank | (t % 32 / size) << 8 | (first % 32) << 16) as u64,
                    (((1u64 << size) - 1) << (first % 32)) & 0xFFFF_FFFF,
                    tile[rank - rank % 4 + from % 4],
                ];
                assert_eq!(results[t * RESULTS..(t + 1) * RESULTS], expected, "tiles of {size}, thread {t}");
                checked += expected.len();
            }
        }
    }
    tell(&format!("{checked} results of collectives over tiles"));
}

#[test]
fn over_masks_of_any_shape() {
    let mut random = Random(12);
    for round in 0..20 {
        for mode in modes() {
            let mut lanes = random_lanes(&mut random, 2 * 64);
            divide(&mut random, &mut lanes, 1 + round % 7);
            let results =
                lanes.run(mode, collectives_masks, Grid { blocks: 2, threads: 64, shared_bytes: 0 });
            for t in 0..lanes.values.len() {
                let warp = &lanes.values[t - t % 32..][..32];
                let mask = u64::from(lanes.masks[t]);
                let of = |want: &dyn Fn(u64) -> bool| {
                    bits(warp.iter().enumerate().map(|(i, v)| (i as u32, want(*v))))
                };
                let expected = [
                    of(&|v| v & 1 != 0) & mask,
                    u64::from(of(&|v| v & 2 != 0) & mask != 0),
                    u64::from(of(&|v| v & 4 != 0) & mask == mask),
                    warp[lanes.from[t] as usize],
                    of(&|v| v == lanes.values[t]) & mask,
                    of(&|v| v & 1 != 0),
                ];
                assert_eq!(results[t * RESULTS..][..expected.len()], expected, "round {round}, thread {t}");
            }
        }
    }
}

#[test]
fn over_blocks() {
    let mut random = Random(13);
    for threads in [32u32, 128, 250, 1024] {
        for mode in modes() {
            let lanes = random_lanes(&mut random, 2 * threads as usize);
            let results = lanes.run(mode, collectives_block, Grid { blocks: 2, threads, shared_bytes: 64 });
            for (block, values) in lanes.values.chunks(threads as usize).enumerate() {
                for t in 0..threads as usize {
                    let sum =
                        values[..threads as usize - 1 - t].iter().fold(0u64, |sum, v| sum.wrapping_add(*v));
                    let at = (block * threads as usize + t) * RESULTS;
                    assert_eq!(results[at..at + 2], [sum, 1], "{threads} threads, block {block}, thread {t}");
                }
            }
        }
    }
}
