//! The mirror of an engine: kept up with what is written, made larger, given up and made again.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_epoch::Guard;
use warpkeep_device::{Device, DevicePtr};
use warpkeep_image::Persist;

use super::index::Index;
use super::reflect::Way;
use crate::gpu::change_feed::ChangeFeed;
use crate::gpu::engine::{DeviceEngine, Workplace};
use crate::gpu::params::{
    CensusParams, GONE, MirrorParams, RehashParams, Run, TableParams, TellParams, Told, VEILED,
};
use crate::gpu::values::{Heat, Rows, Values};
use crate::{Table, TableError};

/// The mirror of an engine: there, or not.
#[derive(Default)]
pub(crate) struct Mirror(Mutex<State>);

/// What changes about a mirror.
#[derive(Default)]
pub(in crate::gpu) struct State {
    /// Whether there is to be one.
    pub(super) wanted: bool,
    /// Whether keys are not to be kept beside entries.
    pub(super) without_keys: bool,
    pub(super) index: Option<Arc<Index>>,
    /// Values of some keys, and what is known of how hot keys are.
    pub(in crate::gpu) values: Values,
    feed: Option<Arc<ChangeFeed>>,
    telling: Option<Workplace>,
}

/// How many entries of a mirror are not vacant, and how many of those are not gone.
struct Counts {
    taken: u64,
    kept: u64,
}

/// A mirror in use: it stays while kernels read it, even if the engine has another by then.
#[derive(Clone)]
pub(crate) struct Reflection {
    index: Arc<Index>,
    values: Values,
}

impl Reflection {
    pub(crate) fn params(&self) -> MirrorParams {
        MirrorParams { values: self.values.params(), ..self.index.params() }
    }

    /// Whether what it says of a key is said of no other, even if that has the same hash.
    pub(crate) fn tells_keys_apart<P: Persist>(&self, table: &Table<P>) -> bool {
        hashes_are_keys(table) || self.index.key_bytes() > 0
    }

    /// So many keys that were not there have got entries.
    pub(crate) fn count(&self, filled: u64) {
        self.index.used.fetch_add(filled, Ordering::Relaxed);
    }

    /// Rows for values, if there is a value cache.
    pub(crate) fn rows(&self) -> Option<&Rows> {
        self.values.rows.as_deref()
    }

    /// Entries, whether they are vacant or not.
    pub(crate) fn entry_count(&self) -> u64 {
        self.index.entry_count()
    }

    /// Where it is counted how hot each entry is, if that is being learnt.
    pub(crate) fn heat(&self) -> Option<&Heat> {
        self.values.heat.as_deref()
    }
}

/// Who uses a mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// A batch of gets.
    Reading,
    /// A batch that may bring so many new keys, by whoever has the turn.
    Writing(u64),
}

/// Whether no two keys have one hash.
fn hashes_are_keys<P: Persist>(table: &Table<P>) -> bool {
    table.key_row_len() == Some(8)
}

impl State {
    /// The mirror as it is, for kernels.
    pub(in crate::gpu) fn reflection(&self) -> Option<Reflection> {
        self.index.clone().map(|index| Reflection { index, values: self.values.clone() })
    }

    /// Puts a mirror in place of the one that was there, or none.
    pub(super) fn replace(&mut self, index: Option<Index>, feed: &Arc<ChangeFeed>) {
        if self.index.is_some() != index.is_some() {
            feed.subscribe(index.is_some());
        }
        if index.is_none() {
            // No entry leads to a row any more, nor to what is known of it.
            self.values.forget();
        }
        self.index = index.map(Arc::new);
        self.feed = Some(Arc::clone(feed));
    }

    /// A stream for what is done between batches.
    fn workplace(&mut self, device: &Device) -> Result<&mut Workplace, TableError> {
        if self.telling.is_none() {
            self.telling = Some(Workplace::new(device)?);
        }
        Ok(self.telling.as_mut().expect("it was made just now"))
    }

