//! Checks of items while the table is in use: slot and record belong together, lengths are possible, checksums match.

use warpkeep_core::{Change, ChangeKind, hash_bytes, unmix64};
use warpkeep_image::Persist;
use warpkeep_record::{Damage, DamagedItem, ItemRef};

use crate::bucket::{Body, Bucket, Head, Shape};
use crate::geometry::Geometry;
use crate::levels::{Level, Levels, overflow_buckets};
use crate::read::Position;
use crate::slot::{EMPTY, INSERT, offset_of, pack};
use crate::{Table, Value};

/// The buckets and slots that lookups read.
pub(crate) struct LookedFor<'a> {
    pub(crate) geometry: Geometry,
    pub(crate) shape: &'a Shape,
    pub(crate) levels: &'a Levels,
    pub(crate) specials: Option<&'a Level>,
}

impl<'a> LookedFor<'a> {
    /// Whether a lookup of a key with this hash reads this slot and recognises the key.
    pub(crate) fn belongs(&self, run: &Level, number: u64, slot: usize, state: u64, hash: u64) -> bool {
        if self.specials.is_some_and(|specials| specials.offset == run.offset) {
            return crate::find::TAKEN.get(slot) == Some(&hash);
        }
        let recognised = match self.shape.body {
            Body::Packed => pack(hash, offset_of(state)) == state,
            Body::Inline { .. } | Body::Reference => crate::find::fingerprint(hash) == state,
        };
        recognised && self.buckets(hash).any(|(other, bucket)| (other.offset, bucket) == (run.offset, number))
    }

    /// The buckets that a lookup of a key reads.
    pub(crate) fn buckets(&self, hash: u64) -> impl Iterator<Item = (&'a Level, u64)> + use<'a> {
        let levels = self.levels;
        let locations = self.geometry.locations(hash, levels.base_buckets());
        let in_levels = levels.levels.iter().enumerate().flat_map(move |(below, level)| {
            (0..locations.tops().len()).map(move |which| (level, locations.tops()[which] >> below))
        });
        let in_overflows = levels
            .overflows()
            .flat_map(move |overflow| overflow_buckets(overflow, hash).map(move |bucket| (overflow, bucket)));
        in_levels.chain(in_overflows)
    }
}

/// What was read of a slot.
struct Read {
    state: u64,
    /// The key, or its cell; empty if there is none to be read.
    key: Vec<u8>,
    record: Option<u64>,
    item: Result<ItemRef, Damage>,
}

impl<P: Persist> Table<P> {
    /// As [`Table::scan`], with each item checked: its slot and its record belong together, its lengths are possible,
    /// and its checksum matches, if it has one. Damaged items are errors.
    pub fn scan_checked<E>(
        &self,
        table: u32,
        mut each: impl FnMut(Result<&Change<'_>, &DamagedItem>) -> Result<(), E>,
    ) -> Result<(), E> {
        let _scanning = self.displacing.scan();
        let mut position = Position::default();
        loop {
            // A guard for a few buckets: a scan must not hold up what is to be freed.
            let guard = &self.heap.pin();
            let levels = self.levels(guard);
            let Some((run, buckets)) = position.next(self.specials(), levels) else { return Ok(()) };
            for number in buckets {
                for slot in 0..self.shape.slots() {
                    let bucket = run.bucket(&self.shape, number);
                    let Some(read) = self.read_for_check(run, bucket, slot) else { continue };
                    match self.check_read(levels, run, number, slot, &read) {
                        Ok(item) => {
                            let value = Value::new(self.image(), item);
                            let cells = self.form.cells();
                            let key = cells.map_or(&read.key[..], |cells| cells.remains_in(&read.key));
                            let (version, value) = (value.version(), value.bytes());
                            each(Ok(&Change { table, kind: ChangeKind::Put, version, key, value }))?;
                        }
                        Err((damage, key_belongs)) => {
                            let cells = self.form.cells();
                            let key =
                                cells.map_or(&read.key[..], |cells| cells.remains_in(&read.key)).to_vec();
                            let bucket = bucket.slot(&self.shape, 0).state;
                            let record = read.record;
                            each(Err(&DamagedItem { key, key_belongs, bucket, slot, record, damage }))?;
                        }
                    }
                }
            }
        }
    }

    /// What a slot holds; `None` if it holds no item.
    fn read_for_check(&self, run: &Level, bucket: Bucket<'_>, slot: usize) -> Option<Read> {
        let image = self.image();
        loop {
            let state = bucket.state(slot);
            if state == EMPTY || state == INSERT {
                return None;
            }
            let mut key = Vec::new();
            if self.shape.body == Body::Packed {
                let offset = offset_of(state);
                let record = self.form.find(image, offset);
                if let Ok(record) = record {
                    record.append_stored(image, &mut key);
                }
                let item = record.map(|record| record.item());
                return Some(Read { state, key, record: Some(offset), item });
            }
            let commit = bucket.payload(&self.shape, slot, 0);
            match self.shape.fingerprint_is_key() {
                true => {
                    let special = self.specials().is_some_and(|specials| specials.offset == run.offset);
                    let taken = crate::find::TAKEN.get(slot).filter(|_| special);
                    key.extend(unmix64(self.seed, taken.copied().unwrap_or(state)).to_le_bytes());
                }
                false => bucket.append_key(&self.shape, slot, self.key.max_len(), &mut key),
            }
            let word = match self.shape.body {
                Body::Inline { .. } => bucket.payload(&self.shape, slot, Head(commit).value_word()),
                Body::Reference | Body::Packed => 0,
            };
            // Slots are used again at once.
            if bucket.state(slot) != state || bucket.payload(&self.shape, slot, 0) != commit {
                continue;
            }
            let (record, item) = match self.shape.body {
                Body::Inline { .. } => (None, Ok(self.item_of(commit, word))),
                Body::Reference | Body::Packed => {
                    (Some(commit), self.form.find(image, commit).map(|record| record.item()))
                }
            };
            return Some(Read { state, key, record, item });
        }
    }

    /// The item of a slot, or its damage, and whether lookups of its key read the slot.
    fn check_read(
        &self,
        levels: &Levels,
        run: &Level,
        number: u64,
        slot: usize,
        read: &Read,
    ) -> Result<ItemRef, (Damage, bool)> {
        let item = read.item.map_err(|damage| (damage, false))?;
        let looked_for =
            LookedFor { geometry: self.geometry, shape: &self.shape, levels, specials: self.specials() };
        let cells = self.form.cells();
        let is_key = match cells {
            Some(cells) => cells.key_in(&read.key).is_some(),
            None => self.key.takes_len(read.key.len()),
        };
        let hash = hash_bytes(self.seed, &read.key);
        let belongs = is_key && looked_for.belongs(run, number, slot, read.state, hash);
        let value_len = item.value.len();
        if cells.is_none() && !is_key || !self.value.takes_len(value_len) {
            let (key, value) = (read.key.len() as u64, value_len as u64);
            return Err((Damage::Lengths { key, value }, belongs));
        }
        if let Some(record) = read.record {
            self.form.check(self.image(), record, &read.key).map_err(|damage| (damage, belongs))?;
        }
        if belongs { Ok(item) } else { Err((Damage::Misplaced, false)) }
    }
}
