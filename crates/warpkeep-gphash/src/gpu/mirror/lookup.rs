//! Batches of gets through a mirror.

use std::ops::Range;

use warpkeep_device::{Device, DevicePtr, Grid, Kernel, Stream};

use super::state::Reflection;
use crate::TableError;
use crate::gpu::columns::Columns;
use crate::gpu::engine::{Kernels, THREADS};
use crate::gpu::params::{GetParams, LookupParams, WarmParams};
use crate::gpu::regions::{Division, Regions};
use crate::gpu::steps::Watch;

/// Warps that ask the image for what the mirror could not tell: rarely any of them has anything to do.
const ASKING_BLOCKS: u32 = 66;

/// Blocks that a small batch is to have: about as many as a large device has multiprocessors, each with its own way to memory.
const SPREAD_OVER: u64 = 128;

/// A thread for each of so many, in blocks so small that many multiprocessors have one.
pub(crate) fn spread(count: u64) -> Grid {
    let threads = (count / SPREAD_OVER).next_power_of_two().clamp(32, u64::from(THREADS)) as u32;
    Grid::covering(count.max(1), threads)
}

/// Blocks that fetch the first values of a batch, while others locate the rest of it: the link is busy with far fewer than a device has room for.
const EARLY_BLOCKS: u32 = 32;
/// Where the counts of a part begin, in bytes, is a multiple of this.
const PART_ALIGN: usize = 64;

/// In which order the values of a batch are fetched.
#[derive(Clone, Copy)]
pub(crate) enum Sequence<'s> {
    /// As they come.
    AsTheyCome,
    /// In the order of their addresses.
    Ordered,
    /// The same, in two parts: so many of the keys first, whose values cross the link while the others are located, in a stream that nobody else uses.
    OrderedInTwo(u64, &'s Stream),
}

/// A batch that is to be looked up.
pub(crate) struct Lookup<'l> {
    pub(crate) get: GetParams,
    /// Its keys' records; held until the kernels are done.
    pub(crate) mirror: &'l Reflection,
    /// Bytes of a key's row, and of a value's.
    pub(crate) key_row: u64,
    pub(crate) row: u64,
    /// Bytes of a record's block: as records follow each other, they are aligned to what divides it.
    pub(crate) block: u64,
    /// Bytes of the image.
    pub(crate) image_len: u64,
    pub(crate) sequence: Sequence<'l>,
    /// As they come: whether one launch does all of it.
    pub(crate) few: bool,
    /// Then: how many keys each block puts in order; 0 if none.
    pub(crate) few_ordered: u64,
}

