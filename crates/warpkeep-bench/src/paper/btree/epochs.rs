//! Epochs of nodes that are replaced beside readers.

use warpkeep_device::{Buffer, Device};

use crate::BenchError;
use crate::kernels::{EPOCH_RING, EPOCH_RING_BYTES, EpochsRef, TRACED_EPOCHS};

/// What blocks need to retire nodes, in device memory, between launches as well.
pub(super) struct Epochs {
    epoch: Buffer,
    announced: Buffer,
    rings: Buffer,
    nodes: Buffer,
    counts: Buffer,
    trace: Buffer,
    blocks: u32,
}

/// Nodes that were retired so far, and those of them that can be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Retired {
    pub(super) all: u64,
    pub(super) free: u64,
}

impl Epochs {
    /// For launches of this many blocks at most.
    pub(super) fn new(device: &Device, blocks: u32) -> Result<Epochs, BenchError> {
        let count = blocks as usize;
        Ok(Epochs {
            epoch: device.allocate_zeroed(4)?,
            announced: device.allocate_zeroed(4 * count)?,
            rings: device.allocate_zeroed(EPOCH_RING_BYTES * count)?,
            nodes: device.allocate_zeroed(4 * EPOCH_RING as usize * count)?,
            counts: device.allocate_zeroed(16)?,
            trace: device.allocate_zeroed(16 * TRACED_EPOCHS as usize)?,
            blocks,
        })
    }

    /// No node was retired.
    pub(super) fn reset(&self) -> Result<(), BenchError> {
        for buffer in [&self.epoch, &self.announced, &self.rings, &self.counts, &self.trace] {
            buffer.fill(0)?;
        }
        Ok(())
    }

    pub(super) fn reference(&self) -> EpochsRef {
        EpochsRef {
            epoch: self.epoch.ptr(),
            announced: self.announced.ptr(),
            rings: self.rings.ptr(),
            nodes: self.nodes.ptr(),
            counts: self.counts.ptr(),
            trace: self.trace.ptr(),
            blocks: self.blocks,
            reserved: 0,
        }
    }

    pub(super) fn retired(&self) -> Result<Retired, BenchError> {
        let counts = self.counts.to_vec::<u64>()?;
        Ok(Retired { all: counts[0], free: counts[1] })
    }

    /// The same at the end of each epoch, of the first ones.
    pub(super) fn by_epoch(&self) -> Result<Vec<Retired>, BenchError> {
        let ended = self.epoch.to_vec::<u32>()?[0].min(TRACED_EPOCHS) as usize;
        let trace = self.trace.to_vec::<u64>()?;
        Ok(trace[..2 * ended].chunks_exact(2).map(|two| Retired { all: two[0], free: two[1] }).collect())
    }
}
