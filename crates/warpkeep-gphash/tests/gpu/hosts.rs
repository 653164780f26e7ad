//! From host memory to host memory: whichever way, however it is cut, and whoever writes meanwhile, answers are those of a map.

use std::sync::atomic::{AtomicBool, Ordering};

use warpkeep_core::{
    Answers, BatchView, Cells, ColumnMut, Columns, Op, Output, OutputValues, Results, Status,
};
use warpkeep_device::Device;
use warpkeep_gphash::gpu::{HostGets, HostWrites, PublishBy, ValueRoom};
use warpkeep_gphash::{Geometry, Progress};
use warpkeep_record::Pool;

use crate::bench::{Bench, Dice, KeyColumn, POOL, Space};
use crate::rig::{Kind, put};

/// A test for each case, with a function that brings the device.
macro_rules! hosts_cases {
    ($on:path) => {
        all_cases! {
            $on;
            hosts: gets_of_any_length_are_answered_alike, what_nobody_wants_is_left_alone,
                gets_from_hosts_beside_writes_find_what_is_there, batches_that_do_not_fit_are_told,
                writes_from_hosts_do_what_a_map_does, writes_from_hosts_that_find_no_space_are_left
        }
    };
}

const KINDS: [Kind; 6] =
    [Kind::Packed, Kind::LongPacked, Kind::Tiled, Kind::LongTiled, Kind::Cells, Kind::TiledCells];

fn mirrored(device: &Device, space: Space, kind: Kind, keys: u64) -> Bench {
    let mut bench = Bench::new(device, space, kind, Geometry::default(), 2 * keys);
    assert!(bench.run(&bench.puts(0..keys, 1)).is_empty());
    bench.engine.load_mirror(&bench.table).unwrap();
    bench
}

/// A batch that ends anywhere in a warp, a part or a launch; with keys that come twice and keys that are not there.
pub(crate) fn gets_of_any_length_are_answered_alike(device: &Device, space: Space) {
    const KEYS: u64 = 200;
    let alone = Pool::new(1);
    for kind in KINDS {
        let bench = mirrored(device, space, kind, KEYS);
        let mut dice = Dice(5);
        for count in [0, 1, 2, 31, 32, 33, 150, 301] {
            let numbers: Vec<u64> = (0..count).map(|_| dice.below(2 * KEYS)).collect();
            let (key, value) = (bench.table.key_spec(), bench.table.value_spec());
            let keys = KeyColumn::of(key, numbers.iter().map(|&number| kind.key(number)));
            let columns = Columns::keys_only(Op::Get, keys.cells());
            let view = BatchView::new(key, value, columns).unwrap();
            for (pool, at_once) in [(&alone, 0), (&alone, 32), (&*POOL, 0), (&*POOL, 50), (&*POOL, 7)] {
                bench.engine.adjust(|profile| {
                    profile.streamed_from_bytes = if at_once == 50 { 0 } else { usize::MAX }
                });
                let mut results = Results::new(&view);
                let (keys, answers) = (view.host().unwrap().keys(), results.rows_mut().unwrap());
                let gets = HostGets { keys, answers, pool, at_once };
                assert!(bench.engine.gather_rows(&bench.table, gets).unwrap().is_some());
                for (&number, outcome) in numbers.iter().zip(results.iter()) {
                    let found = outcome.value.map(|value| (outcome.version, value.to_vec()));
                    assert_eq!(found.as_ref(), bench.model.get(&number), "{number} of {count}, {at_once}");
                }
                assert!(results.statuses().iter().all(|status| *status != Status::Pending));
            }
        }
    }
}

/// Only statuses are wanted; or values, but rows of keys that are not there are the caller's.
pub(crate) fn what_nobody_wants_is_left_alone(device: &Device, space: Space) {
    for kind in KINDS {
        let bench = mirrored(device, space, kind, 50);
        let (key, value) = (bench.table.key_spec(), bench.table.value_spec());
        let keys = KeyColumn::of(key, (0..100).map(|number| kind.key(number)));
        let columns = Columns::keys_only(Op::Get, keys.cells());
        let view = BatchView::new(key, value, columns).unwrap();
        for (wanted, streams) in [(true, false), (true, true), (false, false)] {
            bench.engine.adjust(|profile| profile.streamed_from_bytes = if streams { 0 } else { usize::MAX });
            let mut statuses = [Status::Pending; 100];
            let mut bytes = vec![0xaa; 100 * value.max_len()];
            let values = match wanted {
                true => OutputValues::Rows { len: value.max_len(), bytes: ColumnMut::Host(&mut bytes) },
                false => OutputValues::None,
            };
            let output = Output::new(&view, ColumnMut::Host(&mut statuses), None, values).unwrap();
            let mut output = output.into_host().unwrap();
            let (keys, answers) = (view.host().unwrap().keys(), output.rows_mut().unwrap());
            assert_eq!((answers.wants_values(), answers.wants_versions()), (wanted, false));
            let gets = HostGets { keys, answers, pool: &POOL, at_once: 32 };
            assert!(bench.engine.gather_rows(&bench.table, gets).unwrap().is_some());
            let rows: Vec<&[u8]> = bytes.chunks(value.max_len()).collect();
            for number in 0..100 {
                let there = number < 50;
                let (status, row) = (statuses[number], rows[number]);
                assert_eq!(status, if there { Status::Ok } else { Status::NotFound });
                match there && wanted {
                    true => assert_eq!(row, bench.model[&(number as u64)].1),
                    false => assert!(row.iter().all(|&byte| byte == 0xaa)),
                }
            }
        }
    }
}

