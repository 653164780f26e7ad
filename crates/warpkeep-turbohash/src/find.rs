//! Finding: the item of a key, without locks.

use warpkeep_core::unmix64;
use warpkeep_image::Persist;
use warpkeep_record::{ItemRef, ValueRef};

use crate::Table;
use crate::bucket::{self, Bucket, Contents, Shape, tag_of};
use crate::matching;
use crate::shard::Shard;

/// A slot with the item of a key in it.
#[derive(Clone, Copy, Debug)]
#[allow(unreachable_pub, reason = "a part of `Seat`, which has no public name")]
pub struct Found {
    /// Where its bucket lies in the image.
    pub(crate) bucket: u64,
    pub(crate) slot: usize,
    pub(crate) item: ItemRef,
    /// Where its record lies, if it has one.
    pub(crate) record: Option<u64>,
}

/// The result of searching one bucket.
enum Look {
    Found(Found),
    /// Not here, and not further on.
    End,
    /// Not here.
    Further,
}

/// The moments during a search of a bucket at which a test can interfere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// The commit word was read.
    Begun,
    /// The hash in a slot is the right one, and the rest has not been read.
    Matched,
}

impl<P: Persist> Table<P> {
    /// Records in the filters of all buckets from the home of a hash to another on its path that an item goes past.
    /// Flushed but not fenced; the shard is held.
    pub(crate) fn note_passing(&self, shard: &Shard<'_>, hash: u64, to: u64) {
        let passed = shard.path(self.locate(hash).1).take_while(|bucket| bucket.at != to);
        passed.for_each(|bucket| bucket::note_passing(self.image(), bucket, hash));
    }

    /// The item of a key. The shard stays valid as long as an epoch is pinned; a reader of a shard that was
    /// replaced sees it as it was at that moment.
    #[inline]
    pub(crate) fn find(&self, shard: &Shard<'_>, hash: u64, fraction: u64, key: &[u8]) -> Option<Found> {
        for bucket in shard.path(fraction) {
            match self.look(bucket, hash, key) {
                Look::Found(found) => return Some(found),
                Look::End => return None,
                Look::Further => {}
            }
        }
        None
    }

    #[inline]
    fn look(&self, bucket: Bucket<'_>, hash: u64, key: &[u8]) -> Look {
        self.look_while(bucket, hash, key, |_| {})
    }

    /// A search with interference by other threads at critical moments: for tests.
    #[inline(always)]
    fn look_while(
        &self,
        bucket: Bucket<'_>,
        hash: u64,
        key: &[u8],
        mut meanwhile: impl FnMut(Moment),
    ) -> Look {
        'again: loop {
            let commit = bucket.commit();
            meanwhile(Moment::Begun);
            let mut candidates =
                matching::equal(bucket.tags(), tag_of(hash)) & commit.live(self.shape.slots());
            while candidates != 0 {
                let slot = candidates.trailing_zeros() as usize;
                candidates &= candidates - 1;
                if bucket.hash(self.shape, slot) != hash {
                    continue;
                }
                meanwhile(Moment::Matched);
                let contents = bucket.contents(self.shape, slot);
                // Slots are reused at once. A record stays while the epoch is pinned, but only an offset that was
                // read while its slot counted is known to be a record: so this check comes before the record is
                // read.
                if bucket.commit() != commit {
                    continue 'again;
                }
                if let Some((item, record)) = self.item_of(&contents, key) {
                    return Look::Found(Found { bucket: bucket.at, slot, item, record });
                }
            }
            // A miss is trusted only if nothing has changed either: an update moves an item to another slot.
            if bucket.commit() != commit {
                continue;
            }
            let ends =
                commit.marks(self.shape.slots()).has_room(self.shape.slots()) || !bucket.was_passed(hash);
            return if ends { Look::End } else { Look::Further };
        }
    }

    /// The item of this key in a slot that has its hash.
    #[inline]
    fn item_of(&self, contents: &Contents, key: &[u8]) -> Option<(ItemRef, Option<u64>)> {
        if let Shape::Values { len } = self.shape {
            return Some((value_item(contents, len), None)).filter(|_| key.len() == 8);
        }
        let record = self.form.at(self.image(), contents.payload);
        let same = self.hash_is_key(key.len()) || record.has_key(self.image(), key);
        same.then(|| (record.item(), Some(contents.payload)))
    }

    /// Whether keys of this table and this length are identified by their hashes.
    #[inline]
    fn hash_is_key(&self, len: usize) -> bool {
        len == 8 && self.key.fixed_len() == Some(8)
    }

    /// The item in a slot, whatever its key, which is appended to `key`. The contents were valid in this epoch.
    pub(crate) fn read_any(&self, contents: &Contents, key: &mut Vec<u8>) -> ItemRef {
        if self.hash_is_key(8) {
            key.extend(unmix64(self.seed, contents.hash).to_le_bytes());
        }
        if let Shape::Values { len } = self.shape {
            return value_item(contents, len);
        }
        let record = self.form.at(self.image(), contents.payload);
        if !self.hash_is_key(8) {
            record.append_key(self.image(), key);
        }
        record.item()
    }
}

