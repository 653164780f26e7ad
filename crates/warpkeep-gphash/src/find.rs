//! Finding: the slots of a key, the record in one of them, a place for a new one.

use std::sync::atomic::Ordering;

use warpkeep_image::Persist;

use crate::Table;
use crate::geometry::Locations;
use crate::levels::{Level, Levels, overflow_buckets};
use crate::record::RecordRef;
use crate::slot::{EMPTY, INSERT, may_match, offset_of};

/// A slot with the record of a key in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// Where the slot lies in the image.
    pub(crate) slot: u64,
    pub(crate) word: u64,
    pub(crate) record: RecordRef,
    pub(crate) in_overflow: bool,
}

impl<P: Persist> Table<P> {
    /// The record of a key.
    ///
    /// While a level is drained, it is looked at first: an item is put into its new place before it is taken from the
    /// old one, so whoever looks in this order meets it at least once.
    #[inline]
    pub(crate) fn find(&self, levels: &Levels, hash: u64, key: &[u8]) -> Option<Found> {
        let locations = self.geometry.locations(hash, levels.top().buckets);
        if levels.drained > 0 {
            let mut old = levels.old_overflows.iter();
            let found = old.find_map(|old| self.find_in_overflow(old, hash, key)).or_else(|| {
                let mut drained = levels.drained();
                drained.find_map(|(below, level)| self.find_in_level(level, below, &locations, hash, key))
            });
            if found.is_some() {
                return found;
            }
        }
        let open = levels.open().iter().enumerate();
        let found = open
            .into_iter()
            .find_map(|(below, level)| self.find_in_level(level, below, &locations, hash, key));
        if found.is_some() || self.in_overflow.load(Ordering::Acquire) == 0 {
            return found;
        }
        self.find_in_overflow(&levels.overflow, hash, key)
    }

    #[inline]
    fn find_in_level(
        &self,
        level: &Level,
        below: usize,
        locations: &Locations,
        hash: u64,
        key: &[u8],
    ) -> Option<Found> {
        locations.tops().iter().find_map(|top| self.find_in_bucket(level, top >> below, hash, key))
    }

    fn find_in_overflow(&self, overflow: &Level, hash: u64, key: &[u8]) -> Option<Found> {
        let found = overflow_buckets(overflow, hash)
            .find_map(|bucket| self.find_in_bucket(overflow, bucket, hash, key));
        found.map(|found| Found { in_overflow: true, ..found })
    }

    #[inline]
    fn find_in_bucket(&self, level: &Level, bucket: u64, hash: u64, key: &[u8]) -> Option<Found> {
        for (slot, word) in level.bucket(self.geometry, bucket).iter().enumerate() {
            let word = word.load(Ordering::Acquire);
            if may_match(word, hash) {
                let record = self.form.at(self.image(), offset_of(word));
                if record.has_key(self.image(), key) {
                    let slot = level.slot(self.geometry, bucket, slot);
                    return Some(Found { slot, word, record, in_overflow: false });
                }
            }
        }
        None
    }

    /// All slots a key could be in, with what is in them.
    pub(crate) fn slots_of<'a>(
        &'a self,
        levels: &'a Levels,
        hash: u64,
    ) -> impl Iterator<Item = (u64, u64)> + 'a {
        let locations = self.geometry.locations(hash, levels.top().buckets);
        let in_levels = levels.levels.iter().enumerate().flat_map(move |(below, level)| {
            (0..locations.tops().len()).map(move |which| (level, locations.tops()[which] >> below))
        });
        let in_overflows = levels
            .overflows()
            .flat_map(move |overflow| overflow_buckets(overflow, hash).map(move |bucket| (overflow, bucket)));
        in_levels.chain(in_overflows).flat_map(move |(level, bucket)| {
            let words = level.bucket(self.geometry, bucket).iter().enumerate();
            words.map(move |(slot, word)| {
                (level.slot(self.geometry, bucket, slot), word.load(Ordering::Acquire))
            })
        })
    }

    /// Claims an empty slot for a key: in the emptiest of its top buckets, else further down, else in the overflow.
    /// Filling the top first makes tables fuller before the first failure, and keeps most items where they are
    /// looked for first.
    pub(crate) fn claim(&self, levels: &Levels, hash: u64) -> Option<Place> {
        let locations = self.geometry.locations(hash, levels.top().buckets);
        for (below, level) in levels.open().iter().enumerate() {
            while let Some(bucket) = self.emptiest(level, below, &locations) {
                if let Some(slot) = self.claim_in(level, bucket) {
                    return Some(Place { slot, in_overflow: false });
                }
            }
        }
        let overflow = &levels.overflow;
        let slot = overflow_buckets(overflow, hash).find_map(|bucket| self.claim_in(overflow, bucket))?;
        self.in_overflow.fetch_add(1, Ordering::AcqRel);
        Some(Place { slot, in_overflow: true })
    }

    fn emptiest(&self, level: &Level, below: usize, locations: &Locations) -> Option<u64> {
        let room = |bucket: u64| {
            let words = level.bucket(self.geometry, bucket).iter();
            words.filter(|word| word.load(Ordering::Relaxed) == EMPTY).count()
        };
        let buckets = locations.tops().iter().map(|top| top >> below);
        // The first of equals, so that `max_by_key`, which takes the last, goes backwards.
        buckets.rev().max_by_key(|&bucket| room(bucket)).filter(|&bucket| room(bucket) > 0)
    }

    fn claim_in(&self, level: &Level, bucket: u64) -> Option<u64> {
        (0..self.geometry.slots())
            .map(|slot| level.slot(self.geometry, bucket, slot))
            .find(|&slot| self.image().load(slot) == EMPTY && self.image().cas(slot, EMPTY, INSERT).is_ok())
    }

    /// Gives a claimed slot back.
    pub(crate) fn unclaim(&self, place: Place) {
        self.image().store(place.slot, EMPTY);
        if place.in_overflow {
            self.in_overflow.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// A slot that was claimed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) slot: u64,
    pub(crate) in_overflow: bool,
}
