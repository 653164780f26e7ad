//! Indexes that run batches of operations on entries, each known by a number.

use std::ops::Range;
use std::time::Instant;

use bytemuck::checked;
use warpkeep_containers::{
    CuckooIndex, CuckooIndexOptions, DeviceIndexAnswers, DeviceIndexOps, IndexOpKind, IndexOpKinds,
    IndexStatus, NO_LOCATION,
};
use warpkeep_core::{Seed, mix64};
use warpkeep_device::{Buffer, Device, Stream};

use crate::BenchError;
use crate::gpu::{Clock, DEVICE};

/// Cells of a bucket.
pub(crate) const CELLS: u64 = 8;

/// The native CPU implementation, as a variant of a case.
pub(crate) const CPU: &str = "CPU, one thread";

/// What is done with entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Adds entries.
    Insert,
    /// Searches for entries that are there.
    Hit,
    /// Searches for entries that are not there.
    Miss,
    /// Removes entries.
    Delete,
}

impl Operation {
    pub(crate) const ALL: [Operation; 4] =
        [Operation::Insert, Operation::Hit, Operation::Miss, Operation::Delete];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Insert => "insert",
            Operation::Hit => "search, hit",
            Operation::Miss => "search, miss",
            Operation::Delete => "delete",
        }
    }

    fn kind(self) -> IndexOpKind {
        match self {
            Operation::Insert => IndexOpKind::Insert,
            Operation::Hit | Operation::Miss => IndexOpKind::Search,
            Operation::Delete => IndexOpKind::Delete,
        }
    }
}

/// Hashes by numbers. The location of an entry is its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hashes {
    seed: Seed,
}

impl Hashes {
    pub(crate) fn new(seed: u64) -> Hashes {
        Hashes { seed: Seed(seed) }
    }

    pub(crate) fn of(self, number: u32) -> u64 {
        mix64(self.seed, u64::from(number))
    }
}

/// Operations on the entries of some numbers.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) operation: Operation,
    pub(crate) hashes: Vec<u64>,
    numbers: Range<u32>,
    of: Hashes,
}

impl Batch {
    pub(crate) fn new(of: Hashes, operation: Operation, numbers: Range<u32>) -> Batch {
        Batch { operation, hashes: numbers.clone().map(|number| of.of(number)).collect(), numbers, of }
    }

    pub(crate) fn len(&self) -> usize {
        self.hashes.len()
    }

    /// The locations that the device needs: none of searches.
    pub(crate) fn sent_locations(&self) -> Vec<u32> {
        match self.operation {
            Operation::Hit | Operation::Miss => Vec::new(),
            Operation::Insert | Operation::Delete => self.numbers.clone().collect(),
        }
    }

    /// Checks an answer. Other entries may have the same signature and buckets: they are right to be found.
    fn is_right(&self, at: usize, status: IndexStatus, found: [u32; 2]) -> bool {
        let number = self.numbers.start + at as u32;
        match self.operation {
            Operation::Insert => matches!(status, IndexStatus::Inserted | IndexStatus::Displaced),
            Operation::Delete => status == IndexStatus::Deleted,
            Operation::Hit => match status {
                IndexStatus::Found => {
                    found.contains(&number) && found.iter().all(|&one| self.may_match(at, one))
                }
                IndexStatus::Truncated => true,
                _ => false,
            },
            Operation::Miss => match status {
                IndexStatus::Absent => found == [NO_LOCATION; 2],
                IndexStatus::Found => found.iter().all(|&one| one != number && self.may_match(at, one)),
                _ => false,
            },
        }
    }

    /// Whether an entry with this location, if there is one, has the signature of an operation's hash.
    fn may_match(&self, at: usize, location: u32) -> bool {
        location == NO_LOCATION || self.of.of(location) >> 32 == self.hashes[at] >> 32
    }

    fn check(&self, who: &str, statuses: &[IndexStatus], found: &[[u32; 2]]) -> Result<(), BenchError> {
        let answers = statuses.iter().zip(found);
        match answers.enumerate().position(|(at, (&status, &found))| !self.is_right(at, status, found)) {
            None if statuses.len() == self.len() && found.len() == self.len() => Ok(()),
            None => Err(BenchError::Wrong(format!("{who}: answers are missing"))),
            Some(at) => Err(BenchError::Wrong(format!(
                "{who}: operation {at} of {}, {} of hash {:#x}, was answered {:?} {:?}",
                self.len(),
                self.operation.name(),
                self.hashes[at],
                statuses[at],
                found[at]
            ))),
        }
    }
}

/// The columns of a batch in device memory.
pub(crate) struct Columns {
    hashes: Buffer,
    locations: Buffer,
    statuses: Buffer,
    found: Buffer,
}

impl Columns {
    pub(crate) fn new(device: &Device, batch: &Batch) -> Result<Columns, BenchError> {
        let count = batch.len();
        Ok(Columns {
            hashes: device.upload(&batch.hashes)?,
            locations: device.upload(&batch.numbers.clone().collect::<Vec<u32>>())?,
            statuses: device.allocate_zeroed(count)?,
            found: device.allocate_zeroed(8 * count)?,
        })
    }

