//! Batches with columns in the memory of a device, here the simulator: the same as batches in host memory.

use warpkeep::rows::{
    BatchView, Buffer, Cells, Column, ColumnMut, Columns, DeviceSlice, DeviceSliceMut, KeyCells, Ops, Output,
    OutputValues, Span,
};
use warpkeep::{
    Device, DeviceChoice, Durability, Error, IndexOptions, KeySpec, Layout, MergeRule, Op, Results, Status,
    Store, StoreOptions, Table, TableOptions, ValueSpec, verify,
};
use warpkeep_device::Mode;

fn device_column<T>(buffer: &Buffer, len: usize) -> Column<'_, T> {
    // SAFETY: the buffer is borrowed for as long as the column, and no other code writes to it meanwhile.
    Column::Device(unsafe { DeviceSlice::from_raw(buffer.ptr().address(), len, 0) })
}

fn device_column_mut<T>(buffer: &mut Buffer, len: usize) -> ColumnMut<'_, T> {
    // SAFETY: the buffer is borrowed for as long as the column, and only for it.
    ColumnMut::Device(unsafe { DeviceSliceMut::from_raw(buffer.ptr().address(), len, 0) })
}

/// A batch by columns, in host memory.
#[derive(Default)]
struct Plain {
    ops: Vec<Op>,
    keys: Vec<Vec<u8>>,
    values: Vec<u8>,
    arguments: Vec<u64>,
}

impl Plain {
    fn push(&mut self, op: Op, key: &[u8], value: &[u8], argument: u64) {
        self.ops.push(op);
        self.keys.push(key.to_vec());
        self.values.extend_from_slice(value);
        self.arguments.push(argument);
    }

    /// Keys as rows in device memory have them: in cells, if they have any length.
    fn key_rows(&self, cells: Option<KeyCells>) -> Vec<u8> {
        match cells {
            None => self.keys.concat(),
            Some(cells) => {
                self.keys.iter().flat_map(|key| cells.cell(key).unwrap().as_bytes().to_vec()).collect()
            }
        }
    }

    fn codes(&self) -> Vec<u8> {
        self.ops.iter().map(|&op| op as u8).collect()
    }
}

/// Answers: status, version, value.
type Answered = Vec<(Status, u64, Option<Vec<u8>>)>;

/// Statuses, versions and values, where an operation answers with one.
fn answered(ops: &[Op], statuses: &[u8], versions: &[u64], values: &[u8], len: usize) -> Answered {
    (0..ops.len())
        .map(|index| {
            let status = Status::try_from(statuses[index]).unwrap();
            let value =
                (ops[index].answers_value() && status.is_ok()).then(|| values[len * index..][..len].to_vec());
            (status, versions[index], value)
        })
        .collect()
}

/// Which columns of a batch lie in device memory.
#[derive(Clone, Copy, Debug)]
enum On {
    Device,
    DeviceAnsweredOnHost,
    HostAnsweredOnDevice,
}

