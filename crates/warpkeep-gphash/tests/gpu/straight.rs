//! Batches written straight through: whatever is written that way, and by others in between, is what a map would have.

use warpkeep_core::{KeySpec, Op, Status, ValueSpec};
use warpkeep_device::{Device, DevicePtr};
use warpkeep_gphash::gpu::{PublishBy, StraightRows, Wrote};
use warpkeep_gphash::{Geometry, Progress, Table};

use crate::bench::{Bench, Dice, Space, batch_of};
use crate::rig::{Kind, heap_of, put, remove, spec, twins};

/// A test for each case, with a function that brings the device.
macro_rules! straight_cases {
    ($on:path) => {
        all_cases! {
            $on;
            straight: straight_batches_do_what_a_map_does, straight_batches_in_parts_do_what_a_map_does, batches_whose_words_the_host_stores_do_what_a_map_does,
                straight_batches_of_long_keys_do_what_a_map_does, keys_with_equal_hashes_are_told_apart,
                equal_keys_act_in_the_order_of_the_batch, blocks_are_used_again, blocks_are_used_again_by_the_next_batch, blocks_are_used_again_where_the_host_stores_tails, blocks_are_provided_ahead, what_finds_no_place_is_done_by_the_cpu,
                a_full_heap_refuses_straight_batches, blocks_of_a_batch_that_panicked_are_nobody_elses, tables_without_a_mirror_are_not_written_straight
        }
    };
}

const OPS: [Op; 4] = [Op::Put, Op::Insert, Op::Update, Op::Delete];

/// What operation and version come to, given what is there.
fn expect(bench: &mut Bench, op: Op, number: u64, value: Vec<u8>, version: u64) -> Status {
    let there = bench.model.contains_key(&number);
    match (op, there) {
        (Op::Insert, true) => Status::AlreadyExists,
        (Op::Update | Op::Delete, false) => Status::NotFound,
        (Op::Delete, true) => {
            bench.model.remove(&number);
            Status::Ok
        }
        (_, there) => {
            bench.model.insert(number, (version, value));
            if there { Status::Ok } else { Status::Created }
        }
    }
}

/// The last operation on a key gives its version; those before it are never seen, so their versions are nobody's concern.
pub(crate) fn run(device: &Device, bench: &mut Bench, op: Op, numbers: &[u64], mark: u64) -> Option<Wrote> {
    let keys: Vec<u8> = numbers.iter().flat_map(|&number| bench.kind.key_row(number)).collect();
    let values: Vec<u8> =
        numbers.iter().zip(mark..).flat_map(|(&number, mark)| bench.kind.value(number, mark)).collect();
    let (keys, values) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
    let statuses = device.allocate_zeroed(numbers.len()).unwrap();
    let stream = device.stream().unwrap();
    let rows = StraightRows {
        op,
        count: numbers.len() as u64,
        keys: keys.ptr(),
        values: if op == Op::Delete { DevicePtr::NULL } else { values.ptr() },
        statuses: statuses.ptr(),
    };
    let first = bench.version + 1;
    // SAFETY: the columns are as long as the rows say, and nobody else has them.
    let wrote =
        unsafe { bench.engine.turn().write_straight(&bench.table, &rows, first, &stream) }.unwrap()?;
    bench.version += numbers.len() as u64;
    let before = bench.model.len() as u64;
    let mut expected = Vec::new();
    for (index, &number) in numbers.iter().enumerate() {
        let value = bench.kind.value(number, mark + index as u64);
        expected.push(expect(bench, op, number, value, first + index as u64) as u8);
    }
    assert_eq!(statuses.to_vec::<u8>().unwrap(), expected, "{op:?} of {numbers:?}");
    assert_eq!(before + wrote.created - wrote.removed, bench.model.len() as u64, "{wrote:?}");
    Some(wrote)
}

fn mirrored(device: &Device, space: Space, geometry: Geometry, capacity: u64) -> Bench {
    mirrored_of(Kind::Packed, device, space, geometry, capacity)
}

