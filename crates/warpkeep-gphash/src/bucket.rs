//! Buckets: how their bytes are arranged.
//!
//! A bucket begins with one state word per slot: 0 is empty, [`INSERT`](crate::slot::INSERT) is claimed and not yet
//! filled, anything else is an item. The meaning of an item's state, and the bytes that follow, depend on the layout:
//!
//! | layout | state | then, for each slot |
//! | --- | --- | --- |
//! | packed | tag and reference, see [`crate::slot`] | nothing |
//! | in place, values to 8 bytes | fingerprint | key; head u64, value u64, value u64 |
//! | in place, other values | fingerprint | key; offset of the record u64 |
//!
//! The fingerprint is the key's hash. That of an 8-byte key is a bijection of it, so such keys are not stored again;
//! others are, padded with zeros to a multiple of 8. All keys of the bucket come first, then the other fields.
//!
//! A slot has two copies of its value: the lowest bit of the head selects the valid one, and the rest of the head is
//! the version. An update writes the other copy and then the head, so it commits with one word, as every change does. A
//! reader that finds the head unchanged after reading has a consistent value.

use std::sync::atomic::{AtomicU64, Ordering};
use warpkeep_record::prefetch;

use warpkeep_core::{KeySpec, ValueSpec};

use crate::{Geometry, Layout};

/// What follows the states of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// Nothing: the state leads to a record of key and value.
    Packed,
    /// Values of this many bytes.
    Inline { len: u8 },
    /// Offsets of records of a value.
    Reference,
}

/// How the bytes of a bucket are arranged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) body: Body,
    slots: u8,
    /// Of each slot; none if the fingerprint is the key.
    key_words: u8,
    payload_words: u8,
    words: u16,
}

impl Shape {
    pub(crate) fn new(geometry: Geometry, layout: Layout, key: KeySpec, value: ValueSpec) -> Shape {
        let slots = geometry.slots() as u8;
        let (body, payload_words) = match (layout, value.fixed_len()) {
            (Layout::Packed, _) => (Body::Packed, 0),
            (Layout::InPlace, Some(len)) if len <= 8 => (Body::Inline { len: len as u8 }, 3),
            (Layout::InPlace, _) => (Body::Reference, 1),
        };
        let key_words = match (layout, key.max_len()) {
            (Layout::Packed, _) | (Layout::InPlace, 8) => 0,
            (Layout::InPlace, len) => len.div_ceil(8) as u8,
        };
        let words = u16::from(slots) * (1 + u16::from(key_words) + u16::from(payload_words));
        Shape { body, slots, key_words, payload_words, words }
    }

    #[inline]
    pub(crate) fn slots(&self) -> usize {
        usize::from(self.slots)
    }

    /// Words in a bucket.
    #[inline]
    pub(crate) fn words(&self) -> usize {
        usize::from(self.words)
    }

    /// Bytes in a bucket.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        8 * u64::from(self.words)
    }

    /// Words of a slot's key.
    pub(crate) fn key_words(&self) -> usize {
        usize::from(self.key_words)
    }

    /// Words of a slot's payload.
    pub(crate) fn payload_words(&self) -> usize {
        usize::from(self.payload_words)
    }

    /// Whether the fingerprint is the key.
    #[inline]
    pub(crate) fn fingerprint_is_key(&self) -> bool {
        self.body != Body::Packed && self.key_words == 0
    }

    #[inline]
    fn key_at(&self, slot: usize) -> usize {
        self.slots() + slot * usize::from(self.key_words)
    }

    #[inline]
    fn payload_at(&self, slot: usize) -> usize {
        self.slots() * (1 + usize::from(self.key_words)) + slot * usize::from(self.payload_words)
    }
}

/// One bucket in an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket<'a> {
    words: &'a [AtomicU64],
    /// Where it lies in the image.
    at: u64,
}

impl<'a> Bucket<'a> {
    #[inline]
    pub(crate) fn new(words: &'a [AtomicU64], at: u64) -> Bucket<'a> {
        Bucket { words, at }
    }

    /// The states of its slots.
    #[inline]
    pub(crate) fn states(&self, shape: &Shape) -> &'a [AtomicU64] {
        &self.words[..shape.slots()]
    }

    #[inline]
    pub(crate) fn state(&self, slot: usize) -> u64 {
        self.words[slot].load(Ordering::Acquire)
    }

    /// The word of a slot's payload.
    #[inline]
    pub(crate) fn payload(&self, shape: &Shape, slot: usize, word: usize) -> u64 {
        self.words[shape.payload_at(slot) + word].load(Ordering::Acquire)
    }

