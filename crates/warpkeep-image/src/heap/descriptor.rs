//! The use of a chunk: one self-checking word a chunk.

use super::cut::Cut;
use super::tile::Tile;
use crate::check::{seal48, unseal48};

const FREE: u64 = 0;
const DIRECTORY: u64 = 1;
const SLAB: u64 = 2;
const EXTENT: u64 = 3;

const KIND_BITS: u32 = 4;
const BLOCK_BITS: u32 = 24;
const SPAN_BITS: u32 = 16;
/// Above the span: the blocks of a slab lie in tiles.
const TILED: u64 = 1 << (BLOCK_BITS + SPAN_BITS);
const EXTENT_BITS: u32 = 44;

/// The largest run of chunks an extent can have.
pub(crate) const MAX_EXTENT_CHUNKS: u64 = (1 << EXTENT_BITS) - 1;

/// The use of a run of chunks, from its first chunk's descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Descriptor {
    /// Not in use.
    Free,
    /// Holds descriptors.
    Directory,
    /// Cut into blocks of one size (a multiple of 8 bytes).
    Slab { cut: Cut, span: u16 },
    /// Handed out whole.
    Extent { span: u64 },
}

impl Descriptor {
    /// The word for chunk number `chunk`.
    pub(crate) fn encode(self, chunk: u64) -> u64 {
        let payload = match self {
            Descriptor::Free => return 0,
            Descriptor::Directory => DIRECTORY,
            Descriptor::Slab { cut, span } => {
                let block = cut.block();
                debug_assert!(block.is_multiple_of(8) && block >> 3 < 1 << BLOCK_BITS);
                let tiled = if cut.tile().is_some() { TILED } else { 0 };
                SLAB | (block >> 3 | u64::from(span) << BLOCK_BITS | tiled) << KIND_BITS
            }
            Descriptor::Extent { span } => {
                debug_assert!(span <= MAX_EXTENT_CHUNKS);
                EXTENT | span << KIND_BITS
            }
        };
        seal48(chunk, payload)
    }

    /// Decodes the word of chunk number `chunk`; `None` if it is damaged.
    pub(crate) fn decode(chunk: u64, word: u64) -> Option<Descriptor> {
        if word == 0 {
            return Some(Descriptor::Free);
        }
        let payload = unseal48(chunk, word)?;
        let rest = payload >> KIND_BITS;
        match payload & ((1 << KIND_BITS) - 1) {
            FREE => None,
            DIRECTORY if rest == 0 => Some(Descriptor::Directory),
            SLAB => {
                let block = ((rest & ((1 << BLOCK_BITS) - 1)) as u32).checked_mul(8).filter(|&b| b > 0)?;
                let span = (rest >> BLOCK_BITS & ((1 << SPAN_BITS) - 1)) as u16;
                let cut = match rest >> (BLOCK_BITS + SPAN_BITS) {
                    0 => Cut::plain(block),
                    1 => Cut::tiled(Tile::of_block(u64::from(block))?),
                    _ => return None,
                };
                (span > 0).then_some(Descriptor::Slab { cut, span })
            }
            EXTENT if rest > 0 => Some(Descriptor::Extent { span: rest }),
            _ => None,
        }
    }

    /// How many chunks the run has.
    pub(crate) fn span(self) -> u64 {
        match self {
            Descriptor::Free | Descriptor::Directory => 1,
            Descriptor::Slab { span, .. } => u64::from(span),
            Descriptor::Extent { span } => span,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let all = [
            Descriptor::Free,
            Descriptor::Directory,
            Descriptor::Slab { cut: Cut::plain(8), span: 1 },
            Descriptor::Slab { cut: Cut::plain(160), span: 1 },
            Descriptor::Slab { cut: Cut::plain(5 << 18), span: 65535 },
            Descriptor::Slab { cut: Cut::tiled(Tile::of(128, 32).unwrap()), span: 1 },
            Descriptor::Slab { cut: Cut::tiled(Tile::of(4096, 96).unwrap()), span: 65535 },
            Descriptor::Extent { span: 1 },
            Descriptor::Extent { span: MAX_EXTENT_CHUNKS },
        ];
        for descriptor in all {
            assert_eq!(Descriptor::decode(12, descriptor.encode(12)), Some(descriptor));
            if descriptor != Descriptor::Free {
                assert_eq!(Descriptor::decode(13, descriptor.encode(12)), None);
            }
        }
    }

    #[test]
    fn nonsense_with_a_good_check_is_refused() {
        let slab = |block: u64, above: u64| SLAB | (block >> 3 | 1 << BLOCK_BITS | above) << KIND_BITS;
        let wrong = [DIRECTORY | 1 << 4, SLAB, SLAB | 1 << 4, EXTENT, 9, 15 | 1 << 20];
        // Invalid: tiles of blocks that gain nothing by them, and encodings of newer versions.
        let tiled =
            [slab(128, TILED), slab(176, TILED), slab(64, TILED), slab(160, 2 * TILED), slab(160, 8 * TILED)];
        for payload in wrong.into_iter().chain(tiled) {
            assert_eq!(Descriptor::decode(3, seal48(3, payload)), None, "{payload:#x}");
        }
    }
}