pub(crate) fn mirrored_of(
    kind: Kind,
    device: &Device,
    space: Space,
    geometry: Geometry,
    capacity: u64,
) -> Bench {
    let bench = Bench::new(device, space, kind, geometry, capacity);
    bench.engine.load_mirror(&bench.table).unwrap();
    bench
}

/// Random batches of each operation, with keys that come more than once, between batches that are staged, writes by the CPU, and growth.
/// A part of a batch has so many operations, and its words are stored by these.
pub(crate) fn mixed(
    device: &Device,
    space: Space,
    kind: Kind,
    geometry: Geometry,
    seed: u64,
    batches: usize,
    (part, words): (Option<u64>, PublishBy),
) {
    let bench = mirrored_of(kind, device, space, geometry, MIXED_KEYS / 3);
    bench.engine.adjust(|profile| profile.publish_by = words);
    mixed_over(device, bench, seed, batches, part);
}

/// Keys of such batches.
pub(crate) const MIXED_KEYS: u64 = 250;

/// The same, with a table that has a mirror.
pub(crate) fn mixed_over(device: &Device, mut bench: Bench, seed: u64, batches: usize, part: Option<u64>) {
    const KEYS: u64 = MIXED_KEYS;
    let mut dice = Dice(seed);
    if let Some(part) = part {
        bench.engine.adjust(|profile| profile.chunk_operations = part);
    }
    let mut straight = 0;
    for number in 0..batches as u64 {
        let op = OPS[dice.below(4) as usize];
        let count = 1 + dice.below(70);
        let numbers: Vec<u64> = (0..count).map(|_| dice.below(KEYS)).collect();
        straight += u64::from(run(device, &mut bench, op, &numbers, 1000 * number).is_some());
        match dice.below(4) {
            0 => bench.batch(&mut dice, KEYS, 30),
            1 => {
                let (number, _turn) = (dice.below(KEYS), bench.engine.turn());
                let _moving = bench.engine.moving();
                let was_there = bench.model.remove(&number).is_some();
                assert_eq!(remove(&bench.table, &bench.kind.key(number)), was_there);
                bench.version += 1;
                let (other, value) = (dice.below(KEYS), bench.kind.value(7, number));
                put(&bench.table, &bench.kind.key(other), &value, bench.version).unwrap();
                bench.model.insert(other, (bench.version, value));
            }
            2 => while bench.engine.turn().maintain(&bench.table, 8).unwrap() == Progress::Working {},
            _ => {}
        }
        bench.check(KEYS);
    }
    assert!(straight > batches as u64 / 3, "{straight} of {batches} went straight");
    bench.settle(64);
    bench.check(KEYS);
    bench.inspect();
    bench.reopened();
}

pub(crate) fn straight_batches_do_what_a_map_does(device: &Device, space: Space) {
    for (seed, (l, h, s)) in (0..).zip([(2, 2, 8), (1, 4, 8), (4, 2, 4), (2, 1, 16), (2, 2, 8)]) {
        let kind = if seed % 2 == 0 { Kind::Packed } else { Kind::Tiled };
        mixed(device, space, kind, Geometry::new(l, h, s).unwrap(), seed, 24, (None, PublishBy::Device));
    }
}

pub(crate) fn straight_batches_of_long_keys_do_what_a_map_does(device: &Device, space: Space) {
    for (seed, part) in (200..).zip([None, Some(9)]) {
        mixed(device, space, Kind::LongPacked, Geometry::default(), seed, 18, (part, PublishBy::Device));
    }
}

pub(crate) fn straight_batches_in_parts_do_what_a_map_does(device: &Device, space: Space) {
    for (seed, part) in (100..).zip([1, 5, 16, 40]) {
        let kind = if seed % 2 == 0 { Kind::Packed } else { Kind::Tiled };
        mixed(device, space, kind, Geometry::default(), seed, 18, (Some(part), PublishBy::Device));
    }
}

