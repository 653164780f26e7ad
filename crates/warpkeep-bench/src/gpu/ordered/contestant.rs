//! Maps that run batches.

use std::time::Instant;

use bytemuck::checked;
use warpkeep_containers::{
    DeviceFound, DeviceOrderedAnswers, DeviceOrderedOps, DevicePairs, Near, OrderedKey, OrderedMap,
    OrderedMapOptions, OrderedOpKinds, OrderedSnapshot, OrderedStatus, OrderedWord, PairLayout, Upsert,
};
use warpkeep_device::{Buffer, Device, Stream};

use super::batch::{Answers, Batch, Operation};
use super::items::Items;
use crate::BenchError;
use crate::gpu::{Clock, DEVICE};

/// The native CPU implementation, as a variant of a case.
pub(crate) const CPU: &str = "CPU, one thread";
/// Less than any clock can tell.
const LEAST_SECONDS: f64 = 1e-9;

/// A map that is measured.
pub(crate) struct Contestant<'d, K, V> {
    pub(crate) name: &'static str,
    pub(crate) map: OrderedMap<K, V>,
    /// Of the device that it is on; `None` on the CPU.
    on: Option<(&'d Device, &'d Clock)>,
}

impl<'d, K: OrderedKey<V>, V: OrderedWord> Contestant<'d, K, V> {
    /// An empty map, on the CPU without a device.
    pub(crate) fn new(on: Option<(&'d Device, &'d Clock)>) -> Result<Self, BenchError> {
        let options = OrderedMapOptions::default();
        Ok(match on {
            Some((device, _)) => Contestant { name: DEVICE, map: OrderedMap::new(device, &options)?, on },
            None => Contestant { name: CPU, map: OrderedMap::on_cpu(&options), on },
        })
    }

    /// The seconds that a batch takes; every answer is checked.
    pub(crate) fn run(&self, batch: &Batch<K, V>) -> Result<f64, BenchError> {
        self.run_at(batch, None)
    }

    /// The same of a batch that reads, of the state that a snapshot holds if there is one.
    pub(crate) fn run_at(
        &self,
        batch: &Batch<K, V>,
        snapshot: Option<&OrderedSnapshot<K, V>>,
    ) -> Result<f64, BenchError> {
        let (seconds, answers) = match self.on {
            Some((device, clock)) => {
                let mut columns = Columns::new(device, batch)?;
                let seconds = clock.time(|stream| columns.run(&self.map, snapshot, batch, stream))?;
                (seconds, columns.answers(batch)?)
            }
            None => self.run_on_cpu(batch, snapshot)?,
        };
        batch.check(self.name, &answers)?;
        Ok(seconds)
    }

