//! The graph in device memory, beside the native CPU implementation and the limits of device memory.

mod contestant;
mod options;
mod reference;
mod resident;
mod shape;

use warpkeep_containers::SampleOptions;
use warpkeep_device::Device;

pub(crate) use self::contestant::timed;
use self::contestant::{CPU, Contestant};
pub use self::options::Options;
pub(crate) use self::reference::Reference;
use self::resident::Resident;
pub use self::shape::Shape;
pub(crate) use self::shape::shuffled;
use super::{Clock, DEVICE, RATE, relate, relate_variant};
use crate::limits::device::{MemoryLimits, note_of};
use crate::report::{Report, Unit};
use crate::workload::Dice;
use crate::{Amount, BenchError, Progress};

/// Edges that are sampled of a vertex.
const FANOUT: u32 = 10;

/// What is measured with batches of every size, in this order.
const CASES: [&str; 7] = [
    "delete edges",
    "insert edges",
    "edges exist",
    "degrees",
    "sample 10, without replacement",
    "sample 10, with replacement",
    "delete vertices",
];

/// What is measured of a whole graph, in this order.
const WHOLE: [&str; 3] = ["build", "CSR export", "triangles"];

/// Measures graphs of all shapes and sizes.
///
/// ```no_run
/// use warpkeep_bench::{Quiet, gpu::graph};
///
/// let options = graph::Options::on("cuda:0".parse()?);
/// print!("{}", graph::run(&options, &Quiet)?.to_text());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    options.check()?;
    let mut report = Report::new("gpu graph", &options.command, options.seed);
    let device = Device::open(options.device)?;
    report.notes.push(note_of(&device));
    report.notes.push(
        "graphs are undirected: an edge that is inserted or deleted is two entries; batches of edges, their answers and exported rows lie in device memory; vertices to delete, and questions and answers of \
         edges exist, degrees and samples, are in host memory, so these times contain the link, unless the case says device memory or neighbours; those calls are timed after one with as many other edges or \
         vertices, which takes memory, by chosen neighbours or edges, and their samples are checked in the first round; questions are about other edges and vertices in each case, as far as the graph has them; \
         the graph stays as it is: deleted edges are inserted again; the limit of a changed edge is two random reads of 64 bytes, of an export a copy of the targets, in as much device memory; the rate of \
         triangles is in edges of the graph; the CPU takes part up to 2^20 edges; every other answer was checked in every round"
            .to_owned(),
    );
    let clock = Clock::new(&device)?;
    let graphs = options.graphs();
    let total = graphs.len() as u64 * u64::from(options.rounds);
    progress.begin(&format!("graphs on {}", options.device), Amount::Count(total));
    for (shape, vertices) in graphs {
        progress.check()?;
        let reference = Reference::new(shape.edges(vertices, options.seed));
        if reference.edges.is_empty() {
            return Err(BenchError::Invalid(format!(
                "the {shape} graph of {vertices} vertices has no edges; give more --vertices, or another --seed"
            )));
        }
        let of = Bench { options, device: &device, clock: &clock, progress, shape, vertices, reference };
        of.run(&mut report)?;
    }
    progress.finish();
    report.finish();
    Ok(report)
}

struct Bench<'b> {
    options: &'b Options,
    device: &'b Device,
    clock: &'b Clock,
    progress: &'b dyn Progress,
    shape: Shape,
    vertices: usize,
    reference: Reference,
}