pub(crate) fn batches_whose_words_the_host_stores_do_what_a_map_does(device: &Device, space: Space) {
    let kinds = [Kind::Packed, Kind::Tiled, Kind::LongPacked, Kind::OddTiled, Kind::LongTiled, Kind::Tiled];
    for ((seed, kind), (part, threads)) in
        (300..).zip(kinds).zip([(1, 1), (5, 2), (16, 3), (3, 1), (9, 2), (9, 2)])
    {
        mixed(device, space, kind, Geometry::default(), seed, 18, (Some(part), PublishBy::Host(threads)));
    }
    // Some by the host, and some by the device.
    mixed(device, space, Kind::Tiled, Geometry::default(), 310, 18, (Some(5), PublishBy::Host(2)));
}

pub(crate) fn equal_keys_act_in_the_order_of_the_batch(device: &Device, space: Space) {
    for words in [PublishBy::Device, PublishBy::Host(2)] {
        equal_keys_act_in_order(device, space, words);
    }
}

fn equal_keys_act_in_order(device: &Device, space: Space, words: PublishBy) {
    let mut bench = mirrored(device, space, Geometry::default(), 400);
    // Of one part, the first of them, and of several.
    bench.engine.adjust(|profile| profile.chunk_operations = 80);
    bench.engine.adjust(|profile| profile.publish_by = words);
    // One key all the time, a few, and some that are there already.
    for (round, op) in
        (0..).zip([Op::Put, Op::Insert, Op::Update, Op::Delete, Op::Insert, Op::Put, Op::Delete])
    {
        for numbers in [
            vec![5; 100],
            (0..200).map(|index| index % 7).collect(),
            (0..100).map(|index| index / 2 + 3).collect(),
        ] {
            let wrote = run(device, &mut bench, op, &numbers, 500 * round).unwrap();
            let different = numbers.iter().collect::<std::collections::BTreeSet<_>>().len() as u64;
            assert!(wrote.created + wrote.replaced + wrote.removed <= different, "{wrote:?}");
            assert_eq!(wrote.by_cpu, 0);
            bench.check(220);
        }
    }
    bench.inspect();
}

pub(crate) fn keys_with_equal_hashes_are_told_apart(device: &Device, space: Space) {
    let (key, value) = (KeySpec::fixed(16).unwrap(), ValueSpec::fixed(16).unwrap());
    let table = Table::create(&space(200), &spec(key, value, Geometry::default(), 400)).unwrap();
    let bytes = |key: [u64; 2]| key.map(u64::to_le_bytes).concat();
    let [one, other] = twins(5);
    assert!(one != other && table.lock_key(&bytes(one)) == table.lock_key(&bytes(other)));
    let bench = Bench::over(device, Kind::Twins, table);
    assert!(bench.engine.load_mirror(&bench.table).unwrap().key_bytes > 0);
    let stream = device.stream().unwrap();
    let mut version = 0;
    let mut expected = std::collections::BTreeMap::new();
    // In one batch, in the middle of one another, alone beside the other in the table, and absent beside the other.
    for (op, keys) in [
        (Op::Put, vec![one, other, twins(7)[0], one]),
        (Op::Insert, vec![twins(9)[0], twins(9)[1], twins(9)[1], twins(9)[0], twins(11)[0]]),
        (Op::Update, vec![other, twins(7)[1], twins(11)[1], twins(9)[0]]),
        (Op::Insert, vec![twins(11)[1], twins(7)[1], other]),
        (Op::Put, (1..40).flat_map(twins).collect()),
        // One of two that are there; both; one whose twin is not there.
        (Op::Delete, vec![one, twins(9)[1], twins(9)[0], twins(13)[0], one]),
        (Op::Put, vec![twins(9)[1], one, twins(15)[0]]),
        (Op::Delete, vec![twins(9)[1], twins(13)[0], twins(17)[1]]),
    ] {
        let values: Vec<u64> = (0..2 * keys.len() as u64).map(|word| version << 8 | word).collect();
        let columns = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
        let statuses = device.allocate_zeroed(keys.len()).unwrap();
        let rows = StraightRows {
            op,
            count: keys.len() as u64,
            keys: columns.0.ptr(),
            values: columns.1.ptr(),
            statuses: statuses.ptr(),
        };
        // SAFETY: the columns are as long as the rows say, and nobody else has them.
        unsafe { bench.engine.turn().write_straight(&bench.table, &rows, version + 1, &stream) }
            .unwrap()
            .expect("a way");
        let mut answers = Vec::new();
        for (key, value) in keys.iter().zip(values.chunks_exact(2)) {
            let there = expected.contains_key(key);
            let (status, writes) = match (op, there) {
                (Op::Insert, true) => (Status::AlreadyExists, false),
                (Op::Update | Op::Delete, false) => (Status::NotFound, false),
                (Op::Delete, true) => {
                    expected.remove(key);
                    (Status::Ok, false)
                }
                (_, there) => (if there { Status::Ok } else { Status::Created }, true),
            };
            if writes {
                expected.insert(*key, value.to_vec());
            }
            answers.push(status as u8);
        }
        assert_eq!(statuses.to_vec::<u8>().unwrap(), answers, "{op:?} of {keys:?}");
        version += keys.len() as u64;
        check_twins(&bench, &expected, &format!("after {op:?}"));
    }
    // By the CPU, which tells the mirror of hashes.
    let turn = bench.engine.turn();
    for key in [twins(19)[0], twins(21)[1], twins(23)[0], twins(23)[1]] {
        let (key, name) = (bytes(key), key);
        let lock = bench.table.lock_key(&key);
        let mut stage = bench.table.stage([lock]);
        let seat = stage.seat(&key, lock);
        assert!(stage.remove(&seat));
        stage.publish();
        expected.remove(&name);
    }
    drop(turn);
    check_twins(&bench, &expected, "after the CPU");
}

