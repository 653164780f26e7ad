//! From host memory to host memory: by every strategy and any number of threads, answers are the same.

use std::sync::atomic::{AtomicBool, Ordering};

use warpkeep::rows::{BatchView, Cells, ColumnMut, Columns, Output, OutputValues};
use warpkeep::{
    Batch, Device, DeviceChoice, Durability, HostGetStrategy, IndexKind, IndexOptions, KeySpec, Layout, Op,
    Results, Status, Store, StoreOptions, Table, TableOptions, ValueSpec,
};
use warpkeep_device::Mode;

/// More than one thread is worth for the CPU.
const LARGE: u64 = 40_000;

fn options(host_gets: Option<HostGetStrategy>, threads: usize) -> StoreOptions {
    StoreOptions { host_gets, threads, without_log: true, ..StoreOptions::default() }
}

fn rows(key: KeySpec, value: u32) -> TableOptions {
    TableOptions::new(key, ValueSpec::fixed(value).unwrap())
}

/// The key with this number, and its value.
fn item(table: &Table, number: u64) -> (Vec<u8>, Vec<u8>) {
    let spread = |len: usize| number.to_le_bytes().into_iter().cycle().take(len).collect::<Vec<u8>>();
    let key = table.key_spec().fixed_len().map_or_else(|| format!("key {number}").into_bytes(), spread);
    let len = table.value_spec().fixed_len().unwrap_or((number % 90) as usize);
    (key, spread(len))
}

fn fill(table: &Table, numbers: impl Iterator<Item = u64>) {
    let mut batch = table.batch();
    for number in numbers {
        let (key, value) = item(table, number);
        batch.put(&key, &value).unwrap();
    }
    assert!(table.run(&batch, Durability::Process).unwrap().first_error().is_none());
}

fn gets(table: &Table, numbers: impl Iterator<Item = u64>) -> Batch {
    let mut batch = table.batch();
    for number in numbers {
        batch.get(&item(table, number).0).unwrap();
    }
    batch
}

/// Even numbers are there, odd ones are not.
fn check(table: &Table, numbers: impl Iterator<Item = u64>, results: &Results) {
    let mut count = 0;
    for (number, outcome) in numbers.zip(results.iter()) {
        let expected = (number % 2 == 0).then(|| item(table, number).1);
        assert_eq!(outcome.value, expected.as_deref(), "key {number}");
        let status = if number % 2 == 0 { Status::Ok } else { Status::NotFound };
        assert_eq!((outcome.status, outcome.version > 0), (status, number % 2 == 0));
        count += 1;
    }
    assert_eq!(count, results.len());
}

/// The tables that a device works differently.
fn kinds() -> [TableOptions; 6] {
    let any = TableOptions::new(KeySpec::variable(20).unwrap(), ValueSpec::variable(100).unwrap());
    [
        rows(KeySpec::U64, 40),
        rows(KeySpec::fixed(21).unwrap(), 13),
        // Values that are whole lines lie apart from their keys.
        rows(KeySpec::U64, 128),
        rows(KeySpec::fixed(24).unwrap(), 256),
        rows(KeySpec::U64, 8).index(IndexOptions::gphash(Layout::InPlace)),
        any,
    ]
}

#[test]
fn every_way_gives_the_same() {
    let device = Device::simulated(Mode::fast()).unwrap();
    for kind in kinds() {
        for strategy in [None].into_iter().chain(HostGetStrategy::ALL.map(Some)) {
            let home = tempfile::tempdir().unwrap();
            let store = Store::open_on(home.path(), options(strategy, 3), &device).unwrap();
            let table = store.create_table("t", kind.capacity(400)).unwrap();
            fill(&table, (0..600).step_by(2));
            for count in [0, 1, 33, 700] {
                let numbers = || (0..count).map(|number| number * 7 % 620 / 2 * 2 + number % 2);
                let numbers = || numbers().map(|number| if number >= 600 { 2 * number + 1 } else { number });
                let batch = gets(&table, numbers());
                check(&table, numbers(), &table.run(&batch, Durability::Process).unwrap());
                // The same into the caller's arrays, which is counted.
                let mut results = Results::new(&batch.view());
                table.run_into(&batch.view(), Durability::Process, &mut results).unwrap();
                check(&table, numbers(), &results);
            }
            // Writes in between are seen: new values, new keys, and removed keys.
            fill(&table, (1000..1100).step_by(2));
            table.delete(&item(&table, 8).0, Durability::Process).unwrap();
            let batch = gets(&table, (1000..1100).chain([8]));
            let results = table.run(&batch, Durability::Process).unwrap();
            assert_eq!(results.statuses()[100], Status::NotFound);
            let ok = results.statuses().iter().filter(|status| **status == Status::Ok).count();
            assert_eq!(ok, 50);
            let used: Vec<HostGetStrategy> =
                table.host_get_batches().iter().map(|counted| counted.strategy).collect();
            let fixed = table.value_spec().fixed_len().is_some();
            let indexed = fixed && table.layout() == Some(Layout::Packed);
            // Where the device does not know where values of one length lie, the CPU looks; and it does not reach where they go.
            let expected = match strategy {
                Some(HostGetStrategy::Cpu) => HostGetStrategy::Cpu,
                _ if fixed && !indexed => HostGetStrategy::Cpu,
                _ => HostGetStrategy::Gather,
            };
            assert!(
                !used.is_empty() && used.iter().all(|strategy| *strategy == expected),
                "{strategy:?} {used:?}"
            );
        }
    }
}

