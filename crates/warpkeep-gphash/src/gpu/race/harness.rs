//! A table with a device, and one launch of the simulator in which readers and writers of it run.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use warpkeep_core::{KeySpec, MergeRule, Op, Seed, Status, ValueSpec};
use warpkeep_device::sim::Seeded;
use warpkeep_device::{Buffer, Device, DevicePtr, Grid, KernelCache, KernelSet as _, Mode};
use warpkeep_image::{Coherent, Format, Heap, HeapOptions, Image, MIN_CHUNK, PlainMemory, Surroundings};

use crate::gpu::batch::DeviceBatch;
use crate::gpu::engine::DeviceEngine;
use crate::gpu::image::DeviceImage;
use crate::gpu::index::IndexAccess;
use crate::gpu::kernels::RaceKernels;
use crate::gpu::params::{ApplyParams, FillParams, GetParams, PublishParams, RaceParams, TableParams};
use crate::gpu::write::params::StepParams;
use crate::{Geometry, Layout, Table, TableError, TableSpec};
use warpkeep_device::Partition;

/// Keys that readers look up.
pub(super) const KEYS: u64 = 48;
/// The first of them, which are in the table at the beginning.
pub(super) const PRESENT: u64 = 40;
/// Warps of a pipeline step.
const STEP_WARPS: u64 = 3;

/// Version and value of a key.
pub(super) type Item = Option<(u64, u64)>;

/// A table with a device, and the items it must have.
pub(super) struct Harness {
    pub(super) key: fn(u64) -> Vec<u8>,
    pub(super) device: Device,
    pub(super) table: Table<Coherent>,
    pub(super) engine: DeviceEngine<Coherent>,
    pub(super) items: BTreeMap<u64, (u64, u64)>,
}

pub(super) fn long_key(number: u64) -> Vec<u8> {
    [&number.to_le_bytes()[..], &[b'0'; 12]].concat()
}

/// Keys of 16 bytes. Keys 2n and 2n + 1 have the same hash.
pub(super) fn equal_hash_key(number: u64) -> Vec<u8> {
    // The hash multiplies `x ^ first word` by `y ^ second word`. One factor is 0 here, so the hash depends on the other
    // alone, and is the same for both keys.
    let x = (SEED.0 ^ 0x1F83_D9AB_FB41_BD6B).wrapping_add(0x3C6E_F372_FE94_F82B_u64.wrapping_mul(16));
    let y = SEED.0.rotate_left(32) ^ 0x5BE0_CD19_137E_2179;
    let pair = number / 2 + 1;
    let words = if number.is_multiple_of(2) { [x, y ^ pair] } else { [x ^ pair.rotate_left(32), y] };
    words.map(u64::to_le_bytes).concat()
}

const SEED: Seed = Seed(5);

pub(super) fn value(number: u64, version: u64) -> u64 {
    number << 32 | version
}

impl Harness {
    pub(super) fn with_keys(seed: u64, layout: Layout, value_len: u32, key: fn(u64) -> Vec<u8>) -> Harness {
        let mode = Mode::Seeded(Seeded { resident_blocks: 8, ..Seeded::new(seed) });
        let device = Device::simulated(mode).unwrap();
        let memory = PlainMemory::new(4 * MIN_CHUNK, 60 * MIN_CHUNK);
        let format = Format { store_id: [1; 16], chunk_size: MIN_CHUNK, hash_seed: 7 };
        let path = Path::new("memory");
        let image =
            Image::format(Arc::new(memory), Coherent, path, &format, Surroundings::default()).unwrap();
        image.begin(1).unwrap();
        let heap = Heap::recover::<TableError>(&Arc::new(image), HeapOptions::default(), |_| Ok(())).unwrap();
        let spec = TableSpec {
            key: KeySpec::fixed(key(0).len() as u32).unwrap(),
            value: ValueSpec::fixed(value_len).unwrap(),
            geometry: Geometry::default(),
            capacity: 80,
            layout,
            merge: MergeRule::None,
            seed: SEED,
        };
        let table = Table::create(&Arc::new(heap), &spec).unwrap();
        let on_device = Arc::new(DeviceImage::new(&device, table.heap().image()).unwrap());
        let engine = DeviceEngine::new(&on_device, &table).unwrap();
        let mut harness = Harness { key, device, table, engine, items: BTreeMap::new() };
        for (first, numbers) in (1..).step_by(100).zip(harness.batches(0..PRESENT)) {
            harness.write(Op::Put, numbers.into_iter(), first, |_, _| {});
        }
        harness
    }

