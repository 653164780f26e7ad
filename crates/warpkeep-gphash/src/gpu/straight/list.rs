//! What the host is told of an act, where it stores the words: `told_len` in `kernels/parts.h`.
//!
//! Where records lie in tiles the host stores their tails, too. A tail lies anywhere once blocks are used again, and over the link costs as much
//! as a word does; in a row with others it costs its bytes and no more.

use std::sync::atomic::{AtomicU64, Ordering};

use warpkeep_core::Op;
use warpkeep_image::Tile;
use warpkeep_record::{Digest, RecordForm, checksum_of_words};

use crate::slot::offset_of;

/// What the list has of each act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListForm {
    /// If the host stores tails.
    tails: Option<Tails>,
}

/// How tails are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tails {
    tile: Tile,
    /// Words of a key.
    key: usize,
    /// The version that the batch's operation 0 gives.
    first_version: u64,
    /// Of the word that says where an act's slot is, so many bits, the lowest, say which operation it is.
    index_bits: u32,
    /// If records have checksums.
    sums: Option<Sums>,
}

/// How checksums are made: from the list, and from digests that follow all acts, four to a piece of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sums {
    /// Bytes of a key.
    key_len: usize,
    /// Words of the list before the first digest.
    digests_at: usize,
}

impl ListForm {
    /// For a batch of so many operations on a table with such records, in an image of so many bytes. `None` if there is none: where
    /// the offset of a slot and the number of an operation do not go into one word, which takes an image of more than 64 GiB and a batch of
    /// two thousand million, or of 128 TiB and a million.
    pub(super) fn of(
        records: RecordForm,
        op: Op,
        count: u64,
        first_version: u64,
        image_len: u64,
    ) -> Option<ListForm> {
        let (RecordForm::Fixed { key, tile: Some(tile), checksum, .. }, false) = (records, op == Op::Delete)
        else {
            return Some(ListForm { tails: None });
        };
        // At least one: none says that there are no tails.
        let index_bits = (u64::BITS - count.saturating_sub(1).leading_zeros()).max(1);
        let fits = (image_len.saturating_sub(8) / 8).leading_zeros() >= index_bits;
        let words = (2 + key.div_ceil(8)) * count as usize;
        // In pieces of two words; of the last act, half of one may be left over.
        let sums = checksum.then_some(Sums { key_len: key, digests_at: words.next_multiple_of(2) });
        let tails = Tails { tile, key: key.div_ceil(8), first_version, index_bits, sums };
        fits.then_some(ListForm { tails: Some(tails) })
    }

    /// Without tails.
    #[cfg(test)]
    pub(super) fn words_only() -> ListForm {
        ListForm { tails: None }
    }

    /// Words of the list that an act has.
    pub(super) fn len(self) -> usize {
        2 + self.tails.map_or(0, |tails| tails.key)
    }

    /// Pieces of two words that the list has for this many operations.
    pub(super) fn pieces(self, count: u64) -> usize {
        let digests = self.tails.and_then(|tails| tails.sums).map_or(0, |_| count as usize);
        (self.len() * count as usize).div_ceil(2) + digests.div_ceil(4)
    }

    /// Where the digests of acts from a given one on begin, in words of the list; `None` if records have no checksums.
    pub(super) fn digests_at(self, act: u64) -> Option<usize> {
        self.tails?.sums.map(|sums| sums.digests_at + act as usize / 2)
    }

    /// What kernels are told of it: `StraightParams::index_bits`.
    pub(super) fn index_bits(self) -> u32 {
        self.tails.map_or(0, |tails| tails.index_bits)
    }

    /// How tails are told, if the host stores them.
    #[inline]
    pub(super) fn tails(self) -> Option<Tails> {
        self.tails
    }

    /// Where the word of an act goes.
    #[inline]
    pub(super) fn slot_at(self, act: &[AtomicU64]) -> u64 {
        let told = act[0].load(Ordering::Relaxed);
        self.tails.map_or(told, |tails| told >> tails.index_bits << 3)
    }

    /// Which word it is.
    #[inline]
    pub(super) fn word(self, act: &[AtomicU64]) -> u64 {
        act[1].load(Ordering::Relaxed)
    }
}

impl Tails {
    /// Where the tail of an act's record lies: its word says where the record does.
    #[inline]
    pub(super) fn at(self, act: &[AtomicU64]) -> u64 {
        self.tile.tail_at(offset_of(act[1].load(Ordering::Relaxed)))
    }

    /// Bytes of a value.
    #[inline]
    pub(super) fn value_len(self) -> usize {
        self.tile.value() as usize
    }

    /// Where its value lies.
    #[inline]
    pub(super) fn value_at(self, act: &[AtomicU64]) -> u64 {
        self.tile.value_at(offset_of(act[1].load(Ordering::Relaxed)))
    }

