//! A share of a part: acts side by side whose tails and words one thread of the host stores.

use std::sync::atomic::AtomicU64;

use warpkeep_image::{Image, Persist};
use warpkeep_record::prefetch;

use super::list::ListForm;
use super::words::{HostStep, Observer};
use crate::gpu::left_out::is_left_out;

/// Acts ahead of the one whose word, or tail, is stored: their lines are on their way meanwhile.
const AHEAD: usize = 24;
/// Words of the list ahead of those: the device has just written them, and the machine asks for what comes next only within a page.
const TOLD_AHEAD: usize = 128;

/// Steps of `kernels/steps.h` that are the host's. Tails are stored before words; and fenced; and stored at all.
const TAILED: u32 = 23;
const TAILS_FENCED: u32 = 24;
const TAILS: u32 = 25;

/// Such acts.
pub(super) struct Share<'s, P: Persist> {
    pub(super) image: &'s Image<P>,
    pub(super) form: ListForm,
    /// What is told of them.
    pub(super) acts: &'s [AtomicU64],
}

impl<P: Persist> Share<'_, P> {
    /// Stores all tails, and then all words.
    pub(super) fn store(&self, observer: Option<&Observer>) {
        let put = |at, word| self.image.store(at, word);
        // Whoever is not observed has a loop of his own, with nothing in it that can be known before.
        match (observer, self.form.len()) {
            (None, 2) => self.store_by::<2>(put, || ()),
            (None, 3) => self.store_by::<3>(put, || ()),
            (None, _) => self.store_by::<0>(put, || ()),
            (Some(observer), _) => {
                let observed = |at, word| {
                    observer(HostStep::Store(at, word));
                    put(at, word);
                };
                self.store_by::<0>(observed, || observer(HostStep::Fence));
            }
        }
    }

    /// The same, where so many words are told of an act; 0 if that is not known before.
    #[inline(always)]
    fn store_by<const LEN: usize>(&self, put: impl Fn(u64, u64), fencing: impl Fn()) {
        let late = is_left_out(TAILED);
        if !late {
            self.store_tails::<LEN>(&put, &fencing);
        }
        self.store_words::<LEN>(&put, &fencing);
        if late {
            self.store_tails::<LEN>(&put, &fencing);
        }
    }

    #[inline(always)]
    fn store_tails<const LEN: usize>(&self, put: impl Fn(u64, u64), fencing: impl Fn()) {
        let Some(tails) = self.form.tails().filter(|_| !is_left_out(TAILS)) else { return };
        let at = |act: &[AtomicU64]| tails.at(act);
        self.each::<LEN>(at, |act, begin| {
            let (key, version) = tails.words(act);
            let mut at = begin;
            for word in key {
                put(at, word);
                at += 8;
            }
            put(at, version);
            if P::WRITES_BACK {
                self.image.flush("straight-tails", begin, at + 8 - begin);
            }
        });
        // Records, before words lead to them.
        if !is_left_out(TAILS_FENCED) {
            fencing();
            self.image.fence("straight-tails");
        }
    }

    #[inline(always)]
    fn store_words<const LEN: usize>(&self, put: impl Fn(u64, u64), fencing: impl Fn()) {
        let at = |act: &[AtomicU64]| self.form.slot_at(act);
        self.each::<LEN>(at, |act, at| {
            put(at, self.form.word(act));
            if P::WRITES_BACK {
                self.image.flush("straight-words", at, 8);
            }
        });
        // Before the acknowledgement, before entries, and before what they led to is used again.
        fencing();
        self.image.fence("straight-words");
    }

    /// Does something for each act, where the line is on its way that it is about.
    #[inline(always)]
    fn each<const LEN: usize>(&self, at: impl Fn(&[AtomicU64]) -> u64, store: impl Fn(&[AtomicU64], u64)) {
        let len = if LEN == 0 { self.form.len() } else { LEN };
        let image = self.image.pointer(0, 8);
        let soon = |act: &[AtomicU64]| {
            prefetch::line(act.as_ptr().wrapping_add(TOLD_AHEAD).cast());
            prefetch::line_to_write(image.wrapping_add(at(act) as usize));
        };
        let mut coming = self.acts.chunks_exact(len);
        coming.by_ref().take(AHEAD).for_each(soon);
        for act in self.acts.chunks_exact(len) {
            if let Some(later) = coming.next() {
                soon(later);
            }
            store(act, at(act));
        }
    }
}
