//! A packed slot: one 8-byte word, tag and reference.
//!
//! | bits | what |
//! | --- | --- |
//! | 0..45 | offset of the record in the image, in units of 8 bytes; 0: no record |
//! | 45..64 | tag: the low 19 bits of the key's hash |
//!
//! An empty slot is 0. A slot that is being filled is [`INSERT`], which no record has: recovery empties it.

/// A slot that nothing is in.
pub(crate) const EMPTY: u64 = 0;
/// A slot that is claimed and not yet filled.
pub(crate) const INSERT: u64 = u64::MAX << REFERENCE_BITS;

pub(crate) const REFERENCE_BITS: u32 = 45;
const REFERENCE_MASK: u64 = (1 << REFERENCE_BITS) - 1;

/// The word for a record.
#[inline]
pub(crate) fn pack(hash: u64, offset: u64) -> u64 {
    debug_assert!(offset != 0 && offset.is_multiple_of(8) && offset >> 3 <= REFERENCE_MASK);
    hash << REFERENCE_BITS | offset >> 3
}

/// Where the record of a word lies; 0 if it has none.
#[inline]
pub(crate) fn offset_of(word: u64) -> u64 {
    (word & REFERENCE_MASK) << 3
}

/// Whether the word may be that of a key with this hash: it has a record, and the tag fits.
#[inline]
pub(crate) fn may_match(word: u64, hash: u64) -> bool {
    (word ^ hash << REFERENCE_BITS) <= REFERENCE_MASK && word & REFERENCE_MASK != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let hash = 0xdead_beef_1234_5678;
        let word = pack(hash, 0x7fff_ffff_fff8);
        assert_eq!(offset_of(word), 0x7fff_ffff_fff8);
        assert!(may_match(word, hash) && may_match(word, hash ^ 1 << 19) && !may_match(word, hash ^ 1 << 18));
        for nobody in [EMPTY, INSERT] {
            assert_eq!(offset_of(nobody), 0);
            assert!(!may_match(nobody, 0) && !may_match(nobody, u64::MAX));
        }
    }
}
