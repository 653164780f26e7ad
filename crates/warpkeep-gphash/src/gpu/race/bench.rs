//! A table with a device, and one launch of the simulator in which everybody is at work on it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use warpkeep_core::{KeySpec, MergeRule, Op, Seed, Status, ValueSpec};
use warpkeep_device::sim::Seeded;
use warpkeep_device::{Buffer, Device, DevicePtr, Grid, KernelCache, KernelSet as _, Mode};
use warpkeep_image::{Coherent, Format, Heap, HeapOptions, Image, MIN_CHUNK, PlainMemory, Surroundings};

use crate::gpu::kernels::RaceKernels;
use crate::gpu::mirror::For;
use crate::gpu::params::{FillParams, GetParams, PublishParams, RaceParams, TableParams, TellParams};
use crate::gpu::regions::Regions;
use crate::gpu::straight::params::BeatParams;
use crate::gpu::{DeviceBatch, DeviceEngine, DeviceImage};
use crate::{Geometry, Layout, Table, TableError, TableSpec};

/// Keys that are looked up, and those of them that are there at first.
pub(super) const KEYS: u64 = 48;
pub(super) const THERE: u64 = 40;
/// Warps of a beat.
pub(super) const BEATERS: u64 = 3;

/// Version and value of a key.
pub(super) type Item = Option<(u64, u64)>;

/// A table with a device.
pub(super) struct Bench {
    pub(super) key: fn(u64) -> Vec<u8>,
    pub(super) device: Device,
    pub(super) table: Table<Coherent>,
    pub(super) engine: DeviceEngine<Coherent>,
    pub(super) items: BTreeMap<u64, (u64, u64)>,
}

pub(super) fn long_key(number: u64) -> Vec<u8> {
    [&number.to_le_bytes()[..], &[b'0'; 12]].concat()
}

