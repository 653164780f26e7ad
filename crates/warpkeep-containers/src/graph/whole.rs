//! What is asked of vertices, or of a whole graph, in device memory.

use warpkeep_device::{Buffer, DevicePtr, Result, Stream};

use super::DeviceCsr;
use super::csr::GraphCsr;
use super::device::DeviceGraph;
use super::edge::Edge;
use super::kernels::{Gather, Lookup, VERIFIED_WORDS, Verify, WARP};
use super::reading::View;
use super::storage::{RECORD, Storage};
use crate::ContainerError;
use crate::batch_columns::own_column;

/// Edges that are read at once.
const PART: u64 = 1 << 20;
/// Sums of lists have 32 bits on the device.
const MOST_LISTED: u64 = u32::MAX as u64;

/// The vertices whose lists are asked for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Listed<'a> {
    All,
    Some(&'a [u32]),
}

/// An error if there are more of them than a call can list.
pub(super) fn check_listed(what: &'static str, given: u64) -> Result<(), ContainerError> {
    match given > MOST_LISTED {
        true => Err(ContainerError::TooLarge { what, given, most: MOST_LISTED }),
        false => Ok(()),
    }
}

impl DeviceGraph {
    pub(super) fn exists(&self, edges: &[(u32, u32)], view: &View) -> Result<Vec<bool>> {
        let workspace = self.workspaces.take(&self.device)?;
        let found = self.look_up(edges, view, [false; 3], &workspace.stream)?.0;
        self.workspaces.put_back(workspace);
        Ok(found.into_iter().map(|found| found != 0).collect())
    }

    /// Those of the edges that are there, with their data.
    pub(super) fn find(&self, edges: &[(u32, u32)], view: &View) -> Result<Vec<Option<Edge>>> {
        let workspace = self.workspaces.take(&self.device)?;
        let options = &self.options;
        let wanted = [options.weights, options.ids, options.times];
        let (found, weights, ids, times) = self.look_up(edges, view, wanted, &workspace.stream)?;
        self.workspaces.put_back(workspace);
        let edge = |at: usize, &(source, target): &(u32, u32)| {
            let nothing = Edge::new(source, target);
            (found[at] != 0).then(|| Edge {
                weight: weights.get(at).copied().unwrap_or(nothing.weight),
                id: ids.get(at).copied().unwrap_or(nothing.id),
                time: times.get(at).copied().unwrap_or(nothing.time),
                ..nothing
            })
        };
        Ok(edges.iter().enumerate().map(|(at, pair)| edge(at, pair)).collect())
    }

    /// Which edges are there, and of their data what is wanted.
    #[expect(clippy::type_complexity, reason = "they are four columns")]
    fn look_up(
        &self,
        edges: &[(u32, u32)],
        view: &View,
        wanted: [bool; 3],
        stream: &Stream,
    ) -> Result<(Vec<u8>, Vec<f32>, Vec<u64>, Vec<i64>)> {
        let count = edges.len();
        let column = |side: fn(&(u32, u32)) -> u32| -> Result<Buffer> {
            self.device.upload(&edges.iter().map(side).collect::<Vec<u32>>())
        };
        let (sources, targets) = (column(|edge| edge.0)?, column(|edge| edge.1)?);
        let found = self.device.allocate(count)?;
        let data = |wanted: bool, bytes| wanted.then(|| self.device.allocate(bytes * count)).transpose();
        let (weights, ids, times) = (data(wanted[0], 4)?, data(wanted[1], 8)?, data(wanted[2], 8)?);
        let at = |buffer: &Option<Buffer>| buffer.as_ref().map_or(DevicePtr::NULL, Buffer::ptr);
        let params = Lookup {
            graph: view.graph,
            sources: sources.ptr(),
            targets: targets.ptr(),
            found: found.ptr(),
            weights: at(&weights),
            ids: at(&ids),
            times: at(&times),
            count: count as u64,
        };
        // SAFETY: the columns have `count` elements; the state is there until the stream is synchronised.
        unsafe { self.launch(&self.kernels.exists, count as u64, &params, stream)? };
        let mut columns = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        append(&mut columns.0, Some(&found), count, stream)?;
        append(&mut columns.1, weights.as_ref(), count, stream)?;
        append(&mut columns.2, ids.as_ref(), count, stream)?;
        append(&mut columns.3, times.as_ref(), count, stream)?;
        Ok(columns)
    }

