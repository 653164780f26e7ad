//! What the tables share: graphs of a shape, contestants, and rows of the report.

use std::cell::OnceCell;

use warpkeep_containers::EdgeOpKind;
use warpkeep_device::Device;

use super::answers::{Answers, Lists};
use super::contestant::{Contestant, Edges, Ours};
use super::slab_graph::{LOAD, Plan, SlabGraph};
use super::{Options, Part, published};
use crate::gpu::graph::{Reference, Shape, shuffled};
use crate::gpu::{Clock, RATE};
use crate::report::{Report, Unit};
use crate::workload::Dice;
use crate::{BenchError, Progress};

pub(super) const TIME: &str = "time";

pub(super) struct Bench<'b> {
    pub(super) options: &'b Options,
    pub(super) device: &'b Device,
    pub(super) clock: &'b Clock,
    pub(super) progress: &'b dyn Progress,
}

/// A graph that tables are measured with.
pub(super) struct Subject {
    pub(super) shape: Shape,
    pub(super) vertices: usize,
    pub(super) reference: Reference,
    seed: u64,
    entries: OnceCell<Vec<(u32, u32)>>,
}

impl Subject {
    pub(super) fn new(shape: Shape, vertices: usize, seed: u64) -> Subject {
        let vertices = shape.rounded(vertices);
        Subject::of(shape, vertices, shape.edges(vertices, seed), seed)
    }

    /// Of edges that were generated in another way.
    pub(super) fn of(shape: Shape, vertices: usize, edges: Vec<(u32, u32)>, seed: u64) -> Subject {
        let mut reference = Reference::new(edges);
        // Vertices behind the last one with an edge are there, too.
        reference.offsets.resize(vertices + 1, reference.targets.len() as u64);
        Subject { shape, vertices, reference, seed, entries: OnceCell::new() }
    }

    pub(super) fn degrees(&self) -> Vec<usize> {
        self.reference.offsets.windows(2).map(|pair| (pair[1] - pair[0]) as usize).collect()
    }

    /// All edges in both directions, in a random order.
    pub(super) fn entries(&self) -> &[(u32, u32)] {
        self.entries.get_or_init(|| {
            let edges = &self.reference.edges;
            let both: Vec<(u32, u32)> = edges.iter().flat_map(|edge| [*edge, (edge.1, edge.0)]).collect();
            let order = shuffled(both.len(), &mut Dice::new(self.seed, 21));
            order.into_iter().map(|at| both[at as usize]).collect()
        })
    }

    /// The same in ascending order.
    pub(super) fn sorted_entries(&self) -> impl Iterator<Item = (u32, u32)> {
        let list = |vertex| self.reference.list(vertex).iter().map(move |&target| (vertex, target));
        (0..self.vertices as u32).flat_map(list)
    }

    pub(super) fn case(&self, part: Part, what: &str) -> String {
        format!("{part}: {what}, {}, {} vertices", self.shape, self.vertices)
    }
}

impl<'b> Bench<'b> {
    /// Our graph and the paper's, both empty, for a subject.
    pub(super) fn contestants(
        &self,
        subject: &Subject,
        has_weights: bool,
        undirected: bool,
        more: usize,
    ) -> Result<(Ours<'b>, SlabGraph<'b>), BenchError> {
        let plan = Plan {
            has_weights,
            mirrored: undirected,
            degrees: &subject.degrees(),
            load: LOAD,
            entries: (subject.reference.targets.len() + more) as u64,
            seed: self.options.seed,
        };
        let ours = Ours::new(self.device, self.clock, has_weights, undirected)?;
        Ok((ours, SlabGraph::new(self.device, self.clock, &plan)?))
    }

    pub(super) fn edges(&self, pairs: Vec<(u32, u32)>) -> Result<Edges, BenchError> {
        Edges::new(self.device, pairs)
    }

    /// The seconds of a batch; each answer is compared.
    pub(super) fn change(
        &self,
        contestant: &mut dyn Contestant,
        kind: EdgeOpKind,
        edges: &Edges,
        right: &Answers,
    ) -> Result<f64, BenchError> {
        self.progress.check()?;
        let (seconds, statuses) = contestant.apply(kind, edges)?;
        match right.wrong_in(&edges.pairs, &statuses, contestant.keeps_order()) {
            None => Ok(seconds),
            Some(wrong) => Err(BenchError::Wrong(format!("{}: {wrong}", contestant.name()))),
        }
    }

    /// The seconds that inserting different edges takes, none of which is there.
    pub(super) fn insert_new(
        &self,
        contestant: &mut dyn Contestant,
        edges: &Edges,
    ) -> Result<f64, BenchError> {
        let right = Answers::changes(EdgeOpKind::Insert, edges.pairs.len());
        self.change(contestant, EdgeOpKind::Insert, edges, &right)
    }

    /// An error unless the contestant has these lists.
    pub(super) fn compare(&self, contestant: &dyn Contestant, right: &Lists) -> Result<(), BenchError> {
        let (name, listed) = (contestant.name(), contestant.entry_count()?);
        if listed != right.entries {
            let right = right.entries;
            return Err(BenchError::Wrong(format!("{name}: {listed} edges are in lists, and not {right}")));
        }
        match &right.edges {
            Some(edges) if contestant.edges()? != *edges => {
                Err(BenchError::Wrong(format!("{name}: lists have other edges than they should")))
            }
            _ => Ok(()),
        }
    }

    /// Adds a rate and a time.
    pub(super) fn add(
        &self,
        report: &mut Report,
        case: &str,
        variant: &str,
        round: u32,
        count: usize,
        seconds: f64,
    ) {
        report.add(case, variant, round, RATE, Unit::PerSecond, count as f64 / seconds);
        report.add(case, variant, round, TIME, Unit::Micros, 1e6 * seconds);
    }

    /// Adds what was published for a batch of this size, on average over graphs of all kinds.
    pub(super) fn add_published_rate(&self, report: &mut Report, part: Part, case: &str, batch: usize) {
        if let Some(rate) = published::rate(part, batch) {
            report.add(case, "published, mean of graphs (TITAN V)", 0, RATE, Unit::PerSecond, rate);
        }
    }

    /// Adds what was published for the graph that a subject stands for.
    pub(super) fn add_published_time(&self, report: &mut Report, part: Part, case: &str, shape: Shape) {
        let (Some(milliseconds), Some((name, vertices))) =
            (published::milliseconds(part, shape), published::stands_for(shape))
        else {
            return;
        };
        let variant = format!("published, {name} of {vertices} vertices (TITAN V)");
        report.add(case, &variant, 0, TIME, Unit::Micros, 1e3 * milliseconds);
    }
}