#[test]
fn a_way_can_be_changed_while_the_store_is_open() {
    let home = tempfile::tempdir().unwrap();
    let device = Device::simulated(Mode::fast()).unwrap();
    let store = Store::open_on(home.path(), options(None, 2), &device).unwrap();
    let table = store.create_table("t", rows(KeySpec::U64, 40)).unwrap();
    fill(&table, (0..200).step_by(2));
    let batch = gets(&table, 0..200);
    for strategy in HostGetStrategy::ALL {
        table.set_host_gets(Some(strategy));
        check(&table, 0..200, &table.run(&batch, Durability::Process).unwrap());
    }
    let used: Vec<(HostGetStrategy, u64)> =
        table.host_get_batches().iter().map(|counted| (counted.strategy, counted.batches)).collect();
    // Memory that the device does not reach is gathered.
    assert_eq!(used, [(HostGetStrategy::Cpu, 1), (HostGetStrategy::Gather, 2)]);
}

/// To memory that the device reaches it writes values itself, where they are whole words.
#[test]
fn pinned_memory_is_filled_by_both() {
    let home = tempfile::tempdir().unwrap();
    let device = Device::simulated(Mode::fast()).unwrap();
    let store = Store::open_on(home.path(), options(Some(HostGetStrategy::Split), 3), &device).unwrap();
    for (number, kind) in kinds().into_iter().enumerate() {
        let table = store.create_table(&format!("t{number}"), kind.capacity(1200)).unwrap();
        let Some(len) = table.value_spec().fixed_len() else { continue };
        fill(&table, (0..1000).step_by(2));
        let batch = gets(&table, 0..1000);
        let mut pinned = device.pin(1000 * len).unwrap();
        for round in 0..3_u8 {
            let mut statuses = [Status::Pending; 1000];
            pinned.as_mut_slice().fill(round);
            let values = OutputValues::Rows { len, bytes: ColumnMut::Host(pinned.as_mut_slice()) };
            let view = batch.view();
            let output = Output::new(&view, ColumnMut::Host(&mut statuses), None, values).unwrap();
            table.run_into(&view, Durability::Process, &mut output.into_host().unwrap()).unwrap();
            for (number, row) in (0..1000).zip(pinned.as_slice().chunks(len)) {
                let there = number % 2 == 0;
                assert_eq!(statuses[number as usize], if there { Status::Ok } else { Status::NotFound });
                match there {
                    true => assert_eq!(row, item(&table, number).1),
                    false => assert_eq!(row, vec![round; len]),
                }
            }
        }
        let expected = match (table.layout(), len % 8) {
            (Some(Layout::Packed), 0) => HostGetStrategy::Split,
            (Some(Layout::Packed), _) => HostGetStrategy::Gather,
            _ => HostGetStrategy::Cpu,
        };
        let used: Vec<(HostGetStrategy, u64)> =
            table.host_get_batches().iter().map(|counted| (counted.strategy, counted.batches)).collect();
        assert_eq!(used, [(expected, 3)]);
    }
}