    /// These keys in batches without equal hashes: the CPU would do the operations on such keys.
    pub(super) fn batches(&self, numbers: Range<u64>) -> Vec<Vec<u64>> {
        let stride =
            if self.table.lock_key(&(self.key)(0)) == self.table.lock_key(&(self.key)(1)) { 2 } else { 1 };
        (0..stride).map(|rest| numbers.clone().filter(|number| number % stride == rest).collect()).collect()
    }

    /// Stages operations, calls `meanwhile`, and publishes.
    pub(super) fn write(
        &mut self,
        op: Op,
        numbers: impl Iterator<Item = u64>,
        first_version: u64,
        meanwhile: impl FnOnce(&Harness, PublishParams),
    ) {
        let numbers: Vec<u64> = numbers.collect();
        let (table, len) = (&self.table, self.table.value.max_len());
        let keys: Vec<Vec<u8>> = numbers.iter().map(|&number| (self.key)(number)).collect();
        let values: Vec<Vec<u8>> = (first_version..)
            .zip(&numbers)
            .map(|(version, &number)| value(number, version).to_le_bytes().repeat(len / 8))
            .collect();
        let mut batch = DeviceBatch::default();
        for (key, value) in keys.iter().zip(&values) {
            batch.push(op, key, if op.takes_value() { value } else { &[] }, 0);
        }
        let mut lock = self.engine.write_lock();
        let mut stage = lock.stage(table, &batch, first_version).unwrap();
        assert!((0..numbers.len()).all(|index| stage.change(index).is_some()));
        meanwhile(self, stage.publish_params());
        stage.publish().unwrap();
        drop(stage);
        drop(lock);
        for (version, number) in (first_version..).zip(numbers) {
            match op {
                Op::Delete => self.items.remove(&number),
                _ => self.items.insert(number, (version, value(number, version))),
            };
        }
    }

    /// A key, padded with zeros to whole words.
    pub(super) fn row(&self, number: u64) -> Vec<u8> {
        let mut row = (self.key)(number);
        row.resize(row.len().next_multiple_of(8), 0);
        row
    }

    pub(super) fn params(&self) -> TableParams {
        let guard = &self.table.heap.pin();
        let snapshot =
            self.engine.device_index.acquire(&self.engine, &self.table, IndexAccess::Read).unwrap();
        self.image_params(guard).with_index(snapshot.expect("a device index").params())
    }

    pub(super) fn image_params(&self, guard: &crossbeam_epoch::Guard) -> TableParams {
        TableParams::new(&self.table, self.table.levels(guard), self.engine.image.cover().unwrap())
    }

    /// Looks all keys up with two warps beside the writers, in the image and then through the device index. Beside a
    /// fill only through the index: the fill would have finished before.
    pub(super) fn race(&self, writers: Writers) -> Observations {
        self.try_race(writers).unwrap()
    }

