//! Batches that a device writes in one pass, with a log: the result is that of a plain map, here and after a crash.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::logged_rig::{Place, key_in, log_options, put_rows};
use warpkeep::{
    Device, DeviceChoice, Durability, Error, KeySpec, Op, Status, Store, StoreOptions, Table, TableOptions,
    TableStats, ValueSpec, engine::LogPlace, verify,
};
use warpkeep_crashlab::{DiskCall, Fault, LabDisk, Trace};
use warpkeep_device::Mode;
use warpkeep_image::{Coherent, HeapOptions, Persist};
use warpkeep_log::LogError;

type Model = BTreeMap<u64, (u64, Vec<u8>)>;

const OPS: [Op; 3] = [Op::Put, Op::Insert, Op::Update];

fn table(value: u32, capacity: u64) -> TableOptions {
    TableOptions::new(KeySpec::U64, ValueSpec::fixed(value).unwrap()).capacity(capacity)
}

/// The answer of an operation, and its effect on the model. Versions are checked where possible: a key has the
/// version of its last operation's answer.
fn apply(model: &mut Model, op: Op, key: u64, value: &[u8], version: u64) -> Status {
    match (op, model.contains_key(&key)) {
        (Op::Insert, true) => Status::AlreadyExists,
        (Op::Update | Op::Delete, false) => Status::NotFound,
        (Op::Delete, true) => {
            model.remove(&key);
            Status::Ok
        }
        (_, there) => {
            model.insert(key, (version, value.to_vec()));
            if there { Status::Ok } else { Status::Created }
        }
    }
}

/// A batch of one operation on several keys, many of them more than once, from host memory.
fn run<P: Persist>(
    table: &Table<P>,
    model: &mut Model,
    random: &mut fastrand::Rng,
    (op, count, keys): (Op, usize, u64),
    durability: Durability,
) {
    let len = table.value_spec().max_len();
    let mut batch = table.batch();
    let mut rows = Vec::new();
    for _ in 0..count {
        let key = random.u64(..keys);
        let value: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
        batch.push(op, &key_in(table.key_spec(), key), &value, 0).unwrap();
        rows.push((key, value));
    }
    let results = table.run(&batch, durability).unwrap();
    for (index, (key, value)) in rows.iter().enumerate() {
        let version = results.versions()[index];
        let expected = apply(model, op, *key, value, version);
        assert_eq!(
            results.statuses()[index],
            expected,
            "{op:?} {durability:?}, operation {index}, key {key}"
        );
        if expected == Status::AlreadyExists {
            assert_eq!(version, model[key].0, "operation {index}");
        }
    }
}

fn check<P: Persist>(table: &Table<P>, model: &Model, keys: u64) {
    assert_eq!(table.len(), model.len() as u64);
    let mut batch = table.batch();
    for key in 0..keys {
        batch.get(&key_in(table.key_spec(), key)[..]).unwrap();
    }
    let results = table.run(&batch, Durability::Process).unwrap();
    for key in 0..keys {
        let found =
            results.value(key as usize).map(|value| (results.versions()[key as usize], value.to_vec()));
        assert_eq!(found.as_ref(), model.get(&key), "key {key}");
    }
}

