//! `Power` batches that change nothing, for a table on a device: the data they depend on survives the machine.

use warpkeep::rows::{BatchView, Cells, Columns, Output, OutputValues};
use warpkeep::{
    Device, DeviceChoice, Durability, KeySpec, Op, Store, StoreOptions, Table, TableOptions, ValueSpec,
};
use warpkeep_log::LogOptions;

use crate::in_log::in_log;
use crate::logged_rig::put_rows;

/// Keys with a value after the `Process` writes, and keys without.
const THERE: [u64; 2] = [3, 4];
const ABSENT: [u64; 2] = [1, 2];

fn in_host_memory(table: &Table, op: Op, keys: &[u64]) {
    let mut batch = table.batch();
    for key in keys {
        batch.push(op, &key.to_le_bytes(), &[9; 16], 1).unwrap();
    }
    assert_eq!(table.run(&batch, Durability::Power).unwrap().first_error(), None);
}

#[test]
fn an_answer_that_changes_nothing_rests_on_what_is_durable() {
    let Ok(device) = Device::open(DeviceChoice::Sim) else { return };
    let cases = [
        (Op::Delete, &ABSENT),
        (Op::Update, &ABSENT),
        (Op::CompareAndSwap, &THERE),
        (Op::Insert, &THERE),
        (Op::Get, &THERE),
    ];
    for (number, (op, keys)) in cases.into_iter().cycle().take(2 * cases.len()).enumerate() {
        let directory = tempfile::tempdir().unwrap();
        let log = LogOptions { background: false, ..LogOptions::default() };
        let options = StoreOptions { log, ..StoreOptions::default() };
        let store = Store::open_on(directory.path(), options, &device).unwrap();
        let rows = TableOptions::new(KeySpec::U64, ValueSpec::fixed(16).unwrap());
        let table = store.create_table("rows", rows).unwrap();
        for key in ABSENT {
            table.put(key, &[1; 16], Durability::Power).unwrap();
        }
        for key in ABSENT {
            assert!(table.delete(key, Durability::Process).unwrap());
        }
        for key in THERE {
            table.put(key, &[1; 16], Durability::Process).unwrap();
        }
        let log = directory.path().join("log");
        let logged = || in_log(&log).into_keys().collect::<Vec<u64>>();
        assert_eq!(logged(), ABSENT, "the writes before have not been logged");
        // Of compare-and-swap rows in device memory would need versions.
        match number < cases.len() || op == Op::CompareAndSwap {
            true => in_host_memory(&table, op, keys),
            false => drop(put_rows(&table, &device, op, keys, 9, Durability::Power).unwrap()),
        }
        assert_eq!(logged(), THERE, "{op}, number {number}");
    }
}

/// The same for gets that were enqueued: when they have been waited for, and not before, what they saw is durable.
#[test]
fn an_enqueued_get_rests_on_what_is_durable() {
    let Ok(device) = Device::open(DeviceChoice::Sim) else { return };
    let directory = tempfile::tempdir().unwrap();
    let log = LogOptions { background: false, ..LogOptions::default() };
    let options = StoreOptions { log, ..StoreOptions::default() };
    let store = Store::open_on(directory.path(), options, &device).unwrap();
    let rows = TableOptions::new(KeySpec::U64, ValueSpec::fixed(16).unwrap());
    let table = store.create_table("rows", rows).unwrap();
    for key in THERE {
        table.put(key, &[1; 16], Durability::Process).unwrap();
    }
    let log = directory.path().join("log");
    let logged = || in_log(&log).into_keys().collect::<Vec<u64>>();
    let (stream, keys) = (device.stream().unwrap(), device.upload(&THERE).unwrap());
    let (mut statuses, mut values) = (device.allocate(2).unwrap(), device.allocate(32).unwrap());
    let gets = Columns::keys_only(Op::Get, Cells::Fixed { len: 8, bytes: keys.column().unwrap() });
    let batch = BatchView::new(table.key_spec(), table.value_spec(), gets).unwrap();
    for (durability, expected) in [(Durability::Process, &[][..]), (Durability::Power, &THERE[..])] {
        let rows = OutputValues::Rows { len: 16, bytes: values.column_mut().unwrap() };
        let output = Output::new(&batch, statuses.status_column_mut(), None, rows).unwrap();
        // SAFETY: the buffers outlive the batch, and no other code uses them before it has been waited for.
        let enqueued = unsafe { table.enqueue_on(&batch, durability, output, &stream).unwrap() };
        assert!(logged().is_empty(), "{durability:?}: enqueueing waits for nothing");
        enqueued.wait().unwrap();
        assert_eq!(logged(), expected, "{durability:?}");
    }
}
