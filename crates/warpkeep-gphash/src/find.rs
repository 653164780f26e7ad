//! Lookup: the slots of a key, the item in one of them, a free slot for a new item.

use std::sync::atomic::Ordering;

use warpkeep_core::unmix64;
use warpkeep_image::Persist;
use warpkeep_record::{ItemRef, ValueRef};

use crate::Table;
use crate::bucket::{Body, Bucket, Head, Slot};
use crate::geometry::Locations;
use crate::levels::{Level, Levels, overflow_buckets};
use crate::matching::Matching;
use crate::slot::{EMPTY, INSERT, offset_of};

/// The state of an item whose fingerprint is a reserved state. Its slot in the header identifies the key.
const SPECIAL: u64 = 1;
/// The fingerprints that are reserved states, in the order of their slots in the header.
pub(crate) const TAKEN: [u64; 2] = [EMPTY, INSERT];

/// A slot with the item of a key in it.
#[derive(Clone, Copy, Debug)]
#[allow(unreachable_pub, reason = "a part of `Seat`, which has no public name")]
pub struct Found {
    /// Where the state of the slot lies in the image.
    pub(crate) state: u64,
    /// Where the word lies that an update replaces.
    pub(crate) commit_at: u64,
    /// What that word is now.
    pub(crate) commit: u64,
    pub(crate) item: ItemRef,
    pub(crate) in_overflow: bool,
}

/// A slot that was claimed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) slot: Slot,
    pub(crate) in_overflow: bool,
}

/// A key to look up.
#[derive(Clone, Copy)]
pub(crate) struct Sought<'k> {
    pub(crate) hash: u64,
    pub(crate) key: &'k [u8],
    /// Whether its value is read next.
    pub(crate) value_is_read: bool,
}

impl<P: Persist> Table<P> {
    /// The item of a key.
    ///
    /// A level that is being drained is read first: an item is stored in its new slot before it leaves the old one, so
    /// a lookup in this order finds it at least once.
    #[inline]
    pub(crate) fn find<M: Matching>(
        &self,
        matching: M,
        levels: &Levels,
        sought: Sought<'_>,
    ) -> Option<Found> {
        let Sought { hash, key, .. } = sought;
        if let Some(slot) = self.special_slot(hash) {
            let bucket = self.specials.bucket(&self.shape, 0);
            return self.read_in_place(bucket, slot, SPECIAL, key);
        }
        let locations = self.geometry.locations(hash, levels.base_buckets());
        if levels.drained > 0 {
            let mut old = levels.old_overflows.iter();
            let found = old.find_map(|old| self.find_in_overflow(matching, old, sought));
            if found.is_some() {
                return found;
            }
            let found = self.find_in_levels(matching, levels.drained(), &locations, sought);
            if found.is_some() {
                return found;
            }
        }
        let found = self.find_in_levels(matching, levels.open(), &locations, sought);
        if found.is_some() || self.in_overflow.load(Ordering::Acquire) == 0 {
            return found;
        }
        self.find_in_overflow(matching, &levels.overflow, sought)
    }

