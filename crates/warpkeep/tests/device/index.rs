//! What a device keeps of an index in its own memory: answers are the same, whatever that is.

use std::time::Duration;

use warpkeep::rows::{
    BatchView, Cells, Column, ColumnMut, Columns, DeviceSlice, DeviceSliceMut, Output, OutputValues,
};
use warpkeep::{
    Batch, Device, DeviceIndex, DeviceValues, Durability, Error, KeySpec, Op, Status, Store, StoreOptions,
    Table, TableOptions, ValueSpec,
};
use warpkeep_device::Mode;

fn open(device: &Device, home: &std::path::Path, device_index: DeviceIndex) -> Store {
    let options = StoreOptions { device_index, without_log: true, ..StoreOptions::default() };
    Store::open_on(home, options, device).unwrap()
}

fn options() -> TableOptions {
    TableOptions::new(KeySpec::U64, ValueSpec::fixed(16).unwrap()).capacity(300)
}

fn gets(table: &Table<'_>, keys: std::ops::Range<u64>) -> Batch {
    let mut batch = table.batch();
    keys.for_each(|key| {
        batch.get(key).unwrap();
    });
    batch
}

fn put(table: &Table<'_>, keys: std::ops::Range<u64>, mark: u8) {
    let mut batch = table.batch();
    for key in keys {
        batch.put(key, &[mark; 16]).unwrap();
    }
    assert!(table.run(&batch, Durability::Process).unwrap().first_error().is_none());
}

#[test]
fn a_cache_fills_by_itself_and_answers_stay_right() {
    let home = tempfile::tempdir().unwrap();
    let device = Device::simulated(Mode::fast()).unwrap();
    let store = open(&device, home.path(), DeviceIndex::Cached(0.5));
    let table = store.create_table("t", options()).unwrap();
    put(&table, 0..200, 1);
    assert_eq!(table.cache_stats().unwrap().map(|stats| stats.cached_buckets), Some(0));
    let batch = gets(&table, 0..250);
    let mut cached = 0;
    // The thread in the background loads it once there have been enough gets; how soon it gets a turn is up to the machine.
    for round in 0..4000_u64 {
        put(&table, round % 100..round % 100 + 3, round as u8);
        let results = table.run(&batch, Durability::Process).unwrap();
        let found = results.statuses().iter().filter(|status| **status == Status::Ok).count();
        assert_eq!((found, results.value((round % 100) as usize)), (200, Some(&[round as u8; 16][..])));
        let stats = table.cache_stats().unwrap().unwrap();
        cached = stats.cached_buckets;
        if cached > 0 && stats.hits > 0 {
            assert!(cached * 2 <= stats.buckets + 1, "{stats:?}");
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(cached > 0, "never loaded");
    // What the CPU writes is in the copies before the next kernel reads.
    table.put(7, &[99; 16], Durability::Process).unwrap();
    assert_eq!(table.run(&batch, Durability::Process).unwrap().value(7), Some(&[99; 16][..]));
}

#[test]
fn nothing_is_cached_where_nobody_asks_for_it() {
    let home = tempfile::tempdir().unwrap();
    let device = Device::simulated(Mode::fast()).unwrap();
    let store = open(&device, home.path(), DeviceIndex::InImage);
    let table = store.create_table("t", options()).unwrap();
    put(&table, 0..200, 1);
    assert_eq!(table.cache_stats().unwrap(), None);
    drop(table);
    drop(store);
    for share in [-0.1, 1.5, f64::NAN] {
        let index = DeviceIndex::Cached(share);
        let options = StoreOptions { device_index: index, ..StoreOptions::default() };
        let error = Store::open_on(home.path(), options, &device).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)) && error.to_string().contains("from 0 to 1"), "{error}");
    }
}

