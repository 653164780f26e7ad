//! Seeded hashing: the same numbers in every run, so that a seed names the same images everywhere.

use std::hash::{BuildHasher, Hash};

use foldhash::quality::FixedState;

const SEED: u64 = 0x7761_7270_6b65_6570;

/// The hash of anything.
#[inline]
pub(crate) fn of<T: Hash>(what: T) -> u64 {
    FixedState::with_seed(SEED).hash_one(what)
}

/// A word's contribution to the hash of its memory. A memory's hash is the XOR over its words, so that changing one
/// word costs two of these and not a walk over the image; a zero word contributes nothing, so growing is free.
#[inline]
pub(crate) fn word(offset: u64, value: u64) -> u64 {
    if value == 0 { 0 } else { of((offset, value)) }
}
