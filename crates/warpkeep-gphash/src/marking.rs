//! Marking: the records that the slots of a table lead to, each by one slot.
//!
//! A record that two slots lead to would be freed with the first of them that changes, and used again under the other.
//! A crash between the two steps of a move leaves that, and nothing else does: so slots that items are moved from are
//! marked after all others, and only they may lead to a record that was reached before.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use warpkeep_image::{Image, ImageError, Marker, Persist};
use warpkeep_record::{Damage, DamagedItem, RecordForm, in_parallel};

use crate::bucket::{Body, Bucket, Shape};
use crate::check::LookedFor;
use crate::header::{Header, JOURNAL_AT};
use crate::inspect::Inspector;
use crate::levels::{Level, Levels};
use crate::slot::{EMPTY, INSERT, offset_of};
use crate::table::SHARE;
use crate::{Table, TableError};

/// Marks the records of a table whose levels are marked.
pub(crate) struct Marking<'a, P: Persist> {
    image: &'a Image<P>,
    marker: &'a Marker<'a, P>,
    shape: Shape,
    form: RecordForm,
    header: u64,
    levels: &'a Levels,
    specials: Option<Level>,
    /// The slot that the last displaced item left.
    left: u64,
    /// Damaged items that were taken out; `None` where damage is an error.
    taken: Option<Mutex<Vec<DamagedItem>>>,
}

