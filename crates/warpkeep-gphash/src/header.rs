//! The header of a table: what it is, for good, and the word that leads to its levels.
//!
//! | offset | what |
//! | --- | --- |
//! | 0 | magic |
//! | 8 | CRC-32C of bytes 16..64 |
//! | 16 | geometry: levels, hashes, slots, five zeros |
//! | 24 | key spec |
//! | 32 | value spec |
//! | 40 | seed |
//! | 48 | layout u8, merge rule u8 (bit 7: records lie in tiles; bit 6, too: with tails of 16 bytes; bit 5: keys lie in cells; bit 4: records have checksums), six zeros |
//! | 56 | zeros |
//! | 64 | offset of the block that describes the levels |
//! | 72 | offset of the slot that the last displaced item left |
//! | 128 | where fingerprints are keys: a bucket for the keys whose fingerprints are reserved states |

use warpkeep_core::{KeyCells, KeySpec, MergeRule, Seed, ValueSpec};
use warpkeep_image::{Heap, Image, ImageError, Persist};
use warpkeep_record::{CHECKSUMS, RecordForm, RecordKey, Tiling};

use crate::bucket::{Body, Shape};
use crate::levels::Level;
use crate::{Geometry, Layout, TableSpec};

const MAGIC: u64 = u64::from_le_bytes(*b"WKGPHASH");
/// Where the word lies that leads to the levels.
pub(crate) const LEVELS_AT: u64 = 64;
/// The offset of the word that names the slot that a displaced item leaves.
pub(crate) const JOURNAL_AT: u64 = 72;
/// Where slots begin, if the header has some.
const SPECIALS_AT: u64 = 128;
/// The flag for keys in cells, in the byte of the merge rule: a program that does not know it refuses the rule.
const CELLS: u8 = 0x20;

/// What a table is, for good.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) geometry: Geometry,
    pub(crate) key: KeySpec,
    pub(crate) value: ValueSpec,
    pub(crate) seed: Seed,
    pub(crate) layout: Layout,
    pub(crate) merge: MergeRule,
    /// Whether, and how, records lie in tiles.
    pub(crate) tiling: Tiling,
    /// The cells that keys are kept in, if they are: not in tables that were made when there were none.
    pub(crate) cells: Option<KeyCells>,
    /// Whether records have checksums: not in tables that were made when there were none.
    pub(crate) checksums: bool,
}

impl Header {
    pub(crate) fn of(spec: &TableSpec) -> Header {
        let TableSpec { key, value, geometry, layout, merge, seed, capacity: _ } = *spec;
        let cells = cells_for(layout, key, value);
        // In the in-place layout, values of up to 8 bytes have no records.
        let checksums = !matches!(Shape::new(geometry, layout, key, value).body, Body::Inline { .. });
        let tiling = Tiling::of(record_key(layout, key, cells), value, checksums);
        Header { geometry, key, value, seed, layout, merge, tiling, cells, checksums }
    }

    pub(crate) fn shape(&self) -> Shape {
        Shape::new(self.geometry, self.layout, self.key, self.value)
    }

    /// The layout of records. In-place tables have keys in the slots and none in the records.
    pub(crate) fn form(&self) -> RecordForm {
        let key = record_key(self.layout, self.key, self.cells);
        // What is read is checked first, and what is made suits.
        RecordForm::of(key, self.value, self.tiling, self.checksums)
            .unwrap_or_else(|| RecordForm::whole(key, self.value, self.checksums))
    }

    /// Bytes in the header.
    pub(crate) fn len(&self) -> u64 {
        let shape = self.shape();
        if shape.fingerprint_is_key() { SPECIALS_AT + shape.bytes() } else { SPECIALS_AT }
    }

    /// The slots in the header at an offset, if it has some.
    pub(crate) fn specials<P: Persist>(&self, image: &Image<P>, at: u64) -> Option<Level> {
        let shape = self.shape();
        shape.fingerprint_is_key().then(|| Level::new(image, &shape, at + SPECIALS_AT, 1))
    }

