//! The device points at records, and the host copies the values.

use std::sync::atomic::Ordering;

use warpkeep_core::{AnswerRows, Answers, HostCells, Status};
use warpkeep_device::Grid;
use warpkeep_image::Persist;
use warpkeep_record::{ItemRef, Streaming, Value, prefetch};

use super::clock::Clock;
use super::filling::Filling;
use super::launches::Launches;
use super::{HostGets, SHARE};
use crate::gpu::engine::{DeviceEngine, THREADS, Workplace};
use crate::gpu::mirror::{For, Reflection};
use crate::gpu::params::{PointParams, TableParams, VEILED};
use crate::gpu::stage::words;
use crate::{Table, TableError};

/// Keys under one guard: a batch of any length must not hold up for long what is to be freed, nor take much memory.
const WAVE: usize = 1 << 22;
/// Keys of a launch, at least, and launches of a wave, at most: the first records are copied while others are looked for.
const AT_ONCE: usize = 16 * SHARE;
const LAUNCHES: usize = 8;
/// Keys whose values one thread copies at a time: so few that the last ones to finish do not hold up the others for long.
const COPIED: usize = 1 << 10;
/// Records that are under way to a core at once: as many as it can have misses.
const AHEAD: usize = 12;

impl<P: Persist> DeviceEngine<P> {
    /// Looks keys up: the device says where their records lie, and the threads of the host copy the values. Nothing of a value crosses the
    /// link. `false`, with nothing answered, if the device does not know where records lie: see [`DeviceEngine::points`].
    pub fn gather_rows(&self, table: &Table<P>, gets: HostGets<'_>) -> Result<bool, TableError> {
        gets.check(table)?;
        if !self.points(table) {
            return Ok(false);
        }
        let HostGets { keys, answers, pool, at_once: wanted } = gets;
        let (whole, mut first) = (answers.len(), 0);
        for answers in answers.chunks(WAVE) {
            let count = answers.len();
            if count == 0 {
                break;
            }
            let at_once = match wanted {
                0 => count.div_ceil(LAUNCHES).next_multiple_of(SHARE).max(AT_ONCE),
                wanted => wanted,
            };
            let mut places = Vec::new();
            while places.len() < count.div_ceil(at_once) {
                places.push(self.take_place()?);
            }
            let wave = Wave { keys, first, at_once, share: COPIED.min(at_once), whole, pool };
            let done = self.gather_wave(table, &mut places, &wave, answers);
            if done.is_ok() {
                // After an error something may be under way: then they are dropped, which waits for the device.
                places.into_iter().for_each(|place| self.keep_place(place));
            }
            if !done? {
                return Ok(false);
            }
            first += count;
        }
        Ok(true)
    }

    fn gather_wave(
        &self,
        table: &Table<P>,
        places: &mut [Workplace],
        wave: &Wave<'_>,
        answers: AnswerRows<'_>,
    ) -> Result<bool, TableError> {
        let mut watch = self.straight.steps.watch();
        let (device, count, key_words) = (self.device(), answers.len(), words(table.key.max_len()));
        // A record that the device points at stays what it is while the epoch is pinned: whoever replaces it from now on keeps it until
        // then, and what was replaced before is told to the mirror first.
        let guard = crossbeam_epoch::pin();
        let Some(mirror) = self.mirror.join(self, table, For::Reading)? else { return Ok(false) };
        watch.host("gathering: the mirror is brought up to date");
        let mut fillings = Vec::new();
        for (number, place) in places.iter_mut().enumerate() {
            let (first, some) = wave.launch(number, count);
            let range = (wave.first + first, some);
            fillings.extend(Filling::parts(device, &mut place.columns.keys, wave.keys, range, key_words)?);
        }
        wave.pool.share(fillings, Filling::fill);
        watch.host("gathering: keys are filled in");
        let params = TableParams::new(table, table.levels(&guard), self.image.cover()?);
        let (launches, clock) = (Launches::new(places.len()), Clock::begin(watch.is_on()));
        let exact = mirror.tells_keys_apart(table);
        let streamed = table.value.max_len() * wave.whole >= self.streamed_from.load(Ordering::Relaxed);
        let places = places.iter_mut().enumerate();
        let launch = || {
            let _end = launches.end();
            for (number, place) in places {
                let (_, some) = wave.launch(number, count);
                // SAFETY: the columns are as long as the kernel takes them to be and are not touched until the stream is synchronised,
                // which those do who wait for the launch, or `finish`; the mirror is held until then.
                unsafe { self.point(params, &mirror, place, some, key_words)? };
                launches.under_way(number, place);
            }
            watch.host("gathering: launches");
            Ok(())
        };
        // While the caller launches, the others wait for the first records already.
        let launched: Result<(), TableError> = wave.pool.share_beside(
            wave.parts(answers),
            |Part { launch, within, answers }| {
                let since = clock.now();
                let Some(place) = launches.wait_for(launch) else { return };
                clock.waited(since);
                let since = clock.now();
                let records = &place.columns.records.fetched::<u64>(within + answers.len())[within..];
                let first = wave.first + launch * wave.at_once + within;
                copy_values(table, records, exact, (wave.keys, first), answers, streamed);
                clock.copied(since);
            },
            launch,
        );
        watch.host("gathering: from the last launch to the end");
        clock.tell(&mut watch, wave.pool.threads());
        let arrived = launches.finish();
        drop((mirror, guard));
        launched.and(arrived)?;
        watch.finish()?;
        Ok(true)
    }

