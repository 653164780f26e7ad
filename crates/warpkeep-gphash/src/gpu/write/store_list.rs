//! The store list: what the device reports to the host about the effects of a batch whose words the host publishes, and
//! how host threads store it.
//!
//! A word goes to a random slot of the index, and over the link a store to a random address costs as much as 60 bytes
//! of a sequential stream. The trailer of a record in a tile (its key, version and checksum) costs the same once its
//! block is reused. So the device streams a list of both to host memory, one effect after the other, and the host
//! stores them. `list_words` in `kernels/write/pipeline.h` is the device's side of the format:
//!
//! | words of an effect | content |
//! | --- | --- |
//! | 1 | offset of the slot; with trailers, 1/8 of it in the high bits and the number of the operation in the low bits |
//! | 1 | the word of the slot, which contains the offset of the record |
//! | key words | with trailers, the key |
//!
//! The version follows from the number of the operation. Where records have checksums, the list of effects is followed
//! by a 4-byte digest of each value, from which the host computes the checksum.
//!
//! A [`StoreTask`] stores a range of effects. Its order is the crash argument: values and trailers, fence, words,
//! fence. No word is in the image before the whole record is; the device has fenced its part of the record before the
//! host reads the list.

use std::sync::atomic::{AtomicU64, Ordering};

use warpkeep_core::Op;
use warpkeep_device::fault_point;
use warpkeep_image::{Image, Persist, Tile};
use warpkeep_record::{Digest, RecordForm, Streaming, checksum_of_words, prefetch};

use crate::gpu::write::from_host::HostValues;
use crate::gpu::write::host_publish::{HostStep, Observer};
use crate::slot::offset_of;

/// What the list contains of each effect of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoreListForm {
    /// If the host stores trailers.
    trailers: Option<TrailerForm>,
}

/// How the list describes record trailers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TrailerForm {
    tile: Tile,
    key_words: usize,
    /// The version that operation 0 of the batch writes.
    first_version: u64,
    /// Low bits of the slot's word of the list that are the number of the operation.
    index_bits: u32,
    checksum: Option<ChecksumForm>,
}

/// How the list describes checksums: by digests behind the effects, four in a unit of 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChecksumForm {
    key_len: usize,
    /// Words of the list before the first digest.
    digests_at: usize,
}

impl StoreListForm {
    /// The form for a batch of `count` operations on such records, in an image of `image_len` bytes. `None` if the
    /// offset of a slot and the number of an operation do not fit into one word: that takes an image of more than 64
    /// GiB with a batch of 2^31 operations, or one of 128 TiB with a million.
    pub(super) fn of(
        records: RecordForm,
        op: Op,
        count: u64,
        first_version: u64,
        image_len: u64,
    ) -> Option<StoreListForm> {
        let (RecordForm::Fixed { key, tile: Some(tile), checksum, .. }, false) = (records, op == Op::Delete)
        else {
            return Some(StoreListForm { trailers: None });
        };
        // At least one bit: for kernels, 0 means that there are no trailers.
        let index_bits = (u64::BITS - count.saturating_sub(1).leading_zeros()).max(1);
        let fits = (image_len.saturating_sub(8) / 8).leading_zeros() >= index_bits;
        let key_words = key.div_ceil(8);
        let words = (2 + key_words) * count as usize;
        // The list is written in units of two words, so digests begin at an even word.
        let checksum =
            checksum.then_some(ChecksumForm { key_len: key, digests_at: words.next_multiple_of(2) });
        let trailers = TrailerForm { tile, key_words, first_version, index_bits, checksum };
        fits.then_some(StoreListForm { trailers: Some(trailers) })
    }

    /// A list without trailers.
    #[cfg(test)]
    pub(super) fn words_only() -> StoreListForm {
        StoreListForm { trailers: None }
    }

    /// Words of the list per effect.
    pub(super) fn effect_words(self) -> usize {
        2 + self.trailers.map_or(0, |trailers| trailers.key_words)
    }

    /// Units of two words that the list has for `count` operations.
    pub(super) fn units(self, count: u64) -> usize {
        let digests = self.trailers.and_then(|trailers| trailers.checksum).map_or(0, |_| count as usize);
        (self.effect_words() * count as usize).div_ceil(2) + digests.div_ceil(4)
    }

    /// The word of the list with the digest of an effect, whose number is even; `None` if records have no checksums.
    pub(super) fn digests_at(self, effect: u64) -> Option<usize> {
        self.trailers?.checksum.map(|checksum| checksum.digests_at + effect as usize / 2)
    }

    /// The kernels' parameter `FusedParams::index_bits`.
    pub(super) fn index_bits(self) -> u32 {
        self.trailers.map_or(0, |trailers| trailers.index_bits)
    }

