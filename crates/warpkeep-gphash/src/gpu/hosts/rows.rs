//! Keys and answers lie in device memory, and the host copies the values: the device points at records, threads of the host gather their values
//! in pinned memory, and the device copies them up, all while one kernel runs.

use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use warpkeep_device::{DeviceChoice, DeviceError, Stream};
use warpkeep_image::Persist;
use warpkeep_record::Pool;

use super::board::Board;
use super::copying::{Copying, Sink};
use crate::gpu::columns::Columns;
use crate::gpu::engine::{DeviceEngine, THREADS, Workplace};
use crate::gpu::mirror::{For, Reflection, spread};
use crate::gpu::order::{Measured, ValuesBy};
use crate::gpu::params::{AskHostParams, DECLINED, GATHERED, GetParams};
use crate::gpu::reading::GetRows;
use crate::gpu::stage::words;
use crate::{Table, TableError};

/// Keys of a launch, at the most, and bytes of their values, which are memory of the host that nobody else can use: larger batches are
/// gathered part by part.
const MOST_KEYS: usize = 1 << 18;
const MOST_BYTES: usize = 64 << 20;

/// How often a block looks for its values before it fetches them itself, at least and at the most. A look over the link takes a microsecond or two,
/// and in a launch of many a block waits for those before it, too: so it looks once for so many keys.
const PATIENCE: (u64, u64) = (64, 1024);
const KEYS_A_LOOK: u64 = 256;
/// Nanoseconds between two looks; and where many blocks look, which all cross the link.
const PAUSE: u64 = 20;
const LONG_PAUSE: u64 = 1000;
const MANY: usize = 1 << 14;
/// The same where looks take no time, and the host has to share its cores with whoever looks.
const PATIENCE_SIMULATED: u64 = 1 << 16;

/// Turns that a thread looks for records before it asks whether any will come; and then, between naps, each twice as long as the one before:
/// something else may be in the stream before them.
const LOOKS: u32 = 4096;
const SOME_LOOKS: u32 = 64;
const NAPS: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));

/// Keys of a launch, at the most, with values of so many bytes.
fn most_at_once(value_bytes: usize) -> usize {
    MOST_KEYS.min(MOST_BYTES / value_bytes.max(1)).max(1)
}

/// Threads of the host that gather, started when they are first needed.
#[derive(Default)]
pub(in crate::gpu) struct Hands {
    pool: Mutex<Option<Arc<Pool>>>,
    /// How many; 0 for as many as suit the machine.
    threads: AtomicUsize,
    /// Keys of a launch; 0 for as many as suit their values.
    at_once: AtomicUsize,
    /// Batches that they had a part in, and launches.
    batches: AtomicU64,
    launches: AtomicU64,
}

impl Hands {
    fn pool(&self) -> Arc<Pool> {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(pool.get_or_insert_with(|| Arc::new(Pool::new(self.threads.load(Ordering::Relaxed)))))
    }
}

/// A batch that the host has a part in.
pub(in crate::gpu) trait Left {
    /// Does it, with the place that the batch has; all answers are there when it returns.
    fn finish(
        self: Box<Self>,
        place: &mut Workplace,
        stream: &Stream,
        measured: Option<&Measured>,
    ) -> Result<(), TableError>;
}

/// The mirror that a batch looks at, to be kept until all is done; and what is left to do.
pub(in crate::gpu) type Told<'r> = (Reflection, Box<dyn Left + 'r>);

impl<P: Persist> DeviceEngine<P> {
    /// Batches of gets in device memory whose values [the host has fetched](Self::fetch_values_by), but for those it was late with.
    pub fn fetched_by_host(&self) -> u64 {
        self.hands.batches.load(Ordering::Relaxed)
    }

