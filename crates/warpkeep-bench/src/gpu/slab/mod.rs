//! The slab hash in device memory, by how full its slabs are, with slabs of 64 and of 128 bytes, and pairs of 32 and of 64 bits.

mod batch;
mod items;
mod options;
mod shape;
mod table;

use warpkeep_device::Device;

pub(crate) use self::batch::{
    ABSENT_KEY, Batch, FOUND, FULL, INSERTED, Mix, REMOVED, REPLACE, SEARCH, answer,
};
#[cfg(test)]
pub(crate) use self::batch::{DELETE, PRESENT, UPDATED};
pub(crate) use self::items::{Items, mix32};
pub use self::options::{Options, Pairs};
pub(crate) use self::shape::Shape;
pub(crate) use self::table::{CPU, Columns, CpuTable, OurTable, Table, name_of, run as run_batch};
use self::table::{SlabTable, run_bulk};
use super::{Clock, RATE, curves_by_share, relate_variant};
use crate::chart::{Chart, Scale};
use crate::limits::device::{Access, AccessLimits, note_of};
use crate::report::{Report, Unit};
use crate::workload::Dice;
use crate::{Amount, BenchError, Progress};

/// The metric of how full slabs are.
pub(crate) const UTILISATION: &str = "utilisation";
/// A mixed batch has a request for this many pairs of the table.
const PAIRS_A_REQUEST: usize = 8;
/// Pairs up to which the CPU takes part.
const CPU_PAIRS: usize = 1 << 22;

/// Measures tables of all sizes and utilisations.
///
/// ```no_run
/// use warpkeep_bench::{Quiet, gpu::slab};
///
/// let options = slab::Options::on("cuda:0".parse()?);
/// print!("{}", slab::run(&options, &Quiet)?.to_text());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    options.check()?;
    let mut report = Report::new("gpu slab", &options.command, options.seed);
    let device = Device::open(options.device)?;
    report.notes.push(note_of(&device));
    report.notes.push(
        "requests and answers lie in device memory; a build runs one request for each pair, and a bulk build sorts them by bucket first; a table has a number of pairs near the one asked for that gives the utilisation in a power of two of \
         buckets, and does not grow; mixed batches have a request for eight pairs, in the shares of the slab hash's paper: updates are half inserts of new keys and half deletions; the limit of \
         a search is one slab read at random, and of a build one 64-bit compare-and-swap, in as much device memory; the CPU takes part up to 2^22 pairs of 32 bits; every answer was checked"
            .to_owned(),
    );
    report.notes.extend(options.left_out());
    let clock = Clock::new(&device)?;
    let tables: usize = options.tables().iter().map(|&(_, pairs)| options.attainable(pairs).len()).sum();
    let total = tables as u64 * u64::from(options.rounds);
    progress.begin(&format!("slab hashes on {}", options.device), Amount::Count(total));
    for (items, pairs) in options.tables() {
        // As much memory as slabs take that are half full.
        let accesses = [Access::RandomRead(64), Access::RandomRead(128), Access::RandomSwap];
        let bytes = 2 * u64::from(pairs.shape(64).pair_bytes) * items as u64;
        let limits = AccessLimits::measure(&device, bytes, &accesses, options.rounds, progress, &mut report)?;
        for (utilisation, slab_bytes) in options.attainable(pairs) {
            let bench =
                Bench { options, device: &device, clock: &clock, progress, pairs, items, utilisation };
            bench.run(&slab_bytes, &mut report)?;
            for operation in operations().into_iter().chain([BULK_BUILD.to_owned()]) {
                let case = case_of(&operation, utilisation, items, pairs);
                for &bytes in &slab_bytes {
                    let read = Access::RandomRead(bytes);
                    let limit = match operation.as_str() {
                        BUILD | BULK_BUILD => (
                            "device memory, compare-and-swap of 8 bytes".to_owned(),
                            limits.rate(Access::RandomSwap),
                        ),
                        _ => (format!("device memory, {read}"), limits.rate(read)),
                    };
                    relate_variant(
                        &mut report,
                        &case,
                        &name_of(Shape::of(bytes)),
                        (&limit.0, limit.1),
                        Some(CPU),
                    );
                }
            }
        }
    }
    progress.finish();
    report.finish();
    report.charts = charts(options, &report);
    Ok(report)
}

const BUILD: &str = "build";
const BULK_BUILD: &str = "bulk build";

/// What is done with a table.
fn operations() -> Vec<String> {
    let searches = [BUILD, "search, hit", "search, miss"].map(str::to_owned);
    searches.into_iter().chain(Mix::ALL.map(|mix| format!("mixed, {}", mix.name))).collect()
}

fn case_of(operation: &str, utilisation: f64, items: usize, pairs: Pairs) -> String {
    format!("{operation}, utilisation {utilisation}, {}", table_of(items, pairs))
}

fn table_of(items: usize, pairs: Pairs) -> String {
    match pairs {
        Pairs::Four => format!("about {items} pairs"),
        Pairs::Eight => format!("about {items} pairs of {pairs}"),
    }
}

