//! Adverse input: colliding keys, batches larger than the table, empty batches, full heaps, invalid arguments.

use std::time::Instant;

use warpkeep_core::{CoreError, KeySpec, Op, Status, ValueSpec, unmix64};
use warpkeep_device::{Device, DevicePtr};
use warpkeep_gphash::gpu::{DeviceBatch, DeviceEngine, GetRows};
use warpkeep_gphash::{Geometry, Layout, Table, TableError};
use warpkeep_image::{Coherent, ImageError};

use crate::harness::{Harness, Row, Space, TIMEOUT, batch_of};
use crate::rig::{Kind, SEED, get, heap_of, put, spec_in};

/// Stages and publishes puts; returns which of them found a slot.
fn put_all(
    engine: &DeviceEngine<Coherent>,
    table: &Table<Coherent>,
    rows: &[Row],
    version: u64,
) -> Vec<bool> {
    let batch = batch_of(rows);
    let mut lock = engine.write_lock();
    let mut stage = lock.stage(table, &batch, version).unwrap();
    for (index, &status) in stage.statuses().iter().enumerate() {
        let full = status == Status::TableFull;
        assert!(full || status == Status::Created || status == Status::Ok, "{status:?}");
        assert_eq!(stage.change(index), if full { None } else { Some(false) });
    }
    let placed = stage.statuses().iter().map(|&status| status != Status::TableFull).collect();
    stage.publish().unwrap();
    placed
}

/// With one hash per key, keys whose hashes have the same upper half have the same slots.
pub(crate) fn colliding_keys_are_refused_and_others_stay_intact(device: &Device, space: Space) {
    let geometry = Geometry::new(2, 1, 16).unwrap();
    for layout in [Layout::Packed, Layout::InPlace] {
        let spec = spec_in(layout, KeySpec::U64, ValueSpec::fixed(16).unwrap(), geometry, 1000);
        let harness = Harness::over(device, Kind::Packed, Table::create(&space(200), &spec).unwrap());
        let (engine, table) = (&harness.engine, &harness.table);
        let others = harness.puts(0..300, 1);
        assert!(put_all(engine, table, &others, 1).into_iter().all(|placed| placed));
        let mut hostile = harness.puts(1000..1100, 2);
        for (number, row) in hostile.iter_mut().enumerate() {
            row.key = unmix64(SEED, 0x1234_5678_0000_0000 | number as u64).to_le_bytes().to_vec();
        }
        let placed = put_all(engine, table, &hostile, 1001);
        let count = placed.iter().filter(|&&placed| placed).count();
        assert!((1..=32).contains(&count), "{count} in the slots of two buckets");
        assert_eq!(table.len(), 300 + count as u64);
        for (row, placed) in hostile.iter().zip(&placed) {
            assert_eq!(get(table, &row.key).map(|item| item.1), placed.then(|| row.value.clone()));
        }
        // The device finds the items that the CPU has put into the overflow.
        let _write = engine.write_lock();
        for row in hostile.iter().filter(|row| get(table, &row.key).is_none()).take(4) {
            put(table, &row.key, &row.value, 2000).unwrap();
        }
        let present: Vec<_> =
            others.iter().chain(&hostile).filter(|row| get(table, &row.key).is_some()).collect();
        assert_eq!(present.len() as u64, table.len());
        let keys = present.iter().map(|row| row.key.as_slice());
        engine
            .get_many(table, keys, |index, found| {
                assert_eq!(found.map(|(_, value)| value.to_vec()).as_ref(), Some(&present[index].value));
            })
            .unwrap();
    }
}

pub(crate) fn a_batch_larger_than_the_table_is_answered_in_full(device: &Device, space: Space) {
    for kind in Kind::ALL {
        let mut harness = Harness::new(device, space, kind, Geometry::default(), 1);
        let full = harness.run(&harness.puts(0..1000, 1));
        // Two buckets, one in the level below, and the slots of the header.
        assert!((970..=976).contains(&full.len()), "{kind:?}: {}", full.len());
        harness.check(1000);
        harness.inspect();
        // After a growth by the device more keys find a slot.
        assert!(harness.finish_growth(64));
        harness.check(1000);
        harness.inspect();
        assert!(harness.run(&harness.puts(0..1000, 2)).len() < full.len());
        harness.check(1000);
        harness.reopened();
    }
}

