//! The engine: one table's kernels, and whose turn it is.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use bytemuck::NoUninit;
use parking_lot::RwLock;
use warpkeep_core::Status;
use warpkeep_device::{Device, DevicePtr, Event, Grid, Stream, TypedKernel};
use warpkeep_image::Persist;

use super::batch::fill_keys;
use super::columns::Columns;
use super::image::DeviceImage;
use super::kernels::Kernels;
use super::mirror::{For, Lookup, Mirror, Reflection};
use super::params::{GetParams, TableParams};
use super::profile::DeviceProfile;
use super::program::constants_of;
use super::stage::words;
use super::staying::{Moving, Places, Staying};
use super::steps::Watch;
use super::straight::{LevelCopies, Straight, Supply};
use crate::{Table, TableError};

/// Threads of a block: a few warps, so that a multiprocessor has something to do while they wait. As many as kernels have room for who
/// look for equal keys in their block, and as `gphash_locate` is compiled for.
pub(super) const THREADS: u32 = 256;
/// Keys that are looked up by one launch where the answers go to the host, at least and at most: a quarter of a batch, so that the rest is
/// looked up while these are answered; but enough that reads in the order of their addresses are near each other.
const AT_ONCE: (usize, usize) = (1 << 17, 1 << 20);

/// Runs the batches of one table on a device.
pub struct DeviceEngine<P: Persist> {
    pub(crate) image: Arc<DeviceImage<P>>,
    pub(crate) kernels: Kernels,
    /// Whose turn it is to write.
    writing: Mutex<Workplace>,
    /// Readers' columns, one set for each that reads at the same time.
    pub(super) reading: Mutex<Vec<Workplace>>,
    /// Held by kernels that look for items; exclusively by whoever moves them.
    places_of_items: Places,
    /// The record of each key in device memory.
    pub(super) mirror: Mirror,
    profile: RwLock<DeviceProfile>,
    /// What batches written straight through need; for whoever has the turn.
    supply: Mutex<Supply<P>>,
    level_copies: Mutex<LevelCopies>,
    pub(super) straight: Straight,
}

/// A stream, and the columns of the batch in it.
pub(crate) struct Workplace {
    pub(crate) stream: Stream,
    pub(crate) columns: Columns,
    /// For what is in somebody else's stream before a batch begins.
    begun: Event,
}

impl Workplace {
    pub(super) fn new(device: &Device) -> Result<Workplace, TableError> {
        Ok(Workplace { stream: device.stream()?, columns: Columns::default(), begun: device.event()? })
    }

    /// Has what comes next in its stream wait for what is in another. If that is done there is nothing to wait for, and to see that takes less than to have it waited for.
    pub(crate) fn begin_after(&self, stream: &Stream) -> Result<(), TableError> {
        if stream.is_done()? {
            return Ok(());
        }
        self.begun.record(stream)?;
        Ok(self.stream.wait_for(&self.begun)?)
    }

    /// Runs a kernel with a thread for each of so many.
    ///
    /// # Safety
    /// What the parameters lead to stays until the stream is synchronised.
    pub(crate) unsafe fn launch<A: NoUninit>(
        &self,
        kernel: &TypedKernel<A>,
        count: u64,
        params: &A,
    ) -> Result<(), TableError> {
        // SAFETY: as this function's contract says.
        unsafe { kernel.launch(Grid::covering(count.max(1), THREADS), params, &self.stream)? };
        Ok(())
    }
}

/// The right to write to a table that a device works, with the device or with the CPU.
pub struct Turn<'e, P: Persist> {
    pub(crate) engine: &'e DeviceEngine<P>,
    pub(crate) place: MutexGuard<'e, Workplace>,
}

