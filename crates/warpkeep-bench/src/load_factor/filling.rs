//! A table that is being filled.

use std::path::Path;
use std::sync::Arc;

use warpkeep_core::{KeySpec, MergeRule, Seed, ValueSpec, mix64};
use warpkeep_gphash::{Geometry, Layout, Progress, Table, TableError, TableSpec};
use warpkeep_image::{
    Coherent, DEFAULT_CHUNK, Format, Heap, HeapOptions, Image, MIN_CHUNK, PlainMemory, Surroundings,
};

use crate::BenchError;

/// Bytes in a chunk of the image. Every level takes whole ones, and plain memory is cleared in full when it is
/// made: a small table needs small chunks.
fn chunk_bytes(items: u64) -> u64 {
    if items < 1 << 20 { MIN_CHUNK } else { DEFAULT_CHUNK }
}

/// Memory for `items` items of 8-byte keys and values, and the levels of a growth.
pub(super) fn memory_bytes(items: u64) -> u64 {
    // A record of 24 bytes; slots of three levels while the lowest is drained, freed space, and ends of chunks.
    items * (24 + 8 * 6) * 5 / 4 + 64 * chunk_bytes(items)
}

/// When a table grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growing {
    /// Not at all.
    Never,
    /// At the first key without a slot.
    WhenFull,
    /// When it is nearly full, as a store's background thread makes it.
    Early,
}

impl Growing {
    pub(super) fn name(self) -> &'static str {
        match self {
            Growing::Never => "fresh",
            Growing::WhenFull => "grown",
            Growing::Early => "grown as a store does",
        }
    }
}

/// How full it was when it had to grow.
pub(super) struct Peak {
    pub(super) items: u64,
    pub(super) load_factor: f64,
}

/// A table, and its progress.
pub(super) struct Filling {
    table: Table<Coherent>,
    growing: Growing,
    seed: Seed,
    inserted: u64,
    /// Slots for each item of the table's reported capacity.
    slots_per_capacity: f64,
    peaks: Vec<Peak>,
}

impl Filling {
    /// A table of about `slots` slots, which does not grow.
    pub(super) fn fresh(geometry: Geometry, slots: u64, seed: u64) -> Result<Filling, BenchError> {
        // A new table fills a share of its slots that it does not report: a small one shows it.
        let share = {
            let trial = Filling::over(geometry, 20_000, 20_000, seed, Growing::Never)?;
            1.0 / trial.slots_per_capacity
        };
        Filling::over(geometry, (slots as f64 * share) as u64, slots, seed, Growing::Never)
    }

    /// A small table that grows to hold the items.
    pub(super) fn small(
        geometry: Geometry,
        items: u64,
        seed: u64,
        growing: Growing,
    ) -> Result<Filling, BenchError> {
        Filling::over(geometry, 1024, items, seed, growing)
    }

    fn over(
        geometry: Geometry,
        capacity: u64,
        items: u64,
        seed: u64,
        growing: Growing,
    ) -> Result<Filling, BenchError> {
        let chunk_size = chunk_bytes(items);
        let memory = PlainMemory::new(16 * chunk_size, memory_bytes(items).next_multiple_of(chunk_size));
        let format = Format { store_id: [1; 16], chunk_size, hash_seed: seed };
        let image =
            Image::format(Arc::new(memory), Coherent, Path::new("memory"), &format, Surroundings::default())?;
        image.begin(1)?;
        let heap = Heap::recover::<TableError>(&Arc::new(image), HeapOptions::default(), |_| Ok(()))?;
        let spec = TableSpec {
            key: KeySpec::U64,
            value: ValueSpec::U64,
            geometry,
            capacity,
            layout: Layout::Packed,
            merge: MergeRule::None,
            seed: Seed(seed),
        };
        let table = Table::create(&Arc::new(heap), &spec)?;
        let slots: u64 = table.stats().levels.iter().map(|level| level.slots).sum();
        let slots_per_capacity = slots as f64 / table.spec().capacity as f64;
        let seed = Seed(seed).derive(1);
        Ok(Filling { table, growing, seed, inserted: 0, slots_per_capacity, peaks: Vec::new() })
    }

    pub(super) fn inserted(&self) -> u64 {
        self.inserted
    }

    /// Items as a share of the slots that items can be put into.
    pub(super) fn load_factor(&self) -> f64 {
        let slots = self.table.spec().capacity as f64 * self.slots_per_capacity;
        self.table.len() as f64 / slots
    }

    /// Items in the overflow; takes a pass over the table.
    pub(super) fn in_overflow(&self) -> u64 {
        self.table.stats().overflow.iter().map(|overflow| overflow.used).sum()
    }

    /// How full it was each time it grew.
    pub(super) fn peaks(&self) -> &[Peak] {
        &self.peaks
    }

    /// Inserts `count` new keys; `false` as soon as one has no slot in a table that does not grow.
    pub(super) fn insert(&mut self, count: u64) -> Result<bool, BenchError> {
        for _ in 0..count {
            let key = mix64(self.seed, self.inserted).to_le_bytes();
            loop {
                let lock = self.table.lock_key(&key);
                let mut stage = self.table.stage([lock]);
                let seat = stage.seat(&key, lock);
                match stage.put(&seat, &key, &key, 1) {
                    Ok(()) => {
                        stage.publish();
                        break;
                    }
                    Err(TableError::Full) if self.growing == Growing::Never => return Ok(false),
                    Err(TableError::Full) => {
                        let seen = stage.seen();
                        drop(stage);
                        self.note_peak();
                        self.table.make_room(seen)?;
                        self.see_through()?;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            self.inserted += 1;
            if self.growing == Growing::Early
                && self.inserted.is_multiple_of(64)
                && self.table.wants_maintenance()
            {
                self.note_peak();
                self.table.begin_growth()?;
                self.see_through()?;
            }
        }
        Ok(true)
    }

    fn note_peak(&mut self) {
        let load_factor = self.load_factor();
        self.peaks.push(Peak { items: self.inserted, load_factor });
    }

    /// Completes a growth that was begun, so that the table is measured and not the progress of its growth.
    fn see_through(&self) -> Result<(), BenchError> {
        loop {
            match self.table.maintain(4096)? {
                Progress::Idle | Progress::Stuck => return Ok(()),
                Progress::Working | Progress::Busy => std::thread::yield_now(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_table_has_the_slots_asked_for_and_fills_up() {
        let mut filling = Filling::fresh(Geometry::default(), 50_000, 1).expect("a table");
        while filling.insert(1000).expect("room") {}
        let slots = filling.inserted() as f64 / filling.load_factor();
        assert!((slots / 50_000.0 - 1.0).abs() < 0.02, "{slots}");
        assert!(filling.load_factor() > 0.7 && filling.load_factor() < 1.0, "{}", filling.load_factor());
        assert_eq!(filling.table.len(), filling.inserted());
        assert!((filling.load_factor() - filling.table.stats().load_factor).abs() < 0.001);
    }

    #[test]
    fn one_that_grows_takes_them_all() {
        for growing in [Growing::WhenFull, Growing::Early] {
            let mut filling = Filling::small(Geometry::default(), 40_000, 1, growing).expect("a table");
            assert!(filling.insert(40_000).expect("room"));
            assert_eq!(filling.table.len(), 40_000);
            assert!(filling.peaks().len() >= 4, "{}", filling.peaks().len());
            assert!(filling.peaks().iter().all(|peak| peak.load_factor > 0.5));
        }
    }
}
