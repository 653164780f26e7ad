//! Chooses edges of vertices in device memory: the host's side of `kernels/graph_sample.h`.

use warpkeep_device::{DevicePtr, Result, Stream};

use super::device::DeviceGraph;
use super::kernels::WARP;
use super::reading::View;
use super::sample::{Pick, SampleOptions};
use super::sample_columns::SampleScratch;
use super::sample_params::Choose;
use crate::ContainerError;

/// Fan-outs up to this are taken as they are, for room that edges may need.
pub(super) const FEW: u32 = 64;
/// Fan-outs up to this have a lane each.
const LANES: u32 = WARP as u32;
/// Places of one hop, and numbers of vertices in a sample: both have 32 bits, and the last one means something else.
pub(super) const MOST_PLACES: u64 = u32::MAX as u64 - 1;

/// Counts of one sample: four of its numbers, then how many places a hop needs.
pub(super) const TOTAL_BYTES: usize = 8 * 5;
const PLACES_AT: usize = 8 * 4;

/// Which kernels choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Any edges, also again: a thread for each place.
    Any,
    /// Different ones of all edges: a lane for each place.
    Some,
    /// Edges that may not all be chosen, or not alike: a warp for each vertex.
    Warp,
    /// The same with more places than a warp has lanes: a thread for each vertex.
    Thread,
}

impl Way {
    pub(super) fn of(options: &SampleOptions, has_times: bool, most: u32) -> Way {
        let any = !has_times && options.pick == Pick::Uniform;
        match (any, options.replaces, most <= LANES) {
            (true, true, _) => Way::Any,
            (true, false, true) => Way::Some,
            (false, _, true) => Way::Warp,
            (_, _, false) => Way::Thread,
        }
    }
}

/// Whether a hop has room for the whole fan-out of each vertex. Otherwise it has room for the edges that vertices have.
fn is_bound(most: u32, repeats: bool) -> bool {
    most <= FEW || repeats
}

/// For the CPU form, what a device checks of a hop: an error if the hop needs too many places, or the sample too many numbers of vertices. `found` vertices have numbers, and the hop
/// chooses edges of the last `count` of them, which have these degrees.
pub(super) fn check_room(
    options: &SampleOptions,
    most: u32,
    (found, count): (usize, usize),
    degrees: impl Iterator<Item = usize>,
) -> Result<(), ContainerError> {
    let repeats = options.replaces && options.pick != Pick::Last;
    let places = match is_bound(most, repeats) {
        true => (count as u64).saturating_mul(u64::from(most)),
        false => degrees.map(|degree| (degree as u64).min(u64::from(most))).sum(),
    };
    check_places(places)?;
    check_places(found as u64 + places).map(drop)
}

/// Checks the places of a hop.
pub(super) fn check_places(given: u64) -> Result<usize, ContainerError> {
    match given > MOST_PLACES {
        true => Err(ContainerError::TooLarge { what: "places of one hop", given, most: MOST_PLACES }),
        false => Ok(given as usize),
    }
}

impl DeviceGraph {
    /// Parameters for vertices in device memory, with no memory for what is chosen.
    pub(super) fn choice(&self, view: &View, options: &SampleOptions, most: u32) -> Choose {
        let null = DevicePtr::NULL;
        Choose {
            graph: view.graph,
            vertices: null,
            seed_times: null,
            batch: null,
            room: null,
            counts: null,
            begins: null,
            places: null,
            keys: null,
            rows: null,
            targets: null,
            ids: null,
            times: null,
            total: null,
            count: 0,
            seed: options.seed,
            hop: 0,
            window: options.window.unwrap_or(0),
            first_row: 0,
            most,
            pick: options.pick as u32,
            replaces: u32::from(options.replaces),
            is_strict: u32::from(options.is_strict),
            has_window: u32::from(options.window.is_some()),
            places_end: 0,
        }
    }

    /// Chooses edges, to a fixed number of places for each vertex.
    ///
    /// # Safety
    /// The columns of the parameters are as long as they say, and stay until the stream is synchronised, as the state does.
    pub(super) unsafe fn choose_in_place(
        &self,
        mut params: Choose,
        way: Way,
        scratch: &mut SampleScratch,
        stream: &Stream,
    ) -> Result<()> {
        let places = params.count as usize * params.most as usize;
        if way == Way::Thread {
            params.places = scratch.places.reserve(&self.device, 4 * places)?.ptr();
            params.keys = scratch.keys.reserve(&self.device, 8 * places)?.ptr();
        }
        // SAFETY: this function's contract, and the places have room for all.
        unsafe { self.launch_choice(&params, way, stream) }
    }

