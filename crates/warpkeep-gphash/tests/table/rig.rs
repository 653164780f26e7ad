//! Kinds of tables, and the simplest way to write to one.

use std::sync::Arc;

use warpkeep_core::{KeySpec, MergeRule, Seed, ValueSpec, unmix64};
use warpkeep_gphash::{Geometry, Layout, Table, TableSpec};
use warpkeep_image::{Heap, Persist};
#[allow(unused_imports, reason = "each test program uses its part")]
pub(crate) use warpkeep_suites::{get, heap, put, remove, reopen};

pub(crate) const SEED: Seed = Seed(77);

pub(crate) fn spec(key: KeySpec, value: ValueSpec, geometry: Geometry, capacity: u64) -> TableSpec {
    spec_in(Layout::Packed, key, value, geometry, capacity)
}

pub(crate) fn spec_in(
    layout: Layout,
    key: KeySpec,
    value: ValueSpec,
    geometry: Geometry,
    capacity: u64,
) -> TableSpec {
    TableSpec { key, value, geometry, capacity, layout, merge: MergeRule::None, seed: SEED }
}

pub(crate) fn default_spec(capacity: u64) -> TableSpec {
    Kind::Packed.spec(Geometry::default(), capacity)
}

/// The 8-byte keys whose fingerprints are states of another meaning.
pub(crate) const SPECIAL_KEYS: [u64; 2] = [unmix64(SEED, 0), unmix64(SEED, u64::MAX << 45)];

/// What slots can look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Packed,
    /// Packed, with keys that are not one word.
    #[allow(dead_code, reason = "of the tests of a mirror")]
    LongPacked,
    /// In place, the fingerprint is the key, the value in the slot.
    Inline,
    /// In place, with the key in the slot, the value too.
    KeyedInline,
    /// In place, with the key in the slot, the value in a record.
    Reference,
    /// Packed, with records in tiles of four.
    Tiled,
    /// The same, in tiles of two, with keys that are not one word.
    #[allow(dead_code, reason = "of the tests of a mirror")]
    LongTiled,
    /// Packed, with keys of four words.
    #[allow(dead_code, reason = "of the tests of a mirror")]
    Wide,
    /// Packed, with keys of two words, of which two after the other have the same hash.
    #[allow(dead_code, reason = "of the tests of a mirror")]
    Twins,
}

/// Two keys of 16 bytes that have the same hash, for each number but 0.
pub(crate) fn twins(number: u64) -> [[u64; 2]; 2] {
    // What the hash of such a key begins with; then it multiplies two words, one of which is 0 here.
    let x = (SEED.0 ^ 0x1F83_D9AB_FB41_BD6B).wrapping_add(0x3C6E_F372_FE94_F82B_u64.wrapping_mul(16));
    let y = SEED.0.rotate_left(32) ^ 0x5BE0_CD19_137E_2179;
    [[x, y ^ number], [x ^ number.rotate_left(32), y]]
}

impl Kind {
    pub(crate) const ALL: [Kind; 5] =
        [Kind::Packed, Kind::Inline, Kind::KeyedInline, Kind::Reference, Kind::Tiled];

    pub(crate) fn spec(self, geometry: Geometry, capacity: u64) -> TableSpec {
        let fixed = |len| ValueSpec::fixed(len).unwrap();
        let long = KeySpec::fixed(20).unwrap();
        let (layout, key, value) = match self {
            Kind::Packed => (Layout::Packed, KeySpec::U64, fixed(16)),
            Kind::LongPacked => (Layout::Packed, long, fixed(24)),
            Kind::Inline => (Layout::InPlace, KeySpec::U64, fixed(8)),
            Kind::KeyedInline => (Layout::InPlace, long, fixed(8)),
            Kind::Reference => (Layout::InPlace, long, fixed(16)),
            Kind::Tiled => (Layout::Packed, KeySpec::U64, fixed(128)),
            Kind::LongTiled => (Layout::Packed, KeySpec::fixed(40).unwrap(), fixed(256)),
            Kind::Wide => (Layout::Packed, KeySpec::fixed(32).unwrap(), fixed(16)),
            Kind::Twins => (Layout::Packed, KeySpec::fixed(16).unwrap(), fixed(16)),
        };
        spec_in(layout, key, value, geometry, capacity)
    }

    pub(crate) fn key(self, number: u64) -> Vec<u8> {
        match self {
            Kind::Packed | Kind::Tiled => number.to_le_bytes().to_vec(),
            Kind::Inline => SPECIAL_KEYS.get(number as usize).unwrap_or(&number).to_le_bytes().to_vec(),
            Kind::LongPacked | Kind::KeyedInline | Kind::Reference => format!("{number:020}").into_bytes(),
            Kind::LongTiled => format!("{number:040}").into_bytes(),
            Kind::Wide => format!("{number:032}").into_bytes(),
            Kind::Twins => twins(number / 2 + 1)[number as usize % 2].map(u64::to_le_bytes).concat(),
        }
    }

    /// A value that says whose it is.
    pub(crate) fn value(self, key: u64, version: u64) -> Vec<u8> {
        match self {
            Kind::Packed | Kind::Reference | Kind::Wide | Kind::Twins => {
                [key.to_le_bytes(), version.to_le_bytes()].concat()
            }
            Kind::LongPacked => [key, version, !key].map(u64::to_le_bytes).concat(),
            Kind::Inline | Kind::KeyedInline => (key << 32 | version).to_le_bytes().to_vec(),
            Kind::Tiled => [key, version].map(u64::to_le_bytes).concat().repeat(8),
            Kind::LongTiled => [key, version, !key, !version].map(u64::to_le_bytes).concat().repeat(8),
        }
    }

    /// Bytes in a bucket of the default geometry, as docs/format.md has it.
    #[allow(dead_code, reason = "of the tests that do not crash")]
    pub(crate) fn bucket_bytes(self) -> u64 {
        match self {
            Kind::Packed | Kind::LongPacked | Kind::Tiled | Kind::LongTiled | Kind::Wide | Kind::Twins => 64,
            Kind::Inline => 256,
            Kind::KeyedInline => 64 + 8 * 24 + 8 * 24,
            Kind::Reference => 64 + 8 * 24 + 8 * 8,
        }
    }

    /// Blocks that an item takes besides its slot.
    #[allow(dead_code, reason = "of the tests that crash")]
    pub(crate) fn blocks(self) -> u64 {
        u64::from(!matches!(self, Kind::Inline | Kind::KeyedInline))
    }
}

#[allow(dead_code, reason = "of the tests with a device")]
pub(crate) fn heap_of<P: Persist>(table: &Table<P>) -> Arc<Heap<P>> {
    Arc::clone(table.heap())
}