fn run(table: &Table, device: &Device, plain: &Plain, durability: Durability, on: On) -> Answered {
    let (count, len) = (plain.ops.len(), table.value_spec().max_len());
    let (key_rows, key_bytes) = (plain.key_rows(table.key_cells()), plain.keys.concat());
    let mut key_ends = vec![0];
    key_ends.extend(plain.keys.iter().scan(0, |end, key| {
        *end += key.len() as u64;
        Some(*end)
    }));
    let (codes, keys) = (device.upload(&plain.codes()).unwrap(), device.upload(&key_rows).unwrap());
    let (values, arguments) =
        (device.upload(&plain.values).unwrap(), device.upload(&plain.arguments).unwrap());
    let on_host = matches!(on, On::HostAnsweredOnDevice);
    let uniform = plain.ops.iter().all(|&op| op == plain.ops[0]);
    let columns = Columns {
        ops: match (uniform, on_host) {
            (true, _) => Ops::Uniform(plain.ops[0]),
            (_, true) => Ops::Each(Column::Host(&plain.ops)),
            (_, false) => Ops::Each(device_column(&codes, count)),
        },
        keys: match on_host {
            true => Cells::variable(&key_ends, &key_bytes),
            false => {
                Cells::Fixed { len: key_rows.len() / count, bytes: device_column(&keys, key_rows.len()) }
            }
        },
        values: Cells::Fixed {
            len,
            bytes: if on_host {
                Column::Host(&plain.values)
            } else {
                device_column(&values, plain.values.len())
            },
        },
        arguments: Some(if on_host {
            Column::Host(&plain.arguments)
        } else {
            device_column(&arguments, count)
        }),
    };
    let batch = BatchView::new(table.key_spec(), table.value_spec(), columns).unwrap();
    let stream = device.stream().unwrap();
    if let On::DeviceAnsweredOnHost = on {
        let (mut statuses, mut versions) = (vec![Status::Pending; count], vec![0; count]);
        let mut rows = vec![0; len * count];
        let output = Output::new(
            &batch,
            ColumnMut::Host(&mut statuses),
            Some(ColumnMut::Host(&mut versions)),
            OutputValues::Rows { len, bytes: ColumnMut::Host(&mut rows) },
        );
        table.run_on(&batch, durability, output.unwrap(), &stream).unwrap();
        let statuses: Vec<u8> = statuses.into_iter().map(|status| status as u8).collect();
        return answered(&plain.ops, &statuses, &versions, &rows, len);
    }
    let [mut statuses, mut versions, mut rows] =
        [count, 8 * count, len * count].map(|bytes| device.allocate_zeroed(bytes).unwrap());
    rows.fill(0xee).unwrap();
    let output = Output::new(
        &batch,
        device_column_mut(&mut statuses, count),
        Some(device_column_mut(&mut versions, count)),
        OutputValues::Rows { len, bytes: device_column_mut(&mut rows, len * count) },
    );
    table.run_on(&batch, durability, output.unwrap(), &stream).unwrap();
    let (statuses, rows) = (statuses.to_vec::<u8>().unwrap(), rows.to_vec::<u8>().unwrap());
    let answers = answered(&plain.ops, &statuses, &versions.to_vec::<u64>().unwrap(), &rows, len);
    for (index, (.., value)) in answers.iter().enumerate() {
        let row = &rows[len * index..][..len];
        assert!(value.is_some() || row.iter().all(|&byte| byte == 0xee), "row {index} was left alone");
    }
    answers
}

/// The key with this number: of a fixed length, or of any length up to the limit.
fn key_of(spec: KeySpec, number: u64) -> Vec<u8> {
    let mut key = number.to_le_bytes().to_vec();
    match spec.fixed_len() {
        Some(len) => key.resize(len, b'k'),
        None => {
            key.truncate(2);
            key.resize(2 + number as usize % (spec.max_len() - 1), (number % 2) as u8);
        }
    }
    key
}

fn random_batch(random: &mut fastrand::Rng, op: Option<Op>, (key, len): (KeySpec, usize)) -> Plain {
    const OPS: [Op; 8] =
        [Op::Get, Op::Put, Op::Insert, Op::Update, Op::Delete, Op::CompareAndSwap, Op::FetchAdd, Op::Merge];
    let mut plain = Plain::default();
    while plain.ops.len() < 300 {
        let op = op.unwrap_or_else(|| OPS[random.usize(..OPS.len())]);
        if op == Op::FetchAdd && len != 8 {
            continue;
        }
        // Some keys come more than once.
        let key = key_of(key, random.u64(..700));
        let value: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
        plain.push(op, &key, &value, random.u64(..3));
    }
    plain
}

fn options(layout: Layout, key: KeySpec, value: usize) -> TableOptions {
    TableOptions::new(key, ValueSpec::fixed(value as u32).unwrap())
        .index(IndexOptions::gphash(layout))
        .merge(MergeRule::Or)
        .capacity(100)
}

