//! Fused writes, between other writes, against a map.

use warpkeep_core::{KeySpec, Op, Status, ValueSpec};
use warpkeep_device::{Device, DevicePtr};
use warpkeep_gphash::gpu::{FusedRows, PublishBy, WriteCounts};
use warpkeep_gphash::{Geometry, Progress, Table};

use crate::harness::{Dice, Harness, Space, batch_of};
use crate::rig::{Kind, equal_hash_keys, heap_of, put, remove, spec};

/// A test for each case, run by a function that brings the device.
macro_rules! fused_cases {
    ($on:path) => {
        all_cases! {
            $on;
            fused:
                fused_writes_agree_with_a_map, fused_writes_in_chunks_agree_with_a_map,
                fused_writes_published_by_the_host_agree_with_a_map,
                fused_writes_of_long_keys_agree_with_a_map, keys_with_equal_hashes_are_distinguished,
                duplicate_keys_take_effect_in_batch_order, freed_blocks_are_reused,
                the_next_batch_reuses_freed_blocks,
                freed_blocks_are_reused_where_the_host_stores_trailers, the_block_pool_is_refilled_ahead,
                operations_without_a_slot_fall_back_to_the_cpu, a_full_heap_refuses_fused_writes,
                blocks_of_a_panicked_batch_are_not_reused,
                tables_without_a_device_index_have_no_fused_writes
        }
    };
}

const OPS: [Op; 4] = [Op::Put, Op::Insert, Op::Update, Op::Delete];

/// Applies an operation to the model; returns the expected status.
fn expect(harness: &mut Harness, op: Op, number: u64, value: Vec<u8>, version: u64) -> Status {
    let is_present = harness.model.contains_key(&number);
    match (op, is_present) {
        (Op::Insert, true) => Status::AlreadyExists,
        (Op::Update | Op::Delete, false) => Status::NotFound,
        (Op::Delete, true) => {
            harness.model.remove(&number);
            Status::Ok
        }
        (_, is_present) => {
            harness.model.insert(number, (version, value));
            if is_present { Status::Ok } else { Status::Created }
        }
    }
}

/// Runs a fused write and checks its answers; `None` if the table refuses it. Of several operations on a key only the
/// version of the last is ever visible, so the model takes one version for each operation.
pub(crate) fn run(
    device: &Device,
    harness: &mut Harness,
    op: Op,
    numbers: &[u64],
    mark: u64,
) -> Option<WriteCounts> {
    let keys: Vec<u8> = numbers.iter().flat_map(|&number| harness.kind.key_row(number)).collect();
    let values: Vec<u8> =
        numbers.iter().zip(mark..).flat_map(|(&number, mark)| harness.kind.value(number, mark)).collect();
    let (keys, values) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
    let statuses = device.allocate_zeroed(numbers.len()).unwrap();
    let stream = device.stream().unwrap();
    let rows = FusedRows {
        op,
        count: numbers.len() as u64,
        keys: keys.ptr(),
        values: if op == Op::Delete { DevicePtr::NULL } else { values.ptr() },
        statuses: statuses.ptr(),
    };
    let first = harness.version + 1;
    // SAFETY: the columns have `count` rows and are used by this call only.
    let written =
        unsafe { harness.engine.write_lock().write_fused(&harness.table, &rows, first, &stream) }.unwrap()?;
    harness.version += numbers.len() as u64;
    let before = harness.model.len() as u64;
    let mut expected = Vec::new();
    for (index, &number) in numbers.iter().enumerate() {
        let value = harness.kind.value(number, mark + index as u64);
        expected.push(expect(harness, op, number, value, first + index as u64) as u8);
    }
    assert_eq!(statuses.to_vec::<u8>().unwrap(), expected, "{op:?} of {numbers:?}");
    assert_eq!(before + written.created - written.removed, harness.model.len() as u64, "{written:?}");
    Some(written)
}

fn indexed(device: &Device, space: Space, geometry: Geometry, capacity: u64) -> Harness {
    indexed_kind(Kind::Packed, device, space, geometry, capacity)
}

pub(crate) fn indexed_kind(
    kind: Kind,
    device: &Device,
    space: Space,
    geometry: Geometry,
    capacity: u64,
) -> Harness {
    let harness = Harness::new(device, space, kind, geometry, capacity);
    harness.engine.build_index(&harness.table).unwrap();
    harness
}