    pub(super) fn degrees(&self, vertices: &[u32], view: &View) -> Result<Vec<u32>, ContainerError> {
        let workspace = self.workspaces.take(&self.device)?;
        let lists = self.measure_lists(Listed::Some(vertices), view, &workspace.stream)?;
        let mut degrees = vec![0_u32; vertices.len()];
        lists.begins.read_on(0, &mut degrees, &workspace.stream)?;
        self.workspaces.put_back(workspace);
        Ok(degrees)
    }

    /// The lists of these vertices.
    pub(super) fn lists(&self, listed: Listed<'_>, view: &View) -> Result<GraphCsr, ContainerError> {
        let workspace = self.workspaces.take(&self.device)?;
        let csr = self.read_lists(listed, view, &workspace.stream)?;
        self.workspaces.put_back(workspace);
        Ok(csr)
    }

    fn measure_lists(
        &self,
        listed: Listed<'_>,
        view: &View,
        stream: &Stream,
    ) -> Result<Lists, ContainerError> {
        let (count, vertices) = match listed {
            Listed::All => (view.vertices(), None),
            Listed::Some(vertices) => (vertices.len() as u64, Some(self.device.upload(vertices)?)),
        };
        check_listed("vertices of one call", count)?;
        let begins = self.device.allocate(4 * (count as usize + 1))?;
        let total = self.device.allocate_zeroed(8)?;
        let null = DevicePtr::NULL;
        let params = Gather {
            graph: view.graph,
            listed: vertices.as_ref().map_or(null, Buffer::ptr),
            count,
            begins: begins.ptr(),
            total: total.ptr(),
            first: 0,
            edges: 0,
            targets: null,
            weights: null,
            ids: null,
            times: null,
        };
        // SAFETY: the columns have an element for each vertex and one more; the state is there until the stream is synchronised, by the read below.
        unsafe { self.launch(&self.kernels.degrees, count + 1, &params, stream)? };
        let mut edges = [0_u64];
        total.read_on(0, &mut edges, stream)?;
        Ok(Lists { params, begins, edges: edges[0], _memory: (vertices, total) })
    }

    fn read_lists(
        &self,
        listed: Listed<'_>,
        view: &View,
        stream: &Stream,
    ) -> Result<GraphCsr, ContainerError> {
        let mut lists = self.measure_lists(listed, view, stream)?;
        let (count, edges) = (lists.params.count as usize, lists.edges);
        check_listed("edges of one call", edges)?;
        self.sorter.exclusive_scan(&mut lists.begins, count + 1, stream)?;
        let mut offsets = vec![0_u32; count + 1];
        lists.begins.read_on(0, &mut offsets, stream)?;
        let room = edges.min(PART) as usize;
        let has = |has: bool, bytes| has.then(|| self.device.allocate(bytes * room)).transpose();
        let options = &self.options;
        let targets = self.device.allocate(4 * room)?;
        let (weights, ids, times) = (has(options.weights, 4)?, has(options.ids, 8)?, has(options.times, 8)?);
        let at = |buffer: &Option<Buffer>| buffer.as_ref().map_or(DevicePtr::NULL, Buffer::ptr);
        let mut params = lists.params;
        (params.targets, params.weights) = (targets.ptr(), at(&weights));
        (params.ids, params.times) = (at(&ids), at(&times));
        let mut csr =
            GraphCsr { offsets: offsets.into_iter().map(u64::from).collect(), ..GraphCsr::default() };
        for first in (0..edges).step_by(PART as usize) {
            (params.first, params.edges) = (first, (edges - first).min(PART));
            // SAFETY: the columns have room for a part; the state is there until the stream is synchronised.
            unsafe { self.launch(&self.kernels.gather, params.edges, &params, stream)? };
            let part = params.edges as usize;
            append(&mut csr.targets, Some(&targets), part, stream)?;
            append(&mut csr.weights, weights.as_ref(), part, stream)?;
            append(&mut csr.ids, ids.as_ref(), part, stream)?;
            append(&mut csr.times, times.as_ref(), part, stream)?;
        }
        Ok(csr)
    }

