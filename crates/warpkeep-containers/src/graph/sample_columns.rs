//! Samples in device memory: what callers give and get, and the memory that making one takes.

use bytemuck::Pod;
use warpkeep_device::{Buffer, Device, GrowingBuffer, Result, StagedBuffer, Stream};

use super::{GraphOptions, GraphSample};
use crate::ContainerError;
use crate::batch_plan::Scratch;

/// What [`Graph::sample_neighbours_on`](super::Graph::sample_neighbours_on) writes where a vertex has no further neighbour. No vertex has this number.
pub const NO_VERTEX: u32 = u32::MAX;

/// Vertices in device memory, to sample from.
#[derive(Debug, Clone, Copy)]
pub struct DeviceSeeds<'a> {
    /// The vertices, four bytes each.
    pub vertices: &'a Buffer,
    /// A time of eight bytes for each: no edge is later. Without times all edges may be chosen.
    pub times: Option<&'a Buffer>,
    /// How many there are.
    pub count: usize,
}

/// Where neighbours go that [`Graph::sample_neighbours_on`](super::Graph::sample_neighbours_on) chooses: as many places for each seed as the fan-out says. Its neighbours are in the
/// first of them; in the others are [`NO_VERTEX`], and zeros for ids and times. Data that the graph does not have is not written.
#[derive(Debug)]
pub struct DeviceNeighbours<'a> {
    /// The neighbours, four bytes for each place.
    pub targets: &'a mut Buffer,
    /// How many neighbours each seed has, four bytes each.
    pub counts: Option<&'a mut Buffer>,
    /// Ids of the edges, eight bytes for each place.
    pub ids: Option<&'a mut Buffer>,
    /// Times of the edges, eight bytes for each place.
    pub times: Option<&'a mut Buffer>,
}

/// A [`GraphSample`] in device memory, for [`Graph::sample_on`](super::Graph::sample_on). Its columns keep their memory for the next sample and have room for the largest one so far, so that
/// only the first elements of each are those of the sample.
///
/// ```
/// use warpkeep_containers::{DeviceSample, DeviceSeeds, Edge, Graph, GraphOptions, SampleOptions};
/// use warpkeep_device::{Device, DeviceChoice};
///
/// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
/// let device = Device::open(DeviceChoice::Sim)?;
/// let graph = Graph::new(&device, &GraphOptions::default())?;
/// graph.insert_edges(&[Edge::new(5, 9), Edge::new(9, 7)])?;
/// let (mut sample, stream) = (DeviceSample::new(&device)?, device.stream()?);
/// let seeds = DeviceSeeds { vertices: &device.upload(&[5_u32])?, times: None, count: 1 };
/// graph.sample_on(seeds, &SampleOptions::new(&[10, 10]), &mut sample, &stream)?;
/// assert_eq!((sample.vertex_count(), sample.edge_count()), (3, 2));
/// let mut cols = [0_u32; 2];
/// sample.cols().read_on(0, &mut cols, &stream)?;
/// assert_eq!(cols, [1, 2]);
/// assert_eq!(sample.to_host(&stream)?.vertices, [5, 9, 7]);
/// # Ok::<(), warpkeep_containers::ContainerError>(())
/// ```
#[derive(Debug)]
pub struct DeviceSample {
    pub(super) device: Device,
    pub(super) seeds: GrowingBuffer,
    pub(super) vertices: GrowingBuffer,
    pub(super) batch: GrowingBuffer,
    pub(super) rows: GrowingBuffer,
    pub(super) cols: GrowingBuffer,
    pub(super) ids: GrowingBuffer,
    pub(super) times: GrowingBuffer,
    pub(super) has: Has,
    pub(super) seed_count: usize,
    pub(super) vertices_per_hop: Vec<u64>,
    pub(super) edges_per_hop: Vec<u64>,
}

/// Which columns a sample has.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Has {
    pub(super) batch: bool,
    pub(super) ids: bool,
    pub(super) times: bool,
}

impl DeviceSample {
    /// An empty sample in the memory of this device, which takes none yet.
    pub fn new(device: &Device) -> Result<DeviceSample> {
        let all = device.memory()?.1.checked_next_power_of_two().unwrap_or(u64::MAX);
        let column = |element: u64| device.reserve(all.min(element << 32) as usize);
        Ok(DeviceSample {
            device: device.clone(),
            seeds: column(4)?,
            vertices: column(4)?,
            batch: column(4)?,
            rows: column(4)?,
            cols: column(4)?,
            ids: column(8)?,
            times: column(8)?,
            has: Has::default(),
            seed_count: 0,
            vertices_per_hop: Vec::new(),
            edges_per_hop: Vec::new(),
        })
    }

    /// How many vertices it has.
    pub fn vertex_count(&self) -> usize {
        self.vertices_per_hop.iter().sum::<u64>() as usize
    }

    /// How many edges it has.
    pub fn edge_count(&self) -> usize {
        self.edges_per_hop.iter().sum::<u64>() as usize
    }

    /// [`GraphSample::vertices_per_hop`].
    pub fn vertices_per_hop(&self) -> &[u64] {
        &self.vertices_per_hop
    }

