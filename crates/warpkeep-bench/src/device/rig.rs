//! A table in an image, run by a device, with the workload's items in it.
#![allow(unsafe_code, reason = "kernels are given addresses of device memory")]

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use warpkeep_core::{MergeRule, Op, Seed, Status, ValueSpec};
use warpkeep_device::{Buffer, Device, DevicePtr, Stream};
use warpkeep_gphash::gpu::paper::{CachePolicy, Paper, PaperReading};
use warpkeep_gphash::gpu::{
    DeviceBatch, DeviceEngine, DeviceImage, FusedRows, GetRows, PublishBy, Reading, ValueRoom,
};
use warpkeep_gphash::{Geometry, Layout, Table, TableError, TableSpec};
use warpkeep_image::{Access, Coherent, CreateOptions, Heap, HeapOptions, Image, OpenOptions};

use super::answers::{Answers, Expected};
use super::keys::{KeyColumn, Keys};
use super::lessons::Lessons;
use super::pool::Pool;
use super::strategy::{Strategy, Variant};
use crate::compare::warpkeep_image_bytes;
use crate::workload::Workload;
use crate::{BenchError, Progress};

/// Items that are loaded at once.
const LOADED: u64 = 1 << 20;
/// Batches of gets that can be under way at once.
pub(crate) const UNDER_WAY: usize = 4;
/// Batches that show which buckets are hot, before they are copied.
const WARMING: usize = 4;

/// The properties of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub(crate) workload: Workload,
    pub(crate) keys: Keys,
    pub(crate) layout: Layout,
    pub(crate) geometry: Geometry,
    /// Items as a share of the slots; `None` for as many as a table is made for, and room for `extra` more.
    pub(crate) load_factor: Option<f64>,
    pub(crate) extra: u64,
    /// Operations in the largest batch.
    pub(crate) largest: usize,
    /// Whether it is loaded from device memory, which is faster; only for tables that support fused writes.
    pub(crate) fused: bool,
}

/// How long a batch of writes took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// From host memory to the last word of the image.
    pub(crate) whole: Duration,
    /// The kernels.
    pub(crate) kernels: Duration,
}

/// A table, and the state for running its batches.
pub(crate) struct Rig {
    // In the order in which they may go.
    /// The paper's gets.
    pub(crate) paper: Paper,
    pub(crate) engine: DeviceEngine<Coherent>,
    pub(crate) table: Table<Coherent>,
    pub(crate) stream: Stream,
    /// A second one: while the values of one batch cross the link, the next is located in the other.
    beside: Stream,
    /// Room for the answers to each batch that is under way.
    answers: Vec<Answers>,
    image: Arc<Image<Coherent>>,
    workload: Workload,
    keys: Keys,
    version: u64,
    folder: TempDir,
}

/// The duration of reopening a table, part by part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reattached {
    /// Mapping the image, and marking used blocks.
    pub(crate) open: Duration,
    /// Registering the image with the device, and its kernels.
    pub(crate) register: Duration,
    /// Making the device index.
    pub(crate) index: Duration,
}

/// Values of items, in rows of a given length, by all cores: one core makes them slower than a device takes them.
fn write_rows(workload: &Workload, numbers: &[u64], generation: u64, row: usize, rows: &mut [u8]) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let each = numbers.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        for (rows, numbers) in rows.chunks_mut(each * row).zip(numbers.chunks(each)) {
            scope.spawn(move || {
                for (row, &number) in rows.chunks_exact_mut(row).zip(numbers) {
                    workload.write_value(number, generation, &mut row[..workload.value_bytes]);
                }
            });
        }
    });
}

