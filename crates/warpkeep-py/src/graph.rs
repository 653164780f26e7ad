//! The graph of the containers, over arrays.
#![allow(clippy::needless_pass_by_value, reason = "Python's paths come by value")]
#![allow(clippy::fn_params_excessive_bools, reason = "Python's keywords")]

use std::fmt::Display;
use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use warpkeep_containers::{ContainerError, Edge, EdgeStatus, GraphOptions, SampleOptions};

use crate::container::{Element, Home, Like, elements, host_column};
use crate::device_array::DeviceArray;
use crate::device_columns::is_on_device;
use crate::dtype::Dtype;
use crate::errors::{OrRaise, exception};
use crate::graph_answers::{GraphCsr, GraphEdges, GraphSample};
use crate::graph_device::Room;

const F32: Dtype = Dtype { kind: b'f', size: 4 };
const F64: Dtype = Dtype { kind: b'f', size: 8 };
const U32: Dtype = Dtype { kind: b'u', size: 4 };
const I32: Dtype = Dtype { kind: b'i', size: 4 };

/// A graph whose edges change in batches, in the memory of the host or of a device. It is not a table of a store: it is gone with the
/// process unless it is saved.
#[pyclass(frozen, module = "warpkeep")]
pub(crate) struct Graph {
    graph: warpkeep_containers::Graph,
    shape: Shape,
    home: Home,
    /// For samples in device memory.
    room: Room,
}

/// How a graph was made.
#[derive(Clone, Copy)]
struct Shape {
    undirected: bool,
    weights: bool,
    ids: bool,
    times: bool,
    loops: bool,
}

impl Shape {
    fn options(self) -> GraphOptions {
        let mut options = GraphOptions::default();
        if self.undirected {
            options = options.undirected();
        }
        if self.weights {
            options = options.weights();
        }
        if self.ids {
            options = options.ids();
        }
        if self.times {
            options = options.times();
        }
        if self.loops {
            options = options.keep_loops();
        }
        options
    }
}

/// Refuses what needs data that the edges do not have.
fn check_data(what: &str, has: bool, option: &str) -> PyResult<()> {
    match has {
        true => Ok(()),
        false => Err(PyValueError::new_err(format!(
            "{what}: the edges of this graph have no {option}; make the graph with {option}=True"
        ))),
    }
}

/// Node numbers of an argument, integers of 4 or 8 bytes, and its library.
fn nodes(object: &Bound<'_, PyAny>, what: &'static str) -> PyResult<(Vec<u32>, Like)> {
    let array = host_column(object, what, &[Dtype::I64, U32, I32, Dtype::U64])?;
    let py = object.py();
    let numbers = match array.dtype {
        U32 => fitting(py, what, elements::<u32>(&array)),
        I32 => fitting(py, what, elements::<i32>(&array)),
        Dtype::U64 => fitting(py, what, elements::<u64>(&array)),
        _ => fitting(py, what, elements::<i64>(&array)),
    };
    Ok((numbers?, Like::of(&array)))
}

