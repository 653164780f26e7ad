//! Graphs that run batches.

use std::time::Instant;

use warpkeep_containers::{
    DeviceCsr, DeviceEdgeOps, Edge, EdgeOpKind, EdgeOpKinds, EdgeStatus, Graph, GraphOptions,
};
use warpkeep_device::Device;

use super::reference::Reference;
use crate::BenchError;
use crate::gpu::{Clock, DEVICE};

/// The native CPU implementation, as a variant of a case.
pub(super) const CPU: &str = "CPU, one thread";
/// Less than any clock can tell.
const LEAST_SECONDS: f64 = 1e-9;

/// A graph that is measured.
pub(super) struct Contestant<'d> {
    pub(super) name: &'static str,
    pub(super) graph: Graph,
    /// Of the device that it is on; `None` on the CPU.
    pub(super) on: Option<(&'d Device, &'d Clock)>,
}

impl<'d> Contestant<'d> {
    /// An empty graph, on the CPU without a device.
    pub(super) fn new(on: Option<(&'d Device, &'d Clock)>) -> Result<Contestant<'d>, BenchError> {
        let options = GraphOptions::default().undirected();
        Ok(match on {
            Some((device, _)) => Contestant { name: DEVICE, graph: Graph::new(device, &options)?, on },
            None => Contestant { name: CPU, graph: Graph::on_cpu(&options), on },
        })
    }

    /// The seconds that it takes to insert edges that are not there.
    pub(super) fn insert(&self, edges: &[(u32, u32)]) -> Result<f64, BenchError> {
        self.change(EdgeOpKind::Insert, edges, EdgeStatus::Inserted)
    }

    /// The seconds that it takes to delete edges that are there.
    pub(super) fn delete(&self, edges: &[(u32, u32)]) -> Result<f64, BenchError> {
        self.change(EdgeOpKind::Delete, edges, EdgeStatus::Deleted)
    }

    /// The seconds that a batch of different edges takes, all of which have this answer.
    fn change(&self, kind: EdgeOpKind, edges: &[(u32, u32)], right: EdgeStatus) -> Result<f64, BenchError> {
        let (seconds, statuses) = match self.on {
            Some((device, clock)) => {
                let sources = device.upload(&edges.iter().map(|edge| edge.0).collect::<Vec<u32>>())?;
                let targets = device.upload(&edges.iter().map(|edge| edge.1).collect::<Vec<u32>>())?;
                let mut statuses = device.allocate_zeroed(edges.len())?;
                let ops = DeviceEdgeOps {
                    kinds: EdgeOpKinds::All(kind),
                    sources: &sources,
                    targets: &targets,
                    weights: None,
                    ids: None,
                    times: None,
                    count: edges.len(),
                };
                let seconds = clock.time(|stream| self.graph.apply_on(ops, &mut statuses, stream))?;
                (seconds, statuses.to_vec::<u8>()?)
            }
            None => {
                let whole: Vec<Edge> = edges.iter().map(|edge| Edge::new(edge.0, edge.1)).collect();
                let (seconds, statuses) = timed(|| match kind {
                    EdgeOpKind::Insert => self.graph.insert_edges(&whole),
                    EdgeOpKind::Delete => self.graph.delete_edges(edges),
                })?;
                (seconds, statuses.into_iter().map(|status| status as u8).collect())
            }
        };
        match statuses.iter().position(|&status| status != right as u8) {
            None if statuses.len() == edges.len() => Ok(seconds),
            None => self.wrong("answers are missing"),
            Some(at) => self.wrong(format!(
                "operation {at} of {}, {kind:?} of the edge {:?}, was answered {}, and not {right:?}",
                edges.len(),
                edges[at],
                statuses[at]
            )),
        }
    }

    /// The seconds that it takes to write all lists as rows; all of them are compared.
    pub(super) fn export(&self, reference: &Reference) -> Result<f64, BenchError> {
        let (seconds, offsets, targets) = match self.on {
            Some((device, clock)) => {
                let stats = self.graph.stats();
                let mut offsets = device.allocate_zeroed(4 * (stats.vertices as usize + 1))?;
                let mut targets = device.allocate_zeroed(4 * stats.entries as usize)?;
                let rows = DeviceCsr {
                    offsets: &mut offsets,
                    targets: &mut targets,
                    weights: None,
                    ids: None,
                    times: None,
                };
                let seconds = clock.time(|stream| self.graph.csr_on(rows, stream).map(|_| ()))?;
                let offsets = offsets.to_vec::<u32>()?.into_iter().map(u64::from).collect();
                (seconds, offsets, targets.to_vec()?)
            }
            None => {
                let (seconds, rows) = timed(|| self.graph.csr())?;
                (seconds, rows.offsets, rows.targets)
            }
        };
        if offsets != reference.offsets {
            return self.wrong("vertices have other numbers of edges than they should");
        }
        match targets.iter().zip(&reference.targets).position(|(given, right)| given != right) {
            None if targets.len() == reference.targets.len() => Ok(seconds),
            _ => self.wrong("lists have other edges than they should"),
        }
    }

    pub(super) fn wrong<T>(&self, what: impl std::fmt::Display) -> Result<T, BenchError> {
        Err(BenchError::Wrong(format!("{}: {what}", self.name)))
    }
}

/// The seconds that a call takes, and what it gives.
pub(crate) fn timed<T, E>(call: impl FnOnce() -> Result<T, E>) -> Result<(f64, T), BenchError>
where
    BenchError: From<E>,
{
    let begun = Instant::now();
    let given = call()?;
    Ok((begun.elapsed().as_secs_f64().max(LEAST_SECONDS), given))
}
