//! Up against the wall: colliding keys, batches larger than the table, empty ones, no space, arguments that do not fit.

use std::time::Instant;

use warpkeep_core::{CoreError, KeySpec, Op, Status, ValueSpec, unmix64};
use warpkeep_device::{Device, DevicePtr};
use warpkeep_gphash::gpu::{DeviceBatch, DeviceEngine, GetRows};
use warpkeep_gphash::{Geometry, Layout, Table, TableError};
use warpkeep_image::{Coherent, ImageError};

use crate::bench::{Bench, PATIENCE, Row, Space, batch_of};
use crate::rig::{Kind, SEED, get, heap_of, put, spec_in};

/// Stages and publishes puts; gives which found a place.
fn put_all(
    engine: &DeviceEngine<Coherent>,
    table: &Table<Coherent>,
    rows: &[Row],
    version: u64,
) -> Vec<bool> {
    let batch = batch_of(rows);
    let mut turn = engine.turn();
    let mut stage = turn.stage(table, &batch, version).unwrap();
    for (index, &status) in stage.statuses().iter().enumerate() {
        let full = status == Status::TableFull;
        assert!(full || status == Status::Created || status == Status::Ok, "{status:?}");
        assert_eq!(stage.change(index), if full { None } else { Some(false) });
    }
    let placed = stage.statuses().iter().map(|&status| status != Status::TableFull).collect();
    stage.publish().unwrap();
    placed
}

/// With one hash location, keys whose hashes have the same upper half all have the same slots.
pub(crate) fn colliding_keys_are_told_and_harm_nobody(device: &Device, space: Space) {
    let geometry = Geometry::new(2, 1, 16).unwrap();
    for layout in [Layout::Packed, Layout::InPlace] {
        let spec = spec_in(layout, KeySpec::U64, ValueSpec::fixed(16).unwrap(), geometry, 1000);
        let bench = Bench::over(device, Kind::Packed, Table::create(&space(200), &spec).unwrap());
        let (engine, table) = (&bench.engine, &bench.table);
        let innocent = bench.puts(0..300, 1);
        assert!(put_all(engine, table, &innocent, 1).into_iter().all(|placed| placed));
        let mut hostile = bench.puts(1000..1100, 2);
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
        // What the CPU finds a place for, the device finds.
        let _turn = engine.turn();
        for row in hostile.iter().filter(|row| get(table, &row.key).is_none()).take(4) {
            put(table, &row.key, &row.value, 2000).unwrap();
        }
        let there: Vec<_> =
            innocent.iter().chain(&hostile).filter(|row| get(table, &row.key).is_some()).collect();
        assert_eq!(there.len() as u64, table.len());
        let keys = there.iter().map(|row| row.key.as_slice());
        engine
            .get_many(table, keys, |index, found| {
                assert_eq!(found.map(|(_, value)| value.to_vec()).as_ref(), Some(&there[index].value));
            })
            .unwrap();
    }
}

pub(crate) fn a_batch_larger_than_the_table_is_answered_in_full(device: &Device, space: Space) {
    for kind in Kind::ALL {
        let mut bench = Bench::new(device, space, kind, Geometry::default(), 1);
        let full = bench.run(&bench.puts(0..1000, 1));
        // Two buckets and one below them, and the slots in the header.
        assert!((970..=976).contains(&full.len()), "{kind:?}: {}", full.len());
        bench.check(1000);
        bench.inspect();
        // Once it has grown, by the device, there is room for more.
        assert!(bench.settle(64));
        bench.check(1000);
        bench.inspect();
        assert!(bench.run(&bench.puts(0..1000, 2)).len() < full.len());
        bench.check(1000);
        bench.reopened();
    }
}

pub(crate) fn small_batches_are_batches(device: &Device, space: Space) {
    for kind in Kind::ALL {
        let mut bench = Bench::new(device, space, kind, Geometry::default(), 60);
        assert!(bench.run(&[]).is_empty());
        bench.engine.get_many(&bench.table, std::iter::empty(), |_, _| panic!("nobody asked")).unwrap();
        for number in 0..5 {
            assert!(bench.run(&bench.puts([number], 1)).is_empty());
        }
        assert!(bench.run(&[]).is_empty());
        for len in [31, 32, 33] {
            assert!(bench.run(&bench.puts(0..len, 2)).is_empty());
        }
        bench.check(40);
        bench.inspect();
        bench.reopened();
    }
}

pub(crate) fn a_stage_that_is_dropped_leaves_nothing_behind(device: &Device, space: Space) {
    for kind in Kind::ALL {
        let mut bench = Bench::new(device, space, kind, Geometry::default(), 60);
        bench.run(&bench.puts(0..20, 1));
        let used = heap_of(&bench.table).usage().used_blocks();
        let rows = bench.puts(10..50, 2);
        for _ in 0..20 {
            let mut turn = bench.engine.turn();
            drop(turn.stage(&bench.table, &batch_of(&rows), 500).unwrap());
        }
        bench.check(60);
        bench.inspect();
        assert_eq!(heap_of(&bench.table).usage().used_blocks(), used);
        bench.reopened();
    }
}

