//! Stores whose tables run on a device, here the simulator: the same batches on the CPU must have the same result.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use warpkeep::{
    Batch, Device, DeviceChoice, Durability, Error, IndexKind, IndexOptions, KeySpec, Layout, MergeRule, Op,
    Status, Store, StoreOptions, TableOptions, ValueSpec, verify,
};
use warpkeep_device::Mode;

fn options(device: DeviceChoice) -> StoreOptions {
    StoreOptions { device, abandon_image: true, ..StoreOptions::default() }
}

fn open(directory: &Path, device: DeviceChoice) -> Store {
    Store::open_with(directory, options(device)).unwrap()
}

fn table(layout: Layout, value: u32) -> TableOptions {
    TableOptions::new(KeySpec::U64, ValueSpec::fixed(value).unwrap())
        .index(IndexOptions::gphash(layout))
        .merge(MergeRule::AddU64)
        .capacity(500)
}

/// A batch in which many keys come more than once.
fn batch(random: &mut fastrand::Rng, empty: &Batch, value_len: usize, keys: u64) -> Batch {
    let ops = [
        Op::Get,
        Op::Put,
        Op::Put,
        Op::Insert,
        Op::Update,
        Op::Delete,
        Op::CompareAndSwap,
        Op::FetchAdd,
        Op::Merge,
    ];
    let mut batch = empty.clone();
    for _ in 0..1000 {
        let op = ops[random.usize(..ops.len())];
        if op == Op::FetchAdd && value_len != 8 {
            continue;
        }
        let key = random.u64(..keys).to_le_bytes();
        let value: Vec<u8> =
            if op.takes_value() { (0..value_len).map(|_| random.u8(..)).collect() } else { Vec::new() };
        batch.push(op, &key, &value, random.u64(..3)).unwrap();
    }
    batch
}

#[test]
fn a_device_and_the_cpu_come_to_the_same() {
    for (layout, value_len) in
        [(Layout::Packed, 32), (Layout::InPlace, 8), (Layout::InPlace, 40), (Layout::Packed, 8)]
    {
        let homes = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let devices = [DeviceChoice::Sim, DeviceChoice::Cpu];
        let mut stores: Vec<Store> =
            homes.iter().zip(devices).map(|(home, device)| open(home.path(), device)).collect();
        for store in &stores {
            store.create_table("t", table(layout, value_len as u32)).unwrap();
        }
        let mut random = fastrand::Rng::with_seed(value_len as u64);
        for round in 0..12 {
            let durability = if round % 3 == 0 { Durability::Power } else { Durability::Process };
            let batch = batch(&mut random, &stores[0].table("t").unwrap().batch(), value_len, 3000);
            let results: Vec<_> = stores
                .iter()
                .map(|store| store.table("t").unwrap().run(&batch, durability).unwrap())
                .collect();
            assert_eq!(results[0].statuses(), results[1].statuses(), "round {round}, {layout:?}");
            for index in 0..batch.len() {
                assert_eq!(results[0].value(index), results[1].value(index), "round {round}, {layout:?}");
            }
            if round == 5 {
                // As if killed; and the two change places.
                drop(std::mem::take(&mut stores));
                let devices = [DeviceChoice::Cpu, DeviceChoice::Sim];
                stores = homes.iter().zip(devices).map(|(home, device)| open(home.path(), device)).collect();
            }
        }
        let mut items: Vec<Vec<_>> = Vec::new();
        for store in &stores {
            let table = store.table("t").unwrap();
            let keys: Vec<u64> = (0..3000).collect();
            items.push(keys.iter().map(|&key| table.get(key).unwrap()).collect());
            assert_eq!(table.len(), items[0].iter().flatten().count() as u64);
        }
        assert_eq!(items[0], items[1]);
        assert!(items[0].iter().flatten().count() > 500, "something to compare");
        for (store, home) in stores.into_iter().zip(&homes) {
            store.close().unwrap();
            let report = verify(home.path(), &StoreOptions::default()).unwrap();
            assert!(report.sound, "{report:#?}");
        }
    }
}

#[test]
fn what_a_device_wrote_comes_back_from_the_log() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path(), DeviceChoice::Sim);
    let rows = store.create_table("rows", table(Layout::Packed, 16).capacity(10_000)).unwrap();
    for durability in [Durability::Process, Durability::Power] {
        let mut batch = rows.batch();
        for key in 0..2000_u64 {
            batch.merge(key, &[1; 16]).unwrap();
        }
        assert_eq!(rows.run(&batch, durability).unwrap().first_error(), None);
    }
    assert_eq!(rows.len(), 2000);
    drop(rows);
    drop(store);
    std::fs::remove_file(home.path().join("image")).unwrap();
    let store = open(home.path(), DeviceChoice::Sim);
    let rows = store.table("rows").unwrap();
    assert_eq!((rows.len(), rows.get(7).unwrap()), (2000, Some(vec![2; 16])));
    let mut batch = rows.batch();
    for key in 1000..3000_u64 {
        batch.get(key).unwrap();
    }
    let results = rows.run(&batch, Durability::Process).unwrap();
    assert_eq!(results.statuses().iter().filter(|status| **status == Status::Ok).count(), 1000);
    assert_eq!(results.value(0), Some(&[2; 16][..]));
    drop(rows);
    store.close().unwrap();
}

