//! A share of a part: acts side by side whose tails and words one thread of the host stores, and values, where they are the host's.

use std::sync::atomic::{AtomicU64, Ordering};

use warpkeep_device::fault_point;
use warpkeep_image::{Image, Persist};
use warpkeep_record::{Digest, Streaming, prefetch};

use super::host_values::HostValues;
use super::list::{ListForm, Tails};
use super::words::{HostStep, Observer};

/// Acts ahead of the one whose word, or tail, is stored: their lines are on their way meanwhile.
const AHEAD: usize = 24;
/// Words of the list ahead of those: the device has just written them, and the machine asks for what comes next only within a page.
const TOLD_AHEAD: usize = 128;

/// Values whose length is not known before.
const ANY: usize = 0;
/// Bytes of a line, and bytes of a value that are asked for ahead, at the most: more the machine fetches itself once it sees the pattern.
const LINE: usize = 64;
const MOST_BYTES: usize = 256;

/// Such acts.
pub(super) struct Share<'s, P: Persist> {
    pub(super) image: &'s Image<P>,
    pub(super) form: ListForm,
    /// The values, if the host stores them.
    pub(super) values: Option<HostValues<'s>>,
    /// What is told of them.
    pub(super) acts: &'s [AtomicU64],
    /// The digests of their values, two in a word, where those are the device's and records have checksums.
    pub(super) digests: &'s [AtomicU64],
}

