//! A table that a device works, and the plain map that it must agree with.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use warpkeep_core::{
    Answers as _, BatchView, Cells, Columns, KeySpec, MergeRule, Op, Outcome, Results, Status,
};
use warpkeep_device::{Arch, Device, DevicePtr, Stream, compile_for};
use warpkeep_gphash::gpu::{DeviceBatch, DeviceEngine, DeviceImage, GetRows, HostGets, programs_for};
use warpkeep_gphash::{Geometry, Progress, Table, TableSpec};
use warpkeep_image::{Coherent, Heap, HeapOptions, Image};
use warpkeep_record::Pool;

use crate::rig::{Kind, get, heap_of, put};

/// Version and value of each key that is there.
pub(crate) type Model = BTreeMap<u64, (u64, Vec<u8>)>;

/// Version and value of each key of a batch, if it is there.
type Answered = Vec<Option<(u64, Vec<u8>)>>;

/// Space of so many chunks for a table: in memory, or in a file.
pub(crate) type Space = fn(u64) -> Arc<Heap<Coherent>>;

/// Threads that help with batches from host memory.
pub(crate) static POOL: LazyLock<Pool> = LazyLock::new(|| Pool::new(3));

/// How long is waited for what other tests, in other threads, can hold up: they share their epochs with this one.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A line for the report of all tests.
pub(crate) fn tell(line: &str) {
    writeln!(std::io::stdout().lock(), "{line}").expect("standard output");
}

/// A small generator, so that a failure is repeated by its seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % limit
    }
}

/// An operation of a batch.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) number: u64,
    pub(crate) op: Op,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) argument: u64,
}

/// A batch of such operations.
pub(crate) fn batch_of(rows: &[Row]) -> DeviceBatch<'_> {
    let mut batch = DeviceBatch::default();
    for row in rows {
        batch.push(row.op, &row.key, if row.op.takes_value() { &row.value } else { &[] }, row.argument);
    }
    batch
}

/// Keys in host memory, as batches have them.
pub(crate) struct KeyColumn {
    len: Option<usize>,
    offsets: Vec<u64>,
    bytes: Vec<u8>,
}

impl KeyColumn {
    pub(crate) fn of(spec: KeySpec, keys: impl IntoIterator<Item = Vec<u8>>) -> KeyColumn {
        let mut column = KeyColumn { len: spec.fixed_len(), offsets: vec![0], bytes: Vec::new() };
        for key in keys {
            column.bytes.extend(key);
            column.offsets.push(column.bytes.len() as u64);
        }
        column
    }

    pub(crate) fn cells(&self) -> Cells<'_> {
        match self.len {
            Some(len) => Cells::fixed(len, &self.bytes),
            None => Cells::variable(&self.offsets, &self.bytes),
        }
    }
}

pub(crate) struct Bench {
    pub(crate) kind: Kind,
    pub(crate) table: Table<Coherent>,
    pub(crate) engine: DeviceEngine<Coherent>,
    pub(crate) image: Arc<DeviceImage<Coherent>>,
    pub(crate) model: Model,
    pub(crate) version: u64,
}

/// If `WARPKEEP_COMPILE_AHEAD` names an architecture, the kernels of such tables are compiled for it, and kept in the
/// [cache](warpkeep_device::KernelCache::from_environment): with that a host that has such a GPU, and is not there for long, need not compile them.
fn compile_ahead(spec: &TableSpec) {
    let Ok(arch) = std::env::var("WARPKEEP_COMPILE_AHEAD") else { return };
    let arch: Arch = arch.parse().unwrap();
    for program in programs_for(spec.geometry, spec.layout, spec.key, spec.value).into_iter().flatten() {
        compile_for(arch, &program).unwrap();
    }
}

impl Bench {
    pub(crate) fn new(device: &Device, space: Space, kind: Kind, geometry: Geometry, capacity: u64) -> Bench {
        let heap = space(200);
        let mut spec = kind.spec(geometry, capacity);
        spec.merge = MergeRule::AddU64;
        compile_ahead(&spec);
        let table = Table::create(&heap, &spec).unwrap();
        Bench::over(device, kind, table)
    }

