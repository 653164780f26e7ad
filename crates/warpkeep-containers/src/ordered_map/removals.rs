//! Memory for small batches that remove keys, so that a map that has taken all memory can be emptied.

use std::sync::{Mutex, PoisonError};

use warpkeep_device::{Device, Result, Workspace};

use super::columns::Columns;
use super::kernels::{BATCH_TOTALS, Shape};
use super::pool::LEAST_SPARE;
use crate::Sorter;

/// Keys that a batch removes at most that finds its columns reserved.
pub(super) const MOST_REMOVALS: usize = LEAST_SPARE as usize;

/// A workspace for one batch.
#[derive(Debug)]
pub(super) struct RemovalColumns(Mutex<Option<Workspace<Columns>>>);

impl RemovalColumns {
    pub(super) fn new(device: &Device, shape: Shape) -> Result<Self> {
        let mut workspace = Workspace::new(device)?;
        reserve(&mut workspace, device, shape)?;
        Ok(Self(Mutex::new(Some(workspace))))
    }

    /// The workspace, unless another batch uses it.
    pub(super) fn take(&self) -> Option<Workspace<Columns>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Keeps the workspace for the next batch. Its stream has been synchronised.
    pub(super) fn put_back(&self, workspace: Workspace<Columns>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(workspace);
    }
}

/// Has all columns of a batch of slices that removes keys.
fn reserve(workspace: &mut Workspace<Columns>, device: &Device, shape: Shape) -> Result<()> {
    let (count, key, value) = (MOST_REMOVALS, shape.key_bytes(), shape.value_bytes());
    let Workspace { columns, stream, .. } = workspace;
    for (column, bytes) in
        [(&mut columns.keys, key), (&mut columns.statuses, 1), (&mut columns.values, value)]
    {
        column.host::<u8>(device, bytes * count)?;
        column.reserve(device, bytes * count)?;
    }
    // SAFETY: the stream is synchronised below.
    unsafe {
        match shape {
            Shape::U32 => columns.plan.plan_on_host(0..count as u32, device, stream)?,
            Shape::U64 => columns.plan.plan_on_host(0..count as u64, device, stream)?,
            Shape::U128 => columns.plan.plan_on_host(0..count as u128, device, stream)?,
        };
    }
    let work = &mut columns.work;
    for (column, bytes) in [
        (&mut work.leaves, 4),
        (&mut work.slots, 4),
        (&mut work.finals, value),
        (&mut work.change_sums, 4),
        (&mut work.change_keys, key),
        (&mut work.change_values, value),
        (&mut work.change_leaves, 4),
        (&mut work.change_slots, 4),
        (&mut work.deltas, 8),
        (&mut work.begins, 4),
        (&mut work.group_leaves, 4),
        (&mut work.retired, 4),
        (&mut work.sources, 4),
    ] {
        column.reserve(device, bytes * count)?;
    }
    work.outs.reserve(device, 4 * (count + BATCH_TOTALS))?;
    work.search.reserve::<u32, u32>(device, count)?;
    for sums in [&mut work.sums, &mut work.sums_of_changes] {
        Sorter::reserve_scan(device, count as u64 + 1, sums)?;
    }
    stream.synchronize()
}