impl Rig {
    /// Makes a table in a directory, which must be one that images can lie in, and loads it.
    pub(crate) fn load(
        device: &Device,
        images: &Path,
        form: &Form,
        progress: &dyn Progress,
    ) -> Result<Rig, BenchError> {
        let Form { workload, keys, layout, geometry, .. } = *form;
        let folder = tempfile::Builder::new().prefix("table-").tempdir_in(images);
        let folder = folder.map_err(BenchError::io("make a directory for an image"))?;
        let with_extra = Workload { items: workload.items + form.extra, ..workload };
        let create = CreateOptions {
            len: warpkeep_image_bytes(&keys.in_rows(with_extra)),
            ..CreateOptions::default()
        };
        let image = Image::create(&folder.path().join("image"), Coherent, &create)?;
        image.begin(1)?;
        let image = Arc::new(image);
        let heap = Arc::new(Heap::recover::<TableError>(&image, HeapOptions::default(), |_| Ok(()))?);
        let fixed = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        let key = keys.spec()?;
        let value = ValueSpec::fixed(fixed(workload.value_bytes)).map_err(warpkeep::Error::from)?;
        let spec = |capacity| TableSpec {
            key,
            value,
            geometry,
            capacity,
            layout,
            merge: MergeRule::None,
            seed: Seed(workload.seed),
        };
        let capacity = match form.load_factor {
            None => with_extra.items,
            Some(load) => {
                // A new table fills a share of its slots that it does not report: a small one shows it.
                let trial = Table::create(&heap, &spec(1000))?;
                let slots: u64 = trial.stats().levels.iter().map(|level| level.slots).sum();
                let share = trial.spec().capacity as f64 / slots as f64;
                trial.demolish()?;
                (workload.items as f64 / load * share) as u64
            }
        };
        let table = Table::create(&heap, &spec(capacity))?;
        let on_device = Arc::new(DeviceImage::new(device, &image)?);
        let engine = DeviceEngine::new(&on_device, &table)?;
        engine.refill_ahead();
        let paper = Paper::new(device, &table)?;
        let answers = (0..UNDER_WAY)
            .map(|_| Answers::new(device, &workload, form.largest))
            .collect::<Result<Vec<_>, _>>()?;
        let (stream, beside) = (device.stream()?, device.stream()?);
        let mut rig =
            Rig { paper, engine, table, stream, beside, answers, image, workload, keys, version: 0, folder };
        if form.fused {
            rig.engine.build_index(&rig.table)?;
        }
        for first in (0..workload.items).step_by(LOADED as usize) {
            progress.check()?;
            let numbers: Vec<u64> = (first..(first + LOADED).min(workload.items)).collect();
            match form.fused {
                true => rig.write_fused(Op::Put, &[&numbers], 0)?[0],
                false => rig.write(Op::Put, &numbers, 0)?,
            };
            progress.advance(numbers.len() as u64);
        }
        Ok(rig)
    }

    /// Drops the table as when a process ends, and opens it again.
    pub(crate) fn reattach(self, device: &Device) -> Result<(Rig, Reattached), BenchError> {
        let Rig { paper, engine, table, stream, beside, answers, image, workload, keys, version, folder } =
            self;
        let header = table.header();
        drop((engine, table, image));
        let begun = Instant::now();
        let path = folder.path().join("image");
        let image = Image::open(&path, Coherent, Access::ReadWrite, &OpenOptions::default())?.image;
        image.begin(image.epoch() + 1)?;
        let image = Arc::new(image);
        let heap = Heap::recover::<TableError>(&image, HeapOptions::default(), |marker| {
            Table::mark(&image, marker, header)
        })?;
        let heap = Arc::new(heap);
        let table = Table::attach(&heap, header)?;
        let open = begun.elapsed();
        let engine = DeviceEngine::new(&Arc::new(DeviceImage::new(device, &image)?), &table)?;
        let register = begun.elapsed() - open;
        engine.build_index(&table)?;
        let index = begun.elapsed() - open - register;
        let rig =
            Rig { paper, engine, table, stream, beside, answers, image, workload, keys, version, folder };
        Ok((rig, Reattached { open, register, index }))
    }

    /// Bytes of the image.
    pub(crate) fn image_bytes(&self) -> u64 {
        self.image.len()
    }

