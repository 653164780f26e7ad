//! Marking: the records that the slots of a table lead to, each by one slot.
//!
//! A record that two slots lead to would be freed with the first of them that changes, and used again under the other. A
//! crash between the two steps of a move leaves that, and nothing else does: so slots that items are moved from are
//! marked after all others, and only they may lead to a record that was reached before.

use warpkeep_image::{Image, ImageError, Marker, Persist};
use warpkeep_record::{RecordForm, in_parallel};

use crate::TableError;
use crate::bucket::{Body, Bucket, Shape};
use crate::header::{Header, JOURNAL_AT};
use crate::inspect::Inspector;
use crate::levels::{Level, Levels};
use crate::slot::{EMPTY, INSERT, offset_of};
use crate::table::SHARE;

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
        Marking { image, marker, shape, form, header, levels, specials, left }
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

    /// Marks the record of a slot that its item may have been moved from, to where it is looked for now.
    fn mark_left(&self, run: &Level, bucket: Bucket<'_>, slot: usize) -> Result<(), TableError> {
        self.mark(bucket, slot, |state| {
            let inspector = Inspector::new(self.image, self.header);
            inspector.is_ok_and(|inspector| inspector.has_copy(run, bucket, slot, state))
        })
    }

    /// Marks the record of a slot. Only if `may_share` says so of its state may another have led there before.
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
            return Err(self.damaged(format!("the slot at {}: it has an item and no record", at())));
        }
        if !self.form.mark(self.image, self.marker, offset)? && !may_share(state) {
            return Err(self.damaged(format!(
                "the record at {offset}: two items have it, one of them in the slot at {}",
                at()
            )));
        }
        Ok(())
    }

    fn damaged(&self, what: String) -> TableError {
        ImageError::Damaged { path: self.image.path().to_path_buf(), what }.into()
    }
}