fn log_of(has_log: bool) -> StoreOptions {
    StoreOptions { without_log: !has_log, ..StoreOptions::default() }
}

#[test]
fn rows_on_a_device_come_to_the_same_as_rows_on_the_host() {
    let (fixed, variable) = (|len| KeySpec::fixed(len).unwrap(), |max| KeySpec::variable(max).unwrap());
    let kinds = [
        (Layout::Packed, KeySpec::U64, 32),
        (Layout::InPlace, KeySpec::U64, 8),
        (Layout::Packed, fixed(13), 21),
        (Layout::InPlace, fixed(20), 12),
        (Layout::Packed, variable(24), 21),
        (Layout::Packed, variable(24), 128),
        (Layout::Packed, variable(6), 8),
    ];
    for (number, (layout, key, len)) in kinds.into_iter().enumerate() {
        let homes = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let device = Device::simulated(Mode::fast()).unwrap();
        let has_log = number % 2 == 0;
        let one = Store::open_on(homes[0].path(), log_of(has_log), &device).unwrap();
        let other = Store::open_with(homes[1].path(), log_of(has_log)).unwrap();
        let tables = [&one, &other].map(|store| store.create_table("t", options(layout, key, len)).unwrap());
        let mut random = fastrand::Rng::with_seed(number as u64);
        let uniform = [Op::Put, Op::Get, Op::Update, Op::Delete, Op::Insert, Op::Get];
        for round in 0..15 {
            let on = [On::Device, On::Device, On::DeviceAnsweredOnHost, On::HostAnsweredOnDevice][round % 4];
            let op = (round % 2 == 0).then(|| uniform[round / 2 % uniform.len()]);
            let plain = random_batch(&mut random, op, (key, len));
            let durability = if has_log && round % 3 == 0 { Durability::Power } else { Durability::Process };
            let answers = run(&tables[0], &device, &plain, durability, on);
            let mut batch = tables[1].batch();
            for (index, &op) in plain.ops.iter().enumerate() {
                let key = &plain.keys[index];
                let value = if op.takes_value() { &plain.values[len * index..][..len] } else { &[] };
                batch.push(op, key, value, plain.arguments[index]).unwrap();
            }
            let results = tables[1].run(&batch, durability).unwrap();
            for (index, (status, _, value)) in answers.into_iter().enumerate() {
                assert_eq!(
                    status,
                    results.statuses()[index],
                    "{on:?}, round {round}, {index}: {:?}",
                    plain.ops[index]
                );
                assert_eq!(value.as_deref(), results.value(index), "{on:?}, round {round}, {index}");
            }
            assert_eq!(tables[0].len(), tables[1].len());
        }
        drop(tables);
        drop(other);
        // The log matches the executed operations.
        let items = |store: &Store| {
            let table = store.table("t").unwrap();
            let mut items: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
            for number in 0..700_u64 {
                let key = key_of(key, number);
                items.extend(table.get(&key[..]).unwrap().map(|value| (key, value)));
            }
            items
        };
        let before = items(&one);
        assert!(before.len() > 50, "{}", before.len());
        one.close().unwrap();
        if has_log {
            std::fs::remove_file(homes[0].path().join("image")).unwrap();
        }
        let again = Store::open_with(homes[0].path(), log_of(has_log)).unwrap();
        assert!(items(&again) == before, "another content after a rebuild from the log");
        again.close().unwrap();
        assert!(verify(homes[0].path(), &log_of(has_log)).unwrap().sound);
    }
}