/// Random fused writes of each operation, with duplicate keys, between two-phase writes, writes by the CPU, and growth.
/// `chunk` is the number of operations of a chunk.
pub(crate) fn mixed(
    device: &Device,
    space: Space,
    kind: Kind,
    geometry: Geometry,
    seed: u64,
    batches: usize,
    (chunk, publish_by): (Option<u64>, PublishBy),
) {
    let harness = indexed_kind(kind, device, space, geometry, MIXED_KEYS / 3);
    harness.engine.adjust(|profile| profile.publish_by = publish_by);
    mixed_over(device, harness, seed, batches, chunk);
}

/// The keys of [`mixed`].
pub(crate) const MIXED_KEYS: u64 = 250;

/// As [`mixed`], with a table that has a device index.
pub(crate) fn mixed_over(
    device: &Device,
    mut harness: Harness,
    seed: u64,
    batches: usize,
    chunk: Option<u64>,
) {
    const KEYS: u64 = MIXED_KEYS;
    let mut dice = Dice::new(seed);
    if let Some(chunk) = chunk {
        harness.engine.adjust(|profile| profile.chunk_operations = chunk);
    }
    let mut fused = 0;
    for number in 0..batches as u64 {
        let op = OPS[dice.below(4) as usize];
        let count = 1 + dice.below(70);
        let numbers: Vec<u64> = (0..count).map(|_| dice.below(KEYS)).collect();
        fused += u64::from(run(device, &mut harness, op, &numbers, 1000 * number).is_some());
        match dice.below(4) {
            0 => harness.batch(&mut dice, KEYS, 30),
            1 => {
                let (number, _write) = (dice.below(KEYS), harness.engine.write_lock());
                let _relocation = harness.engine.relocation_write();
                let was_present = harness.model.remove(&number).is_some();
                assert_eq!(remove(&harness.table, &harness.kind.key(number)), was_present);
                harness.version += 1;
                let (other, value) = (dice.below(KEYS), harness.kind.value(7, number));
                put(&harness.table, &harness.kind.key(other), &value, harness.version).unwrap();
                harness.model.insert(other, (harness.version, value));
            }
            2 => {
                while harness.engine.write_lock().maintain(&harness.table, 8).unwrap() == Progress::Working {}
            }
            _ => {}
        }
        harness.check(KEYS);
    }
    assert!(fused > batches as u64 / 3, "{fused} of {batches} were fused writes");
    harness.finish_growth(64);
    harness.check(KEYS);
    harness.inspect();
    harness.reopened();
}

pub(crate) fn fused_writes_agree_with_a_map(device: &Device, space: Space) {
    for (seed, (l, h, s)) in (0..).zip([(2, 2, 8), (1, 4, 8), (4, 2, 4), (2, 1, 16), (2, 2, 8)]) {
        let kind = if seed % 2 == 0 { Kind::Packed } else { Kind::Tiled };
        mixed(device, space, kind, Geometry::new(l, h, s).unwrap(), seed, 24, (None, PublishBy::Device));
    }
}

pub(crate) fn fused_writes_of_long_keys_agree_with_a_map(device: &Device, space: Space) {
    for (seed, chunk) in (200..).zip([None, Some(9)]) {
        mixed(device, space, Kind::LongPacked, Geometry::default(), seed, 18, (chunk, PublishBy::Device));
    }
}

pub(crate) fn fused_writes_in_chunks_agree_with_a_map(device: &Device, space: Space) {
    for (seed, chunk) in (100..).zip([1, 5, 16, 40]) {
        let kind = if seed % 2 == 0 { Kind::Packed } else { Kind::Tiled };
        mixed(device, space, kind, Geometry::default(), seed, 18, (Some(chunk), PublishBy::Device));
    }
}

