//! Figure 7: insertions by the number of partitions, each of which has a block of its own.
#![allow(unsafe_code, reason = "kernels are launched")]

use warpkeep_device::{Grid, KernelSet as _};

use super::Bench;
use super::unit_index::UnitIndex;
use crate::BenchError;
use crate::chart::{Chart, Curve, Drawing, Scale};
use crate::gpu::cuckoo::{Batch, Contestant, Hashes, Operation};
use crate::gpu::{RATE, relate_variant};
use crate::kernels::{SUMS, UNIT_CELLS, UnitInsertParams, UnitKernels};
use crate::limits::device::{Access, AccessLimits};
use crate::limits::median;
use crate::report::{Report, Unit};

/// Those of the paper, and as many as a larger device has multiprocessors for.
const PARTITIONS: [u64; 7] = [1, 2, 4, 8, 16, 128, 1024];
/// Buckets of a partition at the least: without displacement, few are full sooner.
const LEAST_BUCKETS: u64 = 64;
const THREADS: u32 = 512;
const OURS: &str = "cuckoo index, sorted by bucket";
const FASTER: &str = "of the rate with one partition";
/// By the text: 1.2 with two, and 1.3 to 1.8 with sixteen.
const PUBLISHED: [(&str, f64); 3] = [
    ("2 partitions, published (GTX 780)", 1.2),
    ("16 partitions, published (GTX 780), least", 1.3),
    ("16 partitions, published (GTX 780), most", 1.8),
];

fn variant_of(partitions: u64) -> String {
    if partitions == 1 { "1 partition".to_owned() } else { format!("{partitions} partitions") }
}

pub(super) fn run(bench: &Bench<'_>, report: &mut Report) -> Result<(), BenchError> {
    let (device, rounds) = (bench.device, bench.options.rounds);
    let kernels = UnitKernels::load(device)?;
    let hashes = Hashes::new(bench.options.seed);
    // A quarter of the cells is full before, and an eighth more after the batch.
    let batch = (bench.entries() / 8).clamp(64, 1 << 22);
    let before = 2 * batch;
    let buckets = (8 * batch / UNIT_CELLS as u64).next_power_of_two().max(1024);
    let case = format!("figure 7: insertion of {batch} entries");
    let bytes = 64 * buckets;
    let swap = Access::RandomSwap;
    let limits = AccessLimits::measure(device, bytes, &[swap], rounds, bench.progress, report)?;
    let all = 0..(before + batch) as u32;
    let counts: Vec<u64> =
        PARTITIONS.into_iter().filter(|partitions| partitions * LEAST_BUCKETS <= buckets).collect();
    for &partitions in &counts {
        let mut index = UnitIndex::new(UNIT_CELLS, buckets, partitions);
        index.fill(hashes, 0..before as u32)?;
        // The host puts the jobs of a partition side by side, as the paper's does.
        let mut jobs: Vec<u32> = (before as u32..all.end).collect();
        jobs.sort_by_key(|&number| index.partition(hashes.of(number)));
        let mut begins = vec![0_u64; partitions as usize + 1];
        for &number in &jobs {
            begins[index.partition(hashes.of(number)) as usize + 1] += 1;
        }
        for part in 1..begins.len() {
            begins[part] += begins[part - 1];
        }
        let keys = device.upload(&jobs.iter().map(|&number| hashes.of(number)).collect::<Vec<u64>>())?;
        let (locations, begins) = (device.upload(&jobs)?, device.upload(&begins)?);
        let variant = variant_of(partitions);
        let filled = index.upload(device)?;
        let table = device.allocate(filled.len())?;
        // The first round loads the kernel, and is not counted.
        for round in 0..=rounds {
            bench.progress.check()?;
            table.copy_from(0, &filled, 0, filled.len())?;
            let failed = device.allocate_zeroed(8 * SUMS)?;
            let params = UnitInsertParams {
                table: table.ptr(),
                mask: index.mask(),
                hashes: keys.ptr(),
                locations: locations.ptr(),
                begins: begins.ptr(),
                failed: failed.ptr(),
            };
            let grid = Grid { blocks: partitions as u32, threads: THREADS, shared_bytes: 0 };
            // SAFETY: the columns have the jobs of all partitions; they and the table stay until the clock has waited.
            let seconds =
                bench.clock.time(|stream| unsafe { kernels.insert.launch(grid, &params, stream) })?;
            if failed.to_vec::<u64>()?.into_iter().sum::<u64>() > 0 {
                return Err(BenchError::Wrong("a sparse index of the paper's layout had no cell".to_owned()));
            }
            index.check(&table, hashes, all.clone())?;
            let Some(round) = round.checked_sub(1) else { continue };
            report.add(&case, &variant, round, RATE, Unit::PerSecond, batch as f64 / seconds);
        }
    }
    let ours = Contestant::on_device(device, bench.clock, buckets)?;
    ours.run(&Batch::new(hashes, Operation::Insert, 0..before as u32))?;
    for round in 0..=rounds {
        bench.progress.check()?;
        let numbers = before as u32..all.end;
        let seconds = ours.run(&Batch::new(hashes, Operation::Insert, numbers.clone()))?;
        ours.run(&Batch::new(hashes, Operation::Delete, numbers))?;
        let Some(round) = round.checked_sub(1) else { continue };
        report.add(&case, OURS, round, RATE, Unit::PerSecond, batch as f64 / seconds);
    }
    conclude(&case, &counts, (swap, limits.rate(swap)), report);
    Ok(())
}

fn conclude(case: &str, counts: &[u64], (access, rate): (Access, f64), report: &mut Report) {
    let alone = median(&report.series(case, &variant_of(1), RATE));
    let limit = format!("device memory, {access}");
    for variant in counts.iter().map(|&count| variant_of(count)).chain([OURS.to_owned()]) {
        relate_variant(report, case, &variant, (&limit, rate), None);
        let faster = median(&report.series(case, &variant, RATE)) / alone;
        report.add(case, &variant, 0, FASTER, Unit::Percent, 100.0 * faster);
    }
    for (name, faster) in PUBLISHED {
        report.add(case, name, 0, FASTER, Unit::Percent, 100.0 * faster);
    }
    let point = |&partitions: &u64| {
        (partitions as f64, 1e-6 * median(&report.series(case, &variant_of(partitions), RATE)))
    };
    let curve = Curve { name: "a block a partition".to_owned(), points: counts.iter().map(point).collect() };
    let chart =
        Chart::new("figure 7: insertion", "partitions", "million a second", Drawing::Curves(vec![curve]));
    report.charts.push(chart.with_scales(Scale::Logarithmic, Scale::Fitting));
    report.notes.push(
        "figure 7: the host partitions the batch before the time begins, as in the paper; our index sorts it by bucket within the time, and orders operations on one key".to_owned(),
    );
}
