//! The paper's layout and the lists with one node a key, against a plain map.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use warpkeep_device::{Device, Mode, devices};

use super::node_list::NodeList;
use super::warp_table::{WarpPool, WarpTable};
use crate::gpu::Clock;
use crate::gpu::slab::{
    ABSENT_KEY, Batch, DELETE, FOUND, FULL, INSERTED, PRESENT, REMOVED, REPLACE, SEARCH, Table, UPDATED,
    answer, run_batch,
};
use crate::kernels::RESERVED_KEYS;
use crate::workload::Dice;

/// A device whose schedule follows from the seed.
fn simulated(seed: u64) -> Option<(Device, Clock)> {
    if devices()[1].unavailable.is_some() {
        writeln!(std::io::stdout().lock(), "SKIPPED: no simulator on this machine").expect("standard output");
        return None;
    }
    let device = Device::simulated(Mode::seeded(seed)).expect("a simulator");
    let clock = Clock::new(&device).expect("a clock");
    Some((device, clock))
}

/// A request of a table with unique keys: what it is, its key and its value.
type Request = (u32, u32, u32);

/// A batch of requests on different keys; the model answers it, and changes.
fn batch_of(requests: &[Request], model: &mut BTreeMap<u32, u32>, replaces: bool) -> Batch {
    let (mut batch, mut used) = (Batch::default(), BTreeSet::new());
    for &(op, key, value) in requests {
        if !used.insert(key) {
            continue;
        }
        let right = match (op, model.get(&key).copied()) {
            (SEARCH, Some(old)) => answer(FOUND, old),
            (DELETE, Some(old)) => answer(REMOVED, old),
            (REPLACE, Some(old)) if replaces => answer(UPDATED, old),
            (REPLACE, Some(_)) => answer(PRESENT, 0),
            (REPLACE, None) => answer(INSERTED, 0),
            _ => answer(ABSENT_KEY, 0),
        };
        match op {
            REPLACE if replaces || !model.contains_key(&key) => drop(model.insert(key, value)),
            DELETE => drop(model.remove(&key)),
            _ => {}
        }
        batch.ops.push(op);
        batch.keys.push(key);
        batch.values.push(value);
        batch.answers.push(right);
    }
    batch
}

fn requests() -> impl Strategy<Value = Vec<Vec<Request>>> {
    let request = (prop::sample::select(vec![SEARCH, REPLACE, REPLACE, DELETE]), 0_u32..120, any::<u32>());
    prop::collection::vec(prop::collection::vec(request, 1..100), 1..5)
}

proptest! {
    #![proptest_config(Config { cases: 24, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..Config::default() })]

    #[test]
    fn tables_of_the_papers_layout_are_maps(batches in requests(), buckets in 1_u64..4, seed in 0_u64..1000) {
        let Some((device, clock)) = simulated(seed) else { return Ok(()) };
        let mut table = WarpTable::new(&device, buckets, 500, seed).expect("memory");
        let mut model = BTreeMap::new();
        for requests in &batches {
            run_batch(&mut table, &batch_of(requests, &mut model, true), &clock).expect("right answers");
        }
        let mut pairs = table.pairs().expect("a table");
        pairs.sort_unstable();
        prop_assert_eq!(&pairs, &model.iter().map(|(&key, &value)| (key, value)).collect::<Vec<_>>());
        let share = table.utilisation().expect("a table").expect("it has slabs");
        prop_assert_eq!(share > 0.0, !pairs.is_empty());
        table.clear().expect("a table");
        prop_assert!(table.pairs().expect("a table").is_empty());
    }

    #[test]
    fn lists_with_one_node_a_key_are_sets(batches in requests(), buckets in 1_u64..4, seed in 0_u64..1000) {
        let Some((device, clock)) = simulated(seed) else { return Ok(()) };
        let mut set = NodeList::new(&device, buckets, 500, seed).expect("memory");
        let mut model = BTreeMap::new();
        for requests in &batches {
            run_batch(&mut set, &batch_of(requests, &mut model, false), &clock).expect("right answers");
        }
        let mut keys = set.keys().expect("a set");
        keys.sort_unstable();
        prop_assert_eq!(keys, model.into_keys().collect::<Vec<_>>());
    }
}

