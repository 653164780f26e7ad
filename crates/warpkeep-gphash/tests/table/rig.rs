//! Kinds of tables, with their keys and values.

use std::sync::Arc;

use warpkeep_core::{KeyCells, KeySpec, MergeRule, Seed, ValueSpec, hash_bytes, unmix64};
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

/// The 8-byte keys whose fingerprints are reserved states.
pub(crate) const SPECIAL_KEYS: [u64; 2] = [unmix64(SEED, 0), unmix64(SEED, u64::MAX << 45)];

/// A layout with lengths of keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Packed,
    /// Packed, with keys longer than a word.
    #[allow(dead_code, reason = "of the tests with a device index")]
    LongPacked,
    /// In place: the fingerprint is the key, the value in the slot.
    Inline,
    /// In place: key and value in the slot.
    KeyedInline,
    /// In place: the key in the slot, the value in a record.
    Reference,
    /// Packed, with records in tiles of four.
    Tiled,
    /// The same, in tiles of two, with keys longer than a word.
    #[allow(dead_code, reason = "of the tests with a device index")]
    LongTiled,
    /// The same, with keys that do not fill their last word.
    #[allow(dead_code, reason = "of the tests with a device index")]
    OddTiled,
    /// Packed, with keys of four words.
    #[allow(dead_code, reason = "of the tests with a device index")]
    Wide,
    /// Packed, with keys of two words. Keys 2n and 2n + 1 have equal hashes.
    #[allow(dead_code, reason = "of the tests with a device index")]
    EqualHashes,
    /// Packed, with keys of 0 to 24 bytes in cells.
    Cells,
    /// The same, with keys of up to 6 bytes in cells of one word, and records in tiles.
    #[allow(dead_code, reason = "of the tests with a device index")]
    TiledCells,
}

/// A key of 0 to `max` bytes, with `max` at least 4. Many keys are prefixes of others, or differ only in trailing
/// zeros.
fn short_key(number: u64, max: usize) -> Vec<u8> {
    let (len, pattern) = ((number % (max as u64 + 1)) as usize, number / (max as u64 + 1));
    match pattern {
        0 => vec![0; len],
        1 if len > 0 => vec![b'k'; len],
        // The number distinguishes these keys, which have at least 4 bytes.
        _ => {
            let mut key = (number as u32).to_le_bytes().to_vec();
            key[3] |= 0x80;
            key.resize(len.max(4), if pattern % 2 == 0 { 0 } else { b'k' });
            key
        }
    }
}

/// Two keys of 16 bytes with equal hashes, for each number but 0.
pub(crate) fn equal_hash_keys(number: u64) -> [[u64; 2]; 2] {
    // The hash multiplies `x ^ first word` by `y ^ second word`. One factor is 0 here, so the hash depends on the other
    // alone, and is the same for both keys.
    let x = (SEED.0 ^ 0x1F83_D9AB_FB41_BD6B).wrapping_add(0x3C6E_F372_FE94_F82B_u64.wrapping_mul(16));
    let y = SEED.0.rotate_left(32) ^ 0x5BE0_CD19_137E_2179;
    [[x, y ^ number], [x ^ number.rotate_left(32), y]]
}