    /// A device for a table that is there.
    pub(crate) fn over(device: &Device, kind: Kind, table: Table<Coherent>) -> Bench {
        let image = Arc::new(DeviceImage::new(device, table.heap().image()).unwrap());
        let engine = DeviceEngine::new(&image, &table).unwrap();
        Bench { kind, table, engine, image, model: Model::new(), version: 0 }
    }

    /// Random operations on different keys.
    pub(crate) fn rows(&self, dice: &mut Dice, keys: u64, count: usize) -> Vec<Row> {
        const OPS: [Op; 9] = [
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
        let mut chosen = BTreeMap::new();
        while chosen.len() < count {
            let (number, op) = (dice.below(keys), OPS[dice.below(OPS.len() as u64) as usize]);
            // Of two with one hash, both would be left to the CPU.
            if self.kind != Kind::Twins || !chosen.contains_key(&(number ^ 1)) {
                chosen.insert(number, op);
            }
        }
        let row = |(number, op)| {
            let there = self.model.get(&number).map_or(0, |item| item.0);
            let argument = match op {
                Op::CompareAndSwap => there + u64::from(dice.below(3) == 0),
                _ => dice.below(1 << 40),
            };
            let value = self.kind.value(number, dice.below(1000));
            Row { number, op, key: self.kind.key(number), value, argument }
        };
        chosen.into_iter().map(row).collect()
    }

    /// Puts of these keys.
    pub(crate) fn puts(&self, numbers: impl IntoIterator<Item = u64>, mark: u64) -> Vec<Row> {
        let row = |number| Row {
            number,
            op: Op::Put,
            key: self.kind.key(number),
            value: self.kind.value(number, mark),
            argument: 0,
        };
        numbers.into_iter().map(row).collect()
    }

    /// Does a batch of random operations, checked against the model.
    pub(crate) fn batch(&mut self, dice: &mut Dice, keys: u64, count: usize) {
        let rows = self.rows(dice, keys, count);
        let first_version = self.version + 1;
        let full = self.run(&rows);
        // What the device found no place for the CPU does.
        for index in full {
            let row = &rows[index];
            let version = first_version + index as u64;
            let (.., after) = expect(row, None, version);
            let value = after.flatten().expect("only what is new finds no place");
            let _turn = self.engine.turn();
            let _moving = self.engine.moving();
            put(&self.table, &row.key, &value, version).unwrap();
            self.model.insert(row.number, (version, value));
        }
    }

    /// Stages and publishes, and checks every answer; gives the operations that found no place.
    pub(crate) fn run(&mut self, rows: &[Row]) -> Vec<usize> {
        let batch = batch_of(rows);
        let first_version = self.version + 1;
        self.version += rows.len() as u64;
        let mut turn = self.engine.turn();
        let mut stage = turn.stage(&self.table, &batch, first_version).unwrap();
        let mut full = Vec::new();
        for (index, row) in rows.iter().enumerate() {
            let before = self.model.get(&row.number).cloned();
            let version = first_version + index as u64;
            let (status, answered, after) = expect(row, before.as_ref(), version);
            let (op, number) = (row.op, row.number);
            if stage.statuses()[index] == Status::TableFull {
                assert!(before.is_none() && status == Status::Created, "{op:?} of {number} was refused");
                assert_eq!(stage.change(index), None);
                full.push(index);
                continue;
            }
            let told = (stage.statuses()[index], stage.versions()[index]);
            assert_eq!(told, (status, answered), "{op:?} of {number}");
            let read = match op {
                Op::Get => before.as_ref().map(|item| item.1.clone()),
                Op::FetchAdd if status.is_ok() => {
                    Some(before.as_ref().map_or(vec![0; 8], |item| item.1.clone()))
                }
                _ => None,
            };
            if let Some(read) = read {
                assert_eq!(stage.answer(index), read, "{op:?} of {number}");
            }
            match (after, stage.change(index)) {
                (None, None) => {}
                (Some(None), Some(true)) => {
                    self.model.remove(&number);
                }
                (Some(Some(value)), Some(false)) => {
                    assert_eq!(stage.written(index), value);
                    self.model.insert(number, (version, value));
                }
                (after, change) => panic!("{op:?} of {number}: {after:?} and {change:?}"),
            }
        }
        stage.publish().unwrap();
        full
    }

    /// Grows, by the device, until there is nothing to do; gives whether there was.
    pub(crate) fn settle(&self, slice: u64) -> bool {
        let mut worked = false;
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            match self.engine.turn().maintain(&self.table, slice).unwrap() {
                Progress::Idle | Progress::Stuck => return worked,
                Progress::Working | Progress::Busy => worked = true,
            }
            self.table.heap().reclaim();
            std::thread::yield_now();
        }
        panic!("a growth without end");
    }

