//! A table on a device, and the map that it must agree with.

use std::collections::BTreeMap;
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
pub(crate) use warpkeep_suites::device::Dice;

use crate::rig::{Kind, get, heap_of, put};

/// The expected items: version and value by key number.
pub(crate) type Model = BTreeMap<u64, (u64, Vec<u8>)>;

/// Version and value for each key of a batch; `None` if it is absent.
type FoundItems = Vec<Option<(u64, Vec<u8>)>>;

/// Makes a heap of at most this many chunks, in memory or in a file.
pub(crate) type Space = fn(u64) -> Arc<Heap<Coherent>>;

/// The threads for batches from host memory.
pub(crate) static POOL: LazyLock<Pool> = LazyLock::new(|| Pool::new(3));

/// The limit for waits that tests in other threads can delay, because all tests share their epochs.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// An operation of a batch.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) number: u64,
    pub(crate) op: Op,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) argument: u64,
}

/// The device batch of these operations.
pub(crate) fn batch_of(rows: &[Row]) -> DeviceBatch<'_> {
    let mut batch = DeviceBatch::default();
    for row in rows {
        batch.push(row.op, &row.key, if row.op.takes_value() { &row.value } else { &[] }, row.argument);
    }
    batch
}

/// A column of keys in host memory.
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

pub(crate) struct Harness {
    pub(crate) kind: Kind,
    pub(crate) table: Table<Coherent>,
    pub(crate) engine: DeviceEngine<Coherent>,
    pub(crate) image: Arc<DeviceImage<Coherent>>,
    pub(crate) model: Model,
    pub(crate) version: u64,
}

/// If `WARPKEEP_COMPILE_AHEAD` names an architecture, compiles the kernels of such tables for it into the
/// [cache](warpkeep_device::KernelCache::from_environment), so that a host with such a GPU need not compile
/// them.
fn compile_ahead(spec: &TableSpec) {
    let Ok(arch) = std::env::var("WARPKEEP_COMPILE_AHEAD") else { return };
    let arch: Arch = arch.parse().unwrap();
    for program in programs_for(spec.geometry, spec.layout, spec.key, spec.value).into_iter().flatten() {
        compile_for(arch, &program).unwrap();
    }
}

impl Harness {
    pub(crate) fn new(
        device: &Device,
        space: Space,
        kind: Kind,
        geometry: Geometry,
        capacity: u64,
    ) -> Harness {
        let heap = space(200);
        let mut spec = kind.spec(geometry, capacity);
        spec.merge = MergeRule::AddU64;
        compile_ahead(&spec);
        let table = Table::create(&heap, &spec).unwrap();
        Harness::over(device, kind, table)
    }

    /// A device for an existing table.
    pub(crate) fn over(device: &Device, kind: Kind, table: Table<Coherent>) -> Harness {
        let image = Arc::new(DeviceImage::new(device, table.heap().image()).unwrap());
        let engine = DeviceEngine::new(&image, &table).unwrap();
        Harness { kind, table, engine, image, model: Model::new(), version: 0 }
    }

