//! The cuckoo index in device memory, beside the native CPU implementation and random reads of device memory.

mod index;
mod options;

use warpkeep_device::Device;

pub(crate) use self::index::{Batch, Columns, Contestant, Hashes, Operation, room_for};
use self::index::{CELLS, CPU};
pub use self::options::Options;
use super::{Clock, DEVICE, RATE, relate};
use crate::chart::{Chart, Curve, Drawing, Scale};
use crate::limits::device::{Access, AccessLimits, note_of};
use crate::limits::median;
use crate::report::{Report, Unit};
use crate::{Amount, BenchError, Progress};

/// Bytes of a bucket.
const BUCKET_BYTES: u64 = 64;
/// Numbers from here on are of hashes that are not in an index.
const ABSENT: u32 = 1 << 31;
/// Entries that an index is filled with at a time.
const MOST_FILLED: u64 = 1 << 24;
/// Operations of the batches of one size in a round at the most, unless one batch has more, and batches.
const MOST_OPERATIONS: u64 = 1 << 24;
const MOST_BATCHES: u64 = 16;

/// Measures indexes of all sizes and loads.
///
/// ```no_run
/// use warpkeep_bench::{Quiet, gpu::cuckoo};
///
/// let options = cuckoo::Options::on("cuda:0".parse()?);
/// print!("{}", cuckoo::run(&options, &Quiet)?.to_text());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    options.check()?;
    let mut report = Report::new("gpu cuckoo", &options.command, options.seed);
    let device = Device::open(options.device)?;
    report.notes.push(note_of(&device));
    report.notes.push(
        "operations and answers of the device lie in its memory; the time of a batch that changes the index contains the sort by bucket; the index stays at its load: \
         entries are deleted and inserted again; the limit of a search is two buckets of 64 bytes read at random, of a change one 64-bit compare-and-swap, in as much device memory; the CPU takes part up to 2^24 entries; \
         every answer was checked"
            .to_owned(),
    );
    let clock = Clock::new(&device)?;
    let (bucket_counts, loads) = (options.bucket_counts(), options.sorted_loads());
    let total = (bucket_counts.len() * loads.len()) as u64 * u64::from(options.rounds);
    progress.begin(&format!("indexes on {}", options.device), Amount::Count(total));
    let (read, swap) = (Access::RandomRead(64), Access::RandomSwap);
    for buckets in bucket_counts {
        let limits = AccessLimits::measure(
            &device,
            BUCKET_BYTES * buckets,
            &[read, swap],
            options.rounds,
            progress,
            &mut report,
        )?;
        for &load in &loads {
            let bench = Bench { options, device: &device, clock: &clock, progress, buckets, load };
            bench.run(&mut report)?;
            for batch in options.batches_of(bench.entries()) {
                for operation in Operation::ALL {
                    let limit = match operation {
                        Operation::Hit | Operation::Miss => {
                            ("device memory, 2 random reads of 64 bytes", limits.rate(read) / 2.0)
                        }
                        _ => ("device memory, compare-and-swap of 8 bytes", limits.rate(swap)),
                    };
                    relate(&mut report, &bench.case(operation, batch), limit, CPU);
                }
            }
        }
    }
    progress.finish();
    report.finish();
    report.charts = charts(options, &report);
    Ok(report)
}

fn case_of(operation: Operation, batch: usize, load: f64, buckets: u64) -> String {
    format!("{}, batches of {batch}, load {load}, {buckets} buckets", operation.name())
}

struct Bench<'b> {
    options: &'b Options,
    device: &'b Device,
    clock: &'b Clock,
    progress: &'b dyn Progress,
    buckets: u64,
    load: f64,
}