pub(crate) fn fused_writes_published_by_the_host_agree_with_a_map(device: &Device, space: Space) {
    let kinds = [Kind::Packed, Kind::Tiled, Kind::LongPacked, Kind::OddTiled, Kind::LongTiled, Kind::Tiled];
    for ((seed, kind), (chunk, threads)) in
        (300..).zip(kinds).zip([(1, 1), (5, 2), (16, 3), (3, 1), (9, 2), (9, 2)])
    {
        mixed(device, space, kind, Geometry::default(), seed, 18, (Some(chunk), PublishBy::Host(threads)));
    }
    mixed(device, space, Kind::Tiled, Geometry::default(), 310, 18, (Some(5), PublishBy::Host(2)));
}

pub(crate) fn duplicate_keys_take_effect_in_batch_order(device: &Device, space: Space) {
    for publish_by in [PublishBy::Device, PublishBy::Host(2)] {
        duplicate_keys_in_order(device, space, publish_by);
    }
}

fn duplicate_keys_in_order(device: &Device, space: Space, publish_by: PublishBy) {
    let mut harness = indexed(device, space, Geometry::default(), 400);
    // Some batches are one chunk, others several.
    harness.engine.adjust(|profile| profile.chunk_operations = 80);
    harness.engine.adjust(|profile| profile.publish_by = publish_by);
    // One key, a few keys, and keys of which some are present.
    for (round, op) in
        (0..).zip([Op::Put, Op::Insert, Op::Update, Op::Delete, Op::Insert, Op::Put, Op::Delete])
    {
        for numbers in [
            vec![5; 100],
            (0..200).map(|index| index % 7).collect(),
            (0..100).map(|index| index / 2 + 3).collect(),
        ] {
            let written = run(device, &mut harness, op, &numbers, 500 * round).unwrap();
            let distinct = numbers.iter().collect::<std::collections::BTreeSet<_>>().len() as u64;
            assert!(written.created + written.replaced + written.removed <= distinct, "{written:?}");
            assert_eq!(written.by_cpu, 0);
            harness.check(220);
        }
    }
    harness.inspect();
}

pub(crate) fn keys_with_equal_hashes_are_distinguished(device: &Device, space: Space) {
    let (key, value) = (KeySpec::fixed(16).unwrap(), ValueSpec::fixed(16).unwrap());
    let table = Table::create(&space(200), &spec(key, value, Geometry::default(), 400)).unwrap();
    let bytes = |key: [u64; 2]| key.map(u64::to_le_bytes).concat();
    let [one, other] = equal_hash_keys(5);
    assert!(one != other && table.lock_key(&bytes(one)) == table.lock_key(&bytes(other)));
    let harness = Harness::over(device, Kind::EqualHashes, table);
    assert!(harness.engine.build_index(&harness.table).unwrap().key_bytes > 0);
    let stream = device.stream().unwrap();
    let mut version = 0;
    let mut expected = std::collections::BTreeMap::new();
    // Both keys of a pair in one batch; one of them in the batch while the other is in the table, or absent.
    for (op, keys) in [
        (Op::Put, vec![one, other, equal_hash_keys(7)[0], one]),
        (
            Op::Insert,
            vec![
                equal_hash_keys(9)[0],
                equal_hash_keys(9)[1],
                equal_hash_keys(9)[1],
                equal_hash_keys(9)[0],
                equal_hash_keys(11)[0],
            ],
        ),
        (Op::Update, vec![other, equal_hash_keys(7)[1], equal_hash_keys(11)[1], equal_hash_keys(9)[0]]),
        (Op::Insert, vec![equal_hash_keys(11)[1], equal_hash_keys(7)[1], other]),
        (Op::Put, (1..40).flat_map(equal_hash_keys).collect()),
        // One of two present keys; both; one whose counterpart is absent.
        (Op::Delete, vec![one, equal_hash_keys(9)[1], equal_hash_keys(9)[0], equal_hash_keys(13)[0], one]),
        (Op::Put, vec![equal_hash_keys(9)[1], one, equal_hash_keys(15)[0]]),
        (Op::Delete, vec![equal_hash_keys(9)[1], equal_hash_keys(13)[0], equal_hash_keys(17)[1]]),
    ] {
        let values: Vec<u64> = (0..2 * keys.len() as u64).map(|word| version << 8 | word).collect();
        let columns = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
        let statuses = device.allocate_zeroed(keys.len()).unwrap();
        let rows = FusedRows {
            op,
            count: keys.len() as u64,
            keys: columns.0.ptr(),
            values: columns.1.ptr(),
            statuses: statuses.ptr(),
        };
        // SAFETY: the columns have `count` rows and are used by this call only.
        unsafe { harness.engine.write_lock().write_fused(&harness.table, &rows, version + 1, &stream) }
            .unwrap()
            .expect("a fused write");
        let mut answers = Vec::new();
        for (key, value) in keys.iter().zip(values.chunks_exact(2)) {
            let is_present = expected.contains_key(key);
            let (status, writes) = match (op, is_present) {
                (Op::Insert, true) => (Status::AlreadyExists, false),
                (Op::Update | Op::Delete, false) => (Status::NotFound, false),
                (Op::Delete, true) => {
                    expected.remove(key);
                    (Status::Ok, false)
                }
                (_, is_present) => (if is_present { Status::Ok } else { Status::Created }, true),
            };
            if writes {
                expected.insert(*key, value.to_vec());
            }
            answers.push(status as u8);
        }
        assert_eq!(statuses.to_vec::<u8>().unwrap(), answers, "{op:?} of {keys:?}");
        version += keys.len() as u64;
        check_equal_hashes(&harness, &expected, &format!("after {op:?}"));
    }
    // The CPU's changes reach the device index by hash, through the change feed.
    let lock = harness.engine.write_lock();
    for key in
        [equal_hash_keys(19)[0], equal_hash_keys(21)[1], equal_hash_keys(23)[0], equal_hash_keys(23)[1]]
    {
        let (key, words) = (bytes(key), key);
        let lock = harness.table.lock_key(&key);
        let mut stage = harness.table.stage([lock]);
        let seat = stage.seat(&key, lock);
        assert!(stage.remove(&seat));
        stage.publish();
        expected.remove(&words);
    }
    drop(lock);
    check_equal_hashes(&harness, &expected, "after the CPU");
}