    /// Writes it, durably, and returns its offset.
    pub(crate) fn write<P: Persist>(&self, heap: &Heap<P>, levels: u64) -> Result<u64, ImageError> {
        let mut bytes = vec![0; self.len() as usize];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.geometry.to_word().to_le_bytes());
        bytes[24..32].copy_from_slice(&self.key.to_bytes());
        bytes[32..40].copy_from_slice(&self.value.to_bytes());
        bytes[40..48].copy_from_slice(&self.seed.0.to_le_bytes());
        bytes[48] = self.layout.code();
        let cells = if self.cells.is_some() { CELLS } else { 0 };
        let checksums = if self.checksums { CHECKSUMS } else { 0 };
        bytes[49] = self.merge.code() | self.tiling.code() | cells | checksums;
        let crc = u64::from(crc32c::crc32c(&bytes[16..LEVELS_AT as usize]));
        bytes[8..16].copy_from_slice(&crc.to_le_bytes());
        bytes[LEVELS_AT as usize..][..8].copy_from_slice(&levels.to_le_bytes());
        let mut block = heap.allocate(self.len())?;
        block.write(0, &bytes)?;
        Ok(block.persist("gphash.header", self.len()))
    }

    /// Reads the header at an offset found in an image.
    pub(crate) fn read<P: Persist>(image: &Image<P>, at: u64) -> Result<Header, ImageError> {
        let damaged = |what: &str| ImageError::Damaged {
            path: image.path().to_path_buf(),
            what: format!("the table at {at}: {what}"),
        };
        if at == 0 || !at.is_multiple_of(8) || !image.contains(at, SPECIALS_AT) || image.load(at) != MAGIC {
            return Err(damaged("it is not there"));
        }
        let mut bytes = [0; SPECIALS_AT as usize];
        image.read(at, &mut bytes);
        if u64::from(crc32c::crc32c(&bytes[16..LEVELS_AT as usize])) != image.load(at + 8) {
            return Err(damaged("wrong checksum"));
        }
        let word = |at: usize| -> [u8; 8] { bytes[at..at + 8].try_into().expect("eight bytes") };
        let geometry = Geometry::from_word(u64::from_le_bytes(word(16)));
        let mut header = Header {
            geometry: geometry.ok_or_else(|| damaged("no geometry"))?,
            key: KeySpec::from_bytes(word(24)).map_err(|error| damaged(&error.to_string()))?,
            value: ValueSpec::from_bytes(word(32)).map_err(|error| damaged(&error.to_string()))?,
            seed: Seed(u64::from_le_bytes(word(40))),
            layout: Layout::from_code(bytes[48]).ok_or_else(|| damaged("a layout of a newer version"))?,
            merge: MergeRule::from_code(bytes[49] & !(Tiling::BITS | CELLS | CHECKSUMS))
                .ok_or_else(|| damaged("a merge rule of a newer version"))?,
            tiling: Tiling::from_code(bytes[49]).ok_or_else(|| damaged("tiles of a newer version"))?,
            cells: None,
            checksums: bytes[49] & CHECKSUMS != 0,
        };
        if bytes[50..LEVELS_AT as usize].iter().any(|&byte| byte != 0) {
            return Err(damaged("something of a newer version"));
        }
        if bytes[49] & CELLS != 0 {
            header.cells = cells_for(header.layout, header.key, header.value);
            if header.cells.is_none() {
                return Err(damaged("cells do not go with its keys and values"));
            }
        }
        let key = record_key(header.layout, header.key, header.cells);
        if RecordForm::of(key, header.value, header.tiling, header.checksums).is_none() {
            return Err(damaged("records in tiles do not go with its keys and values"));
        }
        let possible = header.layout == Layout::Packed || header.key.fixed_len().is_some();
        if !possible || !image.contains(at, header.len()) {
            return Err(damaged("its layout does not go with its keys"));
        }
        Ok(header)
    }
}

/// The keys of records. In-place tables have keys in the slots and none in the records.
fn record_key(layout: Layout, key: KeySpec, cells: Option<KeyCells>) -> RecordKey {
    match (layout, cells) {
        (Layout::InPlace, _) => RecordKey::Fixed(0),
        (Layout::Packed, Some(cells)) => RecordKey::Cell(cells),
        (Layout::Packed, None) => key.fixed_len().into(),
    }
}

/// The cells that a new table keeps its keys in: short ones, in records that are then all of one length.
fn cells_for(layout: Layout, key: KeySpec, value: ValueSpec) -> Option<KeyCells> {
    value.fixed_len().filter(|_| layout == Layout::Packed).and_then(|_| KeyCells::of(key))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use warpkeep_image::{Coherent, Format, HeapOptions, MIN_CHUNK, PlainMemory, Surroundings};

    use super::*;

    #[test]
    fn tables_of_older_versions_stay_what_they_are() {
        let memory = PlainMemory::new(4 * MIN_CHUNK, 8 * MIN_CHUNK);
        let format = Format { store_id: [1; 16], chunk_size: MIN_CHUNK, hash_seed: 7 };
        let surroundings = Surroundings::default();
        let image =
            Image::format(Arc::new(memory), Coherent, Path::new("memory"), &format, surroundings).unwrap();
        image.begin(1).unwrap();
        let heap = Heap::recover::<ImageError>(&Arc::new(image), HeapOptions::default(), |_| Ok(())).unwrap();
        let new = Header {
            geometry: Geometry::default(),
            key: KeySpec::U64,
            value: ValueSpec::fixed(128).unwrap(),
            seed: Seed(3),
            layout: Layout::Packed,
            merge: MergeRule::AddU64,
            tiling: Tiling::Close,
            cells: None,
            checksums: false,
        };
        for (tiling, checksums, block) in [
            (Tiling::None, false, 160),
            (Tiling::Roomy, false, 160),
            (Tiling::Close, false, 144),
            (Tiling::Close, true, 152),
        ] {
            let at = Header { tiling, checksums, ..new }.write(&heap, 0).unwrap();
            let read = Header::read(heap.image(), at).unwrap();
            assert_eq!((read.tiling, read.checksums, read.merge), (tiling, checksums, MergeRule::AddU64));
            assert_eq!(read.form().block_len(), block, "{tiling:?}, {checksums}");
        }
        // Such short tails cannot hold such a key.
        let long = Header { key: KeySpec::fixed(16).unwrap(), ..new };
        let at = long.write(&heap, 0).unwrap();
        assert!(Header::read(heap.image(), at).unwrap_err().to_string().contains("tiles"));
    }
}
