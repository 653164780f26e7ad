//! Reading: lock-free, one key at a time or many with their misses overlapped.

use std::ops::Range;
use std::sync::atomic::Ordering;

use crossbeam_epoch::Guard;
use warpkeep_core::Change;
use warpkeep_core::ChangeKind;
use warpkeep_image::{Image, Persist};

use crate::Table;
use crate::levels::Levels;
use crate::record::RecordRef;
use crate::slot::{may_match, offset_of};

/// Keys that are worked on at once: enough to keep every miss the core can have in flight.
const GROUP: usize = 32;

/// A value in the image, good for as long as it is borrowed.
#[derive(Clone, Copy)]
pub struct Value<'a, P: Persist> {
    image: &'a Image<P>,
    record: RecordRef,
}

impl<'a, P: Persist> Value<'a, P> {
    pub(crate) fn new(image: &'a Image<P>, record: RecordRef) -> Value<'a, P> {
        Value { image, record }
    }

    /// The version of the item.
    pub fn version(&self) -> u64 {
        self.record.version
    }

    /// Bytes in the value.
    pub fn len(&self) -> usize {
        self.record.value_len
    }

    /// Whether the value has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the value.
    ///
    /// # Panics
    /// If the slice is not as long as the value.
    pub fn copy_to(&self, to: &mut [u8]) {
        assert_eq!(to.len(), self.len(), "the slice must be as long as the value");
        self.image.read(self.record.value_at, to);
    }

    /// Appends the value to a buffer.
    pub fn append_to(&self, to: &mut Vec<u8>) {
        self.record.append_value(self.image, to);
    }

    /// A copy of the value.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(self.len());
        self.append_to(&mut value);
        value
    }
}

impl<P: Persist> Table<P> {
    /// Looks a key up and gives what is found to `then`.
    pub fn get<R>(&self, key: &[u8], then: impl FnOnce(Value<'_, P>) -> R) -> Option<R> {
        let guard = &crossbeam_epoch::pin();
        let found = self.find(self.levels(guard), self.hash(key), key)?;
        Some(then(Value::new(self.image(), found.record)))
    }

    /// Looks many keys up and gives each answer, in order, to `each`.
    pub fn get_many<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k [u8]>,
        mut each: impl FnMut(usize, Option<Value<'_, P>>),
    ) {
        let mut keys = keys.into_iter();
        let mut group: Vec<(&[u8], u64)> = Vec::with_capacity(GROUP);
        let mut done = 0;
        loop {
            group.clear();
            group.extend(keys.by_ref().take(GROUP).map(|key| (key, self.hash(key))));
            if group.is_empty() {
                return;
            }
            // A guard a group: a batch of millions must not hold up what is to be freed.
            let guard = &crossbeam_epoch::pin();
            self.get_group(guard, &group, |index, value| each(done + index, value));
            done += group.len();
        }
    }

    fn get_group(
        &self,
        guard: &Guard,
        group: &[(&[u8], u64)],
        mut each: impl FnMut(usize, Option<Value<'_, P>>),
    ) {
        let levels = self.levels(guard);
        for &(_, hash) in group {
            let locations = self.geometry.locations(hash, levels.top().buckets);
            locations.tops().iter().for_each(|&top| levels.top().prefetch(self.geometry, top));
        }
        // Two passes, because an item that is not in the top level is in a lower one, whose lines are on their way by
        // the time the second pass comes to them.
        let mut candidates = [0; GROUP];
        for (&(_, hash), candidate) in group.iter().zip(&mut candidates) {
            *candidate = self.candidate(levels, hash, 0..1);
            match *candidate {
                0 => self.prefetch_below(levels, hash),
                record => self.prefetch_record(record),
            }
        }
        for (&(_, hash), candidate) in
            group.iter().zip(&mut candidates).filter(|(_, candidate)| **candidate == 0)
        {
            *candidate = self.candidate(levels, hash, 1..levels.levels.len());
            if *candidate != 0 {
                self.prefetch_record(*candidate);
            }
        }
        for (index, (&(key, hash), &candidate)) in group.iter().zip(&candidates).enumerate() {
            if candidate != 0 {
                let record = self.form.at(self.image(), candidate);
                if record.has_key(self.image(), key) {
                    each(index, Some(Value::new(self.image(), record)));
                    continue;
                }
            }
            let found = self.find(levels, hash, key);
            each(index, found.map(|found| Value::new(self.image(), found.record)));
        }
    }

    /// The record that is probably the key's, judging by the tags in some of the levels; 0 if there is none.
    #[inline]
    fn candidate(&self, levels: &Levels, hash: u64, which: Range<usize>) -> u64 {
        let locations = self.geometry.locations(hash, levels.top().buckets);
        for (below, level) in levels.levels.iter().enumerate().take(which.end).skip(which.start) {
            for &top in locations.tops() {
                for word in level.bucket(self.geometry, top >> below) {
                    let word = word.load(Ordering::Acquire);
                    if may_match(word, hash) {
                        return offset_of(word);
                    }
                }
            }
        }
        0
    }

    fn prefetch_below(&self, levels: &Levels, hash: u64) {
        let locations = self.geometry.locations(hash, levels.top().buckets);
        for (below, level) in levels.levels.iter().enumerate().skip(1) {
            locations.tops().iter().for_each(|&top| level.prefetch(self.geometry, top >> below));
        }
    }

    fn prefetch_record(&self, offset: u64) {
        let record = self.image().pointer(offset, 8);
        (0..3).for_each(|line| crate::prefetch::line(record.wrapping_add(64 * line)));
    }

    /// Gives out every item, while writers go on. An item that is there throughout is given out at least once; during
    /// a growth it may be given out twice.
    pub fn scan<E>(&self, table: u32, mut each: impl FnMut(&Change<'_>) -> Result<(), E>) -> Result<(), E> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        // What is drained comes first, then the levels from the bottom up, the overflow last: that is the way items
        // move, so none slips past.
        let mut position = ScanPosition::default();
        loop {
            let guard = &crossbeam_epoch::pin();
            let levels = self.levels(guard);
            let Some((level, bucket)) = position.next(levels) else {
                return Ok(());
            };
            for word in level.bucket(self.geometry, bucket) {
                let offset = offset_of(word.load(Ordering::Acquire));
                if offset == 0 {
                    continue;
                }
                let record = self.form.at(self.image(), offset);
                key.clear();
                key.resize(record.key_len, 0);
                self.image().read(record.key_at, &mut key);
                value.clear();
                record.append_value(self.image(), &mut value);
                let version = record.version;
                each(&Change { table, kind: ChangeKind::Put, version, key: &key, value: &value })?;
            }
        }
    }
}

/// Where a scan stands. Levels may change under it: then it starts over, which gives items out twice, never not.
#[derive(Default)]
struct ScanPosition {
    block: u64,
    run: usize,
    bucket: u64,
}

impl ScanPosition {
    fn next<'l>(&mut self, levels: &'l Levels) -> Option<(&'l crate::levels::Level, u64)> {
        if self.block != levels.block {
            *self = ScanPosition { block: levels.block, run: 0, bucket: 0 };
        }
        loop {
            let level = levels.old_overflows.iter().chain(levels.levels.iter().rev());
            let level = level.chain([&levels.overflow]).nth(self.run)?;
            if self.bucket < level.buckets {
                self.bucket += 1;
                return Some((level, self.bucket - 1));
            }
            self.run += 1;
            self.bucket = 0;
        }
    }
}
