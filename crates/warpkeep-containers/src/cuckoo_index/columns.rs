//! Columns of a batch: as the caller gives them, and as they are staged in device memory.

use std::ops::Range;

use warpkeep_device::{Buffer, Device, DevicePtr, Result, StagedBuffer, Stream};

use super::NO_LOCATION;
use super::layout::Layout;
use super::op::{IndexOp, IndexOpKind};
use crate::batch_plan::BatchPlan;

/// Memory of one batch.
#[derive(Debug, Default)]
pub(super) struct Columns {
    pub(super) hashes: StagedBuffer,
    pub(super) codes: StagedBuffer,
    pub(super) locations: StagedBuffer,
    pub(super) olds: StagedBuffer,
    pub(super) statuses: StagedBuffer,
    pub(super) matches: StagedBuffer,
    pub(super) found: StagedBuffer,
    /// The plan of a batch that the host planned.
    plan: StagedBuffer,
    /// The plan of one that the device planned.
    pub(super) sorted: Scratch,
    pub(super) numbers: Scratch,
    pub(super) begins: Scratch,
    /// Runs that are not finished, before and after a kernel.
    pub(super) pending: [StagedBuffer; 2],
    /// Locations of searches that want all.
    pub(super) all: StagedBuffer,
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
    Each(&'a [IndexOp]),
    Search(&'a [u64]),
    /// All operations are of one kind: hashes, locations, and those to replace.
    All(IndexOpKind, &'a [u64], &'a [u32], Option<&'a [u32]>),
}

impl HostBatch<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Each(ops) => ops.len(),
            Self::Search(hashes) | Self::All(_, hashes, ..) => hashes.len(),
        }
    }

    pub(super) fn part(&self, range: Range<usize>) -> Self {
        match *self {
            Self::Each(ops) => Self::Each(&ops[range]),
            Self::Search(hashes) => Self::Search(&hashes[range]),
            Self::All(kind, hashes, locations, olds) => Self::All(
                kind,
                &hashes[range.clone()],
                &locations[range.clone()],
                olds.map(|olds| &olds[range]),
            ),
        }
    }

    pub(super) fn op(&self, at: usize) -> IndexOp {
        match self {
            Self::Each(ops) => ops[at],
            Self::Search(hashes) => IndexOp::search(hashes[at]),
            Self::All(kind, hashes, locations, olds) => IndexOp {
                kind: *kind,
                hash: hashes[at],
                location: locations[at],
                old: olds.map_or(NO_LOCATION, |olds| olds[at]),
            },
        }
    }
}

/// The columns of a batch in device memory. Those that are not there are null.
#[derive(Debug, Clone, Copy)]
pub(super) struct Staged {
    pub(super) hashes: DevicePtr,
    /// Null if all operations have the code `code`.
    pub(super) codes: DevicePtr,
    pub(super) code: u32,
    pub(super) locations: DevicePtr,
    pub(super) olds: DevicePtr,
    pub(super) statuses: DevicePtr,
    pub(super) matches: DevicePtr,
    pub(super) found: DevicePtr,
    pub(super) count: usize,
}

impl Staged {
    /// Whether all operations ask only.
    pub(super) fn is_search(&self) -> bool {
        self.codes.is_null() && self.code == IndexOpKind::Search as u32
    }
}

impl Columns {
    /// Sends a batch to the device, and makes room for its answers on both sides: nothing is to fail for want of memory once the index
    /// has changed. The hashes are sent only if the device plans the batch.
    ///
    /// # Safety
    /// The stream must be synchronised before the columns are used again.
    pub(super) unsafe fn stage(
        &mut self,
        batch: &HostBatch<'_>,
        with_hashes: bool,
        device: &Device,
        stream: &Stream,
    ) -> Result<Staged> {
        let count = batch.len();
        self.statuses.host::<u8>(device, count)?;
        self.matches.host::<u8>(device, count)?;
        self.found.host::<[u32; 2]>(device, count)?;
        let mut staged = Staged {
            hashes: DevicePtr::NULL,
            codes: DevicePtr::NULL,
            code: 0,
            locations: DevicePtr::NULL,
            olds: DevicePtr::NULL,
            statuses: self.statuses.reserve(device, count)?,
            matches: self.matches.reserve(device, count)?,
            found: self.found.reserve(device, 8 * count)?,
            count,
        };
        let ops = || (0..count).map(|at| batch.op(at));
        if with_hashes {
            let hashes = self.hashes.host::<u64>(device, count)?;
            hashes.iter_mut().zip(ops()).for_each(|(hash, op)| *hash = op.hash);
            // SAFETY: the caller's promise, as for the other columns.
            staged.hashes = unsafe { self.hashes.send::<u64>(device, count, stream)? };
        }
        match batch {
            HostBatch::Search(_) => staged.code = IndexOpKind::Search as u32,
            HostBatch::All(kind, ..) => staged.code = *kind as u32,
            HostBatch::Each(_) => {
                let codes = self.codes.host::<u8>(device, count)?;
                codes.iter_mut().zip(ops()).for_each(|(code, op)| *code = op.kind as u8);
                // SAFETY: as above.
                staged.codes = unsafe { self.codes.send::<u8>(device, count, stream)? };
            }
        }
        if !matches!(batch, HostBatch::Search(_)) {
            let locations = self.locations.host::<u32>(device, count)?;
            locations.iter_mut().zip(ops()).for_each(|(location, op)| *location = op.location);
            // SAFETY: as above.
            staged.locations = unsafe { self.locations.send::<u32>(device, count, stream)? };
        }
        if matches!(batch, HostBatch::Each(_) | HostBatch::All(_, _, _, Some(_))) {
            let olds = self.olds.host::<u32>(device, count)?;
            olds.iter_mut().zip(ops()).for_each(|(old, op)| *old = op.old);
            // SAFETY: as above.
            staged.olds = unsafe { self.olds.send::<u32>(device, count, stream)? };
        }
        Ok(staged)
    }

    /// Plans a batch on the host: operations by group.
    ///
    /// # Safety
    /// As [`stage`](Self::stage).
    pub(super) unsafe fn plan_on_host(
        &mut self,
        batch: &HostBatch<'_>,
        layout: Layout,
        device: &Device,
        stream: &Stream,
    ) -> Result<BatchPlan> {
        let groups = (0..batch.len()).map(|at| layout.group(batch.op(at).hash));
        // SAFETY: the caller's promise.
        unsafe { BatchPlan::on_host(groups, &mut self.plan, device, stream) }
    }
}
