//! Batches that change a map in device memory: a new version out of the newest one.

use std::sync::Arc;

use warpkeep_device::{Buffer, DevicePtr, Grid, Result, Stream};

use super::columns::{PairColumns, Planned, Staged, WorkColumns};
use super::fill::fills;
use super::kernels::{
    BATCH_TOTALS, ChangeSums, Changes, Gather, Groups, KEEP_LEAVES, Keep, LEAF_WRITERS, Merge, Rewrite, Size,
    SortedBatch, THREADS, Work,
};
use super::op::OrderedStatus;
use super::pool::{LEAST_SPARE, NoRoom as _, PoolState, too_large};
use super::reads::Pairs;
use super::retired::SweepColumns;
use super::tree::{Tree, Writer};
use super::version::{Layout, Version};
use crate::ContainerError;
use crate::batch_columns::settled;
use crate::batch_plan::{BatchPlan, HOST_PLANS};

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
pub(super) struct Draft {
    pub(super) layout: Layout,
    pub(super) directory: Option<Buffer>,
    pub(super) length: u64,
    pub(super) state: PoolState,
    /// Leaves that are no longer used.
    pub(super) retired: Vec<(DevicePtr, u64)>,
    /// The directory before neighbours were merged, which kernels read until the stream is synchronised.
    pub(super) unmerged: Option<Buffer>,
}

impl Draft {
    pub(super) fn at(&self) -> DevicePtr {
        self.directory.as_ref().map_or(DevicePtr::NULL, Buffer::ptr)
    }
}

/// The changes of a batch as kernels leave them, which the host has not counted.
struct Gathered {
    batch: SortedBatch,
    /// With as many as there can be.
    changes: Changes,
    sums: ChangeSums,
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
    /// Works a planned batch, and waits for it. All of it is done, or, with an error, nothing. `fetch` gets the number
    /// of pairs of ragged ranges, and enqueues what the caller does with the answers before the batch is done: so that
    /// one wait is for both, and nothing is done if it fails.
    ///
    /// # Safety
    /// The columns are as long as `staged` and the plan say, and no other code uses them meanwhile.
    pub(super) unsafe fn apply(
        &self,
        staged: &Staged,
        planned: Planned,
        pairs: Pairs,
        memory: &mut Memory<'_>,
        stream: &Stream,
        fetch: impl FnOnce(u64, &mut PairColumns) -> Result<()>,
    ) -> Result<(), ContainerError> {
        self.writing(stream, |writer| {
            // SAFETY: the caller's promise.
            unsafe { self.try_apply(writer, staged, planned, pairs, memory, stream, fetch) }
        })
    }

    /// As [`apply`](Self::apply), of a batch that only reads: it waits for no other batch.
    ///
    /// # Safety
    /// As [`apply`](Self::apply).
    pub(super) unsafe fn apply_reads(
        &self,
        staged: &Staged,
        planned: Planned,
        memory: &mut Memory<'_>,
        stream: &Stream,
        fetch: impl FnOnce(u64, &mut PairColumns) -> Result<()>,
    ) -> Result<(), ContainerError> {
        let version = self.current();
        let read = || {
            // SAFETY: the caller's promise; the version is there until the stream is synchronised.
            let gathered = unsafe { self.work(&version, staged, planned, memory.work, stream)? };
            let mut ragged = 0;
            if !staged.counts.is_null() {
                let batch = &gathered.batch;
                // SAFETY: as above.
                ragged = unsafe {
                    self.read_around(&version, batch, staged, Pairs::Ragged, memory.pairs, stream)?
                };
            }
            fetch(ragged, memory.pairs)?;
            Ok(stream.synchronize()?)
        };
        settled(read(), stream)
    }

