//! Figure 8: throughput and latency by the size of a batch, with one stream and with several; copies of jobs and answers are part of it.

use std::sync::Barrier;
use std::time::Instant;

use warpkeep_containers::CuckooIndex;
use warpkeep_device::{Device, PinnedBuffer, Stream};

use super::{Bench, STREAMS};
use crate::BenchError;
use crate::chart::{Chart, Curve, Drawing, Scale};
use crate::gpu::RATE;
use crate::gpu::cuckoo::{Batch, Columns, Contestant, Hashes, Operation};
use crate::limits::median;
use crate::report::{Report, Unit};

/// The operations of the paper, in an order that leaves the index as it was, and their published peaks.
pub(super) const OPERATIONS: [(Operation, f64); 3] =
    [(Operation::Hit, 303.7e6), (Operation::Delete, 196.5e6), (Operation::Insert, 210.3e6)];
pub(super) const LATENCY: &str = "latency";
/// Without copies.
const IN_DEVICE: &str = "jobs in device memory, 1 stream";
const LOAD: f64 = 0.8;
/// Entries that an index is filled with at a time.
const MOST_FILLED: u32 = 1 << 24;

fn case_of(operation: Operation, batch: usize) -> String {
    format!("figure 8: {}, batches of {batch}", name_of(operation))
}

pub(super) fn name_of(operation: Operation) -> &'static str {
    if operation == Operation::Hit { "search" } else { operation.name() }
}

fn variant_of(streams: usize) -> String {
    format!("{streams} stream{}", if streams == 1 { "" } else { "s" })
}

/// An index with its entries, and their hashes.
pub(super) fn filled<'b>(bench: &'b Bench<'_>) -> Result<(Contestant<'b>, Hashes), BenchError> {
    let hashes = Hashes::new(bench.options.seed);
    let buckets = ((bench.entries() as f64 / (LOAD * 8.0)).ceil() as u64).next_power_of_two();
    let index = Contestant::on_device(bench.device, bench.clock, buckets)?;
    let entries = bench.entries() as u32;
    for first in (0..entries).step_by(MOST_FILLED as usize) {
        bench.progress.check()?;
        let numbers = first..entries.min(first.saturating_add(MOST_FILLED));
        index.run(&Batch::new(hashes, Operation::Insert, numbers))?;
    }
    Ok((index, hashes))
}

pub(super) fn run(bench: &Bench<'_>, report: &mut Report) -> Result<(), BenchError> {
    let (contestant, hashes) = filled(bench)?;
    for len in bench.batches() {
        for round in 0..bench.options.rounds {
            for (operation, _) in OPERATIONS {
                bench.progress.check()?;
                let batch = Batch::new(hashes, operation, 0..len as u32);
                let seconds = contestant.run(&batch)?;
                let case = case_of(operation, len);
                report.add(&case, IN_DEVICE, round, RATE, Unit::PerSecond, len as f64 / seconds);
                report.add(&case, IN_DEVICE, round, LATENCY, Unit::Micros, 1e6 * seconds);
            }
        }
        for streams in [1, STREAMS] {
            let seconds = measure(bench, &contestant.index, hashes, len, streams)?;
            for (round, times) in (0..).zip(seconds) {
                for ((operation, _), seconds) in OPERATIONS.into_iter().zip(times) {
                    let (case, variant) = (case_of(operation, len), variant_of(streams));
                    report.add(&case, &variant, round, RATE, Unit::PerSecond, len as f64 / seconds);
                    report.add(&case, &variant, round, LATENCY, Unit::Micros, 1e6 * seconds);
                }
            }
        }
    }
    conclude(bench, report);
    Ok(())
}

/// The seconds of each operation, round by round, of batches in host memory that several streams share.
pub(super) fn measure(
    bench: &Bench<'_>,
    index: &CuckooIndex,
    hashes: Hashes,
    len: usize,
    streams: usize,
) -> Result<Vec<[f64; OPERATIONS.len()]>, BenchError> {
    let part = |number: usize| (len * number / streams) as u32;
    let mut parts = Vec::new();
    for (operation, _) in OPERATIONS {
        let mut lanes = Vec::new();
        for number in 0..streams {
            let numbers = part(number)..part(number + 1);
            if !numbers.is_empty() {
                lanes.push(Lane::new(bench.device, Batch::new(hashes, operation, numbers))?);
            }
        }
        parts.push(lanes);
    }
    let mut rounds = Vec::new();
    // The first round takes memory, and is not counted.
    for round in 0..=bench.options.rounds {
        let mut times = [0.0; OPERATIONS.len()];
        for (lanes, seconds) in parts.iter_mut().zip(&mut times) {
            bench.progress.check()?;
            *seconds = run_lanes(lanes, index)?;
            for lane in lanes {
                lane.columns.check(&variant_of(streams), &lane.batch)?;
            }
        }
        if round > 0 {
            rounds.push(times);
        }
    }
    Ok(rounds)
}

