//! The server as the paper measured it: requests come from memory, and answers go there. Its parsers, its scheduler and
//! its writer of answers are those that clients reach through sockets.

mod batches;
mod contestant;
mod delayed;
mod latencies;
mod line;
mod rates;
mod round;
mod schedule;

use warpkeep_device::DeviceChoice;

use self::contestant::{Contestant, Index};
use super::Options;
use crate::chart::Chart;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::workload::Workload;
use crate::{BenchError, Progress};

/// The paper's small items.
const SMALL: Size = Size { key_bytes: 8, value_bytes: 8 };
/// The share of gets in most of the paper's workloads.
const MOSTLY_GETS: f64 = 0.95;

/// The lengths of keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    key_bytes: usize,
    value_bytes: usize,
}

impl Size {
    /// As many items as have the bytes of all small ones.
    fn items(self, options: &Options) -> u64 {
        let bytes = options.items * (SMALL.key_bytes + SMALL.value_bytes) as u64;
        (bytes / (self.key_bytes + self.value_bytes) as u64).max(1000)
    }
}

/// The setting of the figures.
struct Site<'s> {
    options: &'s Options,
    scratch: Scratch,
    progress: &'s dyn Progress,
}

impl Site<'_> {
    /// The contestants, each with all items: the CPU's index, and those of the device if there is one.
    fn load(&self, size: Size) -> Result<Vec<Contestant>, BenchError> {
        let Size { key_bytes, value_bytes } = size;
        let items = size.items(self.options);
        let workload = Workload { items, key_bytes, value_bytes, seed: self.options.seed };
        let device = self.options.device;
        let indexes: &[Index] = match device {
            DeviceChoice::Cpu => &[Index::Cpu],
            _ => &[Index::Cpu, Index::InImage, Index::Cuckoo],
        };
        indexes.iter().map(|&index| Contestant::load(self, index, workload)).collect()
    }
}

/// Bars of the rates, once the report is complete.
pub(super) fn charts(report: &mut Report) {
    let mut cases: Vec<String> = report.summaries.iter().map(|summary| summary.case.clone()).collect();
    cases.dedup();
    cases.retain(|case| case.starts_with("figure 14") || case.starts_with("figure 15"));
    let bars = |case: &String| Chart::bars_of(report, case, "rate", ("million keys a second", 1e-6), &[]);
    let charts: Vec<Chart> = cases.iter().filter_map(bars).collect();
    report.charts.extend(charts);
}

/// Measures one of these figures.
pub(super) fn run(
    number: u8,
    options: &Options,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    progress.check()?;
    let scratch = Scratch::new(&options.dir, &options.image_dir)?;
    let site = Site { options, scratch, progress };
    match number {
        11 => delayed::run(&site, report),
        13 => batches::run(&site, report),
        14 => rates::small(&site, report),
        16 => latencies::run(&site, report),
        _ => rates::large(&site, report),
    }
}