    /// The lists of all vertices, to memory of the caller.
    pub(super) fn csr_on(
        &self,
        rows: DeviceCsr<'_>,
        view: &View,
        stream: &Stream,
    ) -> Result<(u64, u64), ContainerError> {
        let DeviceCsr { offsets, targets, weights, ids, times } = rows;
        let (count, edges) = (view.vertices() as usize, view.entries as usize);
        let column = |has: bool, buffer: Option<&Buffer>, element, what| match has {
            true => own_column(buffer, element, edges, what, &self.device),
            false => Ok(DevicePtr::NULL),
        };
        let options = &self.options;
        let total = self.device.allocate_zeroed(8)?;
        let params = Gather {
            graph: view.graph,
            listed: DevicePtr::NULL,
            count: count as u64,
            begins: own_column(Some(&*offsets), 4, count + 1, "offsets", &self.device)?,
            total: total.ptr(),
            first: 0,
            edges: edges as u64,
            targets: column(true, Some(&*targets), 4, "targets")?,
            weights: column(options.weights, weights.as_deref(), 4, "weights")?,
            ids: column(options.ids, ids.as_deref(), 8, "ids")?,
            times: column(options.times, times.as_deref(), 8, "times")?,
        };
        // SAFETY: the lengths were checked, and the buffers are borrowed exclusively; the state is there until the stream is synchronised.
        unsafe {
            self.launch(&self.kernels.degrees, count as u64 + 1, &params, stream)?;
            self.sorter.exclusive_scan(offsets, count + 1, stream)?;
            self.launch(&self.kernels.gather, edges as u64, &params, stream)?;
        }
        stream.synchronize()?;
        Ok((count as u64, edges as u64))
    }

    /// An error unless all lists are sorted, lie in blocks of their own, lead to vertices, lead back if the graph is undirected, and all sums are exact.
    pub(super) fn verify(&self) -> Result<(), ContainerError> {
        let workspace = self.workspaces.take(&self.device)?;
        let (stream, storage) = (&workspace.stream, self.read());
        let control = self.device.allocate_zeroed(8 * VERIFIED_WORDS)?;
        let params = Verify {
            graph: storage.reference(),
            pool_end: storage.pool_end,
            control: control.ptr(),
            mirrored: u32::from(self.options.undirected),
            drops_loops: u32::from(!self.options.keeps_loops),
        };
        // SAFETY: the storage is borrowed until the stream is synchronised.
        unsafe { self.launch(&self.kernels.verify, WARP * storage.vertices, &params, stream)? };
        let mut counted = [0_u64; VERIFIED_WORDS];
        control.read_on(0, &mut counted, stream)?;
        let [outside, unsorted, unknown, one_way, loops, edges, slots] = counted;
        let forbidden = if self.options.keeps_loops { 0 } else { loops };
        let wrong = [
            (outside, "lists are not within their blocks"),
            (unsorted, "edges are not in the order of their targets"),
            (unknown, "edges lead to vertices that there are not"),
            (one_way, "edges of an undirected graph do not lead back with the same data"),
            (forbidden, "edges lead to their own source"),
            (loops.abs_diff(storage.loops), "is the difference between the loops and their count"),
            (edges.abs_diff(storage.entries), "is the difference between the edges and their count"),
            ((slots + storage.dead).abs_diff(storage.pool_end), "is the difference between slots and blocks"),
            (overlaps(&storage)?, "blocks overlap"),
        ];
        drop(storage);
        self.workspaces.put_back(workspace);
        match wrong.iter().find(|(count, _)| *count > 0) {
            Some((count, what)) => Err(ContainerError::Inconsistent { what: format!("{count} {what}") }),
            None => Ok(()),
        }
    }
}

/// Lists that were measured.
struct Lists {
    params: Gather,
    /// Degrees, before they are summed up.
    begins: Buffer,
    edges: u64,
    /// What the parameters point to.
    _memory: (Option<Buffer>, Buffer),
}

/// Appends the first elements of a column, if there is one.
fn append<T: bytemuck::Pod>(
    to: &mut Vec<T>,
    column: Option<&Buffer>,
    count: usize,
    stream: &Stream,
) -> Result<()> {
    let Some(column) = column else { return Ok(()) };
    let begin = to.len();
    to.resize(begin + count, T::zeroed());
    column.read_on(0, &mut to[begin..], stream)
}

/// How many blocks begin within another one.
fn overlaps(storage: &Storage) -> Result<u64> {
    let mut records = vec![[0_u32; RECORD / 4]; storage.vertices as usize];
    storage.records.read(0, &mut records)?;
    let mut blocks: Vec<(u64, u64)> = records
        .iter()
        .filter(|[_, _, capacity, _]| *capacity > 0)
        .map(|[begin, _, capacity, _]| (u64::from(*begin), u64::from(*capacity)))
        .collect();
    blocks.sort_unstable();
    Ok(blocks.windows(2).filter(|pair| pair[0].0 + pair[0].1 > pair[1].0).count() as u64)
}