/// Answers that were made for another table have rows that are too short: nothing is written behind them.
#[test]
fn pinned_rows_of_another_length_are_told() {
    let home = tempfile::tempdir().unwrap();
    let device = Device::simulated(Mode::fast()).unwrap();
    let store = Store::open_on(home.path(), options(Some(HostGetStrategy::Split), 2), &device).unwrap();
    let long = store.create_table("long", rows(KeySpec::U64, 40)).unwrap();
    let short = store.create_table("short", rows(KeySpec::U64, 8)).unwrap();
    fill(&long, 0..600);
    let (batch, other) = (gets(&long, 0..600), gets(&short, 0..600));
    let (mut pinned, mut statuses) = (device.pin(600 * 40).unwrap(), [Status::Pending; 600]);
    let bytes = ColumnMut::Host(&mut pinned.as_mut_slice()[..600 * 8]);
    let (view, values) = (other.view(), OutputValues::Rows { len: 8, bytes });
    let output = Output::new(&view, ColumnMut::Host(&mut statuses), None, values).unwrap();
    let mut answers = output.into_host().unwrap();
    long.run_into(&batch.view(), Durability::Process, &mut answers).unwrap();
    assert_eq!(statuses, [Status::Corrupt; 600]);
    assert!(pinned.as_slice().iter().all(|&byte| byte == 0));
}

/// A device that is lost at some step of a batch that both answer: the CPU answers all of it.
#[test]
fn a_device_lost_while_both_answer_leaves_all_of_it_to_the_cpu() {
    const TIMES: u64 = 8;
    let (mut lost, mut steps) = (0, 0);
    // First how many steps it takes, and then it is lost after an eighth of them, two, and so on.
    for eighths in 0..TIMES {
        let home = tempfile::tempdir().unwrap();
        let device = Device::simulated(Mode::seeded(2)).unwrap();
        let store = Store::open_on(home.path(), options(Some(HostGetStrategy::Split), 2), &device).unwrap();
        let table = store.create_table("t", rows(KeySpec::U64, 40).capacity(2000)).unwrap();
        fill(&table, (0..2000).step_by(2));
        let now = || device.last_run().map_or(0, |report| report.now);
        let before = now();
        if eighths > 0 {
            device.simulator().unwrap().crash_at(Some(before + steps * eighths / TIMES));
        }
        let (batch, mut statuses) = (gets(&table, 0..2000), [Status::Pending; 2000]);
        let mut pinned = device.pin(2000 * 40).unwrap();
        let values = OutputValues::Rows { len: 40, bytes: ColumnMut::Host(pinned.as_mut_slice()) };
        let view = batch.view();
        let output = Output::new(&view, ColumnMut::Host(&mut statuses), None, values).unwrap();
        table.run_into(&view, Durability::Process, &mut output.into_host().unwrap()).unwrap();
        if eighths == 0 {
            steps = now() - before;
        }
        let is_lost = device.check().is_err();
        lost += u32::from(is_lost);
        for (number, row) in (0..2000).zip(pinned.as_slice().chunks(40)) {
            let there = number % 2 == 0;
            assert_eq!(statuses[number as usize], if there { Status::Ok } else { Status::NotFound });
            assert!(!there || row == item(&table, number).1, "key {number}, after {eighths} eighths");
        }
        let used = if is_lost { HostGetStrategy::Cpu } else { HostGetStrategy::Split };
        assert!(
            table.host_get_batches().iter().all(|counted| counted.strategy == used),
            "after {eighths} eighths"
        );
    }
    assert!(lost > 3, "only {lost} were lost in a batch");
}

/// Without a device, a large batch is done by several threads, whatever the table.
#[test]
fn large_batches_on_the_cpu_are_shared() {
    for threads in [1, 3] {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open_with(home.path(), options(None, threads)).unwrap();
        let turbo = rows(KeySpec::U64, 24).index(IndexKind::TurboHash);
        for (number, kind) in kinds().into_iter().chain([turbo]).enumerate() {
            let table = store.create_table(&format!("t{number}"), kind.capacity(LARGE)).unwrap();
            fill(&table, (0..LARGE).step_by(2));
            let batch = gets(&table, 0..LARGE);
            check(&table, 0..LARGE, &table.run(&batch, Durability::Process).unwrap());
            let mut results = Results::new(&batch.view());
            table.run_into(&batch.view(), Durability::Process, &mut results).unwrap();
            check(&table, 0..LARGE, &results);
        }
    }
}

