//! Batches that change a map in device memory: a new version out of the newest one.

use std::sync::Arc;

use warpkeep_device::{Buffer, DeviceError, DevicePtr, Grid, Result, StagedBuffer, Stream};

use super::columns::{PairColumns, Staged, WorkColumns};
use super::kernels::{
    Changes, Gather, Groups, Keep, LEAF_THREADS, Levels, Merge, NewDirectory, Rewrite, SortedBatch, THREADS,
    Work,
};
use super::pool::{PoolState, SweepColumns, too_large};
use super::reads::Pairs;
use super::tree::{Tree, Writer};
use super::version::{Layout, Version};
use crate::ContainerError;
use crate::batch_plan::BatchPlan;

/// Operations of one batch: differences of the number of keys have 32 bits.
pub(super) const MOST_OPERATIONS: u64 = i32::MAX as u64;
/// Keys of a map: ranks have 32 bits.
pub(super) const MOST_KEYS: u64 = u32::MAX as u64;

/// The columns that a batch uses while it runs.
pub(super) struct Memory<'a> {
    pub(super) work: &'a mut WorkColumns,
    pub(super) pairs: &'a mut PairColumns,
    pub(super) sweep: &'a mut SweepColumns,
}

/// What a batch has made of the newest version, before others see it.
struct Draft {
    layout: Layout,
    directory: Option<Buffer>,
    length: u64,
    state: PoolState,
    /// Leaves that are no longer used.
    retired: Vec<(DevicePtr, u64)>,
}

impl Draft {
    fn at(&self) -> DevicePtr {
        self.directory.as_ref().map_or(DevicePtr::NULL, Buffer::ptr)
    }
}

/// The changes of a batch, by leaf.
struct Grouped {
    groups: Groups,
    /// Leaves that they become.
    outs: u64,
    /// How many keys there are more, or fewer.
    delta: i64,
}

impl Tree {
    /// Works a planned batch, and waits for it. All of it is done, or, with an error, nothing. Gives the number of pairs of ragged ranges.
    ///
    /// # Safety
    /// The columns are as long as `staged` and the plan say, and no other code uses them meanwhile.
    pub(super) unsafe fn apply(
        &self,
        staged: &Staged,
        plan: &BatchPlan,
        pairs: Pairs,
        memory: &mut Memory<'_>,
        stream: &Stream,
    ) -> Result<u64, ContainerError> {
        let mut writer = self.write();
        self.collect(&mut writer, memory.sweep, stream)?;
        let version = self.current();
        // SAFETY: the caller's promise, as below.
        let (batch, changes) = unsafe { self.work(&version, staged, plan, memory.work, stream)? };
        let mut ragged = 0;
        if !staged.counts.is_null() {
            // SAFETY: as above.
            ragged = unsafe { self.read_around(&version, &batch, staged, pairs, memory.pairs, stream)? };
        }
        let Some(grouped) = (
            // SAFETY: as above.
            unsafe { self.group(&version, changes, memory.work, stream)? }
        ) else {
            stream.synchronize()?;
            return Ok(ragged);
        };
        let length = version.length.wrapping_add_signed(grouped.delta);
        if length > MOST_KEYS {
            return Err(too_large("keys", length, MOST_KEYS));
        }
        let number = version.number + 1;
        // SAFETY: as above.
        let mut draft =
            unsafe { self.draft(&mut writer, &version, &grouped, number, &mut memory.work.sums, stream)? };
        draft.length = length;
        if !staged.only_inserts() {
            // SAFETY: as above.
            unsafe { self.merge_neighbours(&mut writer, &mut draft, number, memory.work, stream)? };
        }
        let Draft { layout, directory, length, state, retired } = draft;
        let next = Version::new(number, length, layout, directory, self.directories.clone());
        // The batch is no pin of the version that it replaces.
        drop::<Arc<Version>>(version);
        // SAFETY: the lists are as long as the kernels were told, and their leaves are those of the version before.
        unsafe { self.commit(&mut writer, next, state, &retired, stream)? };
        Ok(ragged)
    }

