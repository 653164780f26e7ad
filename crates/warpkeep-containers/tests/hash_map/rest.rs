//! Insertions of keys without a slot, of which no other operation of the batch found one: alone, and twice in the batch.

use warpkeep_containers::{HashMap, HashMapOptions, MapOp, MapOpKind};
use warpkeep_device::sim::Seeded;
use warpkeep_device::{Device, Mode};

use crate::crowded::slots;
use crate::keys::{TestKey, TestValue};
use crate::model::{Model, check_answers, check_contents};

/// In many schedules; gives what is wrong in the first that is.
pub(crate) fn wrong_rest<K: TestKey, V: TestValue>(schedules: u64) -> Option<String> {
    (0..schedules).find_map(|seed| {
        let wrong = run::<K, V>(seed).err()?;
        Some(format!("in the schedule of seed {seed}: {wrong}"))
    })
}

fn run<K: TestKey, V: TestValue>(seed: u64) -> Result<(), String> {
    let mode = Seeded { switch_chance: 400, ..Seeded::new(seed) };
    let device = Device::simulated(Mode::Seeded(mode)).map_err(|error| error.to_string())?;
    let slots = slots::<K, V>();
    // 64 buckets.
    let options = HashMapOptions::default().seed(0).items(50 * slots);
    let map = HashMap::<K, V>::new(&device, &options).map_err(|error| error.to_string())?;
    let mut model = Model::new();
    let mut insert = |keys: Vec<K>| -> Result<(), String> {
        let values: Vec<V> = (0..keys.len()).map(|at| V::of(at as u64)).collect();
        let ops: Vec<MapOp<K, V>> = keys
            .iter()
            .zip(&values)
            .map(|(key, value)| MapOp::new(MapOpKind::Insert, *key, *value))
            .collect();
        let answers = map.insert(&keys, &values).map_err(|error| error.to_string())?;
        check_answers(&mut model, &ops, &answers)?;
        check_contents(&map, &model).map_err(|error| error.to_string())
    };
    // Two buckets are full of keys that can be elsewhere.
    insert((0..slots).flat_map(|i| [K::in_buckets(0, 5, i), K::in_buckets(1, 6, i)]).collect())?;
    // The keys of these two buckets alone displace them: all different, then with repetitions. Others find slots at once.
    let bound = |number: u64| K::in_buckets(0, 1, 100 + number);
    let others = |from: u64| (from..from + 30).map(|i| K::in_buckets(8 + 2 * (i % 26), 41, i));
    insert([bound(0), bound(1), bound(2)].into_iter().chain(others(100)).collect())?;
    let repeated = [bound(3), bound(4), bound(3), bound(4), bound(3)];
    insert(repeated.into_iter().chain(others(200)).collect())
}