    /// How full the table is.
    pub(crate) fn load_factor(&self) -> f64 {
        let stats = self.table.stats();
        stats.load_factor
    }

    /// Sets the table up for a variant, whose cache learns from some batches of the pool what is hot. Batches that fail here were
    /// wrong.
    pub(crate) fn prepare(
        &self,
        variant: Variant,
        policy: CachePolicy,
        pool: &Pool,
        batch: usize,
    ) -> Result<(), BenchError> {
        let Rig { paper, engine, table, .. } = self;
        // Nothing is known of what is hot at first.
        paper.load_cache(engine, table, 0.0, CachePolicy::Random)?;
        if variant.has_index() {
            engine.adjust(|profile| {
                profile.ordered_from = if variant.strategy == Strategy::Index { usize::MAX } else { 0 };
                profile.publish_by = match variant.strategy {
                    Strategy::FusedLink => PublishBy::Device,
                    _ => PublishBy::usual(),
                };
            });
            let report = engine.build_index(table)?;
            if report.bytes == 0 && !table.is_empty() {
                return Err(BenchError::Invalid(format!(
                    "no device index of a table with the layout {}, or no device memory for one; take --layout packed and fewer --items, or leave \
                     out the strategies index and ordered",
                    table.layout()
                )));
            }
            return Ok(());
        }
        engine.drop_index(table);
        if variant.strategy != Strategy::BucketCache {
            return Ok(());
        }
        paper.load_cache(engine, table, 0.0, policy)?;
        for lock in 0..WARMING {
            self.get(variant, pool, &pool.batch(lock, batch))?;
        }
        paper.load_cache(engine, table, variant.share, policy)?;
        Ok(())
    }

