//! Maps that are open for kernels: the host's side, memory, and orders of keys that make leaves split in one place.

use warpkeep_containers::{
    ContainerError, OrderedKey, OrderedMap, OrderedMapOptions, OrderedOp, OrderedStatus, OrderedWord,
};
use warpkeep_device::sim::Seeded;
use warpkeep_device::{Device, Mode};
use warpkeep_suites::device::{Load, compare_with_model, wrong_schedule};

use crate::changes::{Change, NarrowChanges, WidestChanges, explain, kernel, run_ops};
use crate::model::{Model, check_answers, check_contents};

/// A map, what it should have, and kernels that change it.
struct Scene<K, V> {
    device: Device,
    map: OrderedMap<K, V>,
    model: Model<K, V>,
}

impl<K: OrderedKey<V>, V: OrderedWord> Scene<K, V> {
    fn new(mode: Mode, options: &OrderedMapOptions) -> Self {
        let device = Device::simulated(mode).unwrap();
        let map = OrderedMap::new(&device, options).unwrap();
        Self { device, map, model: Model::new() }
    }

    /// Runs operations in one kernel of one writer.
    fn run(&mut self, ops: &[OrderedOp<K, V>], each: u64) -> Vec<Change<V>> {
        let writer = self.map.writer(ops.len() as u64).unwrap();
        let kernel = kernel::<K>(&self.device).unwrap();
        let changes = run_ops(&self.device, &kernel, &writer, ops, each, true).unwrap();
        writer.finish().unwrap();
        explain(&mut self.model, ops, &changes).unwrap();
        check_contents(&self.map, &self.model).unwrap();
        changes
    }
}

/// As fast as the simulator goes.
fn scene() -> Scene<u64, u64> {
    Scene::new(Mode::fast(), &OrderedMapOptions::default())
}

#[test]
fn keys_of_all_widths_are_changed_alike() {
    let device = Device::simulated(Mode::fast()).unwrap();
    let load = Load { seed: 4, batches: 6, operations: 3000 };
    compare_with_model::<NarrowChanges>(&device, load).unwrap();
    compare_with_model::<WidestChanges>(&device, load).unwrap();
    assert_eq!(wrong_schedule::<NarrowChanges>(16), None);
    assert_eq!(wrong_schedule::<WidestChanges>(16), None);
}

#[test]
fn keys_that_come_in_order_or_in_reverse_split_leaves_in_one_place() {
    for is_reverse in [false, true] {
        for each in [1, 40] {
            let mut scene = scene();
            scene.map.insert(&[1 << 40], &[1]).unwrap();
            scene.model.insert(1 << 40, 1);
            let key = |i: u64| if is_reverse { u64::MAX - i } else { i };
            let ops: Vec<_> = (0..4000).map(|i| OrderedOp::insert(key(i), i)).collect();
            let changes = scene.run(&ops, each);
            assert!(changes.iter().all(|change| change.status == OrderedStatus::Inserted));
            let stats = scene.map.stats().unwrap();
            assert!(stats.load > 0.45, "{is_reverse}, {each} a thread: {stats:?}");
            // Memory that was reserved and not used is free.
            scene.map.erase(&scene.model.keys().copied().collect::<Vec<u64>>()).unwrap();
            let stats = scene.map.stats().unwrap();
            assert_eq!((stats.items, stats.leaves, stats.retired_leaves), (0, 0, 0));
        }
    }
}

#[test]
fn leaves_that_become_many_are_found_in_few_steps() {
    let steps = |count: u64, is_sorted: bool| {
        let mode = Seeded { switch_chance: 100, ..Seeded::new(count) };
        let mut scene = Scene::<u64, u64>::new(Mode::Seeded(mode), &OrderedMapOptions::default());
        // Every third operation looks up a key that is added by another thread.
        let key = |i: u64| if is_sorted { i } else { i.wrapping_mul(0x9E37_79B9_7F4A_7C15) };
        let op = |i: u64| if i % 3 == 2 { OrderedOp::find(key(i / 2)) } else { OrderedOp::insert(key(i), i) };
        let writer = scene.map.writer(count).unwrap();
        let (kernel, ops) = (kernel::<u64>(&scene.device).unwrap(), (0..count).map(op).collect::<Vec<_>>());
        let before = scene.device.last_run().map_or(0, |run| run.now);
        let changes = run_ops(&scene.device, &kernel, &writer, &ops, 3, true).unwrap();
        let steps = scene.device.last_run().unwrap().now - before;
        writer.finish().unwrap();
        explain(&mut scene.model, &ops, &changes).unwrap();
        check_contents(&scene.map, &scene.model).unwrap();
        steps
    };
    // Without nodes above the leaves, of which the map has one at first, each key would be looked for in half of them.
    for is_sorted in [false, true] {
        let (few, many) = (steps(300, is_sorted), steps(2400, is_sorted));
        assert!(many < 16 * few, "{few} steps for 300 operations, {many} for 2400");
    }
}