    /// Makes a mirror of the items in the image. The caller has the turn; nobody reads the new one yet.
    pub(super) fn reflect<P: Persist>(
        &mut self,
        engine: &DeviceEngine<P>,
        table: &Table<P>,
        more: u64,
    ) -> Result<(), TableError> {
        let device = engine.device();
        self.replace(None, &table.changes);
        let key_words =
            (!hashes_are_keys(table) && !self.without_keys).then(|| table.key_row().div_ceil(8) as u64);
        let Some(index) = Index::with_room_for(device, table.len() + more, key_words)? else {
            // There is no sense in trying again with every batch.
            self.wanted = false;
            return Ok(());
        };
        let image = engine.image.cover()?;
        let guard = &table.heap.pin();
        let levels = table.levels(guard);
        let params = TableParams::new(table, levels, image).reflected(index.params());
        let way = Way { image_len: table.heap.image().len(), slots: table.shape.slots() as u64 };
        let runs: Vec<Run> = table.runs(levels).map(Run::from).collect();
        let made = way.reflect_all(engine, self.workplace(device)?, params, &runs);
        let items = match made {
            Err(TableError::Device(error)) if error.is_out_of_memory() => {
                self.wanted = false;
                return Ok(());
            }
            made => made?,
        };
        index.used.store(items, Ordering::Relaxed);
        self.replace(Some(index), &table.changes);
        Ok(())
    }

    /// Has room for so many keys more, or nothing. The caller has the turn; readers of the old mirror go on with that.
    fn make_room<P: Persist>(
        &mut self,
        engine: &DeviceEngine<P>,
        table: &Table<P>,
        more: u64,
    ) -> Result<(), TableError> {
        let Some(old) = self.index.clone().filter(|old| !old.has_room_for(more)) else { return Ok(()) };
        // Keys that come back get the entries that they had, and are counted again nevertheless: so it is looked how many entries there are.
        let counts = self.count_entries(engine, &old)?;
        old.used.store(counts.taken, Ordering::Relaxed);
        if old.has_room_for(more) {
            return Ok(());
        }
        // What found no place is in the image only, so the image is asked for all of it. Where keys can share a hash, nobody knows
        // which of the veiled entries still have an item.
        if !hashes_are_keys(table) || old.unplaced.to_vec::<u64>()? != [0] {
            return self.reflect(engine, table, more);
        }
        // Those of keys that are gone are left behind.
        let Some(larger) = Index::with_room_for(engine.device(), counts.kept + more, None)? else {
            self.replace(None, &table.changes);
            self.wanted = false;
            return Ok(());
        };
        let hotter = self
            .values
            .heat
            .as_ref()
            .and_then(|heat| heat.for_entries(engine.device(), larger.entry_count()));
        let params = RehashParams {
            from: old.params(),
            to: larger.params(),
            from_heat: self.values.heat.as_ref().map_or(DevicePtr::NULL, |heat| heat.ptr()),
            to_heat: hotter.as_ref().map_or(DevicePtr::NULL, Heat::ptr),
        };
        let place = self.workplace(engine.device())?;
        // SAFETY: both have as many buckets as they say, and stay until the stream is synchronised, which follows.
        unsafe { place.launch(&engine.kernels.index()?.rehash, old.entry_count(), &params)? };
        place.stream.synchronize()?;
        larger.used.store(counts.kept, Ordering::Relaxed);
        self.values.heat = hotter.map(Arc::new);
        self.replace(Some(larger), &table.changes);
        Ok(())
    }

    /// How many entries are used. Nobody changes them meanwhile.
    fn count_entries<P: Persist>(
        &mut self,
        engine: &DeviceEngine<P>,
        index: &Index,
    ) -> Result<Counts, TableError> {
        let place = self.workplace(engine.device())?;
        let counts = place.columns.counters.put(engine.device(), &[0_u64; 2], &place.stream)?;
        let params = CensusParams { mirror: index.params(), counts };
        // SAFETY: it has as many buckets as it says, and stays until the stream is synchronised, as do the counters.
        unsafe { place.launch(&engine.kernels.index()?.census, index.entry_count(), &params)? };
        let counts: Vec<u64> = place.columns.counters.take(2, &place.stream)?;
        Ok(Counts { taken: counts[0], kept: counts[1] })
    }