impl<P: Persist> DeviceEngine<P> {
    /// An engine for a table of the image.
    pub fn new(image: &Arc<DeviceImage<P>>, table: &Table<P>) -> Result<DeviceEngine<P>, TableError> {
        let constants =
            constants_of(table).ok_or(TableError::NotForDevices { key: table.key, value: table.value })?;
        let device = image.device();
        let kernels = Kernels::load(device, &constants)?;
        image.follow(table.heap())?;
        table.by_device.store(true, Ordering::Release);
        Ok(DeviceEngine {
            image: Arc::clone(image),
            kernels,
            writing: Mutex::new(Workplace::new(device)?),
            reading: Mutex::new(Vec::new()),
            places_of_items: Places::default(),
            mirror: Mirror::default(),
            profile: RwLock::new(DeviceProfile::of(device.info())?),
            supply: Mutex::new(Supply::new(&table.heap, table.pool, table.form)),
            level_copies: Mutex::default(),
            straight: Straight::default(),
        })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        self.image.device()
    }

    /// Whether it can write to the table, and not only read: keys and values have fixed lengths, or keys lie in cells. Whoever writes with the CPU instead has
    /// the [turn](DeviceEngine::turn).
    pub fn writes(&self, table: &Table<P>) -> bool {
        is_fixed(table)
    }

    /// Waits for the right to write.
    pub fn turn(&self) -> Turn<'_, P> {
        Turn { engine: self, place: self.writing.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// The right to write, if it is to be had at once.
    pub(super) fn try_turn(&self) -> Option<Turn<'_, P>> {
        let place = match self.writing.try_lock() {
            Ok(place) => place,
            Err(TryLockError::Poisoned(place)) => place.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Turn { engine: self, place })
    }

    /// The thresholds by which batches are done.
    pub fn profile(&self) -> DeviceProfile {
        *self.profile.read()
    }

    /// Changes them, for batches that begin from now on.
    pub fn adjust(&self, change: impl FnOnce(&mut DeviceProfile)) {
        change(&mut self.profile.write());
    }

