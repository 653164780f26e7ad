//! Checks items while the table is in use: slot and record belong together, lengths are possible, checksums are
//! right.

use warpkeep_core::{Change, ChangeKind, unmix64};
use warpkeep_image::Persist;
use warpkeep_record::{Damage, DamagedItem, ItemRef};

use crate::bucket::{Bucket, Contents, Shape, filter_bit, slots_of, tag_of};
use crate::scan::Position;
use crate::shard::Shard;
use crate::{Table, Value};

impl<P: Persist> Table<P> {
    /// Whether its records have checksums: those of older tables have none, nor do values in slots.
    pub fn has_checksums(&self) -> bool {
        self.shape == Shape::References && self.form.has_checksums()
    }

    /// Returns every item as [`Table::scan`] does, each checked: that its slot and its record belong together, that
    /// its lengths are possible, and that its checksum is right, if it has one. Damaged items are returned as
    /// damaged.
    pub fn scan_checked<E>(
        &self,
        table: u32,
        mut each: impl FnMut(Result<&Change<'_>, &DamagedItem>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut items = Vec::new();
        for number in 0..self.shards() {
            let mut position = Position::default();
            let mut more = true;
            while more {
                more = self.walk_shard(number, &mut position, |shard, bucket| {
                    self.read_bucket(bucket, &mut items);
                    for &(slot, contents) in &items {
                        let mut key = Vec::new();
                        let found = match self.check_slot(number, shard, bucket, slot, &contents, &mut key) {
                            Err((Damage::Misplaced, _))
                                if !self.is_still(number, shard, bucket, slot, &contents) =>
                            {
                                continue;
                            }
                            found => found,
                        };
                        match found {
                            Ok(item) => {
                                let value = Value::new(self.image(), item);
                                let (version, value) = (value.version(), value.bytes());
                                each(Ok(&Change {
                                    table,
                                    kind: ChangeKind::Put,
                                    version,
                                    key: &key,
                                    value,
                                }))?;
                            }
                            Err((damage, key_belongs)) => {
                                let record = (self.shape == Shape::References).then_some(contents.payload);
                                let bucket = bucket.at;
                                each(Err(&DamagedItem { key, key_belongs, bucket, slot, record, damage }))?;
                            }
                        }
                    }
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    /// All items of a bucket, as of one moment.
    fn read_bucket(&self, bucket: Bucket<'_>, into: &mut Vec<(usize, Contents)>) {
        loop {
            into.clear();
            let commit = bucket.commit();
            let slots = slots_of(commit.live(self.shape.slots()));
            into.extend(slots.map(|slot| (slot, bucket.contents(self.shape, slot))));
            if bucket.commit() == commit {
                return;
            }
        }
    }

    /// The item in a slot or its damage, and whether a search for its key reaches the slot. The key is appended to
    /// `key`, as far as it is readable.
    fn check_slot(
        &self,
        number: usize,
        shard: &Shard<'_>,
        bucket: Bucket<'_>,
        slot: usize,
        contents: &Contents,
        key: &mut Vec<u8>,
    ) -> Result<ItemRef, (Damage, bool)> {
        let image = self.image();
        let item = match self.shape {
            Shape::Values { .. } => self.read_any(contents, key),
            Shape::References => {
                let record = self.form.find(image, contents.payload).map_err(|damage| (damage, false))?;
                match self.key.fixed_len() {
                    Some(8) => key.extend(unmix64(self.seed, contents.hash).to_le_bytes()),
                    _ => record.append_key(image, key),
                }
                record.item()
            }
        };
        let belongs = self.key.takes_len(key.len())
            && self.hash(key) == contents.hash
            && (bucket.tags()[slot / 8] >> (8 * (slot % 8))) as u8 == tag_of(contents.hash)
            && self.is_reached(number, shard, bucket, contents.hash);
        let value_len = item.value.len();
        if !self.key.takes_len(key.len()) || !self.value.takes_len(value_len) {
            let (key, value) = (key.len() as u64, value_len as u64);
            return Err((Damage::Lengths { key, value }, belongs));
        }
        if self.shape == Shape::References {
            self.form.check(image, contents.payload, key).map_err(|damage| (damage, belongs))?;
        }
        if belongs { Ok(item) } else { Err((Damage::Misplaced, false)) }
    }

    /// Whether a search for a hash reaches a bucket.
    fn is_reached(&self, number: usize, shard: &Shard<'_>, bucket: Bucket<'_>, hash: u64) -> bool {
        let (home, fraction) = self.locate(hash);
        if home != number {
            return false;
        }
        for other in shard.path(fraction) {
            if other.at == bucket.at {
                return true;
            }
            if other.passable(self.shape) & filter_bit(hash) == 0 {
                return false;
            }
        }
        false
    }

    /// Whether an item that seemed misplaced still is, with writers of the shard excluded.
    fn is_still(
        &self,
        number: usize,
        shard: &Shard<'_>,
        bucket: Bucket<'_>,
        slot: usize,
        contents: &Contents,
    ) -> bool {
        let _held = self.lock(number);
        let counts = self.run(number).offset == shard.run.offset
            && slots_of(bucket.commit().live(self.shape.slots())).any(|live| live == slot)
            && bucket.contents(self.shape, slot) == *contents;
        let misplaced = || self.check_slot(number, shard, bucket, slot, contents, &mut Vec::new());
        counts && matches!(misplaced(), Err((Damage::Misplaced, _)))
    }
}
