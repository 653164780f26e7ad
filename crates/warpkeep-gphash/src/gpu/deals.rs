//! Counts of batches that are dealt: zero between them, for the last kernel of each leaves them so, and nobody has to see to it before the first.

use warpkeep_device::{Device, DevicePtr, Stream};

use super::columns::Column;
use super::regions::HEAD;
use crate::TableError;

/// Batches that are not dealt after one that found no memory for it: to look for some frees what is there.
const PATIENCE: u32 = 1000;

/// Those of one batch at a time.
#[derive(Debug, Default)]
pub(crate) struct Deals {
    column: Column,
    /// Bytes that are zero, but for how many the last batch has asked for.
    zeros: usize,
    /// Which of the two places for that it was.
    second: bool,
    /// Batches until memory is looked for again.
    waits: u32,
}

/// Where the counts of a batch lie.
pub(crate) struct Deal {
    /// The head, and behind it what there are zeros for.
    pub(crate) head: DevicePtr,
    /// How many are asked for, in the head.
    pub(crate) asked: DevicePtr,
    /// Counts that the batch's last kernel has to make zero again.
    pub(crate) cleans: u64,
    zeros: usize,
}

impl Deals {
    /// So many bytes of zeros, the head with them, after what is in the stream. Until the deal is [done](Deals::done), which it is once its last kernel is in the
    /// stream, nobody takes them to be zero.
    pub(crate) fn begin(
        &mut self,
        device: &Device,
        bytes: usize,
        stream: &Stream,
    ) -> Result<Deal, TableError> {
        let zeros = std::mem::take(&mut self.zeros);
        let (head, zeros) = if zeros >= bytes {
            self.second = !self.second;
            (self.column.at(), zeros)
        } else {
            (self.column.zeros(device, bytes, stream)?, bytes)
        };
        let asked = head.offset(if self.second { 8 } else { 0 });
        Ok(Deal { head, asked, cleans: (bytes / 4 - HEAD / 2) as u64, zeros })
    }

    /// Whether this batch is to be dealt, as far as memory goes.
    pub(crate) fn may_begin(&mut self) -> bool {
        self.waits = self.waits.saturating_sub(1);
        self.waits == 0
    }

    /// There was no memory.
    pub(crate) fn refuse(&mut self) {
        self.waits = PATIENCE;
    }

    /// All kernels of the deal are in its stream.
    pub(crate) fn done(&mut self, deal: &Deal) {
        self.zeros = deal.zeros;
    }
}
