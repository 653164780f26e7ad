//! Buckets: 256 bytes, aligned to 256, the unit that persistent memory works in.
//!
//! | offset | bytes | contents |
//! | --- | --- | --- |
//! | 0 | 8 | [commit word](crate::commit) |
//! | 8 | 14 | a tag a slot: the low byte of the key's hash |
//! | 22 | 2 | zeros |
//! | 24 | 8 | filter: a bit for six bits of the hash of every item that lies further on and was put past this bucket |
//! | 32 | 224 | slots |
//!
//! | slots | number and size | contents of one |
//! | --- | --- | --- |
//! | of references | 14 of 16 bytes | hash u64; offset of the record u64 |
//! | of values | 9 of 24 bytes, then 8 bytes zeros | hash u64; value, zeros to 8; version u64 |
//!
//! A search continues past a bucket only if it is full and its filter has the bit of the hash. Bits are set before
//! an item that goes past counts, and never cleared, so a filter may have false positives but no false negatives.
//! Thanks to the filter, a search for an absent key nearly always ends in its home bucket.
//!
//! Values are in slots where keys have 8 bytes and values at most 8. The hash of an 8-byte key is a bijection of
//! it, so such keys are stored nowhere else. An item has a version, and nine slots of three words are still better
//! than fourteen of two with a record for each: 28 bytes an item instead of 34, and one miss less.

use std::sync::atomic::{AtomicU64, Ordering};

use warpkeep_core::{KeySpec, ValueSpec};
use warpkeep_image::{Image, Persist};
use warpkeep_record::prefetch;

use crate::commit::Commit;

/// Bytes in a bucket.
pub(crate) const BUCKET: u64 = 256;
/// Words in a bucket.
pub(crate) const WORDS: usize = (BUCKET / 8) as usize;
/// The words of a bucket.
pub(crate) type Words = [AtomicU64; WORDS];

const TAGS: usize = 1;
const FILTER: usize = 3;
const SLOTS: usize = 4;

/// The contents of a table's slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Offsets of records.
    References,
    /// Values of `len` bytes.
    Values { len: u8 },
}

impl Shape {
    pub(crate) fn new(key: KeySpec, value: ValueSpec) -> Shape {
        match (key.fixed_len(), value.fixed_len()) {
            (Some(8), Some(len @ 0..=8)) => Shape::Values { len: len as u8 },
            _ => Shape::References,
        }
    }

    /// Slots in a bucket.
    #[inline]
    pub(crate) fn slots(self) -> usize {
        match self {
            Shape::References => 14,
            Shape::Values { .. } => 9,
        }
    }

    /// Slots in a bucket that items can be in: one is kept free for updates.
    #[inline]
    pub(crate) fn usable(self) -> usize {
        self.slots() - 1
    }

    /// Words in a slot.
    #[inline]
    pub(crate) fn slot_words(self) -> usize {
        match self {
            Shape::References => 2,
            Shape::Values { .. } => 3,
        }
    }
}

/// The contents of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) hash: u64,
    /// The offset of the record, or the value.
    pub(crate) payload: u64,
    /// The version of a value; 0 if the slot refers to a record.
    pub(crate) version: u64,
}

/// The tag of a hash.
#[inline]
pub(crate) fn tag_of(hash: u64) -> u8 {
    hash as u8
}

/// The bit of a hash in filters. Other bits of the hash than tag and home are made of.
#[inline]
pub(crate) fn filter_bit(hash: u64) -> u64 {
    1 << (hash >> 8 & 63)
}

/// One bucket in an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket<'a> {
    pub(crate) words: &'a Words,
    /// Where it lies in the image.
    pub(crate) at: u64,
}

impl Bucket<'_> {
    #[inline]
    pub(crate) fn commit(&self) -> Commit {
        Commit(self.words[0].load(Ordering::Acquire))
    }

    #[inline]
    pub(crate) fn tags(&self) -> [u64; 2] {
        [self.words[TAGS].load(Ordering::Acquire), self.words[TAGS + 1].load(Ordering::Acquire)]
    }

    /// Whether an item with such a hash may have been put past this bucket while it was full.
    #[inline]
    pub(crate) fn was_passed(&self, hash: u64) -> bool {
        self.words[FILTER].load(Ordering::Acquire) & filter_bit(hash) != 0
    }

    /// The filter of a full bucket; searches never continue past any other.
    pub(crate) fn passable(&self, shape: Shape) -> u64 {
        if self.commit().marks(shape.slots()).has_room(shape.slots()) {
            0
        } else {
            self.words[FILTER].load(Ordering::Acquire)
        }
    }

    /// The hash in a slot, with the same validity as [`Bucket::contents`].
    #[inline]
    pub(crate) fn hash(&self, shape: Shape, slot: usize) -> u64 {
        self.words[SLOTS + slot * shape.slot_words()].load(Ordering::Acquire)
    }

    /// The contents of a slot, word by word: valid only if the commit word is the same before and after.
    #[inline]
    pub(crate) fn contents(&self, shape: Shape, slot: usize) -> Contents {
        let first = SLOTS + slot * shape.slot_words();
        let word = |number: usize| self.words[first + number].load(Ordering::Acquire);
        let version = if shape.slot_words() == 3 { word(2) } else { 0 };
        Contents { hash: word(0), payload: word(1), version }
    }

    /// All that counts, as of one moment.
    pub(crate) fn items(&self, shape: Shape, into: &mut Vec<Contents>) {
        loop {
            into.clear();
            let commit = self.commit();
            into.extend(slots_of(commit.live(shape.slots())).map(|slot| self.contents(shape, slot)));
            if self.commit() == commit {
                return;
            }
        }
    }

    /// Brings a slot nearer.
    #[inline]
    pub(crate) fn prefetch_slot(&self, shape: Shape, slot: usize) {
        prefetch::line(self.words[SLOTS + slot * shape.slot_words()].as_ptr().cast());
    }
}