impl Bench<'_> {
    fn entries(&self) -> u64 {
        ((self.load * (CELLS * self.buckets) as f64) as u64).max(1)
    }

    fn case(&self, operation: Operation, batch: usize) -> String {
        case_of(operation, batch, self.load, self.buckets)
    }

    fn run(&self, report: &mut Report) -> Result<(), BenchError> {
        let Options { rounds, seed, .. } = *self.options;
        let hashes = Hashes::new(seed);
        let mut contestants = vec![Contestant::on_device(self.device, self.clock, self.buckets)?];
        if self.options.has_cpu(self.entries()) {
            contestants.push(Contestant::on_cpu(self.buckets)?);
        }
        for contestant in &contestants {
            self.fill(contestant, hashes)?;
        }
        for round in 0..rounds {
            for contestant in &contestants {
                for batch in self.options.batches_of(self.entries()) {
                    self.batches(contestant, hashes, batch, round, report)?;
                }
            }
            self.progress.advance(1);
        }
        for contestant in &contestants {
            let len = contestant.index.len()?;
            if len != self.entries() {
                return Err(BenchError::Wrong(format!(
                    "{}: the index has {len} entries, and not {}",
                    contestant.name,
                    self.entries()
                )));
            }
        }
        Ok(())
    }

    /// Brings an empty index to its load.
    fn fill(&self, contestant: &Contestant<'_>, hashes: Hashes) -> Result<(), BenchError> {
        let mut from = 0;
        while from < self.entries() {
            self.progress.check()?;
            let to = self.entries().min(from + MOST_FILLED);
            contestant.run(&Batch::new(hashes, Operation::Insert, from as u32..to as u32))?;
            from = to;
        }
        Ok(())
    }

    /// Batches of one size: entries are deleted and inserted again, and searched for in between, so that the index stays as it is.
    fn batches(
        &self,
        contestant: &Contestant<'_>,
        hashes: Hashes,
        len: usize,
        round: u32,
        report: &mut Report,
    ) -> Result<(), BenchError> {
        let size = len as u64;
        let count = (MOST_OPERATIONS / size).clamp(1, MOST_BATCHES).min(self.entries() / size);
        let mut seconds = [0.0; Operation::ALL.len()];
        for number in 0..count {
            // Other entries in every round.
            let first = ((u64::from(round) * count + number) % (self.entries() / size) * size) as u32;
            let there = first..first + len as u32;
            let absent = ABSENT + first..ABSENT + first + len as u32;
            // Inserts need the cells of what was deleted.
            for operation in [Operation::Hit, Operation::Miss, Operation::Delete, Operation::Insert] {
                self.progress.check()?;
                let numbers = if operation == Operation::Miss { absent.clone() } else { there.clone() };
                let took = contestant.run(&Batch::new(hashes, operation, numbers))?;
                let at = Operation::ALL.iter().position(|&one| one == operation).unwrap_or(0);
                seconds[at] += took;
            }
        }
        for (operation, seconds) in Operation::ALL.into_iter().zip(seconds) {
            let case = self.case(operation, len);
            let rate = (count * size) as f64 / seconds;
            report.add(&case, contestant.name, round, RATE, Unit::PerSecond, rate);
            let each = 1e6 * seconds / count as f64;
            report.add(&case, contestant.name, round, "time of a batch", Unit::Micros, each);
        }
        Ok(())
    }
}

/// Curves: operations a second over the size of a batch.
fn charts(options: &Options, report: &Report) -> Vec<Chart> {
    let mut charts = Vec::new();
    for buckets in options.bucket_counts() {
        for load in options.sorted_loads() {
            let entries = (load * (CELLS * buckets) as f64) as u64;
            let batches = options.batches_of(entries);
            if batches.len() < 2 {
                continue;
            }
            let curve = |operation: Operation| {
                let rate =
                    |batch| median(&report.series(&case_of(operation, batch, load, buckets), DEVICE, RATE));
                let points = batches.iter().map(|&batch| (batch as f64, 1e-6 * rate(batch))).collect();
                Curve { name: operation.name().to_owned(), points }
            };
            let curves = Drawing::Curves(Operation::ALL.map(curve).to_vec());
            let title = format!("index of {buckets} buckets at load {load} by batch");
            let chart = Chart::new(title, "operations of a batch", "million a second", curves);
            charts.push(chart.with_scales(Scale::Logarithmic, Scale::Fitting));
        }
    }
    charts
}
