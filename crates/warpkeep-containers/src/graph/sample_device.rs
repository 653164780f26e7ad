//! Samples of a graph in device memory: hops, and the numbers of vertices by `kernels/graph_number.h`.
//!
//! The host waits once a hop, to know how many vertices the next one has.

use warpkeep_device::{Buffer, Device, DevicePtr, Result, Stream};

use super::GraphSample;
use super::device::DeviceGraph;
use super::reading::View;
use super::sample::SampleOptions;
use super::sample_choose::{FEW, TOTAL_BYTES, Way, check_places};
use super::sample_columns::{DeviceNeighbours, DeviceSample, DeviceSeeds, SampleScratch};
use super::sample_params::Number;
use crate::ContainerError;
use crate::batch_columns::{own_column, send_column};

/// Counts that kernels leave: two for the seeds, then two for a hop.
const TOTALS: usize = 4;
const HOP: usize = 2;
/// The smallest table has this many bits.
const LEAST_BITS: u32 = 6;
/// The largest one has this many.
const MOST_BITS: u32 = 32;

/// Seeds in device memory. The times are null if there are none.
#[derive(Debug, Clone, Copy)]
pub(super) struct SeedColumns {
    vertices: DevicePtr,
    times: DevicePtr,
    count: usize,
}

impl SeedColumns {
    fn of(seeds: &DeviceSeeds<'_>, device: &Device) -> Result<SeedColumns> {
        Ok(SeedColumns {
            vertices: own_column(Some(seeds.vertices), 4, seeds.count, "seeds", device)?,
            times: own_column(seeds.times, 8, seeds.count, "times of seeds", device)?,
            count: seeds.count,
        })
    }
}

impl DeviceGraph {
    /// A sample in the host's memory.
    pub(super) fn sample(
        &self,
        seeds: &[u32],
        times: Option<&[i64]>,
        options: &SampleOptions,
        view: &View,
    ) -> Result<GraphSample, ContainerError> {
        let mut workspace = self.workspaces.take(&self.device)?;
        let (scratch, stream, count) = (&mut workspace.columns.samples, &workspace.stream, seeds.len());
        let mut made = match scratch.made.take() {
            Some(made) => made,
            None => DeviceSample::new(&self.device)?,
        };
        // SAFETY: the stream is synchronised before the columns are used again, by the reads below.
        let columns = unsafe {
            let of = seeds.iter().copied();
            let vertices = send_column(&mut scratch.seeds, count, of, &self.device, stream)?;
            let times = match times {
                Some(times) => {
                    let of = times.iter().copied();
                    send_column(&mut scratch.times, count, of, &self.device, stream)?
                }
                None => DevicePtr::NULL,
            };
            SeedColumns { vertices, times, count }
        };
        let mut hops = Hops::new(self, view, columns, options, scratch, &mut made, stream);
        hops.run()?;
        let sample = made.to_host(stream)?;
        scratch.made = Some(made);
        self.workspaces.put_back(workspace);
        Ok(sample)
    }

    /// A sample in device memory.
    pub(super) fn sample_on(
        &self,
        seeds: DeviceSeeds<'_>,
        options: &SampleOptions,
        view: &View,
        sample: &mut DeviceSample,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        let columns = SeedColumns::of(&seeds, &self.device)?;
        if !sample.device.is_same(&self.device) {
            let (theirs, ours) = (sample.device.choice(), self.device.choice());
            return Err(warpkeep_device::DeviceError::OtherDevice { what: "a sample", theirs, ours }.into());
        }
        let mut workspace = self.workspaces.take(&self.device)?;
        let scratch = &mut workspace.columns.samples;
        Hops::new(self, view, columns, options, scratch, sample, stream).run()?;
        self.workspaces.put_back(workspace);
        Ok(())
    }

