//! A TurboHash table in memory, filled and emptied by number.

use std::path::Path;
use std::sync::Arc;

use warpkeep_core::{KeySpec, MergeRule, Seed, ValueSpec, mix64};
use warpkeep_image::{
    Coherent, DEFAULT_CHUNK, Format, Heap, HeapOptions, Image, MIN_CHUNK, PlainMemory, Surroundings,
};
use warpkeep_turbohash::{Progress, Table, TableError, TableSpec};

use crate::BenchError;

/// Items as in the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// Keys and values of 8 bytes each.
    Sixteen,
    /// Keys and values of 15 bytes each.
    Thirty,
}

impl Size {
    pub(super) const ALL: [Size; 2] = [Size::Sixteen, Size::Thirty];

    pub(super) fn name(self) -> &'static str {
        match self {
            Size::Sixteen => "16-byte items",
            Size::Thirty => "30-byte items",
        }
    }

    /// Bytes of a key, and of a value.
    pub(super) fn cell(self) -> usize {
        match self {
            Size::Sixteen => 8,
            Size::Thirty => 15,
        }
    }

    /// Slots of a bucket that items can be in; there is one more.
    fn usable(self) -> u64 {
        match self {
            Size::Sixteen => 8,
            Size::Thirty => 13,
        }
    }

    /// Bytes that an item takes, at the most, while its shard is built anew as well.
    fn bytes(self) -> u64 {
        match self {
            Size::Sixteen => 3 * 48,
            Size::Thirty => 3 * 36 + 48,
        }
    }

    fn specs(self) -> Result<(KeySpec, ValueSpec), BenchError> {
        let cell = self.cell() as u32;
        let specs = match self {
            Size::Sixteen => Ok((KeySpec::U64, ValueSpec::U64)),
            Size::Thirty => KeySpec::fixed(cell).and_then(|key| Ok((key, ValueSpec::fixed(cell)?))),
        };
        Ok(specs.map_err(warpkeep::Error::from)?)
    }
}

/// A table of numbered items.
pub(super) struct Items {
    pub(super) table: Table<Coherent>,
    size: Size,
    seed: Seed,
}

impl Items {
    /// An empty table of about `slots` slots, in memory for `most` items. Its shards have 128 buckets, as those of
    /// large tables do: in smaller ones chance would fill some long before the others.
    pub(super) fn new(size: Size, slots: u64, most: u64, seed: u64) -> Result<Items, BenchError> {
        const BUCKETS: u64 = 128;
        let in_shard = BUCKETS * (size.usable() + 1);
        let shards = (slots as f64 / in_shard as f64).round().max(1.0) as u32;
        // As many as take more than 64 buckets a shard, and no more than 128.
        let capacity = u64::from(shards) * BUCKETS * size.usable() * 8 / 10;
        let chunk_size = if most < 1 << 20 { MIN_CHUNK } else { DEFAULT_CHUNK };
        let bytes = (most * size.bytes() + 128 * chunk_size).next_multiple_of(chunk_size);
        let memory = PlainMemory::new(16 * chunk_size, bytes);
        let format = Format { store_id: [1; 16], chunk_size, hash_seed: seed };
        let image =
            Image::format(Arc::new(memory), Coherent, Path::new("memory"), &format, Surroundings::default())?;
        image.begin(1)?;
        let heap = Heap::recover::<TableError>(&Arc::new(image), HeapOptions::default(), |_| Ok(()))?;
        let (key, value) = size.specs()?;
        let spec = TableSpec { key, value, capacity, shards, merge: MergeRule::None, seed: Seed(seed) };
        let table = Table::create(&Arc::new(heap), &spec)?;
        Ok(Items { table, size, seed: Seed(seed).derive(1) })
    }

    /// The key of a number.
    pub(super) fn key(&self, number: u64) -> Vec<u8> {
        let word = mix64(self.seed, number).to_le_bytes();
        word.into_iter().cycle().take(self.size.cell()).collect()
    }

    /// Items as a share of all slots.
    pub(super) fn load(&self) -> f64 {
        self.table.len() as f64 / self.table.slots() as f64
    }

    /// Puts an item. A shard without a place is rid of deleted slots, or grows.
    pub(super) fn put(&self, number: u64) -> Result<(), BenchError> {
        let key = self.key(number);
        let lock = self.table.lock_key(&key);
        loop {
            let mut stage = self.table.stage([lock]);
            let seat = stage.seat(&key, lock);
            match stage.put(&seat, &key, &key, 1) {
                Ok(()) => {
                    stage.publish();
                    return Ok(());
                }
                Err(TableError::Full) => {
                    let seen = stage.seen();
                    drop(stage);
                    self.table.make_room(seen)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Removes an item.
    pub(super) fn remove(&self, number: u64) {
        let key = self.key(number);
        let lock = self.table.lock_key(&key);
        let mut stage = self.table.stage([lock]);
        let seat = stage.seat(&key, lock);
        stage.remove(&seat);
        stage.publish();
    }

    /// Does the work of a store's background thread, to the end.
    pub(super) fn maintain(&self) -> Result<(), BenchError> {
        while self.table.wants_maintenance() && self.table.maintain(4096)? == Progress::Working {}
        Ok(())
    }
}
