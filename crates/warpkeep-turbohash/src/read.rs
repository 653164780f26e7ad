//! Reading: lock-free, one key at a time or many with their misses overlapped.

use std::marker::PhantomData;

use warpkeep_image::{Guard, Persist};
use warpkeep_record::{LockRequest, prefetch};

use crate::bucket::{Bucket, Shape, tag_of};
use crate::matching;
use crate::shard::{Shard, home};
use crate::{Table, Value};

/// Keys of a batch that are looked up under one guard.
const SOME: usize = 1024;
/// Keys that are processed between two stages of one: enough to keep every miss the core can have in flight.
const APART: usize = 12;
/// The stages of a key: bucket prefetched, slot prefetched, record prefetched, read.
const RING: usize = (3 * APART + 1).next_power_of_two();

/// A key that is being looked up.
#[derive(Clone, Copy)]
struct Probe<'k, 'a> {
    key: &'k [u8],
    hash: u64,
    fraction: u64,
    shard: Option<Shard<'a>>,
    /// Its bucket and slot, judging by the tag.
    hint: Option<(Bucket<'a>, u8)>,
    _guarded: PhantomData<&'a ()>,
}

impl<P: Persist> Table<P> {
    /// Looks a key up and passes the value to `then`.
    #[inline]
    pub fn get<R>(&self, key: &[u8], then: impl FnOnce(Value<'_, P>) -> R) -> Option<R> {
        self.get_pinned(&self.heap.pin(), key, then)
    }

    /// [`Table::get`], for a caller that has pinned the heap's epochs.
    #[inline]
    pub fn get_pinned<R>(
        &self,
        _guard: &Guard,
        key: &[u8],
        then: impl FnOnce(Value<'_, P>) -> R,
    ) -> Option<R> {
        let hash = self.hash(key);
        let (shard, fraction) = self.locate(hash);
        let found = self.find(&self.shard(shard), hash, fraction, key)?;
        Some(then(self.value_of(&found, key)))
    }

    /// Looks many keys up and gives each answer, in order, to `each`.
    pub fn get_many<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k [u8]>,
        mut each: impl FnMut(usize, Option<Value<'_, P>>),
    ) {
        let mut keys = keys.into_iter();
        let mut done = 0;
        loop {
            // One guard for a group of keys: a batch of millions must not delay freeing.
            let guard = &self.heap.pin();
            let got = self.get_some(guard, &mut keys, |index, value| each(done + index, value));
            done += got;
            if got < SOME {
                return;
            }
        }
    }

    /// Looks up to [`SOME`] keys up; returns how many there were.
    ///
    /// Each key goes through stages: its home bucket is prefetched; its tags are compared, and its slot prefetched;
    /// its record is prefetched; it is read. In every turn one key is in each stage, and between two stages of a
    /// key the other keys have theirs, so that the memory is always busy.
    #[inline]
    fn get_some<'k>(
        &self,
        _guard: &Guard,
        keys: &mut impl Iterator<Item = &'k [u8]>,
        mut each: impl FnMut(usize, Option<Value<'_, P>>),
    ) -> usize {
        let none = Probe { key: &[], hash: 0, fraction: 0, shard: None, hint: None, _guarded: PhantomData };
        let mut ring = [none; RING];
        let (mut turn, mut taken, mut more) = (0, 0, true);
        loop {
            if more {
                match keys.next() {
                    Some(key) => {
                        ring[turn % RING] = self.begin(key);
                        taken += 1;
                        more = taken < SOME;
                    }
                    None => more = false,
                }
            }
            let at = |stage: usize| turn.checked_sub(stage * APART).filter(|&index| index < taken);
            if let Some(index) = at(1) {
                self.hint(&mut ring[index % RING]);
            }
            if let (Some(index), Shape::References) = (at(2), self.shape)
                && let Some((bucket, slot)) = ring[index % RING].hint
            {
                self.prefetch_record(bucket.contents(self.shape, usize::from(slot)).payload, true);
            }
            if let Some(index) = turn.checked_sub(3 * APART) {
                if index >= taken {
                    return taken;
                }
                let Probe { key, hash, fraction, shard, .. } = ring[index % RING];
                let found = shard.and_then(|shard| self.find(&shard, hash, fraction, key));
                each(index, found.map(|found| self.value_of(&found, key)));
            }
            turn += 1;
        }
    }

    /// Prefetches the home bucket of a key.
    fn begin<'k>(&self, key: &'k [u8]) -> Probe<'k, '_> {
        let hash = self.hash(key);
        let (number, fraction) = self.locate(hash);
        let shard = self.shard(number);
        prefetch_home(&shard, fraction);
        Probe { key, hash, fraction, shard: Some(shard), hint: None, _guarded: PhantomData }
    }

    /// Prefetches the slot that is probably the key's, or the next bucket.
    fn hint(&self, probe: &mut Probe<'_, '_>) {
        let Some(shard) = probe.shard else { return };
        let mut path = shard.path(probe.fraction);
        let Some(bucket) = path.next() else { return };
        let commit = bucket.commit();
        let candidates = matching::equal(bucket.tags(), tag_of(probe.hash)) & commit.live(self.shape.slots());
        if candidates != 0 {
            let slot = candidates.trailing_zeros() as usize;
            bucket.prefetch_slot(self.shape, slot);
            probe.hint = Some((bucket, slot as u8));
        } else if !commit.marks(self.shape.slots()).has_room(self.shape.slots())
            && bucket.was_passed(probe.hash)
            && let Some(next) = path.next()
        {
            prefetch::line(next.words.as_ptr().cast());
        }
    }

    /// Prefetches a record, if there is one, perhaps its key alone: the offset comes from a slot that may be
    /// changing.
    pub(crate) fn prefetch_record(&self, offset: u64, with_value: bool) {
        if !self.image().contains(offset, 8) {
            return;
        }
        match with_value {
            true => self.record_lines.fetch(self.image(), offset, prefetch::line),
            false => self.record_lines.fetch_key(self.image(), offset, prefetch::line),
        }
    }

    /// Prefetches the data a writer will need: the slot and the record of a key in its home bucket.
    pub(crate) fn prefetch_item(&self, key: &LockRequest) {
        let (number, fraction) = self.locate(key.lock.bits());
        let Some(bucket) = self.shard(number).path(fraction).next() else { return };
        let live = bucket.commit().live(self.shape.slots());
        let candidates = matching::equal(bucket.tags(), tag_of(key.lock.bits())) & live;
        if candidates == 0 {
            return;
        }
        let slot = candidates.trailing_zeros() as usize;
        match self.shape {
            Shape::References => {
                self.prefetch_record(bucket.contents(self.shape, slot).payload, key.value_is_read);
            }
            Shape::Values { .. } => bucket.prefetch_slot(self.shape, slot),
        }
    }
}

/// Brings commit word and tags of a fraction's home bucket nearer.
#[inline]
pub(crate) fn prefetch_home(shard: &Shard<'_>, fraction: u64) {
    prefetch::line(shard.bucket(home(fraction, shard.run.bits)).words.as_ptr().cast());
}