/// The caller's arrays: only statuses; or values, too, of which those of keys that are not there stay as they are.
#[test]
fn threads_answer_into_the_callers_arrays() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open_with(home.path(), options(None, 3)).unwrap();
    let table = store.create_table("t", rows(KeySpec::U64, 8).capacity(LARGE)).unwrap();
    fill(&table, (0..LARGE).step_by(2));
    let keys: Vec<u64> = (0..LARGE).collect();
    let columns = Columns::keys_only(Op::Get, Cells::u64s(&keys));
    let view = BatchView::new(table.key_spec(), table.value_spec(), columns).unwrap();
    for wanted in [false, true] {
        let mut statuses = vec![Status::Pending; LARGE as usize];
        let mut values = vec![0xee; 8 * LARGE as usize];
        let wanted_values = match wanted {
            true => OutputValues::Rows { len: 8, bytes: ColumnMut::Host(&mut values) },
            false => OutputValues::None,
        };
        let output = Output::new(&view, ColumnMut::Host(&mut statuses), None, wanted_values).unwrap();
        let mut answers = output.into_host().unwrap();
        table.run_into(&view, Durability::Process, &mut answers).unwrap();
        for number in 0..LARGE as usize {
            let there = number % 2 == 0;
            assert_eq!(statuses[number], if there { Status::Ok } else { Status::NotFound });
            let value = u64::from_le_bytes(values[8 * number..][..8].try_into().unwrap());
            assert_eq!(value, if there && wanted { number as u64 } else { 0xeeee_eeee_eeee_eeee });
        }
    }
}

/// Keys that are always there are always found, with a value that they were given, and never an older one than before.
#[test]
fn readers_of_every_way_beside_writers() {
    const KEYS: u64 = 300;
    let home = tempfile::tempdir().unwrap();
    let device = Device::simulated(Mode::fast()).unwrap();
    let store = Store::open_on(home.path(), options(None, 2), &device).unwrap();
    for (number, key) in [KeySpec::U64, KeySpec::fixed(16).unwrap()].into_iter().enumerate() {
        let table = store.create_table(&format!("t{number}"), rows(key, 16).capacity(50)).unwrap();
        let put = |round: u8| {
            let mut batch = table.batch();
            for number in 0..KEYS {
                batch.put(&item(&table, number).0, &[round; 16]).unwrap();
            }
            assert!(table.run(&batch, Durability::Process).unwrap().first_error().is_none());
        };
        put(0);
        let done = AtomicBool::new(false);
        let read = |strategy| {
            let (batch, mut before) = (gets(&table, 0..KEYS), vec![0; KEYS as usize]);
            while !done.load(Ordering::Relaxed) {
                table.set_host_gets(Some(strategy));
                let results = table.run(&batch, Durability::Process).unwrap();
                for (index, outcome) in results.iter().enumerate() {
                    let value = outcome.value.expect("every key is always there");
                    assert!(value.iter().all(|byte| *byte == value[0]), "torn: {value:?}");
                    assert!(outcome.version >= before[index], "key {index} went back in time");
                    before[index] = outcome.version;
                }
            }
        };
        std::thread::scope(|scope| {
            for strategy in HostGetStrategy::ALL {
                let read = &read;
                scope.spawn(move || read(strategy));
            }
            (1..30).for_each(put);
            done.store(true, Ordering::Relaxed);
        });
    }
}

/// Deletes keys of which only the existence is requested.
fn delete_all(table: &Table, keys: &[u64]) -> Vec<Status> {
    let columns = Columns::keys_only(Op::Delete, Cells::u64s(keys));
    let view = BatchView::new(table.key_spec(), table.value_spec(), columns).unwrap();
    let mut statuses = vec![Status::Pending; keys.len()];
    let output = Output::new(&view, ColumnMut::Host(&mut statuses), None, OutputValues::None).unwrap();
    table.run_into(&view, Durability::Process, &mut output.into_host().unwrap()).unwrap();
    statuses
}