/// Looks all twins up.
fn check_twins(bench: &Bench, expected: &std::collections::BTreeMap<[u64; 2], Vec<u64>>, when: &str) {
    let bytes = |key: [u64; 2]| key.map(u64::to_le_bytes).concat();
    let all: Vec<([u64; 2], Vec<u8>)> = (1..40).flat_map(twins).map(|key| (key, bytes(key))).collect();
    for (order_from, few) in [(usize::MAX, 0), (0, 0), (usize::MAX, usize::MAX)] {
        bench.engine.adjust(|profile| profile.ordered_from = order_from);
        bench.engine.adjust(|profile| profile.located_at_once_to = few);
        let found = bench.engine.get_many(&bench.table, all.iter().map(|key| &key.1[..]), |index, found| {
            let value = found.map(|(_, value)| bytemuck::pod_collect_to_vec::<u8, u64>(value));
            assert_eq!(
                value.as_ref(),
                expected.get(&all[index].0),
                "{when}, {order_from}: {:?}",
                all[index].0
            );
        });
        found.unwrap();
    }
}

pub(crate) fn blocks_are_used_again(device: &Device, space: Space) {
    for kind in [Kind::Packed, Kind::Tiled] {
        blocks_of_a_kind_are_used_again(kind, device, space, PublishBy::Device);
    }
}

/// What a batch frees is what the next one takes, if no reader is in the way.
pub(crate) fn blocks_are_used_again_by_the_next_batch(device: &Device, space: Space) {
    const ITEMS: u64 = 1000;
    let mut bench = mirrored_of(Kind::Tiled, device, space, Geometry::default(), 1500);
    let numbers: Vec<u64> = (0..ITEMS).collect();
    for round in 0..12 {
        run(device, &mut bench, Op::Put, &numbers, round).unwrap();
    }
    // Twice a batch is taken ahead. Left to themselves, blocks would wait for a batch more.
    let used = heap_of(&bench.table).usage().used_blocks();
    assert!(used < 3 * ITEMS + ITEMS / 2, "{used} blocks are in use for {ITEMS} items");
}

/// In parts. The host stores the tails of records, which lie anywhere when others are still in use around them.
pub(crate) fn blocks_are_used_again_where_the_host_stores_tails(device: &Device, space: Space) {
    for kind in [Kind::Tiled, Kind::OddTiled, Kind::LongTiled] {
        blocks_of_a_kind_are_used_again(kind, device, space, PublishBy::Host(2));
    }
}

