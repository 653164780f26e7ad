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
mod words;

pub(crate) use copies::LevelCopies;
pub(in crate::gpu) use host_values::HostValues;
pub use stage::{Decided, StraightStage};
pub(crate) use supply::Supply;
#[doc(hidden)]
pub use words::HostStep;

use warpkeep_core::Op;
use warpkeep_device::DevicePtr;
use warpkeep_image::Persist;

use self::words::Words;
use super::steps::{StepTime, StepTimes, Watch};
use super::{DeviceEngine, PublishBy};

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

/// State of an engine's fused writes.
#[derive(Default)]
pub(crate) struct Straight {
    words: Words,
    /// Also of gets from host memory.
    pub(in crate::gpu) steps: StepTimes,
}

impl<P: Persist> DeviceEngine<P> {
    /// Has the words of fused writes published by one thread of the host, which calls this before each of its steps: for tests that
    /// crash it there.
    #[doc(hidden)]
    pub fn observe_words(&self, observer: impl Fn(HostStep) + Send + Sync + 'static) {
        self.adjust(|profile| profile.publish_by = PublishBy::Host(1));
        self.straight.words.observe(std::sync::Arc::new(observer));
    }

    /// Has a thread take blocks of the heap ahead of need, as many as two more batches like the last one can take that was written straight
    /// through: so batches do not wait for an image that grows. The thread ends with the engine.
    pub fn provide_ahead(&self) {
        self.supply().provide();
    }

    /// Begins, or ceases, to note how long the steps of batches take that are written straight through, of gets from host memory
    /// whose values the host [gathers](DeviceEngine::gather_rows), and of gets [in device memory](DeviceEngine::get_rows). Kernels that are timed run
    /// one after the other, or beside each other, as they do otherwise, with a few microseconds between them.
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
