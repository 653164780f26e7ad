//! Running such a batch.

use std::sync::atomic::Ordering;

use warpkeep_core::Op;
use warpkeep_device::{DevicePtr, Stream};
use warpkeep_image::Persist;
use warpkeep_record::RecordForm;

use super::left::sort;
use super::{StraightRows, Wrote};
use crate::bucket::Body;
use crate::gpu::engine::Turn;
use crate::gpu::mirror::For;
use crate::gpu::params::{ACT_BYTES, Came, ENROLLED_BYTES, StraightParams, TableParams};
use crate::{Table, TableError};

/// Operations of a batch are numbered with 32 bits.
const MOST: u64 = 1 << 31;

impl<P: Persist> Turn<'_, P> {
    /// Writes a batch that lies in device memory, after what is in the caller's stream, and answers there. Operation `i` that writes
    /// gives its item the version `first_version + i`. When it returns, everything is in the image. `None`, with nothing done, if
    /// this way is not open at the moment: then the batch is to be [staged](Turn::stage).
    ///
    /// Nothing is logged, so it is for tables of stores without a log.
    ///
    /// # Safety
    /// The columns are memory of this engine's device and as long as [`StraightRows`] says, and nobody else uses them meanwhile.
    pub unsafe fn write_straight(
        &mut self,
        table: &Table<P>,
        rows: &StraightRows,
        first_version: u64,
        stream: &Stream,
    ) -> Result<Option<Wrote>, TableError> {
        let (engine, count) = (self.engine, rows.count);
        let open = matches!(rows.op, Op::Put | Op::Insert | Op::Update | Op::Delete)
            && table.shape.body == Body::Packed
            && table.key.fixed_len() == Some(8)
            && count <= MOST;
        let RecordForm::Fixed { block, .. } = table.form else { return Ok(None) };
        if !open || count == 0 {
            return Ok((open && count == 0).then(Wrote::default));
        }
        let Some(mirror) = engine.mirror.join(engine, table, For::Writing(count))? else { return Ok(None) };
        let mut supply = engine.supply();
        let takes_blocks = rows.op != Op::Delete;
        if takes_blocks {
            supply.ensure(engine.device(), &engine.kernels, &mut self.place, count)?;
        }
        let guard = crossbeam_epoch::pin();
        // Items stay where they are for whoever reads; who moves them has the turn, too.
        let staying = engine.stay();
        let levels = table.levels(&guard);
        if levels.drained > 0 {
            return Ok(None);
        }
        let slots = levels.open().map(|(_, level)| level.buckets).sum::<u64>() * table.shape.slots() as u64;
        // After the blocks: they may have made the image grow.
        let params = TableParams::new(table, levels, engine.image.cover()?).reflected(mirror.params());
        let cached = mirror.rows().filter(|_| takes_blocks);
        if let Some(rows) = cached {
            engine.find_spares(&mut self.place, params, rows, &guard)?;
        }
        let mut copies = engine.level_copies();
        let Some(copied) = copies.join(engine, table, params, slots, &mut self.place)? else {
            return Ok(None);
        };
        let begun = engine.device().event()?;
        begun.record(stream)?;
        self.place.stream.wait_for(&begun)?;
        let (device, place) = (engine.device(), &mut *self.place);
        let (columns, own) = (&mut place.columns, &place.stream);
        let enrolments = (2 * count).next_power_of_two();
        let retired = supply.room(device, count)?;
        let row = 8 * table.value.max_len().div_ceil(8) as u64;
        let params = StraightParams {
            table: params,
            count,
            keys: rows.keys,
            values: rows.values,
            statuses: rows.statuses,
            first_version,
            copies: copied,
            enrolled: columns.records.zeros(device, ENROLLED_BYTES * (enrolments as usize + 1), own)?,
            enrolments,
            blocks: if takes_blocks { supply.at() } else { DevicePtr::NULL },
            acts: columns.pending.room(device, ACT_BYTES * count as usize)?,
            came: columns.counters.put(device, &[Came::default()], own)?,
            asks: columns.asks.room(device, 4 * count as usize)?,
            retired: retired.ptr(),
            rows: match cached {
                Some(_) => columns.ranks.room(device, 8 * count as usize)?,
                None => DevicePtr::NULL,
            },
            op: u32::from(rows.op as u8),
            block_len: block as u32,
            wide: u32::from((row | rows.values.address() | block).is_multiple_of(16)),
            reserved: 0,
        };
        // What is in the copies, if one of these fails, nobody knows.
        copies.outdate();
        let parts = block / if params.wide == 1 { 16 } else { 8 };
        // Whole tiles, the first of which may have begun before.
        let written = table.form.tile().map_or(count, |tile| count + 2 * tile.blocks());
        // SAFETY: the caller's promise; the other columns are as long as the kernels take them to be, and are not touched until they
        // are done. The turn keeps other writers away.
        let came: Vec<Came> = unsafe {
            place.launch(&engine.kernels.enrol, count, &params)?;
            place.launch(&engine.kernels.decide, count, &params)?;
            if takes_blocks {
                place.launch(&engine.kernels.write, written * parts, &params)?;
            }
            if let Some(rows) = cached {
                engine.follow(place, &params, rows)?;
            }
            place.launch(&engine.kernels.commit, count, &params)?;
            place.columns.counters.take(1, &place.stream)?
        };
        let came = came[0];
        copies.confirm(table);
        drop(copies);
        supply.used(if takes_blocks { came.acts } else { 0 });
        supply.retire(retired, came.retired, &guard);
        if let Some(rows) = cached {
            rows.took(came.rows);
        }
        drop((supply, staying, guard));
        mirror.count(came.created);
        table.items.fetch_add(came.created as i64 - came.removed as i64, Ordering::Relaxed);
        let mut wrote = Wrote {
            created: came.created,
            replaced: came.acts - came.created - came.removed,
            removed: came.removed,
            by_cpu: came.asked,
        };
        if came.asked > 0 {
            let mut left: Vec<u32> = place.columns.asks.take(came.asked as usize, &place.stream)?;
            sort(&mut left);
            // SAFETY: the caller's promise.
            unsafe { self.do_left(table, rows, first_version, &left, &mut wrote)? };
        }
        Ok(Some(wrote))
    }
}