    /// How many edges vertices may have together, which the columns need room for. `most` in the parameters becomes what a vertex may have; how many each needs is found on the
    /// way, if the fan-out is large.
    ///
    /// # Safety
    /// As [`choose_in_place`](Self::choose_in_place).
    pub(super) unsafe fn room_of(
        &self,
        params: &mut Choose,
        scratch: &mut SampleScratch,
        stream: &Stream,
    ) -> Result<usize, ContainerError> {
        let count = params.count as usize;
        let room = scratch.room.reserve(&self.device, 4 * (count + 1))?;
        params.room = room.ptr();
        let all = params.count.saturating_mul(u64::from(params.most));
        if is_bound(params.most, params.replaces != 0 && params.pick != Pick::Last as u32) {
            let places = check_places(all)?;
            // SAFETY: this function's contract, and there is a count for each vertex and one more.
            unsafe { self.launch(&self.kernels.allot, params.count + 1, params, stream)? };
            return Ok(places);
        }
        let total = scratch.totals.reserve(&self.device, TOTAL_BYTES)?;
        total.fill_on(PLACES_AT, 8, 0, stream)?;
        let counting = Choose { total: total.ptr().offset(PLACES_AT as u64), ..*params };
        // SAFETY: as above.
        unsafe { self.launch(&self.kernels.allot, params.count + 1, &counting, stream)? };
        let mut places = [0_u64];
        total.read_on(PLACES_AT, &mut places, stream)?;
        check_places(places[0])
    }

    /// Chooses edges, each vertex's after those of the one before, when [`room_of`](Self::room_of) has counted `places` of them at most. Afterwards `begins` of the parameters
    /// says where they begin.
    ///
    /// # Safety
    /// As [`choose_in_place`](Self::choose_in_place); the columns have room for `places`.
    pub(super) unsafe fn choose_in_order(
        &self,
        params: &mut Choose,
        way: Way,
        places: usize,
        scratch: &mut SampleScratch,
        stream: &Stream,
    ) -> Result<()> {
        let count = params.count + 1;
        // SAFETY: this function's contract; scanned columns have an element for each vertex and one more, staged ones one for each place.
        unsafe {
            self.sorter.enqueue_scan(params.room, count, &mut scratch.sums, stream)?;
            if matches!(way, Way::Any | Way::Some) {
                // Every vertex has as many edges as it has places.
                params.begins = params.room;
                return self.launch_choice(params, way, stream);
            }
            let counts = scratch.counts.reserve(&self.device, 4 * count as usize)?.ptr();
            params.counts = counts;
            params.places = scratch.places.reserve(&self.device, 4 * places)?.ptr();
            if way == Way::Thread {
                params.keys = scratch.keys.reserve(&self.device, 8 * places)?.ptr();
            }
            self.launch_choice(params, way, stream)?;
            self.sorter.enqueue_scan(counts, count, &mut scratch.sums, stream)?;
            (params.begins, params.places_end) = (counts, places as u32);
            self.launch(&self.kernels.fetch, places as u64, params, stream)
        }
    }

    /// # Safety
    /// As [`choose_in_place`](Self::choose_in_place), for all columns that the kernels need.
    unsafe fn launch_choice(&self, params: &Choose, way: Way, stream: &Stream) -> Result<()> {
        let (kernels, count) = (&self.kernels, params.count);
        // Kernels that count have one more vertex, which ends the counts.
        let (kernel, threads) = match way {
            Way::Any => (&kernels.choose_any, count * u64::from(params.most)),
            Way::Some => (&kernels.choose_some, WARP * count.div_ceil(WARP / u64::from(params.most))),
            Way::Warp => (&kernels.stage_by_warp, WARP * (count + 1)),
            Way::Thread => (&kernels.stage, count + 1),
        };
        // SAFETY: this function's contract.
        unsafe { self.launch(kernel, threads, params, stream) }
    }
}
