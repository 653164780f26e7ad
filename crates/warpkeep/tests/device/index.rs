//! A device's copies of an index in its own memory: answers are the same, whatever it holds.

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

fn gets(table: &Table, keys: std::ops::Range<u64>) -> Batch {
    let mut batch = table.batch();
    keys.for_each(|key| {
        batch.get(key).unwrap();
    });
    batch
}

fn put(table: &Table, keys: std::ops::Range<u64>, mark: u8) {
    let mut batch = table.batch();
    for key in keys {
        batch.put(key, &[mark; 16]).unwrap();
    }
    assert!(table.run(&batch, Durability::Process).unwrap().first_error().is_none());
}

#[test]
fn a_table_without_an_index_in_device_memory_is_read_in_the_image() {
    let home = tempfile::tempdir().unwrap();
    let device = Device::simulated(Mode::fast()).unwrap();
    let store = open(&device, home.path(), DeviceIndex::InImage);
    let table = store.create_table("t", options()).unwrap();
    put(&table, 0..200, 1);
    assert_eq!(table.device_stats().unwrap().unwrap().bytes(), 0);
    let results = table.run(&gets(&table, 0..250), Durability::Process).unwrap();
    assert_eq!(results.statuses().iter().filter(|status| **status == Status::Ok).count(), 200);
}

/// Gets with keys and answers in device memory; gives the values.
fn got_on_device(table: &Table, device: &Device, keys: std::ops::Range<u64>) -> Vec<[u8; 16]> {
    let keys: Vec<u64> = keys.collect();
    let there = device.upload(&keys).unwrap();
    let (statuses, values) =
        (device.allocate_zeroed(keys.len()).unwrap(), device.allocate_zeroed(16 * keys.len()).unwrap());
    // SAFETY: the buffers have these lengths and stay alive, and no other code uses them.
    let (columns, answers, rows) = unsafe {
        let keys = Column::Device(DeviceSlice::from_raw(there.ptr().address(), 8 * keys.len(), 0));
        let answers =
            ColumnMut::Device(DeviceSliceMut::from_raw(statuses.ptr().address(), statuses.len(), 0));
        let rows = ColumnMut::Device(DeviceSliceMut::from_raw(values.ptr().address(), values.len(), 0));
        (Columns::keys_only(Op::Get, Cells::Fixed { len: 8, bytes: keys }), answers, rows)
    };
    let view = BatchView::new(table.key_spec(), table.value_spec(), columns).unwrap();
    let output = Output::new(&view, answers, None, OutputValues::Rows { len: 16, bytes: rows }).unwrap();
    table.run_on(&view, Durability::Process, output, &device.stream().unwrap()).unwrap();
    assert!(statuses.to_vec::<u8>().unwrap().iter().all(|&status| status == Status::Ok as u8));
    values.to_vec().unwrap()
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
    assert!(stats.index_bytes > 0 && stats.values == 0, "{stats:?}");
    let mut found = None;
    // The thread in the background loads them once there have been enough gets; how soon it gets a turn is up to the machine.
    for round in 0..4000_u64 {
        put(&table, 100 + round % 7..103 + round % 7, round as u8);
        let values = got_on_device(&table, &device, 100..140);
        assert_eq!(values[(round % 7) as usize], [round as u8; 16]);
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
    // The next kernel sees the CPU's write.
    table.put(107, &[99; 16], Durability::Process).unwrap();
    assert_eq!(got_on_device(&table, &device, 100..140)[7], [99; 16]);
}

#[test]
fn a_table_that_has_no_use_for_a_device_index_has_none() {
    let home = tempfile::tempdir().unwrap();
    let device = Device::simulated(Mode::fast()).unwrap();
    let store = open(&device, home.path(), DeviceIndex::default());
    let rows = store.create_table("rows", options()).unwrap();
    assert!(rows.device_stats().unwrap().unwrap().index_bytes > 0);
    let in_slots = store.create_table("counters", TableOptions::new(KeySpec::U64, ValueSpec::U64)).unwrap();
    assert_eq!(in_slots.device_stats().unwrap().unwrap().bytes(), 0);
}

/// Rows in device memory, with an index there and no log: nothing that is written passes through the host. Also keys that come more than once.
#[test]
fn rows_are_written_in_one_pass() {
    let homes = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let device = Device::simulated(Mode::fast()).unwrap();
    let one = open(&device, homes[0].path(), DeviceIndex::Full);
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
        // SAFETY: the buffers have these lengths and stay alive, and no other code uses them.
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