#[test]
fn no_lane_waits_for_another_one_of_its_warp() {
    // All operations meet in one leaf. Lanes run alone for long, or are interrupted at every access; one that waits for another for long counts as running
    // away.
    for (seed, switch_chance) in [(1, 1), (2, 1), (3, 20), (4, 1023)] {
        let mode = Seeded { switch_chance, step_limit: 1 << 16, ..Seeded::new(seed) };
        let mut scene = Scene::<u64, u64>::new(Mode::Seeded(mode), &OrderedMapOptions::default());
        for round in 0..3 {
            let op = |i: u64| match (i + round) % 3 {
                0 => OrderedOp::add(i % 24, 1),
                1 => OrderedOp::put(i % 24, i),
                _ => OrderedOp::erase(i % 24),
            };
            scene.run(&(0..96).map(op).collect::<Vec<_>>(), 1);
        }
    }
}

#[test]
fn without_memory_an_operation_is_answered_full_and_changes_nothing() {
    // Room for some hundred leaves of 256 bytes.
    let mut scene = Scene::<u64, u64>::new(Mode::fast(), &OrderedMapOptions::default().most_bytes(256 * 300));
    let (mut full, mut rounds) = (0, 0);
    while full < 800 {
        let ops: Vec<_> =
            (0..400).map(|i| OrderedOp::put(i * 0x9E37_79B9 % 9001 + 10_000 * rounds, i)).collect();
        let changes = scene.run(&ops, 3);
        full += changes.iter().filter(|change| change.status == OrderedStatus::Full).count();
        rounds += 1;
        assert!(rounds < 60, "it has room for {} pairs", scene.map.len());
    }
    assert!(scene.map.len() > 1000, "{} pairs", scene.map.len());
    // Erasing needs memory for the copies of leaves, which batches find in the part that is left for them.
    let keys: Vec<u64> = scene.model.keys().copied().collect();
    for keys in keys.chunks(400) {
        scene.map.erase(keys).unwrap();
    }
    scene.model.clear();
    let changes = scene.run(&(0..400).map(|i| OrderedOp::insert(i, i)).collect::<Vec<_>>(), 1);
    assert!(changes.iter().all(|change| change.status == OrderedStatus::Inserted));
}

#[test]
fn others_see_the_state_before_until_the_writer_is_finished() {
    let mut scene = scene();
    let keys: Vec<u64> = (0..500).map(|i| 5 * i).collect();
    scene.map.insert(&keys, &keys).unwrap();
    scene.model = keys.iter().map(|key| (*key, *key)).collect();
    let (before, snapshot) = (scene.model.clone(), scene.map.snapshot());
    let kernel = kernel::<u64>(&scene.device).unwrap();
    let ops: Vec<_> =
        (0..2500).map(|i| if i % 2 == 0 { OrderedOp::erase(i) } else { OrderedOp::put(i, 1) }).collect();

    let writer = scene.map.writer(2500).unwrap();
    assert!(writer.leaves() >= 2500);
    let changes = run_ops(&scene.device, &kernel, &writer, &ops, 1, true).unwrap();
    assert!(scene.map.retrieve_all().unwrap().into_iter().eq(before.clone()), "it is not finished");
    scene.map.verify().unwrap();
    scene.map.stats().unwrap();
    assert!(matches!(scene.map.insert(&[1], &[1]), Err(ContainerError::BeingWritten)));
    assert!(matches!(scene.map.writer(1), Err(ContainerError::BeingWritten)));
    writer.finish().unwrap();
    explain(&mut scene.model, &ops, &changes).unwrap();
    check_contents(&scene.map, &scene.model).unwrap();
    assert!(snapshot.retrieve_all().unwrap().into_iter().eq(before.clone()), "a snapshot stays");
    assert!(scene.map.stats().unwrap().retired_leaves > 0);

    // What was kept for the snapshot is free when it is dropped; a writer that is dropped has changed nothing.
    drop(snapshot);
    assert_eq!(scene.map.stats().unwrap().retired_leaves, 0);
    let writer = scene.map.writer(2500).unwrap();
    run_ops(&scene.device, &kernel, &writer, &ops[..100], 1, true).unwrap();
    drop(writer);
    check_contents(&scene.map, &scene.model).unwrap();
    scene.map.writer(0).unwrap().finish().unwrap();
    scene.map.insert(&[3], &[3]).unwrap();
}

