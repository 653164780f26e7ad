//! Rate against latency, over sizes of batches.

use super::contestants::limit::way_for;
use super::contestants::{ALONE, MEMORY};
use super::group::Entry;
use super::{Options, case_name, variant_name};
use crate::chart::{Chart, Scale, Trade, TradePoint};
use crate::report::{Report, Summary};
use crate::sizes::batch_name;
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
            // Of the limits of memory, only the one that binds the work: the rest is in the tables.
            let limit = variant_name(MEMORY, way_for(work));
            let is_drawn = |variant: &&str| {
                **variant == limit || !(variant.starts_with(MEMORY) || variant.starts_with(ALONE))
            };
            let trades: Vec<Trade> = variants(entries, &case)
                .into_iter()
                .filter(is_drawn)
                .map(|variant| trade(report, &case, variant, &batches))
                .filter(|trade| !trade.points.is_empty())
                .collect();
            let title = format!("rate against latency, {case}");
            let chart = Chart::trades(title, "M/s", "median latency of a batch, us", trades);
            charts.push(chart.with_scales(Scale::Logarithmic, Scale::Logarithmic));
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
        Some(TradePoint {
            label: batch_name(*batch),
            x: median("rate")? * 1e-6,
            y: median("p50 of a batch")?,
        })
    };
    Trade { name: variant.to_owned(), points: batches.iter().filter_map(point).collect() }
}