    /// Neighbours of vertices, in device memory.
    pub(super) fn neighbours_on(
        &self,
        seeds: DeviceSeeds<'_>,
        options: &SampleOptions,
        view: &View,
        neighbours: DeviceNeighbours<'_>,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        let &[most] = &options.fanouts[..] else {
            return Err(ContainerError::OneHop { given: options.fanouts.len() });
        };
        let columns = SeedColumns::of(&seeds, &self.device)?;
        let places = check_places((seeds.count as u64).saturating_mul(u64::from(most)))?;
        let DeviceNeighbours { targets, counts, ids, times } = neighbours;
        let mut params = self.choice(view, options, most);
        params.targets = own_column(Some(&*targets), 4, places, "targets", &self.device)?;
        params.counts = own_column(counts.as_deref(), 4, seeds.count, "counts", &self.device)?;
        if self.options.ids {
            params.ids = own_column(ids.as_deref(), 8, places, "ids", &self.device)?;
        }
        if self.options.times {
            params.times = own_column(times.as_deref(), 8, places, "times", &self.device)?;
        }
        (params.vertices, params.seed_times) = (columns.vertices, columns.times);
        params.count = seeds.count as u64;
        if places == 0 {
            if let Some(counts) = counts {
                counts.fill_on(0, 4 * seeds.count, 0, stream)?;
            }
            return Ok(stream.synchronize()?);
        }
        let mut workspace = self.workspaces.take(&self.device)?;
        let way = Way::of(options, seeds.times.is_some(), most);
        // SAFETY: the lengths were checked, and the buffers are borrowed, those that are written exclusively; the state is there until the stream is synchronised.
        unsafe { self.choose_in_place(params, way, &mut workspace.columns.samples, stream)? };
        stream.synchronize()?;
        self.workspaces.put_back(workspace);
        Ok(())
    }
}

/// The table of a sample's vertices.
#[derive(Debug, Default)]
struct Table {
    /// 0 before it has memory.
    bits: u32,
    /// How many vertices it has the numbers of.
    entered: usize,
}

/// A sample while it is made.
struct Hops<'a> {
    graph: &'a DeviceGraph,
    view: &'a View,
    seeds: SeedColumns,
    options: &'a SampleOptions,
    scratch: &'a mut SampleScratch,
    sample: &'a mut DeviceSample,
    stream: &'a Stream,
    table: Table,
}

/// Vertices that get numbers.
struct List {
    vertices: DevicePtr,
    /// How many there are at most, and where the exact number is, unless it is this one.
    count: usize,
    end: DevicePtr,
    /// For each the number of the vertex that it was found from; null for seeds.
    rows: DevicePtr,
    numbers: DevicePtr,
    /// The position of the first one: numbers that there are before are smaller.
    base: usize,
    is_seeds: bool,
}

/// How far a sample is: the vertices from `begin` to `found` are those that the last hop found.
#[derive(Debug, Clone, Copy)]
struct Reached {
    begin: usize,
    found: usize,
    edges: usize,
}

/// What kernels have counted: how many vertices the seeds are, and how many edges and new vertices a hop has.
#[derive(Debug, Clone, Copy)]
struct Counted {
    seeds: usize,
    edges: usize,
    new: usize,
}

