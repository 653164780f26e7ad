//! Figure 16: latencies with cycles of a fixed length.
//!
//! Requests arrive at equal intervals, whether or not the server keeps up. A cycle's batch is what has arrived when it
//! begins. Time is the server's: it goes on by how long batches take, and to the beginning of the next cycle, so nothing
//! sleeps and the generator takes no time.

use std::time::Duration;

use warpkeep_server::Settings;

use super::contestant::Contestant;
use super::line::Line;
use super::rates::{SKEWED, add_percentiles};
use super::round::Thread;
use super::{MOSTLY_GETS, SMALL, Site, batches};
use crate::BenchError;
use crate::measure::Latencies;
use crate::report::{Report, Unit};
use crate::server::{Demand, latency_chart};

/// The share of the highest rate that requests arrive with: at all of it queues would grow without end.
const LOAD: f64 = 0.8;

/// Measures the figure.
pub(super) fn run(site: &Site<'_>, report: &mut Report) -> Result<(), BenchError> {
    let contestants = site.load(SMALL)?;
    for contestant in &contestants {
        let points = batches::measure(site, contestant, MOSTLY_GETS, &mut |_, _, _| {})?;
        let Some(line) = Line::fit(&points) else { continue };
        let mut spreads = Vec::new();
        for &cycle in &site.options.cycles {
            let micros = cycle.as_secs_f64() * 1e6;
            let case = format!("figure 16: cycles of {micros} us, 95% gets");
            let rate = LOAD * (micros - line.b.max(0.0)) / (line.k * micros);
            if rate.is_nan() || rate <= 0.0 {
                report.notes.push(format!(
                    "{case}: {}: not possible, a batch without keys takes {:.0} us",
                    contestant.name, line.b
                ));
                continue;
            }
            let mut all = Latencies::new();
            for round in 0..site.options.rounds {
                let latencies = cycles(site, contestant, cycle, rate, round)?;
                report.add(&case, &contestant.name, round, "requested rate", Unit::PerSecond, 1e6 * rate);
                add_percentiles(report, &case, &contestant.name, round, &latencies);
                let within = 100.0 * latencies.share_within(3 * cycle);
                report.add(&case, &contestant.name, round, "within 3 cycles", Unit::Percent, within);
                all.add(&latencies);
            }
            if cycle == Duration::from_micros(160) {
                report.add(&case, "Mega-KV, published (section 7.3)", 0, "p95", Unit::Micros, 410.0);
            }
            spreads.push((format!("{micros} us"), all));
        }
        report.charts.push(latency_chart(&format!("figure 16, {}", contestant.name), spreads.into_iter()));
    }
    report.notes.push(
        "figure 16: the paper has every answer within 3 cycles, and at 160 us 280 us on average (section 7.3); its latencies include the \
         network, ours do not"
            .to_owned(),
    );
    Ok(())
}

/// Runs cycles with this many keys a microsecond, on one thread, for as long as a round takes.
fn cycles(
    site: &Site<'_>,
    contestant: &Contestant,
    cycle: Duration,
    rate: f64,
    round: u32,
) -> Result<Latencies, BenchError> {
    let demand = Demand {
        read_share: MOSTLY_GETS,
        distribution: SKEWED,
        keys_a_get: site.options.keys_a_get,
        stream: u64::from(round),
    };
    let count = contestant.clients(site.options.clients, 1);
    let interval = demand.keys_a_request() / rate * 1e-6;
    let settings = Settings { batch: usize::MAX, ..Settings::default() };
    let server = contestant.server(settings)?;
    let mut thread = Thread::new(&server, contestant.contents.clients(demand, count, (0, 1))?, count);
    let (mut begins, mut requests) = (cycle, 0_u64);
    while begins < site.options.round_time + cycle {
        site.progress.check()?;
        loop {
            let due = Duration::from_secs_f64(interval * requests as f64);
            if due > begins {
                break;
            }
            thread.send((requests % count as u64) as usize, due);
            requests += 1;
        }
        // At a low rate there are cycles without a request.
        let took = if thread.is_idle() { Duration::ZERO } else { thread.batch_at(begins)? };
        begins += took.max(cycle);
    }
    Ok(thread.latencies())
}