    /// Works the operations on each key, and gathers what changes.
    ///
    /// # Safety
    /// As [`apply`](Self::apply).
    unsafe fn work(
        &self,
        version: &Version,
        staged: &Staged,
        plan: &BatchPlan,
        work: &mut WorkColumns,
        stream: &Stream,
    ) -> Result<(SortedBatch, Changes)> {
        let (device, runs) = (&self.device, plan.runs as usize);
        let (key, value) = (self.shape.key_bytes(), self.shape.value_bytes());
        let records_states = !staged.counts.is_null();
        let mut batch = SortedBatch {
            keys: plan.sorted,
            numbers: plan.numbers,
            begins: plan.begins,
            runs: plan.runs,
            count: staged.count as u64,
            ..SortedBatch::NONE
        };
        if records_states {
            batch.present = work.present.reserve(device, staged.count)?;
            batch.values = work.states.reserve(device, value * staged.count)?;
        }
        batch.slots = work.slots.reserve(device, 4 * runs)?;
        let changed = work.changed.reserve(device, 4 * (runs + 1))?;
        let params = Work {
            map: self.reference(version),
            batch,
            codes: staged.codes,
            operands: staged.operands,
            statuses: staged.statuses,
            before: staged.values,
            leaves: work.leaves.reserve(device, 4 * runs)?,
            slots: batch.slots,
            finals: work.finals.reserve(device, value * runs)?,
            changed: changed.ptr(),
            code: staged.code as u32,
            reserved: 0,
        };
        let grid = Grid::covering(plan.runs + 1, THREADS);
        // SAFETY: the caller's promise; all columns have the lengths that the kernel needs.
        unsafe {
            self.kernels.work.launch(grid, &params, stream)?;
            self.sorter.enqueue_scan(changed.ptr(), plan.runs + 1, &mut work.sums, stream)?;
        }
        let mut total = [0_u32];
        changed.read_on(4 * runs, &mut total, stream)?;
        let count = total[0] as usize;
        let changes = Changes {
            keys: work.change_keys.reserve(device, key * count)?,
            values: work.change_values.reserve(device, value * count)?,
            leaves: work.change_leaves.reserve(device, 4 * count)?.ptr(),
            slots: work.change_slots.reserve(device, 4 * count)?,
            deltas: work.deltas.reserve(device, 4 * (count + 1))?.ptr(),
            count: count as u64,
        };
        let gather = Gather {
            batch,
            leaves: params.leaves,
            slots: params.slots,
            finals: params.finals,
            places: params.changed,
            changes,
        };
        // SAFETY: as above.
        unsafe { self.kernels.gather.launch(grid, &gather, stream)? };
        Ok((batch, changes))
    }

    /// Groups the changes by leaf, and finds how many leaves each becomes; `None` if there are none.
    ///
    /// # Safety
    /// As [`apply`](Self::apply).
    unsafe fn group(
        &self,
        version: &Version,
        changes: Changes,
        work: &mut WorkColumns,
        stream: &Stream,
    ) -> Result<Option<Grouped>> {
        let (device, count) = (&self.device, changes.count as usize);
        if count == 0 {
            return Ok(None);
        }
        let deltas = work.deltas.reserve(device, 4 * (count + 1))?;
        // SAFETY: there is a difference for each change, and one more; the columns are kept until the stream is synchronised.
        unsafe { self.sorter.enqueue_scan(deltas.ptr(), changes.count + 1, &mut work.sums, stream)? };
        let begins = work.begins.reserve(device, 4 * count)?;
        let leaves = work.change_leaves.reserve(device, 4 * count)?;
        let of = self.sorter.find_runs::<u32>(leaves, count, begins, stream)?;
        let outs = work.outs.reserve(device, 4 * (of + 1))?;
        let groups = Groups {
            map: self.reference(version),
            changes,
            begins: begins.ptr(),
            leaves: work.group_leaves.reserve(device, 4 * of)?,
            count: of as u64,
            outs: outs.ptr(),
            retired: work.retired.reserve(device, 4 * of)?,
        };
        // SAFETY: the columns have room for all groups.
        unsafe {
            self.kernels.size.launch(Grid::covering(groups.count + 1, THREADS), &groups, stream)?;
            self.sorter.enqueue_scan(outs.ptr(), groups.count + 1, &mut work.sums, stream)?;
        }
        let (mut total, mut delta) = ([0_u32], [0_u32]);
        outs.read_on(4 * of, &mut total, stream)?;
        deltas.read_on(4 * count, &mut delta, stream)?;
        Ok(Some(Grouped { groups, outs: total[0].into(), delta: i64::from(delta[0] as i32) }))
    }