impl<P: Persist> Share<'_, P> {
    /// Stores all values that are the host's, and tails, and then all words.
    pub(super) fn store(&self, observer: Option<&Observer>) {
        let put = |at, word| self.image.store(at, word);
        // Whoever is not observed has a loop of his own, with nothing in it that can be known before.
        match (observer, self.form.len()) {
            (None, 2) => self.store_by::<2>(|| self.stream_values(), put, || ()),
            (None, 3) => self.store_by::<3>(|| self.stream_values(), put, || ()),
            (None, _) => self.store_by::<0>(|| self.stream_values(), put, || ()),
            (Some(observer), _) => {
                let observed = |at, word| {
                    observer(HostStep::Store(at, word));
                    put(at, word);
                };
                self.store_by::<0>(|| self.store_values(observed), observed, || observer(HostStep::Fence));
            }
        }
    }

    /// The same, where so many words are told of an act; 0 if that is not known before.
    #[inline(always)]
    fn store_by<const LEN: usize>(&self, values: impl Fn(), put: impl Fn(u64, u64), fencing: impl Fn()) {
        let (values_late, tails_late) =
            (fault_point!("host.values_before_words"), fault_point!("host.tails_before_words"));
        if !values_late {
            values();
        }
        if !tails_late {
            self.store_tails::<LEN>(&put, &fencing);
        }
        self.store_words::<LEN>(&put, &fencing);
        if tails_late {
            self.store_tails::<LEN>(&put, &fencing);
        }
        if values_late {
            values();
            fencing();
        }
    }

    /// Past the caches, for nobody reads them soon: a line that is written whole is not fetched before. They are fenced with the tails.
    fn stream_values(&self) {
        let (Some(tails), Some(values)) = (self.form.tails(), self.values) else { return };
        // A copy whose length is known when the program is built takes half the instructions of one that is not.
        match tails.value_len() {
            128 => self.stream_values_of::<128>(tails, values),
            256 => self.stream_values_of::<256>(tails, values),
            512 => self.stream_values_of::<512>(tails, values),
            _ => self.stream_values_of::<ANY>(tails, values),
        }
    }

    fn stream_values_of<const BYTES: usize>(&self, tails: Tails, values: HostValues<'_>) {
        let bytes = if BYTES == ANY { tails.value_len() } else { BYTES };
        let streaming = Streaming::begin();
        let soon = |act: &[AtomicU64]| {
            let value = values.of(tails.operation(act)).as_ptr();
            (0..bytes.min(MOST_BYTES)).step_by(LINE).for_each(|at| prefetch::line(value.wrapping_add(at)));
        };
        self.each::<0>(soon, |_, act| {
            let (at, value) = (tails.value_at(act), &values.of(tails.operation(act))[..bytes]);
            // SAFETY: the record is one of this batch, in a block that nobody has but this thread until a word leads to it.
            unsafe { streaming.write(self.image, at, value) };
            if P::WRITES_BACK {
                self.image.flush("straight-values", at, bytes as u64);
            }
        });
    }

    /// The same, word by word.
    fn store_values(&self, put: impl Fn(u64, u64)) {
        let (Some(tails), Some(values)) = (self.form.tails(), self.values) else { return };
        for act in self.acts.chunks_exact(self.form.len()) {
            let (begin, value) = (tails.value_at(act), values.of(tails.operation(act)));
            for (at, word) in (begin..).step_by(8).zip(value.as_chunks().0) {
                put(at, u64::from_le_bytes(*word));
            }
            if P::WRITES_BACK {
                self.image.flush("straight-values", begin, value.len() as u64);
            }
        }
    }

    #[inline(always)]
    fn store_tails<const LEN: usize>(&self, put: impl Fn(u64, u64), fencing: impl Fn()) {
        let Some(tails) = self.form.tails().filter(|_| !fault_point!("host.tails_stored")) else { return };
        let image = self.image.pointer(0, 8);
        let soon = |act: &[AtomicU64]| prefetch::line_to_write(image.wrapping_add(tails.at(act) as usize));
        let summed = !fault_point!("host.checksum");
        self.each::<LEN>(soon, |number, act| {
            let (begin, (key, version)) = (tails.at(act), tails.words(act));
            let mut at = begin;
            for word in key {
                put(at, word);
                at += 8;
            }
            put(at, version);
            if let Some(sum) = tails.checksum(act, || self.digest(tails, number, act)).filter(|_| summed) {
                at += 8;
                put(at, sum);
            }
            if P::WRITES_BACK {
                self.image.flush("straight-tails", begin, at + 8 - begin);
            }
        });
        // Records, before words lead to them.
        if !fault_point!("host.tail_fence") {
            fencing();
            self.image.fence("straight-tails");
        }
    }

    /// The digest of an act's value: told by the device that has it, or made of the host's.
    #[inline(always)]
    fn digest(&self, tails: Tails, number: usize, act: &[AtomicU64]) -> Digest {
        match self.values {
            Some(values) => Digest::of(&values.of(tails.operation(act))[..tails.value_len()]),
            None => Digest((self.digests[number / 2].load(Ordering::Relaxed) >> (32 * (number % 2))) as u32),
        }
    }

    #[inline(always)]
    fn store_words<const LEN: usize>(&self, put: impl Fn(u64, u64), fencing: impl Fn()) {
        let image = self.image.pointer(0, 8);
        let soon =
            |act: &[AtomicU64]| prefetch::line_to_write(image.wrapping_add(self.form.slot_at(act) as usize));
        self.each::<LEN>(soon, |_, act| {
            let at = self.form.slot_at(act);
            put(at, self.form.word(act));
            if P::WRITES_BACK {
                self.image.flush("straight-words", at, 8);
            }
        });
        // Before the acknowledgement, before entries, and before what they led to is used again.
        fencing();
        self.image.fence("straight-words");
    }

    /// Does something for each act, by its number, and something else a while before, so that lines are on their way that it is about.
    #[inline(always)]
    fn each<const LEN: usize>(&self, soon: impl Fn(&[AtomicU64]), store: impl Fn(usize, &[AtomicU64])) {
        let len = if LEN == 0 { self.form.len() } else { LEN };
        let soon = |act: &[AtomicU64]| {
            prefetch::line(act.as_ptr().wrapping_add(TOLD_AHEAD).cast());
            soon(act);
        };
        let mut coming = self.acts.chunks_exact(len);
        coming.by_ref().take(AHEAD).for_each(soon);
        for (number, act) in self.acts.chunks_exact(len).enumerate() {
            if let Some(later) = coming.next() {
                soon(later);
            }
            store(number, act);
        }
    }
}