/// On a GPU all of it happens at once; on the simulator one launch after the other, but what the host copies is copied beside writes.
pub(crate) fn gets_from_hosts_beside_writes_find_what_is_there(device: &Device, space: Space) {
    const KEYS: u64 = 400;
    for kind in KINDS {
        let mut bench = Bench::new(device, space, kind, Geometry::default(), 1200);
        assert!(bench.run(&bench.puts(0..KEYS, 0)).is_empty());
        bench.engine.load_mirror(&bench.table).unwrap();
        let (bench, done) = (&bench, AtomicBool::new(false));
        let (key, value) = (bench.table.key_spec(), bench.table.value_spec());
        let keys = KeyColumn::of(key, (0..KEYS).map(|number| kind.key(number)));
        let columns = Columns::keys_only(Op::Get, keys.cells());
        let view = BatchView::new(key, value, columns).unwrap();
        let read = || {
            let (mut before, mut results) = (vec![0; KEYS as usize], Results::new(&view));
            while !done.load(Ordering::Relaxed) {
                results.prepare(&view);
                let (keys, answers) = (view.host().unwrap().keys(), results.rows_mut().unwrap());
                let gets = HostGets { keys, answers, pool: &POOL, at_once: 90 };
                assert!(bench.engine.gather_rows(&bench.table, gets).unwrap().is_some());
                for (index, outcome) in results.iter().enumerate() {
                    let value = outcome.value.expect("every key is always there");
                    assert!(outcome.version >= before[index], "key {index} went back in time");
                    let known = |mark| kind.value(index as u64, mark) == value;
                    assert!((0..40).any(known), "key {index} has {value:?}");
                    before[index] = outcome.version;
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(read);
            scope.spawn(read);
            bench.write_marks(KEYS, 1..30);
            done.store(true, Ordering::Relaxed);
        });
    }
}

pub(crate) fn batches_that_do_not_fit_are_told(device: &Device, space: Space) {
    let bench = mirrored(device, space, Kind::Packed, 10);
    let (key, value) = (bench.table.key_spec(), bench.table.value_spec());
    let keys: Vec<u8> = (0..10).flat_map(|number| Kind::Packed.key(number)).collect();
    let view = BatchView::new(key, value, Columns::keys_only(Op::Get, Cells::fixed(8, &keys))).unwrap();
    for cells in [Cells::fixed(8, &keys[..72]), Cells::fixed(16, &keys), Cells::Empty] {
        let mut results = Results::new(&view);
        let (keys, answers) = (cells.host().unwrap(), results.rows_mut().unwrap());
        let gets = HostGets { keys, answers, pool: &POOL, at_once: 0 };
        assert!(bench.engine.gather_rows(&bench.table, gets).is_err());
        assert!(results.statuses().iter().all(|&status| status == Status::Pending));
    }
}

/// Takes answers one by one, as whoever has no arrays does.
struct OneByOne<'a>(&'a mut Results);

impl Answers for OneByOne<'_> {
    fn answer(&mut self, index: usize, status: Status, version: u64) {
        self.0.answer(index, status, version);
    }

    fn answer_value(&mut self, index: usize, status: Status, version: u64, value: &[u8]) -> Status {
        self.0.answer_value(index, status, version, value)
    }
}

/// Runs a batch from host memory and checks every answer; how many operations were done.
fn write(bench: &mut Bench, op: Op, numbers: &[u64], mark: u64, at_once: usize) -> usize {
    let kind = bench.kind;
    let marks = |index: usize| mark + index as u64;
    let values: Vec<u8> =
        numbers.iter().enumerate().flat_map(|(index, &number)| kind.value(number, marks(index))).collect();
    let (key, value) = (bench.table.key_spec(), bench.table.value_spec());
    let keys = KeyColumn::of(key, numbers.iter().map(|&number| kind.key(number)));
    let columns = match op {
        Op::Delete => Columns::keys_only(op, keys.cells()),
        _ => Columns::with_values(op, keys.cells(), Cells::fixed(value.max_len(), &values)),
    };
    let view = BatchView::new(key, value, columns).unwrap();
    let mut results = Results::new(&view);
    let writes = HostWrites { op, batch: view.host().unwrap(), pool: &POOL, at_once };
    let (first, mut done) = (bench.version + 1, 0);
    bench.version += numbers.len() as u64;
    let mut one_by_one = OneByOne(&mut results);
    let answers: &mut dyn Answers =
        if (mark / 100).is_multiple_of(2) { one_by_one.0 } else { &mut one_by_one };
    bench.engine.turn().write_from_host(&bench.table, &writes, first, answers, &mut done).unwrap();
    for (index, &number) in numbers.iter().enumerate() {
        let (status, answered) = (results.statuses()[index], results.versions()[index]);
        if index >= done {
            assert_eq!(status, Status::Pending);
            continue;
        }
        let there = bench.model.get(&number).map(|item| item.0);
        let version = first + index as u64;
        let expected = match (op, there) {
            (Op::Insert, Some(there)) => (Status::AlreadyExists, there),
            (Op::Update | Op::Delete, None) => (Status::NotFound, 0),
            (Op::Delete, Some(_)) => (Status::Ok, 0),
            (_, Some(_)) => (Status::Ok, version),
            (_, None) => (Status::Created, version),
        };
        assert_eq!((status, answered), expected, "{op:?} of {number}");
        if status.is_ok() && op == Op::Delete {
            bench.model.remove(&number);
        } else if status.is_ok() {
            bench.model.insert(number, (version, kind.value(number, marks(index))));
        }
    }
    done
}

