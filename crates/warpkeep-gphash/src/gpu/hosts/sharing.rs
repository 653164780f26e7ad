//! The device fetches some of the values to where the caller wants them, and the host copies the others meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};

use warpkeep_core::{AnswerRows, HostCells, Status};
use warpkeep_device::DevicePtr;
use warpkeep_image::Persist;
use warpkeep_record::Pool;

use super::arrived::arrived;
use super::filling::Filling;
use super::gather::wave_of;
use super::{Gathered, HostGets, SHARE};
use crate::gpu::engine::{Asked, DeviceEngine, Workplace};
use crate::gpu::stage::words;
use crate::gpu::steps::Watch;
use crate::{Table, TableError};

/// Keys of a batch that both answer under one guard.
struct Wave<'w> {
    keys: HostCells<'w>,
    /// The first of them.
    first: usize,
    answers: AnswerRows<'w>,
    /// Where the device has the rows of their values.
    rows: DevicePtr,
    pool: &'w Pool,
    at_once: usize,
}

impl<P: Persist> DeviceEngine<P> {
    /// Whether the device can [write](DeviceEngine::share_rows) the values of such a batch to where they are wanted.
    pub fn shares(&self, table: &Table<P>, answers: &mut AnswerRows<'_>) -> bool {
        self.points(table) && self.rows_reached(table, answers).is_some()
    }

    /// Where the device has the rows that values go to, if it reaches them, and they are such as kernels write.
    fn rows_reached(&self, table: &Table<P>, answers: &mut AnswerRows<'_>) -> Option<DevicePtr> {
        let (count, len) = (answers.len(), table.value.max_len());
        let bytes = answers.values_mut()?;
        let rows = self.device().reach(bytes)?;
        // Kernels know the table's values only: rows of other lengths they would write behind.
        let are_its_own = bytes.len() == count * len;
        (are_its_own && len.is_multiple_of(8) && rows.address().is_multiple_of(8)).then_some(rows)
    }

    /// Looks keys up whose values go to [memory that the device reaches](warpkeep_device::Device::reach): it fetches those of some keys and writes them there
    /// itself, while those of the others are [gathered](DeviceEngine::gather_rows) by the host. Either of them alone is held up by its way to memory; together they
    /// have two. `None`, with nothing answered, if the device does not reach it, or does not know where records lie: see [`DeviceEngine::shares`].
    pub fn share_rows(&self, table: &Table<P>, gets: HostGets<'_>) -> Result<Option<Gathered>, TableError> {
        let mut watch = self.straight.steps.watch();
        gets.check(table)?;
        let HostGets { keys, mut answers, pool, at_once } = gets;
        let Some(rows) = self.rows_reached(table, &mut answers).filter(|_| self.points(table)) else {
            return Ok(None);
        };
        let (mut first, mut all) = (0, Gathered::default());
        for answers in answers.chunks(wave_of(at_once)) {
            let count = answers.len();
            let rows = rows.offset((first * table.value.max_len()) as u64);
            let wave = Wave { keys, first, answers, rows, pool, at_once };
            let Some(came) = self.share_wave(table, wave, &mut watch)? else { return Ok(None) };
            all += came;
            first += count;
        }
        watch.finish()?;
        Ok(Some(all))
    }

    fn share_wave(
        &self,
        table: &Table<P>,
        wave: Wave<'_>,
        watch: &mut Watch<'_>,
    ) -> Result<Option<Gathered>, TableError> {
        let Wave { keys, first, answers, rows, pool, at_once } = wave;
        let count = answers.len();
        let taken = self.profile().device_keys(count);
        let (gathered, fetched) = answers.split_at(count - taken);
        let gets = HostGets { keys, answers: gathered, pool, at_once };
        if taken == 0 {
            return self.gather_from(table, gets, first, watch);
        }
        let wants_versions = fetched.wants_versions();
        let mut place = self.take_place()?;
        let staying = self.stay();
        // What kernels find stays while the epoch is pinned.
        let guard = &table.heap.pin();
        let (mut mirror, mut all) = (None, None);
        let work = || {
            let (begun, ended) = (self.device().event()?, self.device().event()?);
            begun.record(&place.stream)?;
            let range = (first + count - taken, taken);
            let asked = Asked {
                count: taken,
                keys: self.send_keys(table, &mut place, keys, range, pool)?,
                wants_versions,
                values: Some(rows.offset(((count - taken) * table.value.max_len()) as u64)),
            };
            watch.host("sharing: keys are sent");
            // SAFETY: the keys are under way, and the rows are those of `fetched`, which is not looked at until the stream is synchronised.
            mirror = unsafe { self.ask_sent(table, &mut place, asked, guard)? };
            ended.record(&place.stream)?;
            watch.host("sharing: the device's part is under way");
            let came = self.gather_from(table, gets, first, watch)?;
            place.stream.synchronize()?;
            watch.host("sharing: the device is waited for");
            let Some(mut came) = came else { return Ok(()) };
            watch.note("sharing: the device's part, by its clock", ended.elapsed_since(&begun)?);
            came += answer_filled(&place, fetched, pool);
            all = Some(came);
            watch.host("sharing: its answers are noted");
            Ok(())
        };
        let done = work();
        self.leave_places([place], (staying, mirror), done)?;
        Ok(all)
    }

    /// Has keys from one on, so many, sent to a place: from where they are, if the device reaches them; gives where they will be.
    fn send_keys(
        &self,
        table: &Table<P>,
        place: &mut Workplace,
        keys: HostCells<'_>,
        (first, count): (usize, usize),
        pool: &Pool,
    ) -> Result<DevicePtr, TableError> {
        let (device, row) = (self.device(), 8 * words(table.key_row()));
        let Workplace { stream, columns, .. } = place;
        if let Some(from) = Filling::reached(device, table, keys, (first, count)) {
            let to = columns.keys.room(device, count * row)?;
            // SAFETY: there are as many keys, which the caller lends until the stream is synchronised, and as much room.
            unsafe { device.copy_raw(to, from, count * row, stream)? };
            return Ok(to);
        }
        let filling = Filling::keys(device, &mut columns.keys, table, keys, (first, count))?;
        pool.share(filling, Filling::fill);
        // SAFETY: the stream is synchronised before the place is used again.
        unsafe { columns.keys.send::<u64>(device, count * row / 8, stream) }
    }
}

/// Notes what has arrived at a place, whose values are in their rows already.
fn answer_filled(place: &Workplace, answers: AnswerRows<'_>, pool: &Pool) -> Gathered {
    let (found, absent) = (AtomicU64::new(0), AtomicU64::new(0));
    let parts: Vec<_> = answers.chunks(SHARE).into_iter().enumerate().collect();
    pool.share(parts, |(part, answers)| {
        let came = arrived(place, part * SHARE, answers, |answers, index, version| {
            answers.answer_filled(index, Status::Ok, version);
        });
        found.fetch_add(came.found, Ordering::Relaxed);
        absent.fetch_add(came.absent, Ordering::Relaxed);
    });
    Gathered { found: found.into_inner(), absent: absent.into_inner() }
}
