//! A real kernel: the warp-cooperative hash table.

use bytemuck::{Pod, Zeroable};
use warpkeep_device::sim::{Fast, Grid, Mode, Simulator};

use crate::support::{Random, Words, launch, modes, table_find, table_insert, tell};

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct TableParams {
    slots: u64,
    keys: u64,
    values: u64,
    buckets: u64,
    count: u64,
}

/// Inserts keys, half of them twice, and finds them and as many that are not there. Gives inserts and finds a second.
fn round(mode: Mode, count: usize, threads: u32) -> (f64, f64) {
    let simulator = Simulator::new(mode).expect("there is a compiler");
    let mut random = Random(5);
    let mut keys: Vec<u64> = (0..count).map(|_| random.next() | 1).collect();
    for i in (0..count / 2).step_by(2) {
        keys[i + count / 2] = keys[i];
    }
    let buckets = (count / 10 + 1) as u64;
    let mut slots = Words::new(buckets as usize * 32).on(&simulator);
    // A key's value is made of the key, so that it does not matter which of two equal ones came last.
    let mut values = Words::from(&keys.iter().map(|key| key ^ 0xFFFF).collect::<Vec<_>>()).on(&simulator);
    let mut inserted = Words::from(&keys).on(&simulator);
    let params = |keys: &mut Words, values: &mut Words, slots: &mut Words| TableParams {
        slots: slots.address(),
        keys: keys.address(),
        values: values.address(),
        buckets,
        count: count as u64,
    };
    let grid = Grid::covering(count as u64, threads);
    let started = std::time::Instant::now();
    launch(&simulator, table_insert, grid, &params(&mut inserted, &mut values, &mut slots))
        .expect("insert is right");
    let insert = count as f64 / started.elapsed().as_secs_f64();

    let asked: Vec<u64> = keys
        .iter()
        .enumerate()
        .map(|(i, key)| if i % 2 == 0 { *key } else { random.next() & !1 | 2 })
        .collect();
    let mut asked_words = Words::from(&asked).on(&simulator);
    let mut found = Words::new(count).on(&simulator);
    let started = std::time::Instant::now();
    launch(&simulator, table_find, grid, &params(&mut asked_words, &mut found, &mut slots))
        .expect("find is right");
    let find = count as f64 / started.elapsed().as_secs_f64();
    for (i, key) in asked.iter().enumerate() {
        let expected = if i % 2 == 0 { key ^ 0xFFFF } else { 0 };
        assert_eq!(found.as_ref()[i], expected, "key {i}");
    }
    let used = slots.as_ref().chunks(32).flat_map(|bucket| &bucket[..16]).filter(|key| **key != 0).count();
    let mut distinct = keys.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(used, distinct.len(), "a key has one slot");
    (insert, find)
}

#[test]
fn inserts_and_finds_in_every_mode() {
    for mode in modes() {
        round(mode, 2000, 128);
    }
}

#[test]
fn blocks_of_any_number_of_warps_do_the_same() {
    for threads in [32, 64, 256, 1024] {
        round(Mode::Fast(Fast { workers: 2, ..Fast::default() }), 3000, threads);
    }
}

/// Only with `WARPKEEP_SIM_RATE=1`, on a quiet machine and in a release build.
#[test]
fn rate() {
    if std::env::var_os("WARPKEEP_SIM_RATE").is_none() {
        return;
    }
    for workers in [1, 2] {
        let (insert, find) = round(Mode::Fast(Fast { workers, ..Fast::default() }), 1_000_000, 128);
        tell(&format!("{workers} workers: {insert:.0} inserts/s, {find:.0} finds/s"));
    }
    let (insert, find) = round(Mode::seeded(1), 20_000, 128);
    tell(&format!("seeded: {insert:.0} inserts/s, {find:.0} finds/s"));
}