    /// As [`apply`](Self::apply), but after an error kernels may still run.
    ///
    /// # Safety
    /// As [`apply`](Self::apply), until the stream is synchronised.
    #[allow(clippy::too_many_arguments, reason = "the columns of a batch, and what it does with its answers")]
    unsafe fn try_apply(
        &self,
        writer: &mut Writer,
        staged: &Staged,
        planned: Planned,
        pairs: Pairs,
        memory: &mut Memory<'_>,
        stream: &Stream,
        fetch: impl FnOnce(u64, &mut PairColumns) -> Result<()>,
    ) -> Result<(), ContainerError> {
        if writer.is_open {
            return Err(ContainerError::BeingWritten);
        }
        self.collect(writer, memory.sweep, stream)?;
        let version = self.current();
        let mut planned = planned;
        // Only here the number of runs decides what is to be done.
        if !planned.runs_at.is_null() && fills(&version, staged, planned.plan.runs) {
            // SAFETY: the caller's promise.
            let runs = unsafe { memory.work.runs(planned.runs_at, &self.device, stream)? };
            planned = Planned::of(BatchPlan { runs, ..planned.plan });
        }
        if fills(&version, staged, planned.plan.runs) {
            // SAFETY: the caller's promise.
            unsafe {
                let fetch = || fetch(0, memory.pairs);
                self.fill(writer, version, staged, &planned.plan, stream, fetch)?;
            }
            return Ok(());
        }
        // SAFETY: the caller's promise, as below.
        let gathered = unsafe { self.work(&version, staged, planned, memory.work, stream)? };
        let mut ragged = 0;
        if !staged.counts.is_null() {
            let batch = &gathered.batch;
            // SAFETY: as above.
            ragged = unsafe { self.read_around(&version, batch, staged, pairs, memory.pairs, stream)? };
        }
        // SAFETY: as above.
        let grouped = unsafe { self.group(&version, &gathered, memory.work, stream)? };
        if grouped.groups.count == 0 {
            fetch(ragged, memory.pairs)?;
            return Ok(stream.synchronize()?);
        }
        let length = version.length.wrapping_add_signed(grouped.delta);
        if length > MOST_KEYS {
            return Err(too_large("keys", length, MOST_KEYS));
        }
        let number = version.number + 1;
        // SAFETY: as above.
        let mut draft = unsafe { self.draft(writer, &version, &grouped, number, memory.work, stream)? };
        draft.length = length;
        if !staged.only_inserts() {
            // SAFETY: as above.
            unsafe { self.merge_neighbours(writer, &mut draft, number, memory.work, stream)? };
        }
        let Draft { layout, directory, length, state, retired, unmerged } = draft;
        let next = Version::new(number, length, layout, directory, self.directories.clone());
        fetch(ragged, memory.pairs)?;
        // The batch is no pin of the version that it replaces.
        drop::<Arc<Version>>(version);
        // SAFETY: the lists are as long as the kernels were told, and their leaves are those of the version before.
        unsafe { self.commit(writer, next, state, &retired, stream)? };
        self.directories.put_back(unmerged);
        Ok(())
    }

