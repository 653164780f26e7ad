//! Columns of a batch: as the caller gives them, and as they are staged in device memory.

use std::ops::Range;

use warpkeep_device::{Device, DevicePtr, Result, StagedBuffer, Stream};

use super::NO_LOCATION;
use super::layout::Layout;
use super::op::{IndexOp, IndexOpKind};
use crate::batch_columns::{answer_column, send_column};
use crate::batch_plan::{BatchPlan, PlanColumns};

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
    pub(super) plans: PlanColumns,
    /// Locations of searches that want all.
    pub(super) all: StagedBuffer,
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
    /// Whether the batch needs no plan, because no answer depends on the order of its operations: insertions alone, or deletions alone.
    pub(super) fn is_unordered(&self) -> bool {
        self.codes.is_null() && [IndexOpKind::Insert as u32, IndexOpKind::Delete as u32].contains(&self.code)
    }

    /// Whether all operations ask only.
    pub(super) fn is_search(&self) -> bool {
        self.codes.is_null() && self.code == IndexOpKind::Search as u32
    }
}

/// The order in which a batch is worked: operations by group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planned {
    pub(super) plan: BatchPlan,
    /// Where the number of runs is, if the host does not know it: then the plan has the most that there can be.
    pub(super) runs_at: DevicePtr,
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
        let mut staged = Staged {
            hashes: DevicePtr::NULL,
            codes: DevicePtr::NULL,
            code: 0,
            locations: DevicePtr::NULL,
            olds: DevicePtr::NULL,
            statuses: answer_column::<u8>(&mut self.statuses, count, device)?,
            matches: answer_column::<u8>(&mut self.matches, count, device)?,
            found: answer_column::<[u32; 2]>(&mut self.found, count, device)?,
            count,
        };
        let ops = || (0..count).map(|at| batch.op(at));
        // SAFETY: the caller's promise.
        unsafe {
            if with_hashes {
                let hashes = ops().map(|op| op.hash);
                staged.hashes = send_column(&mut self.hashes, count, hashes, device, stream)?;
            }
            match batch {
                HostBatch::Search(_) => staged.code = IndexOpKind::Search as u32,
                HostBatch::All(kind, ..) => staged.code = *kind as u32,
                HostBatch::Each(_) => {
                    let codes = ops().map(|op| op.kind as u8);
                    staged.codes = send_column(&mut self.codes, count, codes, device, stream)?;
                }
            }
            if !matches!(batch, HostBatch::Search(_)) {
                let locations = ops().map(|op| op.location);
                staged.locations = send_column(&mut self.locations, count, locations, device, stream)?;
            }
            if matches!(batch, HostBatch::Each(_) | HostBatch::All(_, _, _, Some(_))) {
                staged.olds = send_column(&mut self.olds, count, ops().map(|op| op.old), device, stream)?;
            }
        }
        Ok(staged)
    }

    /// Begins to fetch the answers to a batch.
    ///
    /// # Safety
    /// As [`stage`](Self::stage).
    pub(super) unsafe fn fetch(&mut self, count: usize, device: &Device, stream: &Stream) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            self.statuses.fetch::<u8>(device, count, stream)?;
            self.matches.fetch::<u8>(device, count, stream)?;
            self.found.fetch::<[u32; 2]>(device, count, stream)
        }
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
    ) -> Result<Planned> {
        let groups = (0..batch.len()).map(|at| layout.group(batch.op(at).hash));
        // SAFETY: the caller's promise.
        let plan = unsafe { self.plans.plan_on_host(groups, device, stream)? };
        Ok(Planned { plan, runs_at: DevicePtr::NULL })
    }
}
