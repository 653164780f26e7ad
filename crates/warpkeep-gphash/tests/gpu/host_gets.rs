//! Gets and writes from host memory: in batches of any size, beside writers, they agree with a map.

use std::sync::atomic::{AtomicBool, Ordering};

use warpkeep_core::{
    Answers, BatchView, Cells, ColumnMut, Columns, Op, Output, OutputValues, Results, Status,
};
use warpkeep_device::Device;
use warpkeep_gphash::gpu::{HostGets, HostWrites, PublishBy, ValueRoom};
use warpkeep_gphash::{Geometry, Progress};
use warpkeep_record::Pool;

use crate::device_index::{KINDS, indexed};
use crate::harness::{Dice, Harness, KeyColumn, POOL, Space};
use crate::rig::{Kind, put};

/// A test for each case, run by a function that brings the device.
macro_rules! host_gets_cases {
    ($on:path) => {
        all_cases! {
            $on;
            host_gets:
                host_gets_of_any_count_agree_with_a_map, host_gets_write_requested_columns_only,
                host_gets_beside_writes_find_every_key, host_gets_of_other_columns_are_refused,
                host_writes_agree_with_a_map, host_writes_stop_when_the_heap_is_full
        }
    };
}

/// Batches that end anywhere in a warp, a task or a launch, with duplicate and absent keys.
pub(crate) fn host_gets_of_any_count_agree_with_a_map(device: &Device, space: Space) {
    const KEYS: u64 = 200;
    let one_thread = Pool::new(1);
    for kind in KINDS {
        let harness = indexed(device, space, kind, KEYS);
        let mut dice = Dice::new(5);
        for count in [0, 1, 2, 31, 32, 33, 150, 301] {
            let numbers: Vec<u64> = (0..count).map(|_| dice.below(2 * KEYS)).collect();
            let (key, value) = (harness.table.key_spec(), harness.table.value_spec());
            let keys = KeyColumn::of(key, numbers.iter().map(|&number| kind.key(number)));
            let columns = Columns::keys_only(Op::Get, keys.cells());
            let view = BatchView::new(key, value, columns).unwrap();
            for (pool, at_once) in
                [(&one_thread, 0), (&one_thread, 32), (&*POOL, 0), (&*POOL, 50), (&*POOL, 7)]
            {
                harness.engine.adjust(|profile| {
                    profile.streamed_from_bytes = if at_once == 50 { 0 } else { usize::MAX }
                });
                let mut results = Results::new(&view);
                let (keys, answers) = (view.host().unwrap().keys(), results.rows_mut().unwrap());
                let gets = HostGets { keys, answers, pool, at_once };
                assert!(harness.engine.gather_rows(&harness.table, gets).unwrap().is_some());
                for (&number, outcome) in numbers.iter().zip(results.iter()) {
                    let found = outcome.value.map(|value| (outcome.version, value.to_vec()));
                    assert_eq!(found.as_ref(), harness.model.get(&number), "{number} of {count}, {at_once}");
                }
                assert!(results.statuses().iter().all(|status| *status != Status::Pending));
            }
        }
    }
}

/// Only statuses are requested; or values, of which the rows of absent keys stay unwritten.
pub(crate) fn host_gets_write_requested_columns_only(device: &Device, space: Space) {
    for kind in KINDS {
        let harness = indexed(device, space, kind, 50);
        let (key, value) = (harness.table.key_spec(), harness.table.value_spec());
        let keys = KeyColumn::of(key, (0..100).map(|number| kind.key(number)));
        let columns = Columns::keys_only(Op::Get, keys.cells());
        let view = BatchView::new(key, value, columns).unwrap();
        for (wants_values, streams) in [(true, false), (true, true), (false, false)] {
            harness
                .engine
                .adjust(|profile| profile.streamed_from_bytes = if streams { 0 } else { usize::MAX });
            let mut statuses = [Status::Pending; 100];
            let mut bytes = vec![0xaa; 100 * value.max_len()];
            let values = match wants_values {
                true => OutputValues::Rows { len: value.max_len(), bytes: ColumnMut::Host(&mut bytes) },
                false => OutputValues::None,
            };
            let output = Output::new(&view, ColumnMut::Host(&mut statuses), None, values).unwrap();
            let mut output = output.into_host().unwrap();
            let (keys, answers) = (view.host().unwrap().keys(), output.rows_mut().unwrap());
            assert_eq!((answers.wants_values(), answers.wants_versions()), (wants_values, false));
            let gets = HostGets { keys, answers, pool: &POOL, at_once: 32 };
            assert!(harness.engine.gather_rows(&harness.table, gets).unwrap().is_some());
            let rows: Vec<&[u8]> = bytes.chunks(value.max_len()).collect();
            for number in 0..100 {
                let is_present = number < 50;
                let (status, row) = (statuses[number], rows[number]);
                assert_eq!(status, if is_present { Status::Ok } else { Status::NotFound });
                match is_present && wants_values {
                    true => assert_eq!(row, harness.model[&(number as u64)].1),
                    false => assert!(row.iter().all(|&byte| byte == 0xaa)),
                }
            }
        }
    }
}

