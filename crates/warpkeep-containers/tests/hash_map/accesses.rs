//! What kernels do to memory, counted on the simulator: how many buckets a lookup reads, and how many threads change one word.

use std::collections::BTreeMap;

use warpkeep_containers::{HashMap, HashMapOptions, MapOpKind, MapStatus};
use warpkeep_device::sim::{Seeded, TraceEvent, TraceKind};
use warpkeep_device::{Device, Mode};
use warpkeep_suites::device::{Container as _, report};

use crate::calls::Calls;
use crate::crowded::slots;
use crate::keys::{TestKey, TestValue};

const BUCKETS: u64 = 1 << 11;
/// Percent of the slots that have a key.
const LOADS: [u64; 5] = [50, 70, 80, 90, 95];

/// Keeps every step. Each thread runs for long, which takes least time.
fn traced() -> Device {
    let mode = Seeded { trace: true, switch_chance: 4, ..Seeded::new(1) };
    Device::simulated(Mode::Seeded(mode)).unwrap()
}

fn trace(device: &Device) -> Vec<TraceEvent> {
    device.simulator().unwrap().take_trace()
}

fn count(events: &[TraceEvent], kind: TraceKind) -> usize {
    events.iter().filter(|event| event.kind == kind).count()
}

/// How many buckets lookups of `keys` read, each on average. Beside them the kernel loads the keys.
fn buckets_read<K: TestKey, V: TestValue>(device: &Device, map: &HashMap<K, V>, keys: &[K]) -> f64 {
    trace(device);
    map.contains(keys).unwrap();
    let loads = count(&trace(device), TraceKind::Load) - keys.len();
    // Four lanes read a bucket of 64 bytes together.
    assert_eq!(loads % 4, 0);
    loads as f64 / 4.0 / keys.len() as f64
}

/// Prints how many buckets a lookup of a key that is there reads at each load, which is at most `most`.
fn hits<K: TestKey, V: TestValue>(name: &str, most: [f64; LOADS.len()]) {
    let mut means = Vec::new();
    for (load, most) in LOADS.into_iter().zip(most) {
        let device = traced();
        let all = slots::<K, V>() * BUCKETS;
        let bytes = BUCKETS * (64 + if size_of::<V>() == 16 { 16 * slots::<K, V>() } else { 0 });
        let options = HashMapOptions::default().seed(0).items(all * 95 / 100).most_bytes(bytes);
        let map = HashMap::<K, V>::new(&device, &options).unwrap();
        let keys: Vec<K> =
            (0..all * load / 100).map(|i| K::cut(i.wrapping_mul(0x9E37_79B9_7F4A_7C15))).collect();
        let answers = map.insert(&keys, &vec![V::of(1); keys.len()]).unwrap();
        let there: Vec<K> = keys
            .iter()
            .zip(&answers)
            .filter(|(_, answer)| answer.status == MapStatus::Inserted)
            .map(|(key, _)| *key)
            .collect();
        assert!(there.len() * 1000 > keys.len() * 995, "{} of {} found a slot", there.len(), keys.len());
        let mean = buckets_read(&device, &map, &there);
        // Each key that is in its second bucket costs one more, and nothing else does.
        let seconds = map.verify().unwrap();
        assert_eq!((mean * there.len() as f64).round() as u64, there.len() as u64 + seconds);
        assert!(mean <= most, "{name} at {load} %: {mean}");
        means.push(format!("{mean:.2}"));
        let absent: Vec<K> =
            (1 << 20..(1 << 20) + 100).map(|i: u64| K::cut(i.wrapping_mul(0x9E37_79B9_7F4A_7C15))).collect();
        assert_eq!(buckets_read(&device, &map, &absent), 2.0);
    }
    report(&format!("hash map {name}: {} buckets a lookup at loads of {LOADS:?} %", means.join(", ")));
}

#[test]
fn a_lookup_reads_the_second_bucket_only_of_keys_that_are_there() {
    hits::<u64, u64>("8/8", [1.06, 1.13, 1.18, 1.25, 1.31]);
    hits::<u32, u32>("4/4", [1.02, 1.06, 1.10, 1.16, 1.19]);
    hits::<u64, [u64; 2]>("8/16", [1.02, 1.06, 1.10, 1.16, 1.19]);
    hits::<u32, [u64; 2]>("4/16", [1.01, 1.02, 1.06, 1.10, 1.13]);
}

/// How often the word that is changed most often is changed.
fn most_changes(events: &[TraceEvent]) -> usize {
    let mut words = BTreeMap::new();
    for event in events.iter().filter(|event| event.kind == TraceKind::Change) {
        *words.entry((event.region, event.offset)).or_insert(0) += 1;
    }
    words.into_values().max().unwrap_or(0)
}

#[test]
fn no_word_is_changed_by_all_threads() {
    // With one word that counts the keys, 1000 threads change it, or 32 warps.
    let device = traced();
    let map = HashMap::<u64, u64>::new(&device, &HashMapOptions::default().seed(0).items(8000)).unwrap();
    let keys: Vec<u64> = (0..1000).collect();
    trace(&device);
    map.insert(&keys, &keys).unwrap();
    let inserted = most_changes(&trace(&device));
    let mut columns = [0; 2].map(|_| device.allocate(8 * keys.len()).unwrap());
    let [listed_keys, listed_values] = &mut columns;
    let listed = map.retrieve_all_on(listed_keys, listed_values, &device.stream().unwrap()).unwrap();
    // A block with 512 of the 16384 slots changes the word once.
    assert_eq!((listed, most_changes(&trace(&device))), (1000, 32));
    map.erase(&keys).unwrap();
    let erased = most_changes(&trace(&device));
    let calls = Calls::<u64, u64>::create(&device, 1000).unwrap();
    let adds: Vec<(u64, u64)> = keys[..150].iter().map(|key| (*key, 1)).collect();
    trace(&device);
    calls.call(MapOpKind::Add, &adds).unwrap();
    let called = most_changes(&trace(&device));
    assert!(inserted <= 8 && erased <= 8 && called <= 16, "{inserted}, {erased}, {called}");
}