/// Between writes by the CPU and growth; with keys that come more than once.
pub(crate) fn writes_from_hosts_do_what_a_map_does(device: &Device, space: Space) {
    for (kind, words) in [
        (Kind::Packed, PublishBy::Device),
        (Kind::TiledCells, PublishBy::Device),
        (Kind::Packed, PublishBy::Host(3)),
        (Kind::Tiled, PublishBy::Host(1)),
        (Kind::TiledCells, PublishBy::Host(3)),
    ] {
        writes_of_a_kind_do_what_a_map_does(device, space, kind, words);
    }
}

fn writes_of_a_kind_do_what_a_map_does(device: &Device, space: Space, kind: Kind, words: PublishBy) {
    const KEYS: u64 = 500;
    let mut dice = Dice(11);
    let mut bench = mirrored(device, space, kind, 60);
    bench.engine.adjust(|profile| profile.publish_by = words);
    bench.engine.adjust(|profile| profile.chunk_operations = 9);
    let mut by_device = 0;
    for round in 0..32 {
        let op = [Op::Put, Op::Insert, Op::Update, Op::Delete][round % 4];
        let count = [1, 40, 200][dice.below(3) as usize];
        let numbers: Vec<u64> = (0..count).map(|_| dice.below(KEYS)).collect();
        let at_once = [0, 64, 33][dice.below(3) as usize];
        by_device += write(&mut bench, op, &numbers, 100 * round as u64, at_once);
        let number = dice.below(KEYS);
        {
            let (_turn, _moving) = (bench.engine.turn(), bench.engine.moving());
            bench.version += 1;
            let value = bench.kind.value(number, 3);
            put(&bench.table, &bench.kind.key(number), &value, bench.version).unwrap();
            bench.model.insert(number, (bench.version, value));
        }
        if round % 5 == 0 {
            while bench.engine.turn().maintain(&bench.table, 64).unwrap() == Progress::Working {}
        }
        bench.check(KEYS);
    }
    assert!(by_device > 500, "only {by_device} operations were done so");
    let stored = bench.engine.stored_by_host();
    let tiled = matches!(kind, Kind::Tiled | Kind::TiledCells);
    assert_eq!(stored > 10, tiled && words != PublishBy::Device, "{kind:?}, {words:?}: {stored}");
    // Rows of a value cache are filled from what the device has.
    while bench.engine.turn().maintain(&bench.table, 64).unwrap() == Progress::Working {}
    assert!(bench.engine.load_values(&bench.table, ValueRoom::Share(1.0)).unwrap().cached > 0);
    by_device = write(&mut bench, Op::Put, &(0..60).collect::<Vec<_>>(), 100, 0);
    assert_eq!((by_device, bench.engine.stored_by_host()), (60, stored));
    bench.check(KEYS);
    bench.inspect();
    // Keys that are no single word, and tables without a mirror, go another way.
    let mut others = mirrored(device, space, Kind::LongPacked, 20);
    assert_eq!(write(&mut others, Op::Put, &[1, 2, 3], 7, 0), 0);
    bench.engine.drop_mirror(&bench.table);
    assert_eq!(write(&mut bench, Op::Put, &[1, 2, 3], 7, 0), 0);
    bench.check(KEYS);
}

/// What is left is for a way that tells each.
pub(crate) fn writes_from_hosts_that_find_no_space_are_left(device: &Device, space: Space) {
    // Room for the keys, so that nothing but records needs more.
    let mut bench = Bench::new(device, space, Kind::Packed, Geometry::default(), 20_000);
    bench.engine.load_mirror(&bench.table).unwrap();
    let hoard: Vec<_> = std::iter::from_fn(|| bench.table.heap().allocate_extent(1).ok()).collect();
    assert!(!hoard.is_empty());
    let mut number = 0;
    let done = loop {
        let numbers: Vec<u64> = (number..number + 1000).collect();
        let done = write(&mut bench, Op::Put, &numbers, 5, 250);
        number += 1000;
        if done < 1000 {
            break done;
        }
        assert!(number < 15_000, "the heap is never full");
    };
    assert!(done.is_multiple_of(250), "{done}");
    bench.check(number);
    bench.inspect();
}
