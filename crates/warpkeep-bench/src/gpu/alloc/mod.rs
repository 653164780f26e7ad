//! The slab allocator: units that kernels claim and give back, in an empty pool and in one that is nearly full.

mod options;
mod pool;

use warpkeep_device::Device;

pub use self::options::Options;
pub(crate) use self::pool::EmptyPool;
use self::pool::{MixedPools, Pool, RUNS};
use super::{Clock, DEVICE, RATE, curves_by_share, relate_variant};
use crate::chart::{Chart, Scale};
use crate::limits::device::{Access, AccessLimits, note_of};
use crate::report::{Report, Unit};
use crate::workload::Dice;
use crate::{Amount, BenchError, Progress};

/// What is done with single units.
const OPERATIONS: [&str; 3] = ["claim", "exchange", "give back"];
/// The least memory in which atomic operations are measured.
const LEAST_BYTES: u64 = 1 << 16;

/// Measures claims, exchanges and releases of units, runs of units, and units of all sizes.
///
/// ```no_run
/// use warpkeep_bench::{Quiet, gpu::alloc};
///
/// let options = alloc::Options::on("cuda:0".parse()?);
/// print!("{}", alloc::run(&options, &Quiet)?.to_text());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    options.check()?;
    let mut report = Report::new("gpu alloc", &options.command, options.seed);
    let device = Device::open(options.device)?;
    report.notes.push(note_of(&device));
    report.notes.push(format!(
        "each thread of one launch claims one unit, or a run of units, and stores its handle; the pool has {} units, and what is taken before is \
         spread at random; an exchange gives a unit back and claims another one, and the thread writes to each unit and reads it; the limit is one \
         64-bit compare-and-swap for each unit or run in as much memory as the bitmaps take, and a warp that claims up to 32 units with one operation can be faster; every handle was \
         checked",
        options.capacity()
    ));
    let clock = Clock::new(&device)?;
    let bitmap_bytes = (options.capacity() / 8).max(LEAST_BYTES);
    let swap = Access::RandomSwap;
    let limits =
        AccessLimits::measure(&device, bitmap_bytes, &[swap], options.rounds, progress, &mut report)?;
    let shares = options.sorted_full();
    let total = (shares.len() + RUNS.len() + 1) as u64 * u64::from(options.rounds);
    progress.begin(&format!("units on {}", options.device), Amount::Count(total));
    let mut bench = Bench { options, device: &device, clock: &clock, progress, cases: Vec::new() };
    for &full in &shares {
        bench.units(full, &mut report)?;
    }
    for run in RUNS {
        bench.runs(run, &mut report)?;
    }
    bench.mixed(&mut report)?;
    let limit = ("device memory, one compare-and-swap of 8 bytes", limits.rate(swap));
    for case in bench.cases {
        relate_variant(&mut report, &case, DEVICE, limit, None);
    }
    progress.finish();
    report.finish();
    if shares.len() > 1 {
        let names = OPERATIONS.map(str::to_owned);
        let rate = |name: &str, full: f64| report.series(&case_of(options, name, full), DEVICE, RATE);
        let drawing = curves_by_share(&shares, &names, rate);
        let chart = Chart::new("units by how full the pool is", "% of the pool", "million a second", drawing)
            .with_scales(Scale::Linear, Scale::Fitting);
        report.charts.push(chart);
    }
    Ok(report)
}

fn case_of(options: &Options, operation: &str, full: f64) -> String {
    let Options { units, unit_bytes, .. } = options;
    format!("{operation}, {units} units of {unit_bytes} bytes, pool {}% full", 100.0 * full)
}

struct Bench<'b> {
    options: &'b Options,
    device: &'b Device,
    clock: &'b Clock,
    progress: &'b dyn Progress,
    cases: Vec<String>,
}

impl Bench<'_> {
    fn add(&mut self, report: &mut Report, case: String, round: u32, done: usize, seconds: f64) {
        report.add(&case, DEVICE, round, RATE, Unit::PerSecond, done as f64 / seconds);
        report.add(&case, DEVICE, round, "time", Unit::Micros, 1e6 * seconds);
        if !self.cases.contains(&case) {
            self.cases.push(case);
        }
    }

    fn pool(&self, full: f64) -> Result<Pool<'_>, BenchError> {
        let options = self.options;
        let mut dice = Dice::new(options.seed, 0);
        let size = (options.unit_bytes, options.capacity());
        Pool::new(self.device, self.clock, size, full, options.units, &mut dice)
    }

    /// Single units, in a pool of which a share is taken.
    fn units(&mut self, full: f64, report: &mut Report) -> Result<(), BenchError> {
        let Options { units, exchanges, rounds, .. } = *self.options;
        let mut times = Vec::new();
        {
            let pool = self.pool(full)?;
            // The first round loads kernels, and is not counted.
            for round in 0..=rounds {
                self.progress.check()?;
                let claimed = pool.claim(1)?;
                pool.check(1)?;
                let exchanged = pool.churn(exchanges)?;
                pool.check(1)?;
                let released = pool.release(1)?;
                pool.check_released()?;
                if let Some(round) = round.checked_sub(1) {
                    times.push((round, [claimed, exchanged, released]));
                    self.progress.advance(1);
                }
            }
        }
        for (round, seconds) in times {
            let done = [units, units * exchanges as usize, units];
            for ((operation, done), seconds) in OPERATIONS.into_iter().zip(done).zip(seconds) {
                self.add(report, case_of(self.options, operation, full), round, done, seconds);
            }
        }
        Ok(())
    }

    /// Runs of units in an empty pool.
    fn runs(&mut self, run: u32, report: &mut Report) -> Result<(), BenchError> {
        let Options { units, unit_bytes, rounds, .. } = *self.options;
        let mut times = Vec::new();
        {
            let pool = self.pool(0.0)?;
            for round in 0..=rounds {
                self.progress.check()?;
                let claimed = pool.claim(run)?;
                pool.check(run)?;
                let released = pool.release(run)?;
                pool.check_released()?;
                if let Some(round) = round.checked_sub(1) {
                    times.push((round, [claimed, released]));
                    self.progress.advance(1);
                }
            }
        }
        let count = units / run as usize;
        for (round, seconds) in times {
            for (operation, seconds) in ["claim", "give back"].into_iter().zip(seconds) {
                let case = format!("{operation}, {count} runs of {run} units of {unit_bytes} bytes");
                self.add(report, case, round, count, seconds);
            }
        }
        Ok(())
    }

    /// Units of all sizes.
    fn mixed(&mut self, report: &mut Report) -> Result<(), BenchError> {
        let Options { units, rounds, seed, .. } = *self.options;
        let pools = MixedPools::new(self.device, self.clock, units, seed)?;
        for round in 0..=rounds {
            self.progress.check()?;
            let seconds = [pools.claim()?, pools.release()?];
            let Some(round) = round.checked_sub(1) else { continue };
            for (operation, seconds) in ["claim", "give back"].into_iter().zip(seconds) {
                let case = format!("{operation}, {units} units of 32 to 512 bytes");
                self.add(report, case, round, units, seconds);
            }
            self.progress.advance(1);
        }
        Ok(())
    }
}