    /// The form of trailers, if the host stores them.
    #[inline]
    pub(super) fn trailers(self) -> Option<TrailerForm> {
        self.trailers
    }

    /// The offset of an effect's slot.
    #[inline]
    pub(super) fn slot_at(self, effect: &[AtomicU64]) -> u64 {
        let listed = effect[0].load(Ordering::Relaxed);
        self.trailers.map_or(listed, |trailers| listed >> trailers.index_bits << 3)
    }

    /// The word that the slot gets.
    #[inline]
    pub(super) fn word(self, effect: &[AtomicU64]) -> u64 {
        effect[1].load(Ordering::Relaxed)
    }
}

impl TrailerForm {
    /// The offset of the trailer of an effect's record.
    #[inline]
    pub(super) fn trailer_at(self, effect: &[AtomicU64]) -> u64 {
        self.tile.tail_at(offset_of(effect[1].load(Ordering::Relaxed)))
    }

    /// Bytes of a value.
    #[inline]
    pub(super) fn value_len(self) -> usize {
        self.tile.value() as usize
    }

    /// The offset of the value of an effect's record.
    #[inline]
    pub(super) fn value_at(self, effect: &[AtomicU64]) -> u64 {
        self.tile.value_at(offset_of(effect[1].load(Ordering::Relaxed)))
    }

    /// The number of the effect's operation.
    #[inline]
    pub(super) fn operation(self, effect: &[AtomicU64]) -> usize {
        (effect[0].load(Ordering::Relaxed) & !(u64::MAX << self.index_bits)) as usize
    }

    /// The content of the trailer: the words of the key, then the version.
    #[inline]
    pub(super) fn content(self, effect: &[AtomicU64]) -> (impl Iterator<Item = u64>, u64) {
        let version = self.first_version + self.operation(effect) as u64;
        (effect[2..].iter().map(|word| word.load(Ordering::Relaxed)), version)
    }

    /// The checksum of an effect's record, from the digest of its value; `None` if records have no checksums.
    #[inline]
    pub(super) fn checksum(self, effect: &[AtomicU64], digest: impl FnOnce() -> Digest) -> Option<u64> {
        let ChecksumForm { key_len, .. } = self.checksum?;
        let (key, version) = self.content(effect);
        Some(checksum_of_words(digest(), key, key_len, self.value_len(), version))
    }
}

/// Effects whose cache lines are prefetched before they are stored.
const PREFETCH_EFFECTS: usize = 24;
/// Words of the list that are prefetched before those: the device has just written them, and the hardware prefetcher
/// stops at each page.
const PREFETCH_WORDS: usize = 128;
/// Bytes of a value that are prefetched at most: the hardware prefetcher fetches the rest.
const PREFETCH_BYTES: usize = 256;
const LINE: usize = 64;

/// A length of values that is not known at compile time.
const ANY_LEN: usize = 0;

/// A range of effects that one host thread stores: words and trailers, and values if those come from host memory.
pub(super) struct StoreTask<'s, P: Persist> {
    pub(super) image: &'s Image<P>,
    pub(super) form: StoreListForm,
    /// The values, if the host stores them.
    pub(super) values: Option<HostValues<'s>>,
    /// The effects of the range in the list.
    pub(super) effects: &'s [AtomicU64],
    /// The digests of their values, two in a word; empty if the host stores the values or records have no checksums.
    pub(super) digests: &'s [AtomicU64],
}