    /// Has so many threads gather the values that [the host fetches](Self::fetch_values_by), the caller's among them, from now on; 0 for
    /// as many as suit the machine, which is what there is if nothing is said.
    pub fn gather_with(&self, threads: usize) {
        self.hands.threads.store(threads, Ordering::Relaxed);
        // Those that are there end when nobody uses them any more.
        drop(self.hands.pool.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Has batches whose values [the host fetches](Self::fetch_values_by) gathered so many keys at a time; 0 for as many as suit their values, which
    /// is what there is if nothing is said.
    pub fn gather_at_once(&self, keys: usize) {
        self.hands.at_once.store(keys, Ordering::Relaxed);
    }

    /// Whether the host could fetch the values of a batch.
    pub(in crate::gpu) fn host_can_fetch(&self, table: &Table<P>, rows: &GetRows) -> bool {
        let bytes = table.value.max_len();
        let fits = bytes.is_multiple_of(8) && bytes > 0 && rows.count > 0;
        let mirror = self.mirror.state().reflection();
        fits && rows.values.address().is_multiple_of(8) && mirror.is_some_and(|mirror| suits(&mirror, table))
    }

    /// Has everything ready for a batch whose values the host copies. `None` if the device is to fetch them.
    pub(in crate::gpu) fn ask_host<'r>(
        &'r self,
        table: &'r Table<P>,
        get: GetParams,
        place: &mut Workplace,
    ) -> Result<Option<Told<'r>>, TableError> {
        let mirror = self.mirror.join(self, table, For::Reading)?;
        let Some(mirror) = mirror.filter(|mirror| suits(mirror, table)) else { return Ok(None) };
        let get = GetParams { table: get.table.reflected(mirror.params()), ..get };
        let at_once = match self.hands.at_once.load(Ordering::Relaxed) {
            0 => most_at_once(table.value.max_len()),
            some => some,
        };
        let gathering = Gathering { engine: self, table, get, at_once };
        match gathering.take_memory(&mut place.columns) {
            Err(TableError::Device(error)) if error.is_out_of_memory() => {
                // There is no sense in trying again with every batch.
                self.fetch_values_by(ValuesBy::Device);
                Ok(None)
            }
            taken => taken.map(|()| Some((mirror, Box::new(gathering) as Box<dyn Left + 'r>))),
        }
    }
}

/// Whether the host can gather what a mirror points at. What is in a value cache, or to be counted for one, is for the device.
fn suits<P: Persist>(mirror: &Reflection, table: &Table<P>) -> bool {
    mirror.tells_keys_apart(table) && mirror.rows().is_none() && mirror.heat().is_none()
}

/// A batch whose values are gathered.
struct Gathering<'r, P: Persist> {
    engine: &'r DeviceEngine<P>,
    table: &'r Table<P>,
    get: GetParams,
    /// Keys of a launch, at the most.
    at_once: usize,
}

/// What a thread gathers: the rows of one block.
struct Share<'a> {
    /// Its number.
    block: usize,
    values: &'a mut [u64],
    /// Empty if nobody wants them.
    versions: &'a mut [u64],
    /// Bytes of a value.
    row: usize,
}

impl Sink for Share<'_> {
    #[inline(always)]
    fn wants_versions(&self) -> bool {
        !self.versions.is_empty()
    }

    #[inline(always)]
    fn found(
        &mut self,
        index: usize,
        version: u64,
        value: &[u8],
        copy: impl FnOnce(&[u8], &mut [u8]),
    ) -> bool {
        if value.len() != self.row {
            return false;
        }
        let values: &mut [u8] = bytemuck::cast_slice_mut(self.values);
        copy(value, &mut values[index * self.row..][..self.row]);
        if let Some(to) = self.versions.get_mut(index) {
            *to = version;
        }
        true
    }

    fn absent(&mut self, _: usize) {}
}

/// How the kernel is that the threads wait for.
struct Launched<'l> {
    state: AtomicU8,
    stream: &'l Stream,
}

/// It is not in the stream yet; it is; it never comes there.
const COMING: u8 = 0;
const UNDER_WAY: u8 = 1;
const MISSING: u8 = 2;

impl Launched<'_> {
    /// Puts it into the stream. Whatever comes of it, those who wait learn it.
    fn launch(&self, launch: impl FnOnce() -> Result<(), DeviceError>) -> Result<(), DeviceError> {
        struct Missing<'m>(&'m AtomicU8);
        impl Drop for Missing<'_> {
            fn drop(&mut self) {
                let _ = self.0.compare_exchange(COMING, MISSING, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
        let _missing = Missing(&self.state);
        launch()?;
        self.state.store(UNDER_WAY, Ordering::Release);
        Ok(())
    }

    /// Waits for the record of a key; `None` if it will not be told.
    #[inline(always)]
    fn record(&self, board: &Board<'_>, key: usize) -> Option<u64> {
        board.record(key).or_else(|| self.wait_for_record(board, key))
    }

    #[cold]
    #[inline(never)]
    fn wait_for_record(&self, board: &Board<'_>, key: usize) -> Option<u64> {
        let look = || board.record(key);
        let (mut looks, mut nap) = (LOOKS, NAPS.0);
        loop {
            for _ in 0..looks {
                if let Some(record) = look() {
                    return Some(record);
                }
                std::hint::spin_loop();
            }
            match self.state.load(Ordering::Acquire) {
                MISSING => return None,
                // Whatever the kernel has told has been told by then.
                UNDER_WAY if !matches!(self.stream.is_done(), Ok(false)) => return look(),
                _ => std::thread::sleep(nap),
            }
            (looks, nap) = (SOME_LOOKS, (2 * nap).min(NAPS.1));
        }
    }
}