/// Looks all such keys up.
fn check_equal_hashes(
    harness: &Harness,
    expected: &std::collections::BTreeMap<[u64; 2], Vec<u64>>,
    when: &str,
) {
    let bytes = |key: [u64; 2]| key.map(u64::to_le_bytes).concat();
    let all: Vec<([u64; 2], Vec<u8>)> =
        (1..40).flat_map(equal_hash_keys).map(|key| (key, bytes(key))).collect();
    for (ordered_from, small_to) in [(usize::MAX, 0), (0, 0), (usize::MAX, usize::MAX)] {
        harness.engine.adjust(|profile| profile.ordered_from = ordered_from);
        harness.engine.adjust(|profile| profile.located_at_once_to = small_to);
        let found =
            harness.engine.get_many(&harness.table, all.iter().map(|key| &key.1[..]), |index, found| {
                let value = found.map(|(_, value)| bytemuck::pod_collect_to_vec::<u8, u64>(value));
                assert_eq!(
                    value.as_ref(),
                    expected.get(&all[index].0),
                    "{when}, {ordered_from}: {:?}",
                    all[index].0
                );
            });
        found.unwrap();
    }
}

pub(crate) fn freed_blocks_are_reused(device: &Device, space: Space) {
    for kind in [Kind::Packed, Kind::Tiled] {
        freed_blocks_of_a_kind_are_reused(kind, device, space, PublishBy::Device);
    }
}

/// The next batch takes the blocks that a batch frees, if no reader delays them.
pub(crate) fn the_next_batch_reuses_freed_blocks(device: &Device, space: Space) {
    const ITEMS: u64 = 1000;
    let mut harness = indexed_kind(Kind::Tiled, device, space, Geometry::default(), 1500);
    let numbers: Vec<u64> = (0..ITEMS).collect();
    for round in 0..12 {
        run(device, &mut harness, Op::Put, &numbers, round).unwrap();
    }
    // The pool holds blocks for two batches. Without reuse by the next batch, blocks of a further batch would be in
    // use.
    let used = heap_of(&harness.table).usage().used_blocks();
    assert!(used < 3 * ITEMS + ITEMS / 2, "{used} blocks are in use for {ITEMS} items");
}

