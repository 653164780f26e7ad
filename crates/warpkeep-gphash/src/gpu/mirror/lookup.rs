//! Batches of gets through a mirror.

use warpkeep_device::{Device, DevicePtr, Grid, Stream, TypedKernel};

use super::state::Reflection;
use crate::TableError;
use crate::gpu::columns::Columns;
use crate::gpu::deals::Deal;
use crate::gpu::engine::THREADS;
use crate::gpu::homes::{self, Homes};
use crate::gpu::kernels::Kernels;
use crate::gpu::params::{GetParams, LookupParams, WarmParams};
use crate::gpu::profile::GetStrategy;
use crate::gpu::regions::{Division, Regions};
use crate::gpu::steps::Watch;

/// Warps that ask the image for what the mirror could not tell: rarely any of them has anything to do.
const ASKING_BLOCKS: u32 = 66;

/// Threads that fetch values on each multiprocessor while others want something of the link: a warp on each of 132 has half a megabyte under way, ten microseconds of
/// it. All that there is room for would have seventeen, and everything else would wait for them.
const EASY_THREADS: u32 = 32;

/// Blocks that a small batch is to have: about as many as a large device has multiprocessors, each with its own way to memory, and to the host's.
const SPREAD_OVER: u64 = 128;

/// A thread for each of so many, in blocks so small that many multiprocessors have one.
pub(crate) fn spread(count: u64) -> Grid {
    let threads = (count / SPREAD_OVER).next_power_of_two().clamp(32, u64::from(THREADS)) as u32;
    Grid::covering(count.max(1), threads)
}

