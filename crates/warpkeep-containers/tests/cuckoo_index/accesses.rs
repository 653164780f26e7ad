//! What kernels do to memory, counted on the simulator: how many threads change one word, and how many lines are read.

use std::collections::BTreeMap;

use warpkeep_containers::{CuckooIndex, CuckooIndexOptions, IndexEntry, IndexOp};
use warpkeep_device::sim::{Seeded, TraceEvent, TraceKind};
use warpkeep_device::{Device, Mode};
use warpkeep_suites::device::Container as _;

use crate::calls::Calls;

/// Keeps every step. Each thread runs for long, which takes least time.
fn traced() -> Device {
    let mode = Seeded { trace: true, switch_chance: 4, ..Seeded::new(1) };
    Device::simulated(Mode::Seeded(mode)).unwrap()
}

fn trace(device: &Device) -> Vec<TraceEvent> {
    device.simulator().unwrap().take_trace()
}

/// How often the word that is changed most often is changed.
fn most_changes(device: &Device) -> usize {
    let mut words = BTreeMap::new();
    for event in trace(device).iter().filter(|event| event.kind == TraceKind::Change) {
        *words.entry((event.region, event.offset)).or_insert(0) += 1;
    }
    words.into_values().max().unwrap_or(0)
}

/// Of which all bits are good: multiples of one number have evenly spread first buckets.
fn hashes(count: u64) -> Vec<u64> {
    let mix = |i: u64| {
        let x = i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x ^ (x >> 27)
    };
    (1..=count).map(mix).collect()
}

#[test]
fn no_word_is_changed_by_all_threads() {
    // With one word that counts the entries, 1000 threads change it, or 32 warps.
    let device = traced();
    let index = CuckooIndex::new(&device, &CuckooIndexOptions::default().items(8000)).unwrap();
    let (hashes, locations) = (hashes(1000), (0..1000).collect::<Vec<u32>>());
    trace(&device);
    index.insert(&hashes, &locations).unwrap();
    let inserted = most_changes(&device);
    let replaces: Vec<IndexOp> = hashes.iter().map(|hash| IndexOp::insert(*hash, 7)).collect();
    index.apply(&replaces).unwrap();
    let applied = most_changes(&device);
    index.delete(&hashes, &locations).unwrap();
    let deleted = most_changes(&device);
    let mut calls = Calls::create(&device, 4000).unwrap();
    let inserts: Vec<IndexOp> = hashes.iter().zip(0..).map(|(hash, at)| IndexOp::insert(*hash, at)).collect();
    trace(&device);
    calls.run(&inserts).unwrap();
    let called = most_changes(&device);
    let counted = [inserted, applied, deleted, called];
    assert!(counted.iter().all(|most| *most <= 16), "{counted:?}");
    assert_eq!(index.len().unwrap(), 1000);
}

#[test]
fn a_search_reads_two_lines() {
    let device = traced();
    let index = CuckooIndex::new(&device, &CuckooIndexOptions::default().items(1000)).unwrap();
    let hashes = hashes(640);
    index.insert(&hashes, &[1; 640]).unwrap();
    trace(&device);
    index.search(&hashes).unwrap();
    let loads = trace(&device).iter().filter(|event| event.kind == TraceKind::Load).count();
    // The hash, and two lines that four lanes read together.
    assert_eq!(loads, 640 * (1 + 2 * 4));
}

#[test]
fn a_deletion_reads_the_second_line_only_of_entries_that_are_there() {
    let device = traced();
    let index = CuckooIndex::new(&device, &CuckooIndexOptions::default().items(1000)).unwrap();
    let hashes = hashes(640);
    for some in hashes.chunks(40) {
        index.insert(some, &[1; 40]).unwrap();
    }
    let entries = index.entries().unwrap();
    let first = |hash: &u64| {
        let is_there = |entry: &IndexEntry| entry.signature == CuckooIndex::signature_of(*hash);
        entries.iter().any(|entry| is_there(entry) && entry.bucket == index.buckets_of(*hash)[0])
    };
    let in_first = hashes.iter().filter(|hash| first(hash)).count();
    assert!((320..600).contains(&in_first), "{in_first}");
    trace(&device);
    index.delete(&hashes, &[1; 640]).unwrap();
    let loads = trace(&device).iter().filter(|event| event.kind == TraceKind::Load).count();
    // Beside the lines the hash and, in two places, the location.
    assert_eq!(loads, 640 * (3 + 2 * 4) - 4 * in_first);
}
