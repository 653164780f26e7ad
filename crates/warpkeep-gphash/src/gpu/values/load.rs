//! Loading: the hottest keys get rows, while batches of gets go on.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use warpkeep_device::DevicePtr;
use warpkeep_image::Persist;

use super::rows::{Plan, Rows};
use super::{Heat, ValueRoom, ValuesReport, ValuesStats};
use crate::gpu::engine::{DeviceEngine, Turn, Workplace, check_fixed};
use crate::gpu::mirror::For;
use crate::gpu::params::{
    CHOICE_BYTES, ChooseParams, FillParams, GetParams, HEATS, MIRROR_ENTRIES, ReleaseParams, SpareParams,
    TableParams, WeighParams,
};
use crate::gpu::regions::Division;
use crate::{Table, TableError};

/// Rows that are filled at once, at the most: their records are read in the order of their addresses.
const AT_ONCE: u64 = 1 << 20;
/// Bytes that are needed for each of them meanwhile.
const SCRATCH: u64 = 64;
/// Regions that they are put in the order of, at the most: the host lines them up.
const MOST_REGIONS: u64 = 1 << 15;

impl<P: Persist> DeviceEngine<P> {
    /// Begins to count, anew, which keys are asked for: [`DeviceEngine::load_values`] goes by it, and ends it. Gets take a little longer
    /// meanwhile. Gives whether it is counted: not without a [mirror](DeviceEngine::load_mirror), nor without memory for it.
    pub fn learn_values(&self, table: &Table<P>) -> Result<bool, TableError> {
        check_fixed(table)?;
        let _turn = self.turn();
        let Some(mirror) = self.mirror.join(self, table, For::Writing(0))? else { return Ok(false) };
        let heat = Heat::new(self.device(), mirror.entry_count());
        let learns = heat.is_some();
        self.mirror.state().values.heat = heat.map(Arc::new);
        Ok(learns)
    }

    /// Puts the values of the hottest keys into device memory: as many as there is room for, or as the device's memory budget allows. Those
    /// that are there and still hot stay. Batches of gets answer them from there; what is written reaches them at once. Which keys those
    /// are stays as it is until this is called again. A room of nothing gives the memory back.
    ///
    /// Waits for batches of gets that are under way, so the caller must not hold a [`Reading`](crate::gpu::Reading). Others go on
    /// meanwhile; batches that write wait. Without a [mirror](DeviceEngine::load_mirror) there are no rows.
    pub fn load_values(&self, table: &Table<P>, room: ValueRoom) -> Result<ValuesReport, TableError> {
        check_fixed(table)?;
        let begun = Instant::now();
        let mut turn = self.turn();
        // What the CPU has written is told: nobody changes entries from here on.
        if self.mirror.join(self, table, For::Writing(0))?.is_none() {
            return Ok(ValuesReport::default());
        }
        let plan = Plan::new(room, table.len(), table.key_row(), table.value);
        let Some(rows) = self.rows_for(&mut turn, table, &plan)? else {
            return Ok(ValuesReport { took: begun.elapsed(), ..ValuesReport::default() });
        };
        let filled = match self.fill_hottest(&mut turn, table, &rows) {
            // What was filled is good, and fewer rows are.
            Err(TableError::Device(error)) if error.is_out_of_memory() => 0,
            filled => filled?,
        };
        rows.begin_count()?;
        self.mirror.state().values.heat = None;
        let (cached, bytes) = (rows.cached.load(Ordering::Relaxed), rows.bytes());
        Ok(ValuesReport { rows: rows.count, cached, filled, bytes, took: begun.elapsed() })
    }

    /// How the value cache does; all zeros if there is none.
    pub fn values_stats(&self) -> Result<ValuesStats, TableError> {
        let values = self.mirror.state().values.clone();
        let stats = values.rows.map_or(Ok(ValuesStats::default()), |rows| rows.stats())?;
        Ok(ValuesStats { learnt: values.heat.map(|heat| heat.learnt()), ..stats })
    }

    /// Device memory that the [mirror](DeviceEngine::load_mirror) takes.
    pub fn mirror_bytes(&self) -> u64 {
        self.mirror.bytes()
    }

    /// Kernels that read end, and those that begin know the rows that there are now.
    fn wait_for_readers(&self) {
        drop(self.moving());
    }

    /// Rows as planned, or as near to it as memory allows; all readers know them.
    fn rows_for(
        &self,
        turn: &mut Turn<'_, P>,
        table: &Table<P>,
        plan: &Plan,
    ) -> Result<Option<Arc<Rows>>, TableError> {
        let old = self.mirror.state().values.rows.clone();
        if let Some(rows) = &old {
            if rows.suits(plan) && plan.rows > 0 {
                return Ok(old);
            }
            // Nothing leads to them when they go; and both may not fit.
            let params = self.reflected_params(table)?;
            rows.have_spares(0, 0);
            self.release(&mut turn.place, params, rows, &Release::ALL, 0)?;
            self.wait_for_readers();
            self.mirror.state().values.rows = None;
        }
        drop(old);
        let made = Rows::new(self.device(), plan)?.map(Arc::new);
        self.mirror.state().values.rows.clone_from(&made);
        Ok(made)
    }

