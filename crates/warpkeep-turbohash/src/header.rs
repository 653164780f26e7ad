//! The immutable header of a table.
//!
//! | offset | contents |
//! | --- | --- |
//! | 0 | magic |
//! | 8 | CRC-32C of bytes 16..64 |
//! | 16 | key spec |
//! | 24 | value spec |
//! | 32 | seed |
//! | 40 | number of shards u32, merge rule u8 (bit 7: records lie in tiles; bit 6, too: with tails of 16 bytes; bit 4: records have checksums), three zeros |
//! | 48 | offset of the directory |
//! | 56 | zeros |

use warpkeep_core::{KeySpec, MergeRule, Seed, ValueSpec};
use warpkeep_image::{Heap, Image, ImageError, Persist};
use warpkeep_record::{CHECKSUMS, RecordForm, Tiling};

use crate::bucket::Shape;
use crate::shard::MAX_SHARDS;

const MAGIC: u64 = u64::from_le_bytes(*b"WKTURBO1");
/// Bytes in the header.
pub(crate) const LEN: u64 = 64;

/// The immutable properties of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) key: KeySpec,
    pub(crate) value: ValueSpec,
    pub(crate) seed: Seed,
    pub(crate) merge: MergeRule,
    /// Whether, and how, records lie in tiles.
    pub(crate) tiling: Tiling,
    /// Whether records have checksums: not in tables that were made when there were none.
    pub(crate) checksums: bool,
    pub(crate) shards: u32,
    pub(crate) directory: u64,
}

impl Header {
    /// The form of records: keys of 8 bytes are identified by the hash in the slot.
    pub(crate) fn form(&self) -> RecordForm {
        let key = record_key(self.key);
        // Stored headers are checked first, and new ones are valid.
        RecordForm::of(key, self.value, self.tiling, self.checksums)
            .unwrap_or_else(|| RecordForm::whole(key, self.value, self.checksums))
    }

    /// Whether, and how, the records of a new table lie in tiles, with checksums or without.
    pub(crate) fn tiling_of(key: KeySpec, value: ValueSpec, checksums: bool) -> Tiling {
        Tiling::of(record_key(key), value, checksums)
    }

    pub(crate) fn shape(&self) -> Shape {
        Shape::new(self.key, self.value)
    }

    /// Writes it, durably with everything this thread flushed before, and gives its offset.
    pub(crate) fn write<P: Persist>(&self, heap: &Heap<P>) -> Result<u64, ImageError> {
        let mut bytes = [0; LEN as usize];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.key.to_bytes());
        bytes[24..32].copy_from_slice(&self.value.to_bytes());
        bytes[32..40].copy_from_slice(&self.seed.0.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.shards.to_le_bytes());
        bytes[44] = self.merge.code() | self.tiling.code() | if self.checksums { CHECKSUMS } else { 0 };
        bytes[48..56].copy_from_slice(&self.directory.to_le_bytes());
        let crc = u64::from(crc32c::crc32c(&bytes[16..]));
        bytes[8..16].copy_from_slice(&crc.to_le_bytes());
        let mut block = heap.allocate(LEN)?;
        block.write(0, &bytes)?;
        Ok(block.persist("turbohash.header", LEN))
    }

    /// Reads the header at an offset found in an image.
    pub(crate) fn read<P: Persist>(image: &Image<P>, at: u64) -> Result<Header, ImageError> {
        let damaged = |what: &str| ImageError::Damaged {
            path: image.path().to_path_buf(),
            what: format!("the table at {at}: {what}"),
        };
        if at == 0 || !at.is_multiple_of(8) || !image.contains(at, LEN) || image.load(at) != MAGIC {
            return Err(damaged("it is not there"));
        }
        let mut bytes = [0; LEN as usize];
        image.read(at, &mut bytes);
        if u64::from(crc32c::crc32c(&bytes[16..])) != image.load(at + 8) {
            return Err(damaged("wrong checksum"));
        }
        let word = |at: usize| -> [u8; 8] { bytes[at..at + 8].try_into().expect("eight bytes") };
        let header = Header {
            key: KeySpec::from_bytes(word(16)).map_err(|error| damaged(&error.to_string()))?,
            value: ValueSpec::from_bytes(word(24)).map_err(|error| damaged(&error.to_string()))?,
            seed: Seed(u64::from_le_bytes(word(32))),
            merge: MergeRule::from_code(bytes[44] & !(Tiling::BITS | CHECKSUMS))
                .ok_or_else(|| damaged("a merge rule of a newer version"))?,
            tiling: Tiling::from_code(bytes[44]).ok_or_else(|| damaged("tiles of a newer version"))?,
            checksums: bytes[44] & CHECKSUMS != 0,
            shards: u64::from_le_bytes(word(40)) as u32,
            directory: u64::from_le_bytes(word(48)),
        };
        if bytes[45..48].iter().chain(&bytes[56..]).any(|&byte| byte != 0) {
            return Err(damaged("something of a newer version"));
        }
        if RecordForm::of(record_key(header.key), header.value, header.tiling, header.checksums).is_none() {
            return Err(damaged("records in tiles do not go with its keys and values"));
        }
        if header.shards == 0 || header.shards > MAX_SHARDS {
            return Err(damaged("its number of shards makes no sense"));
        }
        Ok(header)
    }
}

/// Bytes of a key in a record, if all have the same length: keys of 8 bytes are identified by their hashes.
fn record_key(key: KeySpec) -> Option<usize> {
    key.fixed_len().map(|len| if len == 8 { 0 } else { len })
}
