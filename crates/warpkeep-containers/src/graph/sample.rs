//! Samples of the neighbourhoods of vertices, as graph neural networks are trained on them.

use std::collections::HashMap;

use warpkeep_device::Stream;

use super::Graph;
use super::edge::Edge;
use super::pick::pick;
use super::reading::{Reading, State};
use super::sample_choose::{check_places, check_room};
use super::sample_columns::{DeviceNeighbours, DeviceSample, DeviceSeeds, check_data};
use crate::ContainerError;

/// How edges of a vertex are chosen. The kernels have the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pick {
    Uniform = 0,
    Weighted = 1,
    Last = 2,
}

/// How [`Graph::sample`] and [`Graph::sample_at`] choose edges: by default uniformly, and each edge of a vertex once at most.
#[derive(Debug, Clone)]
pub struct SampleOptions {
    pub(super) fanouts: Vec<u32>,
    pub(super) seed: u64,
    pub(super) replaces: bool,
    pub(super) pick: Pick,
    pub(super) window: Option<u64>,
    pub(super) is_strict: bool,
}

impl SampleOptions {
    /// A hop for each fan-out, which is the largest number of edges that are chosen of a vertex that the hop before found.
    pub fn new(fanouts: &[u32]) -> Self {
        let pick = Pick::Uniform;
        Self { fanouts: fanouts.to_vec(), seed: 0, replaces: false, pick, window: None, is_strict: false }
    }

    /// The seed of the random numbers, 0 by default. The same seed on the same graph gives the same sample, on every device and on the CPU.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// An edge can be chosen again. A vertex with edges then has as many as were asked for.
    #[must_use]
    pub fn with_replacement(self) -> Self {
        Self { replaces: true, ..self }
    }

    /// Edges are chosen in proportion to their weights. Those whose weight is no positive, finite number are never chosen.
    #[must_use]
    pub fn weighted(self) -> Self {
        Self { pick: Pick::Weighted, ..self }
    }

    /// The edges with the latest times are chosen, the latest first. Of edges with one time those with smaller targets come first.
    #[must_use]
    pub fn last(self) -> Self {
        Self { pick: Pick::Last, ..self }
    }

    /// For [`Graph::sample_at`]: edges are not older than this, counted from the time of the seed. Calls without times of seeds are refused then.
    #[must_use]
    pub fn window(self, window: u64) -> Self {
        Self { window: Some(window), ..self }
    }

    /// For [`Graph::sample_at`]: edges are earlier than the time of the seed. By default they can have that time as well. Calls without times of seeds are refused then.
    #[must_use]
    pub fn before(self) -> Self {
        Self { is_strict: true, ..self }
    }

    /// The first and the last time that edges may have for a seed of this time. If the first is after the last there is none.
    fn bounds(&self, time: i64) -> (i64, i64) {
        let from = self.window.map_or(i64::MIN, |window| time.saturating_sub_unsigned(window));
        match self.is_strict.then(|| time.checked_sub(1)) {
            None => (from, time),
            Some(Some(until)) => (from, until),
            Some(None) => (i64::MAX, i64::MIN),
        }
    }
}

/// The vertices and edges that were found from some seeds. Vertices are renumbered in the order in which they were found, the seeds first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GraphSample {
    /// The vertex of each new number.
    pub vertices: Vec<u32>,
    /// The position of the seed that each vertex was found from; empty for [`Graph::sample`], where seeds share vertices.
    pub batch: Vec<u32>,
    /// The new number of each seed.
    pub seeds: Vec<u32>,
    /// For each edge the new number of its source: the vertex whose edges were chosen from.
    pub rows: Vec<u32>,
    /// For each edge the new number of its target.
    pub cols: Vec<u32>,
    /// For each edge its id; empty if the graph has none.
    pub ids: Vec<u64>,
    /// For each edge its time; empty if the graph has none.
    pub times: Vec<i64>,
    /// How many vertices the seeds are, and how many each hop found.
    pub vertices_per_hop: Vec<u64>,
    /// How many edges each hop found.
    pub edges_per_hop: Vec<u64>,
}

/// Vertices of which edges are chosen.
#[derive(Debug)]
pub(super) struct Hop<'a> {
    pub(super) number: u64,
    pub(super) most: u32,
    pub(super) vertices: &'a [u32],
    /// The first and the last time of their edges; `None` if any.
    pub(super) bounds: Option<(Vec<i64>, Vec<i64>)>,
}

/// The edges that were chosen, one vertex after the other, and how many each vertex has.
#[derive(Debug, Default)]
pub(super) struct Picked {
    pub(super) counts: Vec<u32>,
    pub(super) targets: Vec<u32>,
    pub(super) ids: Vec<u64>,
    pub(super) times: Vec<i64>,
}