/// On a GPU kernels run concurrently; on the simulator one launch runs after the other, but the host copies beside
/// writes.
pub(crate) fn host_gets_beside_writes_find_every_key(device: &Device, space: Space) {
    const KEYS: u64 = 400;
    for kind in KINDS {
        let mut harness = Harness::new(device, space, kind, Geometry::default(), 1200);
        assert!(harness.run(&harness.puts(0..KEYS, 0)).is_empty());
        harness.engine.build_index(&harness.table).unwrap();
        let (harness, done) = (&harness, AtomicBool::new(false));
        let (key, value) = (harness.table.key_spec(), harness.table.value_spec());
        let keys = KeyColumn::of(key, (0..KEYS).map(|number| kind.key(number)));
        let columns = Columns::keys_only(Op::Get, keys.cells());
        let view = BatchView::new(key, value, columns).unwrap();
        let read = || {
            let (mut before, mut results) = (vec![0; KEYS as usize], Results::new(&view));
            while !done.load(Ordering::Relaxed) {
                results.prepare(&view);
                let (keys, answers) = (view.host().unwrap().keys(), results.rows_mut().unwrap());
                let gets = HostGets { keys, answers, pool: &POOL, at_once: 90 };
                assert!(harness.engine.gather_rows(&harness.table, gets).unwrap().is_some());
                for (index, outcome) in results.iter().enumerate() {
                    let value = outcome.value.expect("every key is always present");
                    assert!(outcome.version >= before[index], "key {index} got an older version");
                    let known = |mark| kind.value(index as u64, mark) == value;
                    assert!((0..40).any(known), "key {index} has {value:?}");
                    before[index] = outcome.version;
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(read);
            scope.spawn(read);
            harness.write_marks(KEYS, 1..30);
            done.store(true, Ordering::Relaxed);
        });
    }
}

pub(crate) fn host_gets_of_other_columns_are_refused(device: &Device, space: Space) {
    let harness = indexed(device, space, Kind::Packed, 10);
    let (key, value) = (harness.table.key_spec(), harness.table.value_spec());
    let keys: Vec<u8> = (0..10).flat_map(|number| Kind::Packed.key(number)).collect();
    let view = BatchView::new(key, value, Columns::keys_only(Op::Get, Cells::fixed(8, &keys))).unwrap();
    for cells in [Cells::fixed(8, &keys[..72]), Cells::fixed(16, &keys), Cells::Empty] {
        let mut results = Results::new(&view);
        let (keys, answers) = (cells.host().unwrap(), results.rows_mut().unwrap());
        let gets = HostGets { keys, answers, pool: &POOL, at_once: 0 };
        assert!(harness.engine.gather_rows(&harness.table, gets).is_err());
        assert!(results.statuses().iter().all(|&status| status == Status::Pending));
    }
}

/// Takes answers one by one, without columns.
struct OneByOne<'a>(&'a mut Results);

impl Answers for OneByOne<'_> {
    fn answer(&mut self, index: usize, status: Status, version: u64) {
        self.0.answer(index, status, version);
    }

    fn answer_value(&mut self, index: usize, status: Status, version: u64, value: &[u8]) -> Status {
        self.0.answer_value(index, status, version, value)
    }
}

/// Runs a batch from host memory and checks every answer; returns the number of operations done.
fn write(harness: &mut Harness, op: Op, numbers: &[u64], mark: u64, at_once: usize) -> usize {
    let kind = harness.kind;
    let marks = |index: usize| mark + index as u64;
    let values: Vec<u8> =
        numbers.iter().enumerate().flat_map(|(index, &number)| kind.value(number, marks(index))).collect();
    let (key, value) = (harness.table.key_spec(), harness.table.value_spec());
    let keys = KeyColumn::of(key, numbers.iter().map(|&number| kind.key(number)));
    let columns = match op {
        Op::Delete => Columns::keys_only(op, keys.cells()),
        _ => Columns::with_values(op, keys.cells(), Cells::fixed(value.max_len(), &values)),
    };
    let view = BatchView::new(key, value, columns).unwrap();
    let mut results = Results::new(&view);
    let writes = HostWrites { op, batch: view.host().unwrap(), pool: &POOL, at_once };
    let (first, mut done) = (harness.version + 1, 0);
    harness.version += numbers.len() as u64;
    let mut one_by_one = OneByOne(&mut results);
    let answers: &mut dyn Answers =
        if (mark / 100).is_multiple_of(2) { one_by_one.0 } else { &mut one_by_one };
    harness.engine.write_lock().write_from_host(&harness.table, &writes, first, answers, &mut done).unwrap();
    for (index, &number) in numbers.iter().enumerate() {
        let (status, version) = (results.statuses()[index], results.versions()[index]);
        if index >= done {
            assert_eq!(status, Status::Pending);
            continue;
        }
        let current = harness.model.get(&number).map(|item| item.0);
        let new_version = first + index as u64;
        let expected = match (op, current) {
            (Op::Insert, Some(current)) => (Status::AlreadyExists, current),
            (Op::Update | Op::Delete, None) => (Status::NotFound, 0),
            (Op::Delete, Some(_)) => (Status::Ok, 0),
            (_, Some(_)) => (Status::Ok, new_version),
            (_, None) => (Status::Created, new_version),
        };
        assert_eq!((status, version), expected, "{op:?} of {number}");
        if status.is_ok() && op == Op::Delete {
            harness.model.remove(&number);
        } else if status.is_ok() {
            harness.model.insert(number, (new_version, kind.value(number, marks(index))));
        }
    }
    done
}