#[test]
fn tables_of_any_length_are_written_by_the_cpu_and_read_by_the_device() {
    let home = tempfile::tempdir().unwrap();
    let device = Device::simulated(Mode::seeded(1)).unwrap();
    let store = Store::open_on(home.path(), StoreOptions::default(), &device).unwrap();
    let (key, value) = (KeySpec::variable(20).unwrap(), ValueSpec::variable(5000).unwrap());
    let names = store.create_table("names", TableOptions::new(key, value).capacity(10)).unwrap();
    let value_of = |number: usize| format!("value {number} ").repeat(number % 300);
    let launches = || device.last_run().map_or(0, |report| report.now);
    for round in 0..3 {
        let mut batch = names.batch();
        for number in round * 500..round * 500 + 1000 {
            batch.put(&format!("name {number}")[..], &value_of(number)[..]).unwrap();
        }
        let before = launches();
        // Several at once: they do not wait for the device.
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| names.run(&batch, Durability::Process).unwrap());
            }
        });
        assert_eq!(launches(), before, "the CPU writes");
        let mut batch = names.batch();
        for number in 0..2500 {
            batch.get(&format!("name {number}")[..]).unwrap();
        }
        let results = names.run(&batch, Durability::Process).unwrap();
        assert!(launches() > before, "the device reads");
        for number in 0..2500 {
            let expected = (number < round * 500 + 1000).then(|| value_of(number));
            assert_eq!(results.value(number), expected.as_ref().map(String::as_bytes), "{number}");
        }
    }
    assert_eq!(names.get("name 77").unwrap(), Some(value_of(77).into_bytes()));
}

/// The device is lost at some step of a batch: the CPU executes it, and no acknowledged write is missing.
#[test]
fn a_lost_device_hands_its_tables_to_the_cpu() {
    let mut lost_in_a_batch = 0;
    for (round, layout) in [Layout::Packed, Layout::InPlace].into_iter().cycle().enumerate().take(24) {
        let home = tempfile::tempdir().unwrap();
        let device = Device::simulated(Mode::seeded(round as u64)).unwrap();
        let store = Store::open_on(home.path(), StoreOptions::default(), &device).unwrap();
        let rows = store.create_table("rows", table(layout, 8)).unwrap();
        let put = |keys: std::ops::Range<u64>, value: u64, durability| {
            let mut batch = rows.batch();
            for key in keys {
                batch.put(key, value).unwrap();
            }
            rows.run(&batch, durability).unwrap()
        };
        assert_eq!(put(0..40, 1, Durability::Power).first_error(), None);
        let now = device.last_run().expect("kernels have run").now;
        device.simulator().unwrap().crash_at(Some(now + 1 + 311 * round as u64));
        let durability = if round % 3 == 0 { Durability::Power } else { Durability::Process };
        assert!(put(20..60, 2, durability).first_error().is_none());
        lost_in_a_batch += u32::from(device.check().is_err());
        assert_eq!(put(50..70, 3, Durability::Process).first_error(), None);
        let check = |store: &Store| {
            let rows = store.table("rows").unwrap();
            assert_eq!(rows.len(), 70);
            for key in 0..70 {
                let value: u64 = if key < 20 {
                    1
                } else if key < 50 {
                    2
                } else {
                    3
                };
                assert_eq!(
                    rows.get(key).unwrap(),
                    Some(value.to_le_bytes().to_vec()),
                    "key {key}, round {round}"
                );
            }
        };
        check(&store);
        drop(rows);
        drop(store);
        let report = verify(home.path(), &StoreOptions::default()).unwrap();
        assert!(report.sound, "{report:#?}");
        check(&open(home.path(), DeviceChoice::Cpu));
    }
    assert!(lost_in_a_batch > 6, "only {lost_in_a_batch} of them were lost");
}

