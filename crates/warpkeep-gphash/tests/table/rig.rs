//! A table in plain memory, and the simplest way to write to it.

use std::path::Path;
use std::sync::Arc;

use warpkeep_core::{KeySpec, MergeRule, Seed, ValueSpec};
use warpkeep_gphash::{Geometry, Layout, Table, TableError, TableSpec};
use warpkeep_image::{
    Coherent, Format, Heap, HeapOptions, Image, MIN_CHUNK, Persist, PlainMemory, Surroundings,
};

pub(crate) fn spec(key: KeySpec, value: ValueSpec, geometry: Geometry, capacity: u64) -> TableSpec {
    TableSpec {
        key,
        value,
        geometry,
        capacity,
        layout: Layout::Packed,
        merge: MergeRule::None,
        seed: Seed(77),
    }
}

pub(crate) fn default_spec(capacity: u64) -> TableSpec {
    let value = ValueSpec::fixed(16).unwrap();
    spec(KeySpec::U64, value, Geometry::default(), capacity)
}

pub(crate) fn heap(max_chunks: u64) -> Arc<Heap<Coherent>> {
    let memory = PlainMemory::new(4 * MIN_CHUNK, max_chunks * MIN_CHUNK);
    let format = Format { store_id: [1; 16], chunk_size: MIN_CHUNK, hash_seed: 7 };
    let path = Path::new("memory");
    let image = Image::format(Arc::new(memory), Coherent, path, &format, Surroundings::default()).unwrap();
    image.begin(1).unwrap();
    Arc::new(Heap::recover::<TableError>(&Arc::new(image), HeapOptions::default(), |_| Ok(())).unwrap())
}

/// Opens the table again as after a crash: nothing of the running process is left.
pub(crate) fn reopen(table: Table<Coherent>) -> Table<Coherent> {
    let (header, image) = (table.header(), {
        let heap = heap_of(&table);
        Arc::clone(heap.image())
    });
    drop(table);
    let heap = Heap::recover::<TableError>(&image, HeapOptions::default(), |marker| {
        Table::mark(&image, marker, header)
    });
    Table::attach(&Arc::new(heap.unwrap()), header).unwrap()
}

pub(crate) fn heap_of<P: Persist>(table: &Table<P>) -> Arc<Heap<P>> {
    Arc::clone(table.heap())
}

/// Puts, growing if need be; whether the key is new.
pub(crate) fn put<P: Persist>(
    table: &Table<P>,
    key: &[u8],
    value: &[u8],
    version: u64,
) -> Result<bool, TableError> {
    let hash = table.hash_of(key);
    loop {
        let mut stage = table.stage([hash]);
        let is_new = stage.current(key, hash).is_none();
        match stage.put(key, hash, value, version) {
            Ok(()) => {
                stage.publish();
                return Ok(is_new);
            }
            Err(TableError::Full) => {
                let seen = stage.seen();
                drop(stage);
                table.make_room(seen)?;
            }
            Err(error) => return Err(error),
        }
    }
}

pub(crate) fn remove<P: Persist>(table: &Table<P>, key: &[u8]) -> bool {
    let hash = table.hash_of(key);
    let mut stage = table.stage([hash]);
    let was_there = stage.remove(key, hash);
    stage.publish();
    was_there
}

pub(crate) fn get<P: Persist>(table: &Table<P>, key: &[u8]) -> Option<(u64, Vec<u8>)> {
    table.get(key, |value| (value.version(), value.to_vec()))
}
