//! A graph whose edges change in batches.

mod algorithms;
mod algorithms_cpu;
mod algorithms_device;
mod apply;
mod calls;
mod columns;
mod compaction;
mod cores_device;
mod cpu;
mod csr;
mod device;
mod edge;
mod file;
pub mod generate;
mod kernels;
mod options;
mod pick;
mod pins;
mod purge;
mod queries;
mod reader;
mod reading;
mod sample;
mod sample_choose;
mod sample_columns;
mod sample_device;
mod sample_params;
mod snapshot;
mod stats;
mod storage;
mod triangles_device;
mod whole;

use std::ops::Range;
use std::sync::Arc;

use warpkeep_device::{Buffer, Device, KernelSet as _, Program, Stream};

pub use algorithms::PageRanks;
pub use calls::TriangleChange;
use columns::{HostBatch, Staged};
use cpu::CpuGraph;
pub use csr::GraphCsr;
use device::{DeviceGraph, MOST_VERTICES};
pub use edge::{Edge, EdgeOp, EdgeOpKind, EdgeStatus};
use kernels::GraphKernels;
pub use kernels::GraphRef;
pub use options::GraphOptions;
pub use reader::EdgeList;
use reading::{Reading, State};
pub use sample::{GraphSample, SampleOptions};
pub use sample_columns::{DeviceNeighbours, DeviceSample, DeviceSeeds, NO_VERTEX};
pub use snapshot::GraphSnapshot;
pub use stats::{GraphPin, GraphStats};
use whole::Listed;

use crate::ContainerError;
use crate::batch_columns::own_column;

/// The kinds of the operations of a batch in device memory.
#[derive(Debug, Clone, Copy)]
pub enum EdgeOpKinds<'a> {
    /// All are the same.
    All(EdgeOpKind),
    /// A byte for each operation: an [`EdgeOpKind`]. Other bytes are answered [`EdgeStatus::Absent`] and change nothing.
    Each(&'a Buffer),
}

/// A batch in device memory.
#[derive(Debug, Clone, Copy)]
pub struct DeviceEdgeOps<'a> {
    /// What the operations do.
    pub kinds: EdgeOpKinds<'a>,
    /// The sources of their edges, four bytes each.
    pub sources: &'a Buffer,
    /// The targets of their edges, four bytes each.
    pub targets: &'a Buffer,
    /// Weights of four bytes; 1 if there are none.
    pub weights: Option<&'a Buffer>,
    /// Ids of eight bytes; 0 if there are none.
    pub ids: Option<&'a Buffer>,
    /// Times of eight bytes; 0 if there are none.
    pub times: Option<&'a Buffer>,
    /// How many there are.
    pub count: usize,
}

/// Where rows in device memory go. Arrays of data that the graph does not have are not written.
#[derive(Debug)]
pub struct DeviceCsr<'a> {
    /// Where each list begins, and where the last one ends: four bytes each, one more than there are vertices.
    pub offsets: &'a mut Buffer,
    /// Targets, four bytes for each edge in a list.
    pub targets: &'a mut Buffer,
    /// Weights, four bytes each.
    pub weights: Option<&'a mut Buffer>,
    /// Ids, eight bytes each.
    pub ids: Option<&'a mut Buffer>,
    /// Times, eight bytes each.
    pub times: Option<&'a mut Buffer>,
}

