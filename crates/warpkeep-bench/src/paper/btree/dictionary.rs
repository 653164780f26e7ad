//! What the figures compare: ordered structures of 32-bit keys and values that run batches.

use std::collections::BTreeMap;

use bytemuck::checked;
use warpkeep_containers::OrderedStatus;
use warpkeep_device::{Buffer, Device, DevicePtr};

use crate::BenchError;
use crate::gpu::Clock;
use crate::gpu::ordered::{Answers, Batch, Contestant};
use crate::kernels::OrderedColumns;

/// Pairs, and operations on them.
pub(super) type Pairs = Batch<u32, u32>;

/// Our map, as a variant of a case.
pub(super) const OURS: &str = "ordered map";

/// A structure that takes part in a figure.
pub(super) trait Dictionary {
    /// Its name in reports.
    fn name(&self) -> &'static str;

    /// Empties it and fills it with pairs that are not sorted, at once; the seconds that it takes, the sort included.
    fn build(&mut self, pairs: &Pairs) -> Result<f64, BenchError>;

    /// The seconds that a batch takes. Every answer is checked.
    fn run(&mut self, batch: &Pairs) -> Result<f64, BenchError>;
}

/// Our map, with batches of the host.
pub(super) struct Ours<'d> {
    device: &'d Device,
    clock: &'d Clock,
    map: Contestant<'d, u32, u32>,
}

impl<'d> Ours<'d> {
    pub(super) fn new(device: &'d Device, clock: &'d Clock) -> Result<Self, BenchError> {
        Ok(Self { device, clock, map: Contestant::new(Some((device, clock)))? })
    }
}

impl Dictionary for Ours<'_> {
    fn name(&self) -> &'static str {
        OURS
    }

    fn build(&mut self, pairs: &Pairs) -> Result<f64, BenchError> {
        self.map = Contestant::new(Some((self.device, self.clock)))?;
        self.map.run(pairs)
    }

    fn run(&mut self, batch: &Pairs) -> Result<f64, BenchError> {
        self.map.run(batch)
    }
}

/// What was inserted beside ranges, by its key: the timestamp that the insertion reported, and the value.
pub(super) type Cut = BTreeMap<u32, (u32, u32)>;

/// The columns of a batch and of its answers, for kernels of the benchmark.
pub(super) struct Calls {
    keys: Buffer,
    ends: Option<Buffer>,
    values: Option<Buffer>,
    codes: Option<Buffer>,
    statuses: Buffer,
    found_keys: Buffer,
    found_values: Buffer,
    counts: Buffer,
    pairs: [Buffer; 2],
}

impl Calls {
    pub(super) fn new(device: &Device, batch: &Pairs) -> Result<Self, BenchError> {
        let count = batch.len();
        let column = || device.allocate_zeroed(4 * count);
        let given = |elements: &[u32]| (!elements.is_empty()).then(|| device.upload(elements)).transpose();
        let pairs = || device.allocate_zeroed((4 * count * batch.stride).max(4));
        Ok(Calls {
            keys: device.upload(&batch.keys)?,
            ends: given(&batch.ends)?,
            values: given(&batch.values)?,
            codes: (!batch.kinds.is_empty()).then(|| device.upload(&batch.kinds)).transpose()?,
            statuses: device.allocate_zeroed(count)?,
            found_keys: column()?,
            found_values: column()?,
            counts: column()?,
            pairs: [pairs()?, pairs()?],
        })
    }

    pub(super) fn columns(&self, batch: &Pairs) -> OrderedColumns {
        let optional = |buffer: &Option<Buffer>| buffer.as_ref().map_or(DevicePtr::NULL, Buffer::ptr);
        OrderedColumns {
            codes: optional(&self.codes),
            keys: self.keys.ptr(),
            ends: optional(&self.ends),
            values: optional(&self.values),
            statuses: self.statuses.ptr(),
            found_keys: self.found_keys.ptr(),
            found_values: self.found_values.ptr(),
            counts: self.counts.ptr(),
            pair_keys: self.pairs[0].ptr(),
            pair_values: self.pairs[1].ptr(),
            stride: batch.stride as u64,
            count: batch.len() as u64,
            code: batch.kind() as u32,
            reserved: 0,
        }
    }

    /// The keys and values, to be sorted in place.
    pub(super) fn into_pairs(self) -> Result<[Buffer; 2], BenchError> {
        let none = || BenchError::Wrong("a batch of pairs has no values".to_owned());
        Ok([self.keys, self.values.ok_or_else(none)?])
    }

    /// As [`check`](Self::check), of ranges that see any of the insertions beside them: there are no fewer pairs than before the batch and no more than after
    /// it, in order and between the bounds.
    pub(super) fn check_beside_insertions(&self, who: &str, batch: &Pairs) -> Result<(), BenchError> {
        let wrong = |at: usize| Err(BenchError::Wrong(format!("{who}: a wrong answer to operation {at}")));
        let (statuses, counts) = (self.statuses.to_vec::<u8>()?, self.counts.to_vec::<u32>()?);
        let keys = self.pairs[0].to_vec::<u32>()?;
        for (at, right) in batch.right.statuses.iter().enumerate() {
            let from = at * batch.stride;
            let count = counts[at] as usize;
            let is_range = batch.right.counts[at] > 0;
            let fits =
                if is_range { (batch.stride / 2 + 1..=batch.stride).contains(&count) } else { count == 0 };
            if statuses[at] != *right as u8 || !fits {
                return wrong(at);
            }
            let bounds = batch.keys[at]..=batch.ends[at];
            let found = keys[from..from + count].iter();
            if !found.clone().all(|key| bounds.contains(key)) || !found.is_sorted_by(|a, b| a < b) {
                return wrong(at);
            }
        }
        Ok(())
    }