/// Between writes by the CPU and growth, with duplicate keys.
pub(crate) fn host_writes_agree_with_a_map(device: &Device, space: Space) {
    for (kind, publish_by) in [
        (Kind::Packed, PublishBy::Device),
        (Kind::TiledCells, PublishBy::Device),
        (Kind::Packed, PublishBy::Host(3)),
        (Kind::Tiled, PublishBy::Host(1)),
        (Kind::TiledCells, PublishBy::Host(3)),
    ] {
        host_writes_of_a_kind_agree_with_a_map(device, space, kind, publish_by);
    }
}

fn host_writes_of_a_kind_agree_with_a_map(device: &Device, space: Space, kind: Kind, publish_by: PublishBy) {
    const KEYS: u64 = 500;
    let mut dice = Dice::new(11);
    let mut harness = indexed(device, space, kind, 60);
    harness.engine.adjust(|profile| profile.publish_by = publish_by);
    harness.engine.adjust(|profile| profile.chunk_operations = 9);
    let mut by_device = 0;
    for round in 0..32 {
        let op = [Op::Put, Op::Insert, Op::Update, Op::Delete][round % 4];
        let count = [1, 40, 200][dice.below(3) as usize];
        let numbers: Vec<u64> = (0..count).map(|_| dice.below(KEYS)).collect();
        let at_once = [0, 64, 33][dice.below(3) as usize];
        by_device += write(&mut harness, op, &numbers, 100 * round as u64, at_once);
        let number = dice.below(KEYS);
        {
            let (_write, _relocation) = (harness.engine.write_lock(), harness.engine.relocation_write());
            harness.version += 1;
            let value = harness.kind.value(number, 3);
            put(&harness.table, &harness.kind.key(number), &value, harness.version).unwrap();
            harness.model.insert(number, (harness.version, value));
        }
        if round % 5 == 0 {
            while harness.engine.write_lock().maintain(&harness.table, 64).unwrap() == Progress::Working {}
        }
        harness.check(KEYS);
    }
    assert!(by_device > 500, "the device did only {by_device} operations");
    let stored = harness.engine.stored_by_host();
    let tiled = matches!(kind, Kind::Tiled | Kind::TiledCells);
    assert_eq!(stored > 10, tiled && publish_by != PublishBy::Device, "{kind:?}, {publish_by:?}: {stored}");
    // With a value cache the values go to the device, which fills rows from them.
    while harness.engine.write_lock().maintain(&harness.table, 64).unwrap() == Progress::Working {}
    assert!(harness.engine.load_values(&harness.table, ValueRoom::Share(1.0)).unwrap().cached > 0);
    by_device = write(&mut harness, Op::Put, &(0..60).collect::<Vec<_>>(), 100, 0);
    assert_eq!((by_device, harness.engine.stored_by_host()), (60, stored));
    harness.check(KEYS);
    harness.inspect();
    // Keys longer than a word, and tables without a device index, are not written this way.
    let mut others = indexed(device, space, Kind::LongPacked, 20);
    assert_eq!(write(&mut others, Op::Put, &[1, 2, 3], 7, 0), 0);
    harness.engine.drop_index(&harness.table);
    assert_eq!(write(&mut harness, Op::Put, &[1, 2, 3], 7, 0), 0);
    harness.check(KEYS);
}

/// The caller runs the remaining operations in another way, which refuses them one by one.
pub(crate) fn host_writes_stop_when_the_heap_is_full(device: &Device, space: Space) {
    // The levels have enough slots, so that only records need space.
    let mut harness = Harness::new(device, space, Kind::Packed, Geometry::default(), 20_000);
    harness.engine.build_index(&harness.table).unwrap();
    let hoard: Vec<_> = std::iter::from_fn(|| harness.table.heap().allocate_extent(1).ok()).collect();
    assert!(!hoard.is_empty());
    let mut number = 0;
    let done = loop {
        let numbers: Vec<u64> = (number..number + 1000).collect();
        let done = write(&mut harness, Op::Put, &numbers, 5, 250);
        number += 1000;
        if done < 1000 {
            break done;
        }
        assert!(number < 15_000, "the heap is never full");
    };
    assert!(done.is_multiple_of(250), "{done}");
    harness.check(number);
    harness.inspect();
}
