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
//! | 48 | layout u8, merge rule u8, six zeros |
//! | 56 | zeros |
//! | 64 | offset of the block that describes the levels, on a line of its own |

use warpkeep_core::{KeySpec, MergeRule, Seed, ValueSpec};
use warpkeep_image::{Heap, Image, ImageError, Persist};

use crate::{Geometry, Layout, TableSpec};

const MAGIC: u64 = u64::from_le_bytes(*b"WKGPHASH");
/// Where the word lies that leads to the levels.
pub(crate) const LEVELS_AT: u64 = 64;
/// Bytes in a header.
pub(crate) const HEADER_LEN: u64 = 128;

/// What a table is, for good.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) geometry: Geometry,
    pub(crate) key: KeySpec,
    pub(crate) value: ValueSpec,
    pub(crate) seed: Seed,
    pub(crate) layout: Layout,
    pub(crate) merge: MergeRule,
}

impl Header {
    pub(crate) fn of(spec: &TableSpec) -> Header {
        let TableSpec { key, value, geometry, layout, merge, seed, capacity: _ } = *spec;
        Header { geometry, key, value, seed, layout, merge }
    }

    /// Writes it, durably, and gives its offset.
    pub(crate) fn write<P: Persist>(&self, heap: &Heap<P>, levels: u64) -> Result<u64, ImageError> {
        let mut bytes = [0; HEADER_LEN as usize];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.geometry.to_word().to_le_bytes());
        bytes[24..32].copy_from_slice(&self.key.to_bytes());
        bytes[32..40].copy_from_slice(&self.value.to_bytes());
        bytes[40..48].copy_from_slice(&self.seed.0.to_le_bytes());
        bytes[48] = self.layout.code();
        bytes[49] = self.merge.code();
        let crc = u64::from(crc32c::crc32c(&bytes[16..LEVELS_AT as usize]));
        bytes[8..16].copy_from_slice(&crc.to_le_bytes());
        bytes[LEVELS_AT as usize..][..8].copy_from_slice(&levels.to_le_bytes());
        let mut block = heap.allocate(HEADER_LEN)?;
        block.write(0, &bytes)?;
        Ok(block.persist("gphash.header", HEADER_LEN))
    }

    /// Reads the header at an offset found in an image.
    pub(crate) fn read<P: Persist>(image: &Image<P>, at: u64) -> Result<Header, ImageError> {
        let damaged = |what: &str| ImageError::Damaged {
            path: image.path().to_path_buf(),
            what: format!("the table at {at}: {what}"),
        };
        if at == 0 || !at.is_multiple_of(8) || !image.contains(at, HEADER_LEN) || image.load(at) != MAGIC {
            return Err(damaged("it is not there"));
        }
        let mut bytes = [0; HEADER_LEN as usize];
        image.read(at, &mut bytes);
        if u64::from(crc32c::crc32c(&bytes[16..LEVELS_AT as usize])) != image.load(at + 8) {
            return Err(damaged("wrong checksum"));
        }
        let word = |at: usize| -> [u8; 8] { bytes[at..at + 8].try_into().expect("eight bytes") };
        let geometry = Geometry::from_word(u64::from_le_bytes(word(16)));
        Ok(Header {
            geometry: geometry.ok_or_else(|| damaged("no geometry"))?,
            key: KeySpec::from_bytes(word(24)).map_err(|error| damaged(&error.to_string()))?,
            value: ValueSpec::from_bytes(word(32)).map_err(|error| damaged(&error.to_string()))?,
            seed: Seed(u64::from_le_bytes(word(40))),
            layout: Layout::from_code(bytes[48]).ok_or_else(|| damaged("a layout of a newer version"))?,
            merge: MergeRule::from_code(bytes[49])
                .ok_or_else(|| damaged("a merge rule of a newer version"))?,
        })
    }
}