    fn run_on_cpu(
        &self,
        batch: &Batch<K, V>,
        snapshot: Option<&OrderedSnapshot<K, V>>,
    ) -> Result<(f64, Answers<K, V>), BenchError> {
        let mut answers = Answers::default();
        if let Operation::Find | Operation::FindSorted = batch.operation {
            let begun = Instant::now();
            let found = match snapshot {
                Some(snapshot) => snapshot.find(&batch.keys)?,
                None => self.map.find(&batch.keys)?,
            };
            let seconds = begun.elapsed().as_secs_f64();
            let status = |found: &Option<V>| match found {
                Some(_) => OrderedStatus::Found,
                None => OrderedStatus::Absent,
            };
            answers.statuses = found.iter().map(status).collect();
            answers.values = found.into_iter().map(Option::unwrap_or_default).collect();
            return Ok((seconds.max(LEAST_SECONDS), answers));
        }
        if let (Operation::Range, Some(snapshot)) = (batch.operation, snapshot) {
            let begun = Instant::now();
            let ranges = snapshot.range(&batch.keys, &batch.ends, None)?;
            let seconds = begun.elapsed().as_secs_f64();
            answers.statuses = vec![OrderedStatus::Found; ranges.counts.len()];
            answers.counts = ranges.counts.iter().map(|&count| count as u32).collect();
            answers.pairs = ranges.keys.into_iter().zip(ranges.values).collect();
            return Ok((seconds.max(LEAST_SECONDS), answers));
        }
        let ops = batch.ops();
        let begun = Instant::now();
        let given = self.map.apply(&ops)?;
        let seconds = begun.elapsed().as_secs_f64();
        let (mut values, mut keys, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        for answer in given {
            answers.statuses.push(answer.status);
            values.push(answer.value);
            keys.push(answer.key);
            counts.push(answer.count as u32);
            answers.pairs.extend(answer.pairs);
        }
        // As on the device, only the columns that the operations have.
        match batch.operation {
            Operation::Range | Operation::Mixed => answers.counts = counts,
            Operation::Successor => (answers.keys, answers.values) = (keys, values),
            _ => answers.values = values,
        }
        Ok((seconds.max(LEAST_SECONDS), answers))
    }

    /// The seconds that it takes to fill the map, which is empty, with sorted columns in device memory; none on the CPU. All pairs are checked.
    pub(crate) fn build_sorted(
        &self,
        items: &Items<K, V>,
        batch: &Batch<K, V>,
    ) -> Result<Option<f64>, BenchError> {
        let Some((device, clock)) = self.on else { return Ok(None) };
        let (keys, values) = (device.upload(&batch.keys)?, device.upload(&batch.values)?);
        let seconds = clock.time(|stream| self.map.put_sorted_on(&keys, &values, batch.len(), stream))?;
        check_pairs(self.name, &self.map, items)?;
        Ok(Some(seconds))
    }

    /// The seconds that it takes to build a map of columns in host memory, on the device with what the link takes. All pairs are checked.
    pub(crate) fn build_of_host(
        &self,
        items: &Items<K, V>,
        batch: &Batch<K, V>,
        is_sorted: bool,
    ) -> Result<f64, BenchError> {
        let options = OrderedMapOptions::default();
        let begun = Instant::now();
        let map = match self.on {
            Some((device, _)) if is_sorted => {
                OrderedMap::build_sorted(device, &options, &batch.keys, &batch.values)?
            }
            Some((device, _)) => OrderedMap::build(device, &options, &batch.keys, &batch.values)?,
            None => {
                let map = OrderedMap::on_cpu(&options);
                map.upsert(Upsert::Replace, &batch.keys, &batch.values)?;
                map
            }
        };
        let seconds = begun.elapsed().as_secs_f64().max(LEAST_SECONDS);
        check_pairs(self.name, &map, items)?;
        Ok(seconds)
    }
}

/// An error unless a map has these pairs and no others.
pub(crate) fn check_pairs<K: OrderedKey<V>, V: OrderedWord>(
    who: &str,
    map: &OrderedMap<K, V>,
    items: &Items<K, V>,
) -> Result<(), BenchError> {
    let (mut rank, mut wrong) = (0, None);
    map.for_each_part(|part| {
        for &pair in part {
            if wrong.is_none() && (rank >= items.count || pair != (items.key(rank), items.value(rank))) {
                wrong = Some(format!("{who}: the pair with {rank} keys below it is {pair:?}"));
            }
            rank += 1;
        }
    })?;
    match wrong {
        Some(wrong) => Err(BenchError::Wrong(wrong)),
        None if rank == items.count => Ok(()),
        None => Err(BenchError::Wrong(format!("{who}: the map has {rank} pairs, and not {}", items.count))),
    }
}

/// The columns of a batch and of its answers in device memory.
struct Columns {
    keys: Buffer,
    ends: Option<Buffer>,
    values: Option<Buffer>,
    kinds: Option<Buffer>,
    statuses: Buffer,
    found_values: Option<Buffer>,
    found_keys: Option<Buffer>,
    counts: Option<Buffer>,
    pairs: Option<(Buffer, Buffer)>,
}

impl Columns {
    fn new<K: OrderedWord, V: OrderedWord>(device: &Device, batch: &Batch<K, V>) -> Result<Self, BenchError> {
        let (count, right) = (batch.len(), &batch.right);
        let room =
            |is_wanted: bool, bytes: usize| is_wanted.then(|| device.allocate_zeroed(bytes)).transpose();
        let pairs = match batch.stride {
            0 => None,
            stride => Some((
                device.allocate_zeroed(size_of::<K>() * count * stride)?,
                device.allocate_zeroed(size_of::<V>() * count * stride)?,
            )),
        };
        let given = !batch.values.is_empty();
        Ok(Columns {
            keys: device.upload(&batch.keys)?,
            ends: (!batch.ends.is_empty()).then(|| device.upload(&batch.ends)).transpose()?,
            values: given.then(|| device.upload(&batch.values)).transpose()?,
            kinds: (!batch.kinds.is_empty()).then(|| device.upload(&batch.kinds)).transpose()?,
            statuses: device.allocate_zeroed(count)?,
            found_values: room(!right.values.is_empty(), size_of::<V>() * count)?,
            found_keys: room(!right.keys.is_empty(), size_of::<K>() * count)?,
            counts: room(!right.counts.is_empty(), 4 * count)?,
            pairs,
        })
    }