fn blocks_of_a_kind_are_used_again(kind: Kind, device: &Device, space: Space, words: PublishBy) {
    let mut bench = mirrored_of(kind, device, space, Geometry::default(), 1500);
    bench.engine.adjust(|profile| profile.publish_by = words);
    bench
        .engine
        .adjust(|profile| profile.chunk_operations = if words == PublishBy::Device { 1 << 16 } else { 70 });
    let numbers: Vec<u64> = (0..1000).collect();
    run(device, &mut bench, Op::Put, &numbers, 0).unwrap();
    for round in 1..60 {
        // A third stays as it is, so blocks that are used again lie here and there among those in use.
        let numbers: Vec<u64> =
            numbers.iter().copied().filter(|number| !(number ^ round).is_multiple_of(3)).collect();
        run(device, &mut bench, Op::Update, &numbers, round).unwrap();
        let used = heap_of(&bench.table).usage().used_blocks();
        assert!(used < 30 * 1000, "round {round}: {used} blocks are in use");
    }
    bench.check(1100);
    bench.inspect();
    // What is left over goes back to the heap.
    let Bench { table, engine, image, .. } = bench;
    drop((engine, image));
    for _ in 0..8 {
        heap_of(&table).reclaim();
    }
    let used = heap_of(&table).usage().used_blocks();
    assert!(used < 30 * 1000, "{used}");
}

/// Some of its words are in the image, and lead to blocks that the next batch must not take.
pub(crate) fn blocks_of_a_batch_that_panicked_are_nobody_elses(device: &Device, space: Space) {
    const KEYS: u64 = 200;
    let mut bench = mirrored_of(Kind::Packed, device, space, Geometry::default(), 1500);
    bench.engine.adjust(|profile| profile.chunk_operations = 20);
    let numbers: Vec<u64> = (0..KEYS).collect();
    run(device, &mut bench, Op::Put, &numbers, 0).unwrap();
    let stores = std::sync::atomic::AtomicU64::new(0);
    bench.engine.observe_words(move |_| {
        let before = stores.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        assert!(before < KEYS / 2, "as was asked for");
    });
    let mut broken = || run(device, &mut bench, Op::Update, &numbers, 1000);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(&mut broken)).is_err());
    // Its versions are taken.
    bench.version += KEYS;
    bench.engine.adjust(|profile| profile.publish_by = PublishBy::Device);
    let values = |bench: &Bench| -> Vec<Vec<u8>> {
        let value = |&number: &u64| bench.table.get(&bench.kind.key(number), |value| value.bytes().to_vec());
        numbers.iter().map(|number| value(number).expect("it is there")).collect()
    };
    let before = values(&bench);
    let changed =
        numbers.iter().filter(|&&number| before[number as usize] == bench.kind.value(number, 1000 + number));
    assert!((1..KEYS as usize).contains(&changed.count()));
    let more: Vec<u64> = (KEYS..3 * KEYS).collect();
    run(device, &mut bench, Op::Put, &more, 5000).unwrap();
    assert_eq!(values(&bench), before);
}

pub(crate) fn blocks_are_provided_ahead(device: &Device, space: Space) {
    let mut bench = mirrored(device, space, Geometry::default(), 8000);
    bench.engine.provide_ahead();
    bench.engine.provide_ahead();
    for first in (0..4000).step_by(500) {
        let numbers: Vec<u64> = (first..first + 500).collect();
        run(device, &mut bench, Op::Put, &numbers, first).unwrap();
    }
    bench.check(4100);
    bench.inspect();
    assert!(heap_of(&bench.table).usage().used_blocks() >= 4000);
    let Bench { table, engine, image, .. } = bench;
    drop((engine, image));
    let used = heap_of(&table).usage().used_blocks();
    // The table itself, and its items.
    assert!((4000..4010).contains(&used), "{used} blocks are in use: what was taken ahead is not given back");
}

