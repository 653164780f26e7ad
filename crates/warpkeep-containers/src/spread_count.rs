//! A number that kernels count in many words, because atomic operations on one word are carried out one after the other: `SpreadCount` of
//! `warpkeep/append.h`.

/// How many words it takes. Those between its parts stay zero.
pub(crate) const COUNT_WORDS: usize = 512;

/// The number. A part can be less than zero.
pub(crate) fn sum(words: &[u64]) -> u64 {
    words.iter().fold(0, |sum, part| sum.wrapping_add(*part))
}