/// Batches of deletes run in one pass on the device if no versions are requested, with a log and without: the
/// device and the CPU have the same result.
#[test]
fn deletes_from_host_memory_come_to_the_same() {
    for logged in [false, true] {
        let homes = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let open = |(home, device): (&tempfile::TempDir, DeviceChoice)| {
            let options = StoreOptions { without_log: !logged, ..options(None, 2) };
            Store::open_with(home.path(), StoreOptions { device, ..options }).unwrap()
        };
        let stores: Vec<Store> = homes.iter().zip([DeviceChoice::Sim, DeviceChoice::Cpu]).map(open).collect();
        let tables: Vec<Table> =
            stores.iter().map(|store| store.create_table("t", rows(KeySpec::U64, 40)).unwrap()).collect();
        let mut random = fastrand::Rng::with_seed(5);
        for round in 0..3 {
            for table in &tables {
                fill(table, 0..3000);
            }
            // While it grows, batches are staged.
            while tables[0].maintain().unwrap() {}
            // Some are there twice, and some not at all.
            let keys: Vec<u64> = (0..2500).map(|_| random.u64(..4000)).collect();
            tables[0].time_steps(true);
            let statuses = delete_all(&tables[0], &keys);
            let steps = tables[0].take_step_times().concat();
            assert!(steps.iter().any(|step| step.step == "dedup"), "it was staged: {steps:?}");
            tables[0].time_steps(false);
            assert_eq!(statuses, delete_all(&tables[1], &keys), "round {round}");
            let batch = gets(&tables[0], 0..4000);
            let results: Vec<Results> =
                tables.iter().map(|table| table.run(&batch, Durability::Process).unwrap()).collect();
            assert_eq!(results[0].statuses(), results[1].statuses());
        }
    }
}

/// Uniform batches of writes without a log run in one pass on the device: the device and the CPU have the same
/// result.
#[test]
fn writes_from_host_memory_come_to_the_same() {
    let homes = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let devices = [DeviceChoice::Sim, DeviceChoice::Cpu];
    let stores: Vec<Store> = homes
        .iter()
        .zip(devices)
        .map(|(home, device)| {
            Store::open_with(home.path(), StoreOptions { device, ..options(None, 2) }).unwrap()
        })
        .collect();
    let tables: Vec<Table> =
        stores.iter().map(|store| store.create_table("t", rows(KeySpec::U64, 40)).unwrap()).collect();
    let mut random = fastrand::Rng::with_seed(3);
    for round in 0..9 {
        let op = [Op::Put, Op::Insert, Op::Update][round % 3];
        let mut batch = tables[0].batch();
        for _ in 0..2500 {
            let value = [random.u8(..); 40];
            batch.push(op, &random.u64(..4000).to_le_bytes(), &value, 0).unwrap();
        }
        let results: Vec<Results> =
            tables.iter().map(|table| table.run(&batch, Durability::Process).unwrap()).collect();
        assert_eq!(results[0].statuses(), results[1].statuses(), "{op:?}");
        for table in &tables {
            table.delete(round as u64, Durability::Process).unwrap();
        }
        let batch = gets(&tables[0], 0..4000);
        let results: Vec<Results> =
            tables.iter().map(|table| table.run(&batch, Durability::Process).unwrap()).collect();
        assert_eq!(results[0].statuses(), results[1].statuses());
        assert_eq!(results[0].rows(), results[1].rows());
        // The version equals the one in the writer's answer.
        let number = (0..4000).find(|&number| results[0].statuses()[number] == Status::Ok).unwrap();
        let known = results[0].versions()[number];
        let mut batch = tables[0].batch();
        batch.insert(number as u64, &[0; 40]).unwrap();
        assert_eq!(tables[0].run(&batch, Durability::Process).unwrap().versions(), [known]);
    }
}

/// The device is lost while it deletes: all keys are gone, and no answer claims that a missing key never existed.
#[test]
fn a_device_lost_while_it_deletes_leaves_the_rest_to_the_cpu() {
    const TIMES: u64 = 10;
    let (mut lost, mut unknown, mut steps) = (0, 0, 0);
    // First how many steps it takes, and then it is lost after a tenth of them, two, and so on.
    for tenths in 0..TIMES {
        let home = tempfile::tempdir().unwrap();
        let device = Device::simulated(Mode::seeded(1)).unwrap();
        let store = Store::open_on(home.path(), options(None, 2), &device).unwrap();
        let table = store.create_table("t", rows(KeySpec::U64, 40).capacity(6000)).unwrap();
        fill(&table, 0..3000);
        let now = || device.last_run().map_or(0, |report| report.now);
        let before = now();
        if tenths > 0 {
            device.simulator().unwrap().crash_at(Some(before + steps * tenths / TIMES));
        }
        let keys: Vec<u64> = (500..3500).collect();
        let statuses = delete_all(&table, &keys);
        if tenths == 0 {
            steps = now() - before;
        }
        let is_lost = device.check().is_err();
        lost += u32::from(is_lost);
        for (&key, &status) in keys.iter().zip(&statuses) {
            let there = key < 3000;
            let right = match status {
                Status::Ok => there,
                // Also of a device that was lost before it began.
                Status::NotFound => !there,
                Status::Indeterminate => is_lost,
                _ => false,
            };
            assert!(right, "key {key}: {status:?}, after {tenths} tenths");
            unknown += u32::from(there && status == Status::Indeterminate);
        }
        for key in [0, 499, 500, 2999, 3000] {
            assert_eq!(table.get(key).unwrap().is_some(), key < 500, "key {key}, after {tenths} tenths");
        }
        assert_eq!(table.len(), 500);
    }
    assert!(lost > 3, "only {lost} were lost in a batch");
    assert!(unknown > 0, "none was lost when something had been deleted");
}

