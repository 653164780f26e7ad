//! Figure 13: the time of a batch by its size, and the rate that a cycle allows by the paper's model.

use super::contestant::Contestant;
use super::line::Line;
use super::round::{self, Plan};
use super::schedule::{MEGA_KV, Schedule, Times};
use super::{MOSTLY_GETS, SMALL, Site};
use crate::BenchError;
use crate::chart::{Chart, Curve, Drawing, Scale};
use crate::measure::Spread;
use crate::report::{Report, Unit};
use crate::server::Demand;
use crate::workload::Distribution;

/// Batches whose time the model adds up.
const KINDS: [(&str, f64); 2] = [("gets", 1.0), ("sets", 0.0)];

/// Measures the figure.
pub(super) fn run(site: &Site<'_>, report: &mut Report) -> Result<(), BenchError> {
    let contestants = site.load(SMALL)?;
    let times = times(site, &contestants, Some(report))?;
    let mut curves = Vec::new();
    let ours = contestants.iter().zip(times).map(|(contestant, times)| (contestant.name.as_str(), times));
    for (name, times) in ours.chain([("Mega-KV, by its equation", Some(MEGA_KV))]) {
        let Some(times) = times else { continue };
        for schedule in [Schedule::Delayed, Schedule::Together] {
            let name = format!("{name}, {schedule}");
            let mut points = Vec::new();
            for &cycle in &site.options.cycles {
                let micros = cycle.as_secs_f64() * 1e6;
                let case = format!("figure 13: the rate that a cycle of {micros} us allows");
                match times.rate(schedule, micros, MOSTLY_GETS) {
                    Some(rate) => {
                        report.add(&case, &name, 0, "rate", Unit::PerSecond, 1e6 * rate);
                        points.push((micros, rate));
                    }
                    None => report.notes.push(format!("{case}: {name}: none, the cycle is too short")),
                }
            }
            curves.push(Curve { name, points });
        }
    }
    let title = "figure 13: rate by cycle, 95% gets";
    report.charts.push(Chart::new(title, "us", "million keys a second", Drawing::Curves(curves)));
    report.notes.push(
        "figure 13: the time of a batch is that of the server's whole pipeline on one core, where the paper has the GPU's time alone; its rates \
         are those of one GPU"
            .to_owned(),
    );
    Ok(())
}

/// The times of batches of each contestant: least squares over all sizes. `None` where they lie on no line. With a
/// report, their parts are in it.
pub(super) fn times(
    site: &Site<'_>,
    contestants: &[Contestant],
    mut report: Option<&mut Report>,
) -> Result<Vec<Option<Times>>, BenchError> {
    let mut found = Vec::new();
    let mut curves = Vec::new();
    for contestant in contestants {
        let mut lines = Vec::new();
        for (kind, read_share) in KINDS {
            let points = measure(site, contestant, read_share, &mut |batch, round, time| {
                if let Some(report) = report.as_deref_mut() {
                    let case = format!("figure 13: a batch of {batch} {kind}");
                    report.add(&case, &contestant.name, round, "time", Unit::Micros, time);
                }
            })?;
            let line = Line::fit(&points);
            curves.push(Curve { name: format!("{}, {kind}", contestant.name), points });
            lines.push(line);
            if let (Some(report), Some(line)) = (report.as_deref_mut(), line) {
                add_line(report, kind, &contestant.name, line);
            }
        }
        let times = match lines[..] {
            [Some(searches), Some(writes)] => Some(Times { searches, writes }),
            _ => None,
        };
        found.push(times);
    }
    if let Some(report) = report {
        add_line(report, "gets", "Mega-KV, published (section 5.2)", MEGA_KV.searches);
        add_line(report, "sets", "Mega-KV, published (section 5.2)", MEGA_KV.writes);
        let title = "figure 13: time of a batch by its size";
        let chart = Chart::new(title, "keys", "us", Drawing::Curves(curves));
        report.charts.push(chart.with_scales(Scale::Logarithmic, Scale::Logarithmic));
    }
    Ok(found)
}

/// The size and the median time of batches, in microseconds, for each wanted size.
pub(super) fn measure(
    site: &Site<'_>,
    contestant: &Contestant,
    read_share: f64,
    each: &mut dyn FnMut(usize, u32, f64),
) -> Result<Vec<(f64, f64)>, BenchError> {
    let mut points = Vec::new();
    for &batch in &site.options.batches {
        let (mut keys, mut figures) = (0.0, Vec::new());
        for round in 0..site.options.rounds {
            let demand = Demand {
                read_share,
                distribution: Distribution::Uniform,
                keys_a_get: site.options.keys_a_get,
                stream: u64::from(round),
            };
            let clients = (batch as f64 / demand.keys_a_request()).ceil() as usize;
            let outcome = round::run(site, contestant, Plan { demand, clients, write_every: 1 })?;
            keys = outcome.batch_keys();
            figures.push(outcome.batch_micros());
            each(batch, round, outcome.batch_micros());
        }
        points.extend(Spread::of(&figures).map(|times| (keys, times.median)));
    }
    Ok(points)
}

fn add_line(report: &mut Report, kind: &str, name: &str, line: Line) {
    let case = format!("figure 13: T = k x + b of {kind}");
    report.add(&case, name, 0, "1000 k", Unit::Micros, 1000.0 * line.k);
    report.add(&case, name, 0, "b", Unit::Micros, line.b);
}