impl<P: Persist> StoreTask<'_, P> {
    /// Stores values and trailers, and then words.
    pub(super) fn store(&self, observer: Option<&Observer>) {
        let put = |at, word| self.image.store(at, word);
        // Without a test observer, the loops are specialised for the common words per effect.
        match (observer, self.form.effect_words()) {
            (None, 2) => self.store_in_order::<2>(|| self.stream_values(), put, || ()),
            (None, 3) => self.store_in_order::<3>(|| self.stream_values(), put, || ()),
            (None, _) => self.store_in_order::<0>(|| self.stream_values(), put, || ()),
            (Some(observer), _) => {
                let put = |at, word| {
                    observer(HostStep::Store(at, word));
                    put(at, word);
                };
                self.store_in_order::<0>(|| self.store_values(put), put, || observer(HostStep::Fence));
            }
        }
    }

    /// The same for `WORDS` words per effect; 0 if that is not known at compile time. `before_fence` is called before
    /// each fence.
    #[inline(always)]
    fn store_in_order<const WORDS: usize>(
        &self,
        store_values: impl Fn(),
        put: impl Fn(u64, u64),
        before_fence: impl Fn(),
    ) {
        let (values_late, trailers_late) =
            (fault_point!("host.values_before_words"), fault_point!("host.tails_before_words"));
        if !values_late {
            store_values();
        }
        if !trailers_late {
            self.store_trailers::<WORDS>(&put, &before_fence);
        }
        self.store_words::<WORDS>(&put, &before_fence);
        if trailers_late {
            self.store_trailers::<WORDS>(&put, &before_fence);
        }
        if values_late {
            store_values();
            before_fence();
        }
    }

    /// Stores values with non-temporal stores, which do not read a line before they overwrite it: the values are not
    /// read soon. The fence of the trailers covers them.
    fn stream_values(&self) {
        let (Some(trailers), Some(values)) = (self.form.trailers(), self.values) else { return };
        // A copy of constant length takes half the instructions.
        match trailers.value_len() {
            128 => self.stream_values_of::<128>(trailers, values),
            256 => self.stream_values_of::<256>(trailers, values),
            512 => self.stream_values_of::<512>(trailers, values),
            _ => self.stream_values_of::<ANY_LEN>(trailers, values),
        }
    }

    fn stream_values_of<const LEN: usize>(&self, trailers: TrailerForm, values: HostValues<'_>) {
        let len = if LEN == ANY_LEN { trailers.value_len() } else { LEN };
        let streaming = Streaming::begin();
        let prefetch = |effect: &[AtomicU64]| {
            let value = values.of(trailers.operation(effect)).as_ptr();
            (0..len.min(PREFETCH_BYTES)).step_by(LINE).for_each(|at| prefetch::line(value.wrapping_add(at)));
        };
        self.each::<0>(prefetch, |_, effect| {
            let (at, value) = (trailers.value_at(effect), &values.of(trailers.operation(effect))[..len]);
            // SAFETY: the block was allocated to this effect, no word refers to it yet, and only this thread has the
            // effect.
            unsafe { streaming.write(self.image, at, value) };
            if P::WRITES_BACK {
                self.image.flush("gphash.fused_values", at, len as u64);
            }
        });
    }

    /// The same word by word, for an observer.
    fn store_values(&self, put: impl Fn(u64, u64)) {
        let (Some(trailers), Some(values)) = (self.form.trailers(), self.values) else { return };
        for effect in self.effects.chunks_exact(self.form.effect_words()) {
            let (begin, value) = (trailers.value_at(effect), values.of(trailers.operation(effect)));
            for (at, word) in (begin..).step_by(8).zip(value.as_chunks().0) {
                put(at, u64::from_le_bytes(*word));
            }
            if P::WRITES_BACK {
                self.image.flush("gphash.fused_values", begin, value.len() as u64);
            }
        }
    }

    #[inline(always)]
    fn store_trailers<const WORDS: usize>(&self, put: impl Fn(u64, u64), before_fence: impl Fn()) {
        let Some(trailers) = self.form.trailers().filter(|_| !fault_point!("host.tails_stored")) else {
            return;
        };
        let image = self.image.pointer(0, 8);
        let prefetch = |effect: &[AtomicU64]| {
            prefetch::line_to_write(image.wrapping_add(trailers.trailer_at(effect) as usize));
        };
        let with_checksum = !fault_point!("host.checksum");
        self.each::<WORDS>(prefetch, |number, effect| {
            let (begin, (key, version)) = (trailers.trailer_at(effect), trailers.content(effect));
            let mut at = begin;
            for word in key {
                put(at, word);
                at += 8;
            }
            put(at, version);
            let checksum = trailers.checksum(effect, || self.digest(trailers, number, effect));
            if let Some(checksum) = checksum.filter(|_| with_checksum) {
                at += 8;
                put(at, checksum);
            }
            if P::WRITES_BACK {
                self.image.flush("gphash.fused_trailers", begin, at + 8 - begin);
            }
        });
        // Records before the words that refer to them.
        if !fault_point!("host.tail_fence") {
            before_fence();
            self.image.fence("gphash.fused_trailers");
        }
    }

    /// The digest of an effect's value: from the list, or computed if the host has the value.
    #[inline(always)]
    fn digest(&self, trailers: TrailerForm, number: usize, effect: &[AtomicU64]) -> Digest {
        match self.values {
            Some(values) => Digest::of(&values.of(trailers.operation(effect))[..trailers.value_len()]),
            None => Digest((self.digests[number / 2].load(Ordering::Relaxed) >> (32 * (number % 2))) as u32),
        }
    }

    #[inline(always)]
    fn store_words<const WORDS: usize>(&self, put: impl Fn(u64, u64), before_fence: impl Fn()) {
        let image = self.image.pointer(0, 8);
        let prefetch = |effect: &[AtomicU64]| {
            prefetch::line_to_write(image.wrapping_add(self.form.slot_at(effect) as usize));
        };
        self.each::<WORDS>(prefetch, |_, effect| {
            let at = self.form.slot_at(effect);
            put(at, self.form.word(effect));
            if P::WRITES_BACK {
                self.image.flush("gphash.fused_words", at, 8);
            }
        });
        // Words before the acknowledgement, before index entries, and before the blocks of replaced records are reused.
        before_fence();
        self.image.fence("gphash.fused_words");
    }

    /// Calls `store` for each effect with its number, and `prefetch` for the effect that is `PREFETCH_EFFECTS` later.
    #[inline(always)]
    fn each<const WORDS: usize>(&self, prefetch: impl Fn(&[AtomicU64]), store: impl Fn(usize, &[AtomicU64])) {
        let words = if WORDS == 0 { self.form.effect_words() } else { WORDS };
        let prefetch = |effect: &[AtomicU64]| {
            prefetch::line(effect.as_ptr().wrapping_add(PREFETCH_WORDS).cast());
            prefetch(effect);
        };
        let mut later = self.effects.chunks_exact(words);
        later.by_ref().take(PREFETCH_EFFECTS).for_each(prefetch);
        for (number, effect) in self.effects.chunks_exact(words).enumerate() {
            if let Some(later) = later.next() {
                prefetch(later);
            }
            store(number, effect);
        }
    }
}