    /// The number of the act's operation.
    #[inline]
    pub(super) fn operation(self, act: &[AtomicU64]) -> usize {
        (act[0].load(Ordering::Relaxed) & !(u64::MAX << self.index_bits)) as usize
    }

    /// What the tail has: the words of the key, and then the version.
    #[inline]
    pub(super) fn words(self, act: &[AtomicU64]) -> (impl Iterator<Item = u64>, u64) {
        let version = self.first_version + self.operation(act) as u64;
        (act[2..].iter().map(|word| word.load(Ordering::Relaxed)), version)
    }
}

impl Tails {
    /// The checksum of an act's record, whose value has this digest; `None` if records have none.
    #[inline]
    pub(super) fn checksum(self, act: &[AtomicU64], digest: impl FnOnce() -> Digest) -> Option<u64> {
        let Sums { key_len, .. } = self.sums?;
        let (key, version) = self.words(act);
        Some(checksum_of_words(digest(), key, key_len, self.value_len(), version))
    }
}

#[cfg(test)]
mod tests {
    use warpkeep_core::ValueSpec;
    use warpkeep_record::Tiling;

    use super::*;
    use crate::slot::pack;

    fn form(key: usize, value: u32) -> RecordForm {
        let value = ValueSpec::fixed(value).unwrap();
        RecordForm::of(Some(key), value, Tiling::of(Some(key), value, false), false).unwrap()
    }

    #[test]
    fn digests_are_told_behind_the_acts() {
        let value = ValueSpec::fixed(128).unwrap();
        let new = |count| ListForm::of(RecordForm::new(Some(8), value), Op::Put, count, 7, 1 << 36).unwrap();
        // Three words an act, in pieces of two; then four digests in a piece.
        for (count, pieces, digests_at) in [(5, 8 + 2, 16), (8, 12 + 2, 24)] {
            let form = new(count);
            assert_eq!((form.len(), form.pieces(count)), (3, pieces));
            assert_eq!([form.digests_at(0), form.digests_at(4)], [Some(digests_at), Some(digests_at + 2)]);
        }
        let old = ListForm::of(form(8, 128), Op::Put, 5, 7, 1 << 36).unwrap();
        assert_eq!((old.pieces(5), old.digests_at(0)), (8, None));
        let form = new(1 << 20);
        let act = [5 << form.index_bits() | 3, pack(3, 4096 + 128 + 8), 99].map(AtomicU64::new);
        let tails = form.tails().unwrap();
        let digest = Digest::of(&[7; 128]);
        let expected = warpkeep_record::checksum(digest, &99_u64.to_le_bytes(), 128, 10);
        assert_eq!(tails.checksum(&act, || digest), Some(expected));
    }

    #[test]
    fn tails_are_told_of_records_in_tiles_that_are_written() {
        let of = |form, op| ListForm::of(form, op, 1 << 20, 7, 1 << 36).unwrap();
        assert_eq!((of(form(8, 128), Op::Put).len(), of(form(8, 128), Op::Put).index_bits()), (3, 20));
        assert_eq!(of(form(27, 128), Op::Update).len(), 6);
        for none in [of(form(8, 128), Op::Delete), of(form(8, 100), Op::Put)] {
            assert_eq!((none.len(), none.index_bits(), none.tails().is_some()), (2, 0, false));
        }
    }

    #[test]
    fn slots_and_operations_go_into_one_word_or_are_not_told() {
        let of = |count, image_len| ListForm::of(form(8, 128), Op::Put, count, 7, image_len);
        // The last slot of the image, and the last operation of the batch.
        for (count, image_len) in
            [(2, 1 << 47), (1 << 20, 1 << 47), ((1 << 20) + 1, 1 << 46), (1 << 31, 1 << 36)]
        {
            let form = of(count, image_len).unwrap();
            let (at, index, word) = (image_len - 8, count - 1, pack(3, 4096 + 128 + 8));
            let act = [(at / 8) << form.index_bits() | index, word, 99].map(AtomicU64::new);
            assert_eq!((form.slot_at(&act), form.word(&act)), (at, word));
            let tails = form.tails().unwrap();
            let (key, version) = tails.words(&act);
            assert_eq!((tails.at(&act), tails.value_at(&act)), (4096 + 8 * 128 + 16, 4096 + 128));
            assert_eq!(tails.operation(&act) as u64, index);
            assert_eq!((key.collect::<Vec<_>>(), version), (vec![99], 7 + index));
        }
        assert_eq!(of(1 << 31, (1 << 36) + 8), None);
        assert_eq!(of((1 << 20) + 1, 1 << 47), None);
    }
}