    pub(super) fn supply(&self) -> MutexGuard<'_, Supply<P>> {
        self.supply.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn level_copies(&self) -> MutexGuard<'_, LevelCopies> {
        self.level_copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps items where they are, for kernels that look for them.
    ///
    /// To be called before the epoch is pinned: whoever moves items waits for epochs to pass while others wait here.
    pub(crate) fn stay(&self) -> Staying<'_> {
        self.places_of_items.stay()
    }

    /// Keeps kernels that look for items away while they are moved.
    pub fn moving(&self) -> Moving<'_> {
        self.places_of_items.moving()
    }

    /// The table as it is, for a kernel that looks for items. The caller keeps items where they are.
    pub(super) fn table_params(
        &self,
        table: &Table<P>,
        guard: &crossbeam_epoch::Guard,
    ) -> Result<TableParams, TableError> {
        Ok(TableParams::new(table, table.levels(guard), self.image.cover()?))
    }

    /// Puts what answers a batch of gets into a stream; gives the mirror that it looks at, to be kept until it is done. `beside_others` says that
    /// other kernels want the link meanwhile, which are waited for sooner.
    ///
    /// # Safety
    /// The columns of the batch are as long as kernels take them to be. They, `scratch`, and the table's items and records stay as they
    /// are until the stream is synchronised.
    pub(super) unsafe fn launch_gets(
        &self,
        table: &Table<P>,
        get: GetParams,
        scratch: &mut Columns,
        stream: &Stream,
        beside_others: bool,
        watch: &mut Watch<'_>,
    ) -> Result<Option<Reflection>, TableError> {
        let mirror = self.mirror.join(self, table, For::Reading)?;
        let Some(reflection) = &mirror else {
            let grid = Grid::covering(get.count.max(1), THREADS);
            // SAFETY: as this function's contract says.
            watch.device("get", self.device(), stream, || unsafe {
                Ok(self.kernels.read()?.get.launch(grid, &get, stream)?)
            })?;
            return Ok(None);
        };
        let lookup = Lookup {
            get,
            mirror: reflection,
            row: 8 * table.value.max_len().div_ceil(8) as u64,
            apart: table.form.value_step(),
            image_len: table.image().len(),
            strategy: self.profile().gets(get.count as usize, !get.values.is_null()),
            beside_others,
        };
        // SAFETY: the same; and the caller keeps the mirror.
        unsafe { lookup.launch(self.device(), &self.kernels, scratch, stream, watch)? };
        Ok(mirror)
    }

    /// Looks many keys up. Each answer, in order, goes to `each`, while the device looks for the next.
    pub fn get_many<'k>(
        &self,
        table: &Table<P>,
        keys: impl ExactSizeIterator<Item = &'k [u8]>,
        mut each: impl FnMut(usize, Option<(u64, &[u8])>),
    ) -> Result<(), TableError> {
        let keys: Vec<&[u8]> = keys.collect();
        keys.iter().try_for_each(|key| table.key.check(key))?;
        if !is_fixed(table) {
            return self.get_variable(table, &keys, each);
        }
        let at_once = (keys.len() / 4).clamp(AT_ONCE.0, AT_ONCE.1);
        let chunks: Vec<&[&[u8]]> = keys.chunks(at_once).collect();
        let mut places = Vec::new();
        while places.len() < chunks.len().min(2) {
            places.push(self.take_place()?);
        }
        let staying = self.stay();
        // What kernels find stays while the epoch is pinned.
        let guard = &table.heap.pin();
        // Mirrors that kernels look at.
        let mut mirrors = [None, None];
        let mut work = || {
            // One chunk is answered while the next is under way, in the other place.
            for number in 0..chunks.len() + places.len() {
                let which = number % places.len();
                if let Some(answered) = number.checked_sub(places.len()) {
                    let first = answered * at_once;
                    answer(table, &places[which], chunks[answered].len(), |index, found| {
                        each(first + index, found);
                    })?;
                }
                if let Some(keys) = chunks.get(number) {
                    mirrors[which] = self.ask(table, &mut places[which], keys, guard)?;
                }
            }
            Ok(())
        };
        let done = work();
        self.leave_places(places, (staying, mirrors), done)
    }

    /// Keeps the places of a batch for others, and lets go of what its kernels needed. Whatever came of it, nothing uses the places by then, nor
    /// the items when they may move.
    pub(super) fn leave_places<H>(
        &self,
        places: impl IntoIterator<Item = Workplace>,
        held: H,
        done: Result<(), TableError>,
    ) -> Result<(), TableError> {
        let places: Vec<Workplace> = places.into_iter().collect();
        let idle: Vec<_> = places.iter().map(|place| place.stream.synchronize()).collect();
        drop(held);
        places.into_iter().for_each(|place| self.keep_place(place));
        done.and(idle.into_iter().collect::<Result<(), _>>().map_err(TableError::from))
    }

    /// A place for a reader.
    pub(super) fn take_place(&self) -> Result<Workplace, TableError> {
        let kept = self.reading.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.map_or_else(|| Workplace::new(self.device()), Ok)
    }

    /// Keeps it for another. Nothing uses its columns any more.
    pub(super) fn keep_place(&self, place: Workplace) {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner).push(place);
    }

    /// Begins to look keys up; gives the mirror that is to be kept until that is done.
    fn ask(
        &self,
        table: &Table<P>,
        place: &mut Workplace,
        keys: &[&[u8]],
        guard: &crossbeam_epoch::Guard,
    ) -> Result<Option<Reflection>, TableError> {
        let (count, key_words) = (keys.len(), words(table.key_row()));
        fill_keys(table, keys, place.columns.keys.host(self.device(), count * key_words)?);
        let Workplace { columns, stream, .. } = place;
        // SAFETY: the stream is synchronised before the columns are used again.
        let keys = unsafe { columns.keys.send::<u64>(self.device(), count * key_words, stream)? };
        let asked = Asked { count, keys, wants_versions: true, values: None };
        // SAFETY: so many have just been sent, and values go to the place.
        unsafe { self.ask_sent(table, place, asked, guard) }
    }

    /// The same, for keys that are on their way to the device.
    ///
    /// # Safety
    /// There are so many keys, in the stream of the place; and room for as many values, which nobody else uses until the stream is synchronised.
    pub(super) unsafe fn ask_sent(
        &self,
        table: &Table<P>,
        place: &mut Workplace,
        asked: Asked,
        guard: &crossbeam_epoch::Guard,
    ) -> Result<Option<Reflection>, TableError> {
        let Asked { count, keys, wants_versions, values } = asked;
        let (device, columns) = (self.device(), &mut place.columns);
        let value_words = words(table.value.max_len());
        let params = GetParams {
            table: self.table_params(table, guard)?,
            count: count as u64,
            keys,
            statuses: columns.statuses.room(device, count)?,
            versions: match wants_versions {
                true => columns.versions.room(device, 8 * count)?,
                false => DevicePtr::NULL,
            },
            values: match values {
                Some(values) => values,
                None => columns.answers.room(device, 8 * count * value_words)?,
            },
        };
        // SAFETY: the columns are as long as the kernels take them to be, and are not touched until the stream is synchronised; the rest is the caller's promise.
        unsafe {
            // Parts of a batch are under way beside each other, and are not steps of it.
            let mut watch = self.straight.steps.look_away();
            let mirror =
                self.launch_gets(table, params, columns, &place.stream, values.is_some(), &mut watch)?;
            let (columns, stream) = (&mut place.columns, &place.stream);
            columns.statuses.fetch::<u8>(device, count, stream)?;
            if wants_versions {
                columns.versions.fetch::<u64>(device, count, stream)?;
            }
            if values.is_none() {
                columns.answers.fetch::<u64>(device, count * value_words, stream)?;
            }
            Ok(mirror)
        }
    }
}