impl<P: Persist> Gathering<'_, P> {
    fn count(&self) -> usize {
        self.get.count as usize
    }

    /// The keys of one launch, from `first` on.
    fn part(&self, first: usize) -> Self {
        let (first, get) = (first as u64, self.get);
        let versions = if get.versions.is_null() { get.versions } else { get.versions.offset(8 * first) };
        let get = GetParams {
            count: (get.count - first).min(self.at_once as u64),
            keys: get.keys.offset(8 * words(self.table.key_row()) as u64 * first),
            statuses: get.statuses.offset(first),
            versions,
            values: get.values.offset(8 * self.words() as u64 * first),
            ..get
        };
        Gathering { get, ..*self }
    }

    /// Words of a value.
    fn words(&self) -> usize {
        self.table.value.max_len() / 8
    }

    /// So many rows of versions.
    fn versions(&self) -> usize {
        if self.get.versions.is_null() { 0 } else { self.count() }
    }

    /// Has pinned memory for all of a launch.
    fn take_memory(&self, columns: &mut Columns) -> Result<(), TableError> {
        let (device, first) = (self.engine.device(), self.part(0));
        let count = first.count();
        // Fewer keys can be in more blocks.
        let last = self.part((self.count() - 1) / self.at_once * self.at_once);
        let blocks = spread(first.get.count).blocks.max(spread(last.get.count).blocks);
        Board::take_room(&mut columns.board, device, count, blocks as usize)?;
        columns.answers.host::<u64>(device, count * self.words())?;
        columns.versions.host::<u64>(device, first.versions())?;
        Ok(())
    }

    /// Whether a kernel runs beside whoever launches it. Otherwise only others could gather meanwhile.
    fn is_beside(&self) -> bool {
        matches!(self.engine.device().choice(), DeviceChoice::Cuda(_))
    }

    /// How often blocks look for their values.
    fn patience(&self, threads: usize) -> u64 {
        match self.is_beside() {
            true => (self.get.count / KEYS_A_LOOK).clamp(PATIENCE.0, PATIENCE.1),
            false if threads > 1 => PATIENCE_SIMULATED,
            false => 0,
        }
    }
}

impl<P: Persist> Left for Gathering<'_, P> {
    fn finish(
        self: Box<Self>,
        place: &mut Workplace,
        stream: &Stream,
        measured: Option<&Measured>,
    ) -> Result<(), TableError> {
        let pool = self.engine.hands.pool();
        for first in (0..self.count()).step_by(self.at_once) {
            let begins = measured.filter(|_| first == 0);
            let ends = measured.filter(|_| first + self.at_once >= self.count());
            self.part(first).gather(&pool, place, stream, (begins, ends))?;
        }
        self.engine.hands.batches.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl<P: Persist> Gathering<'_, P> {
    /// Gathers all of it in one launch, the first of a batch that is measured, or the last, or neither.
    fn gather(
        &self,
        pool: &Pool,
        place: &mut Workplace,
        stream: &Stream,
        (begins, ends): (Option<&Measured>, Option<&Measured>),
    ) -> Result<(), TableError> {
        let device = self.engine.device();
        let (count, value_words, row) = (self.count(), self.words(), 8 * self.words());
        let grid = spread(self.get.count);
        let share = grid.threads as usize;
        let Columns { board, answers, versions, .. } = &mut place.columns;
        let board = Board::new(board, count, self.engine.hands.launches.fetch_add(1, Ordering::Relaxed));
        let (tag, records, verdicts) = board.for_kernel();
        let wide = row as u64 | self.table.form.value_step() | self.get.values.address();
        let params = AskHostParams {
            get: self.get,
            tag,
            records,
            verdicts,
            values: answers.host_ptr(),
            versions: versions.host_ptr(),
            patience: self.patience(pool.threads()),
            pause: if count <= MANY { PAUSE } else { LONG_PAUSE },
            wide: u64::from(wide.is_multiple_of(16)),
        };
        let launched = Launched { state: AtomicU8::new(COMING), stream };
        let launch = || {
            launched.launch(|| {
                begins.map_or(Ok(()), |measured| measured.begin(stream))?;
                // SAFETY: the columns of the batch are the caller's promise; those of the place have the room, and are shared with the kernel as
                // it expects until the stream is synchronised below.
                unsafe { self.engine.kernels.ask_host.launch(grid, &params, stream)? };
                ends.map_or(Ok(()), |measured| measured.end(stream))
            })
        };
        let mut noted = versions.host::<u64>(device, self.versions())?.chunks_mut(share);
        let rows = answers.host::<u64>(device, count * value_words)?.chunks_mut(share * value_words);
        // A device begins while it is said who gathers what. The simulator is done with all of it when it has launched it.
        let begun = self.is_beside().then(launch);
        let shares: Vec<Share<'_>> = rows
            .enumerate()
            .map(|(block, values)| Share { block, values, versions: noted.next().unwrap_or_default(), row })
            .collect();
        let copying = Copying {
            table: self.table,
            // The device has compared keys where that is needed.
            exact: true,
            streamed: count * row >= self.engine.streamed_from.load(Ordering::Relaxed),
        };
        let gather = |mut mine: Share<'_>| {
            let (first, len) = (mine.block * share, mine.values.len() / value_words);
            let mut wanted = [0; THREADS as usize];
            for (key, to) in wanted[..len].iter_mut().enumerate() {
                let Some(record) = launched.record(&board, first + key) else { return };
                *to = record;
            }
            let came = copying.copy(&wanted[..len], |_| None, &mut mine);
            // Where there is no record where one should be, the device is to look itself.
            let is_right = came.found + came.absent == len as u64;
            board.say(mine.block, if is_right { GATHERED } else { DECLINED });
        };
        let under_way = pool.share_beside(shares, gather, || begun.unwrap_or_else(launch));
        // Whatever came of it, nothing is under way when this returns.
        let arrived = stream.synchronize();
        under_way?;
        Ok(arrived?)
    }
}
