//! A table in plain memory for tests of private parts.

use std::path::Path;
use std::sync::Arc;

use warpkeep_core::{KeySpec, MergeRule, Seed, ValueSpec};
use warpkeep_image::{Coherent, Format, Heap, HeapOptions, Image, MIN_CHUNK, PlainMemory, Surroundings};

use crate::{Table, TableError, TableSpec};

pub(crate) const SEED: Seed = Seed(7);

/// A table of one shard with 8-byte keys and values of `value` bytes.
pub(crate) fn table(value: u32, capacity: u64) -> Table<Coherent> {
    let memory = PlainMemory::new(4 * MIN_CHUNK, 1000 * MIN_CHUNK);
    let format = Format { store_id: [1; 16], chunk_size: MIN_CHUNK, hash_seed: 7 };
    let path = Path::new("memory");
    let image = Image::format(Arc::new(memory), Coherent, path, &format, Surroundings::default()).unwrap();
    image.begin(1).unwrap();
    let heap = Heap::recover::<TableError>(&Arc::new(image), HeapOptions::default(), |_| Ok(())).unwrap();
    let value = ValueSpec::fixed(value).unwrap();
    let spec =
        TableSpec { key: KeySpec::U64, value, capacity, shards: 1, merge: MergeRule::None, seed: SEED };
    Table::create(&Arc::new(heap), &spec).unwrap()
}

pub(crate) fn put(table: &Table<Coherent>, key: u64, value: &[u8]) {
    let (key, lock) = (key.to_le_bytes(), table.lock_key(&key.to_le_bytes()));
    let mut stage = table.stage([lock]);
    let seat = stage.seat(&key, lock);
    stage.put(&seat, &key, value, seat.version().unwrap_or(0) + 1).unwrap();
    stage.publish();
}

pub(crate) fn remove(table: &Table<Coherent>, key: u64) {
    let (key, lock) = (key.to_le_bytes(), table.lock_key(&key.to_le_bytes()));
    let mut stage = table.stage([lock]);
    let seat = stage.seat(&key, lock);
    assert!(stage.remove(&seat));
    stage.publish();
}
