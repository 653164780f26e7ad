//! Figure 11: whether it pays to execute writes less often than gets, by the paper's model and by the server's scheduler.

use super::batches;
use super::contestant::Contestant;
use super::rates::add_percentiles;
use super::round::{self, Plan};
use super::schedule::{MEGA_KV, Schedule};
use super::{MOSTLY_GETS, SMALL, Site};
use crate::BenchError;
use crate::chart::{Chart, Curve, Drawing};
use crate::machine::Others;
use crate::report::{Report, Unit};
use crate::server::Demand;
use crate::workload::Distribution;

/// Batches of which one takes writes.
const EVERY: [u32; 4] = [1, 2, 4, 8];
/// Loads, in hundredths of the highest rate.
const LOADS: [u32; 5] = [10, 30, 50, 70, 90];

/// Measures the figure.
pub(super) fn run(site: &Site<'_>, report: &mut Report) -> Result<(), BenchError> {
    let contestants = site.load(SMALL)?;
    shortest_cycles(site, &contestants, report)?;
    let case = "figure 11: writes in one batch of n, 95% gets, uniform";
    let others = Others::watch();
    for round in 0..site.options.rounds {
        for contestant in &contestants {
            for turn in 0..EVERY.len() {
                let write_every = EVERY[(turn + round as usize) % EVERY.len()];
                let demand = Demand {
                    read_share: MOSTLY_GETS,
                    distribution: Distribution::Uniform,
                    keys_a_get: site.options.keys_a_get,
                    stream: u64::from(round),
                };
                let plan = Plan { demand, clients: site.options.clients, write_every };
                let outcome = round::run(site, contestant, plan)?;
                let name = format!("{}, n = {write_every}", contestant.name);
                report.add(case, &name, round, "rate", Unit::PerSecond, outcome.rate);
                report.add(case, &name, round, "time of a batch", Unit::Micros, outcome.batch_micros());
                add_percentiles(report, case, &name, round, &outcome.latencies);
            }
        }
    }
    report.others(case, others.share());
    for contestant in &contestants {
        let name = |n: u32| format!("{}, n = {n}", contestant.name);
        EVERY[1..].iter().for_each(|&n| report.compare(case, "rate", &name(n), &name(1), None));
    }
    report.notes.push(
        "figure 11: in the paper delayed writes shorten the shortest cycle by 65 % on average (section 5.2); it gives up the order of \
         operations for that, while here a connection's later commands wait with its write; a shortest cycle of 0 us says that batches have \
         no fixed time"
            .to_owned(),
    );
    Ok(())
}

/// The figure itself: the shortest cycle by load, with and without delayed writes.
fn shortest_cycles(
    site: &Site<'_>,
    contestants: &[Contestant],
    report: &mut Report,
) -> Result<(), BenchError> {
    let times = batches::times(site, contestants, None)?;
    let ours = contestants.iter().zip(times).map(|(contestant, times)| (contestant.name.as_str(), times));
    let mut curves = Vec::new();
    for (name, times) in ours.chain([("Mega-KV, by its equation", Some(MEGA_KV))]) {
        let Some(times) = times else { continue };
        for schedule in [Schedule::Delayed, Schedule::Together] {
            let name = format!("{name}, {schedule}");
            let mut points = Vec::new();
            for load in LOADS {
                let rate = f64::from(load) / 100.0 * times.highest_rate(MOSTLY_GETS);
                let case = format!("figure 11: the shortest cycle at {load}% of the highest rate");
                if let Some(cycle) = times.cycle(schedule, rate, MOSTLY_GETS) {
                    report.add(&case, &name, 0, "cycle", Unit::Micros, cycle);
                    points.push((f64::from(load), cycle));
                }
            }
            curves.push(Curve { name, points });
        }
    }
    let title = "figure 11: the shortest cycle by load";
    report.charts.push(Chart::new(title, "% of the highest rate", "us", Drawing::Curves(curves)));
    Ok(())
}
