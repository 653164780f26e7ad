//! The device points at records, and the host copies the values.

use std::ops::{AddAssign, Range};
use std::sync::atomic::{AtomicU64, Ordering};

use warpkeep_core::{AnswerRows, HostCells};
use warpkeep_device::Grid;
use warpkeep_image::Persist;

use super::clock::Clock;
use super::copying::Copying;
use super::filling::Filling;
use super::launches::{Launches, Site};
use super::{COPIED, HostGets, SHARE, copied_at_once};
use crate::gpu::engine::{DeviceEngine, THREADS, Workplace};
use crate::gpu::mirror::{For, Reflection};
use crate::gpu::params::{PointParams, TableParams};
use crate::gpu::stage::words;
use crate::gpu::steps::Watch;
use crate::{Table, TableError};

/// Keys under one guard: a batch of any length must not hold up for long what is to be freed, nor take much memory.
const WAVE: usize = 1 << 22;
/// Keys of the first launch: enough that every thread has something to copy while the next is launched. Each one after it has twice as many,
/// for what is launched then is not waited for; but there are several of the largest, because a launch brings its records all at once.
const FIRST: usize = 16 * COPIED.1;
const LARGEST: usize = 4;

/// What keys came to that were [gathered](DeviceEngine::gather_rows), or [shared](DeviceEngine::share_rows).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// Keys that were found.
    pub found: u64,
    /// Keys that are not there.
    pub absent: u64,
}

impl AddAssign for Gathered {
    fn add_assign(&mut self, other: Gathered) {
        self.found += other.found;
        self.absent += other.absent;
    }
}

impl<P: Persist> DeviceEngine<P> {
    /// Looks keys up: the device says where their records lie, and the threads of the host copy the values. Nothing of a value crosses the
    /// link. `None`, with nothing answered, if the device does not know where records lie: see [`DeviceEngine::points`].
    pub fn gather_rows(&self, table: &Table<P>, gets: HostGets<'_>) -> Result<Option<Gathered>, TableError> {
        let mut watch = self.straight.steps.watch();
        gets.check(table)?;
        if !self.points(table) {
            return Ok(None);
        }
        let gathered = self.gather_from(table, gets, 0, &mut watch)?;
        watch.finish()?;
        Ok(gathered)
    }

    /// The same for keys from one on, as many as there are answers, of a batch that was checked.
    pub(super) fn gather_from(
        &self,
        table: &Table<P>,
        gets: HostGets<'_>,
        mut first: usize,
        watch: &mut Watch<'_>,
    ) -> Result<Option<Gathered>, TableError> {
        let HostGets { keys, answers, pool, at_once } = gets;
        let (whole, mut gathered) = (answers.len(), Gathered::default());
        for answers in answers.chunks(wave_of(at_once)) {
            let count = answers.len();
            if count == 0 {
                break;
            }
            let launches = launches_of(count, at_once);
            let mut places = Vec::with_capacity(launches.len());
            while places.len() < launches.len() {
                places.push(self.take_place()?);
            }
            watch.host("gathering: places are taken");
            let wave = Wave { keys, first, launches, whole, pool };
            let done = self.gather_wave(table, &mut places, &wave, answers, watch);
            if done.is_ok() {
                // After an error something may be under way: then they are dropped, which waits for the device. The next batch is to find
                // them in the same order, each as long as it has to be.
                places.into_iter().rev().for_each(|place| self.keep_place(place));
            }
            let Some(came) = done? else { return Ok(None) };
            gathered += came;
            first += count;
        }
        watch.host("gathering: places are left");
        Ok(Some(gathered))
    }

