//! Edges and samples of a graph, as arrays.

use pyo3::prelude::*;

use crate::container::{Element, column};
use crate::dtype::Dtype;

/// Node numbers, as libraries for graphs want them.
fn nodes(py: Python<'_>, numbers: &[u32]) -> PyResult<Py<PyAny>> {
    let numbers: Vec<i64> = numbers.iter().map(|number| i64::from(*number)).collect();
    Ok(column(py, Dtype::I64, &numbers)?.unbind())
}

/// A column, if the edges have it.
fn data<T: Element>(py: Python<'_>, has: bool, dtype: Dtype, elements: &[T]) -> PyResult<Option<Py<PyAny>>> {
    has.then(|| Ok(column(py, dtype, elements)?.unbind())).transpose()
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
        csr: &warpkeep_containers::GraphCsr,
        (has_weights, has_ids, has_times): (bool, bool, bool),
    ) -> PyResult<GraphCsr> {
        Ok(GraphCsr {
            indptr: column(py, Dtype::I64, &csr.offsets)?.unbind(),
            indices: nodes(py, &csr.targets)?,
            weights: data(py, has_weights, Dtype { kind: b'f', size: 4 }, &csr.weights)?,
            ids: data(py, has_ids, Dtype::I64, &csr.ids)?,
            times: data(py, has_times, Dtype::I64, &csr.times)?,
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
        sample: warpkeep_containers::GraphSample,
        (has_batch, has_ids, has_times): (bool, bool, bool),
    ) -> PyResult<GraphSample> {
        Ok(GraphSample {
            nodes: nodes(py, &sample.vertices)?,
            seeds: nodes(py, &sample.seeds)?,
            row: nodes(py, &sample.rows)?,
            col: nodes(py, &sample.cols)?,
            batch: has_batch.then(|| nodes(py, &sample.batch)).transpose()?,
            ids: data(py, has_ids, Dtype::I64, &sample.ids)?,
            times: data(py, has_times, Dtype::I64, &sample.times)?,
            nodes_per_hop: sample.vertices_per_hop,
            edges_per_hop: sample.edges_per_hop,
        })
    }
}