    /// The table with its mirror as it is now.
    fn reflected_params(&self, table: &Table<P>) -> Result<TableParams, TableError> {
        let guard = &table.heap.pin();
        let params = TableParams::new(table, table.levels(guard), self.image.cover()?);
        let mirror = self.mirror.state().reflection();
        Ok(mirror.map_or(params, |mirror| params.reflected(mirror.params())))
    }

    /// Gives rows to the hottest keys; how many had none. The caller has the turn.
    fn fill_hottest(&self, turn: &mut Turn<'_, P>, table: &Table<P>, rows: &Rows) -> Result<u64, TableError> {
        let heat = self.mirror.state().values.heat.clone();
        let params = self.reflected_params(table)?;
        let entries = params.mirror.buckets * MIRROR_ENTRIES;
        let place = &mut *turn.place;
        let heat_at = heat.as_ref().map_or(DevicePtr::NULL, |heat| heat.ptr());
        let weights = place.columns.counters.zeros(self.device(), 8 * HEATS, &place.stream)?;
        let weigh = WeighParams { table: params, heat: heat_at, weights };
        // SAFETY: the mirror and the heat beside it are as long as they say, and stay until the stream is synchronised.
        unsafe { place.launch(&self.kernels.values()?.weigh, entries, &weigh)? };
        let weights: Vec<u64> = place.columns.counters.take(HEATS, &place.stream)?;
        let (enough, ties) = enough(&weights, rows.to_fill());
        let release = Release { heat: heat_at, enough, ties };
        rows.have_spares(0, 0);
        let spare = self.release(&mut turn.place, params, rows, &release, 0)?;
        rows.cached.store(rows.count - spare, Ordering::Relaxed);
        self.wait_for_readers();
        let kept = rows.count - spare;
        let mut filled = 0;
        for (coldest, hottest) in [(enough + 1, HEATS as u64 - 1), (enough, enough)] {
            loop {
                let left = rows.to_fill().saturating_sub(kept + filled);
                let some = Choose { params, heat: heat_at, entries, coldest, hottest, left };
                let done = self.fill_some(turn, table, rows, &some, filled)?;
                filled += done;
                rows.cached.store(kept + filled, Ordering::Relaxed);
                // Those that are left are for values that change.
                rows.have_spares(filled, spare);
                if done == 0 {
                    break;
                }
            }
        }
        Ok(filled)
    }

    /// Has entries lead to their records unless they are hot enough, and lists the rows that no entry leads to: how many. Readers may
    /// still be at some of those.
    pub(in crate::gpu) fn release(
        &self,
        place: &mut Workplace,
        params: TableParams,
        rows: &Rows,
        but: &Release,
        list: usize,
    ) -> Result<u64, TableError> {
        rows.used.fill_on(0, rows.used.len(), 0, &place.stream)?;
        let counters = place.columns.counters.zeros(self.device(), 16, &place.stream)?;
        let release = ReleaseParams {
            table: params,
            heat: but.heat,
            enough: but.enough,
            ties: but.ties,
            tied: counters,
            used: rows.used.ptr(),
        };
        let spare = SpareParams {
            count: rows.count,
            used: rows.used.ptr(),
            spare_count: counters.offset(8),
            spares: rows.list(list),
        };
        // Those that can still be used are not to be had from two lists.
        let (held, held_count) = rows.spare();
        let hold = SpareParams { count: held_count, spares: held, ..spare };
        let entries = params.mirror.buckets * MIRROR_ENTRIES;
        // SAFETY: the lists have a word for each row, the heat a byte for each entry, and all of it stays until the stream is synchronised.
        let counted: Vec<u64> = unsafe {
            place.launch(&self.kernels.values()?.release, entries, &release)?;
            place.launch(&self.kernels.values()?.hold, held_count, &hold)?;
            place.launch(&self.kernels.values()?.spare, rows.count, &spare)?;
            place.columns.counters.take(2, &place.stream)?
        };
        Ok(counted[1])
    }

    /// Gives the next spare rows to some of the entries; how many. Nobody reads those rows.
    fn fill_some(
        &self,
        turn: &mut Turn<'_, P>,
        table: &Table<P>,
        rows: &Rows,
        some: &Choose,
        filled: u64,
    ) -> Result<u64, TableError> {
        let Some(fill) = self.choose(&mut turn.place, table, rows, some, filled)? else { return Ok(0) };
        // SAFETY: the lists are as long as the kernel takes them to be, and stay until the stream is synchronised, which follows; so do the
        // records, because the turn keeps others from replacing them. Nobody reads rows that no entry leads to.
        unsafe { turn.place.launch(&self.kernels.values()?.fill, fill.count, &fill)? };
        turn.place.stream.synchronize()?;
        Ok(fill.count)
    }