impl Lookup<'_> {
    /// Puts the kernels into a stream.
    ///
    /// # Safety
    /// The columns of the batch are as long as the kernels take them to be. They and `scratch` stay, and nobody else uses them, until
    /// the stream is synchronised; so does the mirror, and the records of the table.
    pub(crate) unsafe fn launch(
        &self,
        device: &Device,
        kernels: &Kernels,
        scratch: &mut Columns,
        stream: &Stream,
        watch: &mut Watch<'_>,
    ) -> Result<(), TableError> {
        let mut get = self.get;
        get.table = get.table.reflected(self.mirror.params());
        let ordered = !matches!(self.sequence, Sequence::AsTheyCome) && !get.values.is_null();
        let mut params = LookupParams {
            get,
            asked: DevicePtr::NULL,
            asks: DevicePtr::NULL,
            located: DevicePtr::NULL,
            regions: Regions::NONE,
            fetchings: DevicePtr::NULL,
            wide: u64::from((self.row | self.block | get.values.address()).is_multiple_of(16)),
        };
        let each = Grid::covering(get.count.max(1), THREADS);
        if let Some(heat) = self.mirror.heat().filter(|_| !get.values.is_null()) {
            let warm = WarmParams { table: get.table, count: get.count, keys: get.keys, heat: heat.ptr() };
            heat.count(get.count);
            // SAFETY: the caller's promise; the heat is as long as the mirror, which keeps it.
            watch.device("warm", device, stream, || unsafe {
                Ok(kernels.values_warm.launch(each, &warm, stream)?)
            })?;
        }
        if self.few && !ordered {
            let (kernel, grid) = match self.few_ordered {
                0 => (&kernels.few, spread(get.count)),
                each => {
                    let threads = (each as u32).min(THREADS);
                    let blocks = get.count.div_ceil(each).max(1) as u32;
                    (&kernels.few_ordered, Grid { blocks, threads, shared_bytes: 0 })
                }
            };
            // SAFETY: the caller's promise.
            return watch
                .device("few", device, stream, || unsafe { Ok(kernel.launch(grid, &params, stream)?) });
        }
        if ordered {
            // SAFETY: the caller's promise.
            return unsafe { self.launch_ordered(params, device, kernels, scratch, stream, watch) };
        }
        watch.device("clearing", device, stream, || {
            params.asked = scratch.asked.zeros(device, 8, stream)?;
            Ok(())
        })?;
        params.asks = scratch.asks.room(device, 4 * get.count as usize)?;
        let (step, kernel) = match get.values.is_null() {
            true => ("locate", &kernels.locate),
            false => ("lookup", &kernels.lookup),
        };
        let mut put = Put { device, kernels, watch };
        // SAFETY: the caller's promise; the scratch is as long as the kernels take it to be.
        unsafe {
            put.launch(step, kernel, each, &params, stream)?;
            put.ask(&params, stream)
        }
    }

    /// The same for a batch whose values are fetched in the order of their addresses.
    ///
    /// # Safety
    /// As [`Lookup::launch`].
    unsafe fn launch_ordered(
        &self,
        params: LookupParams,
        device: &Device,
        kernels: &Kernels,
        scratch: &mut Columns,
        stream: &Stream,
        watch: &mut Watch<'_>,
    ) -> Result<(), TableError> {
        let count = params.get.count;
        let early = match self.sequence {
            Sequence::OrderedInTwo(first, beside) if 0 < first && first < count => Some((first, beside)),
            _ => None,
        };
        // All of it counts as the rest where nothing comes first.
        let first = early.map_or(0, |(first, _)| first);
        let divided = |keys: u64| Division::of(self.image_len, keys);
        let [of_first, of_rest] = [divided(first), divided(count - first)];
        let begin = match first {
            0 => 0,
            _ => of_first.bytes().next_multiple_of(PART_ALIGN),
        };
        let mut lists = Lists { counts: DevicePtr::NULL, ..Lists::room(device, scratch, count as usize)? };
        watch.device("clearing", device, stream, || {
            lists.counts = scratch.regions.zeros(device, begin + of_rest.bytes(), stream)?;
            Ok(())
        })?;
        let rest = self.part(&params, &lists, first..count, (begin, of_rest));
        let mut put = Put { device, kernels, watch };
        let Some((_, beside)) = early else {
            // SAFETY: the caller's promise; the scratch is as long as the kernels take it to be.
            return unsafe {
                put.order(&rest, stream)?;
                put.fetch(&rest, kernels.fetching, stream)?;
                put.ask(&rest, stream)
            };
        };
        let early = self.part(&params, &lists, 0..first, (0, of_first));
        let (ordered, done) = (device.event()?, device.event()?);
        let mut launch = || {
            // SAFETY: the caller's promise; the scratch is as long as the kernels take it to be, and each part has its own of it.
            unsafe {
                put.order(&early, stream)?;
                ordered.record(stream)?;
                beside.wait_for(&ordered)?;
                // It gets the few multiprocessors that it needs before others take all of them.
                put.fetch(&early, EARLY_BLOCKS.min(kernels.fetching), stream)?;
                put.ask(&early, stream)?;
                put.order(&rest, beside)?;
                put.fetch(&rest, kernels.fetching, beside)?;
                put.ask(&rest, beside)?;
            }
            done.record(beside)?;
            stream.wait_for(&done)?;
            Ok(())
        };
        let launched = launch();
        if launched.is_err() {
            // Nothing in the caller's stream waits for it. An error of its own is that of the device, and told by whoever uses it next.
            let _ = beside.synchronize();
        }
        launched
    }

    /// Some keys of the batch, with their share of the lists, and counts that begin so many bytes behind theirs.
    fn part(
        &self,
        params: &LookupParams,
        lists: &Lists,
        keys: Range<u64>,
        (counts, division): (usize, Division),
    ) -> LookupParams {
        let first = keys.start;
        let behind = |at: DevicePtr, bytes: u64| if at.is_null() { at } else { at.offset(first * bytes) };
        let head = lists.counts.offset(counts as u64);
        let get = &params.get;
        LookupParams {
            get: GetParams {
                count: keys.end - first,
                keys: behind(get.keys, self.key_row),
                statuses: behind(get.statuses, 1),
                versions: behind(get.versions, 8),
                values: behind(get.values, self.row),
                ..*get
            },
            // One look for zeros is enough: before the counts of regions there is room for that of what is asked for.
            asked: head,
            asks: behind(lists.asks, 4),
            located: behind(lists.located, 16),
            regions: division.at(head),
            fetchings: behind(lists.fetchings, 16),
            wide: params.wide,
        }
    }
}