impl Bench<'_> {
    fn run(&self, report: &mut Report) -> Result<(), BenchError> {
        let (options, reference) = (self.options, &self.reference);
        let edges = reference.edges.len();
        let bytes = 4 * reference.targets.len() as u64;
        let limits = MemoryLimits::measure(self.device, bytes, options.rounds, self.progress, report)?;
        let triangles = reference.triangles();
        let order = shuffled(edges, &mut Dice::new(options.seed, 4));
        let order: Vec<(u32, u32)> = order.into_iter().map(|at| reference.edges[at as usize]).collect();
        let mut places = vec![Some((self.device, self.clock))];
        if Options::has_cpu(edges) {
            places.push(None);
        }
        // The first batch compiles kernels.
        Contestant::new(places[0])?.insert(&order)?;
        for round in 0..options.rounds {
            for &place in &places {
                self.progress.check()?;
                let contestant = Contestant::new(place)?;
                let built = contestant.insert(&order)?;
                let exported = contestant.export(reference)?;
                let (counted, found) = timed(|| contestant.graph.triangles())?;
                if found != triangles {
                    return contestant.wrong(format!("there are {triangles} triangles, and not {found}"));
                }
                let figures = [(edges, built), (reference.targets.len(), exported), (edges, counted)];
                for (case, (count, seconds)) in WHOLE.into_iter().zip(figures) {
                    let case = self.whole_case(case);
                    add(report, &case, contestant.name, round, count, seconds);
                }
                self.numbers(&contestant, round, triangles, report);
                for batch in options.batches_of(edges) {
                    self.batches(&contestant, &order, batch, round, report)?;
                }
                self.progress.check()?;
                contestant.export(reference)?;
            }
            self.progress.advance(1);
        }
        let changes = ("device memory, 2 random reads of 64 bytes", limits.random_reads / 2.0);
        for batch in options.batches_of(edges) {
            for (at, case) in CASES.into_iter().enumerate() {
                let limit = if at < 2 { changes } else { ("", 0.0) };
                relate(report, &self.case(case, batch), limit, CPU);
            }
            for (case, what, reads) in resident::CASES {
                let limit = if reads > 0.0 { (what, limits.random_reads / reads) } else { ("", 0.0) };
                relate_variant(report, &self.case(case, batch), DEVICE, limit, None);
            }
        }
        for case in WHOLE {
            // A target has four bytes, which are read and written.
            let limit =
                if case == WHOLE[1] { ("device memory, copies", limits.copied / 8.0) } else { ("", 0.0) };
            relate(report, &self.whole_case(case), limit, CPU);
        }
        Ok(())
    }

    fn case(&self, case: &str, batch: usize) -> String {
        format!("{case}, {}, batches of {batch}, {} vertices", self.shape, self.vertices)
    }

    fn whole_case(&self, case: &str) -> String {
        format!("{case}, {}, {} vertices", self.shape, self.vertices)
    }

    /// What follows from the edges alone, and is no time.
    fn numbers(&self, contestant: &Contestant<'_>, round: u32, triangles: u64, report: &mut Report) {
        if contestant.name != DEVICE {
            return;
        }
        let stats = contestant.graph.stats();
        let case = self.whole_case(WHOLE[0]);
        report.add(&case, DEVICE, round, "edges", Unit::Count, stats.edges as f64);
        let each = stats.bytes as f64 / stats.edges.max(1) as f64;
        report.add(&case, DEVICE, round, "memory an edge", Unit::Bytes, each);
        report.add(&self.whole_case(WHOLE[2]), DEVICE, round, "triangles", Unit::Count, triangles as f64);
    }

    /// A batch of each case. What is deleted is inserted again, so that the graph stays as it is.
    fn batches(
        &self,
        contestant: &Contestant<'_>,
        order: &[(u32, u32)],
        batch: usize,
        round: u32,
        report: &mut Report,
    ) -> Result<(), BenchError> {
        let (graph, reference) = (&contestant.graph, &self.reference);
        // Other edges and vertices in every round.
        let stream = 5 + u64::from(round);
        let mut dice = Dice::new(self.options.seed, stream);
        let first = round as usize % (order.len() / batch) * batch;
        let edges = &order[first..first + batch];

        self.progress.check()?;
        let deleted = contestant.delete(edges)?;
        if graph.edges_exist(edges)?.contains(&true) {
            return contestant.wrong("an edge is there after it was deleted");
        }
        let inserted = contestant.insert(edges)?;

        self.progress.check()?;
        let vertices = reference.vertices();
        let asked = any_edges(reference, batch, &mut dice);
        let (existed, answers) = timed(|| graph.edges_exist(&asked))?;
        if answers.iter().copied().ne(asked.iter().map(|&(source, target)| reference.has(source, target))) {
            return contestant.wrong("edges that are there were not found, or others were");
        }

        let mut windows = Windows::new(shuffled(vertices, &mut dice), batch);
        let seeds = windows.take();
        let (counted, degrees) = timed(|| graph.degrees(&seeds))?;
        if degrees
            .iter()
            .map(|&degree| degree as usize)
            .ne(seeds.iter().map(|&seed| reference.list(seed).len()))
        {
            return contestant.wrong("a vertex has another number of edges than it should");
        }

        let chosen = SampleOptions::new(&[FANOUT]).seed(stream);
        let mut sampled = [0.0; 2];
        for (is_replaced, options) in [(false, chosen.clone()), (true, chosen.with_replacement())] {
            self.progress.check()?;
            let seeds = windows.take();
            let (seconds, sample) = timed(|| graph.sample(&seeds, &options))?;
            if let Some(wrong) = reference.wrong_in(&seeds, &[FANOUT], is_replaced, &sample) {
                return contestant.wrong(wrong);
            }
            sampled[usize::from(is_replaced)] = seconds;
        }

        if let Some((device, clock)) = contestant.on {
            self.progress.check()?;
            let looks = round == 0;
            let resident = Resident { contestant, device, clock, reference, looks };
            let figures = resident.measure(batch, &mut windows, &mut dice)?;
            for ((case, ..), (count, seconds)) in resident::CASES.into_iter().zip(figures) {
                add(report, &self.case(case, batch), contestant.name, round, count, seconds);
            }
        }

        self.progress.check()?;
        let gone = windows.take();
        let gone = &gone[..gone.len().min(vertices / 2)];
        let lost = reference.edges_of(gone);
        let (removed, count) = timed(|| graph.delete_vertices(gone))?;
        if count != lost.len() as u64 || graph.edge_count() != (order.len() - lost.len()) as u64 {
            return contestant.wrong(format!(
                "{count} edges went with {} vertices, and not {}",
                gone.len(),
                lost.len()
            ));
        }
        if !lost.is_empty() {
            contestant.insert(&lost)?;
        }

        let [unique, repeated] = sampled;
        let figures = [
            (batch, deleted),
            (batch, inserted),
            (batch, existed),
            (seeds.len(), counted),
            (seeds.len(), unique),
            (seeds.len(), repeated),
            (gone.len(), removed),
        ];
        for (case, (count, seconds)) in CASES.into_iter().zip(figures) {
            add(report, &self.case(case, batch), contestant.name, round, count, seconds);
        }
        Ok(())
    }
}

