//! Reading: lock-free, one key at a time or many with their misses overlapped.

use std::ops::Range;
use std::sync::atomic::Ordering;

use warpkeep_core::{Change, reduce, second_hash};
use warpkeep_image::{Guard, Persist};
use warpkeep_record::{LockRequest, ScanPosition, prefetch};

use crate::bucket::{Body, Bucket};
use crate::find::{Found, Sought};
use crate::levels::{Level, Levels};
use crate::matching::{self, Matching, Portable};
use crate::slot::offset_of;
use crate::{Table, Value};

/// Keys of a batch that are looked up under one epoch guard.
const SOME: usize = 1024;
/// The most keys in flight at once.
const RING: usize = 128;
/// Keys that are processed between two stages of one key: enough to use all cache misses that a core can have in
/// flight.
const APART: usize = 12;

/// A slot that is probably the key's, judging by its state.
#[derive(Clone, Copy)]
struct Hint<'a> {
    bucket: Bucket<'a>,
    slot: usize,
}

/// A lookup in flight. Small, because the prefetched lines need the cache.
#[derive(Clone, Copy)]
struct Probe<'k, 'a> {
    key: &'k [u8],
    hash: u64,
    /// The hash of the location to read next.
    location: u64,
    hint: Option<Hint<'a>>,
}

impl Probe<'_, '_> {
    const NONE: Probe<'static, 'static> = Probe { key: &[], hash: 0, location: 0, hint: None };
}