/// Random batches with both durabilities, from host memory and from device memory; the table grows, is full now and then, and comes back
/// from its image and from its log.
#[test]
fn logged_batches_do_what_a_map_does() {
    let variable = |max| KeySpec::variable(max).unwrap();
    for (key, value, capacity) in [
        (KeySpec::U64, 40, 1000),
        (KeySpec::U64, 128, 9000),
        (variable(6), 128, 9000),
        (variable(20), 40, 1000),
    ] {
        let home = tempfile::tempdir().unwrap();
        let device = Device::simulated(Mode::fast()).unwrap();
        let options = StoreOptions { abandon_image: true, ..StoreOptions::default() };
        let open = || Store::open_on(home.path(), options.clone(), &device).unwrap();
        let (mut random, mut model, keys) = (fastrand::Rng::with_seed(u64::from(value)), Model::new(), 6000);
        let mut store = open();
        store.create_table("rows", TableOptions { key, ..table(value, capacity) }).unwrap();
        for round in 0..14 {
            let rows = store.table("rows").unwrap();
            let durability = if random.bool() { Durability::Power } else { Durability::Process };
            let (op, count) = (OPS[random.usize(..OPS.len())], random.usize(2048..4000));
            run(&rows, &mut model, &mut random, (op, count, keys), durability);
            // Deletes come from device memory: from host memory they are staged if the caller wants to know what
            // they removed.
            let op = [Op::Delete, Op::Put, Op::Insert, Op::Update][round % 4];
            let some: Vec<u64> = (0..random.usize(1..300)).map(|_| random.u64(..keys)).collect();
            let (statuses, values) = put_rows(&rows, &device, op, &some, round as u8, durability).unwrap();
            for ((key, status), value) in some.iter().zip(statuses).zip(values) {
                // Versions of deletes and of operations without effect are not checked below.
                assert_eq!(status, apply(&mut model, op, *key, &value, 0), "{op:?} of {key}, round {round}");
            }
            for &key in &some {
                if let (Some(item), Some((version, _))) =
                    (model.get_mut(&key), rows.get_versioned(&key_in(rows.key_spec(), key)[..]).unwrap())
                {
                    item.0 = version;
                }
            }
            check(&rows, &model, keys);
            drop(rows);
            if round % 5 == 3 {
                // As if killed, at first; then as if the machine had gone down.
                store.flush().unwrap();
                drop(store);
                if round > 5 {
                    std::fs::remove_file(home.path().join("image")).unwrap();
                }
                store = open();
                check(&store.table("rows").unwrap(), &model, keys);
            }
        }
        assert!(model.len() > 2000, "something to compare");
        store.close().unwrap();
        let report = verify(home.path(), &StoreOptions::default()).unwrap();
        assert!(report.sound, "{report:#?}");
    }
}

/// A store in that place, with its log on that disk.
fn opened(place: &Place, disk: &LabDisk) -> Store<Coherent> {
    let log = LogPlace { disk: Arc::new(disk.clone()), options: log_options() };
    Store::open_in(&place.plain(), Some(log), HeapOptions::default()).unwrap()
}

/// Keys in the overflow, which the device leaves to the CPU, and keys longer than their hashes: all of it is in the same record.
#[test]
fn what_the_cpu_does_of_a_batch_is_logged_with_it() {
    for key in [KeySpec::U64, KeySpec::fixed(24).unwrap(), KeySpec::variable(24).unwrap()] {
        let device = Device::simulated(Mode::fast()).unwrap();
        let (place, disk) = (Place::new(100), LabDisk::new(&Trace::new()));
        let store = opened(&place, &disk);
        store.give_to(&device).unwrap();
        let options = TableOptions::new(key, ValueSpec::fixed(16).unwrap()).capacity(1);
        let rows = store.create_table("rows", options).unwrap();
        let mut model: BTreeMap<u64, u8> = BTreeMap::new();
        let overflowed = || match rows.stats().unwrap() {
            TableStats::GpHash(stats) if !stats.growing => stats.overflow[0].used,
            _ => 0,
        };
        for number in 0..1000 {
            rows.put(&key_in(key, number)[..], &[1; 16][..], Durability::Process).unwrap();
            model.insert(number, 1);
            if overflowed() > 1 {
                break;
            }
        }
        assert!(overflowed() > 1, "the overflow is empty");
        let ops = [Op::Put, Op::Update, Op::Insert, Op::Delete];
        for (op, mark) in ops.into_iter().zip(2..) {
            let durability = if mark % 2 == 0 { Durability::Power } else { Durability::Process };
            // All that are there, some of them twice; of deletes only some.
            let mut numbers: Vec<u64> = model.keys().copied().collect();
            numbers.extend(0..5);
            if op == Op::Delete {
                numbers.retain(|number| number % 3 == 0);
            }
            let (statuses, _) = put_rows(&rows, &device, op, &numbers, mark, durability).unwrap();
            for (number, status) in numbers.iter().zip(statuses) {
                let expected = match (op, model.contains_key(number)) {
                    (Op::Insert, _) => Status::AlreadyExists,
                    (Op::Delete, there) => {
                        if there {
                            Status::Ok
                        } else {
                            Status::NotFound
                        }
                    }
                    _ => Status::Ok,
                };
                assert_eq!(status, expected, "{op:?} of {number}");
                match op {
                    Op::Insert => {}
                    Op::Delete => drop(model.remove(number)),
                    _ => drop(model.insert(*number, mark)),
                }
            }
        }
        let check = |store: &Store<Coherent>| {
            let rows = store.table("rows").unwrap();
            assert_eq!(rows.len(), model.len() as u64);
            for number in 0..1000 {
                let found = rows.get(&key_in(key, number)[..]).unwrap();
                assert_eq!(found, model.get(&number).map(|&mark| vec![mark; 16]), "key {number}");
            }
        };
        check(&store);
        store.flush().unwrap();
        drop(rows);
        drop(store);
        check(&opened(&place, &disk));
        check(&opened(&Place::new(100), &disk));
    }
}

