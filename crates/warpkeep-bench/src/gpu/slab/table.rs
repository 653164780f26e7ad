//! Tables that run batches of requests. Keys and values have 32 bits, or are stored as 64.

use std::collections::HashMap;
use std::time::Instant;

use warpkeep_containers::{
    DeviceSlabAnswers, DeviceSlabOps, SlabHashOptions, SlabKey, SlabMap, SlabOpKind, SlabOpKinds,
    SlabRequest, SlabValue,
};
use warpkeep_device::{Buffer, Device, Grid};

use super::batch::{ABSENT_KEY, Batch, DELETE, FOUND, INSERTED, REMOVED, SEARCH, UPDATED, answer};
use super::shape::Shape;
use crate::BenchError;
use crate::gpu::Clock;
use crate::kernels::RequestColumns;

const THREADS: u32 = 128;

/// A contestant.
pub(crate) trait Table {
    /// As a variant of a case.
    fn name(&self) -> &str;

    /// Removes everything.
    fn clear(&mut self) -> Result<(), BenchError>;

    /// Runs a batch; the seconds that it took, and the answers.
    fn answer(&mut self, batch: &Batch, clock: &Clock) -> Result<(f64, Vec<u64>), BenchError>;

    /// Bytes of pairs in proportion to the bytes that they take; `None` if that means nothing.
    fn utilisation(&self) -> Result<Option<f64>, BenchError>;

    /// Builds an empty table from all pairs at once, in another way than by requests; the seconds and the answers. `None` if there is no other way.
    fn bulk_build(&mut self, _batch: &Batch, _clock: &Clock) -> Result<Option<(f64, Vec<u64>)>, BenchError> {
        Ok(None)
    }

    /// Whether answers have the value that was there.
    fn has_values(&self) -> bool {
        true
    }
}

/// The seconds that a batch takes; every answer is checked.
pub(crate) fn run(table: &mut dyn Table, batch: &Batch, clock: &Clock) -> Result<f64, BenchError> {
    let answered = table.answer(batch, clock)?;
    check(table, batch, answered)
}

/// The seconds that building an empty table at once takes, if it can be built in this way; every answer is checked.
pub(super) fn run_bulk(
    table: &mut dyn Table,
    batch: &Batch,
    clock: &Clock,
) -> Result<Option<f64>, BenchError> {
    let answered = table.bulk_build(batch, clock)?;
    answered.map(|answered| check(table, batch, answered)).transpose()
}

fn check(table: &dyn Table, batch: &Batch, (seconds, answers): (f64, Vec<u64>)) -> Result<f64, BenchError> {
    let mask = if table.has_values() { u64::MAX } else { !u64::from(u32::MAX) };
    let wrong = answers.iter().zip(&batch.answers).position(|(given, right)| (given ^ right) & mask != 0);
    match wrong {
        None if answers.len() == batch.len() => Ok(seconds),
        None => Err(BenchError::Wrong(format!("{}: answers are missing", table.name()))),
        Some(at) => Err(BenchError::Wrong(format!(
            "{}: {} of {}, was answered {:#x}, and not {:#x}",
            table.name(),
            batch.describe(at),
            batch.len(),
            answers[at],
            batch.answers[at]
        ))),
    }
}

/// Columns of a batch in device memory.
pub(crate) struct Columns {
    ops: Buffer,
    keys: Buffer,
    values: Buffer,
    answers: Buffer,
    count: u64,
}

impl Columns {
    pub(crate) fn new(device: &Device, batch: &Batch) -> Result<Columns, BenchError> {
        Ok(Columns {
            ops: device.upload(&batch.ops)?,
            keys: device.upload(&batch.keys)?,
            values: device.upload(&batch.values)?,
            // No answer is zero.
            answers: device.allocate_zeroed(8 * batch.len())?,
            count: batch.len() as u64,
        })
    }

    pub(crate) fn requests(&self) -> RequestColumns {
        RequestColumns {
            ops: self.ops.ptr(),
            keys: self.keys.ptr(),
            values: self.values.ptr(),
            answers: self.answers.ptr(),
            count: self.count,
        }
    }

    pub(crate) fn grid(&self) -> Grid {
        Grid::covering(self.count, THREADS)
    }

    pub(crate) fn answers(&self) -> Result<Vec<u64>, BenchError> {
        Ok(self.answers.to_vec::<u64>()?)
    }
}

/// Keys and values of our tables.
pub(crate) trait Word: SlabKey<Self> + SlabValue + From<u32> + Into<u64> {}

impl Word for u32 {}
impl Word for u64 {}

/// A slab hash of ours, with a number of buckets that stays.
pub(crate) struct SlabTable<W> {
    name: String,
    device: Device,
    map: SlabMap<W, W>,
}

/// Ours as the paper has it.
pub(crate) type OurTable = SlabTable<u32>;

impl<W: Word> SlabTable<W> {
    /// Room for pairs in this many buckets, a power of two.
    pub(crate) fn new(
        device: &Device,
        shape: Shape,
        (buckets, pairs): (u32, u32),
        seed: u64,
    ) -> Result<Self, BenchError> {
        let options = SlabHashOptions {
            // More than the buckets are for: there are as many as there may be.
            capacity: u64::from(u32::MAX),
            slab_bytes: shape.slab_bytes,
            most_buckets: buckets,
            seed: Some(seed),
            ..SlabHashOptions::default()
        };
        let mut map = SlabMap::<W, W>::new(device, options)?;
        // A batch of the host takes the slabs that this many pairs need, and they stay.
        let requests: Vec<SlabRequest<W, W>> =
            (0..pairs).map(|key| SlabRequest::Insert(key.into(), key.into())).collect();
        map.apply(&requests)?;
        map.clear()?;
        let name = name_of(shape);
        Ok(SlabTable { name, device: device.clone(), map })
    }