    /// Writes the leaves that change, and the directory.
    ///
    /// # Safety
    /// As [`apply`](Self::apply).
    unsafe fn draft(
        &self,
        writer: &mut Writer,
        version: &Version,
        grouped: &Grouped,
        number: u64,
        sums: &mut StagedBuffer,
        stream: &Stream,
    ) -> Result<Draft> {
        let Grouped { groups, outs, delta } = *grouped;
        let before = version.layout.leaf_count;
        let layout = Layout::new(self.shape, before.max(1) - groups.count + outs);
        let (fresh, state) = writer.pool.claim(writer.pool.state, outs, number, delta > 0)?;
        let retired = if before > 0 { vec![(groups.retired, groups.count)] } else { Vec::new() };
        let mut draft = Draft { layout, directory: None, length: 0, state, retired };
        if layout.leaf_count == 0 {
            return Ok(draft);
        }
        draft.directory = Some(self.directories.take(&self.device, layout.bytes)?);
        let to = layout.directory(draft.at());
        let rewrite = Rewrite { groups, fresh, to, count: outs };
        // SAFETY: the directory has room for all leaves, and the pool has the new ones.
        unsafe {
            self.kernels.rewrite.launch(Grid::covering(LEAF_THREADS * outs, THREADS), &rewrite, stream)?;
            let keep = Keep { groups, to };
            self.kernels.keep.launch(Grid::covering(before + 1, THREADS), &keep, stream)?;
            self.finish_directory(&layout, to, sums, stream)?;
        }
        Ok(draft)
    }

    /// Makes sums of the numbers of pairs, and the upper levels of separators.
    ///
    /// # Safety
    /// The directory has its leaves, and is not used otherwise.
    unsafe fn finish_directory(
        &self,
        layout: &Layout,
        to: NewDirectory,
        sums: &mut StagedBuffer,
        stream: &Stream,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            self.sorter.enqueue_scan(to.before, layout.leaf_count + 1, sums, stream)?;
            let levels = Levels { to, entries: layout.entries };
            self.kernels.raise_levels.launch(Grid::covering(layout.entries, THREADS), &levels, stream)
        }
    }

    /// Makes one leaf of neighbours that have few pairs together. Without memory for that they stay as they are.
    ///
    /// # Safety
    /// As [`apply`](Self::apply).
    unsafe fn merge_neighbours(
        &self,
        writer: &mut Writer,
        draft: &mut Draft,
        number: u64,
        work: &mut WorkColumns,
        stream: &Stream,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        match unsafe { self.try_merge(writer, draft, number, work, stream) } {
            Err(error) if error.is_out_of_memory() => Ok(()),
            Err(DeviceError::OutOfAddresses { .. }) => Ok(()),
            other => other,
        }
    }

    /// # Safety
    /// As [`apply`](Self::apply).
    unsafe fn try_merge(
        &self,
        writer: &mut Writer,
        draft: &mut Draft,
        number: u64,
        work: &mut WorkColumns,
        stream: &Stream,
    ) -> Result<()> {
        let (device, before) = (&self.device, draft.layout.leaf_count);
        let twos = before.div_ceil(2);
        if before < 2 {
            return Ok(());
        }
        let merged = work.merged.reserve(device, 4 * (twos as usize + 1))?;
        let (nothing, _) = writer.pool.claim(draft.state, 0, number, false)?;
        let mut params = Merge {
            map: draft.layout.reference(draft.at(), self.leaves),
            merged: merged.ptr(),
            twos,
            fresh: nothing,
            to: draft.layout.directory(DevicePtr::NULL),
            retired: DevicePtr::NULL,
        };
        // SAFETY: there is a number for every two leaves, and one more.
        unsafe {
            self.kernels.find_merges.launch(Grid::covering(twos + 1, THREADS), &params, stream)?;
            self.sorter.enqueue_scan(merged.ptr(), twos + 1, &mut work.sums, stream)?;
        }
        let mut total = [0_u32];
        merged.read_on(4 * twos as usize, &mut total, stream)?;
        let count = u64::from(total[0]);
        if count == 0 {
            return Ok(());
        }
        params.retired = work.merge_retired.reserve(device, 8 * count as usize)?;
        let (fresh, state) = writer.pool.claim(draft.state, count, number, false)?;
        let layout = Layout::new(self.shape, before - count);
        let directory = self.directories.take(device, layout.bytes)?;
        (params.fresh, params.to) = (fresh, layout.directory(directory.ptr()));
        // SAFETY: the new directory has room for all leaves, and the pool has the new ones.
        unsafe {
            self.kernels.merge.launch(Grid::covering(LEAF_THREADS * twos, THREADS), &params, stream)?;
            self.finish_directory(&layout, params.to, &mut work.sums, stream)?;
        }
        // The memory of the old directory is for others, so the kernels that read it end first.
        stream.synchronize()?;
        if let Some(old) = draft.directory.replace(directory) {
            self.directories.put_back(old);
        }
        (draft.layout, draft.state) = (layout, state);
        draft.retired.push((params.retired, 2 * count));
        Ok(())
    }
}