#[test]
fn values_go_wherever_there_is_room() {
    let home = tempfile::tempdir().unwrap();
    let device = Device::simulated(Mode::fast()).unwrap();
    let store = Store::open_on(home.path(), StoreOptions::default(), &device).unwrap();
    let table = store.create_table("t", options(Layout::Packed, KeySpec::U64, 32)).unwrap();
    for key in 0..5_u64 {
        table.put(key, &[key as u8 + 1; 32], Durability::Process).unwrap();
    }
    let keys = device.upload(&[4_u64, 99, 0, 1]).unwrap();
    let [mut statuses, mut spans, mut bytes] =
        [4, 64, 70].map(|bytes| device.allocate_zeroed(bytes).unwrap());
    let columns = Columns::keys_only(Op::Get, Cells::Fixed { len: 8, bytes: device_column(&keys, 32) });
    let batch = BatchView::new(table.key_spec(), table.value_spec(), columns).unwrap();
    let values = OutputValues::Spans {
        spans: device_column_mut::<Span>(&mut spans, 4),
        bytes: device_column_mut(&mut bytes, 70),
    };
    let output = Output::new(&batch, device_column_mut(&mut statuses, 4), None, values).unwrap();
    table.run_on(&batch, Durability::Process, output, &device.stream().unwrap()).unwrap();
    let expected = [Status::Ok, Status::NotFound, Status::Ok, Status::OutputFull].map(|status| status as u8);
    assert_eq!(statuses.to_vec::<u8>().unwrap(), expected);
    assert_eq!(spans.to_vec::<u64>().unwrap(), [0, 32, u64::MAX, 0, 32, 32, u64::MAX, 0]);
    assert_eq!(bytes.to_vec::<u8>().unwrap()[..64], [[5; 32], [1; 32]].concat());
}

/// Arrays that were made for another batch: kernels would write behind them.
#[test]
fn arrays_of_another_batch_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let device = Device::simulated(Mode::fast()).unwrap();
    let store = Store::open_on(home.path(), StoreOptions::default(), &device).unwrap();
    let table = store.create_table("t", options(Layout::Packed, KeySpec::U64, 32)).unwrap();
    table.put(4, &[7; 32], Durability::Process).unwrap();
    let keys = device.upload(&[4_u64, 4, 4, 4]).unwrap();
    let gets = |value: ValueSpec, count: usize| {
        let keys = Cells::Fixed { len: 8, bytes: device_column(&keys, 8 * count) };
        BatchView::new(table.key_spec(), value, Columns::keys_only(Op::Get, keys)).unwrap()
    };
    let batch = gets(table.value_spec(), 4);
    // For fewer operations; and for as many, with shorter values.
    for (value, count) in [(table.value_spec(), 3), (ValueSpec::fixed(16).unwrap(), 4)] {
        let [mut statuses, mut rows] = [4, 128].map(|bytes| device.allocate_zeroed(bytes).unwrap());
        let len = value.max_len();
        let bytes = device_column_mut(&mut rows, len * count);
        let values = OutputValues::Rows { len, bytes };
        let other = gets(value, count);
        let output = Output::new(&other, device_column_mut(&mut statuses, count), None, values).unwrap();
        let refused = table.run_on(&batch, Durability::Process, output, &device.stream().unwrap());
        assert!(matches!(refused, Err(Error::Core(_))), "{refused:?}");
        assert_eq!(rows.to_vec::<u8>().unwrap(), [0; 128]);
    }
    // In host memory, also of batches that write: nothing is done.
    let mut puts = table.batch();
    puts.put(8, &[1; 32]).unwrap().put(9, &[1; 32]).unwrap();
    let mut one = table.batch();
    one.get(4).unwrap();
    let refused = table.run_into(&puts.view(), Durability::Process, &mut Results::new(&one.view()));
    assert!(matches!(refused, Err(Error::Core(_))), "{refused:?}");
    assert_eq!((table.get(8).unwrap(), table.len()), (None, 1));
}