    /// Passes on what the CPU has written. The caller has pinned an epoch since before it took note of it, so that records are still
    /// what they were: their keys are read.
    fn tell<P: Persist>(
        &mut self,
        engine: &DeviceEngine<P>,
        table: &Table<P>,
        told: &[Told],
        guard: &Guard,
    ) -> Result<(), TableError> {
        let Some(index) = self.index.clone() else { return Ok(()) };
        let (device, image) = (engine.device(), engine.image.cover()?);
        let place = self.workplace(device)?;
        let params = TellParams {
            table: TableParams::new(table, table.levels(guard), image).reflected(index.params()),
            count: told.len() as u64,
            told: place.columns.blocks.put(device, told, &place.stream)?,
            removed: if hashes_are_keys(table) { GONE } else { VEILED },
        };
        // SAFETY: the column is as long as the kernel takes it to be and stays until it is done, as does the index. Nobody else
        // changes these entries: what a device publishes meanwhile is of other keys.
        unsafe { place.launch(&engine.kernels.index()?.tell, params.count, &params)? };
        place.stream.synchronize()?;
        let new = told.iter().filter(|one| one.record != 0).count() as u64;
        index.used.fetch_add(new, Ordering::Relaxed);
        Ok(())
    }
}

impl Mirror {
    pub(in crate::gpu) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is to be one.
    pub(crate) fn is_wanted(&self) -> bool {
        self.state().wanted
    }

    /// Whether there is a value cache.
    pub(crate) fn has_rows(&self) -> bool {
        self.state().values.rows.is_some()
    }

    /// The memory that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.state().index.as_ref().map_or(0, |index| index.bytes())
    }

    /// The mirror, up to date with what was written before; `None` if the image is to be asked.
    pub(crate) fn join<P: Persist>(
        &self,
        engine: &DeviceEngine<P>,
        table: &Table<P>,
        purpose: For,
    ) -> Result<Option<Reflection>, TableError> {
        let mut state = self.state();
        if !state.wanted {
            return Ok(None);
        }
        match state.keep_up(engine, table, purpose) {
            // Still noted, so it is done later. Whoever writes cannot go on beside it: what he publishes nobody
            // would tell it.
            Err(TableError::Device(error))
                if error.is_out_of_memory() && (purpose == For::Reading || state.index.is_none()) =>
            {
                Ok(None)
            }
            done => done.map(|good| state.reflection().filter(|_| good)),
        }
    }
}

impl State {
    /// Brings the mirror up to date; whether it is.
    fn keep_up<P: Persist>(
        &mut self,
        engine: &DeviceEngine<P>,
        table: &Table<P>,
        purpose: For,
    ) -> Result<bool, TableError> {
        // Whoever has the turn may put another mirror in its place: nobody is about to publish to this one.
        let turn = if purpose == For::Reading { engine.try_turn() } else { None };
        let may_replace = turn.is_some() || purpose != For::Reading;
        let more = if let For::Writing(more) = purpose { more } else { 0 };
        // Records that are told of are looked at.
        let guard = &table.heap.pin();
        let told = table.changes.pending().take_items();
        let (Some(told), true) = (told, self.index.is_some()) else {
            if may_replace {
                self.reflect(engine, table, more)?;
            }
            return Ok(may_replace);
        };
        let new = told.iter().filter(|one| one.record != 0).count() as u64;
        let roomy = |state: &State| state.index.as_ref().is_some_and(|index| index.has_room_for(new + more));
        let had =
            if may_replace && !roomy(self) { self.make_room(engine, table, new + more) } else { Ok(()) };
        if had.is_err() {
            table.changes.pending().put_back(told);
            return had.map(|()| false);
        }
        if told.is_empty() {
            return Ok(true);
        }
        let passed = match roomy(self) {
            true => self.tell(engine, table, &told, guard).map(|()| true),
            false => Ok(false),
        };
        if !matches!(passed, Ok(true)) {
            table.changes.pending().put_back(told);
        }
        passed
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        if let Some(feed) = self.state().feed.take() {
            feed.subscribe(false);
        }
    }
}