fn fitting<T>(py: Python<'_>, what: &str, numbers: &[T]) -> PyResult<Vec<u32>>
where
    T: Element + TryInto<u32> + Display + Sync,
{
    let converted: Result<Vec<u32>, usize> = py.detach(|| {
        numbers.iter().enumerate().map(|(at, number)| (*number).try_into().map_err(|_| at)).collect()
    });
    converted.map_err(|at| {
        PyValueError::new_err(format!(
            "{what}: element {at} is {}; nodes are numbers from 0 to 2^32 - 2, so renumber them",
            numbers[at]
        ))
    })
}

/// Refuses a column that has another length than the nodes that it belongs to.
fn check_length(py: Python<'_>, what: &str, given: usize, needed: usize) -> PyResult<()> {
    match given == needed {
        true => Ok(()),
        false => {
            let message = format!("{what}: {given} were given and {needed} are needed; give one for each");
            Err(exception(py, "SpecError", &message))
        }
    }
}

/// The ends of edges, and the library of the sources.
fn ends(src: &Bound<'_, PyAny>, dst: &Bound<'_, PyAny>) -> PyResult<(Vec<(u32, u32)>, Like)> {
    let ((sources, like), (targets, _)) = (nodes(src, "src")?, nodes(dst, "dst")?);
    check_length(src.py(), "dst", targets.len(), sources.len())?;
    Ok((sources.into_iter().zip(targets).collect(), like))
}

/// The numbers of edges that hops choose of each node; -1 is all.
fn fanouts_of(fanouts: &[i64], replace: bool) -> PyResult<Vec<u32>> {
    let fanout = |fanout: &i64| match *fanout {
        -1 if replace => Err(PyValueError::new_err(
            "fanouts: -1 takes all edges, and replace=True has no end then; give a number, or replace=False",
        )),
        -1 => Ok(u32::MAX),
        other => u32::try_from(other).map_err(|_| {
            PyValueError::new_err(format!(
                "fanouts: {other} is no number of edges; give 0 to 2^32 - 1, or -1 for all"
            ))
        }),
    };
    fanouts.iter().map(fanout).collect()
}

#[pymethods]
impl Graph {
    #[new]
    #[pyo3(signature = (device = "cpu", undirected = false, weights = false, ids = false, times = false, *, loops = false))]
    fn new(
        py: Python<'_>,
        device: &str,
        undirected: bool,
        weights: bool,
        ids: bool,
        times: bool,
        loops: bool,
    ) -> PyResult<Graph> {
        let shape = Shape { undirected, weights, ids, times, loops };
        let options = shape.options();
        let (graph, home) = Home::make(py, device, |device| match device {
            None => Ok(warpkeep_containers::Graph::on_cpu(&options)),
            Some(device) => warpkeep_containers::Graph::new(device, &options),
        })?;
        Ok(Graph { graph, shape, home, room: Room::default() })
    }

    /// The graph of a file that `save` wrote, with the options that the saved graph had.
    #[staticmethod]
    #[pyo3(signature = (path, device = "cpu", undirected = false, weights = false, ids = false, times = false, *, loops = false))]
    #[allow(clippy::too_many_arguments, reason = "Python's keywords")]
    fn load(
        py: Python<'_>,
        path: PathBuf,
        device: &str,
        undirected: bool,
        weights: bool,
        ids: bool,
        times: bool,
        loops: bool,
    ) -> PyResult<Graph> {
        let shape = Shape { undirected, weights, ids, times, loops };
        let options = shape.options();
        let (graph, home) = Home::make(py, device, |device| match device {
            None => warpkeep_containers::Graph::load_on_cpu(&path, &options),
            Some(device) => warpkeep_containers::Graph::load(device, &path, &options),
        })?;
        Ok(Graph { graph, shape, home, room: Room::default() })
    }

    /// Adds edges; which of them are new. Those that are there have the new weights, ids and times.
    #[pyo3(signature = (src, dst, *, weight = None, id = None, time = None))]
    fn add_edges<'py>(
        &self,
        py: Python<'py>,
        src: &Bound<'py, PyAny>,
        dst: &Bound<'py, PyAny>,
        weight: Option<&Bound<'py, PyAny>>,
        id: Option<&Bound<'py, PyAny>>,
        time: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.home.check(py)?;
        let (ends, like) = ends(src, dst)?;
        let given = |data: Option<&Bound<'py, PyAny>>, what, dtype, (has, option)| {
            let Some(data) = data else { return Ok(None) };
            check_data(what, has, option)?;
            let array = host_column(data, what, &[dtype])?;
            check_length(py, what, array.count(), ends.len())?;
            Ok::<_, PyErr>(Some(array))
        };
        let weights = given(weight, "weight", F32, (self.shape.weights, "weights"))?;
        let ids = given(id, "id", Dtype::I64, (self.shape.ids, "ids"))?;
        let times = given(time, "time", Dtype::I64, (self.shape.times, "times"))?;
        let weights: Option<&[f32]> = weights.as_ref().map(elements);
        let ids: Option<&[u64]> = ids.as_ref().map(elements);
        let times: Option<&[i64]> = times.as_ref().map(elements);
        let answers = self
            .home
            .detach(py, || {
                let edge = |(at, (source, target)): (usize, &(u32, u32))| {
                    let mut edge = Edge::new(*source, *target);
                    edge.weight = weights.map_or(edge.weight, |weights| weights[at]);
                    edge.id = ids.map_or(edge.id, |ids| ids[at]);
                    edge.time = times.map_or(edge.time, |times| times[at]);
                    edge
                };
                let edges: Vec<Edge> = ends.iter().enumerate().map(edge).collect();
                self.graph.insert_edges(&edges)
            })
            .or_raise(py)?;
        like.flags(py, answers.into_iter().map(|answer| answer == EdgeStatus::Inserted))
    }

    /// Removes edges; which of them were there.
    fn remove_edges<'py>(
        &self,
        py: Python<'py>,
        src: &Bound<'py, PyAny>,
        dst: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.home.check(py)?;
        let (ends, like) = ends(src, dst)?;
        let answers = self.home.detach(py, || self.graph.delete_edges(&ends)).or_raise(py)?;
        like.flags(py, answers.into_iter().map(|answer| answer == EdgeStatus::Deleted))
    }

    /// Removes all edges from and to these nodes; how many there were. It looks at every edge of the graph.
    fn remove_nodes(&self, py: Python<'_>, nodes: &Bound<'_, PyAny>) -> PyResult<u64> {
        self.home.check(py)?;
        let (nodes, _) = self::nodes(nodes, "nodes")?;
        self.home.detach(py, || self.graph.delete_vertices(&nodes)).or_raise(py)
    }

    /// Which edges are there.
    fn has_edges<'py>(
        &self,
        py: Python<'py>,
        src: &Bound<'py, PyAny>,
        dst: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.home.check(py)?;
        let (ends, like) = ends(src, dst)?;
        like.flags(py, self.home.detach(py, || self.graph.edges_exist(&ends)).or_raise(py)?.into_iter())
    }

    /// How many edges leave each node.
    fn degrees<'py>(&self, py: Python<'py>, nodes: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.home.check(py)?;
        let (nodes, like) = self::nodes(nodes, "nodes")?;
        let degrees = self.home.detach(py, || self.graph.degrees(&nodes)).or_raise(py)?;
        let degrees: Vec<i64> = degrees.into_iter().map(i64::from).collect();
        like.column(py, Dtype::I64, &degrees)
    }

    /// The edges that leave these nodes: a list for each in the order given.
    fn neighbours(&self, py: Python<'_>, nodes: &Bound<'_, PyAny>) -> PyResult<GraphCsr> {
        self.home.check(py)?;
        let (nodes, like) = self::nodes(nodes, "nodes")?;
        self.lists(py, like, || self.graph.neighbours(&nodes))
    }

    /// All edges: list `i` is that of node `i`. Those of undirected graphs are in the lists of both ends.
    fn csr(&self, py: Python<'_>) -> PyResult<GraphCsr> {
        self.home.check(py)?;
        self.lists(py, Like::NUMPY, || self.graph.csr())
    }

    /// Samples the neighbourhood of seeds, a hop for each fan-out. With `times`, one for each seed, no edge is later than the time of its seed.
    #[pyo3(signature = (seeds, fanouts, *, times = None, pick = "uniform", replace = false, window = None, strict = false, seed = 0))]
    #[allow(clippy::too_many_arguments, reason = "Python's keywords")]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        seeds: &Bound<'py, PyAny>,
        fanouts: Vec<i64>,
        times: Option<&Bound<'py, PyAny>>,
        pick: &str,
        replace: bool,
        window: Option<u64>,
        strict: bool,
        seed: u64,
    ) -> PyResult<GraphSample> {
        self.home.check(py)?;
        let mut options = SampleOptions::new(&fanouts_of(&fanouts, replace)?).seed(seed);
        options = match pick {
            "uniform" => options,
            "weighted" => {
                check_data("pick='weighted'", self.shape.weights, "weights")?;
                options.weighted()
            }
            "last" => {
                check_data("pick='last'", self.shape.times, "times")?;
                options.last()
            }
            other => {
                return Err(PyValueError::new_err(format!(
                    "'{other}' is no way to choose edges; write uniform, weighted or last"
                )));
            }
        };
        if replace {
            options = options.with_replacement();
        }
        if (window.is_some() || strict) && times.is_none() {
            return Err(PyValueError::new_err(
                "window and strict count from the times of seeds; give times, one for each seed",
            ));
        }
        if let Some(window) = window {
            options = options.window(window);
        }
        if strict {
            options = options.before();
        }
        if times.is_some() {
            check_data("times", self.shape.times, "times")?;
        }
        if let Some(device) = self.home.on_device()
            && is_on_device(seeds)?
        {
            return self.room.sample(&self.home, &self.graph, device, seeds, times, &options);
        }
        let (seeds, like) = nodes(seeds, "seeds")?;
        let times = match times {
            None => None,
            Some(times) => {
                let array = host_column(times, "times", &[Dtype::I64])?;
                check_length(py, "times", array.count(), seeds.len())?;
                Some(array)
            }
        };
        let times: Option<&[i64]> = times.as_ref().map(elements);
        let sample = self
            .home
            .detach(py, || match times {
                None => self.graph.sample(&seeds, &options),
                Some(times) => self.graph.sample_at(&seeds, times, &options),
            })
            .or_raise(py)?;
        let Shape { ids: has_ids, times: has_times, .. } = self.shape;
        GraphSample::new(py, like, sample, (times.is_some(), has_ids, has_times))
    }

    /// All edges in ascending order of source and target. Those of undirected graphs are there once, with the smaller end as the source.
    fn edges(&self, py: Python<'_>) -> PyResult<GraphEdges> {
        self.home.check(py)?;
        let edges = self.home.detach(py, || self.graph.edges()).or_raise(py)?;
        GraphEdges::new(py, &edges, (self.shape.weights, self.shape.ids, self.shape.times))
    }

    /// Makes nodes without edges: their numbers, which follow that of the last node. Edges make the nodes that they name by themselves.
    fn add_nodes<'py>(&self, py: Python<'py>, count: u64) -> PyResult<Bound<'py, PyAny>> {
        self.home.check(py)?;
        let made = self.home.detach(py, || self.graph.insert_vertices(count)).or_raise(py)?;
        py.import("builtins")?.call_method1("range", (made.start, made.end))
    }

    /// How many edges lead from the nearest of these nodes to each node of the graph, at least; -1 where no path leads.
    fn bfs<'py>(&self, py: Python<'py>, sources: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.home.check(py)?;
        let (sources, like) = nodes(sources, "sources")?;
        let levels = self.home.detach(py, || self.graph.bfs(&sources)).or_raise(py)?;
        let levels = levels.into_iter().map(|level| if level == u32::MAX { -1 } else { i64::from(level) });
        like.column(py, Dtype::I64, &levels.collect::<Vec<_>>())
    }

    /// The smallest node of the component of each node. Directions of edges do not matter.
    fn components<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.home.check(py)?;
        let nodes = self.home.detach(py, || self.graph.components()).or_raise(py)?;
        crate::graph_answers::nodes(py, Like::NUMPY, &nodes)
    }

    /// How many triangles an undirected graph has. Loops belong to none.
    fn triangles(&self, py: Python<'_>) -> PyResult<u64> {
        self.home.check(py)?;
        self.check_undirected("triangles")?;
        self.home.detach(py, || self.graph.triangles()).or_raise(py)
    }

    /// The core number of each node of an undirected graph: the largest k for which it belongs to a part of the graph in which all nodes have k
    /// neighbours or more. Loops do not count.
    fn core_numbers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.home.check(py)?;
        self.check_undirected("core_numbers")?;
        let numbers = self.home.detach(py, || self.graph.core_numbers()).or_raise(py)?;
        crate::graph_answers::nodes(py, Like::NUMPY, &numbers)
    }

    /// The PageRank of each node after `rounds` rounds, or after the first that changes all ranks together by no more than `tolerance`. Ranks
    /// begin with `start`, those of an earlier call, or are equal. Every device gives the same ranks.
    #[pyo3(signature = (damping = 0.85, *, rounds = 100, tolerance = None, start = None))]
    fn pagerank<'py>(
        &self,
        py: Python<'py>,
        damping: f64,
        rounds: u32,
        tolerance: Option<f64>,
        start: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.home.check(py)?;
        let start = start.map(|start| host_column(start, "start", &[F64])).transpose()?;
        let like = start.as_ref().map_or(Like::NUMPY, Like::of);
        let start: &[f64] = start.as_ref().map_or(&[], elements);
        let ranks = self.home.detach(py, || match tolerance {
            None => self.graph.pagerank_from(start, damping, rounds),
            Some(tolerance) => {
                self.graph.pagerank_until(start, damping, tolerance, rounds).map(|ranked| ranked.ranks)
            }
        });
        like.column(py, F64, &ranks.or_raise(py)?)
    }

    /// A copy of an array in the memory of the graph's device.
    fn to_device(&self, py: Python<'_>, array: &Bound<'_, PyAny>) -> PyResult<DeviceArray> {
        self.home.to_device(py, array)
    }

    /// Writes all edges to a file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.home.check(py)?;
        self.home.detach(py, || self.graph.save(&path)).or_raise(py)
    }

    /// The largest node that an edge was added for, plus 1.
    #[getter]
    fn num_nodes(&self, py: Python<'_>) -> PyResult<u64> {
        self.home.check(py)?;
        Ok(self.graph.vertex_count())
    }

    /// The number of edges; one of an undirected graph counts once.
    #[getter]
    fn num_edges(&self, py: Python<'_>) -> PyResult<u64> {
        self.home.check(py)?;
        Ok(self.graph.edge_count())
    }

    /// Whether edges lead both ways.
    #[getter]
    fn undirected(&self) -> bool {
        self.shape.undirected
    }

    /// Where it lies, as in `open`.
    #[getter]
    fn device(&self) -> String {
        self.home.device()
    }

    fn __repr__(&self) -> String {
        let kind = if self.shape.undirected { "undirected" } else { "directed" };
        format!("<warpkeep.Graph, {kind}, on {}>", self.home.device())
    }
}

impl Graph {
    /// Refuses a directed graph in Python's words; the library would name its own options.
    fn check_undirected(&self, call: &str) -> PyResult<()> {
        match self.shape.undirected {
            true => Ok(()),
            false => Err(PyValueError::new_err(format!(
                "{call} needs an undirected graph; make the graph with undirected=True"
            ))),
        }
    }

    fn lists(
        &self,
        py: Python<'_>,
        like: Like,
        lists: impl FnOnce() -> Result<warpkeep_containers::GraphCsr, ContainerError> + Send,
    ) -> PyResult<GraphCsr> {
        let csr = self.home.detach(py, lists).or_raise(py)?;
        GraphCsr::new(py, like, &csr, (self.shape.weights, self.shape.ids, self.shape.times))
    }
}
