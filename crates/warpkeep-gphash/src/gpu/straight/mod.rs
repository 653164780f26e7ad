//! Batches written straight through: with no log between deciding and publishing, nothing has to come back to the host; with one, no more
//! than which operations act. Nothing crosses the link but records, in the order of their addresses, and one word a key; or, where the host
//! stores words and tails, values and a list of acts; or, where values come from host memory, that list alone. `kernels/straight.h` says how, and `kernels/parts.h` how large ones go in parts.
//!
//! It takes a [mirror](super::DeviceEngine::load_mirror), and a table that is not just growing; otherwise a batch is
//! [staged](super::Turn::stage). Keys of eight bytes are told apart by their hashes. Of others, those whose hash nobody has are new; the
//! rest are compared with the keys beside the mirror's entries, or, where there are none, with those of their records, over the link.

mod beside;
mod copies;
mod host_values;
mod left;
mod list;
pub(super) mod params;
mod provider;
mod returns;
mod run;
mod share;
mod sorting;
mod stage;
mod supply;
mod told;
mod verify;
mod words;

pub(crate) use copies::LevelCopies;
pub(in crate::gpu) use host_values::HostValues;
pub use stage::{Decided, StraightStage};
pub(crate) use supply::Supply;
#[doc(hidden)]
pub use words::HostStep;
pub use words::WordsBy;

use std::sync::atomic::{AtomicU64, Ordering};

use warpkeep_core::Op;
use warpkeep_device::DevicePtr;
use warpkeep_image::Persist;

use self::params::MOST_PARTS;
use self::words::Words;
use super::DeviceEngine;
use super::steps::{StepTime, StepTimes, Watch};

/// A batch in device memory whose operations all do the same. Keys may come more than once: they act in the order of the batch.
#[derive(Clone, Copy, Debug)]
pub struct StraightRows {
    /// A put, an insert, an update or a delete.
    pub op: Op,
    /// How many operations.
    pub count: u64,
    /// The keys, each of whole words with zeros behind it; of a table that keeps them in [cells](crate::Table::key_cells), these.
    pub keys: DevicePtr,
    /// The values, each of whole words; null for deletes, and where the host stores them.
    pub values: DevicePtr,
    /// A byte each, for the code of a [`Status`](warpkeep_core::Status).
    pub statuses: DevicePtr,
}

/// What a batch came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wrote {
    /// Keys that are new.
    pub created: u64,
    /// Keys that have another value.
    pub replaced: u64,
    /// Keys that are gone.
    pub removed: u64,
    /// Operations that the CPU had to do.
    pub by_cpu: u64,
}

/// Operations in a part of a batch: so many records take the link a hundred microseconds, and then the host has something to do.
const PART: u64 = 1 << 15;

/// Parts of a batch that has more than one, at the least, where the host stores the words.
const LEAST_PARTS: u64 = 4;

/// Operations from which on records are read in order: for fewer of them the order costs more than it saves.
const VERIFIED_FROM: u64 = 1 << 16;

/// How an engine writes straight through.
pub(crate) struct Straight {
    part: AtomicU64,
    words: Words,
    /// Also of gets from host memory.
    pub(in crate::gpu) steps: StepTimes,
}

impl Default for Straight {
    fn default() -> Straight {
        Straight { part: AtomicU64::new(PART), words: Words::default(), steps: StepTimes::default() }
    }
}

impl Straight {
    /// Batches of long keys of this size and more have their records read in the order of their addresses.
    fn verified_from(&self) -> u64 {
        self.part.load(Ordering::Relaxed).saturating_mul(2).min(VERIFIED_FROM)
    }

    /// Batches of this size and more have some of them sent while the rest is decided: of smaller ones that is soon done.
    fn headed_from(&self) -> u64 {
        self.part.load(Ordering::Relaxed).saturating_mul(LEAST_PARTS)
    }

    /// Into how many parts a batch of so many operations is cut. Where the device stores the words each is a launch, so there are fewer; where the host
    /// does, there are some at least, or it would begin when the device has ended.
    fn parts(&self, count: u64, by_host: bool) -> u64 {
        let part = self.part.load(Ordering::Relaxed).max(1);
        match by_host {
            true if count / part > 1 => (count / part).clamp(LEAST_PARTS.min(count), MOST_PARTS as u64),
            true => 1,
            false => (count / part.saturating_mul(2)).clamp(1, MOST_PARTS as u64 / 2),
        }
    }
}

impl<P: Persist> DeviceEngine<P> {
    /// Has batches that are [written straight through](super::Turn::write_straight) go in parts of about so many operations, or of twice as many
    /// where the device stores the words: records of one cross the link beside the words that make those of another count.
    pub fn write_in_parts_of(&self, operations: u64) {
        self.straight.part.store(operations, Ordering::Relaxed);
    }

    /// Has the words of such parts stored by the host or by the device; if nothing is said, by what [suits the machine](WordsBy::usual).
    pub fn store_words_by(&self, by: WordsBy) {
        self.straight.words.store_by(by, None);
    }

    /// The same, by a thread of the host, which tells what it is about to do: for tests that crash it there.
    #[doc(hidden)]
    pub fn observe_words(&self, observer: impl Fn(HostStep) + Send + Sync + 'static) {
        self.straight.words.store_by(WordsBy::Host(1), Some(std::sync::Arc::new(observer)));
    }

    /// Has a thread take blocks of the heap ahead of need, as many as two more batches like the last one can take that was written straight
    /// through: so batches do not wait for an image that grows. The thread ends with the engine.
    pub fn provide_ahead(&self) {
        self.supply().provide();
    }

    /// Begins, or ceases, to note how long the steps of batches take that are written straight through, of gets from host memory
    /// whose values the host [gathers](DeviceEngine::gather_rows), and of gets [in device memory](DeviceEngine::get_rows). Kernels that are timed run
    /// one after the other, or beside each other, as they do otherwise, with a few microseconds between them. Gets of which the host
    /// [fetches](DeviceEngine::fetch_values_by) the values are one step, the host's.
    pub fn time_steps(&self, wanted: bool) {
        self.straight.steps.want(wanted);
    }

    /// Begins to watch what somebody else does for a batch, if [steps are timed](Self::time_steps).
    pub fn watch_steps(&self) -> Watch<'_> {
        self.straight.steps.watch()
    }

    /// What was noted since the last call, batch by batch.
    pub fn take_step_times(&self) -> Vec<Vec<StepTime>> {
        self.straight.steps.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_batches_have_one_part_and_large_ones_not_too_many() {
        let straight = Straight::default();
        assert_eq!([1, PART - 1, PART, 2 * PART - 1].map(|count| straight.parts(count, true)), [1; 4]);
        let large = [1 << 17, 1 << 20, 1 << 22, 1 << 31];
        assert_eq!([2 * PART, 3 * PART].map(|count| straight.parts(count, true)), [LEAST_PARTS; 2]);
        assert_eq!(large.map(|count| straight.parts(count, true)), [4, 32, 64, 64]);
        assert_eq!(large.map(|count| straight.parts(count, false)), [2, 16, 32, 32]);
        straight.part.store(0, Ordering::Relaxed);
        assert_eq!([straight.parts(3, true), straight.parts(7, false)], [3, 3]);
    }
}