    /// Chooses some of the entries, in the order of their records; they get the spare rows from `filled` on.
    pub(in crate::gpu) fn choose(
        &self,
        place: &mut Workplace,
        table: &Table<P>,
        rows: &Rows,
        some: &Choose,
        filled: u64,
    ) -> Result<Option<FillParams>, TableError> {
        let device = self.device();
        let room = some.left.min(AT_ONCE).min((device.budget_left() / SCRATCH).max(32));
        if room == 0 || some.coldest > some.hottest {
            return Ok(None);
        }
        let (columns, stream) = (&mut place.columns, &place.stream);
        // A few are put in order by a few regions.
        let regions = room.next_power_of_two().clamp(64, MOST_REGIONS) as u32;
        let division = Division::into(table.image().len(), regions);
        let choose = ChooseParams {
            table: some.params,
            heat: some.heat,
            coldest: some.coldest,
            hottest: some.hottest,
            room,
            chosen: columns.counters.zeros(device, 8, stream)?,
            choices: columns.pending.room(device, CHOICE_BYTES * room as usize)?,
            ranks: columns.ranks.room(device, 4 * room as usize)?,
            regions: division.zeros(device, &mut columns.regions, stream)?,
        };
        // SAFETY: there is room for as many as are chosen, and all of it stays until the stream is synchronised.
        unsafe { place.launch(&self.kernels.values()?.choose, some.entries, &choose)? };
        let (columns, stream) = (&mut place.columns, &place.stream);
        let chosen: Vec<u64> = columns.counters.take(1, stream)?;
        let count = chosen[0].min(room);
        if count == 0 {
            return Ok(None);
        }
        // With the head and what is behind them, which have no counts.
        let mut begins: Vec<u32> = columns.regions.take(division.bytes() / 4, stream)?;
        let mut begin = 0;
        for region in &mut begins {
            begin += std::mem::replace(region, begin);
        }
        let row = 8 * table.value.max_len().div_ceil(8) as u64;
        let fill = FillParams {
            get: GetParams {
                table: some.params,
                count,
                keys: DevicePtr::NULL,
                statuses: DevicePtr::NULL,
                versions: DevicePtr::NULL,
                values: some.params.mirror.values.rows,
            },
            count,
            choices: choose.choices,
            ranks: choose.ranks,
            regions: division.at(columns.regions.put(device, &begins, stream)?),
            ordered: columns.fetchings.room(device, CHOICE_BYTES * count as usize)?,
            spares: rows.list(0).offset(4 * filled),
            wide: u64::from((row | table.form.value_step()).is_multiple_of(16)),
        };
        // SAFETY: the lists are as long as the kernel takes them to be, and whoever fills rows synchronises the stream.
        unsafe { place.launch(&self.kernels.values()?.order, count, &fill)? };
        Ok(Some(fill))
    }
}

/// Which entries go on leading to rows: those that are hotter than this, and so many of those that are just as hot.
pub(in crate::gpu) struct Release {
    heat: DevicePtr,
    enough: u64,
    ties: u64,
}

impl Release {
    /// None.
    pub(in crate::gpu) const ALL: Release = Release { heat: DevicePtr::NULL, enough: HEATS as u64, ties: 0 };
    /// All of them.
    pub(super) const NONE: Release = Release { heat: DevicePtr::NULL, enough: 0, ties: u64::MAX };
}

/// Entries that are to get rows.
pub(in crate::gpu) struct Choose {
    pub(in crate::gpu) params: TableParams,
    pub(in crate::gpu) heat: DevicePtr,
    /// Entries of the mirror.
    pub(in crate::gpu) entries: u64,
    /// How hot they are, both included.
    pub(in crate::gpu) coldest: u64,
    pub(in crate::gpu) hottest: u64,
    /// How many, at the most.
    pub(in crate::gpu) left: u64,
}

/// How hot is enough for one of so many rows, given how many entries are how hot: those that are hotter have one, and so many of those
/// that are just as hot.
fn enough(weights: &[u64], rows: u64) -> (u64, u64) {
    let mut hotter = 0;
    for (heat, &count) in weights.iter().enumerate().rev() {
        if hotter + count > rows {
            return (heat as u64, rows - hotter);
        }
        hotter += count;
    }
    (0, rows)
}

#[cfg(test)]
mod tests {
    use super::enough;

    #[test]
    fn the_hottest_have_rows() {
        let weights = [100, 20, 5, 3];
        assert_eq!(enough(&weights, 0), (3, 0));
        assert_eq!(enough(&weights, 3), (2, 0));
        assert_eq!(enough(&weights, 6), (2, 3));
        assert_eq!(enough(&weights, 50), (0, 22));
        // There are fewer items than rows.
        assert_eq!(enough(&weights, 500), (0, 500));
        assert_eq!(enough(&[0; 4], 7), (0, 7));
    }
}
