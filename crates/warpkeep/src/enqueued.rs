//! Batches whose kernels are in a stream.

use warpkeep_core::Durability;
use warpkeep_device::{Event, Stream};
use warpkeep_image::Persist;

use crate::closable::Entered;
use crate::index::EnqueuedGets;
use crate::lease::Leased;
use crate::{Coherent, Result};

/// A batch that [`Table::enqueue_on`](crate::Table::enqueue_on) has put into a stream.
///
/// Kernels that are enqueued behind it find the answers. The host has them when [`wait`](Enqueued::wait) has returned. Until then the
/// store cannot be closed, and items cannot be moved: a thread finishes or drops what it has enqueued before it closes the store,
/// writes to the table or compacts it. Dropping it waits, too.
#[must_use = "dropping it waits for the kernels"]
pub struct Enqueued<'t, P: Persist = Coherent> {
    // Dropped before the call, which keeps alive what the kernels read.
    gets: Option<Box<dyn EnqueuedGets + 't>>,
    call: Entered<'t, Leased<P>>,
    durability: Durability,
    event: Event,
}

impl<'t, P: Persist> Enqueued<'t, P> {
    /// `gets` may refer to the value of `call`.
    pub(crate) fn new(
        gets: Option<Box<dyn EnqueuedGets + 't>>,
        call: Entered<'t, Leased<P>>,
        durability: Durability,
        stream: &Stream,
    ) -> Result<Enqueued<'t, P>> {
        Ok(Enqueued { gets, call, durability, event: stream.record()? })
    }

    /// An event behind the batch, for other streams to wait for.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Waits for the answers; with [`Power`](Durability::Power) also until what they rest on is durable. After an error the answers are
    /// unspecified. If the device is lost, so is its memory: run the batch with [`Table::run`](crate::Table::run), and the CPU does it.
    pub fn wait(mut self) -> Result<()> {
        let Some(gets) = self.gets.take() else { return Ok(()) };
        gets.finish()?;
        self.call.keeper.confirm(self.durability)
    }
}

impl<P: Persist> std::fmt::Debug for Enqueued<'_, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Enqueued").field("is_pending", &self.gets.is_some()).finish_non_exhaustive()
    }
}
