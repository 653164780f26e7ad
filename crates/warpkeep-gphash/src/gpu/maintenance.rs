//! Growth and repair of a table with a device.
//!
//! A drain kernel moves items out of the buckets of a level that the table has outgrown: it claims a slot, copies the
//! item, stores the new state, and clears the old slot. So an item is in its old slot, in its new one, or in both. If
//! the device is lost in between, the CPU finishes the moves before the table goes on.

use std::sync::atomic::Ordering;

use warpkeep_device::fault_point;
use warpkeep_image::Persist;

use crate::gpu::engine::{THREADS, WriteLock, check_fixed};
use crate::gpu::params::{DrainParams, RepairParams, Run, TableParams};
use crate::grow::Drained;
use crate::levels::{Level, Levels};
use crate::slot::{EMPTY, INSERT};
use crate::{Progress, Table, TableError};

impl<P: Persist> WriteLock<'_, P> {
    /// As [`Table::maintain`], for up to `buckets` buckets, with the device moving the items.
    pub fn maintain(&mut self, table: &Table<P>, buckets: u64) -> Result<Progress, TableError> {
        check_fixed(table)?;
        let engine = self.engine;
        let _relocation = engine.relocation_write();
        table.maintain_with(buckets, |levels, run, first, count, from_overflow| {
            self.drain(table, levels, run, first, count, from_overflow)
        })
    }

    fn drain(
        &mut self,
        table: &Table<P>,
        levels: &Levels,
        run: &Level,
        first: u64,
        count: u64,
        from_overflow: bool,
    ) -> Result<Drained, TableError> {
        let engine = self.engine;
        let image = engine.image.cover()?;
        let workspace = &mut *self.workspace;
        let counters = workspace.columns.counters.put(engine.device(), &[0_u64; 3], &workspace.stream)?;
        let params = DrainParams {
            table: TableParams::new(table, levels, image),
            run: Run::from(run),
            first,
            count,
            moved: counters,
            overflowed: counters.offset(8),
            unplaced: counters.offset(16),
        };
        // Readers probe the overflow from now on: the kernel may put items there.
        let at_most = count * table.shape.slots() as u64;
        table.in_overflow.fetch_add(at_most, Ordering::AcqRel);
        // SAFETY: the run has `count` buckets from `first` on, the counters stay until `take` has synchronised the
        // stream, and the relocation lock keeps kernels from probing while items move.
        let launched =
            unsafe { workspace.launch(&engine.kernels.maintenance()?.drain, 32 * count, THREADS, &params) };
        let counted: Result<Vec<u64>, _> =
            launched.and_then(|()| workspace.columns.counters.take(3, &workspace.stream));
        let counted = counted.inspect_err(|_| table.finish_moves(levels))?;
        let [moved, overflowed, unplaced] = counted[..] else { unreachable!("three were taken") };
        let out_of_overflow = if from_overflow { moved + overflowed } else { 0 };
        table.in_overflow.fetch_add(overflowed, Ordering::AcqRel);
        table.in_overflow.fetch_sub(at_most + out_of_overflow, Ordering::AcqRel);
        Ok(Drained { stuck: unplaced })
    }

    /// Clears claimed slots in all levels, as [`Table::attach`] does on the CPU. Returns the numbers of items and of
    /// cleared slots.
    pub fn scan_for_repair(&mut self, table: &Table<P>) -> Result<(u64, u64), TableError> {
        let engine = self.engine;
        let image = engine.image.cover()?;
        let _relocation = engine.relocation_write();
        let guard = &table.heap.pin();
        let levels = table.levels(guard);
        let workspace = &mut *self.workspace;
        let counters = workspace.columns.counters.put(engine.device(), &[0_u64; 2], &workspace.stream)?;
        for run in table.runs(levels) {
            let params = RepairParams {
                table: TableParams::new(table, levels, image),
                run: Run::from(run),
                items: counters,
                cleared: counters.offset(8),
            };
            let slots = run.buckets * table.shape.slots() as u64;
            // SAFETY: the run has as many slots, the counters stay until `take` has synchronised the stream, and the
            // relocation lock keeps other kernels away.
            unsafe { workspace.launch(&engine.kernels.maintenance()?.repair, slots, THREADS, &params)? };
        }
        let counted: Vec<u64> = workspace.columns.counters.take(2, &workspace.stream)?;
        let [items, cleared] = counted[..] else { unreachable!("two were taken") };
        Ok((items, cleared))
    }
}

impl<P: Persist> Table<P> {
    /// Finishes the moves of a lost device: clears claimed slots, and the old slot of an item that is in two. Opening
    /// a table does the same, but this table stays open: without it, a key that is changed now and moved later would
    /// be found with its former value as well. The caller holds the write lock.
    pub(super) fn finish_moves(&self, levels: &Levels) {
        if fault_point!("recover.finish_moves") {
            return;
        }
        let image = self.image();
        let outgoing: Vec<u64> = levels.outgoing().map(|run| run.offset).collect();
        let overflows: Vec<u64> = levels.overflows().map(|run| run.offset).collect();
        let mut in_overflow = 0;
        for run in self.runs(levels) {
            let is_outgoing = outgoing.contains(&run.offset);
            let is_overflow = overflows.contains(&run.offset);
            for bucket in run.iter(&self.shape) {
                for slot in 0..self.shape.slots() {
                    let state = bucket.state(slot);
                    if state == EMPTY {
                        continue;
                    }
                    if state == INSERT || is_outgoing && self.is_elsewhere(levels, bucket, slot, state) {
                        let at = bucket.slot(&self.shape, slot).state;
                        image.store(at, EMPTY);
                        image.flush("gphash.finish_moves", at, 8);
                    } else {
                        in_overflow += u64::from(is_overflow);
                    }
                }
            }
        }
        image.fence("gphash.finish_moves");
        self.in_overflow.store(in_overflow, Ordering::Release);
    }
}
