//! Curves: rate against latency over batch sizes, rate over the share of buckets that have copies, rate over skew.

use super::bounds::bound;
use super::{Operation, Options, Strategy, Variant, case_name};
use crate::chart::{Chart, Curve, Drawing, Limit, Scale, Trade, TradePoint};
use crate::limits::device::DeviceLimits;
use crate::limits::median;
use crate::report::Report;
use crate::sizes::batch_name;
use crate::workload::Distribution;

const MILLIONS: &str = "million a second";
/// More limit lines than this make a chart unreadable.
const MOST_LIMITS: usize = 3;

pub(super) fn of(options: &Options, limits: &DeviceLimits, report: &Report) -> Vec<Chart> {
    let mut charts = Vec::new();
    for &operation in &options.operations {
        let drawn = match operation {
            // New items are not drawn.
            Operation::Insert | Operation::Delete => &options.distributions[..1],
            _ => &options.distributions[..],
        };
        charts.extend(
            drawn.iter().filter_map(|&distribution| trades(options, limits, report, operation, distribution)),
        );
    }
    charts.extend(shares(
        options,
        report,
        Strategy::Image,
        Strategy::BucketCache,
        "buckets with copies",
        "% of the buckets",
    ));
    charts.extend(shares(
        options,
        report,
        Strategy::Ordered,
        Strategy::Values,
        "values in device memory",
        "% of the values",
    ));
    charts.extend(skews(options, report));
    charts
}

/// The median of a figure at a batch size; `None` if there is none.
fn figure(report: &Report, case: &str, variant: &str, metric: &str) -> Option<f64> {
    let series = report.series(case, variant, metric);
    (!series.is_empty()).then(|| median(&series))
}

fn trades(
    options: &Options,
    limits: &DeviceLimits,
    report: &Report,
    operation: Operation,
    distribution: Distribution,
) -> Option<Chart> {
    let trade = |variant: &Variant| {
        let name = variant.name();
        let point = |batch: usize| {
            let case = case_name(operation, distribution, batch);
            let rate = figure(report, &case, &name, "rate")?;
            let latency = figure(report, &case, &name, "p50 of a batch")?;
            Some(TradePoint { label: batch_name(batch), x: rate * 1e-6, y: latency })
        };
        let points = options.batch_sizes().into_iter().filter_map(point).collect();
        Trade { name, points }
    };
    let variants = options.variants();
    let trades: Vec<Trade> = variants.iter().map(trade).filter(|trade| trade.points.len() > 1).collect();
    if trades.is_empty() {
        return None;
    }
    let drawn = match operation {
        Operation::Insert | Operation::Delete => String::new(),
        _ => format!(", {distribution}"),
    };
    let title = format!("rate against latency, {operation}{drawn}");
    let mut chart = Chart::trades(title, MILLIONS, "median latency of a batch, us", trades)
        .with_scales(Scale::Logarithmic, Scale::Logarithmic);
    for variant in variants {
        let (name, most) = bound(options, limits, variant, operation);
        let known = chart.limits.iter().any(|limit| limit.name == name);
        if !known && most > 0.0 && chart.limits.len() < MOST_LIMITS {
            chart.limits.push(Limit { name, value: most * 1e-6 });
        }
    }
    Some(chart)
}

/// Gets over the share of values in a cache; 0 is without one.
fn shares(
    options: &Options,
    report: &Report,
    without: Strategy,
    with: Strategy,
    what: &str,
    axis: &str,
) -> Option<Chart> {
    let variants = options.variants();
    let cached = |variant: &&Variant| variant.strategy == without || variant.strategy == with;
    let mut cached: Vec<Variant> = variants.iter().filter(cached).copied().collect();
    cached.sort_by(|one, other| one.share.total_cmp(&other.share));
    if cached.len() < 2 {
        return None;
    }
    let curve = |distribution: &Distribution| {
        let case = case_name(Operation::Get, *distribution, options.main_batch());
        let point = |variant: &Variant| {
            Some((100.0 * variant.share, figure(report, &case, &variant.name(), "rate")? * 1e-6))
        };
        Curve { name: distribution.to_string(), points: cached.iter().filter_map(point).collect() }
    };
    let curves = options.distributions.iter().map(curve).filter(|curve| !curve.points.is_empty()).collect();
    let title = format!("gets by share of {what}, batches of {}", batch_name(options.main_batch()));
    let chart = Chart::new(title, axis, MILLIONS, Drawing::Curves(curves));
    Some(chart.with_scales(Scale::Linear, Scale::Linear))
}

/// Gets over the skew of the requests.
fn skews(options: &Options, report: &Report) -> Option<Chart> {
    if options.distributions.len() < 2 {
        return None;
    }
    let curve = |variant: &Variant| {
        let name = variant.name();
        let point = |distribution: &Distribution| {
            let case = case_name(Operation::Get, *distribution, options.main_batch());
            Some((distribution.theta(), figure(report, &case, &name, "rate")? * 1e-6))
        };
        let mut points: Vec<(f64, f64)> = options.distributions.iter().filter_map(point).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        Curve { name, points }
    };
    let curves = options.variants().iter().map(curve).filter(|curve| curve.points.len() > 1).collect();
    let title = format!("gets by skew, batches of {}", batch_name(options.main_batch()));
    let chart = Chart::new(title, "theta of Zipf's law; 0 is uniform", MILLIONS, Drawing::Curves(curves));
    Some(chart.with_scales(Scale::Linear, Scale::Linear))
}
