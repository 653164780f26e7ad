//! Growing and repairing a table with a device.

use std::sync::atomic::Ordering;

use warpkeep_image::Persist;

use super::engine::{Turn, check_fixed};
use super::params::{DrainParams, RepairParams, Run, TableParams};
use crate::grow::Drained;
use crate::levels::{Level, Levels};
use crate::{Progress, Table, TableError};

impl<P: Persist> Turn<'_, P> {
    /// A slice of what [`Table::maintain`] does, with the device moving the items.
    pub fn maintain(&mut self, table: &Table<P>, buckets: u64) -> Result<Progress, TableError> {
        check_fixed(table)?;
        let engine = self.engine;
        let _moving = engine.moving();
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
        let place = &mut *self.place;
        let counters = place.columns.counters.put(engine.device(), &[0_u64; 3], &place.stream)?;
        let params = DrainParams {
            table: TableParams::new(table, levels, image),
            run: Run::from(run),
            first,
            count,
            moved: counters,
            overflowed: counters.offset(8),
            stuck: counters.offset(16),
        };
        // Readers look into the overflow from now on: the kernel may put items there.
        let at_most = count * table.shape.slots() as u64;
        table.in_overflow.fetch_add(at_most, Ordering::AcqRel);
        // SAFETY: as for a batch; and nobody looks for items while they move.
        let launched = unsafe { place.launch(&engine.kernels.maintenance()?.drain, 32 * count, &params) };
        let counted: Result<Vec<u64>, _> =
            launched.and_then(|()| place.columns.counters.take(3, &place.stream));
        let counted = counted.inspect_err(|_| table.settle_moves(levels))?;
        let [moved, overflowed, stuck] = counted[..] else { unreachable!("three were asked for") };
        let left_overflow = if from_overflow { moved + overflowed } else { 0 };
        table.in_overflow.fetch_add(overflowed, Ordering::AcqRel);
        table.in_overflow.fetch_sub(at_most + left_overflow, Ordering::AcqRel);
        Ok(Drained { stuck })
    }

    /// Empties slots that were being filled, in all levels; gives items and slots emptied. What [`Table::attach`] does on the CPU.
    pub fn scan_for_repair(&mut self, table: &Table<P>) -> Result<(u64, u64), TableError> {
        let engine = self.engine;
        let image = engine.image.cover()?;
        let _moving = engine.moving();
        let guard = &table.heap.pin();
        let levels = table.levels(guard);
        let place = &mut *self.place;
        let counters = place.columns.counters.put(engine.device(), &[0_u64; 2], &place.stream)?;
        for run in table.runs(levels) {
            let params = RepairParams {
                table: TableParams::new(table, levels, image),
                run: Run::from(run),
                items: counters,
                cleared: counters.offset(8),
            };
            let slots = run.buckets * table.shape.slots() as u64;
            // SAFETY: as for a batch.
            unsafe { place.launch(&engine.kernels.maintenance()?.repair, slots, &params)? };
        }
        let counted: Vec<u64> = place.columns.counters.take(2, &place.stream)?;
        let [items, cleared] = counted[..] else { unreachable!("two were asked for") };
        Ok((items, cleared))
    }
}