impl<'a, P: Persist> Marking<'a, P> {
    pub(crate) fn new(
        image: &'a Image<P>,
        marker: &'a Marker<'a, P>,
        identity: &Header,
        header: u64,
        levels: &'a Levels,
    ) -> Marking<'a, P> {
        let (shape, form, specials) = (identity.shape(), identity.form(), identity.specials(image, header));
        let left = image.load(header + JOURNAL_AT);
        Marking { image, marker, shape, form, header, levels, specials, left, taken: None }
    }

    /// Marks the records. Removes the items that refer to no record, or to the record of another item, and returns
    /// them.
    pub(crate) fn salvage_records(mut self) -> Result<Vec<DamagedItem>, TableError> {
        self.taken = Some(Mutex::default());
        self.records()?;
        let taken = self.taken.take().unwrap_or_default();
        Ok(taken.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn records(&self) -> Result<(), TableError> {
        let is_outgoing = |run: &&Level| self.levels.outgoing().any(|outgoing| outgoing.offset == run.offset);
        let runs = || self.levels.overflows().chain(&self.levels.levels).chain(&self.specials);
        for run in runs().filter(|run| !is_outgoing(run)) {
            self.each_slot(run, |bucket, slot| match bucket.slot(&self.shape, slot).state == self.left {
                true => Ok(()),
                false => self.mark(bucket, slot, |_| false),
            })?;
        }
        for run in runs().filter(is_outgoing) {
            self.each_slot(run, |bucket, slot| self.mark_left(run, bucket, slot))?;
        }
        // Of a run that is drained it has been marked with the others.
        for run in runs().filter(|run| !is_outgoing(run)) {
            if let Some((bucket, slot)) = run.slot_at(&self.shape, self.left) {
                self.mark_left(run, run.bucket(&self.shape, bucket), slot)?;
            }
        }
        Ok(())
    }

    fn each_slot(
        &self,
        run: &Level,
        each: impl Fn(Bucket<'_>, usize) -> Result<(), TableError> + Sync,
    ) -> Result<(), TableError> {
        in_parallel(run.buckets, SHARE, |buckets| {
            for bucket in buckets.map(|bucket| run.bucket(&self.shape, bucket)) {
                (0..self.shape.slots()).try_for_each(|slot| each(bucket, slot))?;
            }
            Ok(())
        })
    }

    /// Marks the record of a slot that its item may have left for another slot.
    fn mark_left(&self, run: &Level, bucket: Bucket<'_>, slot: usize) -> Result<(), TableError> {
        self.mark(bucket, slot, |state| {
            let inspector = Inspector::new(self.image, self.header);
            inspector.is_ok_and(|inspector| inspector.has_copy(run, bucket, slot, state))
        })
    }

    /// Marks the record of a slot. Another slot may have referred to it only if `may_share` allows that for its state.
    fn mark(
        &self,
        bucket: Bucket<'_>,
        slot: usize,
        may_share: impl FnOnce(u64) -> bool,
    ) -> Result<(), TableError> {
        let state = bucket.state(slot);
        if state == EMPTY || state == INSERT {
            return Ok(());
        }
        let offset = match self.shape.body {
            Body::Packed => offset_of(state),
            Body::Reference | Body::Inline { .. } => bucket.payload(&self.shape, slot, 0),
        };
        let at = || bucket.slot(&self.shape, slot).state;
        if offset == 0 {
            let what = format!("the slot at {}: it has an item and no record", at());
            return self.tell(bucket, slot, offset, Damage::NoRecord, self.damaged(what));
        }
        match self.form.mark(self.image, self.marker, offset) {
            Ok(true) => Ok(()),
            Ok(false) if may_share(state) => Ok(()),
            Ok(false) => {
                let what =
                    format!("the record at {offset}: two items have it, one of them in the slot at {}", at());
                self.tell(bucket, slot, offset, Damage::Shared, self.damaged(what))
            }
            Err(error) => self.tell(bucket, slot, offset, Damage::NoRecord, error),
        }
    }

    /// Fails with an error; or, where damage is taken out, takes the item of a slot out.
    fn tell(
        &self,
        bucket: Bucket<'_>,
        slot: usize,
        record: u64,
        damage: Damage,
        error: ImageError,
    ) -> Result<(), TableError> {
        let Some(taken) = &self.taken else { return Err(error.into()) };
        let slots = |slot| bucket.slot(&self.shape, slot).state;
        let inspector = Inspector::new(self.image, self.header)?;
        let Some((run, number)) = inspector.run_of(slots(0)) else { return Err(error.into()) };
        if damage == Damage::Shared && !inspector.is_doubtful(run, bucket, slot) {
            // The record identifies the slot that it does not belong to.
            return Ok(());
        }
        let (key, key_belongs) = inspector.key_in_slot(run, number, bucket, slot);
        let item = DamagedItem { key, key_belongs, bucket: slots(0), slot, record: Some(record), damage };
        taken.lock().unwrap_or_else(PoisonError::into_inner).push(item);
        self.image.store(slots(slot), EMPTY);
        self.image.flush("gphash.salvage", slots(slot), 8);
        self.image.fence("gphash.salvage");
        Ok(())
    }

    fn damaged(&self, what: String) -> ImageError {
        ImageError::Damaged { path: self.image.path().to_path_buf(), what }
    }
}

impl<P: Persist> Table<P> {
    /// Takes a damaged item out. No other thread uses the table. Its record is free at the next opening.
    pub fn discard(&self, item: &DamagedItem) {
        let guard = &self.heap.pin();
        let levels = self.levels(guard);
        let at = item.bucket + 8 * item.slot as u64;
        let Some(run) = self.runs(levels).find(|run| run.slot_at(&self.shape, at).is_some()) else { return };
        let image = self.image();
        if !self.is_item(image.load(at)) {
            return;
        }
        image.store(at, EMPTY);
        image.flush("gphash.salvage", at, 8);
        image.fence("gphash.salvage");
        self.items.fetch_sub(1, Ordering::Relaxed);
        if levels.overflows().any(|overflow| overflow.offset == run.offset) {
            self.in_overflow.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Whether a key may lie in the bucket at an offset.
    pub fn may_lie_in(&self, key: &[u8], bucket: u64) -> bool {
        let guard = &self.heap.pin();
        let (levels, specials) = (self.levels(guard), self.specials());
        let looked_for = LookedFor { geometry: self.geometry, shape: &self.shape, levels, specials };
        let mut buckets = looked_for.buckets(self.hash(key));
        buckets.any(|(level, number)| level.offset + number * self.shape.bytes() == bucket)
    }
}