/// Requests of all kinds on few keys at the same time: no answer is known before, but what they say must explain what is there.
fn contended(seed: u64, count: usize) -> Batch {
    let mut dice = Dice::new(seed, 0);
    let mut batch = Batch::default();
    for number in 0..count as u32 {
        batch.ops.push([SEARCH, REPLACE, REPLACE, DELETE][dice.below(4) as usize]);
        batch.keys.push(dice.below(6) as u32);
        batch.values.push(number);
    }
    batch
}

/// How often each key was inserted and removed, by the answers: the difference is whether it is there.
fn there(batch: &Batch, answers: &[u64]) -> Vec<u32> {
    let mut balance = BTreeMap::<u32, i32>::new();
    for (&key, &word) in batch.keys.iter().zip(answers) {
        match (word >> 32) as u32 {
            INSERTED => *balance.entry(key).or_default() += 1,
            REMOVED => *balance.entry(key).or_default() -= 1,
            FOUND | UPDATED | PRESENT | ABSENT_KEY => {}
            other => panic!("a request was answered {other}"),
        }
    }
    assert!(balance.values().all(|there| matches!(there, 0 | 1)), "{balance:?}");
    balance.into_iter().filter(|(_, there)| *there == 1).map(|(key, _)| key).collect()
}

#[test]
fn what_contended_requests_answer_explains_what_is_there() {
    let mut runs = 0;
    for seed in 0..12 {
        let Some((device, clock)) = simulated(seed) else { return };
        let batch = contended(seed, 150);
        let mut table = WarpTable::new(&device, 1, 500, seed).expect("memory");
        let (_, answers) = table.answer(&batch, &clock).expect("answers");
        let mut keys: Vec<u32> = table.pairs().expect("a table").into_iter().map(|pair| pair.0).collect();
        keys.sort_unstable();
        assert_eq!(keys, there(&batch, &answers), "the paper's layout, seed {seed}");
        // A request for the same key stored the value that a search returned.
        for ((&key, &word), op) in batch.keys.iter().zip(&answers).zip(&batch.ops) {
            if *op == SEARCH && word >> 32 == u64::from(FOUND) {
                let writer = word as u32 as usize;
                assert_eq!((batch.ops[writer], batch.keys[writer]), (REPLACE, key));
            }
        }
        let mut set = NodeList::new(&device, 1, 500, seed).expect("memory");
        let (_, answers) = set.answer(&batch, &clock).expect("answers");
        let mut keys = set.keys().expect("a set");
        keys.sort_unstable();
        assert_eq!(keys, there(&batch, &answers), "lists, seed {seed}");
        runs += 2;
    }
    writeln!(std::io::stdout().lock(), "contended tables of the paper: {runs} schedules")
        .expect("standard output");
}

#[test]
fn out_of_slabs_is_an_answer_and_reserved_keys_are_refused() {
    let Some((device, clock)) = simulated(3) else { return };
    // One block of slabs: 1024 behind the first one, each with 15 pairs.
    let mut table = WarpTable::with_slabs(&device, 1, 1, 3).expect("memory");
    let mut batch = Batch::default();
    for key in [RESERVED_KEYS, u32::MAX, 5] {
        batch.ops.push(REPLACE);
        batch.keys.push(key);
        batch.values.push(1);
    }
    let (_, answers) = table.answer(&batch, &clock).expect("answers");
    assert_eq!(answers, [answer(FULL, 0), answer(FULL, 0), answer(INSERTED, 0)]);

    let pool = WarpPool::new(&device, 1).expect("memory");
    let (_, handles) = pool.claim(&device, 1100, &clock).expect("handles");
    let mut got: Vec<u32> = handles.iter().copied().filter(|&handle| handle != u32::MAX).collect();
    got.sort_unstable();
    assert_eq!(got, (0..1024).collect::<Vec<u32>>(), "each slab once, and no more than there are");
    assert_eq!((pool.in_use().expect("a pool"), pool.capacity()), (1024, 1024));
    // Twice the same, which is refused once; then they are there again.
    let refused = pool.release(&device, &[3, 999, 3, 17], &clock).expect("a pool");
    assert_eq!(refused, 1);
    let (_, handles) = pool.claim(&device, 4, &clock).expect("handles");
    let again: BTreeSet<u32> = handles.into_iter().filter(|&handle| handle != u32::MAX).collect();
    assert_eq!(again, BTreeSet::from([3, 17, 999]));
}