    fn gather_wave(
        &self,
        table: &Table<P>,
        places: &mut [Workplace],
        wave: &Wave<'_>,
        answers: AnswerRows<'_>,
        watch: &mut Watch<'_>,
    ) -> Result<Option<Gathered>, TableError> {
        let (device, key_words) = (self.device(), words(table.key_row()));
        // Whoever gives rows of values to other keys waits for those who may have met the old ones.
        let staying = self.stay();
        // A record that the device points at stays what it is while the epoch is pinned: whoever replaces it from now on keeps it until
        // then, and what was replaced before is told to the mirror first.
        let guard = table.heap.pin();
        let Some(mirror) = self.mirror.join(self, table, For::Reading)? else { return Ok(None) };
        watch.host("gathering: the mirror is brought up to date");
        let mut launches = Launches::new();
        for (range, Workplace { stream, columns, .. }) in wave.launches.iter().zip(places) {
            let (count, first) = (range.len(), wave.first + range.start);
            columns.records.host::<u64>(device, count)?;
            // Those that the device reaches stay where they are.
            let reached = Filling::reached(device, table, wave.keys, (first, count));
            if reached.is_none() {
                columns.keys.host::<u64>(device, count * key_words)?;
            }
            let (keys, records) =
                (reached.unwrap_or_else(|| columns.keys.host_ptr()), columns.records.host_ptr());
            let site = Site { count, keys, records, stream, column: &columns.records };
            let shares = match reached {
                Some(_) => Vec::new(),
                None => Filling::keys(device, &mut columns.keys, table, wave.keys, (first, count))?,
            };
            launches.add(site, shares);
        }
        let params = TableParams::new(table, table.levels(&guard), self.image.cover()?);
        let clock = Clock::begin(watch.is_on());
        let copying = Copying {
            table,
            exact: mirror.tells_keys_apart(table),
            streamed: table.value.max_len() * wave.whole >= self.profile().streamed_from_bytes,
        };
        let (found, absent) = (AtomicU64::new(0), AtomicU64::new(0));
        let launch = |number: usize| -> Result<(), TableError> {
            let site = launches.filled(number);
            // SAFETY: the columns are as long as the kernel takes them to be and are not touched until the stream is synchronised, which
            // those do who wait for the launch, or `finish`; the mirror is held until then.
            unsafe { self.point(params, &mirror, &site)? };
            launches.under_way(number);
            Ok(())
        };
        // Where keys need no help, the first is under way while it is said who does what, which takes as long.
        let alone = usize::from(Filling::copies_keys(table, wave.keys));
        (0..alone).try_for_each(launch)?;
        watch.host("gathering: a launch before all others");
        let tasks = wave.tasks(&launches, answers);
        watch.host("gathering: parts are made");
        let launch_others = || {
            let _end = launches.end();
            (alone..launches.len()).try_for_each(launch)?;
            watch.host("gathering: the other launches");
            Ok(())
        };
        // The caller fills in keys and launches; the others help with them, and wait for the first records already.
        let launched: Result<(), TableError> = wave.pool.share_beside(
            tasks,
            |task| {
                let Part { launch, within, mut answers } = match task {
                    Task::Fill(launch) => {
                        launches.fill(launch);
                        return;
                    }
                    Task::Copy(part) => part,
                };
                let since = clock.now();
                let Some(records) = launches.wait_for(launch) else { return };
                clock.waited(since);
                let since = clock.now();
                let records = &records[within..][..answers.len()];
                let first = wave.first + wave.launches[launch].start + within;
                let came = copying.copy(records, |index| Some(wave.keys.get(first + index)), &mut answers);
                found.fetch_add(came.found, Ordering::Relaxed);
                absent.fetch_add(came.absent, Ordering::Relaxed);
                clock.copied(since);
            },
            launch_others,
        );
        watch.host("gathering: from the last launch to the end");
        clock.tell(watch, wave.pool.threads());
        let arrived = launches.finish();
        drop((mirror, guard, staying));
        launched.and(arrived)?;
        Ok(Some(Gathered { found: found.into_inner(), absent: absent.into_inner() }))
    }

    /// Begins to look for the records of keys. Both are in memory of the host, which the device reads and writes in a row: that takes one
    /// call of the driver, and copies would take two more.
    ///
    /// # Safety
    /// The keys are filled in, or where the caller has them; they and the records are left alone, and the mirror is kept, until the stream is synchronised.
    unsafe fn point(
        &self,
        table: TableParams,
        mirror: &Reflection,
        site: &Site<'_>,
    ) -> Result<(), TableError> {
        let params = PointParams {
            table: table.reflected(mirror.params()),
            count: site.count as u64,
            keys: site.keys,
            records: site.records,
        };
        let grid = Grid::covering(params.count.max(1), THREADS);
        // SAFETY: the caller's promise; there are as many keys, and there is room for as many records.
        unsafe { self.kernels.index()?.point.launch(grid, &params, site.stream)? };
        Ok(())
    }
}