    /// Loops, not `find_map`: a closure that the compiler does not inline is not compiled for the vector instructions
    /// of `matching`.
    #[inline(always)]
    fn find_in_levels<'l, M: Matching>(
        &self,
        matching: M,
        levels: impl Iterator<Item = (usize, &'l Level)>,
        locations: &Locations,
        sought: Sought<'_>,
    ) -> Option<Found> {
        for (below, level) in levels {
            for top in locations.tops() {
                let found = self.find_in_bucket(matching, level.bucket(&self.shape, top >> below), sought);
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    #[cold]
    fn find_in_overflow<M: Matching>(
        &self,
        matching: M,
        overflow: &Level,
        sought: Sought<'_>,
    ) -> Option<Found> {
        let found = overflow_buckets(overflow, sought.hash)
            .find_map(|bucket| self.find_in_bucket(matching, overflow.bucket(&self.shape, bucket), sought));
        found.map(|found| Found { in_overflow: true, ..found })
    }

    #[inline(always)]
    fn find_in_bucket<M: Matching>(
        &self,
        matching: M,
        bucket: Bucket<'_>,
        sought: Sought<'_>,
    ) -> Option<Found> {
        let mut candidates = self.candidates(matching, bucket, sought.hash);
        while candidates != 0 {
            let slot = candidates.trailing_zeros() as usize;
            candidates &= candidates - 1;
            // All its lines at once: the key need not have been compared for the value to be on its way.
            if sought.value_is_read {
                self.prefetch_slot(bucket, slot, true);
            }
            let found = self.read_slot(bucket, slot, sought.hash, sought.key);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// The slots of a bucket that may have the item of a key with this hash, a bit each.
    #[inline(always)]
    pub(crate) fn candidates<M: Matching>(&self, matching: M, bucket: Bucket<'_>, hash: u64) -> u32 {
        let states = bucket.states(&self.shape);
        match self.shape.body {
            Body::Packed => matching.tags(states, hash),
            Body::Inline { .. } | Body::Reference => matching.words(states, fingerprint(hash)),
        }
    }

    /// The item in a slot, if it is that of the key.
    #[inline(always)]
    pub(crate) fn read_slot(&self, bucket: Bucket<'_>, slot: usize, hash: u64, key: &[u8]) -> Option<Found> {
        if self.shape.body != Body::Packed {
            return self.read_in_place(bucket, slot, fingerprint(hash), key);
        }
        let word = bucket.state(slot);
        // It may have changed since its tag was found to match.
        if !crate::slot::may_match(word, hash) {
            return None;
        }
        let record = self.form.at(self.image(), offset_of(word));
        record.has_key(self.image(), key).then(|| {
            let state = bucket.slot(&self.shape, slot).state;
            Found { state, commit_at: state, commit: word, item: record.item(), in_overflow: false }
        })
    }

    /// The item in a slot of the in-place layout. The bytes are valid only if the slot still has the same state and the
    /// same commit word after reading them: slots are reused at once.
    #[inline(always)]
    fn read_in_place(&self, bucket: Bucket<'_>, slot: usize, state: u64, key: &[u8]) -> Option<Found> {
        if bucket.state(slot) != state {
            return None;
        }
        loop {
            let commit = bucket.payload(&self.shape, slot, 0);
            if !bucket.has_key(&self.shape, slot, key) {
                return None;
            }
            // A record stays while the epoch is pinned, but the word is a reference only if the slot had this state
            // when it was read. So the record is read below, after that check.
            let word = match self.shape.body {
                Body::Inline { .. } => bucket.payload(&self.shape, slot, Head(commit).value_word()),
                Body::Reference | Body::Packed => 0,
            };
            // The state before the head: if the slot was emptied and filled again, a reader of the new state reads the
            // new head.
            if bucket.state(slot) != state {
                return None;
            }
            if bucket.payload(&self.shape, slot, 0) != commit {
                continue;
            }
            let item = self.item_of(commit, word);
            let slot = bucket.slot(&self.shape, slot);
            return Some(Found {
                state: slot.state,
                commit_at: slot.payload,
                commit,
                item,
                in_overflow: false,
            });
        }
    }

    /// The item of a commit word and of the value beside it.
    pub(crate) fn item_of(&self, commit: u64, word: u64) -> ItemRef {
        match self.shape.body {
            Body::Packed => self.form.at(self.image(), offset_of(commit)).item(),
            Body::Reference => self.form.at(self.image(), commit).item(),
            Body::Inline { len } => ItemRef {
                version: Head(commit).version(),
                value: ValueRef::Word { bytes: word.to_le_bytes(), len },
            },
        }
    }

    /// The item in a slot; its key is appended to `key`. `None` for an empty slot.
    pub(crate) fn read_any(&self, bucket: Bucket<'_>, slot: usize, key: &mut Vec<u8>) -> Option<ItemRef> {
        let start = key.len();
        loop {
            key.truncate(start);
            let state = bucket.state(slot);
            if state == EMPTY || state == INSERT {
                return None;
            }
            if self.shape.body == Body::Packed {
                let record = self.form.at(self.image(), offset_of(state));
                record.append_key(self.image(), key);
                return Some(record.item());
            }
            let commit = bucket.payload(&self.shape, slot, 0);
            match self.shape.fingerprint_is_key() {
                true => {
                    key.extend(unmix64(self.seed, self.fingerprint_in(bucket, slot, state)).to_le_bytes());
                }
                false => bucket.append_key(&self.shape, slot, self.key.max_len(), key),
            }
            let word = match self.shape.body {
                Body::Inline { .. } => bucket.payload(&self.shape, slot, Head(commit).value_word()),
                Body::Reference | Body::Packed => 0,
            };
            if bucket.state(slot) == state && bucket.payload(&self.shape, slot, 0) == commit {
                return Some(self.item_of(commit, word));
            }
        }
    }

    /// The fingerprint that the state of an item stands for.
    fn fingerprint_in(&self, bucket: Bucket<'_>, slot: usize, state: u64) -> u64 {
        let special = self.specials.buckets > 0
            && bucket.slot(&self.shape, 0).state
                == self.specials.bucket(&self.shape, 0).slot(&self.shape, 0).state;
        if special { TAKEN.get(slot).copied().unwrap_or(state) } else { state }
    }

    /// The slot in the header of the item with this hash, if its fingerprint is a state of another meaning.
    #[inline]
    fn special_slot(&self, hash: u64) -> Option<usize> {
        if hash != EMPTY && hash != INSERT || !self.shape.fingerprint_is_key() {
            return None;
        }
        TAKEN.iter().position(|&taken| taken == hash)
    }

    /// The state of a slot of the in-place layout that holds the item with this hash.
    pub(crate) fn state_in_place(&self, hash: u64) -> u64 {
        if self.special_slot(hash).is_some() { SPECIAL } else { fingerprint(hash) }
    }

    /// Where the payload of the slot lies whose state lies at an offset.
    pub(crate) fn payload_of(&self, state_at: u64) -> u64 {
        let guard = &self.heap.pin();
        let bytes = self.shape.bytes();
        let mut runs = self.runs(self.levels(guard));
        let run = runs.find(|run| (run.offset..run.offset + run.buckets * bytes).contains(&state_at));
        run.map_or(0, |run| {
            let within = state_at - run.offset;
            let bucket = run.bucket(&self.shape, within / bytes);
            bucket.slot(&self.shape, (within % bytes / 8) as usize).payload
        })
    }

    /// Claims an empty slot for a key: in the first of its top buckets while that is half empty, then in the emptiest,
    /// else in a lower level, else by displacing an item, else in the overflow. Filling the top first makes tables
    /// fuller before the first failure, and keeps most items in the bucket that lookups read first.
    pub(crate) fn claim(&self, levels: &Levels, hash: u64) -> Option<Place> {
        if let Some(slot) = self.special_slot(hash) {
            let slot = self.specials.bucket(&self.shape, 0).slot(&self.shape, slot);
            return self.claim_slot(slot).then_some(Place { slot, in_overflow: false });
        }
        let locations = self.geometry.locations(hash, levels.base_buckets());
        for (below, level) in levels.open() {
            while let Some(bucket) = self.emptiest(level, below, &locations) {
                if let Some(slot) = self.claim_in(level.bucket(&self.shape, bucket)) {
                    return Some(Place { slot, in_overflow: false });
                }
            }
        }
        if let Some(place) = self.displace(levels, hash) {
            return Some(place);
        }
        let overflow = &levels.overflow;
        let slot = overflow_buckets(overflow, hash)
            .find_map(|bucket| self.claim_in(overflow.bucket(&self.shape, bucket)))?;
        self.in_overflow.fetch_add(1, Ordering::AcqRel);
        Some(Place { slot, in_overflow: true })
    }

    fn emptiest(&self, level: &Level, below: usize, locations: &Locations) -> Option<u64> {
        let room = |bucket: u64| {
            let states = level.bucket(&self.shape, bucket).states(&self.shape).iter();
            states.filter(|state| state.load(Ordering::Relaxed) == EMPTY).count()
        };
        let first = locations.tops()[0] >> below;
        // Choosing by free slots alone, tables would be full at 0.95 instead of 0.94, but every second item would be in
        // the bucket that lookups read second.
        if 2 * room(first) >= self.shape.slots() {
            return Some(first);
        }
        let rooms = locations.tops().iter().map(|top| (room(top >> below), top >> below));
        // The first of equals, so that `max_by_key`, which takes the last, goes backwards.
        let (room, bucket) = rooms.rev().max_by_key(|&(room, _)| room)?;
        (room > 0).then_some(bucket)
    }

    pub(crate) fn claim_in(&self, bucket: Bucket<'_>) -> Option<Slot> {
        let states = bucket.states(&self.shape).iter().enumerate();
        states
            .filter(|(_, state)| state.load(Ordering::Relaxed) == EMPTY)
            .map(|(slot, _)| bucket.slot(&self.shape, slot))
            .find(|&slot| self.claim_slot(slot))
    }

    fn claim_slot(&self, slot: Slot) -> bool {
        self.image().cas(slot.state, EMPTY, INSERT).is_ok()
    }

    /// Releases a claimed slot.
    pub(crate) fn unclaim(&self, place: Place) {
        self.image().store(place.slot.state, EMPTY);
        if place.in_overflow {
            self.in_overflow.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// The fingerprint of a key that is stored in full. Such keys may share fingerprints, so reserved states are mapped to
/// others.
#[inline]
pub(crate) fn fingerprint(hash: u64) -> u64 {
    if hash == EMPTY || hash == INSERT { hash ^ 1 } else { hash }
}
