//! Reading: lock-free, one key at a time or many with their misses overlapped.

use std::ops::Range;
use std::sync::atomic::Ordering;

use crossbeam_epoch::Guard;
use warpkeep_core::{Change, ChangeKind};
use warpkeep_image::Persist;

use crate::bucket::{Body, Bucket};
use crate::find::Found;
use crate::geometry::Locations;
use crate::levels::{Level, Levels};
use crate::matching::{self, Matching, Portable};
use crate::slot::offset_of;
use crate::{Table, Value};

/// Keys that are worked on at once: enough to keep every miss the core can have in flight.
const GROUP: usize = 32;

/// A slot that is probably the key's, judging by its state.
#[derive(Clone, Copy)]
struct Hint<'a> {
    bucket: Bucket<'a>,
    slot: usize,
}

impl<P: Persist> Table<P> {
    /// Looks a key up and gives what is found to `then`.
    #[inline]
    pub fn get<R>(&self, key: &[u8], then: impl FnOnce(Value<'_, P>) -> R) -> Option<R> {
        let guard = &crossbeam_epoch::pin();
        let (levels, hash) = (self.levels(guard), self.hash(key));
        // All at once: alone, a key has nothing else to do while it waits for its buckets one by one.
        self.prefetch_buckets(levels, hash);
        self.prefetch_below(levels, hash);
        let found = self.find_with_best(levels, hash, key)?;
        Some(then(Value::new(self.image(), found.item)))
    }

    /// [`Table::find`], compared by the best means of this machine.
    #[inline]
    pub(crate) fn find_with_best(&self, levels: &Levels, hash: u64, key: &[u8]) -> Option<Found> {
        match self.matching {
            matching::Level::Portable => self.find(Portable, levels, hash, key),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: there is an `Avx2`, so the machine has it.
            matching::Level::Avx2(avx2) => unsafe { find_avx2(self, avx2, levels, hash, key) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: there is an `Avx512`, so the machine has it.
            matching::Level::Avx512(avx512) => unsafe { find_avx512(self, avx512, levels, hash, key) },
        }
    }

    /// Looks many keys up and gives each answer, in order, to `each`.
    pub fn get_many<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k [u8]>,
        mut each: impl FnMut(usize, Option<Value<'_, P>>),
    ) {
        let mut keys = keys.into_iter();
        let mut group: [(&[u8], u64); GROUP] = [(&[], 0); GROUP];
        let mut done = 0;
        loop {
            let mut len = 0;
            for (place, key) in group.iter_mut().zip(keys.by_ref()) {
                *place = (key, self.hash(key));
                len += 1;
            }
            if len == 0 {
                return;
            }
            let group = &group[..len];
            let each = |index, value: Option<Value<'_, P>>| each(done + index, value);
            // A guard a group: a batch of millions must not hold up what is to be freed.
            let guard = &crossbeam_epoch::pin();
            match self.matching {
                matching::Level::Portable => self.get_group(Portable, guard, group, each),
                #[cfg(target_arch = "x86_64")]
                // SAFETY: there is an `Avx2`, so the machine has it.
                matching::Level::Avx2(avx2) => unsafe { get_group_avx2(self, avx2, guard, group, each) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: there is an `Avx512`, so the machine has it.
                matching::Level::Avx512(avx512) => unsafe {
                    get_group_avx512(self, avx512, guard, group, each);
                },
            }
            done += len;
            if len < GROUP {
                return;
            }
        }
    }

    #[inline(always)]
    fn get_group<M: Matching>(
        &self,
        matching: M,
        guard: &Guard,
        group: &[(&[u8], u64)],
        mut each: impl FnMut(usize, Option<Value<'_, P>>),
    ) {
        let levels = self.levels(guard);
        let mut tops = [Locations::NONE; GROUP];
        for (&(_, hash), tops) in group.iter().zip(&mut tops) {
            *tops = self.geometry.locations(hash, levels.base_buckets());
            levels.levels[0].prefetch(&self.shape, tops.tops()[0]);
        }
        // Bucket by bucket, for all keys that have not been found: while one waits for its next bucket or for its
        // record, the others have their turn.
        let mut hints: [Option<Hint<'_>>; GROUP] = [None; GROUP];
        let mut waiting: [u8; GROUP] = std::array::from_fn(|index| index as u8);
        let mut left = group.len();
        let hashes = self.geometry.hashes();
        let steps = levels.levels.len() * hashes;
        for step in 0..steps {
            let mut still = 0;
            for turn in 0..left {
                let index = usize::from(waiting[turn]);
                let (level, location) = (step / hashes, step % hashes);
                let bucket = levels.levels[level].bucket(&self.shape, tops[index].tops()[location] >> level);
                let candidates = self.candidates(matching, bucket, group[index].1);
                if candidates != 0 {
                    let hint = Hint { bucket, slot: candidates.trailing_zeros() as usize };
                    self.prefetch_item(&hint);
                    hints[index] = Some(hint);
                    continue;
                }
                if step + 1 < steps {
                    let (level, location) = ((step + 1) / hashes, (step + 1) % hashes);
                    levels.levels[level].prefetch(&self.shape, tops[index].tops()[location] >> level);
                }
                waiting[still] = index as u8;
                still += 1;
            }
            left = still;
        }
        for (index, (&(key, hash), hint)) in group.iter().zip(&hints).enumerate() {
            let hinted = hint.and_then(|hint| self.read_slot(hint.bucket, hint.slot, hash, key));
            let found = hinted.or_else(|| self.find(matching, levels, hash, key));
            each(index, found.map(|found| Value::new(self.image(), found.item)));
        }
    }

    /// Brings the buckets of a key in the first level nearer.
    #[inline]
    pub(crate) fn prefetch_buckets(&self, levels: &Levels, hash: u64) {
        let locations = self.geometry.locations(hash, levels.base_buckets());
        locations.tops().iter().for_each(|&top| levels.levels[0].prefetch(&self.shape, top));
    }

    /// Brings the buckets of a key in the other levels nearer.
    #[inline]
    fn prefetch_below(&self, levels: &Levels, hash: u64) {
        let locations = self.geometry.locations(hash, levels.base_buckets());
        for (below, level) in levels.levels.iter().enumerate().skip(1) {
            locations.tops().iter().for_each(|&top| level.prefetch(&self.shape, top >> below));
        }
    }

    #[inline(always)]
    fn prefetch_item(&self, hint: &Hint<'_>) {
        self.prefetch_slot(hint.bucket, hint.slot);
    }

    /// Brings the item in a slot nearer, if there is one.
    #[inline(always)]
    pub(crate) fn prefetch_slot(&self, bucket: Bucket<'_>, slot: usize) {
        if self.shape.body != Body::Packed {
            return bucket.prefetch_slot(&self.shape, slot);
        }
        let offset = offset_of(bucket.state(slot));
        if offset != 0 {
            let record = self.image().pointer(offset, 8);
            (0..self.record_lines).for_each(|line| crate::prefetch::line(record.wrapping_add(64 * line)));
        }
    }

    /// Brings what a writer will look at nearer: the item of a key, or the buckets it may go to.
    pub(crate) fn prefetch_items(&self, levels: &Levels, hash: u64) {
        let locations = self.geometry.locations(hash, levels.base_buckets());
        for &top in locations.tops() {
            let bucket = levels.levels[0].bucket(&self.shape, top);
            let candidates = self.candidates(Portable, bucket, hash);
            if candidates != 0 {
                return self.prefetch_item(&Hint { bucket, slot: candidates.trailing_zeros() as usize });
            }
        }
        self.prefetch_below(levels, hash);
    }

    /// Gives out every item, while writers go on. An item that is there throughout is given out at least once; during
    /// a growth it may be given out twice.
    pub fn scan<E>(&self, table: u32, mut each: impl FnMut(&Change<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut key = Vec::new();
        let mut position = ScanPosition::default();
        loop {
            // A guard a few buckets: a scan must not hold up what is to be freed.
            let guard = &crossbeam_epoch::pin();
            let levels = self.levels(guard);
            let Some((run, buckets)) = position.next(self.specials(), levels) else {
                return Ok(());
            };
            for bucket in buckets.map(|bucket| run.bucket(&self.shape, bucket)) {
                for slot in 0..self.shape.slots() {
                    key.clear();
                    let Some(item) = self.read_any(bucket, slot, &mut key) else { continue };
                    let value = Value::new(self.image(), item);
                    let (version, value) = (value.version(), value.bytes());
                    each(&Change { table, kind: ChangeKind::Put, version, key: &key, value })?;
                }
            }
        }
    }

    /// The slots in the header, if there are any.
    pub(crate) fn specials(&self) -> Option<&Level> {
        (self.specials.buckets > 0).then_some(&self.specials)
    }

    /// Everything that items can be in.
    pub(crate) fn runs<'a>(&'a self, levels: &'a Levels) -> impl Iterator<Item = &'a Level> {
        self.specials().into_iter().chain(levels.overflows()).chain(&levels.levels)
    }

    /// Counts the slots of a run that have an item.
    pub(crate) fn count_items(&self, run: &Level) -> u64 {
        let states = run.iter(&self.shape).flat_map(|bucket| bucket.states(&self.shape));
        states.filter(|state| self.is_item(state.load(Ordering::Relaxed))).count() as u64
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn find_avx2<P: Persist>(
    table: &Table<P>,
    avx2: matching::Avx2,
    levels: &Levels,
    hash: u64,
    key: &[u8],
) -> Option<Found> {
    table.find(avx2, levels, hash, key)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx2")]
fn find_avx512<P: Persist>(
    table: &Table<P>,
    avx512: matching::Avx512,
    levels: &Levels,
    hash: u64,
    key: &[u8],
) -> Option<Found> {
    table.find(avx512, levels, hash, key)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn get_group_avx2<P: Persist>(
    table: &Table<P>,
    avx2: matching::Avx2,
    guard: &Guard,
    group: &[(&[u8], u64)],
    each: impl FnMut(usize, Option<Value<'_, P>>),
) {
    table.get_group(avx2, guard, group, each);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx2")]
fn get_group_avx512<P: Persist>(
    table: &Table<P>,
    avx512: matching::Avx512,
    guard: &Guard,
    group: &[(&[u8], u64)],
    each: impl FnMut(usize, Option<Value<'_, P>>),
) {
    table.get_group(avx512, guard, group, each);
}

/// Where a scan stands. Levels may change under it: then it starts over, which gives items out twice, never not.
#[derive(Default)]
struct ScanPosition {
    block: u64,
    run: usize,
    bucket: u64,
}

impl ScanPosition {
    /// The next few buckets of a run.
    fn next<'l>(
        &mut self,
        specials: Option<&'l Level>,
        levels: &'l Levels,
    ) -> Option<(&'l Level, Range<u64>)> {
        const BUCKETS: u64 = 32;
        if self.block != levels.block {
            *self = ScanPosition { block: levels.block, run: 0, bucket: 0 };
        }
        loop {
            // What is drained comes first, then where its items go: so none slips past.
            let open = levels.open().map(|(_, level)| level);
            let mut runs =
                specials.into_iter().chain(levels.outgoing()).chain([&levels.overflow]).chain(open);
            let run = runs.nth(self.run)?;
            if self.bucket < run.buckets {
                let first = self.bucket;
                self.bucket = (first + BUCKETS).min(run.buckets);
                return Some((run, first..self.bucket));
            }
            self.run += 1;
            self.bucket = 0;
        }
    }
}
