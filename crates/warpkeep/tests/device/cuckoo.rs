//! Tables with keys and values of any length whose device has a cuckoo index: gets find what the CPU would find, whatever
//! was written meanwhile.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use warpkeep::{
    Device, DeviceIndex, Durability, HostGetStrategy, KeySpec, Store, StoreOptions, Table, TableOptions,
    ValueSpec,
};
use warpkeep_device::Mode;

fn open(device: &Device, directory: &Path) -> Store {
    let options = StoreOptions { device_index: DeviceIndex::Cuckoo, ..StoreOptions::default() };
    Store::open_on(directory, options, device).unwrap()
}

fn any_length() -> TableOptions {
    let (key, value) = (KeySpec::variable(300).unwrap(), ValueSpec::variable(5000).unwrap());
    TableOptions::new(key, value).capacity(10)
}

/// Keys of different lengths.
fn key(number: u32) -> Vec<u8> {
    format!("key {number} ").repeat(1 + number as usize % 20).into_bytes()
}

fn value(number: u32, write: u32) -> Vec<u8> {
    format!("{write} of {number} ").repeat(1 + (number + write) as usize % 50).into_bytes()
}

/// Gets of these keys in one batch.
fn get(table: &Table, numbers: std::ops::Range<u32>) -> Vec<Option<Vec<u8>>> {
    let mut batch = table.batch();
    for number in numbers.clone() {
        batch.get(&key(number)[..]).unwrap();
    }
    let results = table.run(&batch, Durability::Process).unwrap();
    (0..numbers.len()).map(|index| results.value(index).map(<[u8]>::to_vec)).collect()
}

fn index_bytes(table: &Table) -> u64 {
    table.device_stats().unwrap().unwrap().index_bytes
}

/// Random writes, one by one and in batches, and batches of gets in between, against a map. The table grows from nothing,
/// so that the index is built again several times.
#[test]
fn gets_by_a_cuckoo_index_are_those_of_a_map() {
    const KEYS: u32 = 3000;
    let home = tempfile::tempdir().unwrap();
    let device = Device::simulated(Mode::fast()).unwrap();
    let mut store = open(&device, home.path());
    let mut table = store.create_table("t", any_length()).unwrap();
    let mut map = vec![None; KEYS as usize];
    let mut random = fastrand::Rng::with_seed(3);
    for round in 0..60_u32 {
        let mut batch = table.batch();
        for _ in 0..random.usize(1..200) {
            let number = random.u32(..KEYS.min(100 * (round + 1)));
            match random.u8(..4) {
                0 => {
                    batch.delete(&key(number)[..]).unwrap();
                    map[number as usize] = None;
                }
                _ => {
                    batch.put(&key(number)[..], &value(number, round)[..]).unwrap();
                    map[number as usize] = Some(value(number, round));
                }
            }
        }
        let durability = if round % 5 == 0 { Durability::Power } else { Durability::Process };
        assert_eq!(table.run(&batch, durability).unwrap().first_error(), None);
        if round % 7 == 3 {
            // Moves records.
            drop(table);
            store.compact().unwrap();
            table = store.table("t").unwrap();
        }
        if round % 20 == 19 {
            drop((table, store));
            store = open(&device, home.path());
            table = store.table("t").unwrap();
        }
        let first = random.u32(..KEYS / 2);
        let range = first..(first + random.u32(1..1500)).min(KEYS);
        let got = get(&table, range.clone());
        assert!(got == map[range.start as usize..range.end as usize], "round {round}");
        assert!(index_bytes(&table) > 0);
    }
    assert!(index_bytes(&table) > 8 * map.iter().flatten().count() as u64);
    let gathered =
        table.host_get_batches().into_iter().find(|batches| batches.strategy == HostGetStrategy::Gather);
    assert!(gathered.is_some_and(|gathered| gathered.batches > 0), "{gathered:?}");
}

/// While a thread writes, another never gets a value that is older than what was acknowledged before it asked.
#[test]
fn gets_by_a_cuckoo_index_see_every_acknowledged_write() {
    const KEYS: u32 = 40;
    let home = tempfile::tempdir().unwrap();
    let device = Device::simulated(Mode::fast()).unwrap();
    let store = open(&device, home.path());
    let table = store.create_table("t", any_length()).unwrap();
    let acknowledged: Vec<AtomicU32> = (0..KEYS).map(|_| AtomicU32::new(0)).collect();
    for number in 0..KEYS {
        table.put(&key(number)[..], &value(number, 0)[..], Durability::Process).unwrap();
    }
    // Opened again, its index leads to all of these records.
    drop(table);
    store.close().unwrap();
    let store = open(&device, home.path());
    let table = store.table("t").unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (table, acknowledged, stop) = (&table, &acknowledged, &stop);
            scope.spawn(move || {
                let mut write = 0;
                while !stop.load(Ordering::Relaxed) {
                    write += 1;
                    for number in (writer..KEYS).step_by(2) {
                        table.put(&key(number)[..], &value(number, write)[..], Durability::Process).unwrap();
                        acknowledged[number as usize].store(write, Ordering::Release);
                    }
                }
            });
        }
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..60 {
                        let least: Vec<u32> =
                            acknowledged.iter().map(|write| write.load(Ordering::Acquire)).collect();
                        for (number, found) in (0..KEYS).zip(get(&table, 0..KEYS)) {
                            let found = String::from_utf8(found.expect("it is never deleted")).unwrap();
                            let write: u32 = found.split(' ').next().unwrap().parse().unwrap();
                            assert!(
                                write >= least[number as usize],
                                "{write} after {}",
                                least[number as usize]
                            );
                            assert_eq!(found.as_bytes(), value(number, write));
                        }
                    }
                })
            })
            .collect();
        let ended: Vec<_> = readers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        stop.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|reader| reader.unwrap());
    });
}

#[test]
fn without_memory_for_a_cuckoo_index_kernels_read_the_image() {
    let home = tempfile::tempdir().unwrap();
    let device = Device::simulated(Mode::fast()).unwrap();
    {
        let store = open(&device, home.path());
        let table = store.create_table("t", any_length()).unwrap();
        for number in 0..600 {
            table.put(&key(number)[..], &value(number, 1)[..], Durability::Process).unwrap();
        }
        drop(table);
        store.close().unwrap();
    }
    let expected: Vec<_> = (0..700).map(|number| (number < 600).then(|| value(number, 1))).collect();
    let (mut with, mut without) = (0, 0);
    for budget in (0..40).map(|step| (64 << 10) * step) {
        let limited = device.with_budget(budget);
        let options = StoreOptions { device_index: DeviceIndex::Cuckoo, ..StoreOptions::default() };
        let Ok(store) = Store::open_on(home.path(), options, &limited) else { continue };
        let table = store.table("t").unwrap();
        match index_bytes(&table) {
            0 => without += 1,
            _ => with += 1,
        }
        assert!(get(&table, 0..700) == expected, "with {budget} bytes");
        drop(table);
        store.close().unwrap();
    }
    assert!(with > 0, "{with} budgets with an index, {without} without");
}