/// The slots of a mask, the lowest first.
pub(crate) fn slots_of(mut mask: u16) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let slot = (mask != 0).then_some(mask.trailing_zeros() as usize);
        mask &= mask.wrapping_sub(1);
        slot
    })
}

/// Where the payload of a slot lies.
pub(crate) fn payload_at(shape: Shape, bucket: u64, slot: usize) -> u64 {
    bucket + 8 * (SLOTS + slot * shape.slot_words() + 1) as u64
}

/// Fills a slot that does not count, flushed but not fenced. The caller holds the shard.
pub(crate) fn fill<P: Persist>(
    image: &Image<P>,
    shape: Shape,
    bucket: u64,
    slot: usize,
    contents: &Contents,
) {
    let tags = bucket + 8 * (TAGS + slot / 8) as u64;
    image.store(tags, with_tag(image.load(tags), slot, contents.hash));
    image.flush("turbohash.tag", tags, 8);
    let (at, words) = (bucket + 8 * (SLOTS + slot * shape.slot_words()) as u64, words_of(contents));
    for (number, &word) in words[..shape.slot_words()].iter().enumerate() {
        image.store(at + 8 * number as u64, word);
    }
    image.flush("turbohash.slot", at, 8 * shape.slot_words() as u64);
}

/// Records in a bucket's filter that an item with such a hash is about to be put past it, flushed but not fenced.
/// The caller holds the shard.
pub(crate) fn note_passing<P: Persist>(image: &Image<P>, bucket: Bucket<'_>, hash: u64) {
    if !bucket.was_passed(hash) {
        let at = bucket.at + 8 * FILTER as u64;
        image.store(at, image.load(at) | filter_bit(hash));
        image.flush("turbohash.filter", at, 8);
    }
}

/// The same for a bucket that is being built in memory.
pub(crate) fn note_passing_aside(bucket: &mut [u64; WORDS], hash: u64) {
    bucket[FILTER] |= filter_bit(hash);
}

/// [`fill`] for a bucket that is being built in memory.
pub(crate) fn fill_aside(bucket: &mut [u64; WORDS], shape: Shape, slot: usize, contents: &Contents) {
    let tags = TAGS + slot / 8;
    bucket[tags] = with_tag(bucket[tags], slot, contents.hash);
    let first = SLOTS + slot * shape.slot_words();
    bucket[first..][..shape.slot_words()].copy_from_slice(&words_of(contents)[..shape.slot_words()]);
}

fn words_of(contents: &Contents) -> [u64; 3] {
    [contents.hash, contents.payload, contents.version]
}

fn with_tag(tags: u64, slot: usize, hash: u64) -> u64 {
    let shift = 8 * (slot % 8);
    tags & !(0xff << shift) | u64::from(tag_of(hash)) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_is_found_and_nothing_overlaps() {
        for shape in [Shape::References, Shape::Values { len: 8 }] {
            let mut words = [0; WORDS];
            let of = |slot: usize| {
                let hash = 0x1111 * (slot as u64 + 3);
                let version = if shape == Shape::References { 0 } else { 7 + slot as u64 };
                Contents { hash, payload: !hash, version }
            };
            (0..shape.slots()).for_each(|slot| fill_aside(&mut words, shape, slot, &of(slot)));
            assert_eq!((words[0], words[FILTER]), (0, 0), "no item has the commit word or the filter");
            let words = words.map(AtomicU64::new);
            let bucket = Bucket { words: &words, at: 0 };
            for slot in 0..shape.slots() {
                assert_eq!(bucket.contents(shape, slot), of(slot));
                assert_eq!((bucket.tags()[slot / 8] >> (8 * (slot % 8))) as u8, tag_of(of(slot).hash));
            }
            assert!(8 * (SLOTS + shape.slots() * shape.slot_words()) <= BUCKET as usize);
        }
    }
}
