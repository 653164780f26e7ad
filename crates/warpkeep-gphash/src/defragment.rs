//! Defragmentation: records move out of slabs that are being cleared.

use warpkeep_image::{Clearing, Guard, ImageError, Persist};

use crate::bucket::{Body, Bucket};
use crate::find::Sought;
use crate::slot::{EMPTY, INSERT, pack};
use crate::{Table, TableError};

impl<P: Persist> Table<P> {
    /// Moves the table's records out of slabs that are being cleared, while reads and writes go on; returns the number
    /// of records moved. May skip a record that is replaced or moved at the same time.
    pub fn defragment(&self, clearing: &Clearing<'_, P>) -> Result<u64, TableError> {
        if matches!(self.shape.body, Body::Inline { .. }) || clearing.slabs() == 0 {
            return Ok(0);
        }
        let mut moved = 0;
        let runs: Vec<(u64, u64)> = {
            let guard = &self.heap.pin();
            self.runs(self.levels(guard)).map(|run| (run.offset, run.buckets)).collect()
        };
        for (offset, buckets) in runs {
            for number in 0..buckets {
                // Found again each time: a level may be drained, and its space used for something else.
                let guard = &self.heap.pin();
                let Some(run) = self.runs(self.levels(guard)).find(|run| run.offset == offset) else { break };
                let bucket = run.bucket(&self.shape, number);
                for slot in 0..self.shape.slots() {
                    moved += u64::from(self.move_record(clearing, bucket, slot, guard)?);
                }
            }
        }
        Ok(moved)
    }

    /// Moves the records in these blocks, each with its size, out of slabs that are being cleared, while reads and
    /// writes go on. Removes the moved ones from the list and returns their number. The keys are read from the blocks,
    /// so that only these items are looked up; a table with keys in slots is scanned. Records for which there is no
    /// other block stay.
    pub fn vacate(
        &self,
        clearing: &Clearing<'_, P>,
        blocks: &mut Vec<(u64, u64)>,
    ) -> Result<u64, TableError> {
        if matches!(self.shape.body, Body::Inline { .. }) {
            return Ok(0);
        }
        let (mut moved, mut key) = (0, Vec::new());
        if self.shape.body != Body::Packed || !self.form.has_keys() {
            if self.pool.is_some_and(|pool| clearing.is_of(pool)) {
                moved = match self.defragment(clearing) {
                    Err(TableError::Image(ImageError::OutOfSpace { .. })) => 0,
                    moved => moved?,
                };
            }
            return Ok(moved);
        }
        let mut failure = None;
        blocks.retain(|&(block, size)| {
            if failure.is_some() {
                return true;
            }
            let goes = self.move_guessed(clearing, block, size, &mut key);
            let goes = goes.unwrap_or_else(|error| {
                failure = Some(error);
                false
            });
            moved += u64::from(goes);
            !goes
        });
        match failure {
            None | Some(TableError::Image(ImageError::OutOfSpace { .. })) => Ok(moved),
            Some(error) => Err(error),
        }
    }

    /// Moves what is in a block, if it is the record of one of the table's items.
    fn move_guessed(
        &self,
        clearing: &Clearing<'_, P>,
        block: u64,
        size: u64,
        key: &mut Vec<u8>,
    ) -> Result<bool, TableError> {
        let image = self.image();
        let Some(record) = self.form.guess(image, block, size) else { return Ok(false) };
        key.clear();
        record.append_key(image, key);
        if !self.key.takes_len(key.len()) {
            return Ok(false);
        }
        let hash = self.hash(key);
        let _held = self.lock(hash);
        let guard = &self.heap.pin();
        let found = self.find_with_best(self.levels(guard), Sought { hash, key, value_is_read: false });
        match found {
            Some(found) if self.record_of(found.commit) == Some(block) => {
                self.relocate(clearing, block, found.commit_at, hash, guard)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Bytes of a record with a key and a value of these lengths.
    pub fn record_len(&self, key: usize, value: usize) -> u64 {
        self.form.len(key, value)
    }

    /// The keys and versions of what may be items of the table in these blocks, each given with its size, which is
    /// given out, too. The caller looks a key up before it relies on it.
    pub fn guess_items(&self, blocks: &[(u64, u64)], mut each: impl FnMut(&[u8], u64, u64)) {
        if self.shape.body != Body::Packed || !self.form.has_keys() {
            return;
        }
        let (image, mut key) = (self.image(), Vec::new());
        // What is read may be freed meanwhile, but no sooner than anybody else's.
        let _guard = self.heap.pin();
        for &(block, size) in blocks {
            let Some(record) = self.form.guess(image, block, size) else { continue };
            key.clear();
            record.append_key(image, &mut key);
            if self.key.takes_len(key.len()) {
                each(&key, record.item().version, size);
            }
        }
    }

    fn move_record(
        &self,
        clearing: &Clearing<'_, P>,
        bucket: Bucket<'_>,
        slot: usize,
        guard: &Guard,
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
        self.relocate(clearing, old, at, hash, guard)?;
        Ok(true)
    }

    /// Moves a record, whose key is held, and that the word at `at` leads to.
    fn relocate(
        &self,
        clearing: &Clearing<'_, P>,
        old: u64,
        at: u64,
        hash: u64,
        guard: &Guard,
    ) -> Result<(), TableError> {
        let image = self.image();
        // SAFETY: the word that refers to the record cannot change while its key is locked, so the record is neither
        // freed nor written.
        let copy = unsafe { clearing.copy_of(old)? };
        copy.flush(["gphash.relocate", "gphash.relocate_tail"], copy.size());
        image.fence("gphash.relocate");
        let new = copy.into_offset();
        let word = if self.shape.body == Body::Packed { pack(hash, new) } else { new };
        let mut feed = self.changes.record();
        if let Some(pending) = &mut feed {
            pending.word(at);
            pending.item(hash, Some(new));
        }
        image.store(at, word);
        image.flush("gphash.relocated", at, 8);
        image.fence("gphash.relocated");
        drop(feed);
        self.heap.retire(vec![old], guard);
        Ok(())
    }
}
