//! Kinds of tables, and the simplest way to write to one.

use warpkeep_core::{KeySpec, MergeRule, Seed, ValueSpec};
#[allow(unused_imports, reason = "each test program uses its part")]
pub(crate) use warpkeep_suites::{get, heap, put, remove, reopen};
use warpkeep_turbohash::TableSpec;

pub(crate) const SEED: Seed = Seed(77);

pub(crate) fn spec(key: KeySpec, value: ValueSpec, shards: u32, capacity: u64) -> TableSpec {
    TableSpec { key, value, capacity, shards, merge: MergeRule::None, seed: SEED }
}

/// The kinds of slots.
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
    /// Keys of 8 bytes, values in records that lie in tiles.
    Tiled,
}

impl Kind {
    pub(crate) const ALL: [Kind; 5] =
        [Kind::Values, Kind::References, Kind::Keyed, Kind::Variable, Kind::Tiled];

    pub(crate) fn spec(self, shards: u32, capacity: u64) -> TableSpec {
        let fixed = |len| ValueSpec::fixed(len).unwrap();
        let (key, value) = match self {
            Kind::Values => (KeySpec::U64, fixed(8)),
            Kind::References => (KeySpec::U64, fixed(16)),
            Kind::Keyed => (KeySpec::fixed(20).unwrap(), fixed(16)),
            Kind::Variable => (KeySpec::variable(40).unwrap(), ValueSpec::variable(200).unwrap()),
            Kind::Tiled => (KeySpec::U64, fixed(128)),
        };
        spec(key, value, shards, capacity)
    }

    pub(crate) fn key(self, number: u64) -> Vec<u8> {
        match self {
            Kind::Values | Kind::References | Kind::Tiled => number.to_le_bytes().to_vec(),
            Kind::Keyed => format!("{number:020}").into_bytes(),
            Kind::Variable => format!("{number:0width$}", width = 1 + number as usize % 30).into_bytes(),
        }
    }

    /// A value that identifies its key.
    pub(crate) fn value(self, key: u64, version: u64) -> Vec<u8> {
        match self {
            Kind::Values => (key << 32 | version).to_le_bytes().to_vec(),
            Kind::References | Kind::Keyed => [key.to_le_bytes(), version.to_le_bytes()].concat(),
            Kind::Tiled => [key.to_le_bytes(), version.to_le_bytes()].concat().repeat(8),
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
