//! The static header: written once, checksummed, never changed.

use std::path::Path;

use crate::ImageError;
use crate::layout::{FORMAT_VERSION, MAX_CHUNK, MIN_CHUNK, PAGE};

const MAGIC: [u8; 8] = *b"WARPKEEP";
const CRC_AT: usize = PAGE as usize - 4;
/// Features that a program must know to read the image at all. None exist yet.
const KNOWN_FEATURES: u64 = 0;

/// The immutable properties of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticHeader {
    /// Shared by an image and its log directory.
    pub store_id: [u8; 16],
    /// Bytes in a chunk.
    pub chunk_size: u64,
    /// Seed of every hash taken over keys of this store.
    pub hash_seed: u64,
    /// Seconds since 1970.
    pub created: u64,
}

impl StaticHeader {
    /// A header for a new image.
    pub(crate) fn new(
        store_id: [u8; 16],
        chunk_size: u64,
        hash_seed: u64,
        created: u64,
    ) -> Result<StaticHeader, ImageError> {
        if !valid_chunk_size(chunk_size) {
            return Err(ImageError::Invalid(format!(
                "a chunk of {chunk_size} bytes is not possible; take a power of two from {MIN_CHUNK} to {MAX_CHUNK}"
            )));
        }
        Ok(StaticHeader { store_id, chunk_size, hash_seed, created })
    }

    pub(crate) fn encode(&self) -> [u8; PAGE as usize] {
        let mut page = [0; PAGE as usize];
        page[0..8].copy_from_slice(&MAGIC);
        page[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        page[16..32].copy_from_slice(&self.store_id);
        page[32..40].copy_from_slice(&self.chunk_size.to_le_bytes());
        page[40..48].copy_from_slice(&self.hash_seed.to_le_bytes());
        page[48..56].copy_from_slice(&self.created.to_le_bytes());
        page[56..64].copy_from_slice(&KNOWN_FEATURES.to_le_bytes());
        let crc = crc32c::crc32c(&page[..CRC_AT]);
        page[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        page
    }

    pub(crate) fn decode(page: &[u8; PAGE as usize], path: &Path) -> Result<StaticHeader, ImageError> {
        let path = || path.to_path_buf();
        let u32_at = |at: usize| u32::from_le_bytes(page[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"));
        let crc_ok = crc32c::crc32c(&page[..CRC_AT]) == u32_at(CRC_AT);

        if page[0..8] != MAGIC {
            let found = match page.iter().all(|&b| b == 0) {
                true => "it begins with zeros: perhaps its creation was interrupted".to_string(),
                false => format!("it begins with {:02x?}", &page[0..8]),
            };
            // One damaged byte in the magic of an otherwise good header is damage, not another program's file.
            let mut mended = *page;
            mended[0..8].copy_from_slice(&MAGIC);
            if crc32c::crc32c(&mended[..CRC_AT]) == u32_at(CRC_AT) {
                return Err(ImageError::Damaged {
                    path: path(),
                    what: "the magic of the static header".into(),
                });
            }
            return Err(ImageError::Foreign { path: path(), found });
        }
        if !crc_ok {
            return Err(ImageError::Damaged {
                path: path(),
                what: "the checksum of the static header does not match".into(),
            });
        }
        let version = u32_at(8);
        if version > FORMAT_VERSION {
            return Err(ImageError::NewerVersion { path: path(), found: version, supported: FORMAT_VERSION });
        }
        let features = u64_at(56);
        if features & !KNOWN_FEATURES != 0 {
            return Err(ImageError::Invalid(format!(
                "{} uses features this program does not know (bits {features:#x}); open it with a newer Warpkeep",
                path().display()
            )));
        }
        let chunk_size = u64_at(32);
        if version == 0 || !valid_chunk_size(chunk_size) {
            return Err(ImageError::Damaged {
                path: path(),
                what: format!("version {version} with chunks of {chunk_size} bytes makes no sense"),
            });
        }
        let mut store_id = [0; 16];
        store_id.copy_from_slice(&page[16..32]);
        Ok(StaticHeader { store_id, chunk_size, hash_seed: u64_at(40), created: u64_at(48) })
    }
}

fn valid_chunk_size(bytes: u64) -> bool {
    bytes.is_power_of_two() && (MIN_CHUNK..=MAX_CHUNK).contains(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> StaticHeader {
        StaticHeader::new([7; 16], MIN_CHUNK, 99, 1234).unwrap()
    }

    #[test]
    fn round_trip() {
        assert_eq!(StaticHeader::decode(&header().encode(), Path::new("x")).unwrap(), header());
    }

    #[test]
    fn every_flipped_byte_is_refused() {
        for at in 0..PAGE as usize {
            let mut page = header().encode();
            page[at] ^= 1 << (at % 8);
            let error = StaticHeader::decode(&page, Path::new("x")).unwrap_err();
            assert!(matches!(error, ImageError::Damaged { .. }), "byte {at}: {error}");
        }
    }

    #[test]
    fn newer_versions_are_told_from_damage() {
        let mut page = header().encode();
        page[8] = 2;
        let crc = crc32c::crc32c(&page[..CRC_AT]);
        page[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        let error = StaticHeader::decode(&page, Path::new("x")).unwrap_err();
        assert!(matches!(error, ImageError::NewerVersion { found: 2, .. }), "{error}");
    }

    #[test]
    fn odd_chunk_sizes_are_refused() {
        for size in [0, 1, MIN_CHUNK / 2, MIN_CHUNK + 8, MAX_CHUNK * 2] {
            assert!(matches!(StaticHeader::new([0; 16], size, 0, 0), Err(ImageError::Invalid(_))));
        }
    }
}