/// In chunks. Reused blocks lie among blocks in use, so the trailers that the host stores are scattered.
pub(crate) fn freed_blocks_are_reused_where_the_host_stores_trailers(device: &Device, space: Space) {
    for kind in [Kind::Tiled, Kind::OddTiled, Kind::LongTiled] {
        freed_blocks_of_a_kind_are_reused(kind, device, space, PublishBy::Host(2));
    }
}

fn freed_blocks_of_a_kind_are_reused(kind: Kind, device: &Device, space: Space, publish_by: PublishBy) {
    let mut harness = indexed_kind(kind, device, space, Geometry::default(), 1500);
    harness.engine.adjust(|profile| profile.publish_by = publish_by);
    harness.engine.adjust(|profile| {
        profile.chunk_operations = if publish_by == PublishBy::Device { 1 << 16 } else { 70 }
    });
    let numbers: Vec<u64> = (0..1000).collect();
    run(device, &mut harness, Op::Put, &numbers, 0).unwrap();
    for round in 1..60 {
        // A third of the items stays, so reused blocks lie among blocks in use.
        let numbers: Vec<u64> =
            numbers.iter().copied().filter(|number| !(number ^ round).is_multiple_of(3)).collect();
        run(device, &mut harness, Op::Update, &numbers, round).unwrap();
        let used = heap_of(&harness.table).usage().used_blocks();
        assert!(used < 30 * 1000, "round {round}: {used} blocks are in use");
    }
    harness.check(1100);
    harness.inspect();
    // The pool returns its blocks to the heap.
    let Harness { table, engine, image, .. } = harness;
    drop((engine, image));
    for _ in 0..8 {
        heap_of(&table).reclaim();
    }
    let used = heap_of(&table).usage().used_blocks();
    assert!(used < 30 * 1000, "{used}");
}

/// Some of its slot words are in the image and refer to its blocks, which the next batch must not take.
pub(crate) fn blocks_of_a_panicked_batch_are_not_reused(device: &Device, space: Space) {
    const KEYS: u64 = 200;
    let mut harness = indexed_kind(Kind::Packed, device, space, Geometry::default(), 1500);
    harness.engine.adjust(|profile| profile.chunk_operations = 20);
    let numbers: Vec<u64> = (0..KEYS).collect();
    run(device, &mut harness, Op::Put, &numbers, 0).unwrap();
    let stores = std::sync::atomic::AtomicU64::new(0);
    harness.engine.observe_publish(move |_| {
        let before = stores.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        assert!(before < KEYS / 2, "the test stops the batch here");
    });
    let mut interrupted = || run(device, &mut harness, Op::Update, &numbers, 1000);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(&mut interrupted)).is_err());
    // The batch has used its versions.
    harness.version += KEYS;
    harness.engine.adjust(|profile| profile.publish_by = PublishBy::Device);
    let values = |harness: &Harness| -> Vec<Vec<u8>> {
        let value =
            |&number: &u64| harness.table.get(&harness.kind.key(number), |value| value.bytes().to_vec());
        numbers.iter().map(|number| value(number).expect("it is present")).collect()
    };
    let before = values(&harness);
    let changed = numbers
        .iter()
        .filter(|&&number| before[number as usize] == harness.kind.value(number, 1000 + number));
    assert!((1..KEYS as usize).contains(&changed.count()));
    let more: Vec<u64> = (KEYS..3 * KEYS).collect();
    run(device, &mut harness, Op::Put, &more, 5000).unwrap();
    assert_eq!(values(&harness), before);
}

pub(crate) fn the_block_pool_is_refilled_ahead(device: &Device, space: Space) {
    let mut harness = indexed(device, space, Geometry::default(), 8000);
    harness.engine.refill_ahead();
    harness.engine.refill_ahead();
    for first in (0..4000).step_by(500) {
        let numbers: Vec<u64> = (first..first + 500).collect();
        run(device, &mut harness, Op::Put, &numbers, first).unwrap();
    }
    harness.check(4100);
    harness.inspect();
    assert!(heap_of(&harness.table).usage().used_blocks() >= 4000);
    let Harness { table, engine, image, .. } = harness;
    drop((engine, image));
    let used = heap_of(&table).usage().used_blocks();
    // Header, levels, and one block per item.
    assert!((4000..4010).contains(&used), "{used} blocks are in use: the pool kept blocks");
}