    /// Works the operations on each key, and gathers what changes. Nothing is waited for, so all columns have room for
    /// as many changes as there can be.
    ///
    /// # Safety
    /// As [`apply`](Self::apply).
    unsafe fn work(
        &self,
        version: &Version,
        staged: &Staged,
        planned: Planned,
        work: &mut WorkColumns,
        stream: &Stream,
    ) -> Result<Gathered> {
        let Planned { plan, runs_at } = planned;
        let (device, most) = (&self.device, plan.runs as usize);
        let (key, value) = (self.shape.key_bytes(), self.shape.value_bytes());
        let mut batch = SortedBatch {
            keys: plan.sorted,
            numbers: plan.numbers,
            begins: plan.begins,
            leaves: work.leaves.reserve(device, 4 * most)?,
            slots: work.slots.reserve(device, 4 * most)?,
            runs_at,
            runs: plan.runs,
            count: staged.count as u64,
            ..SortedBatch::NONE
        };
        if !staged.counts.is_null() {
            batch.owners = work.owners.reserve(device, 4 * staged.count)?;
            batch.present = work.present.reserve(device, staged.count)?;
            batch.values = work.states.reserve(device, value * staged.count)?;
        }
        let grid = Grid::covering(plan.runs, THREADS);
        let of_sums = 2 * u64::from(grid.blocks) + 1;
        let sums = work.change_sums.reserve(device, 4 * of_sums as usize)?;
        let sums = ChangeSums { sums, blocks: grid.blocks.into() };
        let mut params = Work {
            map: self.reference(version),
            batch,
            codes: staged.codes,
            operands: staged.operands,
            statuses: staged.statuses,
            before: staged.values,
            leaves: batch.leaves,
            slots: batch.slots,
            finals: work.finals.reserve(device, value * most)?,
            sums,
            code: staged.code as u32,
            usual: 0,
        };
        let changes = Changes {
            keys: work.change_keys.reserve(device, key * most)?,
            values: work.change_values.reserve(device, value * most)?,
            leaves: work.change_leaves.reserve(device, 4 * most)?,
            slots: work.change_slots.reserve(device, 4 * most)?,
            deltas: work.deltas.reserve(device, 4 * (most + 1))?,
            count: plan.runs,
        };
        let Work { leaves, slots, finals, .. } = params;
        let gather = Gather { batch, leaves, slots, finals, sums, changes };
        // SAFETY: the caller's promise; all columns have the lengths that the kernels need. Nothing is written to the
        // caller's columns before they are there.
        unsafe {
            params.usual = self.answer_usually(staged, stream)?;
            if !staged.counts.is_null() {
                self.fill_column(staged.values, value * staged.count, stream)?;
            }
            self.kernels.work.launch(grid, &params, stream)?;
            self.sorter.enqueue_scan(sums.sums, of_sums, &mut work.sums_of_changes, stream)?;
            self.kernels.gather.launch(grid, &gather, stream)?;
        }
        Ok(Gathered { batch, changes, sums })
    }

    /// Gives all operations of a large batch the status that most will have, and the value 0 where that goes with it;
    /// gives that status, or 0 if there is none.
    ///
    /// # Safety
    /// As [`apply`](Self::apply).
    unsafe fn answer_usually(&self, staged: &Staged, stream: &Stream) -> Result<u32> {
        let Some(usual) = staged.usual().filter(|_| staged.count > HOST_PLANS) else { return Ok(0) };
        let count = staged.count;
        // SAFETY: the columns have an element for each operation, or are not there.
        unsafe {
            if !staged.statuses.is_null() {
                self.device.fill_raw(staged.statuses, count, usual as u8, stream)?;
            }
            if !staged.values.is_null() && usual == OrderedStatus::Inserted {
                self.device.fill_raw(staged.values, self.shape.value_bytes() * count, 0, stream)?;
            }
        }
        Ok(usual as u32)
    }

