//! Figure 6: the time of searches by the cells of a bucket and the lanes of a processing unit.
#![allow(unsafe_code, reason = "kernels are launched")]

use std::time::Instant;

use warpkeep_device::{Buffer, Grid, KernelSet as _, Stream, TypedKernel};

use super::unit_index::UnitIndex;
use super::{Bench, STREAMS};
use crate::BenchError;
use crate::gpu::cuckoo::Hashes;
use crate::gpu::{RATE, relate_variant};
use crate::kernels::{UnitKernels, UnitSearchParams};
use crate::limits::device::{Access, AccessLimits};
use crate::report::{Report, Unit};

/// Jobs of a launch, as in the paper, and of a large one.
const JOBS: u64 = 60_000;
const MANY_JOBS: u64 = 1 << 24;
/// Without displacement, about half of the cells can be full.
const LOAD: f64 = 0.5;
const THREADS: u32 = 128;
const TIME: &str = "time of a launch";

pub(super) fn run(bench: &Bench<'_>, report: &mut Report) -> Result<(), BenchError> {
    let kernels = UnitKernels::load(bench.device)?;
    let hashes = Hashes::new(bench.options.seed);
    let streams = (0..STREAMS).map(|_| bench.device.stream()).collect::<Result<Vec<_>, _>>()?;
    // Half of the items: the host fills an index for each number of cells.
    let entries = (bench.entries() / 2).min(1 << 24);
    let (few, many) = (JOBS.min(entries / STREAMS as u64), MANY_JOBS.min(entries));
    let access = [Access::RandomRead(32), Access::RandomRead(64), Access::RandomRead(128)];
    let bytes = (16.0 * entries as f64) as u64;
    let (rounds, progress) = (bench.options.rounds, bench.progress);
    let limits = AccessLimits::measure(bench.device, bytes, &access, rounds, progress, report)?;
    let jobs: Vec<u64> = (0..many as u32).map(|number| hashes.of(number)).collect();
    let (keys, found) = (bench.device.upload(&jobs)?, bench.device.allocate(4 * many as usize)?);
    for cells in [8_usize, 16, 32] {
        let buckets = ((entries as f64 / (LOAD * cells as f64)).ceil() as u64).next_power_of_two();
        let mut index = UnitIndex::new(cells, buckets, 1);
        index.fill(hashes, 0..entries as u32)?;
        let table = index.upload(bench.device)?;
        for (lanes, kernel) in kernels_of(&kernels, cells) {
            let work = Work { kernel, lanes, table: &table, mask: index.mask(), keys: &keys, found: &found };
            let variant = format!("{cells} cells, {lanes} lanes a job");
            // The first round loads the kernel, and is not counted.
            for round in 0..=rounds {
                bench.progress.check()?;
                let shared = work.in_streams(few, &streams)?;
                let alone = bench.clock.time(|stream| work.launch(0, many, stream))?;
                work.check(many as u32)?;
                let Some(round) = round.checked_sub(1) else { continue };
                let case = format!("figure 6: searches of {few} jobs in each of {STREAMS} streams");
                report.add(&case, &variant, round, TIME, Unit::Micros, 1e6 * shared);
                let case = format!("figure 6: searches of {many} jobs");
                report.add(&case, &variant, round, RATE, Unit::PerSecond, many as f64 / alone);
            }
            // Signatures of a bucket are what every search reads.
            let read = Access::RandomRead((4 * cells).min(128) as u32);
            let limit = format!("device memory, {read}");
            let case = format!("figure 6: searches of {many} jobs");
            relate_variant(report, &case, &variant, (&limit, limits.rate(read)), None);
        }
    }
    report.notes.push(
        "figure 6: the paper chose 8 cells and 8 threads, and gives no numbers; here jobs and answers lie in device memory, and an index is half full".to_owned(),
    );
    Ok(())
}

/// The kernels for buckets of this many cells, with the lanes of a job.
fn kernels_of(kernels: &UnitKernels, cells: usize) -> Vec<(u32, &TypedKernel<UnitSearchParams>)> {
    match cells {
        8 => vec![(1, &kernels.search_8_1), (4, &kernels.search_8_4), (8, &kernels.search_8_8)],
        16 => vec![
            (1, &kernels.search_16_1),
            (4, &kernels.search_16_4),
            (8, &kernels.search_16_8),
            (16, &kernels.search_16_16),
        ],
        _ => vec![
            (1, &kernels.search_32_1),
            (4, &kernels.search_32_4),
            (8, &kernels.search_32_8),
            (16, &kernels.search_32_16),
            (32, &kernels.search_32_32),
        ],
    }
}

/// Searches by one kernel.
struct Work<'w> {
    kernel: &'w TypedKernel<UnitSearchParams>,
    lanes: u32,
    table: &'w Buffer,
    mask: u64,
    keys: &'w Buffer,
    found: &'w Buffer,
}

impl Work<'_> {
    fn launch(&self, first: u64, count: u64, stream: &Stream) -> Result<(), BenchError> {
        let params = UnitSearchParams {
            table: self.table.ptr(),
            mask: self.mask,
            hashes: self.keys.ptr().offset(8 * first),
            found: self.found.ptr().offset(4 * first),
            count,
        };
        let grid = Grid::covering(count * u64::from(self.lanes), THREADS);
        // SAFETY: the columns have this many jobs from the first one on; they and the table stay until the caller has waited for the stream.
        unsafe { self.kernel.launch(grid, &params, stream)? };
        Ok(())
    }

    /// The seconds of one launch, if all streams have one at the same time.
    fn in_streams(&self, count: u64, streams: &[Stream]) -> Result<f64, BenchError> {
        let begun = Instant::now();
        for (part, stream) in (0..).zip(streams) {
            self.launch(part * count, count, stream)?;
        }
        for stream in streams {
            stream.synchronize()?;
        }
        Ok(begun.elapsed().as_secs_f64().max(1e-9) / streams.len() as f64)
    }

    /// Checks that each job found its entry, and clears the answers.
    fn check(&self, count: u32) -> Result<(), BenchError> {
        let found = self.found.to_vec::<u32>()?;
        let wrong = (0..count).zip(&found).filter(|(number, location)| number != *location).count();
        self.found.fill(0xff)?;
        // Other entries can have the same signature and a bucket in common.
        match wrong as u32 > count / 100_000 {
            false => Ok(()),
            true => Err(BenchError::Wrong(format!("{wrong} of {count} searches did not find their entry"))),
        }
    }
}
