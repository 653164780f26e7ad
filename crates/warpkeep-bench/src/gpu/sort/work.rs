//! Columns to sort, on both sides.

use std::time::Instant;

use bytemuck::Pod;
use warpkeep_containers::{SortKey, SortValue, Sorter};
use warpkeep_device::{Buffer, Device};

use super::Shape;
use crate::BenchError;
use crate::gpu::Clock;
use crate::workload::Dice;

/// Columns of one shape that are sorted again and again.
pub(super) struct Work(Box<dyn Sorts>);

impl Work {
    pub(super) fn new(device: &Device, shape: Shape, items: usize, seed: u64) -> Result<Work, BenchError> {
        let shaped: Box<dyn Sorts> = match (shape.key_bytes, shape.value_bytes) {
            (4, 0) => Box::new(Columns::<u32, ()>::new(device, items, seed)?),
            (4, 4) => Box::new(Columns::<u32, u32>::new(device, items, seed)?),
            (4, _) => Box::new(Columns::<u32, u64>::new(device, items, seed)?),
            (_, 0) => Box::new(Columns::<u64, ()>::new(device, items, seed)?),
            (_, 4) => Box::new(Columns::<u64, u32>::new(device, items, seed)?),
            _ => Box::new(Columns::<u64, u64>::new(device, items, seed)?),
        };
        Ok(Work(shaped))
    }

    /// The seconds that the device takes; what it sorted is checked.
    pub(super) fn sort(&mut self, sorter: &Sorter, clock: &Clock) -> Result<f64, BenchError> {
        self.0.sort(sorter, clock)
    }

    /// The seconds that the standard library takes.
    pub(super) fn sort_on_cpu(&self) -> Result<f64, BenchError> {
        self.0.sort_on_cpu()
    }
}

/// Columns of whatever types.
trait Sorts {
    fn sort(&mut self, sorter: &Sorter, clock: &Clock) -> Result<f64, BenchError>;
    fn sort_on_cpu(&self) -> Result<f64, BenchError>;
}

/// An element of a column, of some bits of a number.
trait Element: Pod + PartialEq {
    fn of(number: u64) -> Self;
}

impl Element for u32 {
    fn of(number: u64) -> u32 {
        number as u32
    }
}

impl Element for u64 {
    fn of(number: u64) -> u64 {
        number
    }
}

impl Element for () {
    fn of(_number: u64) {}
}

/// Random keys, each with its position as the value, so that equal keys that change their order are noticed.
struct Columns<K, V> {
    pairs: Vec<(K, V)>,
    /// As the standard library sorts them.
    sorted: Vec<(K, V)>,
    /// In device memory: as they were, and to be sorted.
    fresh: (Buffer, Option<Buffer>),
    work: (Buffer, Option<Buffer>),
}

impl<K: SortKey + Element, V: SortValue + Element> Columns<K, V> {
    fn new(device: &Device, items: usize, seed: u64) -> Result<Columns<K, V>, BenchError> {
        let mut dice = Dice::new(seed, items as u64);
        let pairs: Vec<(K, V)> =
            (0..items as u64).map(|number| (K::of(dice.word()), V::of(number))).collect();
        let sorted = sorted(pairs.clone());
        let keys = device.upload(&pairs.iter().map(|pair| pair.0).collect::<Vec<_>>())?;
        let values = match size_of::<V>() {
            0 => None,
            _ => Some(device.upload(&pairs.iter().map(|pair| pair.1).collect::<Vec<_>>())?),
        };
        let like = |buffer: &Buffer| device.allocate(buffer.len());
        let work = (like(&keys)?, values.as_ref().map(like).transpose()?);
        Ok(Columns { pairs, sorted, fresh: (keys, values), work })
    }
}

impl<K: SortKey + Element, V: SortValue + Element> Sorts for Columns<K, V> {
    fn sort(&mut self, sorter: &Sorter, clock: &Clock) -> Result<f64, BenchError> {
        let (keys, values) = (&mut self.work.0, self.work.1.as_mut());
        keys.copy_from_on(0, &self.fresh.0, 0, keys.len(), clock.stream())?;
        if let (Some(to), Some(from)) = (&values, &self.fresh.1) {
            to.copy_from_on(0, from, 0, to.len(), clock.stream())?;
        }
        let bits = 0..8 * size_of::<K>() as u32;
        let seconds =
            clock.time(|stream| sorter.sort_bits::<K, V>(keys, values, self.pairs.len(), bits, stream))?;
        let keys_are_right = self.work.0.to_vec::<K>()?.iter().eq(self.sorted.iter().map(|pair| &pair.0));
        let values_are_right = match &self.work.1 {
            Some(values) => values.to_vec::<V>()?.iter().eq(self.sorted.iter().map(|pair| &pair.1)),
            None => true,
        };
        match keys_are_right && values_are_right {
            true => Ok(seconds),
            false => Err(BenchError::Wrong(format!(
                "{} items of {} + {} bytes were not sorted as the standard library sorts them",
                self.pairs.len(),
                size_of::<K>(),
                size_of::<V>()
            ))),
        }
    }

    fn sort_on_cpu(&self) -> Result<f64, BenchError> {
        let pairs = self.pairs.clone();
        let begun = Instant::now();
        let pairs = sorted(pairs);
        let seconds = begun.elapsed().as_secs_f64().max(1e-9);
        match pairs == self.sorted {
            true => Ok(seconds),
            false => Err(BenchError::Wrong("the standard library sorts one way and another".to_owned())),
        }
    }
}

/// As the standard library sorts them: values keep their order, and keys alone have none to keep.
fn sorted<K: Ord + Copy, V>(mut pairs: Vec<(K, V)>) -> Vec<(K, V)> {
    match size_of::<V>() {
        0 => pairs.sort_unstable_by_key(|pair| pair.0),
        _ => pairs.sort_by_key(|pair| pair.0),
    }
    pairs
}
