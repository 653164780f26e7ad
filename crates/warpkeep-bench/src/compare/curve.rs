//! Rate against latency, over sizes of batches.

use super::group::Entry;
use super::{Options, case_name};
use crate::chart::{Chart, Trade, TradePoint};
use crate::report::{Report, Summary};
use crate::workload::Work;

/// A chart for each workload and number of threads, with a line for each contestant from the smallest batch to the largest.
pub(super) fn charts(options: &Options, threads: &[usize], entries: &[Entry], report: &Report) -> Vec<Chart> {
    if options.batches.len() < 2 {
        return Vec::new();
    }
    let mut batches = options.batches.clone();
    batches.sort_unstable();
    batches.dedup();
    let mut charts = Vec::new();
    for &threads in threads {
        for &work in options.works.iter().filter(|work| **work != Work::Load) {
            let case = case_name(work, threads);
            let trades: Vec<Trade> = variants(entries, &case)
                .into_iter()
                .map(|variant| trade(report, &case, variant, &batches))
                .filter(|trade| !trade.points.is_empty())
                .collect();
            let title = format!("rate against latency, {case}");
            charts.push(Chart::trades(title, "M/s", "median latency of a batch, us", trades));
        }
    }
    charts
}

fn variants<'a>(entries: &'a [Entry], case: &str) -> Vec<&'a str> {
    let mut variants: Vec<&str> = Vec::new();
    for entry in entries.iter().filter(|entry| entry.case == case) {
        if !variants.contains(&entry.variant.as_str()) {
            variants.push(&entry.variant);
        }
    }
    variants
}

fn trade(report: &Report, case: &str, variant: &str, batches: &[usize]) -> Trade {
    let point = |batch: &usize| {
        let case = format!("{case}, batches of {batch}");
        let median = |metric: &str| {
            let of = |summary: &&Summary| {
                summary.case == case && summary.variant == variant && summary.metric == metric
            };
            report.summaries.iter().find(of).map(|summary| summary.spread.median)
        };
        Some(TradePoint { label: batch.to_string(), x: median("rate")? * 1e-6, y: median("p50 of a batch")? })
    };
    Trade { name: variant.to_owned(), points: batches.iter().filter_map(point).collect() }
}