    /// Looks at every key with the device.
    pub(crate) fn check_lookups(&self, keys: u64) {
        let rows: Vec<_> = (0..keys).map(|number| self.kind.key(number)).collect();
        let mut next = 0;
        self.engine
            .get_many(&self.table, rows.iter().map(Vec::as_slice), |index, found| {
                assert_eq!(index, next);
                let expected = self.model.get(&(index as u64)).map(|(version, value)| (*version, &value[..]));
                assert_eq!(found, expected, "key {index} on the device");
                next += 1;
            })
            .unwrap();
        assert_eq!(next, rows.len());
    }

    /// Looks at every key from host memory, where the device knows where records lie.
    pub(crate) fn check_hosts(&self, keys: u64) {
        let rows: Vec<_> = (0..keys).map(|number| self.kind.key(number)).collect();
        let Some(gathered) = self.got_by_host(&rows) else { return };
        let wrong = (0..keys).zip(gathered).find(|(number, found)| self.model.get(number) != found.as_ref());
        assert_eq!(wrong, None, "from host memory to host memory");
    }

    /// Looks at every key with the device, whichever way, and with the CPU.
    pub(crate) fn check(&self, keys: u64) {
        assert_eq!(self.table.len(), self.model.len() as u64);
        self.check_lookups(keys);
        self.check_hosts(keys);
        for number in 0..keys {
            let expected = self.model.get(&number).cloned();
            assert_eq!(get(&self.table, &self.kind.key(number)), expected, "key {number} on the CPU");
        }
    }