#[cfg(test)]
mod tests {
    use warpkeep_core::ValueSpec;
    use warpkeep_record::Tiling;

    use super::*;
    use crate::slot::pack;

    fn record_form(key: usize, value: u32) -> RecordForm {
        let value = ValueSpec::fixed(value).unwrap();
        RecordForm::of(Some(key), value, Tiling::of(Some(key), value, false), false).unwrap()
    }

    #[test]
    fn digests_follow_the_effects() {
        let value = ValueSpec::fixed(128).unwrap();
        let with_checksums =
            |count| StoreListForm::of(RecordForm::new(Some(8), value), Op::Put, count, 7, 1 << 36).unwrap();
        // Three words per effect, in units of two; then four digests in a unit.
        for (count, units, digests_at) in [(5, 8 + 2, 16), (8, 12 + 2, 24)] {
            let form = with_checksums(count);
            assert_eq!((form.effect_words(), form.units(count)), (3, units));
            assert_eq!([form.digests_at(0), form.digests_at(4)], [Some(digests_at), Some(digests_at + 2)]);
        }
        let without = StoreListForm::of(record_form(8, 128), Op::Put, 5, 7, 1 << 36).unwrap();
        assert_eq!((without.units(5), without.digests_at(0)), (8, None));
        let form = with_checksums(1 << 20);
        let effect = [5 << form.index_bits() | 3, pack(3, 4096 + 128 + 8), 99].map(AtomicU64::new);
        let trailers = form.trailers().unwrap();
        let digest = Digest::of(&[7; 128]);
        let expected = warpkeep_record::checksum(digest, &99_u64.to_le_bytes(), 128, 10);
        assert_eq!(trailers.checksum(&effect, || digest), Some(expected));
    }

    #[test]
    fn trailers_are_listed_for_written_records_in_tiles() {
        let of = |form, op| StoreListForm::of(form, op, 1 << 20, 7, 1 << 36).unwrap();
        let put = of(record_form(8, 128), Op::Put);
        assert_eq!((put.effect_words(), put.index_bits()), (3, 20));
        assert_eq!(of(record_form(27, 128), Op::Update).effect_words(), 6);
        for none in [of(record_form(8, 128), Op::Delete), of(record_form(8, 100), Op::Put)] {
            assert_eq!((none.effect_words(), none.index_bits(), none.trailers().is_some()), (2, 0, false));
        }
    }

    #[test]
    fn there_is_no_form_if_slot_and_operation_do_not_fit_into_a_word() {
        let of = |count, image_len| StoreListForm::of(record_form(8, 128), Op::Put, count, 7, image_len);
        // The last slot of the image, and the last operation of the batch.
        for (count, image_len) in
            [(2, 1 << 47), (1 << 20, 1 << 47), ((1 << 20) + 1, 1 << 46), (1 << 31, 1 << 36)]
        {
            let form = of(count, image_len).unwrap();
            let (at, index, word) = (image_len - 8, count - 1, pack(3, 4096 + 128 + 8));
            let effect = [(at / 8) << form.index_bits() | index, word, 99].map(AtomicU64::new);
            assert_eq!((form.slot_at(&effect), form.word(&effect)), (at, word));
            let trailers = form.trailers().unwrap();
            let (key, version) = trailers.content(&effect);
            let offsets = (trailers.trailer_at(&effect), trailers.value_at(&effect));
            assert_eq!(offsets, (4096 + 8 * 128 + 16, 4096 + 128));
            assert_eq!(trailers.operation(&effect) as u64, index);
            assert_eq!((key.collect::<Vec<_>>(), version), (vec![99], 7 + index));
        }
        assert_eq!(of(1 << 31, (1 << 36) + 8), None);
        assert_eq!(of((1 << 20) + 1, 1 << 47), None);
    }
}