/// Batches of several threads, single operations and checkpoints in parallel: the log matches the image.
#[test]
fn logged_batches_beside_others_come_back_from_the_log() {
    let home = tempfile::tempdir().unwrap();
    let device = Device::simulated(Mode::fast()).unwrap();
    let store = Store::open_on(home.path(), StoreOptions::default(), &device).unwrap();
    let keys = 5000;
    let rows = store.create_table("rows", table(24, 9000)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let rows = &rows;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                for round in 0..6 {
                    let durability =
                        if (thread + round) % 2 == 0 { Durability::Power } else { Durability::Process };
                    let mut batch = rows.batch();
                    for _ in 0..2500 {
                        batch.put(random.u64(..keys), &[random.u8(..); 24]).unwrap();
                    }
                    assert!(rows.run(&batch, durability).unwrap().first_error().is_none());
                    rows.put(random.u64(..keys), &[random.u8(..); 24], durability).unwrap();
                    rows.delete(random.u64(..keys), durability).unwrap();
                }
            });
        }
        scope.spawn(|| (0..3).for_each(|_| store.checkpoint().unwrap()));
    });
    let contents = |store: &Store| -> Vec<Option<(u64, Vec<u8>)>> {
        let rows = store.table("rows").unwrap();
        (0..keys).map(|key| rows.get_versioned(key).unwrap()).collect()
    };
    let before = contents(&store);
    assert!(before.iter().flatten().count() > 4000);
    store.flush().unwrap();
    drop(rows);
    drop(store);
    std::fs::remove_file(home.path().join("image")).unwrap();
    let options = StoreOptions { abandon_image: true, ..StoreOptions::default() };
    let store = Store::open_with(home.path(), options).unwrap();
    assert!(contents(&store) == before, "the log does not tell what the image had");
}

/// A `Power` batch is one record, however large, and is there as a whole when the machine comes back.
#[test]
fn a_large_batch_is_one_record() {
    let home = tempfile::tempdir().unwrap();
    let device = Device::simulated(Mode::fast()).unwrap();
    let mut options = StoreOptions { abandon_image: true, ..StoreOptions::default() };
    // Smaller than a batch: it gets a segment of its own.
    options.log.segment_bytes = 64 << 10;
    let store = Store::open_on(home.path(), options.clone(), &device).unwrap();
    let rows = store.create_table("rows", table(128, 60_000)).unwrap();
    let mut random = fastrand::Rng::with_seed(5);
    let mut model = Model::new();
    for op in [Op::Put, Op::Update, Op::Insert] {
        run(&rows, &mut model, &mut random, (op, 40_000, 30_000), Durability::Power);
    }
    drop(rows);
    drop(store);
    std::fs::remove_file(home.path().join("image")).unwrap();
    let store = Store::open_with(home.path(), options).unwrap();
    check(&store.table("rows").unwrap(), &model, 30_000);
}

/// A batch that the log refuses has no effect, and the next batch finds everything in its place.
#[test]
fn what_the_log_refuses_has_not_happened() {
    for durability in [Durability::Process, Durability::Power] {
        let device = Device::simulated(Mode::fast()).unwrap();
        let (place, disk) = (Place::new(2000), LabDisk::new(&Trace::new()));
        let store = opened(&place, &disk);
        store.give_to(&device).unwrap();
        let rows = store.create_table("rows", table(64, 9000)).unwrap();
        let (mut random, mut model) = (fastrand::Rng::with_seed(3), Model::new());
        run(&rows, &mut model, &mut random, (Op::Put, 3000, 4000), Durability::Power);
        // No further segment can be made, and there is no room for such a batch in this one.
        disk.inject(Fault::after(DiskCall::Create, 0, libc::ENOSPC));
        let mut batch = rows.batch();
        for key in 0..3000_u64 {
            batch.put(key * 3, &[9; 64]).unwrap();
        }
        let refused = rows.run(&batch, durability).expect_err("there is no space for it");
        assert!(
            matches!(&refused, Error::Log(error @ LogError::NoSegment { .. }) if error.is_disk_full()),
            "{refused}"
        );
        disk.heal();
        check(&rows, &model, 9000);
        run(&rows, &mut model, &mut random, (Op::Put, 3000, 4000), durability);
        check(&rows, &model, 4000);
        store.flush().unwrap();
        drop(rows);
        drop(store);
        let store = opened(&place, &disk);
        check(&store.table("rows").unwrap(), &model, 9000);
    }
}