/// A batch that is to be looked up.
pub(crate) struct Lookup<'l> {
    pub(crate) get: GetParams,
    /// Its keys' records; held until the kernels are done.
    pub(crate) mirror: &'l Reflection,
    /// Bytes of a value's row.
    pub(crate) row: u64,
    /// What values in records begin at multiples of.
    pub(crate) apart: u64,
    /// Bytes of the image.
    pub(crate) image_len: u64,
    pub(crate) strategy: GetStrategy,
    /// Whether other kernels want something of the link meanwhile.
    pub(crate) beside_others: bool,
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
        let (mut get, count) = (self.get, self.get.count as usize);
        get.table = get.table.reflected(self.mirror.params());
        let ordered = matches!(self.strategy, GetStrategy::Scattered | GetStrategy::Sorted { .. });
        let mut params = LookupParams {
            get,
            asked: DevicePtr::NULL,
            asks: DevicePtr::NULL,
            located: DevicePtr::NULL,
            regions: Regions::NONE,
            fetchings: DevicePtr::NULL,
            wide: u64::from((self.row | self.apart | get.values.address()).is_multiple_of(16)),
            homes: Homes::NONE,
            cleans: 0,
        };
        let each = spread(get.count);
        if let Some(heat) = self.mirror.heat().filter(|_| !get.values.is_null()) {
            let warm = WarmParams { table: get.table, count: get.count, keys: get.keys, heat: heat.ptr() };
            heat.count(get.count);
            // SAFETY: the caller's promise; the heat is as long as the mirror, which keeps it.
            watch.device("warm", device, stream, || unsafe {
                Ok(kernels.values()?.warm.launch(each, &warm, stream)?)
            })?;
        }
        if self.strategy == GetStrategy::Fused {
            // SAFETY: the caller's promise.
            return watch.device("few", device, stream, || unsafe {
                Ok(kernels.index()?.few.launch(each, &params, stream)?)
            });
        }
        params.asks = scratch.asks.room(device, 4 * count)?;
        let mut deal = None;
        if ordered {
            params.located = scratch.records.room(device, 16 * count)?;
            if self.strategy == GetStrategy::Scattered && scratch.deals.may_begin() {
                deal = match self.deal(device, kernels, scratch, stream, &mut params) {
                    // Hands take more memory than what is in order.
                    Err(TableError::Device(error)) if error.is_out_of_memory() => {
                        scratch.deals.refuse();
                        None
                    }
                    deal => Some(deal?),
                };
            }
            if deal.is_none() {
                watch.device("clearing", device, stream, || {
                    self.order(device, kernels, scratch, stream, &mut params)
                })?;
            }
        } else {
            watch.device("clearing", device, stream, || {
                params.asked = scratch.asked.zeros(device, 8, stream)?;
                Ok(())
            })?;
        }
        let launch = |watch: &mut Watch<'_>, step, kernel: &TypedKernel<LookupParams>, grid| {
            // SAFETY: the caller's promise; the scratch is as long as the kernels take it to be.
            watch.device(step, device, stream, || unsafe { Ok(kernel.launch(grid, &params, stream)?) })
        };
        if ordered {
            // They find out on the device how much there is to do, and go on from one place to the next: of more blocks than there is
            // room for at once, those of a batch that finds nothing would be started one after the other, only to end.
            let some = |most: u32| Grid { blocks: each.blocks.min(most), ..each };
            if deal.is_some() {
                launch(watch, "locate and deal", &kernels.index()?.deal, each)?;
            } else {
                launch(watch, "locate", &kernels.index()?.locate, each)?;
                // SAFETY: the same.
                watch.device("line up", device, stream, || unsafe {
                    params.regions.line_up(&kernels.index()?.line_up, stream)
                })?;
                launch(watch, "order", &kernels.index()?.order, some(kernels.resident()?.order))?;
            }
            launch(watch, "fetch", &kernels.index()?.fetch, params.homes.grid(self.room_threads()))?;
        } else {
            launch(watch, "locate", &kernels.index()?.locate, each)?;
        }
        launch(
            watch,
            "ask",
            &kernels.index()?.ask,
            Grid { blocks: ASKING_BLOCKS, threads: THREADS, shared_bytes: 0 },
        )?;
        if let Some(deal) = &deal {
            scratch.deals.done(deal);
        }
        Ok(())
    }

    /// Has the batch dealt: places for hands, and counts that are zero.
    fn deal(
        &self,
        device: &Device,
        kernels: &Kernels,
        scratch: &mut Columns,
        stream: &Stream,
        params: &mut LookupParams,
    ) -> Result<Deal, TableError> {
        let count = homes::multiprocessors(device);
        let (homes, division) =
            Homes::dealt(count, self.image_len, self.get.count, kernels.resident()?.fetch);
        let fetchings = scratch.fetchings.room(device, 16 * homes.places())?;
        let deal = scratch.deals.begin(device, division.bytes() + Homes::bytes(count), stream)?;
        params.asked = deal.asked;
        params.cleans = deal.cleans;
        params.regions = division.at(deal.head);
        params.homes = self.at_ease(homes).at(deal.head.offset(division.bytes() as u64));
        params.fetchings = fetchings;
        Ok(deal)
    }

    /// Threads of a room: what they have asked the link for is before what others ask it for, so where there are others, no more of them than keep it busy.
    fn room_threads(&self) -> u32 {
        if self.beside_others { EASY_THREADS } else { THREADS }
    }

    /// Homes of one room each, where that is so.
    fn at_ease(&self, homes: Homes) -> Homes {
        if self.beside_others { homes.in_one_room() } else { homes }
    }

    /// Has the batch put in order: a place for each, and regions with nothing in them.
    fn order(
        &self,
        device: &Device,
        kernels: &Kernels,
        scratch: &mut Columns,
        stream: &Stream,
        params: &mut LookupParams,
    ) -> Result<(), TableError> {
        let (count, keys) = (homes::multiprocessors(device), self.get.count);
        // A batch that found no memory to be scattered is small.
        let unassigned_from = match self.strategy {
            GetStrategy::Sorted { unassigned_from } => unassigned_from,
            _ => u64::MAX,
        };
        let division = Division::of(self.image_len, keys);
        // One look for zeros is enough: before the counts of regions there is room for that of what is asked for.
        params.asked = scratch.regions.zeros(device, division.bytes() + Homes::bytes(count), stream)?;
        params.regions = division.at(params.asked);
        let homes = Homes::ordered(count, division, self.image_len, keys, kernels.resident()?.fetch);
        params.homes =
            self.at_ease(homes).at(params.asked.offset(division.bytes() as u64)).below(unassigned_from);
        params.fetchings = scratch.fetchings.room(device, 16 * keys as usize)?;
        Ok(())
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
