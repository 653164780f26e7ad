//! Columns of a batch: as the caller gives them, and as they are staged in device memory.

use std::ops::Range;

use warpkeep_device::{Device, DevicePtr, Result, StagedBuffer, Stream};

use super::op::{MapOp, MapOpKind};
use super::width::{MapKey, MapValue};
use crate::batch_columns::{answer_column, send_column};
use crate::batch_plan::{BatchPlan, PlanColumns};

/// Memory of one batch.
#[derive(Debug, Default)]
pub(super) struct Columns {
    pub(super) keys: StagedBuffer,
    pub(super) codes: StagedBuffer,
    pub(super) operands: StagedBuffer,
    pub(super) statuses: StagedBuffer,
    pub(super) before: StagedBuffer,
    pub(super) plans: PlanColumns,
}

/// A batch in the host's memory.
#[derive(Debug, Clone, Copy)]
pub(super) enum HostBatch<'a, K, V> {
    Each(&'a [MapOp<K, V>]),
    /// All operations are of one kind; without operands if it has none.
    All(MapOpKind, &'a [K], Option<&'a [V]>),
}

impl<K: MapKey, V: MapValue> HostBatch<'_, K, V> {
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

    /// Whether an operation adds or compares values.
    pub(super) fn computes(&self) -> bool {
        match self {
            Self::Each(ops) => ops.iter().any(|op| op.kind.computes()),
            Self::All(kind, ..) => kind.computes(),
        }
    }

    pub(super) fn op(&self, at: usize) -> MapOp<K, V> {
        match self {
            Self::Each(ops) => ops[at],
            Self::All(kind, keys, operands) => {
                MapOp::new(*kind, keys[at], operands.map_or(V::zeroed(), |operands| operands[at]))
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
    /// Whether all operations ask only.
    pub(super) fn is_lookup(&self) -> bool {
        let asks = [MapOpKind::Find as u32, MapOpKind::Contains as u32];
        self.codes.is_null() && asks.contains(&self.code)
    }

    /// Whether all operations insert.
    pub(super) fn inserts(&self) -> bool {
        self.codes.is_null() && self.code <= MapOpKind::Max as u32
    }
}

/// The order in which a batch is worked: operations by hash.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planned {
    pub(super) plan: BatchPlan,
    /// Where the number of runs is, if the host does not know it: then the plan has the most that there can be.
    pub(super) runs_at: DevicePtr,
    /// By how many bits the hashes were rotated to the right.
    pub(super) rotation: u32,
}

impl Columns {
    /// Sends a batch to the device, and makes room for its answers. The keys are sent only if the device plans the batch.
    ///
    /// # Safety
    /// The stream must be synchronised before the columns are used again.
    pub(super) unsafe fn stage<K: MapKey, V: MapValue>(
        &mut self,
        batch: &HostBatch<'_, K, V>,
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
            statuses: answer_column::<u8>(&mut self.statuses, count, device)?,
            before: match with_before {
                true => answer_column::<V>(&mut self.before, count, device)?,
                false => DevicePtr::NULL,
            },
            count,
        };
        let ops = || (0..count).map(|at| batch.op(at));
        // SAFETY: the caller's promise.
        unsafe {
            if with_keys {
                staged.keys = send_column(&mut self.keys, count, ops().map(|op| op.key), device, stream)?;
            }
            match batch {
                HostBatch::All(kind, ..) => staged.code = *kind as u32,
                HostBatch::Each(_) => {
                    let codes = ops().map(|op| op.kind as u8);
                    staged.codes = send_column(&mut self.codes, count, codes, device, stream)?;
                }
            }
            if size_of::<V>() > 0 && !matches!(batch, HostBatch::All(_, _, None)) {
                let operands = ops().map(|op| op.value);
                staged.operands = send_column(&mut self.operands, count, operands, device, stream)?;
            }
        }
        Ok(staged)
    }

    /// Begins to fetch the answers to a batch.
    ///
    /// # Safety
    /// As [`stage`](Self::stage).
    pub(super) unsafe fn fetch<V: MapValue>(
        &mut self,
        count: usize,
        with_before: bool,
        device: &Device,
        stream: &Stream,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            self.statuses.fetch::<u8>(device, count, stream)?;
            if with_before { self.before.fetch::<V>(device, count, stream) } else { Ok(()) }
        }
    }

    /// Plans a batch on the host.
    ///
    /// # Safety
    /// As [`stage`](Self::stage).
    pub(super) unsafe fn plan_on_host<K: MapKey, V: MapValue>(
        &mut self,
        batch: &HostBatch<'_, K, V>,
        seed: u64,
        rotation: u32,
        device: &Device,
        stream: &Stream,
    ) -> Result<Planned> {
        let hashes = (0..batch.len()).map(|at| batch.op(at).key.mix(seed).rotated_right(rotation));
        // SAFETY: the caller's promise.
        let plan = unsafe { self.plans.plan_on_host(hashes, device, stream)? };
        Ok(Planned { plan, runs_at: DevicePtr::NULL, rotation })
    }
}
