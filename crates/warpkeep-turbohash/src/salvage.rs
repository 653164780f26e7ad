//! Damaged tables: unusable items are removed, so that the others remain usable.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use warpkeep_core::unmix64;
use warpkeep_image::{Image, Marker, Persist};
use warpkeep_record::{Damage, DamagedItem, in_parallel};

use crate::bucket::{Bucket, Contents, Shape, slots_of, tag_of};
use crate::commit::{Commit, Marks};
use crate::directory;
use crate::header::{self, Header};
use crate::shard::{Run, Shard, locate};
use crate::table::SHARE;
use crate::{Table, TableError};

/// Marks the records of a table, and removes references that lead to none.
struct Salvage<'a, P: Persist> {
    image: &'a Image<P>,
    marker: &'a Marker<'a, P>,
    header: Header,
    shape: Shape,
    taken: Mutex<Vec<DamagedItem>>,
}

impl<P: Persist> Table<P> {
    /// Marks everything reachable from a table's header. Items that lead to no record, or to another item's record,
    /// and slots that count but do not exist, are removed and returned.
    pub fn mark_salvaging(
        image: &Image<P>,
        marker: &Marker<'_, P>,
        header: u64,
    ) -> Result<Vec<DamagedItem>, TableError> {
        let identity = Header::read(image, header)?;
        marker.block(header, header::LEN)?;
        let runs = directory::read(image, identity.directory, identity.shards)?;
        directory::mark(image, marker, identity.directory, &runs)?;
        let shape = identity.shape();
        let salvage = Salvage { image, marker, header: identity, shape, taken: Mutex::default() };
        in_parallel(runs.len() as u64, SHARE, |shards| {
            let shards = shards.start as usize..shards.end as usize;
            for (number, run) in shards.clone().zip(&runs[shards]) {
                salvage.shard(number, *run);
            }
            Ok::<(), TableError>(())
        })?;
        Ok(salvage.taken.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Removes a damaged item. No other thread uses the table. Its record is free at the next opening.
    pub fn discard(&self, item: &DamagedItem) {
        let holds = |number: &usize| {
            let run = self.run(*number);
            (run.offset..run.offset + run.bytes()).contains(&item.bucket)
        };
        let Some(number) = (0..self.shards()).find(holds) else { return };
        let mut tally = self.lock(number);
        let commit = Commit(self.image().load(item.bucket));
        let marks = commit.marks(self.shape.slots());
        if marks.live() >> item.slot & 1 == 0 {
            return;
        }
        store(self.image(), item.bucket, commit, Marks { deleted: marks.deleted | 1 << item.slot, ..marks });
        tally.items = tally.items.saturating_sub(1);
        tally.deleted += 1;
        self.items.fetch_sub(1, Ordering::Relaxed);
        self.deleted.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a key may lie in the bucket at an offset.
    pub fn may_lie_in(&self, key: &[u8], bucket: u64) -> bool {
        let (number, fraction) = self.locate(self.hash(key));
        self.shard(number).path(fraction).any(|other| other.at == bucket)
    }
}

/// Stores another commit word, durably.
fn store<P: Persist>(image: &Image<P>, bucket: u64, commit: Commit, marks: Marks) {
    image.store(bucket, commit.next(marks).0);
    image.flush("turbohash.salvage", bucket, 8);
    image.fence("turbohash.salvage");
}

impl<P: Persist> Salvage<'_, P> {
    fn shard(&self, number: usize, run: Run) {
        let shard = Shard::new(self.image, run);
        // Which hashes lead to a record in this shard.
        let mut led: HashMap<u64, u64> = HashMap::new();
        for bucket in shard.iter() {
            self.mend_commit(number, bucket);
            if self.shape != Shape::References {
                continue;
            }
            for slot in slots_of(bucket.commit().live(self.shape.slots())) {
                let contents = bucket.contents(self.shape, slot);
                let form = self.header.form();
                let before = led.insert(contents.payload, contents.hash);
                match form.mark(self.image, self.marker, contents.payload) {
                    Ok(true) => {}
                    // A crash between the two steps of a move leaves this, and attaching removes one.
                    Ok(false) if run.crowded && before == Some(contents.hash) => {}
                    // Reading the record later shows which of the two slots it does not belong to.
                    Ok(false) if before != Some(contents.hash) && !self.is_keyless() => {}
                    Ok(false) => self.take(number, bucket, slot, &contents, Damage::Shared),
                    Err(_) => self.take(number, bucket, slot, &contents, Damage::NoRecord),
                }
            }
        }
    }

    /// Whether records do not hold their keys.
    fn is_keyless(&self) -> bool {
        self.header.key.fixed_len() == Some(8) && !self.header.form().has_checksums()
    }

    /// Repairs a bucket's commit word to a valid one, and removes the slots it wrongly counted.
    fn mend_commit(&self, number: usize, bucket: Bucket<'_>) {
        let (commit, slots) = (bucket.commit(), self.shape.slots());
        if commit.fault(slots).is_none() {
            return;
        }
        let mut marks = commit.marks(slots);
        marks.deleted &= marks.valid;
        self.note(number, bucket, 0, None, Damage::CommitWord);
        if marks.valid.count_ones() as usize >= slots {
            // One slot too many counts: most likely one with invalid contents.
            let fits = |slot: usize| self.fits(number, bucket, slot, &bucket.contents(self.shape, slot));
            let slot = slots_of(marks.valid).find(|&slot| !fits(slot)).unwrap_or(slots - 1);
            if marks.live() >> slot & 1 == 1 {
                let contents = bucket.contents(self.shape, slot);
                self.note(number, bucket, slot, Some(contents), Damage::Misplaced);
            }
            marks.valid &= !(1 << slot);
            marks.deleted &= !(1 << slot);
        }
        store(self.image, bucket.at, commit, marks);
    }

    /// Whether tag and hash of a slot go together, and the hash is one of its shard.
    fn fits(&self, number: usize, bucket: Bucket<'_>, slot: usize, contents: &Contents) -> bool {
        let tag = (bucket.tags()[slot / 8] >> (8 * (slot % 8))) as u8;
        tag == tag_of(contents.hash) && locate(contents.hash, self.header.shards as usize).0 == number
    }

    fn take(&self, number: usize, bucket: Bucket<'_>, slot: usize, contents: &Contents, damage: Damage) {
        let marks = bucket.commit().marks(self.shape.slots());
        store(self.image, bucket.at, bucket.commit(), Marks { deleted: marks.deleted | 1 << slot, ..marks });
        self.note(number, bucket, slot, Some(*contents), damage);
    }

    fn note(
        &self,
        number: usize,
        bucket: Bucket<'_>,
        slot: usize,
        contents: Option<Contents>,
        damage: Damage,
    ) {
        // The hash in the slot gives a key of 8 bytes.
        let told = contents.filter(|_| self.header.key.fixed_len() == Some(8));
        let key = told
            .map_or(Vec::new(), |contents| unmix64(self.header.seed, contents.hash).to_le_bytes().to_vec());
        let record = contents.filter(|_| self.shape == Shape::References).map(|contents| contents.payload);
        let key_belongs = told.is_some_and(|contents| self.fits(number, bucket, slot, &contents));
        let item = DamagedItem { key, key_belongs, bucket: bucket.at, slot, record, damage };
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).push(item);
    }
}