/// Keys on a device, and what is wanted of them.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) count: usize,
    pub(super) keys: DevicePtr,
    pub(super) wants_versions: bool,
    /// Where their values go, in rows of whole words; `None` for the place they are asked from, and its host's side.
    pub(super) values: Option<DevicePtr>,
}

/// Operations of a batch in device memory, at the most: kernels number them with 32 bits.
pub(super) const MOST_OPERATIONS: u64 = 1 << 31;

/// An error if a batch has more operations than kernels can number.
pub(super) fn check_count(count: u64) -> Result<(), TableError> {
    match count <= MOST_OPERATIONS {
        true => Ok(()),
        false => Err(TableError::BatchTooLarge { count, most: MOST_OPERATIONS }),
    }
}

/// An error if values of a table have any length, or keys have and lie in no cells.
pub(super) fn check_fixed<P: Persist>(table: &Table<P>) -> Result<(), TableError> {
    let error = || TableError::NotForDevices { key: table.key, value: table.value };
    is_fixed(table).then_some(()).ok_or_else(error)
}

fn is_fixed<P: Persist>(table: &Table<P>) -> bool {
    table.key_row_len().is_some() && table.value.fixed_len().is_some()
}

/// Waits for keys that were asked for, and answers them.
fn answer<P: Persist>(
    table: &Table<P>,
    place: &Workplace,
    count: usize,
    mut each: impl FnMut(usize, Option<(u64, &[u8])>),
) -> Result<(), TableError> {
    place.stream.synchronize()?;
    let (value_len, row) = (table.value.max_len(), 8 * words(table.value.max_len()));
    let statuses: &[u8] = place.columns.statuses.fetched(count);
    let versions: &[u64] = place.columns.versions.fetched(count);
    let values: &[u8] = bytemuck::cast_slice(place.columns.answers.fetched::<u64>(count * row / 8));
    for (index, (&status, &version)) in statuses.iter().zip(versions).enumerate() {
        let value = &values[row * index..][..value_len];
        each(index, (status == Status::Ok as u8).then_some((version, value)));
    }
    Ok(())
}
