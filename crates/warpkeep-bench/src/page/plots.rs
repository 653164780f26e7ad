//! Which plots a result gets: the benchmark's own, and bars for every case that compares rates.

use super::Names;
use super::source::{Source, Summary};
use crate::BenchError;
use crate::chart::{Bar, Chart, Curve, Drawing, Limit, Scale};

/// The metric that bars are drawn of.
const RATE: &str = "rate";
/// The names of other processes' load and of reference figures: neither is a contestant.
const NO_CONTESTANTS: [&str; 3] = ["others", "the workload alone", "memory, a line, prefetched"];
/// The names of limits, for results that do not record which limit binds a figure.
const LIMITS: [&str; 2] = ["memory, lines of", "the generator alone"];
/// More limit lines than this make a plot unreadable.
const MOST_LIMITS: usize = 2;
/// As do more curves: a second plot has the others.
const MOST_CURVES: usize = 8;

/// A plot.
#[derive(Clone, Debug)]
pub(super) struct Plot {
    /// The case it belongs to; `None` if it is about several.
    pub(super) case: Option<String>,
    pub(super) title: String,
    pub(super) file: String,
    pub(super) svg: String,
}

/// All plots of a result.
pub(super) fn of(source: &Source, names: &mut Names) -> Result<Vec<Plot>, BenchError> {
    let cases = source.cases();
    let mut charts: Vec<(Option<String>, Chart)> = Vec::new();
    for chart in &source.charts {
        let is_bars = matches!(chart.drawing, Drawing::Bars(_));
        let of_case = cases.iter().find(|case| is_bars && **case == chart.title);
        match of_case {
            // Made again below, with all figures.
            Some(_) if bars(source, &chart.title, Some(chart)).is_some() => {}
            _ => charts.push((of_case.map(|case| (*case).to_owned()), chart.clone())),
        }
    }
    for case in cases.into_iter().filter(|case| !source.is_one_of_sizes(case)) {
        let made = source.charts.iter().find(|chart| chart.title == case);
        charts.extend(bars(source, case, made).map(|chart| (Some(case.to_owned()), chart)));
    }
    if source.charts.is_empty() {
        charts.extend(by_batch(source).into_iter().map(|chart| (None, chart)));
    }
    let plot = |(case, chart): (Option<String>, Chart)| {
        let file = names.unused(&format!("{}-{}", file_name(&source.name), chart.file_name())) + ".svg";
        Ok(Plot { case, svg: chart.to_svg()?, title: chart.title, file })
    };
    charts.into_iter().filter(|(_, chart)| is_worth_it(chart)).map(plot).collect()
}

/// A name that any file system and any address takes.
fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    name.chars().map(plain).collect()
}

/// One point shows nothing.
fn is_worth_it(chart: &Chart) -> bool {
    match &chart.drawing {
        Drawing::Curves(curves) => curves.iter().any(|curve| curve.points.len() > 1),
        Drawing::Trades(trades) => trades.iter().any(|trade| trade.points.len() > 1),
        Drawing::Bars(bars) => !bars.is_empty(),
    }
}

/// Bars of a case's rates with their quartiles; `None` if there are not two to compare. Variants that the benchmark
/// left out of its own chart are left out here.
fn bars(source: &Source, case: &str, made: Option<&Chart>) -> Option<Chart> {
    let drawn = |variant: &str| match made.map(|chart| &chart.drawing) {
        Some(Drawing::Bars(bars)) => bars.iter().any(|bar| bar.name == variant),
        _ => !NO_CONTESTANTS.contains(&variant),
    };
    let rates: Vec<&Summary> = source.of_case(case).filter(|summary| summary.metric == RATE).collect();
    let is_limit = |summary: &&Summary| LIMITS.iter().any(|limit| summary.variant.starts_with(limit));
    let (limits, contestants): (Vec<&Summary>, Vec<&Summary>) = rates.iter().copied().partition(is_limit);
    let contestants: Vec<&Summary> =
        contestants.into_iter().filter(|summary| drawn(&summary.variant)).collect();
    if contestants.len() < 2 {
        return None;
    }
    let (scale, unit) = scale_of(&contestants);
    let bar = |summary: &&Summary| {
        let spread = summary.spread;
        Bar {
            name: summary.variant.clone(),
            value: spread.median() * scale,
            range: (spread.count > 1).then_some((spread.q1() * scale, spread.q3() * scale)),
        }
    };
    let mut chart = Chart::new(case, unit, "", Drawing::Bars(contestants.iter().map(bar).collect()));
    let mut limit = |name: &str, value: f64| {
        let known = chart.limits.iter().any(|limit| limit.name == name);
        if !known && value.is_finite() && chart.limits.len() < MOST_LIMITS {
            chart.limits.push(Limit { name: name.to_owned(), value });
        }
    };
    // The limit of a variant, if the result records it; ours come first.
    for summary in &contestants {
        if let Some(relation) = &summary.limit
            && let Some(ratio) = relation.ratio.filter(|ratio| *ratio > 0.0)
        {
            limit(&relation.to, summary.spread.median() * scale / ratio);
        }
    }
    limits.iter().for_each(|summary| limit(&summary.variant, summary.spread.median() * scale));
    Some(chart)
}