    /// Begins to look for the records of keys that are on the host's side of a place.
    ///
    /// # Safety
    /// The stream is synchronised before the place is used again and the mirror dropped.
    unsafe fn point(
        &self,
        table: TableParams,
        mirror: &Reflection,
        place: &mut Workplace,
        count: usize,
        key_words: usize,
    ) -> Result<(), TableError> {
        let (device, columns, stream) = (self.device(), &mut place.columns, &place.stream);
        // SAFETY: the caller's promise; the columns have just got the room.
        unsafe {
            let params = PointParams {
                table: table.reflected(mirror.params()),
                count: count as u64,
                keys: columns.keys.send::<u64>(device, count * key_words, stream)?,
                records: columns.records.room(device, 8 * count)?,
            };
            self.kernels.point.launch(Grid::covering(params.count.max(1), THREADS), &params, stream)?;
            columns.records.fetch::<u64>(device, count, stream)
        }
    }
}

/// Keys of a batch that are looked up under one guard.
struct Wave<'w> {
    keys: HostCells<'w>,
    /// The first of them.
    first: usize,
    /// Keys of a launch, and of what a thread takes.
    at_once: usize,
    share: usize,
    /// Keys of the batch.
    whole: usize,
    pool: &'w warpkeep_record::Pool,
}

impl Wave<'_> {
    /// The first key of a launch, and how many it has, of so many in all.
    fn launch(&self, number: usize, count: usize) -> (usize, usize) {
        let first = number * self.at_once;
        (first, self.at_once.min(count - first))
    }

    /// Answers for threads, each of one launch.
    fn parts<'a>(&self, answers: AnswerRows<'a>) -> Vec<Part<'a>> {
        let launches = answers.chunks(self.at_once).into_iter().enumerate();
        let parts = launches.flat_map(|(launch, answers)| {
            let parts = answers.chunks(self.share).into_iter().enumerate();
            parts.map(move |(part, answers)| Part { launch, within: part * self.share, answers })
        });
        parts.collect()
    }
}

/// What one thread answers: the keys of a launch from one on.
struct Part<'a> {
    launch: usize,
    within: usize,
    answers: AnswerRows<'a>,
}

/// Copies the values of records to where they are wanted, for keys from the first on. `exact` says that the records are certain to be theirs.
fn copy_values<P: Persist>(
    table: &Table<P>,
    records: &[u64],
    exact: bool,
    (keys, first): (HostCells<'_>, usize),
    mut answers: AnswerRows<'_>,
    streamed: bool,
) {
    let (image, form, block) = (table.image(), table.form, table.form.block_len());
    // Then the value is all that is read of a record: key and version lie in another line.
    let bare = exact && !answers.wants_versions() && form.value_ref(0).is_some();
    let streaming = streamed.then(Streaming::begin);
    let copy = |from: &[u8], to: &mut [u8]| match &streaming {
        Some(streaming) => streaming.copy(from, to),
        None => to.copy_from_slice(from),
    };
    let is_within = |record: u64| match form.tile() {
        Some(tile) if bare => image.contains(tile.value_at(record), tile.value()),
        None => image.contains(record, block),
        Some(tile) => image.contains(tile.value_at(record), 8) && image.contains(tile.tail_at(record), 8),
    };
    let is_record = |record: u64| record > VEILED && record.is_multiple_of(8) && is_within(record);
    let bring_nearer = |record: u64| match is_record(record) {
        true if bare => table.record_lines.fetch_value(image, record, prefetch::line),
        true => table.record_lines.fetch(image, record, prefetch::line),
        false => {}
    };
    records.iter().take(AHEAD).for_each(|&record| bring_nearer(record));
    for (index, &record) in records.iter().enumerate() {
        if let Some(&later) = records.get(index + AHEAD) {
            bring_nearer(later);
        }
        if record == 0 {
            answers.answer(index, Status::NotFound, 0);
            continue;
        }
        if let (true, true, Some(value)) = (bare, is_record(record), form.value_ref(record)) {
            let value = Value::new(image, ItemRef { version: 0, value });
            answers.answer_by(index, Status::Ok, 0, value.bytes(), copy);
            continue;
        }
        if is_record(record) {
            let found = form.at(image, record);
            if exact || found.has_key(image, keys.get(first + index)) {
                let value = Value::new(image, found.item());
                answers.answer_by(index, Status::Ok, value.version(), value.bytes(), copy);
                continue;
            }
        }
        // Its item was just changing, or another key has the same hash: the image knows.
        let mut found = false;
        table.get(keys.get(first + index), |value| {
            found = true;
            answers.answer_value(index, Status::Ok, value.version(), value.bytes())
        });
        if !found {
            answers.answer(index, Status::NotFound, 0);
        }
    }
}