/// The log fails while a batch is made durable: nothing of it is in the image, and the next opening finds the batch
/// or none of it.
#[test]
fn a_log_that_breaks_leaves_nothing_half_done() {
    for call in [DiskCall::Write, DiskCall::Sync] {
        let device = Device::simulated(Mode::fast()).unwrap();
        let (place, disk) = (Place::new(2000), LabDisk::new(&Trace::new()));
        let store = opened(&place, &disk);
        store.give_to(&device).unwrap();
        let rows = store.create_table("rows", table(16, 300)).unwrap();
        let keys: Vec<u64> = (0..40).collect();
        put_rows(&rows, &device, Op::Put, &keys, 1, Durability::Power).unwrap();
        disk.inject(Fault::nth(call, 1, libc::EIO));
        let broken = put_rows(&rows, &device, Op::Put, &keys, 2, Durability::Power).expect_err("it broke");
        assert!(matches!(broken, Error::Log(LogError::Poisoned { .. })), "{broken}");
        assert!(keys.iter().all(|&key| rows.get(key).unwrap() == Some(vec![1; 16])), "{call:?}");
        let refused = put_rows(&rows, &device, Op::Put, &keys, 3, Durability::Process);
        assert!(matches!(refused, Err(Error::Log(LogError::Poisoned { .. }))), "{refused:?}");
        drop(rows);
        drop(store);
        let store = opened(&place, &disk);
        let rows = store.table("rows").unwrap();
        let first = rows.get(0).unwrap();
        assert!(first == Some(vec![1; 16]) || first == Some(vec![2; 16]), "{call:?}: {first:?}");
        assert!(keys.iter().all(|&key| rows.get(key).unwrap() == first), "{call:?}");
    }
}

/// The device is lost at some step of a logged batch: the CPU executes it as a whole, also if the log was durable
/// already.
#[test]
fn a_device_lost_in_a_logged_batch_leaves_it_whole() {
    let mut lost_in_a_batch = 0;
    for round in 0..16_u64 {
        let device = Device::simulated(Mode::seeded(round)).unwrap();
        let (place, disk) = (Place::new(60), LabDisk::new(&Trace::new()));
        let store = opened(&place, &disk);
        store.give_to(&device).unwrap();
        let rows = store.create_table("rows", table(16, 100)).unwrap();
        let keys: Vec<u64> = (0..20).collect();
        put_rows(&rows, &device, Op::Put, &keys, 1, Durability::Power).unwrap();
        let now = device.last_run().expect("kernels have run").now;
        device.simulator().unwrap().crash_at(Some(now + 1 + 137 * round));
        let durability = if round % 2 == 0 { Durability::Power } else { Durability::Process };
        let keys: Vec<u64> = (10..30).collect();
        // Answers were to go to the memory of a lost device, so the call may return that error; but the batch is
        // done, or not begun.
        let done = put_rows(&rows, &device, Op::Put, &keys, 2, durability);
        let lost = device.check().is_err();
        lost_in_a_batch += u32::from(lost);
        assert!(lost || done.is_ok());
        let check = |store: &Store<Coherent>| {
            let rows = store.table("rows").unwrap();
            let new = rows.get(15).unwrap() == Some(vec![2; 16]);
            assert!(new || lost, "round {round}");
            assert_eq!(rows.len(), if new { 30 } else { 20 }, "round {round}");
            for key in 0..30 {
                let expected = if new && key >= 10 { Some(2) } else { (key < 20).then_some(1) };
                let found = rows.get(key).unwrap();
                assert_eq!(found, expected.map(|byte| vec![byte; 16]), "key {key}, round {round}");
            }
            new
        };
        let new = check(&store);
        store.flush().unwrap();
        drop(rows);
        drop(store);
        assert_eq!(check(&opened(&place, &disk)), new, "round {round}, from the image");
        assert_eq!(check(&opened(&Place::new(60), &disk)), new, "round {round}, from the log");
    }
    assert!(lost_in_a_batch > 8, "only {lost_in_a_batch} of them were lost");
}

#[test]
fn power_without_a_log_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let options = StoreOptions { without_log: true, device: DeviceChoice::Sim, ..StoreOptions::default() };
    let store = Store::open_with(home.path(), options).unwrap();
    let rows = store.create_table("rows", table(16, 9000)).unwrap();
    let mut batch = rows.batch();
    for key in 0..3000_u64 {
        batch.put(key, &[1; 16]).unwrap();
    }
    assert!(matches!(rows.run(&batch, Durability::Power), Err(Error::NoLog)));
    assert_eq!(rows.len(), 0);
}