#[test]
fn hot_values_come_to_the_device_by_themselves() {
    let home = tempfile::tempdir().unwrap();
    let device = Device::simulated(Mode::fast()).unwrap();
    let with = |device_values| StoreOptions { device_values, without_log: true, ..StoreOptions::default() };
    for share in [-0.1, 1.5, f64::NAN] {
        let error = Store::open_on(home.path(), with(DeviceValues::Share(share)), &device).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)) && error.to_string().contains("of the values"), "{error}");
    }
    let store = Store::open_on(home.path(), with(DeviceValues::Share(0.25)), &device).unwrap();
    let table = store.create_table("t", options()).unwrap();
    put(&table, 0..200, 1);
    let stats = table.device_stats().unwrap().unwrap();
    assert!(stats.mirror_bytes > 0 && stats.values == 0 && stats.bucket_bytes == 0, "{stats:?}");
    let hot = gets(&table, 100..140);
    let mut found = None;
    // The thread in the background loads them once there have been enough gets; how soon it gets a turn is up to the machine.
    for round in 0..4000_u64 {
        put(&table, 100 + round % 7..103 + round % 7, round as u8);
        let results = table.run(&hot, Durability::Process).unwrap();
        assert_eq!(results.value((round % 7) as usize), Some(&[round as u8; 16][..]));
        let stats = table.device_stats().unwrap().unwrap();
        if stats.values > 0 && stats.value_hits > 0.5 {
            found = Some(stats);
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let stats = found.expect("they are loaded");
    assert_eq!(stats.values, 50, "{stats:?}");
    assert!(stats.value_bytes > 50 * 16 && stats.bytes() > stats.value_bytes, "{stats:?}");
    // What the CPU writes is seen by the next kernel.
    table.put(107, &[99; 16], Durability::Process).unwrap();
    assert_eq!(table.run(&hot, Durability::Process).unwrap().value(7), Some(&[99; 16][..]));
}

#[test]
fn a_table_that_has_no_use_for_a_mirror_has_a_cache() {
    let home = tempfile::tempdir().unwrap();
    let device = Device::simulated(Mode::fast()).unwrap();
    let store = open(&device, home.path(), DeviceIndex::default());
    let rows = store.create_table("rows", options()).unwrap();
    assert_eq!(rows.cache_stats().unwrap(), None);
    let in_slots = store.create_table("counters", TableOptions::new(KeySpec::U64, ValueSpec::U64)).unwrap();
    assert!(in_slots.cache_stats().unwrap().is_some());
}

/// Rows in device memory, with a mirror and no log: what is written never sees the host. Also keys that come more than once.
#[test]
fn rows_are_written_straight_through() {
    let homes = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let device = Device::simulated(Mode::fast()).unwrap();
    let one = open(&device, homes[0].path(), DeviceIndex::Mirrored);
    let other =
        Store::open_with(homes[1].path(), StoreOptions { without_log: true, ..StoreOptions::default() })
            .unwrap();
    let tables = [&one, &other].map(|store| store.create_table("t", options()).unwrap());
    let mut random = fastrand::Rng::with_seed(5);
    for (round, op) in
        [Op::Put, Op::Insert, Op::Update, Op::Delete, Op::Put, Op::Delete].into_iter().enumerate()
    {
        let keys: Vec<u64> = (0..400).map(|_| random.u64(..600)).collect();
        let rows: Vec<u8> = (0..400 * 16).map(|_| random.u8(..)).collect();
        let (keys_there, rows_there) = (device.upload(&keys).unwrap(), device.upload(&rows).unwrap());
        let statuses = device.allocate_zeroed(400).unwrap();
        // SAFETY: the buffers are as long as that and live on, and nobody else uses them.
        let (columns, answers) = unsafe {
            let keys = Column::Device(DeviceSlice::from_raw(keys_there.ptr().address(), 3200, 0));
            let rows = Column::Device(DeviceSlice::from_raw(rows_there.ptr().address(), 6400, 0));
            let values = match op.takes_value() {
                true => Cells::Fixed { len: 16, bytes: rows },
                false => Cells::Empty,
            };
            let keys = Cells::Fixed { len: 8, bytes: keys };
            let answers = ColumnMut::Device(DeviceSliceMut::from_raw(statuses.ptr().address(), 400, 0));
            (Columns::with_values(op, keys, values), answers)
        };
        let view = BatchView::new(tables[0].key_spec(), tables[0].value_spec(), columns).unwrap();
        let output = Output::new(&view, answers, None, OutputValues::None).unwrap();
        tables[0].run_on(&view, Durability::Process, output, &device.stream().unwrap()).unwrap();
        let mut batch = tables[1].batch();
        for (index, key) in keys.iter().enumerate() {
            let value = if op.takes_value() { &rows[16 * index..][..16] } else { &[] };
            batch.push(op, &key.to_le_bytes(), value, 0).unwrap();
        }
        let results = tables[1].run(&batch, Durability::Process).unwrap();
        let expected: Vec<u8> = results.statuses().iter().map(|&status| status as u8).collect();
        assert_eq!(statuses.to_vec::<u8>().unwrap(), expected, "round {round}, {op:?}");
        let answers = [0, 1].map(|which| {
            let table = &tables[which];
            let results = table.run(&gets(table, 0..600), Durability::Process).unwrap();
            (0..600).map(|index| results.value(index).map(<[u8]>::to_vec)).collect::<Vec<_>>()
        });
        assert!(answers[0] == answers[1], "round {round}, {op:?}");
        assert_eq!(tables[0].len(), tables[1].len());
    }
}