pub(crate) fn what_finds_no_place_is_done_by_the_cpu(device: &Device, space: Space) {
    let mut bench = mirrored(device, space, Geometry::default(), 1);
    let mut by_cpu = 0;
    for first in (0..600).step_by(60) {
        let numbers: Vec<u64> = (first..first + 60).flat_map(|number| [number, number]).collect();
        match run(device, &mut bench, Op::Put, &numbers, first) {
            Some(wrote) => by_cpu += wrote.by_cpu,
            None => {
                bench.settle(64);
                run(device, &mut bench, Op::Put, &numbers, first).expect("it does not grow any more");
            }
        }
        bench.check(first + 100);
    }
    assert!(by_cpu > 0, "there was room for all of them");
    bench.settle(64);
    bench.inspect();
}

pub(crate) fn a_full_heap_refuses_straight_batches(device: &Device, _: Space) {
    let mut bench = mirrored(device, |_| crate::rig::heap(24), Geometry::default(), 2000);
    let (mut first, mut closed) = (0, 0);
    // When nothing was done there is no whole slab any more; or the table was growing, which ends.
    while closed < 40 {
        let numbers: Vec<u64> = (first..first + 500).collect();
        let keys: Vec<u8> = numbers.iter().flat_map(|&number| bench.kind.key(number)).collect();
        let values: Vec<u8> = numbers.iter().flat_map(|&number| bench.kind.value(number, 1)).collect();
        let (keys, values) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
        let (statuses, stream) = (device.allocate_zeroed(500).unwrap(), device.stream().unwrap());
        let rows = StraightRows {
            op: Op::Put,
            count: 500,
            keys: keys.ptr(),
            values: values.ptr(),
            statuses: statuses.ptr(),
        };
        // SAFETY: the columns are as long as the rows say, and nobody else has them.
        let wrote =
            unsafe { bench.engine.turn().write_straight(&bench.table, &rows, bench.version + 1, &stream) };
        if wrote.unwrap().is_none() {
            bench.settle(64);
            closed += 1;
            continue;
        }
        let statuses = statuses.to_vec::<u8>().unwrap();
        // There can be blocks, but no space for a table that is full to grow into.
        let is_refused = statuses.iter().all(|&status| status == Status::OutOfSpace as u8);
        for (&number, status) in numbers.iter().zip(statuses) {
            bench.version += 1;
            // Those that are left to the CPU may find no block, and are told so, each for itself.
            if status == Status::OutOfSpace as u8 {
                continue;
            }
            assert_eq!(status, Status::Created as u8, "{number}");
            bench.model.insert(number, (bench.version, bench.kind.value(number, 1)));
        }
        (first, closed) = (first + 500, if is_refused { closed + 1 } else { 0 });
        assert!(first < 1_000_000, "a small heap takes it all");
    }
    assert!(first > 0);
    // Staged, such a batch takes what blocks there are, and is told that there are no more.
    let rows = bench.puts(first..first + 100_000, 1);
    let (batch, version) = (batch_of(&rows), bench.version + 1);
    let refused = match bench.engine.turn().stage(&bench.table, &batch, version) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("a small heap takes it all"),
    };
    assert!(refused.contains("space") || refused.contains("full"), "{refused}");
    bench.check(first + 600);
    bench.inspect();
}

pub(crate) fn tables_without_a_mirror_are_not_written_straight(device: &Device, space: Space) {
    let mut bench = Bench::new(device, space, Kind::Packed, Geometry::default(), 100);
    assert_eq!(run(device, &mut bench, Op::Put, &[1, 2, 3], 0), None);
    bench.engine.load_mirror(&bench.table).unwrap();
    assert!(run(device, &mut bench, Op::Put, &[1, 2, 3], 0).is_some());
    assert!(run(device, &mut bench, Op::Put, &[], 0).is_some());
    bench.engine.drop_mirror(&bench.table);
    assert_eq!(run(device, &mut bench, Op::Put, &[1, 2, 3], 0), None);
    bench.check(10);
    let mut other = Bench::new(device, space, Kind::Reference, Geometry::default(), 100);
    other.engine.load_mirror(&other.table).unwrap();
    assert_eq!(run(device, &mut other, Op::Put, &[1, 2, 3], 0), None);
}