    /// Whether the key stored in a slot is this one, or would be if it were stored.
    #[inline]
    pub(crate) fn has_key(&self, shape: &Shape, slot: usize, key: &[u8]) -> bool {
        let stored = &self.words[shape.key_at(slot)..][..usize::from(shape.key_words)];
        let mut given = key.chunks(8);
        stored.iter().all(|word| {
            let mut bytes = [0; 8];
            let part = given.next().unwrap_or(&[]);
            bytes[..part.len()].copy_from_slice(part);
            word.load(Ordering::Acquire) == u64::from_le_bytes(bytes)
        })
    }

    /// Appends the key stored in a slot, which has `len` bytes.
    pub(crate) fn append_key(&self, shape: &Shape, slot: usize, len: usize, to: &mut Vec<u8>) {
        let end = to.len() + len;
        let stored = &self.words[shape.key_at(slot)..][..usize::from(shape.key_words)];
        to.extend(stored.iter().flat_map(|word| word.load(Ordering::Acquire).to_le_bytes()));
        to.truncate(end);
    }

    #[inline]
    pub(crate) fn slot(&self, shape: &Shape, slot: usize) -> Slot {
        let at = |word: usize| self.at + 8 * word as u64;
        Slot { state: at(slot), key: at(shape.key_at(slot)), payload: at(shape.payload_at(slot)) }
    }

    /// Prefetches the fields of a slot beside its state.
    #[inline]
    pub(crate) fn prefetch_slot(&self, shape: &Shape, slot: usize) {
        let address = |word: usize| self.words.as_ptr().wrapping_add(word).cast();
        if shape.key_words > 0 {
            prefetch::line(address(shape.key_at(slot)));
        }
        let payload = shape.payload_at(slot);
        prefetch::line(address(payload));
        prefetch::line(address(payload + usize::from(shape.payload_words) - 1));
    }
}

/// Where the parts of a slot lie in the image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) state: u64,
    pub(crate) key: u64,
    pub(crate) payload: u64,
}

/// The head of a value in a slot: version, and which of the two words counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head(pub(crate) u64);

impl Head {
    /// The head of a slot that had nothing before.
    pub(crate) fn first(version: u64) -> Head {
        Head(version << 1)
    }

    /// The head after this one, with the other word counting.
    pub(crate) fn next(self, version: u64) -> Head {
        Head(version << 1 | (self.0 & 1 ^ 1))
    }

    pub(crate) fn version(self) -> u64 {
        self.0 >> 1
    }

    /// The word of the payload that holds the value.
    #[inline]
    pub(crate) fn value_word(self) -> usize {
        1 + (self.0 & 1) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(layout: Layout, key: KeySpec, value: ValueSpec) -> Shape {
        Shape::new(Geometry::default(), layout, key, value)
    }

    #[test]
    fn sizes() {
        let (row, number) = (ValueSpec::fixed(128).unwrap(), ValueSpec::U64);
        let key = KeySpec::fixed(20).unwrap();
        assert_eq!(shape(Layout::Packed, KeySpec::U64, row).bytes(), 64);
        assert_eq!(shape(Layout::InPlace, KeySpec::U64, number).bytes(), 256);
        assert_eq!(shape(Layout::InPlace, KeySpec::U64, row).bytes(), 128);
        assert_eq!(shape(Layout::InPlace, key, number).bytes(), 8 * (8 + 24 + 24));
        assert!(shape(Layout::InPlace, KeySpec::U64, row).fingerprint_is_key());
        assert!(!shape(Layout::InPlace, key, row).fingerprint_is_key());
    }

    #[test]
    fn parts_of_slots_do_not_overlap() {
        let shape = shape(Layout::InPlace, KeySpec::fixed(20).unwrap(), ValueSpec::U64);
        let words: Vec<AtomicU64> = (0..shape.words()).map(|_| AtomicU64::new(0)).collect();
        let bucket = Bucket::new(&words, 4096);
        let mut taken = std::collections::BTreeSet::new();
        for number in 0..8 {
            let slot = bucket.slot(&shape, number);
            let parts = [(slot.state, 1), (slot.key, 3), (slot.payload, 3)];
            for word in parts.into_iter().flat_map(|(at, words)| (0..words).map(move |word| at + 8 * word)) {
                assert!((4096..4096 + shape.bytes()).contains(&word) && taken.insert(word));
            }
        }
        assert_eq!(taken.len(), shape.words());
    }

    #[test]
    fn heads() {
        let first = Head::first(7);
        let second = first.next(8);
        assert_eq!((first.version(), second.version(), second.next(9).version()), (7, 8, 9));
        assert_eq!([first, second, second.next(9)].map(Head::value_word), [1, 2, 1]);
    }
}