/// What a batch that is put in order needs beside its columns.
struct Lists {
    counts: DevicePtr,
    asks: DevicePtr,
    located: DevicePtr,
    fetchings: DevicePtr,
}

impl Lists {
    /// For so many keys, but for the counts.
    fn room(device: &Device, scratch: &mut Columns, count: usize) -> Result<Lists, TableError> {
        Ok(Lists {
            counts: DevicePtr::NULL,
            asks: scratch.asks.room(device, 4 * count)?,
            located: scratch.records.room(device, 16 * count)?,
            fetchings: scratch.fetchings.room(device, 16 * count)?,
        })
    }
}

/// Puts kernels into streams, and has them watched.
struct Put<'p, 'w> {
    device: &'p Device,
    kernels: &'p Kernels,
    watch: &'p mut Watch<'w>,
}

/// # Safety
/// Of all of these: what the parameters lead to is as long as the kernels take it to be, and stays until the stream is synchronised.
impl Put<'_, '_> {
    unsafe fn launch(
        &mut self,
        step: &'static str,
        kernel: &Kernel,
        grid: Grid,
        params: &LookupParams,
        stream: &Stream,
    ) -> Result<(), TableError> {
        // SAFETY: the caller's promise.
        self.watch.device(step, self.device, stream, || unsafe { Ok(kernel.launch(grid, params, stream)?) })
    }

    /// Finds records, and puts them in order.
    unsafe fn order(&mut self, part: &LookupParams, stream: &Stream) -> Result<(), TableError> {
        let (kernels, each) = (self.kernels, Grid::covering(part.get.count.max(1), THREADS));
        // They find out on the device how much there is to do, and go on from one place to the next: of more blocks than there is
        // room for at once, those of a batch that finds nothing would be started one after the other, only to end.
        let some = Grid { blocks: each.blocks.min(kernels.ordering), ..each };
        // SAFETY: the caller's promise.
        unsafe {
            self.launch("locate", &kernels.locate, each, part, stream)?;
            self.watch
                .device("line up", self.device, stream, || part.regions.line_up(&kernels.line_up, stream))?;
            self.launch("order", &kernels.order, some, part, stream)
        }
    }

    /// Fetches the values of what is in order, with so many blocks at the most.
    unsafe fn fetch(&mut self, part: &LookupParams, most: u32, stream: &Stream) -> Result<(), TableError> {
        let each = Grid::covering(part.get.count.max(1), THREADS);
        let some = Grid { blocks: each.blocks.min(most), ..each };
        // SAFETY: the caller's promise.
        unsafe { self.launch("fetch", &self.kernels.fetch, some, part, stream) }
    }

    /// Asks the image for what the mirror could not tell.
    unsafe fn ask(&mut self, part: &LookupParams, stream: &Stream) -> Result<(), TableError> {
        let grid = Grid { blocks: ASKING_BLOCKS, threads: THREADS, shared_bytes: 0 };
        // SAFETY: the caller's promise.
        unsafe { self.launch("ask", &self.kernels.ask, grid, part, stream) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_batches_go_to_many_multiprocessors() {
        for (count, blocks, threads) in [(1, 1, 32), (4096, 128, 32), (5000, 79, 64), (1 << 15, 128, 256)] {
            let grid = spread(count);
            assert_eq!((grid.blocks, grid.threads), (blocks, threads), "{count}");
        }
    }
}