/// A directed or undirected graph in device memory or on the CPU, whose edges are inserted and deleted in batches.
///
/// Vertices are numbers of 32 bits, and the table of vertices grows by itself. There is one edge at most from a vertex to another; it can have a weight, an id
/// and a time, and the newest insert decides them. Each vertex has its edges in one sorted block.
///
/// A batch may hold an edge any number of times: operations on one edge act in the batch's order, and each has an answer. A batch is applied as a whole, or not at
/// all if there is an error. Calls may come from several threads; those that change the graph run one after the other.
///
/// ```
/// use warpkeep_containers::{Edge, EdgeOp, EdgeStatus, Graph, GraphOptions};
/// use warpkeep_device::{Device, DeviceChoice};
///
/// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
/// let device = Device::open(DeviceChoice::Sim)?;
/// let graph = Graph::new(&device, &GraphOptions::default().undirected().weights())?;
/// graph.insert_edges(&[Edge::new(0, 1).weight(0.5), Edge::new(2, 1), Edge::new(1, 2).weight(3.0)])?;
/// assert_eq!((graph.edge_count(), graph.degrees(&[0, 1, 2, 3])?), (2, vec![1, 2, 1, 0]));
/// assert_eq!(graph.neighbours(&[1])?.weights, [0.5, 3.0]);
///
/// let answers = graph.apply(&[EdgeOp::delete(1, 0), EdgeOp::delete(0, 1), EdgeOp::insert(Edge::new(4, 0))])?;
/// assert_eq!(answers, [EdgeStatus::Deleted, EdgeStatus::Absent, EdgeStatus::Inserted]);
/// assert_eq!(graph.edges_exist(&[(0, 1), (0, 4)])?, [false, true]);
/// graph.delete_vertices(&[1])?;
/// assert_eq!(graph.csr()?.targets, [4, 0]);
/// # Ok::<(), warpkeep_containers::ContainerError>(())
/// ```
#[derive(Debug)]
pub struct Graph {
    options: GraphOptions,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Device(Arc<DeviceGraph>),
    Cpu(CpuGraph),
}

impl Graph {
    /// The program that its kernels are in.
    pub fn program() -> Program {
        GraphKernels::program()
    }

    /// An empty graph in the memory of this device.
    pub fn new(device: &Device, options: &GraphOptions) -> Result<Graph, ContainerError> {
        let graph = DeviceGraph::new(device, options)?;
        Ok(Graph { options: options.clone(), kind: Kind::Device(Arc::new(graph)) })
    }

    /// An empty graph in the memory of the host, worked by the thread that calls. All calls that take slices work alike.
    ///
    /// ```
    /// use warpkeep_containers::{Edge, Graph, GraphOptions};
    ///
    /// let graph = Graph::on_cpu(&GraphOptions::default());
    /// graph.insert_edges(&[Edge::new(3, 1), Edge::new(3, 0), Edge::new(3, 3)])?;
    /// assert_eq!(graph.neighbours(&[3])?.targets, [0, 1]);
    /// # Ok::<(), warpkeep_containers::ContainerError>(())
    /// ```
    pub fn on_cpu(options: &GraphOptions) -> Graph {
        Graph { options: options.clone(), kind: Kind::Cpu(CpuGraph::new(options)) }
    }

    /// How it was made.
    pub fn options(&self) -> &GraphOptions {
        &self.options
    }

    /// Adds edges. Those that are there have the new data.
    pub fn insert_edges(&self, edges: &[Edge]) -> Result<Vec<EdgeStatus>, ContainerError> {
        self.run(&HostBatch::All(EdgeOpKind::Insert, edges))
    }

    /// Removes edges, given by source and target.
    pub fn delete_edges(&self, edges: &[(u32, u32)]) -> Result<Vec<EdgeStatus>, ContainerError> {
        let edges: Vec<Edge> = edges.iter().map(|(source, target)| Edge::new(*source, *target)).collect();
        self.run(&HostBatch::All(EdgeOpKind::Delete, &edges))
    }

    /// Runs operations of both kinds, those on one edge in their order.
    pub fn apply(&self, ops: &[EdgeOp]) -> Result<Vec<EdgeStatus>, ContainerError> {
        self.run(&HostBatch::Each(ops))
    }

    /// Runs a batch in device memory after what is in the stream, and waits for it. `statuses` has a byte for each operation: an [`EdgeStatus`].
    ///
    /// # Errors
    /// If a buffer is too short or the graph is on the CPU, before anything is changed.
    pub fn apply_on(
        &self,
        ops: DeviceEdgeOps<'_>,
        statuses: &mut Buffer,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        let graph = self.on_device("apply_on")?;
        let staged = staged(&ops, statuses, &graph.device)?;
        // SAFETY: the lengths were checked; all buffers are borrowed, the one that is written exclusively.
        unsafe { graph.run_staged(&staged, None, stream) }
    }