    /// Runs the batch, and waits for it.
    fn run<K: OrderedKey<V>, V: OrderedWord>(
        &mut self,
        map: &OrderedMap<K, V>,
        snapshot: Option<&OrderedSnapshot<K, V>>,
        batch: &Batch<K, V>,
        stream: &Stream,
    ) -> Result<(), BenchError> {
        if batch.operation == Operation::Successor {
            let found = DeviceFound {
                statuses: &mut self.statuses,
                keys: self.found_keys.as_mut(),
                values: self.found_values.as_mut(),
            };
            let now = map.snapshot();
            let state = snapshot.unwrap_or(&now);
            return Ok(state.successor_on(&self.keys, batch.len(), Near::strict(), found, stream)?);
        }
        let kinds = match &self.kinds {
            Some(kinds) => OrderedOpKinds::Each(kinds),
            None => OrderedOpKinds::All(batch.kind()),
        };
        let ops = DeviceOrderedOps {
            kinds,
            keys: &self.keys,
            ends: self.ends.as_ref(),
            values: self.values.as_ref(),
            count: batch.len(),
        };
        let pairs = self.pairs.as_mut().map(|(keys, values)| DevicePairs {
            keys,
            values,
            layout: PairLayout::Stride(batch.stride),
        });
        let answers = DeviceOrderedAnswers {
            statuses: &mut self.statuses,
            values: self.found_values.as_mut(),
            keys: self.found_keys.as_mut(),
            counts: self.counts.as_mut(),
            pairs,
        };
        match snapshot {
            Some(snapshot) => Ok(snapshot.read_on(ops, answers, stream)?),
            None => Ok(map.apply_on(ops, answers, stream)?),
        }
    }

    fn answers<K: OrderedWord, V: OrderedWord>(
        &self,
        batch: &Batch<K, V>,
    ) -> Result<Answers<K, V>, BenchError> {
        let statuses = self.statuses.to_vec::<u8>()?;
        let statuses: &[OrderedStatus] = checked::try_cast_slice(&statuses)
            .map_err(|_| BenchError::Wrong(format!("{DEVICE}: an operation was not answered at all")))?;
        let counts: Vec<u32> = taken(self.counts.as_ref())?;
        let mut pairs = Vec::new();
        if let Some((keys, values)) = &self.pairs {
            let (keys, values) = (keys.to_vec::<K>()?, values.to_vec::<V>()?);
            for (at, &count) in counts.iter().enumerate() {
                let from = at * batch.stride;
                let until = from + batch.stride.min(count as usize);
                pairs.extend(keys[from..until].iter().copied().zip(values[from..until].iter().copied()));
            }
        }
        Ok(Answers {
            statuses: statuses.to_vec(),
            values: taken(self.found_values.as_ref())?,
            keys: taken(self.found_keys.as_ref())?,
            counts,
            pairs,
        })
    }
}

/// The elements of a column, none if there is none.
fn taken<T: bytemuck::Pod>(column: Option<&Buffer>) -> Result<Vec<T>, BenchError> {
    Ok(column.map(Buffer::to_vec).transpose()?.unwrap_or_default())
}
