//! Memory of batches, kept for the next one.

use warpkeep_device::{Device, DevicePtr, Result, StagedBuffer, Stream};

use super::key::OrderedWord;
use super::op::{OrderedOp, OrderedOpKind, OrderedStatus};
use super::plan::WideColumns;
use super::retired::SweepColumns;
use super::writer::WriterColumns;
use crate::batch_plan::{BatchPlan, PlanColumns, Scratch};
use crate::sort::Columns as SortColumns;

#[derive(Debug, Default)]
pub(super) struct Columns {
    pub(super) keys: StagedBuffer,
    pub(super) ends: StagedBuffer,
    pub(super) codes: StagedBuffer,
    pub(super) operands: StagedBuffer,
    pub(super) statuses: StagedBuffer,
    pub(super) values: StagedBuffer,
    pub(super) found_keys: StagedBuffer,
    pub(super) counts: StagedBuffer,
    pub(super) plan: PlanColumns,
    pub(super) wide: WideColumns,
    pub(super) work: WorkColumns,
    pub(super) pairs: PairColumns,
    pub(super) sweep: SweepColumns,
    pub(super) writer: WriterColumns,
}

/// What the kernels of a batch leave for those after them.
#[derive(Debug, Default)]
pub(super) struct WorkColumns {
    pub(super) owners: StagedBuffer,
    pub(super) present: StagedBuffer,
    pub(super) states: StagedBuffer,
    pub(super) leaves: StagedBuffer,
    pub(super) slots: StagedBuffer,
    pub(super) finals: StagedBuffer,
    pub(super) change_sums: StagedBuffer,
    pub(super) change_keys: StagedBuffer,
    pub(super) change_values: StagedBuffer,
    pub(super) change_slots: StagedBuffer,
    pub(super) change_leaves: StagedBuffer,
    pub(super) deltas: StagedBuffer,
    pub(super) begins: StagedBuffer,
    pub(super) group_leaves: StagedBuffer,
    pub(super) outs: Scratch,
    pub(super) sources: StagedBuffer,
    pub(super) retired: StagedBuffer,
    pub(super) merged: Scratch,
    pub(super) merge_retired: StagedBuffer,
    /// Of the search for groups.
    pub(super) search: SortColumns,
    /// Of the tiles of the two scans of a batch, which are not waited for.
    pub(super) sums: StagedBuffer,
    pub(super) sums_of_changes: StagedBuffer,
}

impl WorkColumns {
    /// The number of runs that a plan has left at this address. Waits for it.
    ///
    /// # Safety
    /// The columns of the plan are there.
    pub(super) unsafe fn runs(&mut self, at: DevicePtr, device: &Device, stream: &Stream) -> Result<u64> {
        let to = self.change_sums.reserve(device, 4)?;
        // SAFETY: the caller's promise.
        unsafe { device.copy_raw(to, at, 4, stream)? };
        Ok(self.change_sums.take::<u32>(1, stream)?[0].into())
    }
}

/// The pairs of ranges.
#[derive(Debug, Default)]
pub(super) struct PairColumns {
    pub(super) offsets: Scratch,
    pub(super) keys: StagedBuffer,
    pub(super) values: StagedBuffer,
    pub(super) total: StagedBuffer,
    /// Of the tiles of a scan.
    pub(super) sums: StagedBuffer,
}

/// A sorted batch, of which the host may not know how many runs of equal keys it has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planned {
    /// Has no more runs than the batch has.
    pub(super) plan: BatchPlan,
    /// Where the number of runs is, in 32 bits; null if the plan says it.
    pub(super) runs_at: DevicePtr,
}

impl Planned {
    pub(super) fn of(plan: BatchPlan) -> Planned {
        Planned { plan, runs_at: DevicePtr::NULL }
    }
}

/// A batch in device memory, and where its answers go. What is not there is null.
#[derive(Debug, Clone, Copy)]
pub(super) struct Staged {
    pub(super) keys: DevicePtr,
    /// The upper bounds of ranges.
    pub(super) ends: DevicePtr,
    /// Null if all operations have the code `code`.
    pub(super) codes: DevicePtr,
    pub(super) code: OrderedOpKind,
    pub(super) operands: DevicePtr,
    pub(super) statuses: DevicePtr,
    pub(super) values: DevicePtr,
    pub(super) found_keys: DevicePtr,
    pub(super) counts: DevicePtr,
    pub(super) count: usize,
}