/// Writers of the CPU have claimed slots, and wait for the disk, when a device that only reads is lost.
#[test]
fn a_lost_device_that_only_reads_takes_no_slot_from_writers() {
    const WRITERS: u64 = 4;
    let (mut lost, mut steps) = (0, 0);
    for round in 0..12 {
        let home = tempfile::tempdir().unwrap();
        let device = Device::simulated(Mode::seeded(round)).unwrap();
        let store = Store::open_on(home.path(), StoreOptions::default(), &device).unwrap();
        let value = ValueSpec::variable(100).unwrap();
        // So small that writers often want the same slot.
        let table = store.create_table("t", TableOptions::new(KeySpec::U64, value).capacity(1)).unwrap();
        let mut gets = table.batch();
        for key in 0..64 {
            gets.get(key * 50).unwrap();
        }
        let now = || device.last_run().map_or(0, |report| report.now);
        let before = now();
        assert_eq!(table.run(&gets, Durability::Process).unwrap().first_error(), None);
        if round == 0 {
            steps = now() - before;
        }
        device.simulator().unwrap().crash_at(Some(now() + steps * (round + 1) / 12));
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (table, is_over) = (&table, &is_over);
                scope.spawn(move || {
                    // Some more after the device is lost.
                    let mut more = 20;
                    for key in (0..1_000_000).map(|number| number * WRITERS + writer) {
                        table.put(key, &key.to_string()[..], Durability::Power).unwrap();
                        let there = table.get(key).unwrap();
                        assert_eq!(there, Some(key.to_string().into_bytes()), "key {key}, round {round}");
                        table.delete(key, Durability::Process).unwrap();
                        more -= u32::from(is_over.load(Ordering::Relaxed));
                        if more == 0 {
                            break;
                        }
                    }
                });
            }
            for _ in 0..4 {
                assert_eq!(table.run(&gets, Durability::Process).unwrap().first_error(), None);
            }
            lost += u32::from(device.check().is_err());
            is_over.store(true, Ordering::Relaxed);
        });
        assert_eq!(table.len(), 0, "round {round}");
    }
    assert!(lost > 6, "only {lost} were lost");
}

#[test]
fn a_device_that_is_not_there_is_an_error_and_nothing_is_touched() {
    if warpkeep::devices().iter().any(|device| device.choice == DeviceChoice::Cuda(63)) {
        println!("SKIPPED: this machine has 64 GPUs");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let error = Store::open_with(home.path().join("store"), options(DeviceChoice::Cuda(63))).unwrap_err();
    assert!(matches!(error, Error::Device(_)) && error.to_string().contains("cuda:63"), "{error}");
    assert!(!home.path().join("store/image").exists());
}

/// No kernels support TurboHash tables: they run on the CPU beside those on a device.
#[test]
fn turbohash_tables_are_worked_by_the_cpu() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path(), DeviceChoice::Sim);
    let turbo = TableOptions::new(KeySpec::U64, ValueSpec::U64).index(IndexKind::TurboHash);
    let (turbo, rows) = (
        store.create_table("turbo", turbo).unwrap(),
        store.create_table("rows", table(Layout::Packed, 8)).unwrap(),
    );
    for table in [&turbo, &rows] {
        let mut batch = table.batch();
        for key in 0..2000_u64 {
            batch.put(key, key * 3).unwrap();
        }
        assert!(table.run(&batch, Durability::Power).unwrap().first_error().is_none());
        let mut batch = table.batch();
        for key in 0..2000_u64 {
            batch.get(key).unwrap();
        }
        let results = table.run(&batch, Durability::Process).unwrap();
        assert!((0..2000).all(|key| results.number(key) == Some(3 * key as u64)), "{}", table.index());
    }
    drop((turbo, rows));
    store.close().unwrap();
    assert!(verify(home.path(), &StoreOptions::default()).unwrap().sound);
}

/// A thread that resizes a table waits for readers that have begun, and makes others wait: neither may wait for the
/// other.
#[test]
fn tables_grow_and_shrink_beside_gets_of_a_device() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path(), DeviceChoice::Sim);
    let rows = store.create_table("t", table(Layout::Packed, 16)).unwrap();
    let mut puts = rows.batch();
    for key in 0..600_u64 {
        puts.put(key, &[key as u8; 16]).unwrap();
    }
    assert_eq!(rows.run(&puts, Durability::Process).unwrap().first_error(), None);
    let mut gets = rows.batch();
    for key in 0..1200_u64 {
        gets.get(key).unwrap();
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut rounds = 0;
                    while !done.load(Ordering::Acquire) || rounds == 0 {
                        let found = rows.run(&gets, Durability::Process).unwrap();
                        for key in 0..1200 {
                            let expected = (key < 600).then_some([key as u8; 16]);
                            assert_eq!(found.value(key), expected.as_ref().map(|value| &value[..]), "{key}");
                        }
                        rounds += 1;
                    }
                })
            })
            .collect();
        let changes = scope.spawn(|| {
            for _ in 0..3 {
                rows.grow().unwrap();
                // Whether it becomes smaller depends on the hashes: a small table may turn around half way.
                rows.shrink().unwrap();
                store.compact().unwrap();
            }
        });
        let begun = Instant::now();
        while !changes.is_finished() {
            // There is no other way out of it.
            if begun.elapsed() > Duration::from_secs(120) {
                eprintln!("the table and its readers wait for each other");
                std::process::abort();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        done.store(true, Ordering::Release);
        changes.join().unwrap();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}