/// Keys under one guard, where it is said how many a launch has, or 0.
pub(super) fn wave_of(at_once: usize) -> usize {
    match at_once {
        0 => WAVE,
        some => some.saturating_mul(LARGEST).min(WAVE),
    }
}

/// The launches of so many keys: of so many each, if that is said.
fn launches_of(count: usize, at_once: usize) -> Vec<Range<usize>> {
    let (mut launches, mut begin) = (Vec::new(), 0);
    let (mut next, largest) = match at_once {
        0 => (FIRST, count.div_ceil(LARGEST).next_multiple_of(COPIED.1).max(FIRST)),
        some => (some, some),
    };
    while begin < count {
        let left = count - begin;
        // A few more are not worth another.
        let is_last = left <= next || at_once == 0 && left - next <= FIRST;
        let end = if is_last { count } else { begin + next };
        launches.push(begin..end);
        begin = end;
        next = (2 * next).min(largest);
    }
    launches
}

/// Keys of a batch that are looked up under one guard.
struct Wave<'w> {
    keys: HostCells<'w>,
    /// The first of them.
    first: usize,
    /// Those of each launch, from the first of them on.
    launches: Vec<Range<usize>>,
    /// Keys of the batch.
    whole: usize,
    pool: &'w warpkeep_record::Pool,
}

impl Wave<'_> {
    /// What threads do, in the order in which it is wanted: the keys of a launch are filled in before the records of the one before it
    /// are copied.
    fn tasks<'a>(&self, launches: &Launches<'_>, answers: AnswerRows<'a>) -> Vec<Task<'a>> {
        let fills = |launch: usize| {
            let shares = if launch < launches.len() { launches.shares(launch) } else { 0 };
            (0..shares).map(move |_| Task::Fill(launch))
        };
        let copied = copied_at_once(answers.len(), self.pool.threads());
        let about = answers.len() / copied + answers.len() / SHARE + 2 * self.launches.len();
        let mut tasks = Vec::with_capacity(about);
        tasks.extend(fills(0));
        let mut rest = answers;
        for (launch, range) in self.launches.iter().enumerate() {
            tasks.extend(fills(launch + 1));
            let (mine, others) = rest.split_at(range.len());
            rest = others;
            let parts = mine.chunks(copied).into_iter().enumerate();
            tasks.extend(
                parts.map(|(part, answers)| Task::Copy(Part { launch, within: part * copied, answers })),
            );
        }
        tasks
    }
}

/// What one thread does next.
enum Task<'a> {
    /// Some keys of a launch are filled in, unless others do it.
    Fill(usize),
    /// The values of some of its records are copied.
    Copy(Part<'a>),
}

/// What one thread answers: the keys of a launch from one on.
struct Part<'a> {
    launch: usize,
    within: usize,
    answers: AnswerRows<'a>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_grow_and_have_every_key_once() {
        for (count, at_once) in [
            (1, 0),
            (FIRST, 0),
            (2 * FIRST, 0),
            (2 * FIRST + 1, 0),
            (100_000, 0),
            (1 << 20, 0),
            (WAVE, 0),
            (301, 50),
        ] {
            let launches = launches_of(count, at_once);
            assert_eq!((launches[0].start, launches[launches.len() - 1].end), (0, count));
            assert!(launches.windows(2).all(|pair| pair[0].end == pair[1].start), "{launches:?}");
            assert!(launches.iter().all(|launch| !launch.is_empty()) && launches.len() <= 12, "{launches:?}");
        }
        let sizes: Vec<usize> = launches_of(1 << 20, 0).iter().map(|launch| launch.len() >> 10).collect();
        assert_eq!(sizes, [16, 32, 64, 128, 256, 256, 272]);
        assert_eq!(launches_of(301, 50).len(), 7);
        assert!(launches_of(0, 0).is_empty());
    }
}
