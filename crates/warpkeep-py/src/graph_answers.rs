//! Edges and samples of a graph, as arrays.

use pyo3::prelude::*;

use warpkeep_containers::Edge;

use crate::container::{Element, Like};
use crate::dtype::Dtype;

const F32: Dtype = Dtype { kind: b'f', size: 4 };

/// Node numbers, as libraries for graphs want them.
pub(crate) fn nodes<'py>(py: Python<'py>, like: Like, numbers: &[u32]) -> PyResult<Bound<'py, PyAny>> {
    let numbers: Vec<i64> = numbers.iter().map(|number| i64::from(*number)).collect();
    like.column(py, Dtype::I64, &numbers)
}

/// A column, if the edges have it.
fn data<T: Element>(
    py: Python<'_>,
    like: Like,
    has: bool,
    dtype: Dtype,
    elements: &[T],
) -> PyResult<Option<Py<PyAny>>> {
    has.then(|| Ok(like.column(py, dtype, elements)?.unbind())).transpose()
}

/// Lists of edges in compressed sparse rows.
#[pyclass(frozen, get_all, module = "warpkeep")]
pub(crate) struct GraphCsr {
    /// Where each list begins, and where the last one ends.
    indptr: Py<PyAny>,
    /// The nodes that edges lead to, in ascending order within each list.
    indices: Py<PyAny>,
    /// The weights of edges; None if the graph has none.
    weights: Option<Py<PyAny>>,
    /// The ids of edges; None if the graph has none.
    ids: Option<Py<PyAny>>,
    /// The times of edges; None if the graph has none.
    times: Option<Py<PyAny>>,
}

impl GraphCsr {
    pub(crate) fn new(
        py: Python<'_>,
        like: Like,
        csr: &warpkeep_containers::GraphCsr,
        (has_weights, has_ids, has_times): (bool, bool, bool),
    ) -> PyResult<GraphCsr> {
        Ok(GraphCsr {
            indptr: like.column(py, Dtype::I64, &csr.offsets)?.unbind(),
            indices: nodes(py, like, &csr.targets)?.unbind(),
            weights: data(py, like, has_weights, F32, &csr.weights)?,
            ids: data(py, like, has_ids, Dtype::I64, &csr.ids)?,
            times: data(py, like, has_times, Dtype::I64, &csr.times)?,
        })
    }
}

/// Edges one by one.
#[pyclass(frozen, get_all, module = "warpkeep")]
pub(crate) struct GraphEdges {
    /// The node that each edge leaves.
    src: Py<PyAny>,
    /// The node that each edge leads to.
    dst: Py<PyAny>,
    /// The weights of edges; None if the graph has none.
    weights: Option<Py<PyAny>>,
    /// The ids of edges; None if the graph has none.
    ids: Option<Py<PyAny>>,
    /// The times of edges; None if the graph has none.
    times: Option<Py<PyAny>>,
}

impl GraphEdges {
    pub(crate) fn new(
        py: Python<'_>,
        edges: &[Edge],
        (has_weights, has_ids, has_times): (bool, bool, bool),
    ) -> PyResult<GraphEdges> {
        let like = Like::NUMPY;
        let ends = |end: fn(&Edge) -> u32| {
            let numbers: Vec<u32> = edges.iter().map(end).collect();
            nodes(py, like, &numbers).map(Bound::unbind)
        };
        let weights: Vec<f32> = edges.iter().map(|edge| edge.weight).collect();
        let ids: Vec<u64> = edges.iter().map(|edge| edge.id).collect();
        let times: Vec<i64> = edges.iter().map(|edge| edge.time).collect();
        Ok(GraphEdges {
            src: ends(|edge| edge.source)?,
            dst: ends(|edge| edge.target)?,
            weights: data(py, like, has_weights, F32, &weights)?,
            ids: data(py, like, has_ids, Dtype::I64, &ids)?,
            times: data(py, like, has_times, Dtype::I64, &times)?,
        })
    }
}

/// The nodes and edges that were found from some seeds. Nodes are renumbered in the order in which they were found, the seeds first.
#[pyclass(frozen, get_all, module = "warpkeep")]
pub(crate) struct GraphSample {
    /// The node of each new number.
    pub(crate) nodes: Py<PyAny>,
    /// The new number of each seed.
    pub(crate) seeds: Py<PyAny>,
    /// For each edge the new number of its source.
    pub(crate) row: Py<PyAny>,
    /// For each edge the new number of its target.
    pub(crate) col: Py<PyAny>,
    /// The position of the seed that each node was found from, if seeds have times; None otherwise, where seeds share nodes.
    pub(crate) batch: Option<Py<PyAny>>,
    /// The ids of edges; None if the graph has none.
    pub(crate) ids: Option<Py<PyAny>>,
    /// The times of edges; None if the graph has none.
    pub(crate) times: Option<Py<PyAny>>,
    /// How many nodes the seeds are, and how many each hop found.
    pub(crate) nodes_per_hop: Vec<u64>,
    /// How many edges each hop found.
    pub(crate) edges_per_hop: Vec<u64>,
}

impl GraphSample {
    pub(crate) fn new(
        py: Python<'_>,
        like: Like,
        sample: warpkeep_containers::GraphSample,
        (has_batch, has_ids, has_times): (bool, bool, bool),
    ) -> PyResult<GraphSample> {
        Ok(GraphSample {
            nodes: nodes(py, like, &sample.vertices)?.unbind(),
            seeds: nodes(py, like, &sample.seeds)?.unbind(),
            row: nodes(py, like, &sample.rows)?.unbind(),
            col: nodes(py, like, &sample.cols)?.unbind(),
            batch: has_batch.then(|| nodes(py, like, &sample.batch).map(Bound::unbind)).transpose()?,
            ids: data(py, like, has_ids, Dtype::I64, &sample.ids)?,
            times: data(py, like, has_times, Dtype::I64, &sample.times)?,
            nodes_per_hop: sample.vertices_per_hop,
            edges_per_hop: sample.edges_per_hop,
        })
    }
}