impl<P: Persist> Table<P> {
    /// Looks a key up and passes the item to `then`.
    #[inline]
    pub fn get<R>(&self, key: &[u8], then: impl FnOnce(Value<'_, P>) -> R) -> Option<R> {
        self.get_pinned(&self.heap.pin(), key, then)
    }

    /// [`Table::get`], for a caller that has pinned the heap's epochs.
    #[inline]
    pub fn get_pinned<R>(
        &self,
        guard: &Guard,
        key: &[u8],
        then: impl FnOnce(Value<'_, P>) -> R,
    ) -> Option<R> {
        let (levels, hash) = (self.levels(guard), self.hash(key));
        // All at once: alone, a key has nothing else to do while it waits for its buckets one by one.
        self.prefetch_buckets(levels, hash);
        self.prefetch_below(levels, hash);
        let found = self.find_with_best(levels, Sought { hash, key, value_is_read: true })?;
        Some(then(self.value_of(&found, key)))
    }

    /// [`Table::find`], compared by the best means of this machine.
    #[inline]
    pub(crate) fn find_with_best(&self, levels: &Levels, sought: Sought<'_>) -> Option<Found> {
        match self.matching {
            matching::Level::Portable => self.find(Portable, levels, sought),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: there is an `Avx2`, so the machine has it.
            matching::Level::Avx2(avx2) => unsafe { find_avx2(self, avx2, levels, sought) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: there is an `Avx512`, so the machine has it.
            matching::Level::Avx512(avx512) => unsafe { find_avx512(self, avx512, levels, sought) },
        }
    }

    /// Looks many keys up and passes each answer, in order, to `each`.
    pub fn get_many<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k [u8]>,
        mut each: impl FnMut(usize, Option<Value<'_, P>>),
    ) {
        let mut keys = keys.into_iter();
        let mut done = 0;
        loop {
            // A guard for some of them: a batch of millions must not hold up what is to be freed.
            let guard = &self.heap.pin();
            let each = |index, value: Option<Value<'_, P>>| each(done + index, value);
            let got = match self.matching {
                matching::Level::Portable => self.get_some(Portable, guard, &mut keys, each),
                #[cfg(target_arch = "x86_64")]
                // SAFETY: there is an `Avx2`, so the machine has it.
                matching::Level::Avx2(avx2) => unsafe { get_some_avx2(self, avx2, guard, &mut keys, each) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: there is an `Avx512`, so the machine has it.
                matching::Level::Avx512(avx512) => unsafe {
                    get_some_avx512(self, avx512, guard, &mut keys, each)
                },
            };
            done += got;
            if got < SOME {
                return;
            }
        }
    }

    /// Looks up to [`SOME`] keys up; returns their number.
    ///
    /// Each key goes through stages: its first bucket is prefetched; then bucket after bucket is read, and either its
    /// item or the next bucket is prefetched; then the item is read. In every round one key is in each stage, and other
    /// keys are processed between two stages of a key, so that memory always has outstanding requests.
    #[inline(always)]
    fn get_some<'k, M: Matching>(
        &self,
        matching: M,
        guard: &Guard,
        keys: &mut impl Iterator<Item = &'k [u8]>,
        mut each: impl FnMut(usize, Option<Value<'_, P>>),
    ) -> usize {
        let levels = self.levels(guard);
        let (hashes, buckets) = (self.geometry.hashes(), levels.base_buckets());
        let steps = levels.levels.len() * hashes;
        let apart = (RING / (steps + 2)).clamp(1, APART);
        let mut ring = [const { Probe::NONE }; RING];
        let (mut turn, mut taken, mut more) = (0, 0, true);
        loop {
            if more {
                match keys.next() {
                    Some(key) => {
                        let hash = self.hash(key);
                        levels.levels[0].prefetch(&self.shape, reduce(hash, buckets));
                        ring[turn % RING] = Probe { key, hash, location: hash, hint: None };
                        taken += 1;
                        more = taken < SOME;
                    }
                    None => more = false,
                }
            }
            for step in 0..steps {
                let Some(index) = usize::checked_sub(turn, (step + 1) * apart) else { break };
                let probe = &mut ring[index % RING];
                if index >= taken || probe.hint.is_some() {
                    continue;
                }
                let level = step / hashes;
                let bucket =
                    levels.levels[level].bucket(&self.shape, reduce(probe.location, buckets) >> level);
                let candidates = self.candidates(matching, bucket, probe.hash);
                if candidates != 0 {
                    let slot = candidates.trailing_zeros() as usize;
                    self.prefetch_slot(bucket, slot, true);
                    probe.hint = Some(Hint { bucket, slot });
                } else if step + 1 < steps {
                    let next = (step + 1) / hashes;
                    probe.location = if next == level { second_hash(probe.location) } else { probe.hash };
                    levels.levels[next].prefetch(&self.shape, reduce(probe.location, buckets) >> next);
                }
            }
            if let Some(index) = usize::checked_sub(turn, (steps + 1) * apart) {
                if index >= taken {
                    return taken;
                }
                let Probe { key, hash, hint, .. } = ring[index % RING];
                let hinted = hint.and_then(|hint| self.read_slot(hint.bucket, hint.slot, hash, key));
                let found = hinted.or_else(|| self.find_again(matching, levels, hash, key));
                #[allow(clippy::manual_map, reason = "closures are not compiled for the vector instructions")]
                let value = match found {
                    Some(found) => Some(self.value_of(&found, key)),
                    None => None,
                };
                each(index, value);
            }
            turn += 1;
        }
    }

    /// [`Table::find`], for a key that was not where it seemed to be, or is not there at all.
    #[inline(never)]
    fn find_again<M: Matching>(&self, matching: M, levels: &Levels, hash: u64, key: &[u8]) -> Option<Found> {
        self.find(matching, levels, Sought { hash, key, value_is_read: true })
    }

    /// Prefetches the buckets of a key in the first level.
    #[inline]
    pub(crate) fn prefetch_buckets(&self, levels: &Levels, hash: u64) {
        let locations = self.geometry.locations(hash, levels.base_buckets());
        locations.tops().iter().for_each(|&top| levels.levels[0].prefetch(&self.shape, top));
    }

    /// Prefetches the buckets of a key in the other levels.
    #[inline]
    fn prefetch_below(&self, levels: &Levels, hash: u64) {
        let locations = self.geometry.locations(hash, levels.base_buckets());
        for (below, level) in levels.levels.iter().enumerate().skip(1) {
            locations.tops().iter().for_each(|&top| level.prefetch(&self.shape, top >> below));
        }
    }

    /// Prefetches the item in a slot, if there is one; of a record possibly its key alone.
    #[inline(always)]
    pub(crate) fn prefetch_slot(&self, bucket: Bucket<'_>, slot: usize, with_value: bool) {
        if self.shape.body != Body::Packed {
            return bucket.prefetch_slot(&self.shape, slot);
        }
        let offset = offset_of(bucket.state(slot));
        if offset != 0 && with_value {
            self.record_lines.fetch(self.image(), offset, prefetch::line);
        } else if offset != 0 {
            self.record_lines.fetch_key(self.image(), offset, prefetch::line);
        }
    }

    /// Prefetches for a writer the items of keys whose first buckets were prefetched.
    pub(crate) fn prefetch_items(&self, levels: &Levels, keys: Vec<LockRequest>) {
        match self.matching {
            matching::Level::Portable => self.prefetch_with(Portable, levels, keys),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: there is an `Avx2`, so the machine has it.
            matching::Level::Avx2(avx2) => unsafe { prefetch_avx2(self, avx2, levels, keys) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: there is an `Avx512`, so the machine has it.
            matching::Level::Avx512(avx512) => unsafe { prefetch_avx512(self, avx512, levels, keys) },
        }
    }

    #[inline(always)]
    fn prefetch_with<M: Matching>(&self, matching: M, levels: &Levels, mut keys: Vec<LockRequest>) {
        for below in 0..levels.levels.len() {
            // Not `retain`: a closure would not be compiled for the machine's best means.
            let mut left = 0;
            for number in 0..keys.len() {
                let key = keys[number];
                if !self.prefetch_item(matching, levels, key, below) {
                    keys[left] = key;
                    left += 1;
                }
            }
            keys.truncate(left);
        }
    }

    /// The item of a key, if it is in the level so far below the first; otherwise its buckets in the next level.
    /// Whether it found an item.
    #[inline(always)]
    fn prefetch_item<M: Matching>(
        &self,
        matching: M,
        levels: &Levels,
        key: LockRequest,
        below: usize,
    ) -> bool {
        let locations = self.geometry.locations(key.lock.bits(), levels.base_buckets());
        for &top in locations.tops() {
            let bucket = levels.levels[below].bucket(&self.shape, top >> below);
            let candidates = self.candidates(matching, bucket, key.lock.bits());
            if candidates != 0 {
                self.prefetch_slot(bucket, candidates.trailing_zeros() as usize, key.value_is_read);
                return true;
            }
        }
        if let Some(next) = levels.levels.get(below + 1) {
            locations.tops().iter().for_each(|&top| next.prefetch(&self.shape, top >> (below + 1)));
        }
        false
    }

    /// Visits every item, while writers go on. An item that is present throughout is visited at least once, and during
    /// a growth possibly twice.
    pub fn scan<E>(&self, table: u32, mut each: impl FnMut(&Change<'_>) -> Result<(), E>) -> Result<(), E> {
        let _scanning = self.displacing.scan();
        let mut position = ScanPosition::default();
        while self.scan_some(table, &mut position, &mut each)? {}
        Ok(())
    }

    /// Visits the items of a few buckets and advances the position; returns whether there are more. Starts over if the
    /// table has grown since. May miss items that were displaced since, unless [displacement is
    /// stopped](Self::hold_still).
    pub fn scan_some<E>(
        &self,
        table: u32,
        position: &mut ScanPosition,
        mut each: impl FnMut(&Change<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let mut key = Vec::new();
        // A guard a few buckets: a scan must not hold up what is to be freed.
        let guard = &self.heap.pin();
        let levels = self.levels(guard);
        let mut within = Position::from(*position);
        let next = within.next(self.specials(), levels);
        *position = within.into();
        let Some((run, buckets)) = next else { return Ok(false) };
        for bucket in buckets.map(|bucket| run.bucket(&self.shape, bucket)) {
            for slot in 0..self.shape.slots() {
                key.clear();
                let Some(item) = self.read_any(bucket, slot, &mut key) else { continue };
                each(&Value::new(self.image(), item).as_put(table, &key))?;
            }
        }
        Ok(true)
    }

    /// Keeps items where they are, but for growth, until [`let_move`](Self::let_move) has been called as often.
    pub fn hold_still(&self) {
        std::mem::forget(self.displacing.scan());
    }

    /// Lets items move again.
    pub fn let_move(&self) {
        self.displacing.resume();
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
    sought: Sought<'_>,
) -> Option<Found> {
    table.find(avx2, levels, sought)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx2")]
fn find_avx512<P: Persist>(
    table: &Table<P>,
    avx512: matching::Avx512,
    levels: &Levels,
    sought: Sought<'_>,
) -> Option<Found> {
    table.find(avx512, levels, sought)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn prefetch_avx2<P: Persist>(
    table: &Table<P>,
    avx2: matching::Avx2,
    levels: &Levels,
    keys: Vec<LockRequest>,
) {
    table.prefetch_with(avx2, levels, keys);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx2")]
fn prefetch_avx512<P: Persist>(
    table: &Table<P>,
    avx512: matching::Avx512,
    levels: &Levels,
    keys: Vec<LockRequest>,
) {
    table.prefetch_with(avx512, levels, keys);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn get_some_avx2<'k, P: Persist>(
    table: &Table<P>,
    avx2: matching::Avx2,
    guard: &Guard,
    keys: &mut impl Iterator<Item = &'k [u8]>,
    each: impl FnMut(usize, Option<Value<'_, P>>),
) -> usize {
    table.get_some(avx2, guard, keys, each)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx2")]
fn get_some_avx512<'k, P: Persist>(
    table: &Table<P>,
    avx512: matching::Avx512,
    guard: &Guard,
    keys: &mut impl Iterator<Item = &'k [u8]>,
    each: impl FnMut(usize, Option<Value<'_, P>>),
) -> usize {
    table.get_some(avx512, guard, keys, each)
}

/// The position of a scan. If the levels change it starts over, so that an item may be visited twice but is never
/// missed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Position {
    block: u64,
    run: usize,
    bucket: u64,
}

impl From<ScanPosition> for Position {
    fn from(position: ScanPosition) -> Position {
        let [block, run, bucket, _] = position.words();
        Position { block, run: run as usize, bucket }
    }
}

impl From<Position> for ScanPosition {
    fn from(position: Position) -> ScanPosition {
        ScanPosition::from_words([position.block, position.run as u64, position.bucket, 0])
    }
}

impl Position {
    /// The next few buckets of a run.
    pub(crate) fn next<'l>(
        &mut self,
        specials: Option<&'l Level>,
        levels: &'l Levels,
    ) -> Option<(&'l Level, Range<u64>)> {
        const BUCKETS: u64 = 32;
        if self.block != levels.block {
            *self = Position { block: levels.block, run: 0, bucket: 0 };
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
