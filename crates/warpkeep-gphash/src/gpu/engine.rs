//! The engine: one table's kernels, and whose turn it is.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use bytemuck::NoUninit;
use warpkeep_core::Status;
use warpkeep_device::{Device, DevicePtr, Event, Grid, Kernel, Module, Stream};
use warpkeep_image::Persist;

use super::batch::fill_keys;
use super::cache::Cache;
use super::columns::Columns;
use super::hosts::{Balance, Hands};
use super::image::DeviceImage;
use super::mirror::{For, Lookup, Mirror, Reflection};
use super::order::{Order, ValuesBy};
use super::params::{GetParams, TableParams};
use super::program::program_of;
use super::stage::words;
use super::staying::{Moving, Places, Staying};
use super::steps::Watch;
use super::straight::{LevelCopies, Straight, Supply};
use crate::{Table, TableError};

/// Threads of a block: a few warps, so that a multiprocessor has something to do while they wait. As many as kernels have room for who
/// look for equal keys in their block, and as `gphash_locate` is compiled for.
pub(super) const THREADS: u32 = 256;
/// Batches of gets to this size take one launch: what they save is more than what the larger kernel costs.
const FEW_TO: usize = 1 << 15;
/// Batches of gets to this size are dealt to multiprocessors where larger ones would be put in order.
const DEAL_TO: usize = 1 << 14;
/// So many records of a batch are so close to each other that it makes no difference which multiprocessor fetches which, and where everybody wants the same none has to
/// help another.
const EVERYWHERE_FROM: u64 = 1 << 20;
/// Keys that are looked up by one launch where the answers go to the host, at least and at most: a quarter of a batch, so that the rest is
/// looked up while these are answered; but enough that reads in the order of their addresses are near each other.
const AT_ONCE: (usize, usize) = (1 << 17, 1 << 20);

/// Bytes of values from which on those that the host copies go past its caches: what is larger than these would drive out what others have
/// there, and every line of it would be read before it is overwritten.
const STREAMED_FROM: usize = 32 << 20;

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
    /// Copies of buckets in device memory.
    pub(super) cache: Cache,
    /// The record of each key in device memory.
    pub(super) mirror: Mirror,
    pub(super) order: Order,
    few_to: AtomicUsize,
    deal_to: AtomicUsize,
    everywhere_from: AtomicU64,
    pub(super) streamed_from: AtomicUsize,
    /// Threads of the host that copy values for batches in device memory.
    pub(super) hands: Hands,
    /// How much of a batch it takes that the host answers with it.
    pub(super) balance: Balance,
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
    /// The parameters are those of the kernel, and what they lead to stays until the stream is synchronised.
    pub(crate) unsafe fn launch<A: NoUninit>(
        &self,
        kernel: &Kernel,
        count: u64,
        params: &A,
    ) -> Result<(), TableError> {
        // SAFETY: as this function's contract says.
        unsafe { kernel.launch(Grid::covering(count.max(1), THREADS), params, &self.stream)? };
        Ok(())
    }
}

pub(crate) struct Kernels {
    pub(crate) get: Kernel,
    pub(crate) plan: Kernel,
    pub(crate) get_alone: Kernel,
    pub(crate) stage: Kernel,
    pub(crate) publish: Kernel,
    pub(crate) abandon: Kernel,
    pub(crate) spread: Kernel,
    pub(crate) pack: Kernel,
    pub(crate) measure: Kernel,
    pub(crate) copy: Kernel,
    pub(crate) drain: Kernel,
    pub(crate) repair: Kernel,
    pub(crate) cache_load: Kernel,
    pub(crate) cache_refresh: Kernel,
    pub(crate) cache_age: Kernel,
    pub(crate) lookup: Kernel,
    pub(crate) locate: Kernel,
    pub(crate) line_up: Kernel,
    pub(crate) order: Kernel,
    pub(crate) fetch: Kernel,
    pub(crate) ask: Kernel,
    pub(crate) collect: Kernel,
    pub(crate) few: Kernel,
    pub(crate) deal: Kernel,
    pub(crate) point: Kernel,
    pub(crate) ask_host: Kernel,
    pub(crate) reflect: Kernel,
    pub(crate) census: Kernel,
    pub(crate) rehash: Kernel,
    pub(crate) tell: Kernel,
    pub(crate) recopy: Kernel,
    pub(crate) enrol: Kernel,
    pub(crate) digest: Kernel,
    pub(crate) decide: Kernel,
    pub(crate) finish: Kernel,
    pub(crate) arrange: Kernel,
    pub(crate) beat: Kernel,
    pub(crate) send: Kernel,
    pub(crate) veil: Kernel,
    pub(crate) settle: Kernel,
    pub(crate) suspect: Kernel,
    pub(crate) queue: Kernel,
    pub(crate) verify: Kernel,
    pub(crate) spell: Kernel,
    pub(crate) sort_count: Kernel,
    pub(crate) sort: Kernel,
    pub(crate) values_warm: Kernel,
    pub(crate) values_weigh: Kernel,
    pub(crate) values_release: Kernel,
    pub(crate) values_hold: Kernel,
    pub(crate) values_spare: Kernel,
    pub(crate) values_choose: Kernel,
    pub(crate) values_order: Kernel,
    pub(crate) values_fill: Kernel,
    pub(crate) values_follow: Kernel,
    /// Blocks of these that the device runs at once: more of them would only come and go.
    pub(crate) ordering: u32,
    pub(crate) fetching: u32,
}