    /// Makes vertices without edges; gives their numbers, which follow that of the last vertex. Inserts of edges make
    /// the vertices that they name by themselves.
    ///
    /// ```
    /// use warpkeep_containers::{Edge, Graph, GraphOptions};
    ///
    /// let graph = Graph::on_cpu(&GraphOptions::default());
    /// graph.insert_edges(&[Edge::new(0, 3)])?;
    /// assert_eq!(graph.insert_vertices(2)?, 4..6);
    /// assert_eq!((graph.vertex_count(), graph.csr()?.lists()), (6, 6));
    /// # Ok::<(), warpkeep_containers::ContainerError>(())
    /// ```
    ///
    /// # Errors
    /// If there are too many vertices, or too little memory for their records; nothing is changed then.
    pub fn insert_vertices(&self, count: u64) -> Result<Range<u32>, ContainerError> {
        let (before, vertices) = self.grow_vertices(|before| {
            let given = before.saturating_add(count);
            match given > MOST_VERTICES {
                true => Err(ContainerError::TooLarge { what: "vertices", given, most: MOST_VERTICES }),
                false => Ok(given),
            }
        })?;
        Ok(before as u32..vertices as u32)
    }

    /// Removes vertices: all edges that lead from them and to them. Their numbers can be used again. Gives the number of edges that went.
    ///
    /// It looks at every edge of the graph, so delete many vertices at once.
    pub fn delete_vertices(&self, vertices: &[u32]) -> Result<u64, ContainerError> {
        let (entries, loops) = match &self.kind {
            Kind::Device(graph) => graph.delete_vertices(vertices)?,
            Kind::Cpu(graph) => graph.delete_vertices(vertices),
        };
        Ok(if self.options.undirected { (entries + loops) / 2 } else { entries })
    }

    /// Which edges are there, given by source and target.
    pub fn edges_exist(&self, edges: &[(u32, u32)]) -> Result<Vec<bool>, ContainerError> {
        self.reading().exists(edges)
    }

    /// The edges with these sources and targets, with their data: weight, id and time; `None` for edges that are not
    /// there.
    ///
    /// ```
    /// use warpkeep_containers::{Edge, Graph, GraphOptions};
    ///
    /// let graph = Graph::on_cpu(&GraphOptions::default().undirected().ids());
    /// graph.insert_edges(&[Edge::new(0, 1).id(7)])?;
    /// assert_eq!(graph.find_edges(&[(1, 0), (0, 2)])?, [Some(Edge::new(1, 0).id(7)), None]);
    /// # Ok::<(), warpkeep_containers::ContainerError>(())
    /// ```
    pub fn find_edges(&self, edges: &[(u32, u32)]) -> Result<Vec<Option<Edge>>, ContainerError> {
        self.reading().find(edges)
    }

    /// How many edges leave each vertex; 0 for vertices that there are not.
    pub fn degrees(&self, vertices: &[u32]) -> Result<Vec<u32>, ContainerError> {
        self.reading().degrees(vertices)
    }

    /// The edges that leave these vertices, a list for each in the order given.
    pub fn neighbours(&self, vertices: &[u32]) -> Result<GraphCsr, ContainerError> {
        self.reading().lists(Listed::Some(vertices))
    }

    /// All edges: list `i` is that of vertex `i`. Edges of undirected graphs are in the lists of both ends.
    pub fn csr(&self) -> Result<GraphCsr, ContainerError> {
        self.reading().lists(Listed::All)
    }

    /// As [`csr`](Self::csr), in device memory and after what is in the stream; gives the number of vertices and that of edges in lists. Buffers need room for
    /// [`GraphStats::vertices`] plus 1 offsets and [`GraphStats::entries`] edges.
    ///
    /// # Errors
    /// If a buffer is too short or the graph is on the CPU.
    pub fn csr_on(&self, rows: DeviceCsr<'_>, stream: &Stream) -> Result<(u64, u64), ContainerError> {
        self.reading().csr_on(rows, stream)
    }

    /// All edges in ascending order of source and target. Those of undirected graphs are there once, with the smaller end as the source.
    pub fn edges(&self) -> Result<Vec<Edge>, ContainerError> {
        self.reading().edges()
    }

    /// How many vertices there are: the largest that an edge was inserted for, or that was made, plus 1.
    pub fn vertex_count(&self) -> u64 {
        self.stats().vertices
    }

    /// The exact number of edges. One of an undirected graph counts once.
    pub fn edge_count(&self) -> u64 {
        self.stats().edges
    }

