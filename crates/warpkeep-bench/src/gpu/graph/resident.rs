//! Questions and samples whose seeds and answers lie in device memory.

use warpkeep_containers::{DeviceNeighbours, DeviceSample, DeviceSeeds, Graph, SampleOptions};
use warpkeep_device::{Buffer, Device, Stream};

use super::contestant::Contestant;
use super::reference::Reference;
use super::{FANOUT, Windows, any_edges};
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
    /// The figures of all cases: of this number of edges, of any vertices, and of different vertices.
    pub(super) fn measure(
        &self,
        batch: usize,
        windows: &mut Windows,
        dice: &mut Dice,
    ) -> Result<[Figure; CASES.len()], BenchError> {
        let one = SampleOptions::new(&[FANOUT]).seed(dice.below(1 << 32));
        let again = one.clone().with_replacement();
        let two = [FANOUT, FANOUT];
        let edges = [(); 2].map(|()| any_edges(self.reference, batch, dice));
        let vertices = self.reference.vertices() as u64;
        let mut any =
            || [(); 2].map(|()| (0..batch).map(|_| dice.below(vertices) as u32).collect::<Vec<u32>>());
        let mut seeds = || [windows.take_more(), windows.take()];
        Ok([
            self.edges_exist(&edges)?,
            self.degrees(&any())?,
            self.neighbours(&any(), false, &one)?,
            self.neighbours(&any(), true, &again)?,
            self.sample(&seeds(), &one, &[FANOUT], false)?,
            self.sample(&seeds(), &again, &[FANOUT], true)?,
            self.sample(&seeds(), &SampleOptions::new(&two), &two, false)?,
        ])
    }

    /// The seconds of a call with the second input. The call with the first, which has as many other elements or a few more, takes memory: the caches do not have what the second asks for.
    fn second<T, E>(
        &self,
        inputs: &[T; 2],
        mut call: impl FnMut(&Graph, &T, &Stream) -> Result<(), E>,
    ) -> Result<f64, BenchError>
    where
        BenchError: From<E>,
    {
        let [first, second] = inputs;
        call(&self.contestant.graph, first, self.clock.stream())?;
        self.clock.time(|stream| call(&self.contestant.graph, second, stream))
    }

    /// Columns of two batches in device memory.
    fn columns<T, U: bytemuck::NoUninit>(
        &self,
        batches: &[Vec<T>; 2],
        of: impl Fn(&T) -> U,
    ) -> Result<[Buffer; 2], BenchError> {
        let column = |batch: &[T]| self.device.upload(&batch.iter().map(&of).collect::<Vec<U>>());
        Ok([column(&batches[0])?, column(&batches[1])?])
    }

    fn edges_exist(&self, batches: &[Vec<(u32, u32)>; 2]) -> Result<Figure, BenchError> {
        let (asked, count) = (&batches[1], batches[1].len());
        let [first, second] = self.columns(batches, |edge| edge.0)?;
        let [first_targets, second_targets] = self.columns(batches, |edge| edge.1)?;
        let columns = [(first, first_targets), (second, second_targets)];
        let mut found = self.device.allocate(count)?;
        let seconds = self.second(&columns, |graph, (sources, targets), stream| {
            graph.edges_exist_on(sources, targets, count, &mut found, stream)
        })?;
        let right = asked.iter().map(|&(source, target)| u8::from(self.reference.has(source, target)));
        match found.to_vec::<u8>()?.into_iter().eq(right) {
            true => Ok((count, seconds)),
            false => self.contestant.wrong("edges that are there were not found, or others were"),
        }
    }

    fn degrees(&self, batches: &[Vec<u32>; 2]) -> Result<Figure, BenchError> {
        let (asked, count) = (&batches[1], batches[1].len());
        let columns = self.columns(batches, |vertex| *vertex)?;
        let mut degrees = self.device.allocate(4 * count)?;
        let seconds = self.second(&columns, |graph, vertices, stream| {
            graph.degrees_on(vertices, count, &mut degrees, stream)
        })?;
        let right = asked.iter().map(|&vertex| self.reference.list(vertex).len() as u32);
        match degrees.to_vec::<u32>()?.into_iter().eq(right) {
            true => Ok((count, seconds)),
            false => self.contestant.wrong("a vertex has another number of edges than it should"),
        }
    }

    /// In neighbours that were chosen.
    fn neighbours(
        &self,
        batches: &[Vec<u32>; 2],
        is_replaced: bool,
        options: &SampleOptions,
    ) -> Result<Figure, BenchError> {
        let (seeds, count, fanout) = (&batches[1], batches[1].len(), FANOUT as usize);
        let columns = self.columns(batches, |vertex| *vertex)?;
        let (mut targets, mut counts) =
            (self.device.allocate(4 * count * fanout)?, self.device.allocate(4 * count)?);
        let seconds = self.second(&columns, |graph, vertices, stream| {
            let given = DeviceSeeds { vertices, times: None, count };
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

    /// In edges of the sample, by options with these fan-outs.
    fn sample(
        &self,
        batches: &[Vec<u32>; 2],
        options: &SampleOptions,
        fanouts: &[u32],
        is_replaced: bool,
    ) -> Result<Figure, BenchError> {
        let [first, second] = self.columns(batches, |vertex| *vertex)?;
        let columns = [(first, batches[0].len()), (second, batches[1].len())];
        let mut sample = DeviceSample::new(self.device)?;
        let seconds = self.second(&columns, |graph, (vertices, count), stream| {
            let given = DeviceSeeds { vertices, times: None, count: *count };
            graph.sample_on(given, options, &mut sample, stream)
        })?;
        if self.looks {
            let found = sample.to_host(self.clock.stream())?;
            if let Some(wrong) = self.reference.wrong_in(&batches[1], fanouts, is_replaced, &found) {
                return self.contestant.wrong(wrong);
            }
        }
        Ok((sample.edge_count(), seconds))
    }
}
