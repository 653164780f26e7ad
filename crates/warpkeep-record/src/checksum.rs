//! The checksum of a record over its value, its key and its version, computed by CPUs and kernels alike.
//!
//! It is part of the stored format, so it never changes; the vectors in `tests/checksums.rs` pin it. It detects
//! damage, and no claim is made against records that were constructed to have the same checksum.
//!
//! # Definition
//!
//! All arithmetic is modulo 2^64; `>>` shifts in zeros. Bytes are taken as little-endian words of 8, with zeros behind the last byte. The constants are the
//! first 64 bits of the fractional parts of the square roots of 29, 31, 37 and 41.
//!
//! ```text
//! C29 = 629A292A367CD507   C31 = 9159015A3070DD17   C37 = 152FECD8F70E5939   C41 = 67332667FFC00B31
//!
//! scramble(place, word):
//!     x = (word ^ place) * C29
//!     x = (x ^ (x >> 32)) * C31
//!     return x ^ (x >> 32)
//!
//! digest(value):
//!     s = sum of scramble((i + 1) * C37, word i of the value)
//!     return the lower 32 bits of s ^ (s >> 32)
//!
//! checksum(key, value, version):
//!     words = digest(value); bytes of the key + bytes of the value * 2^32; version; the words of the key
//!     return sum of scramble(C41 + i * C37, word i)
//! ```
//!
//! A sum of bijections: another word in one position certainly gives another sum, and threads that each have some
//! of the words only add their parts. A device with the values and a host with keys and versions can share the
//! work: only the 32 bits of a digest cross the link. So another key, version or length is detected for certain if
//! nothing else is wrong, and another value except in one case of 2^32.

const C29: u64 = 0x629A_292A_367C_D507;
const C31: u64 = 0x9159_015A_3070_DD17;
const C37: u64 = 0x152F_ECD8_F70E_5939;
const C41: u64 = 0x6733_2667_FFC0_0B31;

#[inline(always)]
const fn scramble(place: u64, word: u64) -> u64 {
    let mut x = (word ^ place).wrapping_mul(C29);
    x = (x ^ (x >> 32)).wrapping_mul(C31);
    x ^ (x >> 32)
}

/// A value's contribution to a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(pub u32);

impl Digest {
    /// Of a value.
    ///
    /// ```
    /// use warpkeep_record::Digest;
    /// assert_ne!(Digest::of(b"a value"), Digest::of(b"b value"));
    /// ```
    #[inline]
    pub fn of(value: &[u8]) -> Digest {
        Digest::of_words(words_of(value))
    }

    /// The same of a value's words.
    #[inline(always)]
    pub(crate) fn of_words(words: impl Iterator<Item = u64>) -> Digest {
        let (mut sum, mut place) = (0_u64, C37);
        for word in words {
            sum = sum.wrapping_add(scramble(place, word));
            place = place.wrapping_add(C37);
        }
        Digest((sum ^ (sum >> 32)) as u32)
    }
}

/// The checksum of a record.
///
/// ```
/// use warpkeep_record::{Digest, checksum};
/// let (key, value) = (b"key", b"value");
/// let sum = checksum(Digest::of(value), key, value.len(), 7);
/// assert_ne!(sum, checksum(Digest::of(value), b"kez", value.len(), 7));
/// assert_ne!(sum, checksum(Digest::of(value), key, value.len(), 8));
/// ```
#[inline]
pub fn checksum(digest: Digest, key: &[u8], value_len: usize, version: u64) -> u64 {
    checksum_of_words(digest, words_of(key), key.len(), value_len, version)
}

/// The same of a key's words, the last with zeros behind the key.
#[inline(always)]
pub fn checksum_of_words(
    digest: Digest,
    key: impl Iterator<Item = u64>,
    key_len: usize,
    value_len: usize,
    version: u64,
) -> u64 {
    let lengths = key_len as u64 | (value_len as u64) << 32;
    let (mut sum, mut place) = (0_u64, C41);
    for word in [u64::from(digest.0), lengths, version].into_iter().chain(key) {
        sum = sum.wrapping_add(scramble(place, word));
        place = place.wrapping_add(C37);
    }
    sum
}

/// Bytes as words, with zeros behind the last byte.
#[inline(always)]
fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let last = (!rest.is_empty()).then_some(u64::from_le_bytes(last));
    words.iter().map(|word| u64::from_le_bytes(*word)).chain(last)
}