impl Kind {
    pub(crate) const ALL: [Kind; 6] =
        [Kind::Packed, Kind::Inline, Kind::KeyedInline, Kind::Reference, Kind::Tiled, Kind::Cells];

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
            Kind::OddTiled => (Layout::Packed, KeySpec::fixed(27).unwrap(), fixed(128)),
            Kind::Wide => (Layout::Packed, KeySpec::fixed(32).unwrap(), fixed(16)),
            Kind::EqualHashes => (Layout::Packed, KeySpec::fixed(16).unwrap(), fixed(16)),
            Kind::Cells => (Layout::Packed, KeySpec::variable(24).unwrap(), fixed(16)),
            Kind::TiledCells => (Layout::Packed, KeySpec::variable(6).unwrap(), fixed(128)),
        };
        spec_in(layout, key, value, geometry, capacity)
    }

    pub(crate) fn key(self, number: u64) -> Vec<u8> {
        match self {
            Kind::Packed | Kind::Tiled => number.to_le_bytes().to_vec(),
            Kind::Inline => SPECIAL_KEYS.get(number as usize).unwrap_or(&number).to_le_bytes().to_vec(),
            Kind::LongPacked | Kind::KeyedInline | Kind::Reference => format!("{number:020}").into_bytes(),
            Kind::LongTiled => format!("{number:040}").into_bytes(),
            Kind::OddTiled => format!("{number:027}").into_bytes(),
            // The fill pattern of the key column, as a whole key and as the end of one.
            Kind::Wide if number == 70 => vec![0xb7; 32],
            Kind::Wide if number == 71 => [[b'0'; 24].as_slice(), &[0xb7; 8]].concat(),
            Kind::Wide => format!("{number:032}").into_bytes(),
            Kind::Cells => short_key(number, 24),
            Kind::TiledCells => short_key(number, 6),
            Kind::EqualHashes => {
                equal_hash_keys(number / 2 + 1)[number as usize % 2].map(u64::to_le_bytes).concat()
            }
        }
    }

    /// A key as a row of a batch in device memory: padded with zeros, or in its cell.
    #[allow(dead_code, reason = "of the tests with a device")]
    pub(crate) fn key_row(self, number: u64) -> Vec<u8> {
        let mut key = self.key(number);
        match KeyCells::of(self.spec(Geometry::default(), 1).key) {
            Some(cells) => cells.cell(&key).expect("it is short").as_bytes().to_vec(),
            None => {
                key.resize(key.len().next_multiple_of(8), 0);
                key
            }
        }
    }

    /// The hash of a key.
    #[allow(dead_code, reason = "of the tests that crash")]
    pub(crate) fn hash(self, number: u64) -> u64 {
        let cells = KeyCells::of(self.spec(Geometry::default(), 1).key);
        hash_bytes(SEED, &cells.map_or_else(|| self.key(number), |_| self.key_row(number)))
    }

    /// A value that contains its key and version.
    pub(crate) fn value(self, key: u64, version: u64) -> Vec<u8> {
        match self {
            Kind::Packed | Kind::Reference | Kind::Wide | Kind::EqualHashes | Kind::Cells => {
                [key.to_le_bytes(), version.to_le_bytes()].concat()
            }
            Kind::LongPacked => [key, version, !key].map(u64::to_le_bytes).concat(),
            Kind::Inline | Kind::KeyedInline => (key << 32 | version).to_le_bytes().to_vec(),
            Kind::Tiled | Kind::OddTiled | Kind::TiledCells => {
                [key, version].map(u64::to_le_bytes).concat().repeat(8)
            }
            Kind::LongTiled => [key, version, !key, !version].map(u64::to_le_bytes).concat().repeat(8),
        }
    }

    /// Bytes of a bucket of the default geometry, from docs/format.md.
    #[allow(dead_code, reason = "of the tests that do not crash")]
    pub(crate) fn bucket_bytes(self) -> u64 {
        match self {
            Kind::Packed | Kind::LongPacked | Kind::Wide | Kind::EqualHashes => 64,
            Kind::Tiled | Kind::LongTiled | Kind::OddTiled => 64,
            Kind::Cells | Kind::TiledCells => 64,
            Kind::Inline => 256,
            Kind::KeyedInline => 64 + 8 * 24 + 8 * 24,
            Kind::Reference => 64 + 8 * 24 + 8 * 8,
        }
    }

    /// Blocks that an item takes beside its slot.
    #[allow(dead_code, reason = "of the tests that crash")]
    pub(crate) fn blocks(self) -> u64 {
        u64::from(!matches!(self, Kind::Inline | Kind::KeyedInline))
    }
}

#[allow(dead_code, reason = "of the tests with a device")]
pub(crate) fn heap_of<P: Persist>(table: &Table<P>) -> Arc<Heap<P>> {
    Arc::clone(table.heap())
}
