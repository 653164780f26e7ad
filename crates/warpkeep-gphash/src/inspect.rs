//! Inspection of a table that is not in use: every item is in a slot that lookups read, and in one only.

use std::sync::atomic::{AtomicU64, Ordering};
use warpkeep_core::{hash_bytes, unmix64};
use warpkeep_image::{Image, Persist};
use warpkeep_record::{Inspection, RecordForm, in_parallel};

use crate::bucket::{Body, Bucket, Shape};
use crate::check::LookedFor;
use crate::find::TAKEN;
use crate::header::{Header, JOURNAL_AT, LEVELS_AT};
use crate::levels::{Level, Levels};
use crate::slot::{EMPTY, INSERT, offset_of};
use crate::table::SHARE;
use crate::{Table, TableError};

pub(crate) struct Inspector<'a, P: Persist> {
    image: &'a Image<P>,
    header: Header,
    shape: Shape,
    form: RecordForm,
    levels: Levels,
    specials: Option<Level>,
    /// The slot that an item was leaving, if one was being displaced.
    left: u64,
}

impl<P: Persist> Table<P> {
    /// Inspects every item of the table whose header is at an offset, and changes nothing. The table has just been
    /// [marked](Table::mark), so that its references are valid, and is not written meanwhile.
    pub fn inspect(image: &Image<P>, header: u64) -> Result<Inspection, TableError> {
        Inspector::new(image, header)?.inspect()
    }
}

impl<'a, P: Persist> Inspector<'a, P> {
    /// Looks at the table whose header lies at an offset.
    pub(crate) fn new(image: &'a Image<P>, header: u64) -> Result<Inspector<'a, P>, TableError> {
        let identity = Header::read(image, header)?;
        let shape = identity.shape();
        Ok(Inspector {
            image,
            form: identity.form(),
            levels: Levels::read(image, identity.geometry, &shape, image.load(header + LEVELS_AT))?,
            specials: identity.specials(image, header),
            left: image.load(header + JOURNAL_AT),
            header: identity,
            shape,
        })
    }

    /// The run that the bucket at an offset is of, and its number there.
    pub(crate) fn run_of(&self, bucket: u64) -> Option<(&Level, u64)> {
        let mut runs = self.levels.overflows().chain(&self.levels.levels).chain(&self.specials);
        runs.find_map(|run| run.slot_at(&self.shape, bucket).map(|(number, _)| (run, number)))
    }

    /// The key that is stored in a slot, and whether lookups of it read the slot.
    pub(crate) fn key_in_slot(
        &self,
        run: &Level,
        number: u64,
        bucket: Bucket<'_>,
        slot: usize,
    ) -> (Vec<u8>, bool) {
        let mut key = Vec::new();
        if self.shape.body == Body::Packed {
            return (key, false);
        }
        self.append_key(run, bucket, slot, &mut key);
        let hash = hash_bytes(self.header.seed, &key);
        let belongs = self.looked_for().belongs(run, number, slot, bucket.state(slot), hash);
        (key, belongs)
    }

    /// Whether a record that two slots refer to does not identify the one it belongs to.
    pub(crate) fn is_doubtful(&self, run: &Level, bucket: Bucket<'_>, slot: usize) -> bool {
        let keyless = self.shape.body != Body::Packed && !self.form.has_checksums();
        keyless || self.has_copy(run, bucket, slot, bucket.state(slot))
    }

    /// Whether the item of a slot, whose reference is valid, is in another slot of its key as well.
    pub(crate) fn has_copy(&self, run: &Level, bucket: Bucket<'_>, slot: usize, state: u64) -> bool {
        let mut key = Vec::new();
        self.append_key(run, bucket, slot, &mut key);
        let here = bucket.slot(&self.shape, slot).state;
        let places = self.places(hash_bytes(self.header.seed, &key), &key);
        places.into_iter().any(|at| at != here && self.image.load(at) == state)
    }

    fn inspect(&self) -> Result<Inspection, TableError> {
        let counts: [AtomicU64; 5] = Default::default();
        let runs = self.levels.overflows().chain(&self.levels.levels).chain(&self.specials);
        for run in runs {
            in_parallel(run.buckets, SHARE, |buckets| {
                for number in buckets {
                    let found = self.look(run, number);
                    for (count, found) in counts.iter().zip(found) {
                        count.fetch_add(found, Ordering::Relaxed);
                    }
                }
                Ok::<(), TableError>(())
            })?;
        }
        let [items, unfinished, moving, misplaced, doubled] = counts.map(AtomicU64::into_inner);
        Ok(Inspection { items: items - moving, unfinished, deleted: 0, moving, misplaced, doubled })
    }

    fn looked_for(&self) -> LookedFor<'_> {
        LookedFor {
            geometry: self.header.geometry,
            shape: &self.shape,
            levels: &self.levels,
            specials: self.specials.as_ref(),
        }
    }

