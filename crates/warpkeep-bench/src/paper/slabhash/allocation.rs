//! Section V: a million slabs of 128 bytes, one for each thread.

use super::bench::Bench;
use super::warp_table::WarpPool;
use crate::BenchError;
use crate::chart::{Bar, Chart, Drawing};
use crate::gpu::alloc::EmptyPool;
use crate::gpu::{RATE, relate_variant};
use crate::limits::device::Access;
use crate::limits::median;
use crate::report::{Report, Unit};

/// Slabs that are claimed.
const SLABS: usize = 1_000_000;
/// Units of a pool for each that is claimed.
const ROOM: u64 = 2;
const OURS: &str = "SlabAlloc of ours";
const PAPER: &str = "SlabAlloc, the paper's layout";
const PUBLISHED: [(&str, f64); 3] = [
    ("CUDA malloc, published (K40c)", 0.8e6),
    ("Halloc, published (K40c)", 16.1e6),
    ("SlabAlloc, published (K40c)", 600e6),
];

pub(super) fn run(bench: &Bench<'_>, report: &mut Report) -> Result<(), BenchError> {
    let slabs = bench.options.items.min(SLABS);
    let case = format!("section V: claims of {slabs} slabs of 128 bytes, one a thread");
    let limits = bench.limits(slabs, report)?;
    let ours = EmptyPool::new(bench.device, bench.clock, slabs, ROOM * slabs as u64)?;
    let paper = WarpPool::new(bench.device, ROOM * slabs as u64)?;
    // The first round loads kernels, and is not counted.
    for round in 0..=bench.options.rounds {
        bench.progress.check()?;
        let our_seconds = ours.claim_and_release()?;
        let (paper_seconds, handles) = paper.claim(bench.device, slabs, bench.clock)?;
        check(&handles, paper.capacity())?;
        if paper.release(bench.device, &handles, bench.clock)? != 0 || paper.in_use()? != 0 {
            return Err(BenchError::Wrong("the paper's allocator did not take slabs back".to_owned()));
        }
        let Some(round) = round.checked_sub(1) else { continue };
        for (name, seconds) in [(OURS, our_seconds), (PAPER, paper_seconds)] {
            report.add(&case, name, round, RATE, Unit::PerSecond, slabs as f64 / seconds);
            report.add(&case, name, round, "time", Unit::Micros, 1e6 * seconds);
        }
    }
    for (name, rate) in PUBLISHED {
        report.add(&case, name, 0, RATE, Unit::PerSecond, rate);
    }
    let swap = Access::RandomSwap;
    let limit = format!("device memory, one {swap}");
    for (name, other) in [(OURS, Some(PAPER)), (PAPER, None)] {
        relate_variant(report, &case, name, (&limit, limits.rate(swap)), other);
    }
    let names = [OURS, PAPER].into_iter().chain(PUBLISHED.map(|published| published.0));
    let bar = |name: &str| Bar {
        name: name.to_owned(),
        value: 1e-6 * median(&report.series(&case, name, RATE)),
        range: None,
    };
    let bars = Drawing::Bars(names.map(bar).collect());
    report.charts.push(Chart::new("section V: claims of slabs", "million a second", "", bars));
    Ok(())
}

/// Checks that each thread has a slab of its own.
fn check(handles: &[u32], capacity: u64) -> Result<(), BenchError> {
    let mut sorted = handles.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let exist = sorted.last().is_none_or(|&last| u64::from(last) < capacity);
    match exist && sorted.len() == handles.len() {
        true => Ok(()),
        false => Err(BenchError::Wrong("the paper's allocator handed a slab out twice, or none".to_owned())),
    }
}