    /// Keys and values of a batch in device memory.
    fn upload(&self, batch: &Batch) -> Result<[Buffer; 2], BenchError> {
        let words = |numbers: &[u32]| numbers.iter().map(|number| W::from(*number)).collect::<Vec<W>>();
        Ok([self.device.upload(&words(&batch.keys))?, self.device.upload(&words(&batch.values))?])
    }

    /// Columns for the answers to this many requests.
    fn answers(&self, count: usize) -> Result<[Buffer; 2], BenchError> {
        Ok([self.device.allocate_zeroed(count)?, self.device.allocate_zeroed(size_of::<W>() * count)?])
    }
}

/// Our table with slabs of this shape, as a variant of a case.
pub(crate) fn name_of(shape: Shape) -> String {
    format!("{}-byte slabs", shape.slab_bytes)
}

impl<W: Word> Table for SlabTable<W> {
    fn name(&self) -> &str {
        &self.name
    }

    fn clear(&mut self) -> Result<(), BenchError> {
        Ok(self.map.clear()?)
    }

    fn answer(&mut self, batch: &Batch, clock: &Clock) -> Result<(f64, Vec<u64>), BenchError> {
        let (device, count) = (&self.device, batch.len());
        let [keys, values] = self.upload(batch)?;
        let codes = match batch.one_op() {
            Some(_) => None,
            None => Some(device.upload(&batch.ops.iter().map(|&op| op as u8).collect::<Vec<u8>>())?),
        };
        let kinds = match (&codes, batch.one_op()) {
            (Some(codes), _) => SlabOpKinds::Each(codes),
            (None, Some(DELETE)) => SlabOpKinds::All(SlabOpKind::Delete),
            (None, Some(SEARCH) | None) => SlabOpKinds::All(SlabOpKind::Search),
            (None, Some(_)) => SlabOpKinds::All(SlabOpKind::Replace),
        };
        let ops = DeviceSlabOps { kinds, keys: &keys, values: Some(&values), count };
        let [mut statuses, mut found] = self.answers(count)?;
        let answers = DeviceSlabAnswers { statuses: &mut statuses, values: Some(&mut found) };
        let seconds = clock.time(|stream| self.map.apply_on(ops, answers, stream))?;
        Ok((seconds, words_of::<W>(&statuses, &found)?))
    }

    fn bulk_build(&mut self, batch: &Batch, clock: &Clock) -> Result<Option<(f64, Vec<u64>)>, BenchError> {
        let count = batch.len();
        let ([keys, values], [mut statuses, mut found]) = (self.upload(batch)?, self.answers(count)?);
        let answers = DeviceSlabAnswers { statuses: &mut statuses, values: Some(&mut found) };
        let seconds = clock.time(|stream| self.map.build_on(&keys, &values, count, answers, stream))?;
        Ok(Some((seconds, words_of::<W>(&statuses, &found)?)))
    }

    fn utilisation(&self) -> Result<Option<f64>, BenchError> {
        Ok(Some(self.map.stats()?.utilisation))
    }
}

/// Answers as words, from the columns of a batch.
fn words_of<W: Word>(statuses: &Buffer, values: &Buffer) -> Result<Vec<u64>, BenchError> {
    let (statuses, values) = (statuses.to_vec::<u8>()?, values.to_vec::<W>()?);
    // The upper half of a value that is wrong must not be lost: it changes the status.
    let word = |(status, value): (u8, W)| answer(u32::from(status), 0) ^ Into::<u64>::into(value);
    Ok(statuses.into_iter().zip(values).map(word).collect())
}

/// A map of the standard library.
#[derive(Default)]
pub(crate) struct CpuTable {
    map: HashMap<u32, u32>,
}

/// It, as a variant of a case.
pub(crate) const CPU: &str = "CPU, standard library, one thread";

impl Table for CpuTable {
    fn name(&self) -> &str {
        CPU
    }

    fn clear(&mut self) -> Result<(), BenchError> {
        self.map.clear();
        Ok(())
    }

    fn answer(&mut self, batch: &Batch, _clock: &Clock) -> Result<(f64, Vec<u64>), BenchError> {
        let mut answers = Vec::with_capacity(batch.len());
        let begun = Instant::now();
        for ((&op, &key), &value) in batch.ops.iter().zip(&batch.keys).zip(&batch.values) {
            let (there, absent) = match op {
                SEARCH => (self.map.get(&key).copied().map(|old| answer(FOUND, old)), ABSENT_KEY),
                DELETE => (self.map.remove(&key).map(|old| answer(REMOVED, old)), ABSENT_KEY),
                _ => (self.map.insert(key, value).map(|old| answer(UPDATED, old)), INSERTED),
            };
            answers.push(there.unwrap_or(answer(absent, 0)));
        }
        Ok((begun.elapsed().as_secs_f64().max(1e-9), answers))
    }

    fn utilisation(&self) -> Result<Option<f64>, BenchError> {
        Ok(None)
    }
}
