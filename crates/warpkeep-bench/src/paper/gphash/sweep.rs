//! Figure 12: rates of YCSB C by key size, and by skew.

use super::Options;
use crate::chart::{Chart, Curve, Drawing, Scale};
use crate::measure::Spread;
use crate::report::{Relation, Report, Unit};
use crate::workload::{Distribution, Mix, Work};
use crate::{BenchError, Progress, compare};

const BY_KEY: &str = "figure 12a: YCSB C by key size";
const BY_SKEW: &str = "figure 12b: YCSB C by skew";
const RATE: &str = "rate";
const LINES: &str = "memory, lines of the work";
const OF_FIRST: &str = "of the rate with 8-byte keys";
const KEY_BYTES: [usize; 5] = [8, 16, 32, 64, 128];
const SKEWS: [f64; 6] = [0.0, 0.5, 0.7, 0.9, 0.99, 1.2];
/// Section 4.6: losses from 8 bytes to 128.
const PUBLISHED: [(&str, f64); 2] = [
    ("128 bytes, GPHash, published (section 4.6)", 100.0 - 13.1),
    ("128 bytes, SlabHash-GPM, published (section 4.6)", 100.0 - 38.6),
];

pub(super) fn run(options: &Options, progress: &dyn Progress, report: &mut Report) -> Result<(), BenchError> {
    let with_key = |bytes: &usize| {
        let mut compare = options.compare();
        compare.workload.key_bytes = *bytes;
        (format!("{bytes} bytes"), *bytes as f64, compare)
    };
    let key_steps: Vec<_> = KEY_BYTES.iter().map(with_key).collect();
    sweep(options, BY_KEY, "key bytes", &key_steps, progress, report)?;
    let first = report.series(BY_KEY, &key_steps[0].0, RATE);
    for (name, ..) in &key_steps {
        for (round, (rate, first)) in report.series(BY_KEY, name, RATE).into_iter().zip(&first).enumerate() {
            report.add(BY_KEY, name, round as u32, OF_FIRST, Unit::Percent, 100.0 * rate / first);
        }
    }
    for (name, value) in PUBLISHED {
        report.add(BY_KEY, name, 0, OF_FIRST, Unit::Percent, value);
    }

    let with_skew = |theta: &f64| {
        let distribution = Some(Distribution::Zipfian(*theta));
        (format!("theta {theta}"), *theta, compare::Options { distribution, ..options.compare() })
    };
    let skew_steps: Vec<_> = SKEWS.iter().map(with_skew).collect();
    sweep(options, BY_SKEW, "theta", &skew_steps, progress, report)?;
    report.notes.push(
        "figure 12b: the paper gives no numbers; it says that GPHash's rate grows with the skew, by its bucket cache, and that the others' \
         hardly changes"
            .to_owned(),
    );
    Ok(())
}

/// One comparison a step, all steps in turn, as often as is to be repeated.
fn sweep(
    options: &Options,
    case: &str,
    axis: &str,
    steps: &[(String, f64, compare::Options)],
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    for repeat in 0..options.repeats {
        for (name, _, compare) in steps {
            let measured = measure(compare, progress)?;
            measured.add_to(report, case, name, repeat * options.rounds);
        }
    }
    let curve = |name: &str, metric: &str| {
        let point = |step: &(String, f64, compare::Options)| {
            let spread = Spread::of(&report.series(case, &step.0, metric))?;
            Some((step.1, spread.median * 1e-6))
        };
        Curve { name: name.to_owned(), points: steps.iter().filter_map(point).collect() }
    };
    let curves = vec![curve("warpkeep, batches", RATE), curve("memory, lines of the work", LINES)];
    let chart = Chart::new(case, axis, "M/s", Drawing::Curves(curves));
    report.charts.push(chart.with_scales(Scale::Fitting, Scale::Linear));
    Ok(())
}

/// The results of a comparison for YCSB C.
pub(super) struct Measured {
    rates: Vec<f64>,
    lines: Vec<f64>,
    limit: Option<Relation>,
    /// Whether other processes interfered.
    crowded: bool,
}

impl Measured {
    /// Adds the figures under a name.
    pub(super) fn add_to(&self, report: &mut Report, case: &str, name: &str, first_round: u32) {
        for (metric, series) in [(RATE, &self.rates), (LINES, &self.lines)] {
            for (round, &rate) in series.iter().enumerate() {
                report.add(case, name, first_round + round as u32, metric, Unit::PerSecond, rate);
            }
        }
        if let Some(limit) = &self.limit {
            report.set_limit(case, name, RATE, limit.clone());
        }
        let mut note = |note: String| {
            if !report.notes.contains(&note) {
                report.notes.push(note);
            }
        };
        note(format!(
            "{LINES}: what random lines of memory give at most, as many as a get touches, measured in the same rounds"
        ));
        if self.crowded {
            note(format!(
                "{case}: others took much of the processors in some of it; run it again when the machine is quiet"
            ));
        }
    }
}

/// YCSB C by our table.
pub(super) fn measure(options: &compare::Options, progress: &dyn Progress) -> Result<Measured, BenchError> {
    let options = compare::Options { works: vec![Work::Mix(Mix::C)], ..options.clone() };
    let report = compare::run(&options, progress)?;
    let of = |variant: &str| {
        let wanted = |row: &&crate::report::Row| row.metric == RATE && row.variant == variant;
        report.rows.iter().filter(wanted).map(|row| row.value).collect::<Vec<f64>>()
    };
    let ours = "warpkeep without log, batches";
    let limit = report.summaries.iter().find(|summary| summary.variant == ours && summary.metric == RATE);
    Ok(Measured {
        rates: of(ours),
        lines: of("memory, lines of the work, prefetched"),
        limit: limit.and_then(|summary| summary.limit.clone()),
        crowded: !report.crowded.is_empty(),
    })
}