/// Curves of the rate by the size of a batch, an operation each, for cases that differ in nothing else.
fn by_batch(source: &Source) -> Vec<Chart> {
    let mut groups: Vec<(String, Vec<Curve>)> = Vec::new();
    for summary in source.summaries.iter().filter(|summary| summary.metric == RATE) {
        let Some(batched) = Batched::of(&summary.case) else { continue };
        let title = format!("{}, {}", source.benchmark, batched.conditions);
        let place = groups.iter().position(|(of, _)| *of == title).unwrap_or(groups.len());
        if place == groups.len() {
            groups.push((title, Vec::new()));
        }
        let curves = &mut groups[place].1;
        let name = format!("{}, {}", batched.operation, summary.variant);
        let point = (batched.batch, summary.spread.median() * 1e-6);
        match curves.iter_mut().find(|curve| curve.name == name) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Curve { name, points: vec![point] }),
        }
    }
    let charts = |(title, mut curves): (String, Vec<Curve>)| {
        curves.retain(|curve| curve.points.len() > 1);
        // The fastest first, as they lie in the picture.
        let last = |curve: &Curve| curve.points.last().map_or(0.0, |point| point.1);
        curves.sort_by(|one, other| last(other).total_cmp(&last(one)));
        let chart = |curves: &[Curve]| {
            Chart::new(&title, "operations in a batch", "million a second", Drawing::Curves(curves.to_vec()))
                .with_scales(Scale::Logarithmic, Scale::Logarithmic)
        };
        curves.chunks(MOST_CURVES).map(chart).collect::<Vec<Chart>>()
    };
    groups.into_iter().flat_map(charts).collect()
}

/// The parts of the name of a case with a size of batches.
struct Batched {
    operation: String,
    batch: f64,
    conditions: String,
}

impl Batched {
    /// The first part names the operation, as do others without a number, and those such as `ranges of 8`.
    fn of(case: &str) -> Option<Batched> {
        let is_condition = |part: &str| part.contains(|c: char| c.is_ascii_digit()) && !part.contains(" of ");
        let (mut operation, mut batch, mut conditions) = (Vec::new(), None, Vec::new());
        for (place, part) in case.split(", ").enumerate() {
            match part.strip_prefix("batches of ") {
                Some(size) => batch = size.parse().ok(),
                None if place > 0 && is_condition(part) => conditions.push(part),
                None => operation.push(part),
            }
        }
        Some(Batched { operation: operation.join(", "), batch: batch?, conditions: conditions.join(", ") })
    }
}

/// The scale that makes figures short, and their unit then.
fn scale_of(summaries: &[&Summary]) -> (f64, &'static str) {
    let most = summaries.iter().map(|summary| summary.spread.median()).fold(0.0, f64::max);
    let bytes = summaries.first().is_some_and(|summary| summary.unit.starts_with("bytes"));
    match (bytes, most) {
        (true, most) if most >= 1e9 => (1e-9, "GB a second"),
        (true, _) => (1e-6, "MB a second"),
        (false, most) if most >= 1e6 => (1e-6, "million a second"),
        (false, most) if most >= 1e4 => (1e-3, "thousand a second"),
        (false, _) => (1.0, "a second"),
    }
}
