//! Defragmentation: records and shards move out of slabs that are being cleared.

use warpkeep_image::{Clearing, Guard, ImageError, Persist};

use crate::bucket::{Bucket, Shape, payload_at, slots_of};
use crate::{Table, TableError};

impl<P: Persist> Table<P> {
    /// Moves its records and shards out of slabs that are being cleared, while reads continue and writers wait for
    /// one shard at a time; returns how many it moved.
    pub fn defragment(&self, clearing: &Clearing<'_, P>) -> Result<u64, TableError> {
        let mut moved = 0;
        if clearing.slabs() == 0 {
            return Ok(moved);
        }
        for number in 0..self.shards() {
            let mut tally = self.lock(number);
            let guard = &self.heap.pin();
            if clearing.contains(self.run(number).offset) {
                let bits = self.run(number).bits;
                self.rebuild(number, &mut tally, bits, guard)?;
                moved += 1;
            }
            if self.shape == Shape::References {
                for bucket in self.shard(number).iter() {
                    moved += self.move_records(clearing, bucket, guard)?;
                }
            }
        }
        Ok(moved)
    }

    /// Bytes of a record with a key and a value of these lengths.
    pub fn record_len(&self, key: usize, value: usize) -> u64 {
        self.form.len(key, value)
    }

    /// Like [`Table::defragment`], for a list of blocks that must become free: searches all shards. A record
    /// without another place stays.
    pub fn vacate(&self, clearing: &Clearing<'_, P>, _: &mut Vec<(u64, u64)>) -> Result<u64, TableError> {
        match self.defragment(clearing) {
            Err(TableError::Image(ImageError::OutOfSpace { .. })) => Ok(0),
            moved => moved,
        }
    }

    /// Moves the records of a bucket whose shard is held.
    fn move_records(
        &self,
        clearing: &Clearing<'_, P>,
        bucket: Bucket<'_>,
        guard: &Guard,
    ) -> Result<u64, TableError> {
        let image = self.image();
        let mut retired = Vec::new();
        let mut failure = None;
        for slot in slots_of(bucket.commit().live(self.shape.slots())) {
            let old = bucket.contents(self.shape, slot).payload;
            if !clearing.contains(old) {
                continue;
            }
            match self.copy_record(clearing, old) {
                Ok(new) => {
                    // The item is the same in either record, so the commit word stays as it is.
                    let at = payload_at(self.shape, bucket.at, slot);
                    image.store(at, new);
                    image.flush("turbohash.relocated", at, 8);
                    retired.push(old);
                }
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        let moved = retired.len() as u64;
        if moved > 0 {
            // Before the old records are used again.
            image.fence("turbohash.relocated");
        }
        self.heap.retire(retired, guard);
        failure.map_or(Ok(moved), Err)
    }

    /// Copies a record whose shard is held, durably.
    fn copy_record(&self, clearing: &Clearing<'_, P>, old: u64) -> Result<u64, TableError> {
        // SAFETY: the record is reached by a slot that cannot change while its shard is held, so no other thread
        // frees or writes it.
        let copy = unsafe { clearing.copy_of(old)? };
        copy.flush(["turbohash.relocate", "turbohash.relocate_tail"], copy.size());
        self.image().fence("turbohash.relocate");
        Ok(copy.into_offset())
    }
}