impl Staged {
    pub(super) const NONE: Staged = Staged {
        keys: DevicePtr::NULL,
        ends: DevicePtr::NULL,
        codes: DevicePtr::NULL,
        code: OrderedOpKind::Find,
        operands: DevicePtr::NULL,
        statuses: DevicePtr::NULL,
        values: DevicePtr::NULL,
        found_keys: DevicePtr::NULL,
        counts: DevicePtr::NULL,
        count: 0,
    };

    /// The answer of most operations, if one is likely: of inserts that keys are new, of erasures that keys were there.
    pub(super) fn usual(&self) -> Option<OrderedStatus> {
        match self.codes.is_null() {
            true if self.code.inserts() => Some(OrderedStatus::Inserted),
            true if self.code == OrderedOpKind::Erase => Some(OrderedStatus::Erased),
            _ => None,
        }
    }

    /// Whether no operation can remove a key.
    pub(super) fn only_inserts(&self) -> bool {
        self.codes.is_null() && self.code.inserts()
    }
}

/// Fills the host's side of a column and sends it.
///
/// # Safety
/// The stream must be synchronised before the column is used again.
pub(super) unsafe fn send<T: bytemuck::Pod>(
    column: &mut StagedBuffer,
    elements: impl Iterator<Item = T>,
    count: usize,
    device: &Device,
    stream: &Stream,
) -> Result<DevicePtr> {
    let to = column.host::<T>(device, count)?;
    to.iter_mut().zip(elements).for_each(|(to, element)| *to = element);
    // SAFETY: the caller's promise.
    unsafe { column.send::<T>(device, count, stream) }
}

/// A batch in the host's memory.
#[derive(Debug, Clone, Copy)]
pub(super) enum HostBatch<'a, K, V> {
    Each(&'a [OrderedOp<K, V>]),
    /// All operations are of one kind; without operands if it has none.
    All(OrderedOpKind, &'a [K], Option<&'a [V]>),
}

impl<K: OrderedWord, V: OrderedWord> HostBatch<'_, K, V> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Each(ops) => ops.len(),
            Self::All(_, keys, _) => keys.len(),
        }
    }

    pub(super) fn op(&self, at: usize) -> OrderedOp<K, V> {
        match self {
            Self::Each(ops) => ops[at],
            Self::All(kind, keys, operands) => {
                OrderedOp::new(*kind, keys[at], operands.map_or(V::default(), |operands| operands[at]))
            }
        }
    }

    pub(super) fn ops(&self) -> impl Iterator<Item = OrderedOp<K, V>> {
        (0..self.len()).map(|at| self.op(at))
    }

    pub(super) fn only_reads(&self) -> bool {
        match self {
            Self::Each(ops) => ops.iter().all(|op| op.kind.only_reads()),
            Self::All(kind, ..) => kind.only_reads(),
        }
    }

    pub(super) fn looks_around(&self) -> bool {
        match self {
            Self::Each(ops) => ops.iter().any(|op| op.kind.looks_around()),
            Self::All(kind, ..) => kind.looks_around(),
        }
    }
}

impl Columns {
    /// Sends a batch of operations, and makes room for its answers.
    ///
    /// # Safety
    /// The stream must be synchronised before the columns are used again.
    pub(super) unsafe fn stage<K: OrderedWord, V: OrderedWord>(
        &mut self,
        batch: &HostBatch<'_, K, V>,
        device: &Device,
        stream: &Stream,
    ) -> Result<Staged> {
        let count = batch.len();
        let mut staged = Staged { count, ..Staged::NONE };
        // SAFETY: the caller's promise.
        unsafe {
            staged.keys = send(&mut self.keys, batch.ops().map(|op| op.key), count, device, stream)?;
            if !matches!(batch, HostBatch::All(_, _, None)) {
                let operands = batch.ops().map(|op| op.value);
                staged.operands = send(&mut self.operands, operands, count, device, stream)?;
            }
            match batch {
                HostBatch::All(kind, ..) => staged.code = *kind,
                HostBatch::Each(ops) => {
                    let codes = ops.iter().map(|op| op.kind as u8);
                    staged.codes = send(&mut self.codes, codes, count, device, stream)?;
                }
            }
            if batch.looks_around() {
                staged.ends = send(&mut self.ends, batch.ops().map(|op| op.end), count, device, stream)?;
                staged.found_keys = self.found_keys.reserve(device, size_of::<K>() * count)?;
                staged.counts = self.counts.reserve(device, 4 * count)?;
            }
        }
        staged.statuses = self.statuses.reserve(device, count)?;
        staged.values = self.values.reserve(device, size_of::<V>() * count)?;
        Ok(staged)
    }
}
