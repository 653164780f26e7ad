//! Figure 7: the load factor while a table is loaded and grows.

use super::Options;
use crate::chart::{Bar, Chart, Drawing};
use crate::load_factor;
use crate::measure::Spread;
use crate::report::{Report, Unit};
use crate::{BenchError, Progress};

const CASE: &str = "figure 7: highest load factor while loading";
const METRIC: &str = "highest";
/// Section 4.2.
const PUBLISHED: [(&str, f64); 3] = [
    ("GPHash, published (section 4.2)", 92.0),
    ("Dash, Clevel and SEPH, published (section 4.2)", 85.0),
    ("SlabHash-GPM, published (section 4.2)", 82.0),
];

pub(super) fn run(options: &Options, progress: &dyn Progress, report: &mut Report) -> Result<(), BenchError> {
    let geometry = warpkeep_gphash::Geometry::default();
    let filled = load_factor::run(
        &load_factor::Options {
            items: options.items,
            geometries: vec![geometry],
            repeats: options.repeats,
            seed: options.seed,
            command: options.command.clone(),
            ..load_factor::Options::default()
        },
        progress,
    )?;
    let ours = [
        ("grown when full, as in the paper", format!("{geometry}, grown"), "before a growth"),
        ("grown early, as a store does", format!("{geometry}, grown as a store does"), "before a growth"),
        ("a table that does not grow", geometry.to_string(), "highest"),
    ];
    let mut bars = Vec::new();
    for (name, variant, metric) in ours {
        let series = filled.series(load_factor::CASE, &variant, metric);
        for (round, value) in series.iter().enumerate() {
            report.add(CASE, name, round as u32, METRIC, Unit::Percent, *value);
        }
        if let Some(spread) = Spread::of(&series) {
            let range = (spread.count > 1).then_some((spread.q1, spread.q3));
            bars.push(Bar { name: name.to_owned(), value: spread.median, range });
        }
    }
    for (name, value) in PUBLISHED {
        report.add(CASE, name, 0, METRIC, Unit::Percent, value);
        bars.push(Bar { name: name.to_owned(), value, range: None });
    }
    report.charts.push(Chart::new(CASE, "%", "", Drawing::Bars(bars)));
    for mut chart in filled.charts.into_iter().filter(|chart| matches!(chart.drawing, Drawing::Curves(_))) {
        chart.title = "figure 7: load factor while loading".to_owned();
        report.charts.push(chart);
    }
    Ok(())
}
