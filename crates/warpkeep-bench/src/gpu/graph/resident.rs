//! Questions and samples whose seeds and answers lie in device memory.

use warpkeep_containers::{DeviceNeighbours, DeviceSample, DeviceSeeds, Graph, SampleOptions};
use warpkeep_device::{Device, Stream};

use super::FANOUT;
use super::contestant::Contestant;
use super::reference::Reference;
use crate::BenchError;
use crate::gpu::Clock;
use crate::workload::Dice;

/// A random read of 64 bytes; the record of a vertex and a line of its list are two.
const READ: &str = "device memory, random reads of 64 bytes";

/// What is measured, in this order, and what binds it: a name, and how many reads each item takes; none for samples, whose vertices get numbers.
pub(super) const CASES: [(&str, &str, f64); 7] = [
    ("edges exist, in device memory", "device memory, 2 random reads of 64 bytes", 2.0),
    ("degrees, in device memory", READ, 1.0),
    ("10 neighbours, without replacement", READ, 1.0),
    ("10 neighbours, with replacement", READ, 1.0),
    ("sample 10, without replacement, in device memory", "", 0.0),
    ("sample 10, with replacement, in device memory", "", 0.0),
    ("sample 10 and 10, without replacement, in device memory", "", 0.0),
];

/// A figure: how many items took how many seconds.
type Figure = (usize, f64);

/// What is asked of a graph.
pub(super) struct Resident<'r> {
    pub(super) contestant: &'r Contestant<'r>,
    pub(super) device: &'r Device,
    pub(super) clock: &'r Clock,
    pub(super) reference: &'r Reference,
    /// Whether all samples are looked at: that takes the host much longer than the device takes to make them.
    pub(super) looks: bool,
}

impl Resident<'_> {
    /// The figures of all cases: of these edges, of this number of any vertices, and of these different vertices.
    pub(super) fn measure(
        &self,
        edges: &[(u32, u32)],
        batch: usize,
        seeds: &[u32],
        dice: &mut Dice,
    ) -> Result<[Figure; CASES.len()], BenchError> {
        let any: Vec<u32> = (0..batch).map(|_| dice.below(self.reference.vertices() as u64) as u32).collect();
        let one = SampleOptions::new(&[FANOUT]).seed(dice.below(1 << 32));
        let again = one.clone().with_replacement();
        let two = SampleOptions::new(&[FANOUT, FANOUT]);
        Ok([
            self.edges_exist(edges)?,
            self.degrees(&any)?,
            self.neighbours(&any, false, &one)?,
            self.neighbours(&any, true, &again)?,
            self.sample(seeds, &one, Some(false))?,
            self.sample(seeds, &again, Some(true))?,
            self.sample(seeds, &two, None)?,
        ])
    }

    /// The seconds of a call whose memory is there: the first call makes it.
    fn second<E>(&self, mut call: impl FnMut(&Graph, &Stream) -> Result<(), E>) -> Result<f64, BenchError>
    where
        BenchError: From<E>,
    {
        call(&self.contestant.graph, self.clock.stream())?;
        self.clock.time(|stream| call(&self.contestant.graph, stream))
    }

    fn edges_exist(&self, asked: &[(u32, u32)]) -> Result<Figure, BenchError> {
        let count = asked.len();
        let sources = self.device.upload(&asked.iter().map(|edge| edge.0).collect::<Vec<u32>>())?;
        let targets = self.device.upload(&asked.iter().map(|edge| edge.1).collect::<Vec<u32>>())?;
        let mut found = self.device.allocate(count)?;
        let seconds =
            self.second(|graph, stream| graph.edges_exist_on(&sources, &targets, count, &mut found, stream))?;
        let right = asked.iter().map(|&(source, target)| u8::from(self.reference.has(source, target)));
        match found.to_vec::<u8>()?.into_iter().eq(right) {
            true => Ok((count, seconds)),
            false => self.contestant.wrong("edges that are there were not found, or others were"),
        }
    }

    fn degrees(&self, asked: &[u32]) -> Result<Figure, BenchError> {
        let count = asked.len();
        let vertices = self.device.upload(asked)?;
        let mut degrees = self.device.allocate(4 * count)?;
        let seconds =
            self.second(|graph, stream| graph.degrees_on(&vertices, count, &mut degrees, stream))?;
        let right = asked.iter().map(|&vertex| self.reference.list(vertex).len() as u32);
        match degrees.to_vec::<u32>()?.into_iter().eq(right) {
            true => Ok((count, seconds)),
            false => self.contestant.wrong("a vertex has another number of edges than it should"),
        }
    }

    /// In neighbours that were chosen.
    fn neighbours(
        &self,
        seeds: &[u32],
        is_replaced: bool,
        options: &SampleOptions,
    ) -> Result<Figure, BenchError> {
        let (count, fanout) = (seeds.len(), FANOUT as usize);
        let vertices = self.device.upload(seeds)?;
        let (mut targets, mut counts) =
            (self.device.allocate(4 * count * fanout)?, self.device.allocate(4 * count)?);
        let given = DeviceSeeds { vertices: &vertices, times: None, count };
        let seconds = self.second(|graph, stream| {
            let (targets, counts) = (&mut targets, Some(&mut counts));
            let neighbours = DeviceNeighbours { targets, counts, ids: None, times: None };
            graph.sample_neighbours_on(given, options, neighbours, stream)
        })?;
        let (targets, counts) = (targets.to_vec::<u32>()?, counts.to_vec::<u32>()?);
        if self.looks {
            let lists = seeds.iter().zip(targets.chunks_exact(fanout)).zip(&counts);
            for ((&seed, targets), &count) in lists {
                let chosen = &targets[..(count as usize).min(fanout)];
                if let Some(wrong) = self.reference.wrong_choice(seed, fanout, is_replaced, chosen) {
                    return self.contestant.wrong(wrong);
                }
            }
        }
        Ok((counts.iter().map(|&count| count as usize).sum(), seconds))
    }

    /// In edges of the sample. Those of one hop say whether edges are chosen again.
    fn sample(
        &self,
        seeds: &[u32],
        options: &SampleOptions,
        one_hop: Option<bool>,
    ) -> Result<Figure, BenchError> {
        let vertices = self.device.upload(seeds)?;
        let mut sample = DeviceSample::new(self.device)?;
        let given = DeviceSeeds { vertices: &vertices, times: None, count: seeds.len() };
        let seconds = self.second(|graph, stream| graph.sample_on(given, options, &mut sample, stream))?;
        if self.looks {
            let found = sample.to_host(self.clock.stream())?;
            let wrong = match one_hop {
                Some(is_replaced) => self.reference.wrong_in(seeds, FANOUT as usize, is_replaced, &found),
                None => self.reference.wrong_edge_in(&found),
            };
            if let Some(wrong) = wrong {
                return self.contestant.wrong(wrong);
            }
        }
        Ok((sample.edge_count(), seconds))
    }
}
