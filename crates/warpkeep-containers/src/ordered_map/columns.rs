//! Memory of batches, kept for the next one.

use warpkeep_device::{Device, DevicePtr, Result, StagedBuffer, Stream};

use super::key::OrderedWord;
use super::op::{OrderedOp, OrderedOpKind};
use super::plan::WideColumns;
use super::pool::SweepColumns;
use crate::batch_plan::{PlanColumns, Scratch};

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
}

/// What the kernels of a batch leave for those after them.
#[derive(Debug, Default)]
pub(super) struct WorkColumns {
    pub(super) present: StagedBuffer,
    pub(super) states: StagedBuffer,
    pub(super) leaves: StagedBuffer,
    pub(super) slots: StagedBuffer,
    pub(super) finals: StagedBuffer,
    pub(super) changed: Scratch,
    pub(super) change_keys: StagedBuffer,
    pub(super) change_values: StagedBuffer,
    pub(super) change_slots: StagedBuffer,
    pub(super) change_leaves: Scratch,
    pub(super) deltas: Scratch,
    pub(super) begins: Scratch,
    pub(super) group_leaves: StagedBuffer,
    pub(super) outs: Scratch,
    pub(super) retired: StagedBuffer,
    pub(super) merged: Scratch,
    pub(super) merge_retired: StagedBuffer,
    /// Of the tiles of scans.
    pub(super) sums: StagedBuffer,
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