/// The codes of a batch in device memory are unchecked.
#[test]
fn operations_that_make_no_sense_are_told() {
    let home = tempfile::tempdir().unwrap();
    let device = Device::simulated(Mode::fast()).unwrap();
    let store = Store::open_on(home.path(), StoreOptions::default(), &device).unwrap();
    let table = store.create_table("t", options(Layout::Packed, KeySpec::U64, 8)).unwrap();
    // An unknown code, with a key of its own and with one that comes twice; one without its argument; one without its value.
    let codes = device.upload(&[77_u8, 0, Op::Get as u8, Op::FetchAdd as u8, Op::Put as u8]).unwrap();
    let keys = device.upload(&[1_u64, 2, 2, 3, 4]).unwrap();
    let mut statuses = device.allocate_zeroed(5).unwrap();
    let columns = Columns {
        ops: Ops::Each(device_column(&codes, 5)),
        keys: Cells::Fixed { len: 8, bytes: device_column(&keys, 40) },
        values: Cells::Empty,
        arguments: None,
    };
    let batch = BatchView::new(table.key_spec(), table.value_spec(), columns).unwrap();
    let output = Output::new(&batch, device_column_mut(&mut statuses, 5), None, OutputValues::None).unwrap();
    table.run_on(&batch, Durability::Power, output, &device.stream().unwrap()).unwrap();
    let malformed = Status::Malformed as u8;
    let expected = [malformed, malformed, Status::NotFound as u8, malformed, malformed];
    assert_eq!(statuses.to_vec::<u8>().unwrap(), expected);
    assert!(table.is_empty());
}

/// The cells of a batch in device memory are unchecked, too, except for their length.
#[test]
fn rows_that_are_no_cells_are_told() {
    let home = tempfile::tempdir().unwrap();
    let device = Device::simulated(Mode::fast()).unwrap();
    let store = Store::open_on(home.path(), StoreOptions::default(), &device).unwrap();
    let key = KeySpec::variable(12).unwrap();
    let table = store.create_table("t", options(Layout::Packed, key, 8)).unwrap();
    let cells = table.key_cells().unwrap();
    let mut rows: Vec<u8> = ["", "weft", "warp", "weft"]
        .iter()
        .flat_map(|key| cells.cell(key.as_bytes()).unwrap().as_bytes().to_vec())
        .collect();
    // Something behind a key that comes once, and behind one of two that were the same.
    rows[2 * 16 + 9] = 1;
    rows[3 * 16 + 9] = 1;
    let (keys, values) = (device.upload(&rows).unwrap(), device.upload(&[7_u64; 4]).unwrap());
    let columns = |len| {
        let keys = Cells::Fixed { len, bytes: device_column(&keys, 64) };
        Columns::with_values(Op::Put, keys, Cells::Fixed { len: 8, bytes: device_column(&values, 32) })
    };
    for (versions, durability) in [(false, Durability::Process), (true, Durability::Power)] {
        let mut statuses = device.allocate_zeroed(4).unwrap();
        let mut told = device.allocate_zeroed(32).unwrap();
        let batch = BatchView::new(key, table.value_spec(), columns(16)).unwrap();
        // With versions, the batch is staged.
        let versions_to = versions.then(|| device_column_mut(&mut told, 4));
        let output =
            Output::new(&batch, device_column_mut(&mut statuses, 4), versions_to, OutputValues::None)
                .unwrap();
        table.run_on(&batch, durability, output, &device.stream().unwrap()).unwrap();
        let done = if versions { Status::Ok } else { Status::Created };
        let expected = [done, done, Status::Malformed, Status::Malformed].map(|status| status as u8);
        assert_eq!(statuses.to_vec::<u8>().unwrap(), expected);
        assert_eq!(table.len(), 2);
    }
    assert_eq!(table.get("weft").unwrap(), Some(7_u64.to_le_bytes().to_vec()));
    // Keys as they are, which in device memory they must not be.
    let mut statuses = device.allocate_zeroed(8).unwrap();
    let plain = Columns { keys: Cells::Fixed { len: 8, bytes: device_column(&keys, 32) }, ..columns(16) };
    let batch = BatchView::new(key, table.value_spec(), plain).unwrap();
    let output = Output::new(&batch, device_column_mut(&mut statuses, 4), None, OutputValues::None).unwrap();
    let error = table.run_on(&batch, Durability::Process, output, &device.stream().unwrap()).unwrap_err();
    assert!(error.to_string().contains("cells of 16 bytes"), "{error}");
    // In host memory cells are no keys.
    let host = Columns::keys_only(Op::Get, Cells::fixed(16, &rows));
    assert!(BatchView::new(key, table.value_spec(), host).is_err());
    drop(table);
    store.close().unwrap();
    assert!(verify(home.path(), &StoreOptions::default()).unwrap().sound);
}

