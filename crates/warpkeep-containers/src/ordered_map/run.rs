//! Batches of slices on a device: sent, planned, worked, and their answers fetched.

use bytemuck::checked;
use warpkeep_device::{DevicePtr, Result, Workspace};

use super::batch::{MOST_OPERATIONS, Memory};
use super::columns::{Columns, HostBatch, PairColumns, Planned, Staged};
use super::key::OrderedWord;
use super::op::{OrderedAnswer, OrderedChange, OrderedOpKind, OrderedStatus};
use super::pool::{NoRoom as _, too_large};
use super::reads::Pairs;
use super::removals::MOST_REMOVALS;
use super::tree::Tree;
use crate::ContainerError;
use crate::batch_columns::settled;
use crate::batch_plan::HOST_PLANS;

impl Tree {
    /// Runs a batch of operations that each concern their own key.
    pub(super) fn run_changes<K: OrderedWord, V: OrderedWord>(
        &self,
        batch: &HostBatch<'_, K, V>,
    ) -> Result<Vec<OrderedChange<V>>, ContainerError> {
        let mut answers = Vec::with_capacity(batch.len());
        self.run(batch, |columns, _| {
            let statuses = statuses(columns, batch.len());
            let before = columns.values.fetched::<V>(batch.len());
            let both = statuses.iter().zip(before);
            answers.extend(both.map(|(&status, &before)| OrderedChange { status, before }));
        })?;
        Ok(answers)
    }

    /// Runs a batch of any operations.
    pub(super) fn run_ops<K: OrderedWord, V: OrderedWord>(
        &self,
        batch: &HostBatch<'_, K, V>,
    ) -> Result<Vec<OrderedAnswer<K, V>>, ContainerError> {
        let (mut answers, count) = (Vec::with_capacity(batch.len()), batch.len());
        self.run(batch, |columns, ragged| {
            let (statuses, values) = (statuses(columns, count), columns.values.fetched::<V>(count));
            let around = batch.looks_around();
            let keys = if around { columns.found_keys.fetched::<K>(count) } else { &[] };
            let counts = if around { columns.counts.fetched::<u32>(count) } else { &[] };
            let mut pairs = columns.pairs.keys.fetched::<K>(ragged).iter().copied();
            let mut pair_values = columns.pairs.values.fetched::<V>(ragged).iter().copied();
            for (at, &status) in statuses.iter().enumerate() {
                let its = counts.get(at).copied().unwrap_or(0);
                let is_range = batch.op(at).kind == OrderedOpKind::Range;
                let of_range = if is_range { its as usize } else { 0 };
                answers.push(OrderedAnswer {
                    status,
                    key: keys.get(at).copied().unwrap_or_default(),
                    value: values[at],
                    count: its.into(),
                    pairs: pairs.by_ref().zip(pair_values.by_ref()).take(of_range).collect(),
                });
            }
        })?;
        Ok(answers)
    }

    /// Puts pairs whose keys are in ascending order: gives the position of the first that is less than the one before
    /// it, if there is one.
    pub(super) fn run_sorted<K: OrderedWord, V: OrderedWord>(
        &self,
        batch: &HostBatch<'_, K, V>,
    ) -> Result<Option<usize>, ContainerError> {
        if batch.len() == 0 {
            return Ok(None);
        }
        check_count(batch.len())?;
        let mut workspace = self.workspaces.take(&self.device)?;
        let (columns, stream) = (&mut workspace.columns, &workspace.stream);
        // SAFETY: the stream is synchronised before the columns are used again.
        let disorder = unsafe {
            let staged = columns.stage(batch, &self.device, stream)?;
            let unanswered = Staged { statuses: DevicePtr::NULL, values: DevicePtr::NULL, ..staged };
            self.put_sorted(&unanswered, columns, stream)?
        };
        self.workspaces.put_back(workspace);
        Ok(disorder)
    }

    /// Runs a batch, and gives the columns with its answers and the number of the pairs of its ranges.
    fn run<K: OrderedWord, V: OrderedWord>(
        &self,
        batch: &HostBatch<'_, K, V>,
        take: impl FnOnce(&Columns, usize),
    ) -> Result<(), ContainerError> {
        let (device, count) = (&self.device, batch.len());
        if count == 0 {
            return Ok(());
        }
        check_count(count)?;
        let mut workspace = self.workspaces.take(device)?;
        let refused = match self.run_in(batch, &mut workspace) {
            Ok(ragged) => {
                take(&workspace.columns, ragged);
                self.workspaces.put_back(workspace);
                return Ok(());
            }
            Err(error) => error,
        };
        let is_removal = matches!(batch, HostBatch::All(OrderedOpKind::Erase, ..));
        if !is_removal || count > MOST_REMOVALS || !refused.is_no_room() {
            return Err(refused);
        }
        // Its columns have memory already. What the first attempt took is free again.
        drop(workspace);
        let Some(mut reserved) = self.for_removals.take() else { return Err(refused) };
        let done = self.run_in(batch, &mut reserved).map(|ragged| take(&reserved.columns, ragged));
        self.for_removals.put_back(reserved);
        done
    }

    /// Runs a batch in a workspace, and gives the number of the pairs of its ranges.
    fn run_in<K: OrderedWord, V: OrderedWord>(
        &self,
        batch: &HostBatch<'_, K, V>,
        workspace: &mut Workspace<Columns>,
    ) -> Result<usize, ContainerError> {
        let (device, count) = (&self.device, batch.len());
        let Workspace { columns, stream, .. } = workspace;
        let mut ragged = 0;
        let mut run = || {
            // SAFETY: the stream is synchronised before the columns are used again.
            unsafe {
                let staged = columns.stage(batch, device, stream)?;
                let Columns { plan, wide, work, pairs, sweep, statuses, values, found_keys, counts, .. } =
                    columns;
                let plan = match count <= HOST_PLANS {
                    true => Planned::of(plan.plan_on_host(batch.ops().map(|op| op.key), device, stream)?),
                    false => self.plan(staged.keys, count, false, plan, wide, stream)?,
                };
                let fetch = |pairs: u64, of_pairs: &mut PairColumns| {
                    ragged = pairs as usize;
                    statuses.fetch::<u8>(device, count, stream)?;
                    values.fetch::<V>(device, count, stream)?;
                    if batch.looks_around() {
                        found_keys.fetch::<K>(device, count, stream)?;
                        counts.fetch::<u32>(device, count, stream)?;
                    }
                    if ragged > 0 {
                        of_pairs.keys.fetch::<K>(device, ragged, stream)?;
                        of_pairs.values.fetch::<V>(device, ragged, stream)?;
                    }
                    Ok(())
                };
                let mut memory = Memory { work, pairs, sweep };
                match batch.only_reads() {
                    true => self.apply_reads(&staged, plan, &mut memory, stream, fetch),
                    false => self.apply(&staged, plan, Pairs::Ragged, &mut memory, stream, fetch),
                }
            }
        };
        settled(run(), stream)?;
        Ok(ragged)
    }
}

/// Positions in a batch have 31 bits.
fn check_count(count: usize) -> Result<(), ContainerError> {
    match count as u64 > MOST_OPERATIONS {
        true => Err(too_large("operations of one batch", count as u64, MOST_OPERATIONS)),
        false => Ok(()),
    }
}

/// The statuses that a call has fetched.
pub(super) fn statuses(columns: &Columns, count: usize) -> &[OrderedStatus] {
    checked::cast_slice(columns.statuses.fetched::<u8>(count))
}