struct Bench<'b> {
    options: &'b Options,
    device: &'b Device,
    clock: &'b Clock,
    progress: &'b dyn Progress,
    pairs: Pairs,
    items: usize,
    utilisation: f64,
}

impl Bench<'_> {
    fn run(&self, slab_bytes: &[u32], report: &mut Report) -> Result<(), BenchError> {
        let Options { seed, rounds, .. } = *self.options;
        let items = Items::new(seed);
        let mut contestants = Vec::new();
        for &bytes in slab_bytes {
            let shape = self.pairs.shape(bytes);
            let (buckets, pairs) = shape.fit(self.items, self.utilisation);
            // Mixed batches insert more.
            let room = pairs + (3 * pairs as usize / PAIRS_A_REQUEST) as u32 + 64;
            let table: Box<dyn Table> = match self.pairs {
                Pairs::Four => Box::new(OurTable::new(self.device, shape, (buckets, room), seed)?),
                Pairs::Eight => Box::new(SlabTable::<u64>::new(self.device, shape, (buckets, room), seed)?),
            };
            contestants.push(Contestant::new(table, items, pairs));
        }
        if self.items <= CPU_PAIRS && self.pairs == Pairs::Four {
            contestants.push(Contestant::new(Box::new(CpuTable::default()), items, self.items as u32));
        }
        for round in 0..rounds {
            for contestant in &mut contestants {
                self.progress.check()?;
                self.round(contestant, round, report)?;
            }
            self.progress.advance(1);
        }
        Ok(())
    }

    fn round(&self, contestant: &mut Contestant, round: u32, report: &mut Report) -> Result<(), BenchError> {
        let (items, pairs) = (contestant.items, contestant.pairs);
        let mut dice = Dice::new(self.options.seed, u64::from(round));
        let table = contestant.table.as_mut();
        table.clear()?;
        if let Some(seconds) = run_bulk(table, &contestant.bulk[0], self.clock)? {
            let case = case_of(BULK_BUILD, self.utilisation, self.items, self.pairs);
            report.add(&case, table.name(), round, RATE, Unit::PerSecond, f64::from(pairs) / seconds);
            report.add(&case, table.name(), round, "time", Unit::Micros, 1e6 * seconds);
            run_batch(table, &contestant.bulk[1], self.clock)?;
            table.clear()?;
        }
        let mut add = |table: &mut dyn Table, operation: &str, batch: &Batch| -> Result<(), BenchError> {
            let case = case_of(operation, self.utilisation, self.items, self.pairs);
            let seconds = run_batch(table, batch, self.clock)?;
            report.add(&case, table.name(), round, RATE, Unit::PerSecond, batch.len() as f64 / seconds);
            report.add(&case, table.name(), round, "time", Unit::Micros, 1e6 * seconds);
            if let (BUILD, Some(share)) = (operation, table.utilisation()?) {
                report.add(&case, table.name(), round, UTILISATION, Unit::Percent, 100.0 * share);
            }
            Ok(())
        };
        for (operation, batch) in operations().iter().zip(&contestant.bulk) {
            add(table, operation, batch)?;
        }
        let mut present = 0..pairs;
        for mix in Mix::ALL {
            let count = (pairs as usize / PAIRS_A_REQUEST).max(1);
            let (batch, left) = mix.batch(items, present, count, &mut dice);
            present = left;
            add(table, &format!("mixed, {}", mix.name), &batch)?;
        }
        // What the mixed batches left is there.
        run_batch(table, &Batch::hits(items, present), self.clock)?;
        Ok(())
    }
}

/// A table, and the batches on all of its pairs: a build, searches that hit and searches that miss.
struct Contestant {
    table: Box<dyn Table>,
    items: Items,
    pairs: u32,
    bulk: [Batch; 3],
}

impl Contestant {
    fn new(table: Box<dyn Table>, items: Items, pairs: u32) -> Contestant {
        let bulk = [Batch::build(items, 0..pairs), Batch::hits(items, 0..pairs), Batch::misses(items, pairs)];
        Contestant { table, items, pairs, bulk }
    }
}

fn charts(options: &Options, report: &Report) -> Vec<Chart> {
    let shares = options.sorted_utilisations();
    if shares.len() < 2 {
        return Vec::new();
    }
    let names: Vec<String> = options.slab_bytes.iter().map(|&bytes| name_of(Shape::of(bytes))).collect();
    let mut charts = Vec::new();
    for (items, pairs) in options.tables() {
        for operation in operations() {
            let case = |share: f64| case_of(&operation, share, items, pairs);
            let rate = |name: &str, share: f64| report.series(&case(share), name, RATE);
            let title = format!("{operation}, {}, by utilisation", table_of(items, pairs));
            let drawing = curves_by_share(&shares, &names, rate);
            let chart = Chart::new(title, "% utilisation", "million a second", drawing);
            charts.push(chart.with_scales(Scale::Linear, Scale::Fitting));
        }
    }
    charts
}