    /// Puts a share of the values into device memory, those that lessons show to be hot. The table has a device index.
    pub(crate) fn cache_values(&self, share: f64, lessons: &Lessons) -> Result<(), BenchError> {
        let Rig { engine, table, stream, answers, .. } = self;
        // At first no key is known to be hot.
        engine.load_values(table, ValueRoom::Share(0.0))?;
        if !engine.learn_values(table)? {
            return Err(BenchError::Invalid(
                "no device memory to count which keys are hot; take fewer --items, or leave out the strategy values".to_owned(),
            ));
        }
        let at_once = answers[0].room();
        for first in (0..lessons.count).step_by(at_once) {
            let rows = GetRows {
                count: (lessons.count - first).min(at_once) as u64,
                keys: lessons.keys_at(first),
                statuses: answers[0].statuses_at(),
                versions: DevicePtr::NULL,
                values: answers[0].values_at(),
            };
            // SAFETY: there are as many keys, and space for as many answers; both stay until it is done.
            unsafe { engine.get_rows(table, &rows, stream)? }.finish()?;
        }
        let report = engine.load_values(table, ValueRoom::Share(share))?;
        if report.cached == 0 && share > 0.0 {
            return Err(BenchError::Invalid(
                "no device memory for values; take fewer --items, or leave out the strategy values"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// Looks up a part of a pool, with keys and answers in device memory.
    pub(crate) fn get(
        &self,
        variant: Variant,
        pool: &Pool,
        part: &Range<usize>,
    ) -> Result<Duration, BenchError> {
        self.look_up(variant, pool, std::slice::from_ref(part), true)
    }

    /// Looks up parts of a pool, all of them under way at once, in two streams, with values or without.
    pub(crate) fn look_up(
        &self,
        variant: Variant,
        pool: &Pool,
        parts: &[Range<usize>],
        with_values: bool,
    ) -> Result<Duration, BenchError> {
        let Rig { paper, engine, table, stream, beside, answers, .. } = self;
        let rows = |(part, answers): (&Range<usize>, &Answers)| {
            answers.has_room_for(part.len())?;
            Ok(GetRows {
                count: part.len() as u64,
                keys: pool.keys_at(part),
                statuses: answers.statuses_at(),
                versions: DevicePtr::NULL,
                values: if with_values { answers.values_at() } else { DevicePtr::NULL },
            })
        };
        let batches = parts.iter().zip(answers).map(rows).collect::<Result<Vec<_>, BenchError>>()?;
        let begun = Instant::now();
        let batches = batches.iter().zip([stream, beside].into_iter().cycle());
        // SAFETY: the pool has as many keys as a part, and there is room for as many answers; both stay until it is done.
        unsafe {
            if let Strategy::Alone | Strategy::BucketCache = variant.strategy {
                let begin = |(rows, stream)| match variant.strategy {
                    Strategy::Alone => paper.get_alone(engine, table, rows, stream),
                    _ => paper.get_cached(engine, table, rows, stream),
                };
                let readings = batches.map(begin).collect::<Result<Vec<_>, _>>()?;
                readings.into_iter().try_for_each(PaperReading::finish)?;
            } else {
                let readings = batches
                    .map(|(rows, stream)| engine.get_rows(table, rows, stream))
                    .collect::<Result<Vec<_>, _>>()?;
                readings.into_iter().try_for_each(Reading::finish)?;
            }
        }
        Ok(begun.elapsed())
    }

    /// Checks every answer of the last batches.
    pub(crate) fn check(
        &self,
        pool: &Pool,
        parts: &[Range<usize>],
        expected: Expected,
    ) -> Result<(), BenchError> {
        let mut batches = parts.iter().zip(&self.answers);
        batches.try_for_each(|(part, answers)| answers.check(pool, part, expected, &self.stream))
    }

    /// Checks some answers of the last batch here, byte by byte.
    pub(crate) fn check_sample(&self, pool: &Pool, part: &Range<usize>) -> Result<(), BenchError> {
        self.answers[0].check_sample(pool, part)
    }

    /// Does the same to different items: puts with values of a generation, or deletes.
    pub(crate) fn write(&mut self, op: Op, numbers: &[u64], generation: u64) -> Result<Written, BenchError> {
        let workload = self.workload;
        let (keys, mut values) = (KeyColumn::of(&self.keys, numbers), Vec::new());
        if op.takes_value() {
            numbers.iter().for_each(|&number| workload.append_value(number, generation, &mut values));
        }
        let mut batch = DeviceBatch::default();
        let value_of = |index: usize| match op.takes_value() {
            true => &values[index * workload.value_bytes..][..workload.value_bytes],
            false => &[][..],
        };
        for index in 0..numbers.len() {
            batch.push(op, keys.get(index), value_of(index), 0);
        }
        let first_version = self.version + 1;
        self.version += numbers.len() as u64;
        let begun = Instant::now();
        let mut lock = self.engine.write_lock();
        let mut stage = lock.stage(&self.table, &batch, first_version)?;
        let staged = stage.kernel_time();
        let right = |status: Status| matches!(status, Status::Ok | Status::Created);
        let statuses = stage.statuses().to_vec();
        let wrong =
            statuses.iter().filter(|status| !right(**status) && **status != Status::TableFull).count();
        if wrong > 0 {
            return Err(BenchError::Wrong(format!("{wrong} of {} {op:?}s were refused", numbers.len())));
        }
        let left: Vec<usize> =
            (0..statuses.len()).filter(|&index| statuses[index] == Status::TableFull).collect();
        let publishing = Instant::now();
        stage.publish()?;
        let kernels = staged + publishing.elapsed();
        // Items without a place on the device are put by the CPU, which can displace others, as a store does.
        let _relocation = self.engine.relocation_write();
        for index in left {
            let lock = self.table.lock_key(batch.keys[index]);
            let mut stage = self.table.stage([lock]);
            let seat = stage.seat(batch.keys[index], lock);
            match stage.put(&seat, batch.keys[index], batch.values[index], first_version + index as u64) {
                Ok(()) => drop(stage.publish()),
                Err(TableError::Full) => {
                    return Err(BenchError::Invalid(format!(
                        "no place for an item in a table of {} items; give a lower --load-factor",
                        self.table.len()
                    )));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Written { whole: begun.elapsed(), kernels })
    }

    /// Whether a variant does fused writes.
    pub(crate) fn writes_fused(&self, variant: Variant) -> bool {
        match variant.strategy {
            Strategy::Fused | Strategy::FusedLink => true,
            Strategy::Values => self.workload.key_bytes == 8,
            _ => false,
        }
    }

    /// The same with keys and values in device memory, where all of it is decided. Batches are written one after the other.
    pub(crate) fn write_fused(
        &mut self,
        op: Op,
        batches: &[impl AsRef<[u64]>],
        generation: u64,
    ) -> Result<Vec<Written>, BenchError> {
        let upload =
            |batch| Columns::of(self.engine.device(), self.keys, &self.workload, op, batch, generation);
        let columns =
            batches.iter().map(|batch| upload(batch.as_ref())).collect::<Result<Vec<_>, BenchError>>()?;
        let mut written = Vec::with_capacity(batches.len());
        for batch in &columns {
            let rows = batch.rows(op);
            let first_version = self.version + 1;
            self.version += rows.count;
            let Rig { engine, table, stream, .. } = self;
            let begun = Instant::now();
            // SAFETY: the columns have the lengths of the rows, stay until it returns, and no other code has them.
            let wrote = unsafe { engine.write_lock().write_fused(table, &rows, first_version, stream)? };
            let whole = begun.elapsed();
            written.push(Written { whole, kernels: whole });
            if wrote.is_none() {
                return Err(BenchError::Invalid(
                    "this table does not support fused writes; leave out the strategy fused".to_owned(),
                ));
            }
        }
        columns.iter().try_for_each(|batch| batch.check(op))?;
        Ok(written)
    }

    /// Reads items back and checks every byte: that they have this generation, or that they are gone.
    pub(crate) fn check_written(&self, numbers: Vec<u64>, expected: Expected) -> Result<(), BenchError> {
        let pool = Pool::of(self.engine.device(), self.keys, numbers)?;
        let part = 0..pool.numbers.len();
        self.get(Variant { strategy: Strategy::Image, share: 0.0 }, &pool, &part)?;
        self.check(&pool, &[part], expected)
    }
}

/// A batch in device memory.
struct Columns {
    count: usize,
    keys: Buffer,
    values: Option<Buffer>,
    statuses: Buffer,
}

impl Columns {
    fn of(
        device: &Device,
        keys: Keys,
        workload: &Workload,
        op: Op,
        numbers: &[u64],
        generation: u64,
    ) -> Result<Columns, BenchError> {
        let row = workload.value_bytes.next_multiple_of(8);
        let values = op.takes_value().then(|| {
            let mut rows = vec![0_u8; numbers.len() * row];
            write_rows(workload, numbers, generation, row, &mut rows);
            device.upload(&rows)
        });
        Ok(Columns {
            count: numbers.len(),
            keys: device.upload(&keys.rows(numbers))?,
            values: values.transpose()?,
            statuses: device.allocate_zeroed(numbers.len())?,
        })
    }

    fn rows(&self, op: Op) -> FusedRows {
        FusedRows {
            op,
            count: self.count as u64,
            keys: self.keys.ptr(),
            values: self.values.as_ref().map_or(DevicePtr::NULL, Buffer::ptr),
            statuses: self.statuses.ptr(),
        }
    }

    /// Whether all of it was done.
    fn check(&self, op: Op) -> Result<(), BenchError> {
        let right = |status: u8| status == Status::Ok as u8 || status == Status::Created as u8;
        match self.statuses.to_vec::<u8>()?.into_iter().filter(|&status| !right(status)).count() {
            0 => Ok(()),
            wrong => Err(BenchError::Wrong(format!("{wrong} of {} {op:?}s were refused", self.count))),
        }
    }
}
