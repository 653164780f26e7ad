//! Stores take their time: fences that are missing or too small are noticed, and right ones suffice.

use warpkeep_device::sim::{Fast, Mode, Seeded, Simulator};

use crate::support::{
    Kernel, PublishParams, Words, between, grid, launch, publish_across, publish_count, publish_for_warp,
    publish_grid_barrier, publish_wide, tell,
};

const SEEDS: u64 = 150;

/// Runs the kernel with one seed and gives what the reader saw and what the data came to.
fn run(kernel: Kernel, blocks: u32, threads: u32, between: u32, mode: Mode) -> (Vec<u64>, u64) {
    let simulator = Simulator::new(mode).expect("there is a compiler");
    let mut data = Words::new(32).on(&simulator);
    let mut flags = Words::new(2).on(&simulator);
    let mut seen = Words::new(32).on(&simulator);
    let params = PublishParams {
        data: data.address(),
        flags: flags.address(),
        seen: seen.address(),
        between,
        rounds: 4,
    };
    launch(&simulator, kernel, grid(blocks, threads), &params).expect("the kernel ends");
    (seen.as_ref().to_vec(), data.as_ref()[0])
}

/// In how many of the seeds `wrong` holds of what came out.
fn wrong_in(
    kernel: Kernel,
    blocks: u32,
    threads: u32,
    between: u32,
    wrong: impl Fn(&[u64], u64) -> bool,
) -> u64 {
    let outcomes = (0..SEEDS).map(|seed| run(kernel, blocks, threads, between, Mode::seeded(seed)));
    outcomes.filter(|(seen, data)| wrong(seen, *data)).count() as u64
}

#[test]
fn publication_to_another_block() {
    let stale = |between| wrong_in(publish_across, 2, 32, between, |seen, _| seen[0] != 17);
    assert!(stale(between::NOTHING) > 0, "a missing fence is noticed");
    assert!(stale(between::BLOCK_FENCE) > 0, "a fence for the block is too small");
    assert!(stale(between::BLOCK_RELEASE) > 0, "a release for the block is too small");
    assert_eq!(stale(between::DEVICE_FENCE), 0);
    assert_eq!(stale(between::SYSTEM_FENCE), 0);
    assert_eq!(stale(between::DEVICE_RELEASE), 0);
    assert!(stale(between::RELAXED_READER) > 0, "a missing acquire is noticed");
    tell("4 of 4 caught: fences and acquires between blocks");
}

#[test]
fn publication_within_a_block() {
    let stale = |between| wrong_in(publish_across, 1, 32, between, |seen, _| seen[0] != 17);
    assert!(stale(between::NOTHING) > 0, "a missing fence is noticed");
    assert_eq!(stale(between::BLOCK_FENCE), 0);
    assert_eq!(stale(between::BLOCK_RELEASE), 0);
    assert_eq!(stale(between::DEVICE_FENCE), 0);
    tell("1 of 1 caught: fences within a block");
}

#[test]
fn one_lane_speaks_for_its_warp() {
    let stale = |between| {
        wrong_in(publish_for_warp, 2, 32, between, |seen, _| {
            seen.iter().zip(100..).any(|(seen, part)| *seen != part)
        })
    };
    assert_eq!(stale(between::NOTHING), 0, "sync and the leader's fence cover all lanes");
    assert!(stale(between::BALLOT_ONLY) > 0, "a ballot orders no memory");
    tell("1 of 1 caught: a collective that orders nothing");
}

#[test]
fn counting() {
    // Two blocks of 8 threads, 4 rounds each.
    let lost = |blocks, between| {
        wrong_in(publish_count, blocks, 8, between, |_, data| data != u64::from(blocks) * 8 * 4)
    };
    assert!(lost(2, between::NOTHING) > 0, "loads and stores lose counts");
    assert!(lost(2, between::BLOCK_FENCE) > 0, "atomics of the block lose counts of another block");
    assert_eq!(lost(1, between::BLOCK_FENCE), 0, "within a block they do not");
    assert_eq!(lost(2, between::DEVICE_FENCE), 0, "atomics of the device do not");
    tell("2 of 2 caught: races");
}

#[test]
fn wide_stores_tear_only_if_they_are_weak() {
    let torn = |between| wrong_in(publish_wide, 2, 32, between, |seen, _| seen[0] != 0);
    assert!(torn(between::NOTHING) > 0, "a weak store may be seen by halves");
    assert_eq!(torn(between::SYSTEM_FENCE), 0, "one of 16 bytes is seen as a whole");
}

#[test]
fn stores_that_do_not_wait_hide_it() {
    // Without delays memory is sequentially consistent: the missing fence cannot show.
    for seed in 0..SEEDS {
        let mode = Mode::Seeded(Seeded { delay_stores: false, stale_loads: false, ..Seeded::new(seed) });
        assert_eq!(run(publish_across, 2, 32, between::NOTHING, mode).0[0], 17);
    }
}

#[test]
fn blocks_that_wait_for_each_other_run_together() {
    let mut modes = vec![
        Mode::Fast(Fast { workers: 1, ..Fast::default() }),
        Mode::Fast(Fast { workers: 2, check_memory: true, ..Fast::default() }),
    ];
    modes.extend((0..20).map(|seed| Mode::Seeded(Seeded { resident_blocks: 6, ..Seeded::new(seed) })));
    for mode in modes {
        let (seen, _) = run(publish_grid_barrier, 6, 64, between::NOTHING, mode);
        assert_eq!(seen[..6], [21; 6]);
    }
}
