//! Defragmentation: records move out of slabs that are being cleared.

use warpkeep_image::{Clearing, Persist};
use warpkeep_record::retire;

use crate::bucket::{Body, Bucket};
use crate::slot::{EMPTY, INSERT, pack};
use crate::{Table, TableError};

impl<P: Persist> Table<P> {
    /// Moves its records out of slabs that are being cleared, while reads and writes go on; gives how many it moved.
    /// A record that is replaced or moved at the same moment may be passed over.
    pub fn defragment(&self, clearing: &Clearing<'_, P>) -> Result<u64, TableError> {
        if matches!(self.shape.body, Body::Inline { .. }) || clearing.slabs() == 0 {
            return Ok(0);
        }
        let mut moved = 0;
        let runs: Vec<(u64, u64)> = {
            let guard = &crossbeam_epoch::pin();
            self.runs(self.levels(guard)).map(|run| (run.offset, run.buckets)).collect()
        };
        for (offset, buckets) in runs {
            for number in 0..buckets {
                // Found again each time: a level may be drained, and its space used for something else.
                let guard = &crossbeam_epoch::pin();
                let Some(run) = self.runs(self.levels(guard)).find(|run| run.offset == offset) else { break };
                let bucket = run.bucket(&self.shape, number);
                for slot in 0..self.shape.slots() {
                    moved += u64::from(self.move_record(clearing, bucket, slot, guard)?);
                }
            }
        }
        Ok(moved)
    }

    fn move_record(
        &self,
        clearing: &Clearing<'_, P>,
        bucket: Bucket<'_>,
        slot: usize,
        guard: &crossbeam_epoch::Guard,
    ) -> Result<bool, TableError> {
        let state = bucket.state(slot);
        if state == EMPTY || state == INSERT {
            return Ok(false);
        }
        let (at, commit) = match self.shape.body {
            Body::Packed => (bucket.slot(&self.shape, slot).state, state),
            Body::Inline { .. } | Body::Reference => {
                (bucket.slot(&self.shape, slot).payload, bucket.payload(&self.shape, slot, 0))
            }
        };
        let Some(old) = self.record_of(commit).filter(|&record| clearing.contains(record)) else {
            return Ok(false);
        };
        let mut key = Vec::new();
        if self.read_any(bucket, slot, &mut key).is_none() {
            return Ok(false);
        }
        let (hash, image) = (self.hash(&key), self.image());
        let _held = self.lock(hash);
        if bucket.state(slot) != state || image.load(at) != commit {
            return Ok(false);
        }
        // SAFETY: the record is reached by a word that cannot change while its key is held, so nobody frees or writes it.
        let copy = unsafe { clearing.copy_of(old)? };
        copy.flush(["gphash.relocate", "gphash.relocate_tail"], copy.size());
        image.fence("gphash.relocate");
        let new = copy.into_offset();
        let word = if self.shape.body == Body::Packed { pack(hash, new) } else { new };
        let mut noting = self.notes.noting();
        if let Some(changed) = &mut noting {
            changed.note(at);
            changed.tell(hash, Some(new));
        }
        image.store(at, word);
        image.flush("gphash.relocated", at, 8);
        image.fence("gphash.relocated");
        drop(noting);
        retire(&self.heap, vec![old], guard);
        Ok(true)
    }
}