impl Graph {
    /// Samples the neighbourhood of vertices in as many hops as there are fan-outs. A hop chooses edges of the vertices that the hop before found first.
    ///
    /// ```
    /// use warpkeep_containers::{Edge, Graph, GraphOptions, SampleOptions};
    ///
    /// let graph = Graph::on_cpu(&GraphOptions::default().ids());
    /// graph.insert_edges(&[Edge::new(5, 9).id(1), Edge::new(9, 5).id(2), Edge::new(9, 7).id(3)])?;
    /// let sample = graph.sample(&[5], &SampleOptions::new(&[10, 10]).seed(1))?;
    /// assert_eq!(sample.vertices, [5, 9, 7]);
    /// assert_eq!((sample.rows, sample.cols, sample.ids), (vec![0, 1, 1], vec![1, 0, 2], vec![1, 2, 3]));
    /// assert_eq!((sample.vertices_per_hop, sample.edges_per_hop), (vec![1, 1, 1], vec![1, 2]));
    /// # Ok::<(), warpkeep_containers::ContainerError>(())
    /// ```
    ///
    /// # Errors
    /// [`ContainerError::NoEdgeData`] if weights or times are asked for that the graph does not have; [`ContainerError::NoSeedTimes`] if the options have a
    /// [`window`](SampleOptions::window) or [`before`](SampleOptions::before); [`ContainerError::TooLarge`] if a hop could find 2^32 - 1 edges or more.
    pub fn sample(&self, seeds: &[u32], options: &SampleOptions) -> Result<GraphSample, ContainerError> {
        self.reading().sample(seeds, options)
    }

    /// As [`sample`](Self::sample), for seeds that each have a time: no edge is later than the time of the seed that it was found from. Each seed has vertices of its own, so that what one
    /// seed may see does not leak to another.
    ///
    /// ```
    /// use warpkeep_containers::{Edge, Graph, GraphOptions, SampleOptions};
    ///
    /// let graph = Graph::on_cpu(&GraphOptions::default().times());
    /// graph.insert_edges(&[Edge::new(1, 2).time(10), Edge::new(1, 3).time(20), Edge::new(1, 4).time(30)])?;
    /// let sample = graph.sample_at(&[1, 1], &[5, 25], &SampleOptions::new(&[1]).last())?;
    /// assert_eq!((sample.vertices, sample.batch, sample.times), (vec![1, 1, 3], vec![0, 1, 1], vec![20]));
    /// # Ok::<(), warpkeep_containers::ContainerError>(())
    /// ```
    ///
    /// # Errors
    /// [`ContainerError::WrongLength`] unless there is a time for each seed; [`ContainerError::NoEdgeData`] if the graph has no times; [`ContainerError::TooLarge`] as for
    /// [`sample`](Self::sample).
    pub fn sample_at(
        &self,
        seeds: &[u32],
        times: &[i64],
        options: &SampleOptions,
    ) -> Result<GraphSample, ContainerError> {
        self.reading().sample_at(seeds, times, options)
    }

    /// As [`sample`](Self::sample), and as [`sample_at`](Self::sample_at) if the seeds have times, from seeds in device memory to a sample in device memory: after what is in the stream, and
    /// waits for it. The host only reads counts, once a hop. See [`DeviceSample`] for an example.
    ///
    /// # Errors
    /// Those of [`sample`](Self::sample), if the seeds have no times, or [`sample_at`](Self::sample_at); [`ContainerError::OnCpu`] if the graph is on the CPU; an error of the
    /// device if a buffer is too short or memory is. The sample is empty then.
    pub fn sample_on(
        &self,
        seeds: DeviceSeeds<'_>,
        options: &SampleOptions,
        sample: &mut DeviceSample,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        self.reading().sample_on(seeds, options, sample, stream)
    }

    /// Chooses edges of each seed, without numbers for their targets: the first hop of [`sample_on`](Self::sample_on), in one kernel. The options have one fan-out, and each seed as many places
    /// in the buffers. After what is in the stream, and waits for it.
    ///
    /// ```
    /// use warpkeep_containers::{DeviceNeighbours, DeviceSeeds, Edge, Graph, GraphOptions, NO_VERTEX, SampleOptions};
    /// use warpkeep_device::{Device, DeviceChoice};
    ///
    /// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
    /// let device = Device::open(DeviceChoice::Sim)?;
    /// let graph = Graph::new(&device, &GraphOptions::default())?;
    /// graph.insert_edges(&[Edge::new(0, 4), Edge::new(0, 6), Edge::new(1, 5)])?;
    /// let seeds = DeviceSeeds { vertices: &device.upload(&[1_u32, 0])?, times: None, count: 2 };
    /// let (mut targets, stream) = (device.allocate(4 * 2 * 3)?, device.stream()?);
    /// let neighbours = DeviceNeighbours { targets: &mut targets, counts: None, ids: None, times: None };
    /// graph.sample_neighbours_on(seeds, &SampleOptions::new(&[3]), neighbours, &stream)?;
    /// assert_eq!(targets.to_vec::<u32>()?, [5, NO_VERTEX, NO_VERTEX, 4, 6, NO_VERTEX]);
    /// # Ok::<(), warpkeep_containers::ContainerError>(())
    /// ```
    ///
    /// # Errors
    /// [`ContainerError::OneHop`] unless there is one fan-out; otherwise as for [`sample_on`](Self::sample_on).
    pub fn sample_neighbours_on(
        &self,
        seeds: DeviceSeeds<'_>,
        options: &SampleOptions,
        neighbours: DeviceNeighbours<'_>,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        self.reading().sample_neighbours_on(seeds, options, neighbours, stream)
    }
}