    /// What is found from host memory to host memory, if the device knows where records lie.
    fn got_by_host(&self, keys: &[Vec<u8>]) -> Option<Answered> {
        let (key, value) = (self.table.key_spec(), self.table.value_spec());
        let keys = KeyColumn::of(key, keys.iter().cloned());
        let columns = Columns::keys_only(Op::Get, keys.cells());
        let view = BatchView::new(key, value, columns).unwrap();
        let mut results = Results::new(&view);
        let gets = HostGets {
            keys: view.host().unwrap().keys(),
            answers: results.rows_mut().unwrap(),
            pool: &POOL,
            at_once: 77,
        };
        if self.engine.gather_rows(&self.table, gets).unwrap().is_none() {
            assert!(results.statuses().iter().all(|&status| status == Status::Pending));
            return None;
        }
        let item = |outcome: Outcome<'_>| match outcome.status {
            Status::Ok => Some((outcome.version, outcome.value.unwrap().to_vec())),
            status => {
                assert_eq!((status, outcome.version), (Status::NotFound, 0));
                None
            }
        };
        Some(results.iter().map(item).collect())
    }

    /// What is found with keys and answers in device memory, with versions or without: then they are 0.
    pub(crate) fn got_on_device(&self, keys: &[Vec<u8>], versions: bool) -> Answered {
        self.got_rows(keys, versions, |rows, stream| {
            // SAFETY: the same.
            unsafe { self.engine.get_rows(&self.table, rows, stream) }.unwrap().finish().unwrap();
        })
    }

    /// The same by whoever is told to look. Rows of keys that are not there are left as they were.
    pub(crate) fn got_rows(
        &self,
        keys: &[Vec<u8>],
        versions: bool,
        look: impl Fn(&GetRows, &Stream),
    ) -> Answered {
        const BEFORE: u8 = 0xaa;
        let device = self.engine.device();
        let (count, stream) = (keys.len(), device.stream().unwrap());
        let row = |len: usize| len.next_multiple_of(8);
        let (key_row, value_len) =
            (row(self.table.key_row_len().unwrap()), self.table.value_spec().max_len());
        let mut padded = vec![0_u8; count * key_row];
        for (key, to) in keys.iter().zip(padded.chunks_exact_mut(key_row)) {
            match self.table.key_cells() {
                Some(cells) => to.copy_from_slice(cells.cell(key).unwrap().as_bytes()),
                None => to[..key.len()].copy_from_slice(key),
            }
        }
        let keys = device.upload(&padded).unwrap();
        let noted = if versions { 8 * count } else { 0 };
        let [statuses, noted, values] =
            [count, noted, row(value_len) * count].map(|bytes| device.allocate_zeroed(bytes).unwrap());
        values.fill(BEFORE).unwrap();
        let rows = GetRows {
            count: count as u64,
            keys: keys.ptr(),
            statuses: statuses.ptr(),
            versions: if versions { noted.ptr() } else { DevicePtr::NULL },
            values: values.ptr(),
        };
        look(&rows, &stream);
        let statuses = statuses.to_vec::<u8>().unwrap();
        let noted = noted.to_vec::<u64>().unwrap();
        let values = values.to_vec::<u8>().unwrap();
        let found = |index: usize| {
            let (value, version) =
                (&values[index * row(value_len)..][..value_len], noted.get(index).copied());
            match statuses[index] {
                status if status == Status::Ok as u8 => Some((version.unwrap_or(0), value.to_vec())),
                status => {
                    assert_eq!((status, version.unwrap_or(0)), (Status::NotFound as u8, 0));
                    assert!(value.iter().all(|&byte| byte == BEFORE), "a row of a key that is not there");
                    None
                }
            }
        };
        (0..count).map(found).collect()
    }

    /// Looks at every key, and at some again, with answers in device memory.
    pub(crate) fn check_on_device(&self, keys: u64) {
        let numbers: Vec<u64> = (0..keys).chain((0..keys).step_by(3)).collect();
        let rows: Vec<_> = numbers.iter().map(|&number| self.kind.key(number)).collect();
        for versions in [true, false] {
            for (number, found) in numbers.iter().zip(self.got_on_device(&rows, versions)) {
                let of_model =
                    |(version, value): &(u64, _)| (if versions { *version } else { 0 }, Vec::clone(value));
                assert_eq!(found, self.model.get(number).map(of_model), "key {number} in device memory");
            }
        }
    }

    /// Looks the first keys up again and again, with keys and answers in device memory, beside whoever writes: each is always there, with one
    /// of the values it was given, and never goes back in time.
    pub(crate) fn read_rows_until(&self, done: &AtomicBool, keys: u64) {
        let rows: Vec<_> = (0..keys).map(|number| self.kind.key(number)).collect();
        let mut before = vec![0; rows.len()];
        while !done.load(Ordering::Relaxed) {
            for (index, found) in self.got_on_device(&rows, true).into_iter().enumerate() {
                let (version, value) = found.expect("every key is always there");
                assert!(version >= before[index], "key {index} went back in time");
                let known = |mark| self.kind.value(index as u64, mark) == value;
                assert!((0..40).any(known), "key {index} has {value:?}");
                before[index] = version;
            }
        }
    }

    /// Looks the first keys up again and again, beside whoever writes: each is always there, with one of the values it was given, and
    /// never goes back in time. `first` is done before each time.
    pub(crate) fn read_until(&self, done: &AtomicBool, keys: u64, first: impl Fn(&DeviceEngine<Coherent>)) {
        let (engine, kind) = (&self.engine, self.kind);
        let rows: Vec<_> = (0..keys).map(|number| kind.key(number)).collect();
        let mut before = vec![0; rows.len()];
        while !done.load(Ordering::Relaxed) {
            first(engine);
            engine
                .get_many(&self.table, rows.iter().map(Vec::as_slice), |index, found| {
                    let (version, value) = found.expect("every key is always there");
                    assert!(version >= before[index], "key {index} went back in time");
                    let known = |mark| kind.value(index as u64, mark) == value;
                    assert!((0..40).any(known), "key {index} has {value:?}");
                    before[index] = version;
                })
                .unwrap();
        }
    }

    /// Readers of the first keys beside writers, with values in the order of the batch and of their addresses, also with answers in device memory, and beside
    /// what `also` does until it is told that they are done.
    pub(crate) fn read_beside_writes(&self, keys: u64, also: impl Fn(&AtomicBool) + Sync) {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| self.read_rows_until(&done, keys));
            for (from, at_once) in [(usize::MAX, 0), (0, usize::MAX), (0, 0)] {
                let set = move |engine: &DeviceEngine<Coherent>| {
                    engine.adjust(|profile| profile.ordered_from = from);
                    engine.adjust(|profile| profile.scattered_to = at_once);
                };
                let done = &done;
                scope.spawn(move || self.read_until(done, keys, set));
            }
            scope.spawn(|| also(&done));
            self.write_marks(keys, 1..30);
            done.store(true, Ordering::Relaxed);
        });
    }

    /// Puts a third of the first keys with the device, and one with the CPU, for each mark; the same turn for both.
    pub(crate) fn write_marks(&self, keys: u64, marks: std::ops::Range<u64>) {
        let (table, kind) = (&self.table, self.kind);
        let mut version = 10_000;
        for mark in marks {
            let rows = self.puts((mark..keys).step_by(3), mark);
            let mut turn = self.engine.turn();
            turn.stage(table, &batch_of(&rows), version).unwrap().publish().unwrap();
            version += keys;
            let number = mark * 7 % keys;
            put(table, &kind.key(number), &kind.value(number, mark), version).unwrap();
            drop(turn);
            version += 1;
        }
    }

    /// Nothing is in a wrong place or there twice, in the image itself.
    pub(crate) fn inspect(&self) {
        let inspection = Table::inspect(self.table.heap().image(), self.table.header()).unwrap();
        assert!(inspection.is_clean(), "{inspection:?}");
        let counted = (inspection.items, inspection.unfinished, inspection.moving);
        assert_eq!(counted, (self.model.len() as u64, 0, 0), "{inspection:?}");
    }

    /// Lets the device go, and opens the table as after a crash.
    pub(crate) fn reopened(self) -> (Kind, Table<Coherent>, Model) {
        let Bench { kind, table, engine, image, model, .. } = self;
        drop((engine, image));
        let table = reopened(table);
        assert_eq!(table.len(), model.len() as u64);
        let usage = heap_of(&table).usage();
        assert_eq!(usage.used_blocks(), 2 + kind.blocks() * model.len() as u64, "{usage}");
        for (&number, item) in &model {
            assert_eq!(get(&table, &kind.key(number)).as_ref(), Some(item));
        }
        (kind, table, model)
    }
}