fn value_item(contents: &Contents, len: u8) -> ItemRef {
    let value = ValueRef::Word { bytes: contents.payload.to_le_bytes(), len };
    ItemRef { version: contents.version, value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::fill;
    use crate::testing::{put, remove, table};

    /// Searches for a key in the only bucket of a table, with one interference.
    fn look(
        value: u32,
        key: u64,
        at: Moment,
        meanwhile: impl Fn(&Table<warpkeep_image::Coherent>),
    ) -> Option<u8> {
        let table = table(value, 1);
        (1..=3).for_each(|key| put(&table, key, &vec![key as u8; value as usize]));
        let _guard = table.heap.pin();
        let key = key.to_le_bytes();
        let mut once = true;
        let found = table.look_while(table.shard(0).bucket(0), table.hash(&key), &key, |moment| {
            if moment == at && std::mem::take(&mut once) {
                meanwhile(&table);
            }
        });
        assert!(!once, "it never came to that");
        match found {
            Look::Found(found) => Some(crate::Value::new(table.image(), found.item).bytes()[0]),
            Look::End | Look::Further => None,
        }
    }

    /// One change, the removal, is enough for another key to take the slot: it is written to before the next
    /// commit.
    #[test]
    fn a_slot_that_is_being_used_again_is_not_believed() {
        for value in [8, 16] {
            let found = look(value, 1, Moment::Matched, |table| {
                let bucket = table.shard(0).bucket(0);
                let contents = |slot| bucket.contents(table.shape, slot);
                let hash = table.hash(&1_u64.to_le_bytes());
                let slot = slots(table).find(|&slot| contents(slot).hash == hash).unwrap();
                let other = slots(table).find(|&slot| contents(slot).hash != hash).unwrap();
                let before = bucket.commit().0 >> 32;
                remove(table, 1);
                assert_eq!(bucket.commit().0 >> 32, before + 1);
                fill(table.image(), table.shape, bucket.at, slot, &contents(other));
            });
            assert_eq!(found, None);
        }
    }

    fn slots(table: &Table<warpkeep_image::Coherent>) -> impl Iterator<Item = usize> + use<> {
        crate::bucket::slots_of(table.shard(0).bucket(0).commit().live(table.shape.slots()))
    }

    /// The key is there throughout, though never in the slot that the first reading of the commit word suggests.
    #[test]
    fn a_key_that_moves_to_another_slot_is_not_missed() {
        for value in [8, 16] {
            let found = look(value, 1, Moment::Begun, |table| {
                let new = |byte: u8| vec![byte; table.value.max_len()];
                put(table, 1, &new(9));
                // Takes the slot that the first one left.
                put(table, 2, &new(2));
            });
            assert_eq!(found, Some(9));
        }
    }

    /// Another version, published while the first was being read, is returned.
    #[test]
    fn a_version_that_is_replaced_meanwhile_is_read_again() {
        for value in [8, 16] {
            let found =
                look(value, 3, Moment::Matched, |table| put(table, 3, &vec![7; table.value.max_len()]));
            assert_eq!(found, Some(7));
        }
    }
}