/// The device is lost at some step of such a batch: the CPU does the rest, and answers as if nothing had happened.
#[test]
fn a_device_lost_during_a_fused_write_leaves_the_rest_to_the_cpu() {
    const TIMES: u64 = 6;
    let (mut lost, mut steps) = (0, 0);
    // First how many steps it takes, and then it is lost after a sixth of them, two, and so on.
    let ops = [Op::Insert, Op::Put, Op::Update].into_iter();
    for (op, sixths) in ops.flat_map(|op| (0..TIMES).map(move |sixths| (op, sixths))) {
        let home = tempfile::tempdir().unwrap();
        let device = Device::simulated(Mode::seeded(1)).unwrap();
        let store = Store::open_on(home.path(), options(None, 2), &device).unwrap();
        let table = store.create_table("t", rows(KeySpec::U64, 40).capacity(12_000)).unwrap();
        let write = |op: Op, numbers: std::ops::Range<u64>, value: u8| {
            let mut batch = table.batch();
            for number in numbers {
                batch.push(op, &number.to_le_bytes(), &[value; 40], 0).unwrap();
            }
            table.run(&batch, Durability::Process).unwrap()
        };
        assert_eq!(write(Op::Put, 0..40, 1).first_error(), None);
        table.time_steps(true);
        assert_eq!(write(Op::Put, 5000..8000, 1).first_error(), None);
        let timed = table.take_step_times().concat();
        assert!(timed.iter().any(|step| step.step == "dedup"), "it was staged: {timed:?}");
        let now = || device.last_run().map_or(0, |report| report.now);
        let before = now();
        if sixths > 0 {
            device.simulator().unwrap().crash_at(Some(before + steps * sixths / TIMES));
        }
        let results = write(op, 20..2100, 2);
        if sixths == 0 {
            steps = now() - before;
        }
        lost += u32::from(device.check().is_err());
        for number in 0..2100 {
            let (there, hit) = (number < 40, number >= 20);
            let expected = match op {
                Op::Insert if there => 1,
                Op::Update if hit && there => 2,
                Op::Update if !there => 0,
                _ if hit => 2,
                _ => 1,
            };
            let found = table.get(number).unwrap().map_or(0, |value| value[0]);
            assert_eq!(found, expected, "key {number}, {op:?}, after {sixths} sixths");
            if hit {
                let status = results.statuses()[number as usize - 20];
                match op {
                    Op::Insert => {
                        assert_eq!(status, if there { Status::AlreadyExists } else { Status::Created });
                    }
                    Op::Update => assert_eq!(status, if there { Status::Ok } else { Status::NotFound }),
                    // A put that came through before the device was lost is found by the one that is done again.
                    _ => assert!(status == Status::Created || status == Status::Ok),
                }
            }
        }
    }
    assert!(lost > 3, "only {lost} were lost in a batch");
}

#[test]
fn the_device_profile_decides_which_writes_the_device_does() {
    let home = tempfile::tempdir().unwrap();
    let device = Device::simulated(Mode::seeded(1)).unwrap();
    let store = Store::open_on(home.path(), options(None, 2), &device).unwrap();
    let table = store.create_table("t", rows(KeySpec::U64, 40).capacity(12_000)).unwrap();
    table.time_steps(true);
    let ran = |written_from: usize, fused_from: usize| {
        let mut profile = table.device_profile().unwrap();
        (profile.written_from, profile.fused_from) = (written_from, fused_from);
        table.set_device_profile(profile);
        let runs = || device.last_run().map_or(0, |report| report.now);
        let before = runs();
        fill(&table, 0..100);
        let steps = table.take_step_times().concat();
        (runs() != before, steps.iter().any(|step| step.step == "dedup"))
    };
    assert_eq!(ran(100, 100), (true, true));
    assert_eq!(ran(100, 101), (true, false));
    assert_eq!(ran(101, 100), (false, false));
}