    /// Groups the changes by leaf, finds how many leaves each becomes, and waits for it.
    ///
    /// # Safety
    /// As [`apply`](Self::apply).
    unsafe fn group(
        &self,
        version: &Version,
        gathered: &Gathered,
        work: &mut WorkColumns,
        stream: &Stream,
    ) -> Result<Grouped> {
        let Gathered { mut changes, sums, .. } = *gathered;
        let (device, most) = (&self.device, changes.count as usize);
        let most_groups = most.min(version.layout.leaf_count.max(1) as usize);
        let outs = work.outs.reserve(device, 4 * (most_groups + BATCH_TOTALS))?;
        let begins = work.begins.reserve(device, 4 * most)?;
        let mut groups = Groups {
            map: self.reference(version),
            changes,
            begins,
            leaves: work.group_leaves.reserve(device, 4 * most_groups)?,
            count: most_groups as u64,
            outs: outs.ptr(),
            retired: work.retired.reserve(device, 4 * most_groups)?,
        };
        let grid = Grid::covering(groups.count + 1, THREADS);
        // SAFETY: there is a leaf for each change that there can be, and the columns have room for all groups.
        unsafe {
            let runs =
                self.sorter.enqueue_runs::<u32>(changes.leaves, most, begins, &mut work.search, stream)?;
            self.kernels.size.launch(grid, &Size { groups, sums, runs }, stream)?;
            self.sorter.enqueue_scan(outs.ptr(), groups.count + 1, &mut work.sums, stream)?;
        }
        let mut totals = [0_u32; BATCH_TOTALS];
        outs.read_on(4 * most_groups, &mut totals, stream)?;
        let [outs, of_groups, of_changes, delta] = totals;
        (groups.count, changes.count) = (of_groups.into(), of_changes.into());
        groups.changes = changes;
        Ok(Grouped { groups, outs: outs.into(), delta: i64::from(delta as i32) })
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
        work: &mut WorkColumns,
        stream: &Stream,
    ) -> Result<Draft> {
        let Grouped { groups, outs, delta } = *grouped;
        let sources = work.sources.reserve(&self.device, 4 * outs as usize)?;
        let before = version.layout.leaf_count;
        let layout = Layout::new(self.shape, before.max(1) - groups.count + outs);
        let grows = delta > 0 || layout.leaf_count > before;
        let (fresh, state) = writer.pool.claim(writer.pool.state, outs, number, grows)?;
        self.reserve_retired(writer, groups.count, grows, stream)?;
        let retired = if before > 0 { vec![(groups.retired, groups.count)] } else { Vec::new() };
        let mut draft = Draft { layout, directory: None, length: 0, state, retired, unmerged: None };
        if layout.leaf_count == 0 {
            return Ok(draft);
        }
        draft.directory = Some(match grows {
            true => self.directories.take_with_spare(&self.device, layout.bytes)?,
            false => self.directories.take(&self.device, layout.bytes)?,
        });
        let to = layout.directory(draft.at());
        let keep = Keep { groups, to, sources };
        let blocks = before.div_ceil(KEEP_LEAVES).max(1) as u32;
        let rewrite = Rewrite { groups, fresh, to, count: outs, sources };
        // SAFETY: the directory has room for all leaves, the pool has the new ones, and there is a source for each of
        // these.
        unsafe {
            self.kernels.keep.launch(Grid { blocks, threads: THREADS, shared_bytes: 0 }, &keep, stream)?;
            self.kernels.rewrite.launch(Grid::covering(LEAF_WRITERS * outs, THREADS), &rewrite, stream)?;
        }
        Ok(draft)
    }

    /// Has room for the leaves that a batch replaces, in case snapshots need them, and if the map grows, for those of a later batch that
    /// removes keys.
    pub(super) fn reserve_retired(
        &self,
        writer: &mut Writer,
        count: u64,
        grows: bool,
        stream: &Stream,
    ) -> Result<()> {
        let spare = if grows { LEAST_SPARE } else { 0 };
        writer.pool.retired.reserve(count + spare, &self.device, stream)
    }

    /// Makes one leaf of neighbours that have few pairs together. Without memory for that they stay as they are.
    ///
    /// # Safety
    /// As [`apply`](Self::apply).
    pub(super) unsafe fn merge_neighbours(
        &self,
        writer: &mut Writer,
        draft: &mut Draft,
        number: u64,
        work: &mut WorkColumns,
        stream: &Stream,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        match unsafe { self.try_merge(writer, draft, number, work, stream) } {
            Err(error) if error.is_no_room() => Ok(()),
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
        let retired: u64 = draft.retired.iter().map(|(_, count)| count).sum();
        self.reserve_retired(writer, retired + 2 * count, false, stream)?;
        let (fresh, state) = writer.pool.claim(draft.state, count, number, false)?;
        let layout = Layout::new(self.shape, before - count);
        let directory = self.directories.take(device, layout.bytes)?;
        (params.fresh, params.to) = (fresh, layout.directory(directory.ptr()));
        // SAFETY: the new directory has room for all leaves, and the pool has the new ones.
        unsafe {
            self.kernels.merge.launch(Grid::covering(LEAF_WRITERS * twos, THREADS), &params, stream)?;
        }
        draft.unmerged = draft.directory.replace(directory);
        (draft.layout, draft.state) = (layout, state);
        draft.retired.push((params.retired, 2 * count));
        Ok(())
    }
}