    /// As [`check`](Self::check), of ranges that are linearizable: each has what was there before the batch, and of the insertions those whose timestamp is not
    /// later than its snapshot, and nothing else. Adds the insertions of the batch to those of earlier ones.
    pub(super) fn check_cuts(&self, who: &str, batch: &Pairs, inserted: &mut Cut) -> Result<(), BenchError> {
        let wrong = |at: usize| Err(BenchError::Wrong(format!("{who}: a wrong answer to operation {at}")));
        let (statuses, times) = (self.statuses.to_vec::<u8>()?, self.found_keys.to_vec::<u32>()?);
        for (at, right) in batch.right.statuses.iter().enumerate() {
            if statuses[at] != *right as u8 {
                return wrong(at);
            }
            if batch.right.counts[at] == 0 {
                inserted.insert(batch.keys[at], (times[at], batch.values[at]));
            }
        }
        let counts = self.counts.to_vec::<u32>()?;
        let [keys, values] = [self.pairs[0].to_vec::<u32>()?, self.pairs[1].to_vec::<u32>()?];
        // What ranges have in a batch whose operations come one after the other; not the insertions, which are looked up.
        let mut in_order = &batch.right.pairs[..];
        for (at, &count_in_order) in batch.right.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let (own, others) = in_order.split_at(count_in_order as usize);
            in_order = others;
            let seen = inserted.range(batch.keys[at]..=batch.ends[at]);
            let seen =
                seen.filter(|(_, (time, _))| *time <= times[at]).map(|(&key, &(_, value))| (key, value));
            let before = own.iter().copied().filter(|(key, _)| !inserted.contains_key(key));
            let mut right: Vec<(u32, u32)> = before.chain(seen).collect();
            right.sort_unstable();
            let from = at * batch.stride;
            let until = from + batch.stride.min(counts[at] as usize);
            let found = keys[from..until].iter().copied().zip(values[from..until].iter().copied());
            if counts[at] as usize != right.len() || !found.eq(right) {
                return wrong(at);
            }
        }
        Ok(())
    }

    /// An error unless the answers are right. Those that the batch does not ask for are left out.
    pub(super) fn check(&self, who: &str, batch: &Pairs) -> Result<(), BenchError> {
        let statuses = self.statuses.to_vec::<u8>()?;
        let statuses: &[OrderedStatus] = checked::try_cast_slice(&statuses)
            .map_err(|_| BenchError::Wrong(format!("{who}: an operation was not answered at all")))?;
        let right = &batch.right;
        let taken = |is_wanted: bool, buffer: &Buffer| match is_wanted {
            true => buffer.to_vec::<u32>(),
            false => Ok(Vec::new()),
        };
        let counts = taken(!right.counts.is_empty(), &self.counts)?;
        let mut pairs = Vec::new();
        if batch.stride > 0 {
            let [keys, values] = [self.pairs[0].to_vec::<u32>()?, self.pairs[1].to_vec::<u32>()?];
            for (range, &count) in counts.iter().enumerate() {
                let from = range * batch.stride;
                let until = from + batch.stride.min(count as usize);
                pairs.extend(keys[from..until].iter().copied().zip(values[from..until].iter().copied()));
            }
        }
        let answers = Answers {
            statuses: statuses.to_vec(),
            values: taken(!right.values.is_empty(), &self.found_values)?,
            keys: taken(!right.keys.is_empty(), &self.found_keys)?,
            counts,
            pairs,
        };
        batch.check(who, &answers)
    }
    /// All answers as they are, for tests.
    #[cfg(test)]
    pub(super) fn taken(&self, batch: &Pairs) -> Result<Taken, BenchError> {
        let [keys, values] = [self.pairs[0].to_vec::<u32>()?, self.pairs[1].to_vec::<u32>()?];
        let counts = self.counts.to_vec::<u32>()?;
        let range = |(at, &count): (usize, &u32)| {
            let own = at * batch.stride..at * batch.stride + batch.stride.min(count as usize);
            keys[own.clone()].iter().copied().zip(values[own].iter().copied()).collect()
        };
        Ok(Taken {
            statuses: self.statuses.to_vec()?,
            values: self.found_values.to_vec()?,
            times: self.found_keys.to_vec()?,
            ranges: counts.iter().enumerate().map(range).collect(),
        })
    }
}

/// Answers of a multiversion tree: statuses, values, timestamps or snapshots, and pairs of ranges.
#[cfg(test)]
pub(super) struct Taken {
    pub(super) statuses: Vec<u8>,
    pub(super) values: Vec<u32>,
    pub(super) times: Vec<u32>,
    pub(super) ranges: Vec<Vec<(u32, u32)>>,
}