/// A part of a batch, with a stream and memory on both sides.
struct Lane {
    batch: Batch,
    columns: Columns,
    stream: Stream,
    hashes: PinnedBuffer,
    /// None of searches.
    locations: Option<PinnedBuffer>,
    got: PinnedBuffer,
}

impl Lane {
    fn new(device: &Device, batch: Batch) -> Result<Lane, BenchError> {
        let mut hashes = device.pin(8 * batch.len())?;
        hashes.elements_mut::<u64>()?.copy_from_slice(&batch.hashes);
        let sent = batch.sent_locations();
        let mut locations = None;
        if !sent.is_empty() {
            let mut pinned = device.pin(4 * sent.len())?;
            pinned.elements_mut::<u32>()?.copy_from_slice(&sent);
            locations = Some(pinned);
        }
        let got = device.pin(Columns::answer_bytes(&batch))?;
        let (columns, stream) = (Columns::new(device, &batch)?, device.stream()?);
        Ok(Lane { batch, columns, stream, hashes, locations, got })
    }

    /// Copies the jobs, runs them, and copies the answers.
    fn run(&mut self, index: &CuckooIndex) -> Result<(), BenchError> {
        let locations = match &self.locations {
            Some(locations) => locations.elements()?,
            None => &[],
        };
        self.columns.send(self.hashes.elements()?, locations, &self.stream)?;
        self.columns.apply(index, &self.batch, &self.stream)?;
        self.columns.receive(&self.batch, self.got.as_mut_slice(), &self.stream)
    }
}

/// The seconds until all parts are done, each by a thread of its own if there are several.
fn run_lanes(lanes: &mut [Lane], index: &CuckooIndex) -> Result<f64, BenchError> {
    if let [lane] = lanes {
        let begun = Instant::now();
        lane.run(index)?;
        return Ok(begun.elapsed().as_secs_f64().max(1e-9));
    }
    let barrier = &Barrier::new(lanes.len() + 1);
    let work = &|lane: &mut Lane| {
        barrier.wait();
        let done = lane.run(index);
        barrier.wait();
        done
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = lanes.iter_mut().map(|lane| scope.spawn(move || work(lane))).collect();
        barrier.wait();
        let begun = Instant::now();
        barrier.wait();
        let seconds = begun.elapsed().as_secs_f64().max(1e-9);
        for thread in threads {
            thread.join().expect("a part of a batch does not panic")?;
        }
        Ok(seconds)
    })
}

fn conclude(bench: &Bench<'_>, report: &mut Report) {
    let batches = bench.batches();
    let variants = [IN_DEVICE.to_owned(), variant_of(1), variant_of(STREAMS)];
    for (operation, published) in OPERATIONS {
        let peak = format!("figure 8: {}, peak", name_of(operation));
        let mut curves = Vec::new();
        for variant in &variants {
            let rate = |len: usize| median(&report.series(&case_of(operation, len), variant, RATE));
            let points: Vec<(f64, f64)> = batches.iter().map(|&len| (len as f64, 1e-6 * rate(len))).collect();
            let highest = points.iter().fold(0.0, |most: f64, point| most.max(1e6 * point.1));
            report.add(&peak, variant, 0, RATE, Unit::PerSecond, highest);
            curves.push(Curve { name: variant.clone(), points });
        }
        report.add(&peak, "Mega-KV, published (GTX 780)", 0, RATE, Unit::PerSecond, published);
        let title = format!("figure 8: {}", name_of(operation));
        let chart = Chart::new(title, "jobs of a batch", "million a second", Drawing::Curves(curves));
        report.charts.push(chart.with_scales(Scale::Logarithmic, Scale::Logarithmic));
    }
    report.notes.push(format!(
        "figure 8: jobs and answers are copied from and to pinned host memory within the time, except where it is said otherwise; {STREAMS} streams share a batch, each with a thread of the \
         host; batches that change the index run one after the other"
    ));
}