pub(crate) fn operations_that_change_nothing_use_nothing(device: &Device, space: Space) {
    let mut bench = Bench::new(device, space, Kind::Packed, Geometry::default(), 60);
    bench.run(&bench.puts(0..30, 1));
    let used = heap_of(&bench.table).usage().used_blocks();
    for op in [Op::Get, Op::Insert, Op::Update, Op::Delete, Op::CompareAndSwap] {
        // Inserts of what is there; of what is not, everything else.
        let there = op == Op::Insert || op == Op::CompareAndSwap;
        let numbers = if there { 0..30 } else { 100..130 };
        let mut rows = bench.puts(numbers, 2);
        rows.iter_mut().for_each(|row| (row.op, row.argument) = (op, 12_345));
        for _ in 0..5 {
            assert!(bench.run(&rows).is_empty());
            assert_eq!(heap_of(&bench.table).usage().used_blocks(), used, "{op:?}");
        }
    }
    // What is replaced and removed comes back, once no reader can hold it.
    for mark in 0..50 {
        assert!(bench.run(&bench.puts(0..30, mark)).is_empty());
    }
    let begun = Instant::now();
    while heap_of(&bench.table).usage().used_blocks() > used {
        heap_of(&bench.table).reclaim();
        std::thread::yield_now();
        assert!(begun.elapsed() < PATIENCE, "{}", heap_of(&bench.table).usage());
    }
    bench.check(140);
}

pub(crate) fn a_full_heap_refuses_and_stays_good(device: &Device, space: Space) {
    let spec =
        spec_in(Layout::Packed, KeySpec::U64, ValueSpec::fixed(1000).unwrap(), Geometry::default(), 3000);
    let table = Table::create(&space(40), &spec).unwrap();
    let bench = Bench::over(device, Kind::Packed, table);
    let (engine, table) = (&bench.engine, &bench.table);
    let rows = |from: u64, to: u64, byte: u8| {
        let mut rows = bench.puts(from..to, 0);
        rows.iter_mut().for_each(|row| row.value = vec![byte; 1000]);
        rows
    };
    let (mut count, mut batches) = (0, 0);
    let error = loop {
        let rows = rows(count, count + 100, 1);
        let batch = batch_of(&rows);
        let mut turn = engine.turn();
        let used = heap_of(table).usage().used_blocks();
        match turn.stage(table, &batch, 1 + count) {
            Ok(mut stage) => stage.publish().unwrap(),
            Err(error) => {
                assert_eq!(heap_of(table).usage().used_blocks(), used, "what it had got is given back");
                break error;
            }
        }
        count += 100;
        batches += 1;
        assert!(batches < 1000, "somewhere it must end");
    };
    assert!(matches!(error, TableError::Image(ImageError::OutOfSpace { .. })), "{error}");
    assert!(count >= 200, "{count}");
    assert_eq!(table.len(), count);
    for number in 0..count + 100 {
        let expected = (number < count).then(|| vec![1; 1000]);
        assert_eq!(get(table, &number.to_le_bytes()).map(|item| item.1), expected);
    }
    // What is removed makes room again, when no reader can hold it.
    let mut gone = rows(0, 150, 0);
    gone.iter_mut().for_each(|row| row.op = Op::Delete);
    engine.turn().stage(table, &batch_of(&gone), 9000).unwrap().publish().unwrap();
    let begun = Instant::now();
    while heap_of(table).usage().used_blocks() > 2 + table.len() {
        heap_of(table).reclaim();
        std::thread::yield_now();
        assert!(begun.elapsed() < PATIENCE, "{}", heap_of(table).usage());
    }
    assert!(put_all(engine, table, &rows(0, 100, 3), 9500).into_iter().all(|placed| placed));
    assert_eq!(table.len(), count - 50);
}

pub(crate) fn arguments_that_do_not_fit_are_told(device: &Device, space: Space) {
    let mut bench = Bench::new(device, space, Kind::Reference, Geometry::default(), 60);
    bench.run(&bench.puts(0..10, 1));
    let (key, value) = (bench.kind.key(1), bench.kind.value(1, 1));
    let refused = |batch: DeviceBatch<'_>| {
        let mut turn = bench.engine.turn();
        let error = turn.stage(&bench.table, &batch, 100).err().expect("it does not fit");
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
    let error =
        bench.engine.get_many(&bench.table, [&key[..7]].into_iter(), |_, _| panic!("nothing to tell"));
    assert!(matches!(error, Err(TableError::Core(CoreError::KeyLength { len: 7, .. }))));
    // More than kernels can number: nobody looks at its columns.
    let (null, stream) = (DevicePtr::NULL, device.stream().unwrap());
    let rows = GetRows { count: 1 << 32, keys: null, statuses: null, versions: null, values: null };
    // SAFETY: it is refused before anything is read.
    let error = unsafe { bench.engine.get_rows(&bench.table, &rows, &stream) }.err();
    assert!(matches!(error, Some(TableError::BatchTooLarge { count: 0x1_0000_0000, .. })), "{error:?}");
    bench.check(20);
    bench.inspect();
}