    /// Moves all blocks together and gives each the size that its edges need. Batches do it by themselves when half of the blocks were left.
    pub fn compact(&self) -> Result<(), ContainerError> {
        match &self.kind {
            Kind::Device(graph) => graph.compact(),
            Kind::Cpu(_) => Ok(()),
        }
    }

    /// What kernels of others need to read the graph. See [`GraphRef`] for how long it is good.
    pub fn reference(&self) -> Result<GraphRef, ContainerError> {
        self.reading().reference()
    }

    /// Works all batches as large ones, for tests of both ways.
    ///
    /// # Panics
    /// If there are snapshots, or the graph is on the CPU.
    #[doc(hidden)]
    #[must_use]
    pub fn without_small_batches(mut self) -> Self {
        let Kind::Device(graph) = &mut self.kind else { panic!("it is on the CPU") };
        Arc::get_mut(graph).expect("there are no snapshots").most_runs = 0;
        self
    }

    fn on_device(&self, what: &'static str) -> Result<&DeviceGraph, ContainerError> {
        match &self.kind {
            Kind::Device(graph) => Ok(graph),
            Kind::Cpu(_) => Err(ContainerError::OnCpu { what }),
        }
    }

    fn run(&self, batch: &HostBatch<'_>) -> Result<Vec<EdgeStatus>, ContainerError> {
        match &self.kind {
            Kind::Device(graph) => graph.run(batch, None),
            Kind::Cpu(graph) => {
                self.check_vertices(batch)?;
                Ok(graph.run(batch))
            }
        }
    }

    /// An error if the batch names a vertex that there cannot be.
    fn check_vertices(&self, batch: &HostBatch<'_>) -> Result<(), ContainerError> {
        let (given, most) = (batch.extent(&self.options).named, MOST_VERTICES);
        match given > most {
            true => Err(ContainerError::TooLarge { what: "vertices", given, most }),
            false => Ok(()),
        }
    }

    /// The present state, which calls that change the graph wait for.
    fn reading(&self) -> Reading<'_> {
        let (state, guard) = match &self.kind {
            Kind::Device(graph) => {
                let storage = graph.read();
                (State::Device(graph, storage.view()), Some(storage))
            }
            Kind::Cpu(graph) => (State::Cpu(graph.current()), None),
        };
        Reading { options: &self.options, state, _guard: guard }
    }

    /// Grows the graph to the number of vertices that `wanted` returns for the present number; gives the numbers before
    /// and after. An error changes nothing.
    fn grow_vertices(
        &self,
        wanted: impl FnOnce(u64) -> Result<u64, ContainerError>,
    ) -> Result<(u64, u64), ContainerError> {
        match &self.kind {
            Kind::Device(graph) => {
                let _turn = graph.turn();
                let mut storage = graph.write();
                let (before, slots) = (storage.vertices, storage.pool_end);
                let vertices = before.max(wanted(before)?);
                if vertices > before {
                    storage.grow(vertices, slots)?;
                    storage.vertices = vertices;
                    storage.version += 1;
                }
                Ok((before, vertices))
            }
            Kind::Cpu(graph) => graph.grow_vertices(wanted),
        }
    }
}

/// The columns of a batch in device memory, if all are of this device and long enough.
fn staged(ops: &DeviceEdgeOps<'_>, statuses: &mut Buffer, device: &Device) -> Result<Staged, ContainerError> {
    let count = ops.count;
    let column = |buffer: Option<&Buffer>, element, what| own_column(buffer, element, count, what, device);
    let (codes, code) = match ops.kinds {
        EdgeOpKinds::All(kind) => (None, kind as u32),
        EdgeOpKinds::Each(codes) => (Some(codes), 0),
    };
    Ok(Staged {
        sources: column(Some(ops.sources), 4, "sources")?,
        targets: column(Some(ops.targets), 4, "targets")?,
        codes: column(codes, 1, "kinds of operations")?,
        code,
        weights: column(ops.weights, 4, "weights")?,
        ids: column(ops.ids, 8, "ids")?,
        times: column(ops.times, 8, "times")?,
        statuses: column(Some(statuses), 1, "statuses")?,
        count,
    })
}