impl<'a> Hops<'a> {
    fn new(
        graph: &'a DeviceGraph,
        view: &'a View,
        seeds: SeedColumns,
        options: &'a SampleOptions,
        scratch: &'a mut SampleScratch,
        sample: &'a mut DeviceSample,
        stream: &'a Stream,
    ) -> Hops<'a> {
        sample.clear(&graph.options, !seeds.times.is_null(), seeds.count);
        Hops { graph, view, seeds, options, scratch, sample, stream, table: Table::default() }
    }

    /// All hops, to the end.
    fn run(&mut self) -> Result<(), ContainerError> {
        let made = self.run_hops();
        if made.is_err() {
            // What is there is no sample. Kernels that were launched may still read the graph, which can change as soon as this call returns.
            drop(self.stream.synchronize());
            self.sample.clear(&self.graph.options, false, 0);
        }
        made
    }

    fn run_hops(&mut self) -> Result<(), ContainerError> {
        // The first hop begins before the host knows how many vertices the seeds are, as if each were one.
        let seeds = self.number_seeds()?;
        let mut reached = Reached { begin: 0, found: seeds, edges: 0 };
        for number in 0..self.options.fanouts.len() {
            let is_run = self.hop(number, reached)?;
            let counted = self.read_totals(seeds > 0 && (is_run || number == 0), is_run)?;
            if number == 0 {
                reached.found = counted.seeds;
                self.sample.vertices_per_hop.push(counted.seeds as u64);
            }
            self.sample.edges_per_hop.push(counted.edges as u64);
            self.sample.vertices_per_hop.push(counted.new as u64);
            let (found, edges) = (reached.found + counted.new, reached.edges + counted.edges);
            reached = Reached { begin: reached.found, found, edges };
        }
        if self.options.fanouts.is_empty() {
            let counted = self.read_totals(seeds > 0, false)?;
            self.sample.vertices_per_hop.push(counted.seeds as u64);
        }
        Ok(())
    }

    /// What kernels have counted, after waiting for them. Without a hop, what it counts is nothing.
    fn read_totals(&mut self, with_seeds: bool, with_hop: bool) -> Result<Counted> {
        let mut words = [0_u64; TOTALS];
        if with_seeds {
            let end = if with_hop { TOTALS } else { HOP };
            let totals = self.scratch.totals.reserve(&self.graph.device, TOTAL_BYTES)?;
            totals.read_on(0, &mut words[..end], self.stream)?;
        } else {
            self.stream.synchronize()?;
        }
        let [_, seeds, edges, new] = words.map(|word| word as usize);
        Ok(Counted { seeds, edges, new })
    }

    /// Whether each seed has vertices of its own.
    fn is_disjoint(&self) -> bool {
        !self.seeds.times.is_null()
    }

    /// How many different vertices a sample can have that had some number of them and finds more.
    fn most_vertices(&self, found: usize, more: usize) -> usize {
        match self.is_disjoint() {
            true => found + more,
            // Seeds need not be vertices of the graph.
            false => (found + more).min(self.seeds.count + self.view.vertices() as usize),
        }
    }

    /// Numbers the seeds, and does not wait; gives how many there are.
    fn number_seeds(&mut self) -> Result<usize, ContainerError> {
        let count = check_places(self.seeds.count as u64)?;
        if count == 0 {
            return Ok(0);
        }
        self.sample.seeds.grow(4 * count)?;
        self.sample.grow_vertices(count)?;
        // With room for the first hop, if that is known, the table need not grow at once.
        let most =
            self.options.fanouts.first().map_or(0, |most| if *most <= FEW { *most as usize } else { 0 });
        let room = self.most_vertices(count, count.saturating_mul(most));
        self.clear_table(room)?;
        let list = self.seed_list();
        self.number(&list, 0)?;
        Ok(count)
    }

    /// Chooses edges of the vertices that the hop before found, and numbers their targets; does not wait. False if there is nothing to choose from.
    fn hop(&mut self, number: usize, reached: Reached) -> Result<bool, ContainerError> {
        let Reached { begin, found, edges } = reached;
        let (graph, most, count) = (self.graph, self.options.fanouts[number], found - begin);
        if most == 0 || count == 0 {
            return Ok(false);
        }
        let mut params = graph.choice(self.view, self.options, most);
        params.vertices = self.sample.vertices.ptr().offset(4 * begin as u64);
        if self.is_disjoint() {
            params.seed_times = self.seeds.times;
            params.batch = self.sample.batch.ptr().offset(4 * begin as u64);
        }
        (params.count, params.hop, params.first_row) = (count as u64, number as u64, begin as u64);
        // SAFETY: the vertices were found; the state and the columns are there until the stream is synchronised, which reading totals does.
        let places = unsafe { graph.room_of(&mut params, self.scratch, self.stream)? };
        if places == 0 {
            return Ok(false);
        }
        check_places(found as u64 + places as u64)?;
        self.sample.grow_edges(edges + places)?;
        let room = self.most_vertices(found, places);
        self.sample.grow_vertices(room)?;
        let at = |column: &Buffer, bytes: u64| column.ptr().offset(bytes * edges as u64);
        (params.rows, params.targets) = (at(&self.sample.rows, 4), at(&self.sample.cols, 4));
        if self.sample.has.ids {
            params.ids = at(&self.sample.ids, 8);
        }
        if self.sample.has.times {
            params.times = at(&self.sample.times, 8);
        }
        let way = Way::of(self.options, self.is_disjoint(), most);
        // SAFETY: as above, and the columns have room for all places.
        unsafe { graph.choose_in_order(&mut params, way, places, self.scratch, self.stream)? };
        self.prepare_table(room, if number == 0 { None } else { Some(found) })?;
        let list = List {
            vertices: params.targets,
            count: places,
            end: params.begins.offset(4 * count as u64),
            rows: params.rows,
            numbers: params.targets,
            base: found,
            is_seeds: false,
        };
        self.number(&list, number)?;
        Ok(true)
    }

    fn seed_list(&self) -> List {
        List {
            vertices: self.seeds.vertices,
            count: self.seeds.count,
            end: DevicePtr::NULL,
            rows: DevicePtr::NULL,
            numbers: self.sample.seeds.ptr(),
            base: 0,
            is_seeds: true,
        }
    }

    /// The bits of a table for this many vertices: two thirds of it are filled at most. Slots have numbers of 32 bits, and there are less vertices than that, so some slots of the largest
    /// table stay empty as well.
    fn bits_for(room: usize) -> u32 {
        (room + room / 2).next_power_of_two().ilog2().clamp(LEAST_BITS, MOST_BITS)
    }

    /// An empty table for this many vertices.
    fn clear_table(&mut self, room: usize) -> Result<()> {
        let (device, stream, bits) = (&self.graph.device, self.stream, Self::bits_for(room));
        let slots = self.scratch.slots.reserve(device, 8 << bits)?;
        slots.fill_on(0, 8 << bits, u8::MAX, stream)?;
        if self.is_disjoint() {
            let smallest = self.scratch.smallest.reserve(device, 4 << bits)?;
            smallest.fill_on(0, 4 << bits, u8::MAX, stream)?;
        }
        self.table = Table { bits, entered: 0 };
        Ok(())
    }

    /// A table for this many vertices, which has the numbers of those that were found; in the first hop, when that many are not known yet, the positions of seeds.
    fn prepare_table(&mut self, room: usize, found: Option<usize>) -> Result<()> {
        let is_short = Self::bits_for(room) > self.table.bits;
        if is_short {
            self.clear_table(room)?;
        }
        let mut list = self.seed_list();
        match found {
            None if !is_short => return Ok(()),
            None => {}
            Some(found) => {
                let first = self.table.entered;
                list.vertices = self.sample.vertices.ptr().offset(4 * first as u64);
                (list.count, list.base) = (found - first, first);
                self.table.entered = found;
            }
        }
        let mut params = self.params(&list)?;
        if self.is_disjoint() && found.is_some() {
            params.owners = self.sample.batch.ptr().offset(4 * list.base as u64);
        }
        // SAFETY: these vertices were found, and the table has room for them.
        unsafe { self.graph.launch(&self.graph.kernels.enter, params.count, &params, self.stream) }
    }

    /// Gives numbers to a list of vertices, and does not wait.
    fn number(&mut self, list: &List, hop: usize) -> Result<()> {
        let (graph, stream, count) = (self.graph, self.stream, list.count as u64);
        let device = &graph.device;
        let mut params = self.params(list)?;
        params.places = self.scratch.positions.reserve(device, 4 * list.count)?.ptr();
        params.firsts = self.scratch.firsts.reserve(device, 4 * (list.count + 1))?.ptr();
        let totals = self.scratch.totals.reserve(device, TOTAL_BYTES)?.ptr();
        params.totals = if list.is_seeds { totals } else { totals.offset(8 * HOP as u64) };
        if !list.is_seeds && hop == 0 {
            // The table has positions of seeds.
            params.given = totals.offset(8);
            params.renumbered = self.sample.seeds.ptr();
        }
        if self.is_disjoint() && !list.is_seeds {
            (params.owners, params.rows) = (self.sample.batch.ptr(), list.rows);
        }
        let kernels = &graph.kernels;
        // SAFETY: the columns have an element for each vertex of the list, `firsts` one more; the table has room for them, and so has the sample.
        unsafe {
            graph.launch(&kernels.enter, count, &params, stream)?;
            graph.launch(&kernels.mark, count + 1, &params, stream)?;
            graph.sorter.enqueue_scan(params.firsts, count + 1, &mut self.scratch.sums, stream)?;
            graph.launch(&kernels.assign, count, &params, stream)
        }
    }

    /// Parameters with a list, the table, and the sample that vertices are appended to.
    fn params(&mut self, list: &List) -> Result<Number> {
        let (null, device) = (DevicePtr::NULL, &self.graph.device);
        let (bits, disjoint) = (self.table.bits, self.is_disjoint());
        let smallest = match disjoint {
            true => self.scratch.smallest.reserve(device, 4 << bits)?.ptr(),
            false => null,
        };
        Ok(Number {
            vertices: list.vertices,
            count: list.count as u64,
            end: list.end,
            slots: self.scratch.slots.reserve(device, 8 << bits)?.ptr(),
            smallest,
            owners: null,
            rows: null,
            places: null,
            firsts: null,
            numbers: list.numbers,
            renumbered: null,
            found: self.sample.vertices.ptr(),
            found_owners: if disjoint { self.sample.batch.ptr() } else { null },
            totals: null,
            given: null,
            base: list.base as u64,
            table_bits: u64::from(bits),
            pads: u64::from(list.is_seeds),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::sample_choose::MOST_PLACES;

    #[test]
    fn slots_of_the_largest_table_have_numbers_of_32_bits() {
        for room in [0, 1, 40, 1000, 1 << 20, 2_863_311_530] {
            let slots = 1_usize << Hops::bits_for(room);
            assert!(3 * room <= 2 * slots, "{room} vertices in {slots} slots");
        }
        for room in [2_863_311_532, 1 << 32, MOST_PLACES as usize, 64 * MOST_PLACES as usize] {
            assert_eq!(Hops::bits_for(room), 32, "{room} vertices");
        }
        const { assert!(MOST_PLACES < 1 << MOST_BITS) };
    }
}