/// Edges to ask for: half of them are there, in the other direction; of the others hardly any are.
fn any_edges(reference: &Reference, count: usize, dice: &mut Dice) -> Vec<(u32, u32)> {
    let (edges, vertices) = (&reference.edges, reference.vertices() as u64);
    let edge = |at| {
        if at % 2 == 0 {
            let (one, two) = edges[dice.below(edges.len() as u64) as usize];
            (two, one)
        } else {
            (dice.below(vertices) as u32, dice.below(vertices) as u32)
        }
    };
    (0..count).map(edge).collect()
}

/// Different vertices for each case: a question that was just asked would be answered from caches.
struct Windows {
    order: Vec<u32>,
    size: usize,
    next: usize,
}

impl Windows {
    /// Of all vertices in a random order, this many each time, or all of them.
    fn new(order: Vec<u32>, size: usize) -> Windows {
        let size = size.min(order.len());
        Windows { order, size, next: 0 }
    }

    /// Different vertices, none of which were taken before as long as there are such.
    fn take(&mut self) -> Vec<u32> {
        self.take_some(self.size)
    }

    /// An eighth more of them, so that what they need is enough for the others.
    fn take_more(&mut self) -> Vec<u32> {
        self.take_some((self.size + self.size.div_ceil(8)).min(self.order.len()))
    }

    fn take_some(&mut self, count: usize) -> Vec<u32> {
        let from = self.next;
        self.next = (from + count) % self.order.len().max(1);
        self.order.iter().cycle().skip(from).take(count).copied().collect()
    }
}

fn add(report: &mut Report, case: &str, variant: &str, round: u32, count: usize, seconds: f64) {
    report.add(case, variant, round, RATE, Unit::PerSecond, count as f64 / seconds);
    report.add(case, variant, round, "time", Unit::Micros, 1e6 * seconds);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_ask_for_other_vertices_until_there_are_no_more() {
        let mut windows = Windows::new(vec![4, 2, 0, 1, 3], 2);
        assert_eq!([windows.take(), windows.take(), windows.take()], [[4, 2], [0, 1], [3, 4]]);
        assert_eq!([windows.take_more(), windows.take_more()], [[2, 0, 1], [3, 4, 2]]);
        let mut all = Windows::new(vec![1, 0], 7);
        assert_eq!([all.take(), all.take_more()], [[1, 0], [1, 0]]);
    }

    #[test]
    fn half_of_the_edges_asked_for_are_there() {
        let reference = Reference::new(Shape::Road.edges(2000, 3));
        let asked = any_edges(&reference, 400, &mut Dice::new(1, 2));
        let there = asked.iter().filter(|edge| reference.has(edge.0, edge.1)).count();
        assert!((200..220).contains(&there), "{there}");
        assert_ne!(asked, any_edges(&reference, 400, &mut Dice::new(1, 3)));
    }
}