pub(crate) fn empty_and_small_batches_work(device: &Device, space: Space) {
    for kind in Kind::ALL {
        let mut harness = Harness::new(device, space, kind, Geometry::default(), 60);
        assert!(harness.run(&[]).is_empty());
        harness
            .engine
            .get_many(&harness.table, std::iter::empty(), |_, _| panic!("no key, no answer"))
            .unwrap();
        for number in 0..5 {
            assert!(harness.run(&harness.puts([number], 1)).is_empty());
        }
        assert!(harness.run(&[]).is_empty());
        for len in [31, 32, 33] {
            assert!(harness.run(&harness.puts(0..len, 2)).is_empty());
        }
        harness.check(40);
        harness.inspect();
        harness.reopened();
    }
}

pub(crate) fn a_dropped_stage_leaves_nothing_behind(device: &Device, space: Space) {
    for kind in Kind::ALL {
        let mut harness = Harness::new(device, space, kind, Geometry::default(), 60);
        harness.run(&harness.puts(0..20, 1));
        let used = heap_of(&harness.table).usage().used_blocks();
        let rows = harness.puts(10..50, 2);
        for _ in 0..20 {
            let mut lock = harness.engine.write_lock();
            drop(lock.stage(&harness.table, &batch_of(&rows), 500).unwrap());
        }
        harness.check(60);
        harness.inspect();
        assert_eq!(heap_of(&harness.table).usage().used_blocks(), used);
        harness.reopened();
    }
}

pub(crate) fn operations_without_effect_allocate_nothing(device: &Device, space: Space) {
    let mut harness = Harness::new(device, space, Kind::Packed, Geometry::default(), 60);
    harness.run(&harness.puts(0..30, 1));
    let used = heap_of(&harness.table).usage().used_blocks();
    for op in [Op::Get, Op::Insert, Op::Update, Op::Delete, Op::CompareAndSwap] {
        // Inserts and compare-and-swaps of present keys, other operations on absent keys.
        let is_present = op == Op::Insert || op == Op::CompareAndSwap;
        let numbers = if is_present { 0..30 } else { 100..130 };
        let mut rows = harness.puts(numbers, 2);
        rows.iter_mut().for_each(|row| (row.op, row.argument) = (op, 12_345));
        for _ in 0..5 {
            assert!(harness.run(&rows).is_empty());
            assert_eq!(heap_of(&harness.table).usage().used_blocks(), used, "{op:?}");
        }
    }
    // The blocks of replaced records are freed when no reader can hold them.
    for mark in 0..50 {
        assert!(harness.run(&harness.puts(0..30, mark)).is_empty());
    }
    let begun = Instant::now();
    while heap_of(&harness.table).usage().used_blocks() > used {
        heap_of(&harness.table).reclaim();
        std::thread::yield_now();
        assert!(begun.elapsed() < TIMEOUT, "{}", heap_of(&harness.table).usage());
    }
    harness.check(140);
}