    /// [`GraphSample::edges_per_hop`].
    pub fn edges_per_hop(&self) -> &[u64] {
        &self.edges_per_hop
    }

    /// [`GraphSample::vertices`], four bytes each.
    pub fn vertices(&self) -> &Buffer {
        &self.vertices
    }

    /// [`GraphSample::batch`], four bytes for each vertex, if the seeds had times.
    pub fn batch(&self) -> Option<&Buffer> {
        self.has.batch.then_some(&*self.batch)
    }

    /// [`GraphSample::seeds`], four bytes each.
    pub fn seeds(&self) -> &Buffer {
        &self.seeds
    }

    /// [`GraphSample::rows`], four bytes each.
    pub fn rows(&self) -> &Buffer {
        &self.rows
    }

    /// [`GraphSample::cols`], four bytes each.
    pub fn cols(&self) -> &Buffer {
        &self.cols
    }

    /// [`GraphSample::ids`], eight bytes each, if the graph has ids.
    pub fn ids(&self) -> Option<&Buffer> {
        self.has.ids.then_some(&*self.ids)
    }

    /// [`GraphSample::times`], eight bytes each, if the graph has times.
    pub fn times(&self) -> Option<&Buffer> {
        self.has.times.then_some(&*self.times)
    }

    /// A copy in host memory.
    pub fn to_host(&self, stream: &Stream) -> Result<GraphSample> {
        let (vertices, edges) = (self.vertex_count(), self.edge_count());
        Ok(GraphSample {
            vertices: first(Some(&*self.vertices), vertices, stream)?,
            batch: first(self.batch(), vertices, stream)?,
            seeds: first(Some(&*self.seeds), self.seed_count, stream)?,
            rows: first(Some(&*self.rows), edges, stream)?,
            cols: first(Some(&*self.cols), edges, stream)?,
            ids: first(self.ids(), edges, stream)?,
            times: first(self.times(), edges, stream)?,
            vertices_per_hop: self.vertices_per_hop.clone(),
            edges_per_hop: self.edges_per_hop.clone(),
        })
    }

    /// Nothing, of this many seeds.
    pub(super) fn clear(&mut self, options: &GraphOptions, batch: bool, seeds: usize) {
        self.has = Has { batch, ids: options.ids, times: options.times };
        self.seed_count = seeds;
        self.vertices_per_hop.clear();
        self.edges_per_hop.clear();
    }

    /// Room for this many vertices.
    pub(super) fn grow_vertices(&mut self, count: usize) -> Result<()> {
        self.vertices.grow(4 * count)?;
        if self.has.batch { self.batch.grow(4 * count) } else { Ok(()) }
    }

    /// Room for this many edges.
    pub(super) fn grow_edges(&mut self, count: usize) -> Result<()> {
        self.rows.grow(4 * count)?;
        self.cols.grow(4 * count)?;
        if self.has.ids {
            self.ids.grow(8 * count)?;
        }
        if self.has.times { self.times.grow(8 * count) } else { Ok(()) }
    }
}

/// The first elements of a column; none if there is no column.
fn first<T: Pod>(column: Option<&Buffer>, count: usize, stream: &Stream) -> Result<Vec<T>> {
    let Some(column) = column else { return Ok(Vec::new()) };
    let mut elements = vec![T::zeroed(); count];
    column.read_on(0, &mut elements, stream)?;
    Ok(elements)
}

/// Memory that making a sample takes, kept for the next one.
#[derive(Debug, Default)]
pub(super) struct SampleScratch {
    /// Seeds in the host's memory, and their times.
    pub(super) seeds: StagedBuffer,
    pub(super) times: StagedBuffer,
    /// A sample that is returned in the host's memory.
    pub(super) made: Option<DeviceSample>,
    /// See `graph_sampling::Choose`.
    pub(super) room: Scratch,
    pub(super) counts: Scratch,
    pub(super) places: Scratch,
    pub(super) keys: Scratch,
    /// See `graph_numbers::Number`.
    pub(super) slots: Scratch,
    pub(super) smallest: Scratch,
    pub(super) positions: Scratch,
    pub(super) firsts: Scratch,
    pub(super) totals: Scratch,
    pub(super) sums: StagedBuffer,
}

/// An error if a sample needs data that edges or seeds do not have.
pub(super) fn check_data(
    call: &'static str,
    has_times: bool,
    options: &super::SampleOptions,
    graph: &GraphOptions,
) -> Result<(), ContainerError> {
    use super::sample::Pick;
    if (has_times || options.pick == Pick::Last) && !graph.times {
        return Err(ContainerError::NoEdgeData { call, what: "times" });
    }
    if options.pick == Pick::Weighted && !graph.weights {
        return Err(ContainerError::NoEdgeData { call, what: "weights" });
    }
    // Without times every edge is a candidate, so these would be left out without a word.
    let counted = if options.is_strict { Some("before") } else { options.window.map(|_| "window") };
    if let (false, Some(option)) = (has_times, counted) {
        return Err(ContainerError::NoSeedTimes { call, option });
    }
    Ok(())
}