impl Reading<'_> {
    pub(super) fn sample(
        &self,
        seeds: &[u32],
        options: &SampleOptions,
    ) -> Result<GraphSample, ContainerError> {
        self.sample_all("sample", seeds, None, options)
    }

    pub(super) fn sample_at(
        &self,
        seeds: &[u32],
        times: &[i64],
        options: &SampleOptions,
    ) -> Result<GraphSample, ContainerError> {
        if seeds.len() != times.len() {
            let (given, expected) = (times.len(), seeds.len());
            return Err(ContainerError::WrongLength { what: "times", given, expected });
        }
        self.sample_all("sample_at", seeds, Some(times), options)
    }

    pub(super) fn sample_on(
        &self,
        seeds: DeviceSeeds<'_>,
        options: &SampleOptions,
        sample: &mut DeviceSample,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        let (graph, view) = self.on_device("sample_on")?;
        check_data("sample_on", seeds.times.is_some(), options, self.options)?;
        graph.sample_on(seeds, options, view, sample, stream)
    }

    pub(super) fn sample_neighbours_on(
        &self,
        seeds: DeviceSeeds<'_>,
        options: &SampleOptions,
        neighbours: DeviceNeighbours<'_>,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        let (graph, view) = self.on_device("sample_neighbours_on")?;
        check_data("sample_neighbours_on", seeds.times.is_some(), options, self.options)?;
        graph.neighbours_on(seeds, options, view, neighbours, stream)
    }

    fn sample_all(
        &self,
        call: &'static str,
        seeds: &[u32],
        times: Option<&[i64]>,
        options: &SampleOptions,
    ) -> Result<GraphSample, ContainerError> {
        check_data(call, times.is_some(), options, self.options)?;
        // All hops see the same state.
        match &self.state {
            State::Device(graph, view) => graph.sample(seeds, times, options, view),
            State::Cpu(lists) => {
                let data = (self.options.ids, self.options.times);
                run(seeds, times, options, data, |vertex| lists.list(vertex))
            }
        }
    }
}

/// Runs all hops on the CPU, with the same limits as on a device. `data` says whether ids and times are wanted.
fn run<'a>(
    seeds: &[u32],
    times: Option<&[i64]>,
    options: &SampleOptions,
    data: (bool, bool),
    list: impl Fn(u32) -> &'a [Edge] + Copy,
) -> Result<GraphSample, ContainerError> {
    check_places(seeds.len() as u64)?;
    let mut sample = GraphSample::default();
    let mut numbers = Numbers { is_disjoint: times.is_some(), numbers: HashMap::new() };
    for (position, seed) in seeds.iter().enumerate() {
        let number = numbers.of(*seed, position as u32, &mut sample);
        sample.seeds.push(number);
    }
    sample.vertices_per_hop.push(sample.vertices.len() as u64);
    let mut begin = 0;
    for (number, &most) in options.fanouts.iter().enumerate() {
        let frontier = sample.vertices[begin..].to_vec();
        // A device begins the first hop before it knows that seeds are equal.
        let known = if number == 0 { seeds.len() } else { sample.vertices.len() };
        let degrees = frontier.iter().map(|vertex| list(*vertex).len());
        check_room(options, most, (known, known - begin), degrees)?;
        let bounds = times.map(|times| {
            sample.batch[begin..].iter().map(|seed| options.bounds(times[*seed as usize])).unzip()
        });
        let hop = Hop { number: number as u64, most, vertices: &frontier, bounds };
        let picked = pick(&hop, options, data, list);
        let (edges, found) = (sample.rows.len(), sample.vertices.len());
        let mut places = 0..picked.targets.len();
        for (at, count) in picked.counts.iter().enumerate() {
            let row = begin + at;
            let owner = sample.batch.get(row).copied().unwrap_or(0);
            for place in places.by_ref().take(*count as usize) {
                let col = numbers.of(picked.targets[place], owner, &mut sample);
                sample.rows.push(row as u32);
                sample.cols.push(col);
                sample.ids.extend(picked.ids.get(place));
                sample.times.extend(picked.times.get(place));
            }
        }
        sample.edges_per_hop.push((sample.rows.len() - edges) as u64);
        sample.vertices_per_hop.push((sample.vertices.len() - found) as u64);
        begin = found;
    }
    Ok(sample)
}

/// New numbers of vertices; seeds have their own if they have times.
struct Numbers {
    is_disjoint: bool,
    numbers: HashMap<(u32, u32), u32>,
}

impl Numbers {
    /// The number of a vertex that was found from the seed at this position. A vertex that is new is appended to the sample.
    fn of(&mut self, vertex: u32, seed: u32, sample: &mut GraphSample) -> u32 {
        let key = (if self.is_disjoint { seed } else { 0 }, vertex);
        *self.numbers.entry(key).or_insert_with(|| {
            sample.vertices.push(vertex);
            if self.is_disjoint {
                sample.batch.push(seed);
            }
            (sample.vertices.len() - 1) as u32
        })
    }
}