#[test]
fn an_empty_map_is_filled_and_emptied_and_its_memory_is_used_again() {
    let mut scene = scene();
    let mut bytes = Vec::new();
    for round in 0..6_u64 {
        let ends = [OrderedOp::put(0, 7), OrderedOp::put(u64::MAX, 8), OrderedOp::find(u64::MAX)];
        let ops: Vec<_> = (0..600).map(|i| OrderedOp::insert(i << 50, round)).chain(ends).collect();
        scene.run(&ops, 1);
        let ops: Vec<_> = scene.model.keys().map(|key| OrderedOp::erase(*key)).collect();
        let changes = scene.run(&ops, 1);
        assert!(changes.iter().all(|change| change.status == OrderedStatus::Erased));
        assert_eq!((scene.map.len(), scene.map.stats().unwrap().leaves), (0, 0));
        bytes.push(scene.map.stats().unwrap().bytes);
    }
    // How many leaves threads take depends on their order; a round that kept its leaves would take more than 10 KiB.
    assert!(bytes[5] < bytes[0] + (8 << 10), "{bytes:?}");
    let on_cpu = OrderedMap::<u64, u64>::on_cpu(&OrderedMapOptions::default());
    assert!(matches!(on_cpu.writer(1), Err(ContainerError::OnCpu { .. })));
    assert!(matches!(scene.map.writer(u64::MAX), Err(ContainerError::TooLarge { .. })));
}

#[test]
fn a_batch_that_only_reads_is_answered_while_the_map_is_open_for_kernels() {
    let scene = scene();
    scene.map.insert(&[10, 20, 30], &[1, 2, 3]).unwrap();
    let writer = scene.map.writer(10).unwrap();
    let ops = [
        OrderedOp::find(20),
        OrderedOp::range(5, 25),
        OrderedOp::successor(20),
        OrderedOp::count(0, 99),
        OrderedOp::find(11),
    ];
    let mut model = Model::from([(10, 1), (20, 2), (30, 3)]);
    check_answers(&mut model, &ops, &scene.map.apply(&ops).unwrap()).unwrap();
    assert_eq!(scene.map.apply(&ops[..1]).unwrap()[0].value, 2);
    let changes = [ops[0], OrderedOp::erase(20)];
    assert!(matches!(scene.map.apply(&changes), Err(ContainerError::BeingWritten)));
    writer.finish().unwrap();
    check_contents(&scene.map, &model).unwrap();
}

#[test]
fn short_memory_is_noticed_in_every_order_of_threads() {
    let mut full = 0;
    for seed in 0..12 {
        let options = OrderedMapOptions::default().most_bytes(256 * 90);
        let mut scene = Scene::<u64, u64>::new(Mode::seeded(seed), &options);
        for round in 0..4 {
            let op = |i: u64| match (i + round) % 5 {
                0 => OrderedOp::erase(i % 60),
                1 => OrderedOp::add(i % 50, 1),
                2 => OrderedOp::find(i % 60),
                _ => OrderedOp::put(i * 0x9E37_79B9 % 500, i),
            };
            let changes = scene.run(&(0..300).map(op).collect::<Vec<_>>(), 1);
            full += changes.iter().filter(|change| change.status == OrderedStatus::Full).count();
        }
    }
    assert!(full > 50, "{full} operations found no memory");
}

#[test]
fn operations_that_were_refused_are_repeated_with_the_next_writer() {
    // Leaves without room for one more pair: 14 pairs are 11 and three more.
    let mut scene = Scene::<u64, u64>::new(Mode::fast(), &OrderedMapOptions::default());
    let keys: Vec<u64> = (0..110).map(|i| 1000 * i).collect();
    scene.map.insert(&keys, &keys).unwrap();
    let more: Vec<u64> = (0..110).filter(|i| i % 11 < 3).map(|i| 1000 * i + 1).collect();
    scene.map.insert(&more, &more).unwrap();
    scene.model.extend(keys.iter().chain(&more).map(|key| (*key, *key)));
    let stats = scene.map.stats().unwrap();
    assert!(stats.load > 0.99, "{stats:?}");
    let mut left: Vec<_> = (0..1100).map(|i| OrderedOp::insert(100 * i + 50, i)).collect();
    let kernel = kernel::<u64>(&scene.device).unwrap();
    let mut rounds = 0;
    while !left.is_empty() {
        // Memory for few of them.
        let writer = scene.map.writer(10).unwrap();
        let changes = run_ops(&scene.device, &kernel, &writer, &left, 3, true).unwrap();
        writer.finish().unwrap();
        explain(&mut scene.model, &left, &changes).unwrap();
        check_contents(&scene.map, &scene.model).unwrap();
        let full = |change: &Change<u64>| change.status == OrderedStatus::Full;
        let before = left.len();
        left = left.iter().zip(&changes).filter(|(_, change)| full(change)).map(|(op, _)| *op).collect();
        assert!(left.len() < before, "no operation was done in round {rounds}");
        rounds += 1;
    }
    assert!(rounds > 2, "{rounds} rounds");
    assert_eq!(scene.map.len(), 140 + 1100);
}
