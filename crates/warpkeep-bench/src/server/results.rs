//! The results, as a report.

use super::contestant::{Contestant, Outcome};
use super::options::Options;
use super::protocol::Protocol;
use crate::chart::{Chart, Curve, Drawing, Scale, Trade, TradePoint};
use crate::measure::Latencies;
use crate::report::{Report, Unit};

/// The generator's name beside the servers.
const ALONE: &str = "the generator alone";

pub(super) fn settings(options: &Options, report: &mut Report) {
    report.notes.push(format!(
        "{} items, keys of {} bytes, values of {}; {} connections of {} threads; rounds of {:?} after {:?}; {}",
        options.items,
        options.key_bytes,
        options.value_bytes,
        options.connections,
        options.threads,
        options.round_time,
        options.warm_up,
        match options.cache {
            true => "misses are allowed, and counted",
            false => "a miss would have ended the run",
        }
    ));
    report.notes.push(match options.rate {
        Some(_) => "an open loop: latencies count from when a request was due, so that what a stall kept waiting is in them",
        None => "a closed loop: latencies count from when a request was written; they grow with the number under way",
    }.to_owned());
    report.notes.push(format!(
        "{ALONE}: requests written, answers read and checked, in memory, on as many threads; a server near it was not measured"
    ));
}

pub(super) fn introduction(contestant: &Contestant<'_>, report: &mut Report) {
    let mut text =
        format!("{}: {}, spoken to in {}", contestant.name, contestant.version, contestant.protocol);
    if let Some(command) = contestant.command() {
        text += &format!(", started as: {command}");
    }
    report.notes.push(text);
}

pub(super) fn loaded(name: &str, outcome: &Outcome, report: &mut Report) {
    let done = outcome.tally.done() as f64;
    report.add("store all keys", name, 0, "rate", Unit::PerSecond, done / outcome.seconds);
    report.add("store all keys", name, 0, "refused", Unit::Count, outcome.tally.refused as f64);
}

/// The share of its threads' time from which on the generator itself may be the bottleneck.
const BUSY: f64 = 0.9;

pub(super) fn measured(
    options: &Options,
    case: &str,
    name: &str,
    round: u32,
    outcome: &Outcome,
    report: &mut Report,
) {
    let tally = &outcome.tally;
    let mut add = |metric: &str, unit, value| report.add(case, name, round, metric, unit, value);
    add("rate", Unit::PerSecond, tally.done() as f64 / outcome.seconds);
    for (metric, percent) in [("p50", 50.0), ("p95", 95.0), ("p99", 99.0), ("p99.9", 99.9), ("max", 100.0)] {
        add(metric, Unit::Micros, tally.latencies.micros(percent));
    }
    let reads = tally.hits + tally.misses;
    if reads > 0 {
        add("hits", Unit::Percent, 100.0 * tally.hits as f64 / reads as f64);
    }
    add("errors", Unit::Count, tally.refused as f64);
    add("generator's cores", Unit::Percent, 100.0 * outcome.generator);
    if let Some(server) = outcome.server {
        add("server's cores", Unit::Percent, 100.0 * server);
    }
    if tally.unsent > 0 {
        add("not sent", Unit::Count, tally.unsent as f64);
    }
    // By the clock it waits awake, and is always busy.
    if options.rate.is_none() && outcome.generator > BUSY * options.threads as f64 {
        note_once(
            report,
            format!(
                "{case}: the generator was busy all the time with {name}, which may do more; give it more --threads"
            ),
        );
    }
    if let Some(words) = &tally.first_refusal {
        note_once(report, format!("{name} refused some requests, first with: {words}"));
    }
}

fn note_once(report: &mut Report, note: String) {
    if !report.notes.contains(&note) {
        report.notes.push(note);
    }
}

pub(super) fn alone(case: &str, protocol: Protocol, rate: f64, report: &mut Report) {
    report.add(case, &format!("{ALONE}, {protocol}"), 0, "rate", Unit::PerSecond, rate);
}

/// The distribution of latencies, as in figure 16 of the Mega-KV paper: one curve a server.
pub(crate) fn spread(case: &str, servers: impl Iterator<Item = (String, Latencies)>) -> Chart {
    // Enough points for a smooth curve, and the last few per cent closer.
    let shares = || (0..=98).map(f64::from).chain((1..=20).map(|tenth| 98.0 + 0.1 * f64::from(tenth)));
    let curve = |(name, latencies): (String, Latencies)| {
        let points = shares().map(|share| (latencies.micros(share), share)).collect();
        Curve { name, points }
    };
    let title = format!("latencies: {case}");
    let drawing = Drawing::Curves(servers.map(curve).collect());
    Chart::new(title, "us", "% answered within", drawing).with_scales(Scale::Logarithmic, Scale::Linear)
}

/// Bars for each case; with several depths, the gain and cost of more of them.
pub(super) fn charts(options: &Options, report: &mut Report) {
    let names: Vec<String> = options.cases().into_iter().map(|case| options.case_name(case)).collect();
    let limits: Vec<String> = Protocol::ALL.map(|protocol| format!("{ALONE}, {protocol}")).into();
    let except: Vec<&str> = limits.iter().map(String::as_str).collect();
    let bars =
        |name: &String| Chart::bars_of(report, name, "rate", ("million operations a second", 1e-6), &except);
    let mut charts: Vec<Chart> = names.iter().filter_map(bars).collect();
    for &many in &options.keys_a_get {
        let cases = || options.cases().into_iter().filter(move |case| case.many == many);
        if cases().count() < 2 {
            continue;
        }
        let median = |case: &str, variant: &str, metric: &str| {
            let same = |row: &&crate::report::Summary| {
                row.case == case && row.variant == variant && row.metric == metric
            };
            report.summaries.iter().find(same).map(|summary| summary.spread.median)
        };
        let point = |variant: &str, case: super::Case| {
            let name = options.case_name(case);
            Some(TradePoint {
                label: case.depth.to_string(),
                x: median(&name, variant, "rate")? * 1e-6,
                y: median(&name, variant, "p99")?,
            })
        };
        let trades = options.targets.iter().map(|target| {
            let name = target.name();
            let points = cases().filter_map(|case| point(&name, case)).collect();
            Trade { name, points }
        });
        let gets = if many == 1 { String::new() } else { format!(", {many} keys a get") };
        let title = format!("rate and latency by requests under way on a connection{gets}");
        charts.push(Chart::trades(title, "million operations a second", "p99, us", trades.collect()));
    }
    report.charts = charts;
}