impl Kernels {
    fn of(module: &Module) -> Result<Kernels, TableError> {
        let kernel = |name| module.kernel(name);
        let (order, fetch) = (kernel("gphash_order")?, kernel("gphash_fetch")?);
        let resident = |kernel: &Kernel| kernel.resident_blocks(THREADS, 0).map(|blocks| blocks.max(1));
        Ok(Kernels {
            ordering: resident(&order)?,
            fetching: resident(&fetch)?,
            get: kernel("gphash_get")?,
            plan: kernel("gphash_plan")?,
            get_alone: kernel("gphash_get_alone")?,
            stage: kernel("gphash_stage")?,
            publish: kernel("gphash_publish")?,
            abandon: kernel("gphash_abandon")?,
            spread: kernel("gphash_spread")?,
            pack: kernel("gphash_pack")?,
            measure: kernel("gphash_measure")?,
            copy: kernel("gphash_copy")?,
            drain: kernel("gphash_drain")?,
            repair: kernel("gphash_repair")?,
            cache_load: kernel("gphash_cache_load")?,
            cache_refresh: kernel("gphash_cache_refresh")?,
            cache_age: kernel("gphash_cache_age")?,
            lookup: kernel("gphash_lookup")?,
            locate: kernel("gphash_locate")?,
            line_up: kernel("gphash_line_up")?,
            order,
            fetch,
            ask: kernel("gphash_ask")?,
            collect: kernel("gphash_collect")?,
            few: kernel("gphash_few")?,
            deal: kernel("gphash_deal")?,
            point: kernel("gphash_point")?,
            ask_host: kernel("gphash_ask_host")?,
            reflect: kernel("gphash_reflect")?,
            census: kernel("gphash_census")?,
            rehash: kernel("gphash_rehash")?,
            tell: kernel("gphash_tell")?,
            recopy: kernel("gphash_recopy")?,
            enrol: kernel("gphash_enrol")?,
            digest: kernel("gphash_digest")?,
            decide: kernel("gphash_decide")?,
            finish: kernel("gphash_finish")?,
            arrange: kernel("gphash_arrange")?,
            beat: kernel("gphash_beat")?,
            send: kernel("gphash_send")?,
            veil: kernel("gphash_veil")?,
            settle: kernel("gphash_settle")?,
            suspect: kernel("gphash_suspect")?,
            queue: kernel("gphash_queue")?,
            verify: kernel("gphash_verify")?,
            spell: kernel("gphash_spell")?,
            sort_count: kernel("gphash_sort_count")?,
            sort: kernel("gphash_sort")?,
            values_warm: kernel("gphash_values_warm")?,
            values_weigh: kernel("gphash_values_weigh")?,
            values_release: kernel("gphash_values_release")?,
            values_hold: kernel("gphash_values_hold")?,
            values_spare: kernel("gphash_values_spare")?,
            values_choose: kernel("gphash_values_choose")?,
            values_order: kernel("gphash_values_order")?,
            values_fill: kernel("gphash_values_fill")?,
            values_follow: kernel("gphash_values_follow")?,
        })
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
        let program =
            program_of(table).ok_or(TableError::NotForDevices { key: table.key, value: table.value })?;
        let device = image.device();
        let kernels = Kernels::of(&device.load(&program)?)?;
        image.follow(table.heap())?;
        table.by_device.store(true, Ordering::Release);
        Ok(DeviceEngine {
            image: Arc::clone(image),
            kernels,
            writing: Mutex::new(Workplace::new(device)?),
            reading: Mutex::new(Vec::new()),
            places_of_items: Places::default(),
            cache: Cache::default(),
            mirror: Mirror::default(),
            order: Order::on(device),
            few_to: AtomicUsize::new(FEW_TO),
            deal_to: AtomicUsize::new(DEAL_TO),
            everywhere_from: AtomicU64::new(EVERYWHERE_FROM),
            streamed_from: AtomicUsize::new(STREAMED_FROM),
            hands: Hands::default(),
            balance: Balance::default(),
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

    /// Has batches of gets of so many keys or more fetch values in the order of their addresses: over the link that is ten times as
    /// fast, and takes a few kernels more. If nothing is said, it is measured as batches come. Only with a
    /// [mirror](DeviceEngine::load_mirror).
    pub fn order_from(&self, keys: usize) {
        self.order.set_from(keys);
    }

    /// Has it measured again from which size on that pays, whatever was [said](Self::order_from).
    pub fn measure_order(&self) {
        self.order.measure();
    }

    /// From how many keys on batches of gets are put in order now.
    pub fn ordered_from(&self) -> usize {
        self.order.from()
    }

    /// Has batches of gets of so many keys or fewer take one launch instead of two, unless their values are fetched in order: what the
    /// mirror cannot tell is asked for at once. Only with a [mirror](DeviceEngine::load_mirror).
    pub fn one_launch_to(&self, keys: usize) {
        self.few_to.store(keys, Ordering::Relaxed);
    }

    /// Has batches of gets of so many keys or fewer, a million at the most, that would be put in order be dealt instead: what is found goes at once to the
    /// multiprocessor that reads that piece of the image, in whatever order. One launch does what takes four for large ones. 0 for none.
    pub fn deal_to(&self, keys: usize) {
        self.deal_to.store(keys.min(1 << 20), Ordering::Relaxed);
    }

    /// Has batches of gets that are put in order, and of which so many records or more are to be fetched, fetched by all multiprocessors in that order, wherever they lie; of
    /// smaller ones each multiprocessor fetches those in its own pieces of the image.
    pub fn fetch_everywhere_from(&self, records: u64) {
        self.everywhere_from.store(records, Ordering::Relaxed);
    }

    /// Has batches whose values take so many bytes or more, and are [gathered](DeviceEngine::gather_rows) by the host, or
    /// [fetched](DeviceEngine::fetch_rows) for it, written past its caches.
    pub fn stream_values_from(&self, bytes: usize) {
        self.streamed_from.store(bytes, Ordering::Relaxed);
    }

    /// Has the values of batches of gets whose keys and answers lie in device memory fetched by the device, by the cores of the host, or by
    /// whichever is faster, as batches come. If nothing is said the device fetches them. See [`ValuesBy`].
    pub fn fetch_values_by(&self, by: ValuesBy) {
        self.order.set_by(by);
    }

    /// Has the device take this share of the keys of batches that it and the host [answer together](DeviceEngine::share_rows), from 0 to 1. If nothing is said, it is
    /// measured such that both are done at the same time.
    pub fn take_share(&self, share: Option<f64>) {
        self.balance.set(share);
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

    /// The table, with the copies of its buckets, for a kernel that looks for the items of so many keys. The caller keeps items where
    /// they are.
    pub(super) fn table_params(
        &self,
        table: &Table<P>,
        guard: &crossbeam_epoch::Guard,
        operations: usize,
        purpose: For,
    ) -> Result<TableParams, TableError> {
        let params = TableParams::new(table, table.levels(guard), self.image.cover()?);
        self.cache.join(self.device(), &self.kernels, table, params, operations, purpose)
    }

    /// Puts what answers a batch of gets into a stream; gives the mirror that it looks at, to be kept until it is done.
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
        fetch: Fetch,
        watch: &mut Watch<'_>,
    ) -> Result<Option<Reflection>, TableError> {
        let mirror = self.mirror.join(self, table, For::Reading)?;
        let Some(reflection) = &mirror else {
            let grid = Grid::covering(get.count.max(1), THREADS);
            // SAFETY: as this function's contract says.
            watch.device("get", self.device(), stream, || unsafe {
                Ok(self.kernels.get.launch(grid, &get, stream)?)
            })?;
            return Ok(None);
        };
        let lookup = Lookup {
            get,
            mirror: reflection,
            row: 8 * table.value.max_len().div_ceil(8) as u64,
            apart: table.form.value_step(),
            image_len: table.image().len(),
            ordered: fetch.ordered,
            beside_others: fetch.beside_others,
            few: get.count as usize <= self.few_to.load(Ordering::Relaxed),
            dealt: get.count as usize <= self.deal_to.load(Ordering::Relaxed),
            at_home_below: self.everywhere_from.load(Ordering::Relaxed),
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
        let guard = &crossbeam_epoch::pin();
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
        self.ask_filled(table, place, count, true, guard)
    }

    /// The same, for keys that are on the host's side of the place already.
    pub(super) fn ask_filled(
        &self,
        table: &Table<P>,
        place: &mut Workplace,
        count: usize,
        wants_versions: bool,
        guard: &crossbeam_epoch::Guard,
    ) -> Result<Option<Reflection>, TableError> {
        let key_words = words(table.key_row());
        let Workplace { columns, stream, .. } = place;
        // SAFETY: the stream is synchronised before the columns are used again.
        let keys = unsafe { columns.keys.send::<u64>(self.device(), count * key_words, stream)? };
        let asked = Asked { count, keys, wants_versions, values: None };
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
            table: self.table_params(table, guard, count, For::Reading)?,
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
        let fetch = Fetch { ordered: self.order.usual(count), beside_others: values.is_some() };
        // SAFETY: the columns are as long as the kernels take them to be, and are not touched until the stream is synchronised; the rest is the caller's promise.
        unsafe {
            // Parts of a batch are under way beside each other, and are not steps of it.
            let mut watch = self.straight.steps.look_away();
            let mirror = self.launch_gets(table, params, columns, &place.stream, fetch, &mut watch)?;
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

/// How kernels fetch values.
#[derive(Clone, Copy)]
pub(super) struct Fetch {
    /// In the order of their addresses.
    pub(super) ordered: bool,
    /// While other kernels want to run, which are waited for sooner.
    pub(super) beside_others: bool,
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