    /// Random operations on distinct keys.
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
            // Two keys with equal hashes in one batch would both fall back to the CPU.
            if self.kind != Kind::EqualHashes || !chosen.contains_key(&(number ^ 1)) {
                chosen.insert(number, op);
            }
        }
        let row = |(number, op)| {
            let current = self.model.get(&number).map_or(0, |item| item.0);
            let argument = match op {
                Op::CompareAndSwap => current + u64::from(dice.below(3) == 0),
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

    /// Runs a batch of random operations and checks it against the model.
    pub(crate) fn batch(&mut self, dice: &mut Dice, keys: u64, count: usize) {
        let rows = self.rows(dice, keys, count);
        let first_version = self.version + 1;
        let full = self.run(&rows);
        // The CPU does the operations for which the device found no slot.
        for index in full {
            let row = &rows[index];
            let version = first_version + index as u64;
            let (.., after) = expect(row, None, version);
            let value = after.flatten().expect("only a new key needs a slot");
            let _write = self.engine.write_lock();
            let _relocation = self.engine.relocation_write();
            put(&self.table, &row.key, &value, version).unwrap();
            self.model.insert(row.number, (version, value));
        }
    }

    /// Stages and publishes a batch, and checks every answer. Returns the operations that found no slot.
    pub(crate) fn run(&mut self, rows: &[Row]) -> Vec<usize> {
        let batch = batch_of(rows);
        let first_version = self.version + 1;
        self.version += rows.len() as u64;
        let mut lock = self.engine.write_lock();
        let mut stage = lock.stage(&self.table, &batch, first_version).unwrap();
        let mut full = Vec::new();
        for (index, row) in rows.iter().enumerate() {
            let before = self.model.get(&row.number).cloned();
            let version = first_version + index as u64;
            let (status, expected_version, after) = expect(row, before.as_ref(), version);
            let (op, number) = (row.op, row.number);
            if stage.statuses()[index] == Status::TableFull {
                assert!(before.is_none() && status == Status::Created, "{op:?} of {number} was refused");
                assert_eq!(stage.change(index), None);
                full.push(index);
                continue;
            }
            let answer = (stage.statuses()[index], stage.versions()[index]);
            assert_eq!(answer, (status, expected_version), "{op:?} of {number}");
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

    /// Lets the device finish a growth; returns whether there was work.
    pub(crate) fn finish_growth(&self, slice: u64) -> bool {
        let mut worked = false;
        let begun = Instant::now();
        while begun.elapsed() < TIMEOUT {
            match self.engine.write_lock().maintain(&self.table, slice).unwrap() {
                Progress::Idle | Progress::Stuck => return worked,
                Progress::Working | Progress::Busy => worked = true,
            }
            self.table.heap().reclaim();
            std::thread::yield_now();
        }
        panic!("the growth does not end");
    }

    /// Looks every key up with the device.
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

    /// Looks every key up from host memory, if the table has a device index.
    pub(crate) fn check_from_host(&self, keys: u64) {
        let rows: Vec<_> = (0..keys).map(|number| self.kind.key(number)).collect();
        let Some(gathered) = self.found_by_host(&rows) else { return };
        let wrong = (0..keys).zip(gathered).find(|(number, found)| self.model.get(number) != found.as_ref());
        assert_eq!(wrong, None, "from host memory to host memory");
    }

    /// Looks every key up with the device, from device and host memory, and with the CPU.
    pub(crate) fn check(&self, keys: u64) {
        assert_eq!(self.table.len(), self.model.len() as u64);
        self.check_lookups(keys);
        self.check_from_host(keys);
        for number in 0..keys {
            let expected = self.model.get(&number).cloned();
            assert_eq!(get(&self.table, &self.kind.key(number)), expected, "key {number} on the CPU");
        }
    }

    /// Gets from host memory to host memory; `None` without a device index.
    fn found_by_host(&self, keys: &[Vec<u8>]) -> Option<FoundItems> {
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

    /// Gets with keys and answers in device memory. Without `versions` they are 0.
    pub(crate) fn found_on_device(&self, keys: &[Vec<u8>], versions: bool) -> FoundItems {
        self.found_rows(keys, versions, |rows, stream| {
            // SAFETY: `found_rows` makes columns of `count` rows, which live until the reading has finished.
            unsafe { self.engine.get_rows(&self.table, rows, stream) }.unwrap().finish().unwrap();
        })
    }

    /// The same by `look`. Value rows of absent keys must stay unwritten.
    pub(crate) fn found_rows(
        &self,
        keys: &[Vec<u8>],
        versions: bool,
        look: impl Fn(&GetRows, &Stream),
    ) -> FoundItems {
        const UNWRITTEN: u8 = 0xaa;
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
        let version_bytes = if versions { 8 * count } else { 0 };
        let [statuses, version_column, values] = [count, version_bytes, row(value_len) * count]
            .map(|bytes| device.allocate_zeroed(bytes).unwrap());
        values.fill(UNWRITTEN).unwrap();
        let rows = GetRows {
            count: count as u64,
            keys: keys.ptr(),
            statuses: statuses.ptr(),
            versions: if versions { version_column.ptr() } else { DevicePtr::NULL },
            values: values.ptr(),
        };
        look(&rows, &stream);
        let statuses = statuses.to_vec::<u8>().unwrap();
        let found_versions = version_column.to_vec::<u64>().unwrap();
        let values = values.to_vec::<u8>().unwrap();
        let found = |index: usize| {
            let (value, version) =
                (&values[index * row(value_len)..][..value_len], found_versions.get(index).copied());
            match statuses[index] {
                status if status == Status::Ok as u8 => Some((version.unwrap_or(0), value.to_vec())),
                status => {
                    assert_eq!((status, version.unwrap_or(0)), (Status::NotFound as u8, 0));
                    assert!(
                        value.iter().all(|&byte| byte == UNWRITTEN),
                        "the row of an absent key was written"
                    );
                    None
                }
            }
        };
        (0..count).map(found).collect()
    }

    /// Looks every key up, and a third of them twice, with keys and answers in device memory.
    pub(crate) fn check_on_device(&self, keys: u64) {
        let numbers: Vec<u64> = (0..keys).chain((0..keys).step_by(3)).collect();
        let rows: Vec<_> = numbers.iter().map(|&number| self.kind.key(number)).collect();
        for versions in [true, false] {
            for (number, found) in numbers.iter().zip(self.found_on_device(&rows, versions)) {
                let of_model =
                    |(version, value): &(u64, _)| (if versions { *version } else { 0 }, Vec::clone(value));
                assert_eq!(found, self.model.get(number).map(of_model), "key {number} in device memory");
            }
        }
    }

    /// Looks the first keys up repeatedly beside writers, with keys and answers in device memory. Each key is always
    /// present, with a value that was written, and its version never decreases.
    pub(crate) fn read_rows_until(&self, done: &AtomicBool, keys: u64) {
        let rows: Vec<_> = (0..keys).map(|number| self.kind.key(number)).collect();
        let mut before = vec![0; rows.len()];
        while !done.load(Ordering::Relaxed) {
            for (index, found) in self.found_on_device(&rows, true).into_iter().enumerate() {
                let (version, value) = found.expect("every key is always present");
                assert!(version >= before[index], "key {index} got an older version");
                let known = |mark| self.kind.value(index as u64, mark) == value;
                assert!((0..40).any(known), "key {index} has {value:?}");
                before[index] = version;
            }
        }
    }

    /// As [`read_rows_until`](Self::read_rows_until), with keys and answers in host memory. Calls `first` before each
    /// batch.
    pub(crate) fn read_until(&self, done: &AtomicBool, keys: u64, first: impl Fn(&DeviceEngine<Coherent>)) {
        let (engine, kind) = (&self.engine, self.kind);
        let rows: Vec<_> = (0..keys).map(|number| kind.key(number)).collect();
        let mut before = vec![0; rows.len()];
        while !done.load(Ordering::Relaxed) {
            first(engine);
            engine
                .get_many(&self.table, rows.iter().map(Vec::as_slice), |index, found| {
                    let (version, value) = found.expect("every key is always present");
                    assert!(version >= before[index], "key {index} got an older version");
                    let known = |mark| kind.value(index as u64, mark) == value;
                    assert!((0..40).any(known), "key {index} has {value:?}");
                    before[index] = version;
                })
                .unwrap();
        }
    }

    /// Readers of the first keys beside writers: direct, scattered and partitioned, and with answers in device memory.
    /// `also` runs beside them until its flag is set.
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

    /// For each mark puts a third of the first keys with the device and one with the CPU, under one write lock.
    pub(crate) fn write_marks(&self, keys: u64, marks: std::ops::Range<u64>) {
        let (table, kind) = (&self.table, self.kind);
        let mut version = 10_000;
        for mark in marks {
            let rows = self.puts((mark..keys).step_by(3), mark);
            let mut lock = self.engine.write_lock();
            lock.stage(table, &batch_of(&rows), version).unwrap().publish().unwrap();
            version += keys;
            let number = mark * 7 % keys;
            put(table, &kind.key(number), &kind.value(number, mark), version).unwrap();
            drop(lock);
            version += 1;
        }
    }

    /// Checks that the image has each item once, in a slot of its key.
    pub(crate) fn inspect(&self) {
        let inspection = Table::inspect(self.table.heap().image(), self.table.header()).unwrap();
        assert!(inspection.is_clean(), "{inspection:?}");
        let counted = (inspection.items, inspection.unfinished, inspection.moving);
        assert_eq!(counted, (self.model.len() as u64, 0, 0), "{inspection:?}");
    }

    /// Drops the device, and opens the table as after a crash.
    pub(crate) fn reopened(self) -> (Kind, Table<Coherent>, Model) {
        let Harness { kind, table, engine, image, model, .. } = self;
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

/// Opens a table again as after a crash, from the image alone.
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

/// Status, answered version, and the new value, or `None` for a removal, if the operation takes effect.
pub(crate) fn expect(
    row: &Row,
    before: Option<&(u64, Vec<u8>)>,
    version: u64,
) -> (Status, u64, Option<Option<Vec<u8>>>) {
    let current = before.map_or(0, |item| item.0);
    let status = if before.is_some() { Status::Ok } else { Status::Created };
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().unwrap());
    match (row.op, before) {
        (Op::Get, Some(_)) => (Status::Ok, current, None),
        (Op::Get | Op::Update | Op::Delete | Op::CompareAndSwap, None) => (Status::NotFound, 0, None),
        (Op::Insert, Some(_)) => (Status::AlreadyExists, current, None),
        (Op::CompareAndSwap, Some(_)) if current != row.argument => (Status::VersionMismatch, current, None),
        (Op::FetchAdd, _) if row.value.len() != 8 => (Status::WrongType, current, None),
        (Op::Delete, Some(_)) => (Status::Ok, current, Some(None)),
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