pub(crate) fn operations_without_a_slot_fall_back_to_the_cpu(device: &Device, space: Space) {
    let mut harness = indexed(device, space, Geometry::default(), 1);
    let mut by_cpu = 0;
    for first in (0..600).step_by(60) {
        let numbers: Vec<u64> = (first..first + 60).flat_map(|number| [number, number]).collect();
        match run(device, &mut harness, Op::Put, &numbers, first) {
            Some(written) => by_cpu += written.by_cpu,
            None => {
                harness.finish_growth(64);
                run(device, &mut harness, Op::Put, &numbers, first).expect("the growth has finished");
            }
        }
        harness.check(first + 100);
    }
    assert!(by_cpu > 0, "every operation found a slot");
    harness.finish_growth(64);
    harness.inspect();
}

pub(crate) fn a_full_heap_refuses_fused_writes(device: &Device, _: Space) {
    let mut harness = indexed(device, |_| crate::rig::heap(24), Geometry::default(), 2000);
    let (mut first, mut refusals) = (0, 0);
    // A refusal means that the heap has no whole slab, or that the table grows, which ends.
    while refusals < 40 {
        let numbers: Vec<u64> = (first..first + 500).collect();
        let keys: Vec<u8> = numbers.iter().flat_map(|&number| harness.kind.key(number)).collect();
        let values: Vec<u8> = numbers.iter().flat_map(|&number| harness.kind.value(number, 1)).collect();
        let (keys, values) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
        let (statuses, stream) = (device.allocate_zeroed(500).unwrap(), device.stream().unwrap());
        let rows = FusedRows {
            op: Op::Put,
            count: 500,
            keys: keys.ptr(),
            values: values.ptr(),
            statuses: statuses.ptr(),
        };
        // SAFETY: the columns have `count` rows and are used by this call only.
        let written = unsafe {
            harness.engine.write_lock().write_fused(&harness.table, &rows, harness.version + 1, &stream)
        };
        if written.unwrap().is_none() {
            harness.finish_growth(64);
            refusals += 1;
            continue;
        }
        let statuses = statuses.to_vec::<u8>().unwrap();
        // There can be blocks for records, but no space for the growth of a full table.
        let is_refused = statuses.iter().all(|&status| status == Status::OutOfSpace as u8);
        for (&number, status) in numbers.iter().zip(statuses) {
            harness.version += 1;
            // Operations that fall back to the CPU are refused one by one if there is no block.
            if status == Status::OutOfSpace as u8 {
                continue;
            }
            assert_eq!(status, Status::Created as u8, "{number}");
            harness.model.insert(number, (harness.version, harness.kind.value(number, 1)));
        }
        (first, refusals) = (first + 500, if is_refused { refusals + 1 } else { 0 });
        assert!(first < 1_000_000, "a small heap accepts every batch");
    }
    assert!(first > 0);
    // A two-phase write uses the remaining blocks and is then refused.
    let rows = harness.puts(first..first + 100_000, 1);
    let (batch, version) = (batch_of(&rows), harness.version + 1);
    let refused = match harness.engine.write_lock().stage(&harness.table, &batch, version) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("a small heap accepts every batch"),
    };
    assert!(refused.contains("space") || refused.contains("full"), "{refused}");
    harness.check(first + 600);
    harness.inspect();
}

pub(crate) fn tables_without_a_device_index_have_no_fused_writes(device: &Device, space: Space) {
    let mut harness = Harness::new(device, space, Kind::Packed, Geometry::default(), 100);
    assert_eq!(run(device, &mut harness, Op::Put, &[1, 2, 3], 0), None);
    harness.engine.build_index(&harness.table).unwrap();
    assert!(run(device, &mut harness, Op::Put, &[1, 2, 3], 0).is_some());
    assert!(run(device, &mut harness, Op::Put, &[], 0).is_some());
    harness.engine.drop_index(&harness.table);
    assert_eq!(run(device, &mut harness, Op::Put, &[1, 2, 3], 0), None);
    harness.check(10);
    let mut other = Harness::new(device, space, Kind::Reference, Geometry::default(), 100);
    other.engine.build_index(&other.table).unwrap();
    assert_eq!(run(device, &mut other, Op::Put, &[1, 2, 3], 0), None);
}