/// Keys of 16 bytes, of which two after the other have the same hash.
pub(super) fn twin_key(number: u64) -> Vec<u8> {
    // What the hash of such a key begins with; then it multiplies two words, one of which is 0 here.
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

impl Bench {
    pub(super) fn with_keys(seed: u64, layout: Layout, value_len: u32, key: fn(u64) -> Vec<u8>) -> Bench {
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
        let mut bench = Bench { key, device, table, engine, items: BTreeMap::new() };
        for (first, numbers) in (1..).step_by(100).zip(bench.batches(0..THERE)) {
            bench.write(Op::Put, numbers.into_iter(), first, |_, _| {});
        }
        bench
    }

    /// These keys in batches: of two that have one hash both would be left to the CPU.
    pub(super) fn batches(&self, numbers: Range<u64>) -> Vec<Vec<u64>> {
        let apart =
            if self.table.lock_key(&(self.key)(0)) == self.table.lock_key(&(self.key)(1)) { 2 } else { 1 };
        (0..apart).map(|rest| numbers.clone().filter(|number| number % apart == rest).collect()).collect()
    }

    /// Stages operations, lets something happen, and publishes.
    pub(super) fn write(
        &mut self,
        op: Op,
        numbers: impl Iterator<Item = u64>,
        first_version: u64,
        meanwhile: impl FnOnce(&Bench, PublishParams),
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
        let mut turn = self.engine.turn();
        let mut stage = turn.stage(table, &batch, first_version).unwrap();
        assert!((0..numbers.len()).all(|index| stage.change(index).is_some()));
        meanwhile(self, stage.publish_params());
        stage.publish().unwrap();
        drop(stage);
        drop(turn);
        for (version, number) in (first_version..).zip(numbers) {
            match op {
                Op::Delete => self.items.remove(&number),
                _ => self.items.insert(number, (version, value(number, version))),
            };
        }
    }

    /// A key with zeros behind it.
    pub(super) fn row(&self, number: u64) -> Vec<u8> {
        let mut row = (self.key)(number);
        row.resize(row.len().next_multiple_of(8), 0);
        row
    }

    pub(super) fn params(&self) -> TableParams {
        let guard = &self.table.heap.pin();
        let mirror = self.engine.mirror.join(&self.engine, &self.table, For::Reading).unwrap();
        self.plain_params(guard).reflected(mirror.expect("a mirror").params())
    }

    pub(super) fn plain_params(&self, guard: &crossbeam_epoch::Guard) -> TableParams {
        TableParams::new(&self.table, self.table.levels(guard), self.engine.image.cover().unwrap())
    }

    /// All keys, looked up by two warps beside what else is in the launch: through the mirror; before that in the image, unless rows are
    /// filled, which would be over by then.
    pub(super) fn race(&self, beside: Beside) -> Seen {
        self.try_race(beside).unwrap()
    }

    /// The same, where the simulator may find fault with it.
    pub(super) fn try_race(&self, beside: Beside) -> Result<Seen, TableError> {
        let Beside { publish, fill, beat, late, tell } = beside;
        let guard = &self.table.heap.pin();
        let rows: Vec<u8> = (0..KEYS).flat_map(|number| self.row(number)).collect();
        let keys = self.device.upload(&rows).unwrap();
        let words = self.table.value.max_len() / 8;
        let [plain, cached, again] = [0, 1, 2].map(|_| Answers::new(&self.device, words));
        let publishers = publish.map_or(0, |publish| publish.count.div_ceil(32));
        let table = self.plain_params(guard);
        let nothing = PublishParams { table, count: 0, pending: DevicePtr::NULL, keys: DevicePtr::NULL };
        let readers = KEYS.div_ceil(32);
        let beaters = if beat.is_some() { BEATERS } else { 0 };
        let late = late.then(|| self.device.allocate_zeroed(8).unwrap());
        let telling = tell.map(|tell| self.device.upload(&[tell]).unwrap());
        let tellers = tell.map_or(0, |tell| tell.count.div_ceil(32));
        let beating = beat.map(|beat| self.device.upload(&[beat]).unwrap());
        let mut without = plain.params(self.plain_params(guard), &keys);
        without.count = if fill.is_some() { 0 } else { KEYS };
        let fillers = fill.as_ref().map_or(0, |fill| fill.count.div_ceil(32));
        let no_rows = FillParams {
            get: GetParams { count: 0, ..without },
            count: 0,
            choices: DevicePtr::NULL,
            ranks: DevicePtr::NULL,
            regions: Regions::NONE,
            ordered: DevicePtr::NULL,
            spares: DevicePtr::NULL,
            wide: 0,
        };
        let params = RaceParams {
            plain: without,
            get: cached.params(self.params(), &keys),
            publish: publish.unwrap_or(nothing),
            fill: fill.unwrap_or(no_rows),
            tell: telling.as_ref().map_or(DevicePtr::NULL, Buffer::ptr),
            beat: beating.as_ref().map_or(DevicePtr::NULL, Buffer::ptr),
            arrived: late.as_ref().map_or(DevicePtr::NULL, Buffer::ptr),
            statuses_again: if beat.is_some() { again.statuses.ptr() } else { DevicePtr::NULL },
            versions_again: again.versions.ptr(),
            values_again: again.values.ptr(),
            readers,
            publishers,
            fillers,
            beaters,
            tellers,
        };
        let kernels = RaceKernels::load_with(&self.device, &KernelCache::none()).unwrap();
        let blocks = (readers + publishers + fillers + beaters + tellers) as u32;
        let stream = self.device.stream().unwrap();
        // SAFETY: the columns are as long as the rows take, and all that the parameters lead to stays until the kernel is done.
        unsafe {
            let grid = Grid { blocks, threads: 32, shared_bytes: 0 };
            kernels.race.launch(grid, &params, &stream)?;
        }
        stream.synchronize()?;
        Ok(Seen { plain: plain.items(words), cached: cached.items(words), again: again.items(words) })
    }

    /// What is wrong with what the device finds now.
    pub(super) fn wrong(&self) -> Option<String> {
        let keys: Vec<Vec<u8>> = (0..KEYS).map(self.key).collect();
        let mut wrong = None;
        self.engine
            .get_many(&self.table, keys.iter().map(|key| &key[..]), |index, found| {
                let found = found.map(|(version, bytes)| {
                    (version, u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")))
                });
                if found != self.items.get(&(index as u64)).copied() {
                    wrong = Some(format!("key {index} has {found:?} afterwards"));
                }
            })
            .unwrap();
        wrong
    }
}

/// Answers to the readers of a race.
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
            .map(|at| (statuses[at] == Status::Ok as u8).then(|| (versions[at], values[words * at])))
            .collect()
    }
}

/// What is in a launch beside those who read.
#[derive(Clone, Copy, Default)]
pub(super) struct Beside {
    pub(super) publish: Option<PublishParams>,
    pub(super) fill: Option<FillParams>,
    pub(super) beat: Option<BeatParams>,
    /// Those of the beat wait until somebody has read in the image.
    pub(super) late: bool,
    pub(super) tell: Option<TellParams>,
}

pub(super) struct Seen {
    pub(super) plain: Vec<Item>,
    pub(super) cached: Vec<Item>,
    pub(super) again: Vec<Item>,
}