pub(crate) fn a_full_heap_refuses_batches_and_stays_intact(device: &Device, space: Space) {
    let spec =
        spec_in(Layout::Packed, KeySpec::U64, ValueSpec::fixed(1000).unwrap(), Geometry::default(), 3000);
    let table = Table::create(&space(40), &spec).unwrap();
    let harness = Harness::over(device, Kind::Packed, table);
    let (engine, table) = (&harness.engine, &harness.table);
    let rows = |from: u64, to: u64, byte: u8| {
        let mut rows = harness.puts(from..to, 0);
        rows.iter_mut().for_each(|row| row.value = vec![byte; 1000]);
        rows
    };
    let (mut count, mut batches) = (0, 0);
    let error = loop {
        let rows = rows(count, count + 100, 1);
        let batch = batch_of(&rows);
        let mut lock = engine.write_lock();
        let used = heap_of(table).usage().used_blocks();
        match lock.stage(table, &batch, 1 + count) {
            Ok(mut stage) => stage.publish().unwrap(),
            Err(error) => {
                assert_eq!(heap_of(table).usage().used_blocks(), used, "the batch has returned its blocks");
                break error;
            }
        }
        count += 100;
        batches += 1;
        assert!(batches < 1000, "the heap is never full");
    };
    assert!(matches!(error, TableError::Image(ImageError::OutOfSpace { .. })), "{error}");
    assert!(count >= 200, "{count}");
    assert_eq!(table.len(), count);
    for number in 0..count + 100 {
        let expected = (number < count).then(|| vec![1; 1000]);
        assert_eq!(get(table, &number.to_le_bytes()).map(|item| item.1), expected);
    }
    // Removals free blocks, when no reader can hold them.
    let mut removals = rows(0, 150, 0);
    removals.iter_mut().for_each(|row| row.op = Op::Delete);
    engine.write_lock().stage(table, &batch_of(&removals), 9000).unwrap().publish().unwrap();
    let begun = Instant::now();
    while heap_of(table).usage().used_blocks() > 2 + table.len() {
        heap_of(table).reclaim();
        std::thread::yield_now();
        assert!(begun.elapsed() < TIMEOUT, "{}", heap_of(table).usage());
    }
    assert!(put_all(engine, table, &rows(0, 100, 3), 9500).into_iter().all(|placed| placed));
    assert_eq!(table.len(), count - 50);
}

pub(crate) fn invalid_arguments_are_refused(device: &Device, space: Space) {
    let mut harness = Harness::new(device, space, Kind::Reference, Geometry::default(), 60);
    harness.run(&harness.puts(0..10, 1));
    let (key, value) = (harness.kind.key(1), harness.kind.value(1, 1));
    let refused = |batch: DeviceBatch<'_>| {
        let mut lock = harness.engine.write_lock();
        let error = lock.stage(&harness.table, &batch, 100).err().expect("it is invalid");
        let TableError::Core(error) = error else { panic!("{error}") };
        error
    };
    let one = |op, key, value| {
        let mut batch = DeviceBatch::default();
        batch.push(Op::Get, &[b'0'; 20], &[], 0);
        batch.push(op, key, value, 0);
        match refused(batch) {
            CoreError::Operation { index: 1, reason, .. } => *reason,
            other => panic!("{other}"),
        }
    };
    assert!(matches!(one(Op::Put, &key[..19], &value), CoreError::KeyLength { len: 19, .. }));
    assert!(matches!(one(Op::Get, &[0; 4000], &[]), CoreError::KeyLength { len: 4000, .. }));
    assert!(matches!(one(Op::Put, &key, &value[1..]), CoreError::ValueLength { len: 15, .. }));
    assert!(matches!(one(Op::Merge, &key, &[0; 5000]), CoreError::ValueLength { len: 5000, .. }));
    assert!(matches!(one(Op::Delete, &key, &[0; 5000]), CoreError::ValueLength { len: 5000, .. }));
    let mut short = DeviceBatch::default();
    short.push(Op::Put, &key, &value, 0);
    short.arguments.clear();
    assert!(matches!(refused(short), CoreError::ColumnLength { column: "arguments", found: 0, expected: 1 }));
    let error = harness.engine.get_many(&harness.table, [&key[..7]].into_iter(), |_, _| panic!("no answer"));
    assert!(matches!(error, Err(TableError::Core(CoreError::KeyLength { len: 7, .. }))));
    // More rows than kernels can number: refused before the columns are read.
    let (null, stream) = (DevicePtr::NULL, device.stream().unwrap());
    let rows = GetRows { count: 1 << 32, keys: null, statuses: null, versions: null, values: null };
    // SAFETY: the batch is refused before a column is read.
    let error = unsafe { harness.engine.get_rows(&harness.table, &rows, &stream) }.err();
    assert!(matches!(error, Some(TableError::BatchTooLarge { count: 0x1_0000_0000, .. })), "{error:?}");
    harness.check(20);
    harness.inspect();
}