    /// As [`race`](Self::race); an error if the simulator detects one.
    pub(super) fn try_race(&self, writers: Writers) -> Result<Observations, TableError> {
        let Writers { publish, fill, step, step_after_read, apply } = writers;
        let guard = &self.table.heap.pin();
        let rows: Vec<u8> = (0..KEYS).flat_map(|number| self.row(number)).collect();
        let keys = self.device.upload(&rows).unwrap();
        let words = self.table.value.max_len() / 8;
        let [image, index, second] = [0, 1, 2].map(|_| Answers::new(&self.device, words));
        let table = self.image_params(guard);
        let no_publish = PublishParams { table, count: 0, pending: DevicePtr::NULL, keys: DevicePtr::NULL };
        let mut image_get = image.params(table, &keys);
        image_get.count = if fill.is_some() { 0 } else { KEYS };
        let no_fill = FillParams {
            get: GetParams { count: 0, ..image_get },
            count: 0,
            choices: DevicePtr::NULL,
            ranks: DevicePtr::NULL,
            partition: Partition::NONE,
            ordered: DevicePtr::NULL,
            free_rows: DevicePtr::NULL,
            wide: 0,
        };
        let readers = KEYS.div_ceil(32);
        let publishers = publish.map_or(0, |publish| publish.count.div_ceil(32));
        let fillers = fill.as_ref().map_or(0, |fill| fill.count.div_ceil(32));
        let steppers = if step.is_some() { STEP_WARPS } else { 0 };
        let appliers = apply.map_or(0, |apply| apply.count.div_ceil(32));
        let apply = apply.map(|apply| self.device.upload(&[apply]).unwrap());
        let step = step.map(|step| self.device.upload(&[step]).unwrap());
        let readers_done = step_after_read.then(|| self.device.allocate_zeroed(8).unwrap());
        let pointer = |buffer: &Option<Buffer>| buffer.as_ref().map_or(DevicePtr::NULL, Buffer::ptr);
        let params = RaceParams {
            image_get,
            index_get: index.params(self.params(), &keys),
            publish: publish.unwrap_or(no_publish),
            fill: fill.unwrap_or(no_fill),
            apply: pointer(&apply),
            step: pointer(&step),
            readers_done: pointer(&readers_done),
            second_statuses: if step.is_some() { second.statuses.ptr() } else { DevicePtr::NULL },
            second_versions: second.versions.ptr(),
            second_values: second.values.ptr(),
            readers,
            publishers,
            fillers,
            steppers,
            appliers,
        };
        let kernels = RaceKernels::load_with(&self.device, &KernelCache::none()).unwrap();
        let blocks = (readers + publishers + fillers + steppers + appliers) as u32;
        let stream = self.device.stream().unwrap();
        // SAFETY: the columns have `KEYS` rows, and all memory that the parameters point to lives until the stream is
        // synchronised below.
        unsafe {
            let grid = Grid { blocks, threads: 32, shared_bytes: 0 };
            kernels.race.launch(grid, &params, &stream)?;
        }
        stream.synchronize()?;
        Ok(Observations { image: image.items(words), index: index.items(words), second: second.items(words) })
    }

    /// The difference between the items and what the device finds now, if any.
    pub(super) fn mismatch(&self) -> Option<String> {
        let keys: Vec<Vec<u8>> = (0..KEYS).map(self.key).collect();
        let mut mismatch = None;
        self.engine
            .get_many(&self.table, keys.iter().map(|key| &key[..]), |index, found| {
                let found = found.map(|(version, bytes)| {
                    (version, u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")))
                });
                if found != self.items.get(&(index as u64)).copied() {
                    mismatch = Some(format!("key {index} has {found:?} afterwards"));
                }
            })
            .unwrap();
        mismatch
    }
}

/// The answers to one read of all keys.
struct Answers {
    statuses: Buffer,
    versions: Buffer,
    values: Buffer,
}

impl Answers {
    fn new(device: &Device, words: usize) -> Answers {
        let zeroed = |bytes| device.allocate_zeroed(bytes).unwrap();
        let count = KEYS as usize;
        Answers { statuses: zeroed(count), versions: zeroed(8 * count), values: zeroed(8 * words * count) }
    }

    fn params(&self, table: TableParams, keys: &Buffer) -> GetParams {
        let (statuses, versions, values) = (self.statuses.ptr(), self.versions.ptr(), self.values.ptr());
        GetParams { table, count: KEYS, keys: keys.ptr(), statuses, versions, values }
    }

    fn items(&self, words: usize) -> Vec<Item> {
        let statuses = self.statuses.to_vec::<u8>().unwrap();
        let (versions, values) =
            (self.versions.to_vec::<u64>().unwrap(), self.values.to_vec::<u64>().unwrap());
        (0..KEYS as usize)
            .map(|index| {
                (statuses[index] == Status::Ok as u8).then(|| (versions[index], values[words * index]))
            })
            .collect()
    }
}

/// The writers of a launch, beside its readers.
#[derive(Clone, Copy, Default)]
pub(super) struct Writers {
    /// A two-phase write is published.
    pub(super) publish: Option<PublishParams>,
    /// Rows of the value cache are filled.
    pub(super) fill: Option<FillParams>,
    /// A step of a fused write.
    pub(super) step: Option<StepParams>,
    /// The step begins after a reader has read the image.
    pub(super) step_after_read: bool,
    /// The change feed is applied.
    pub(super) apply: Option<ApplyParams>,
}

/// What the readers of a race found.
pub(super) struct Observations {
    /// In the image.
    pub(super) image: Vec<Item>,
    /// Through the device index.
    pub(super) index: Vec<Item>,
    /// In the image for the second time, beside a step.
    pub(super) second: Vec<Item>,
}