/// Opens a table again as after a crash: nothing of the running process is left.
pub(crate) fn reopened(table: Table<Coherent>) -> Table<Coherent> {
    let (header, image) = (table.header(), Arc::clone(table.heap().image()));
    drop(table);
    open(&image, header).unwrap()
}

/// Opens the table with this header.
pub(crate) fn open(
    image: &Arc<Image<Coherent>>,
    header: u64,
) -> Result<Table<Coherent>, warpkeep_gphash::TableError> {
    let heap = Heap::recover(image, HeapOptions::default(), |marker| Table::mark(image, marker, header))?;
    Table::attach(&Arc::new(heap), header)
}

/// Status, version answered, and what the key has afterwards if it changes.
pub(crate) fn expect(
    row: &Row,
    before: Option<&(u64, Vec<u8>)>,
    version: u64,
) -> (Status, u64, Option<Option<Vec<u8>>>) {
    let there = before.map_or(0, |item| item.0);
    let status = if before.is_some() { Status::Ok } else { Status::Created };
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().unwrap());
    match (row.op, before) {
        (Op::Get, Some(_)) => (Status::Ok, there, None),
        (Op::Get | Op::Update | Op::Delete | Op::CompareAndSwap, None) => (Status::NotFound, 0, None),
        (Op::Insert, Some(_)) => (Status::AlreadyExists, there, None),
        (Op::CompareAndSwap, Some(_)) if there != row.argument => (Status::VersionMismatch, there, None),
        (Op::FetchAdd, _) if row.value.len() != 8 => (Status::WrongType, there, None),
        (Op::Delete, Some(_)) => (Status::Ok, there, Some(None)),
        (Op::FetchAdd, before) => {
            let sum = before.map_or(0, |item| word(&item.1)).wrapping_add(row.argument);
            (status, version, Some(Some(sum.to_le_bytes().to_vec())))
        }
        (Op::Merge, Some((_, stored))) => {
            let mut merged = stored.clone();
            assert!(MergeRule::AddU64.merge(&mut merged, &row.value));
            (status, version, Some(Some(merged)))
        }
        _ => (status, version, Some(Some(row.value.clone()))),
    }
}