    /// Runs the batch, and waits for it.
    pub(crate) fn apply(
        &mut self,
        index: &CuckooIndex,
        batch: &Batch,
        stream: &Stream,
    ) -> Result<(), BenchError> {
        let ops = DeviceIndexOps {
            kinds: IndexOpKinds::All(batch.operation.kind()),
            hashes: &self.hashes,
            locations: Some(&self.locations),
            olds: None,
            count: batch.len(),
        };
        let answers = DeviceIndexAnswers {
            statuses: &mut self.statuses,
            matches: None,
            locations: Some(&mut self.found),
        };
        Ok(index.apply_on(ops, answers, stream)?)
    }

    /// Copies hashes and locations from the host, and waits for it. A search has no locations.
    pub(crate) fn send(&self, hashes: &[u64], locations: &[u32], stream: &Stream) -> Result<(), BenchError> {
        self.hashes.write_on(0, hashes, stream)?;
        if !locations.is_empty() {
            self.locations.write_on(0, locations, stream)?;
        }
        Ok(())
    }

    /// Bytes of the answers: the locations that searches found, or what the others came to.
    pub(crate) fn answer_bytes(batch: &Batch) -> usize {
        match batch.operation {
            Operation::Hit | Operation::Miss => 8 * batch.len(),
            Operation::Insert | Operation::Delete => batch.len(),
        }
    }

    /// Copies the answers to the host, and waits for it.
    pub(crate) fn receive(&self, batch: &Batch, into: &mut [u8], stream: &Stream) -> Result<(), BenchError> {
        let answers = match batch.operation {
            Operation::Hit | Operation::Miss => &self.found,
            Operation::Insert | Operation::Delete => &self.statuses,
        };
        Ok(answers.read_on(0, into, stream)?)
    }

    /// Checks the answers.
    pub(crate) fn check(&self, who: &str, batch: &Batch) -> Result<(), BenchError> {
        let statuses = self.statuses.to_vec::<u8>()?;
        let statuses: &[IndexStatus] = checked::try_cast_slice(&statuses)
            .map_err(|_| BenchError::Wrong(format!("{who}: an operation was not answered at all")))?;
        batch.check(who, statuses, &self.found.to_vec::<[u32; 2]>()?)
    }
}

/// An index that is measured.
pub(crate) struct Contestant<'d> {
    pub(crate) name: &'static str,
    pub(crate) index: CuckooIndex,
    /// Of the device that it is on; `None` on the CPU.
    on: Option<(&'d Device, &'d Clock)>,
}

impl<'d> Contestant<'d> {
    /// An empty index with this many buckets in device memory.
    pub(crate) fn on_device(
        device: &'d Device,
        clock: &'d Clock,
        buckets: u64,
    ) -> Result<Contestant<'d>, BenchError> {
        let index = CuckooIndex::new(device, &room_for(buckets))?;
        Ok(Contestant { name: DEVICE, index, on: Some((device, clock)) })
    }

    /// The same on the CPU.
    pub(crate) fn on_cpu(buckets: u64) -> Result<Contestant<'d>, BenchError> {
        Ok(Contestant { name: CPU, index: CuckooIndex::on_cpu(&room_for(buckets))?, on: None })
    }

    /// The seconds that a batch takes; every answer is checked.
    pub(crate) fn run(&self, batch: &Batch) -> Result<f64, BenchError> {
        if let Some((device, clock)) = self.on {
            let mut columns = Columns::new(device, batch)?;
            let seconds = clock.time(|stream| columns.apply(&self.index, batch, stream))?;
            columns.check(self.name, batch)?;
            return Ok(seconds);
        }
        let locations: Vec<u32> = batch.numbers.clone().collect();
        let begun = Instant::now();
        let answers = match batch.operation {
            Operation::Insert => self.index.insert(&batch.hashes, &locations)?,
            Operation::Hit | Operation::Miss => self.index.search(&batch.hashes)?,
            Operation::Delete => self.index.delete(&batch.hashes, &locations)?,
        };
        let seconds = begun.elapsed().as_secs_f64().max(1e-9);
        let statuses: Vec<IndexStatus> = answers.iter().map(|answer| answer.status).collect();
        let found: Vec<[u32; 2]> = answers
            .iter()
            .map(|answer| {
                let found = answer.locations();
                [0, 1].map(|at| found.get(at).copied().unwrap_or(NO_LOCATION))
            })
            .collect();
        batch.check(self.name, &statuses, &found)?;
        Ok(seconds)
    }
}

/// An index has the fewest buckets of whose cells the entries are 0.9 at the most.
pub(crate) fn room_for(buckets: u64) -> CuckooIndexOptions {
    CuckooIndexOptions::default().items(buckets * CELLS * 9 / 10)
}
