//! Columns of a batch: as the caller gives them, and as they are staged in device memory.

use std::ops::Range;

use warpkeep_device::{Buffer, Device, DevicePtr, Result, StagedBuffer, Stream};

use super::mix::mix;
use super::op::{MapOp, MapOpKind};
use crate::batch_plan::BatchPlan;

/// Memory of one batch.
#[derive(Debug, Default)]
pub(super) struct Columns {
    pub(super) keys: StagedBuffer,
    pub(super) codes: StagedBuffer,
    pub(super) operands: StagedBuffer,
    pub(super) statuses: StagedBuffer,
    pub(super) before: StagedBuffer,
    /// The plan of a batch that the host planned.
    plan: StagedBuffer,
    /// The plan of one that the device planned.
    pub(super) sorted: Scratch,
    pub(super) numbers: Scratch,
    pub(super) begins: Scratch,
    /// Runs whose keys have no slot yet, before and after a kernel.
    pub(super) pending: [StagedBuffer; 2],
}

/// Device memory as long as the longest batch so far.
#[derive(Debug, Default)]
pub(super) struct Scratch(Option<Buffer>);

impl Scratch {
    pub(super) fn reserve(&mut self, device: &Device, bytes: usize) -> Result<&mut Buffer> {
        if self.0.as_ref().is_none_or(|buffer| buffer.len() < bytes) {
            // The old one is freed first, because both might not fit.
            self.0 = None;
            self.0 = Some(device.allocate(bytes.max(64).checked_next_power_of_two().unwrap_or(bytes))?);
        }
        Ok(self.0.as_mut().expect("it was allocated above, or was long enough"))
    }
}

/// A batch in the host's memory.
#[derive(Debug, Clone, Copy)]
pub(super) enum HostBatch<'a> {
    Each(&'a [MapOp]),
    /// All operations are of one kind; without operands if it has none.
    All(MapOpKind, &'a [u64], Option<&'a [u64]>),
}

impl HostBatch<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Each(ops) => ops.len(),
            Self::All(_, keys, _) => keys.len(),
        }
    }

    pub(super) fn part(&self, range: Range<usize>) -> Self {
        match *self {
            Self::Each(ops) => Self::Each(&ops[range]),
            Self::All(kind, keys, operands) => {
                Self::All(kind, &keys[range.clone()], operands.map(|operands| &operands[range]))
            }
        }
    }

    pub(super) fn op(&self, at: usize) -> MapOp {
        match self {
            Self::Each(ops) => ops[at],
            Self::All(kind, keys, operands) => {
                MapOp::new(*kind, keys[at], operands.map_or(0, |operands| operands[at]))
            }
        }
    }
}

/// The columns of a batch in device memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Staged {
    pub(super) keys: DevicePtr,
    /// Null if all operations have the code `code`.
    pub(super) codes: DevicePtr,
    pub(super) code: u32,
    pub(super) operands: DevicePtr,
    pub(super) statuses: DevicePtr,
    pub(super) before: DevicePtr,
    pub(super) count: usize,
}

impl Staged {
    /// Whether all operations insert.
    pub(super) fn inserts(&self) -> bool {
        self.codes.is_null() && self.code <= MapOpKind::Max as u32
    }
}

/// The order in which a batch is worked: operations by hash.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planned {
    pub(super) plan: BatchPlan,
    /// By how many bits the hashes were rotated to the right.
    pub(super) rotation: u32,
}

impl Columns {
    /// Sends a batch to the device, and makes room for its answers. The keys are sent only if the device plans the batch.
    ///
    /// # Safety
    /// The stream must be synchronised before the columns are used again.
    pub(super) unsafe fn stage(
        &mut self,
        batch: &HostBatch<'_>,
        with_keys: bool,
        with_before: bool,
        device: &Device,
        stream: &Stream,
    ) -> Result<Staged> {
        let count = batch.len();
        let mut staged = Staged {
            keys: DevicePtr::NULL,
            codes: DevicePtr::NULL,
            code: 0,
            operands: DevicePtr::NULL,
            statuses: self.statuses.reserve(device, count)?,
            before: if with_before { self.before.reserve(device, 8 * count)? } else { DevicePtr::NULL },
            count,
        };
        if with_keys {
            let keys = self.keys.host::<u64>(device, count)?;
            keys.iter_mut().enumerate().for_each(|(at, key)| *key = batch.op(at).key);
            // SAFETY: the caller's promise, as for the other columns.
            staged.keys = unsafe { self.keys.send::<u64>(device, count, stream)? };
        }
        match batch {
            HostBatch::All(kind, ..) => staged.code = *kind as u32,
            HostBatch::Each(ops) => {
                let codes = self.codes.host::<u8>(device, count)?;
                codes.iter_mut().zip(*ops).for_each(|(code, op)| *code = op.kind as u8);
                // SAFETY: as above.
                staged.codes = unsafe { self.codes.send::<u8>(device, count, stream)? };
            }
        }
        if !matches!(batch, HostBatch::All(_, _, None)) {
            let operands = self.operands.host::<u64>(device, count)?;
            operands.iter_mut().enumerate().for_each(|(at, operand)| *operand = batch.op(at).value);
            // SAFETY: as above.
            staged.operands = unsafe { self.operands.send::<u64>(device, count, stream)? };
        }
        Ok(staged)
    }

    /// Plans a batch on the host.
    ///
    /// # Safety
    /// As [`stage`](Self::stage).
    pub(super) unsafe fn plan_on_host(
        &mut self,
        batch: &HostBatch<'_>,
        seed: u64,
        rotation: u32,
        device: &Device,
        stream: &Stream,
    ) -> Result<Planned> {
        let hashes = (0..batch.len()).map(|at| mix(seed, batch.op(at).key).rotate_right(rotation));
        // SAFETY: the caller's promise.
        let plan = unsafe { BatchPlan::on_host(hashes, &mut self.plan, device, stream)? };
        Ok(Planned { plan, rotation })
    }
}
