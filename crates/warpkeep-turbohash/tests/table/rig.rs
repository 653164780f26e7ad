//! A table in plain memory, and the simplest way to write to it.

use std::path::Path;
use std::sync::Arc;

use warpkeep_core::{KeySpec, MergeRule, Seed, ValueSpec};
use warpkeep_image::{
    Coherent, Format, Heap, HeapOptions, Image, MIN_CHUNK, Persist, PlainMemory, Surroundings,
};
use warpkeep_turbohash::{Table, TableError, TableSpec};

pub(crate) const SEED: Seed = Seed(77);

pub(crate) fn spec(key: KeySpec, value: ValueSpec, shards: u32, capacity: u64) -> TableSpec {
    TableSpec { key, value, capacity, shards, merge: MergeRule::None, seed: SEED }
}

/// What slots can look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Keys of 8 bytes, values in the slots.
    Values,
    /// Keys of 8 bytes, values in records.
    References,
    /// Keys and values in records.
    Keyed,
    /// The same, of any length.
    Variable,
}

impl Kind {
    pub(crate) const ALL: [Kind; 4] = [Kind::Values, Kind::References, Kind::Keyed, Kind::Variable];

    pub(crate) fn spec(self, shards: u32, capacity: u64) -> TableSpec {
        let fixed = |len| ValueSpec::fixed(len).unwrap();
        let (key, value) = match self {
            Kind::Values => (KeySpec::U64, fixed(8)),
            Kind::References => (KeySpec::U64, fixed(16)),
            Kind::Keyed => (KeySpec::fixed(20).unwrap(), fixed(16)),
            Kind::Variable => (KeySpec::variable(40).unwrap(), ValueSpec::variable(200).unwrap()),
        };
        spec(key, value, shards, capacity)
    }

    pub(crate) fn key(self, number: u64) -> Vec<u8> {
        match self {
            Kind::Values | Kind::References => number.to_le_bytes().to_vec(),
            Kind::Keyed => format!("{number:020}").into_bytes(),
            Kind::Variable => format!("{number:0width$}", width = 1 + number as usize % 30).into_bytes(),
        }
    }

    /// A value that says whose it is.
    pub(crate) fn value(self, key: u64, version: u64) -> Vec<u8> {
        match self {
            Kind::Values => (key << 32 | version).to_le_bytes().to_vec(),
            Kind::References | Kind::Keyed => [key.to_le_bytes(), version.to_le_bytes()].concat(),
            Kind::Variable => {
                let repeated = 1 + (key + version) as usize % 5;
                [key.to_le_bytes(), version.to_le_bytes()].concat().repeat(repeated)
            }
        }
    }

    /// Slots in a bucket, as the documentation has it.
    #[allow(dead_code, reason = "of the tests that do not crash")]
    pub(crate) fn slots(self) -> u64 {
        if self == Kind::Values { 9 } else { 14 }
    }

    /// Blocks that an item takes besides its slot.
    #[allow(dead_code, reason = "of the tests that crash")]
    pub(crate) fn blocks(self) -> u64 {
        u64::from(self != Kind::Values)
    }
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
    let (header, image) = (table.header(), Arc::clone(table.heap().image()));
    drop(table);
    let heap = Heap::recover::<TableError>(&image, HeapOptions::default(), |marker| {
        Table::mark(&image, marker, header)
    });
    Table::attach(&Arc::new(heap.unwrap()), header).unwrap()
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
        let seat = stage.seat(key, hash);
        let is_new = seat.version().is_none();
        match stage.put(&seat, key, value, version) {
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
    let seat = stage.seat(key, hash);
    let was_there = stage.remove(&seat);
    stage.publish();
    was_there
}

pub(crate) fn get<P: Persist>(table: &Table<P>, key: &[u8]) -> Option<(u64, Vec<u8>)> {
    table.get(key, |value| (value.version(), value.to_vec()))
}