#[test]
fn rows_of_another_device_or_for_no_device_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let device = Device::simulated(Mode::fast()).unwrap();
    let key = device.upload(&[1_u64]).unwrap();
    let refused = |store: &Store, ordinal: u32| {
        let table =
            store.create_table(&format!("t{ordinal}"), options(Layout::Packed, KeySpec::U64, 8)).unwrap();
        // SAFETY: it is refused before any code follows the address.
        let bytes = Column::Device(unsafe { DeviceSlice::from_raw(key.ptr().address(), 8, ordinal) });
        let columns = Columns::keys_only(Op::Get, Cells::Fixed { len: 8, bytes });
        let batch = BatchView::new(table.key_spec(), table.value_spec(), columns).unwrap();
        let mut statuses = [Status::Pending];
        let output = Output::new(&batch, ColumnMut::Host(&mut statuses), None, OutputValues::None).unwrap();
        let error = table.run_on(&batch, Durability::Process, output, &device.stream().unwrap()).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)) && error.to_string().contains("copy them"), "{error}");
    };
    let store = Store::open_on(home.path(), StoreOptions::default(), &device).unwrap();
    refused(&store, 5);
    drop(store);
    let store =
        Store::open_with(home.path(), StoreOptions { device: DeviceChoice::Cpu, ..StoreOptions::default() });
    refused(&store.unwrap(), 0);
}

/// A thread that holds an enqueued batch when the device is lost goes on with the CPU, and does not wait for itself.
#[test]
fn a_device_lost_beside_enqueued_gets_blocks_no_thread() {
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let device = Device::simulated(Mode::seeded(1)).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open_on(directory.path(), StoreOptions::default(), &device).unwrap();
        let value = ValueSpec::fixed(24).unwrap();
        let table = store.create_table("t", TableOptions::new(KeySpec::U64, value).capacity(4000)).unwrap();
        let mut all = table.batch();
        for key in 0..100_u64 {
            all.put(key, &[key as u8; 24]).unwrap();
        }
        assert_eq!(table.run(&all, Durability::Process).unwrap().first_error(), None);
        let (stream, asked) = (device.stream().unwrap(), [5_u64, 99, 100, 5]);
        let keys = device.upload(&asked).unwrap();
        let (mut statuses, mut values) = (device.allocate(4).unwrap(), device.allocate(4 * 24).unwrap());
        let gets = Columns::keys_only(Op::Get, Cells::Fixed { len: 8, bytes: keys.column().unwrap() });
        let batch = BatchView::new(table.key_spec(), table.value_spec(), gets).unwrap();
        let rows = OutputValues::Rows { len: 24, bytes: values.column_mut().unwrap() };
        let output = Output::new(&batch, statuses.status_column_mut(), None, rows).unwrap();
        // SAFETY: the buffers outlive the batch, and nothing reads them.
        let enqueued = unsafe { table.enqueue_on(&batch, Durability::Process, output, &stream).unwrap() };
        let now = device.last_run().expect("kernels have run").now;
        device.simulator().unwrap().crash_at(Some(now + 1));
        let mut gets = table.batch();
        for key in 0..100_u64 {
            gets.get(key).unwrap();
        }
        let found = table.run(&gets, Durability::Process).unwrap();
        assert!(device.check().is_err(), "the device is lost");
        assert_eq!(found.value(7), Some(&[7; 24][..]));
        let _ = enqueued.wait();
        // Growth, for which the table has to be released.
        let mut more = table.batch();
        for key in 0..5000_u64 {
            more.put(key, &[1; 24]).unwrap();
        }
        assert_eq!(table.run(&more, Durability::Process).unwrap().first_error(), None);
        assert_eq!(table.len(), 5000);
        store.close().unwrap();
        done.send(()).unwrap();
    });
    let waited = is_done.recv_timeout(std::time::Duration::from_secs(60));
    assert!(waited.is_ok(), "the thread waits for itself, or has failed");
}