    /// Items, unfinished, moving, misplaced, doubled of a bucket.
    fn look(&self, run: &Level, number: u64) -> [u64; 5] {
        let bucket = run.bucket(&self.shape, number);
        let outgoing = self.levels.outgoing().any(|outgoing| outgoing.offset == run.offset);
        let mut found = [0; 5];
        let mut key = Vec::new();
        for slot in 0..self.shape.slots() {
            let state = bucket.state(slot);
            if state == EMPTY || state == INSERT {
                found[1] += u64::from(state == INSERT);
                continue;
            }
            found[0] += 1;
            key.clear();
            self.append_key(run, bucket, slot, &mut key);
            let hash = hash_bytes(self.header.seed, &key);
            // No lookup finds a key in a malformed cell.
            let is_key = self.header.cells.is_none_or(|cells| cells.key_in(&key).is_some());
            found[3] += u64::from(!is_key || !self.looked_for().belongs(run, number, slot, state, hash));
            // Each pair is found twice, and counted at its first half, in any order of the slots of a key.
            let places = self.places(hash, &key);
            if places.len() > 1 {
                let here = bucket.slot(&self.shape, slot).state;
                let first = places[0] == here;
                match places.len() == 2 && (outgoing || here == self.left) {
                    true => found[2] += 1,
                    false => found[4] += u64::from(first && !self.is_moving(&places)),
                }
            }
        }
        found
    }

    /// The key in a slot, or its cell, where keys are kept in cells.
    fn append_key(&self, run: &Level, bucket: Bucket<'_>, slot: usize, key: &mut Vec<u8>) {
        let state = bucket.state(slot);
        if self.shape.body == Body::Packed {
            return self.form.at(self.image, offset_of(state)).append_stored(self.image, key);
        }
        if !self.shape.fingerprint_is_key() {
            return bucket.append_key(&self.shape, slot, self.header.key.max_len(), key);
        }
        let special = self.specials.is_some_and(|specials| specials.offset == run.offset);
        let fingerprint = if special { TAKEN.get(slot).copied().unwrap_or(state) } else { state };
        key.extend(unmix64(self.header.seed, fingerprint).to_le_bytes());
    }

    /// Where the states of a key lie.
    fn places(&self, hash: u64, key: &[u8]) -> Vec<u64> {
        let mut places = Vec::new();
        let mut other = Vec::new();
        for (level, number) in self.looked_for().buckets(hash) {
            let bucket = level.bucket(&self.shape, number);
            for slot in 0..self.shape.slots() {
                let state = bucket.state(slot);
                let candidate = match self.shape.body {
                    Body::Packed => crate::slot::may_match(state, hash),
                    Body::Inline { .. } | Body::Reference => crate::find::fingerprint(hash) == state,
                };
                if !candidate {
                    continue;
                }
                other.clear();
                self.append_key(level, bucket, slot, &mut other);
                let at = bucket.slot(&self.shape, slot).state;
                if other == key && !places.contains(&at) {
                    places.push(at);
                }
            }
        }
        places
    }

    /// Whether an item is leaving one of two slots.
    fn is_moving(&self, places: &[u64]) -> bool {
        let outgoing = |at: &u64| {
            let drained = |run: &Level| run.offset..run.offset + run.buckets * self.shape.bytes();
            *at == self.left || self.levels.outgoing().any(|run| drained(run).contains(at))
        };
        places.len() == 2 && places.iter().any(outgoing)
    }
}