/// Enqueued gets are answered behind what is in the stream, writes are done at once, and the store can be closed afterwards.
#[test]
fn enqueued_gets_are_answered_in_the_stream() {
    let device = Device::simulated(Mode::fast()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open_on(directory.path(), StoreOptions::default(), &device).unwrap();
    let options = |len| TableOptions::new(KeySpec::U64, ValueSpec::fixed(len).unwrap());
    // Rows of 24 bytes are read where they lie; rows of 20 bytes are copied first, so those gets are done at once.
    for (name, len) in [("words", 24_usize), ("bytes", 20)] {
        let table = store.create_table(name, options(len as u32)).unwrap();
        for key in 0..100_u64 {
            table.put(key, &vec![key as u8; len], Durability::Process).unwrap();
        }
        let (stream, asked) = (device.stream().unwrap(), [5_u64, 99, 100, 5]);
        let keys = device.upload(&asked).unwrap();
        let (mut statuses, mut values) = (device.allocate(4).unwrap(), device.allocate(4 * len).unwrap());
        let gets = Columns::keys_only(Op::Get, Cells::Fixed { len: 8, bytes: keys.column().unwrap() });
        let batch = BatchView::new(table.key_spec(), table.value_spec(), gets).unwrap();
        for durability in [Durability::Process, Durability::Power] {
            let rows = OutputValues::Rows { len, bytes: values.column_mut().unwrap() };
            let output = Output::new(&batch, statuses.status_column_mut(), None, rows).unwrap();
            // SAFETY: the buffers outlive the batch, and are read when it has been waited for.
            let enqueued = unsafe { table.enqueue_on(&batch, durability, output, &stream).unwrap() };
            device.stream().unwrap().wait_for(enqueued.event()).unwrap();
            enqueued.wait().unwrap();
            let codes = [Status::Ok, Status::Ok, Status::NotFound, Status::Ok].map(|status| status as u8);
            assert_eq!(statuses.to_vec::<u8>().unwrap(), codes, "{name}");
            let found = values.to_vec::<u8>().unwrap();
            for (at, key) in [(0, 5), (1, 99), (3, 5)] {
                assert_eq!(found[at * len..][..len], vec![key; len], "{name}");
            }
        }
        // Dropped, it waits; and a batch that writes is done when the call returns.
        let rows = OutputValues::Rows { len, bytes: values.column_mut().unwrap() };
        let output = Output::new(&batch, statuses.status_column_mut(), None, rows).unwrap();
        // SAFETY: as above.
        drop(unsafe { table.enqueue_on(&batch, Durability::Process, output, &stream).unwrap() });
        let deletes = Columns::keys_only(Op::Delete, Cells::Fixed { len: 8, bytes: keys.column().unwrap() });
        let batch = BatchView::new(table.key_spec(), table.value_spec(), deletes).unwrap();
        let output = Output::new(&batch, statuses.status_column_mut(), None, OutputValues::None).unwrap();
        // SAFETY: as above.
        let enqueued = unsafe { table.enqueue_on(&batch, Durability::Process, output, &stream).unwrap() };
        assert_eq!(table.get(99).unwrap(), None);
        enqueued.wait().unwrap();
    }
    store.close().unwrap();
}
