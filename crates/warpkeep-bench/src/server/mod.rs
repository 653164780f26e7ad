//! Load for any server that speaks one of memcached's protocols or that of Redis.
//!
//! A thread drives many connections, with many requests in flight on each; requests are written from templates and
//! answers are parsed in place, so that a core does some millions of operations a second and the server is the
//! bottleneck. Every byte of every answer is checked, and the order of answers; a get must not return a value older
//! than the last write acknowledged before it was sent. With a rate, requests go out by the clock, and a delayed
//! request's latency counts from when it was due.
//!
//! ```no_run
//! use warpkeep_bench::Quiet;
//! use warpkeep_bench::server::{self, Options, Program, Target};
//!
//! let target = Target::Started { program: Program::Redis, protocol: Program::Redis.protocol() };
//! let report = server::run(&Options { targets: vec![target], ..Options::default() }, &Quiet)?;
//! print!("{}", report.to_text());
//! # Ok::<(), warpkeep_bench::server::ServerError>(())
//! ```

mod address;
mod connection;
mod contestant;
mod drive;
mod error;
mod expected;
mod in_memory;
mod inbox;
mod items;
mod ledger;
mod limit;
mod options;
mod pace;
mod processor;
mod protocol;
mod results;
mod spawn;
mod tally;
mod version;
mod work;

use std::time::Duration;

pub use self::address::Address;
use self::contestant::Contestant;
pub use self::error::ServerError;
pub(crate) use self::in_memory::{Clients, Contents, Demand};
pub use self::items::Items;
use self::options::Case;
pub use self::options::{Options, Target};
pub use self::protocol::{Answer, Malformed, Parsed, Protocol, Requests};
pub(crate) use self::results::spread as latency_chart;
pub use self::spawn::{Io, Program};
use crate::measure::Latencies;
use crate::report::Report;
use crate::{Amount, Progress};

/// How long the generator is measured by itself, for each case, unless rounds are shorter.
const ALONE: Duration = Duration::from_millis(100);

/// Runs the load. Servers that it starts are stopped, also after an error.
pub fn run(options: &Options, progress: &dyn Progress) -> Result<Report, ServerError> {
    options.check()?;
    let mut report = Report::new("server", &options.command, options.seed);
    results::settings(options, &mut report);
    let mut contestants = Vec::new();
    for target in &options.targets {
        progress.check()?;
        let contestant = Contestant::open(target, options)?;
        results::introduction(&contestant, &mut report);
        contestants.push(contestant);
    }
    if options.load {
        for contestant in &mut contestants {
            let outcome = contestant.load(progress)?;
            results::loaded(&contestant.name, &outcome, &mut report);
        }
    }
    let mut spreads = Vec::new();
    for (number, case) in options.cases().into_iter().enumerate() {
        let first = number as u32 * options.rounds;
        let latencies = run_case(options, case, first, &mut contestants, progress, &mut report)?;
        let names = contestants.iter().map(|contestant| contestant.name.clone());
        spreads.push(results::spread(&options.case_name(case), names.zip(latencies)));
    }
    report.finish();
    results::charts(options, &mut report);
    report.charts.extend(spreads);
    Ok(report)
}

/// All rounds of a case, in turns. A different server begins each round, so that none always follows the same.
/// Returns the latencies of each server.
fn run_case(
    options: &Options,
    case: Case,
    first_stream: u32,
    contestants: &mut [Contestant<'_>],
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<Vec<Latencies>, ServerError> {
    let name = options.case_name(case);
    let count = contestants.len();
    let mut latencies = vec![Latencies::new(); count];
    progress.begin(&name, Amount::Count(u64::from(options.rounds) * count as u64));
    for round in 0..options.rounds {
        for place in 0..count {
            progress.check()?;
            let turn = (place + round as usize) % count;
            let contestant = &mut contestants[turn];
            let outcome = contestant.round(case, first_stream + round, progress)?;
            latencies[turn].add(&outcome.tally.latencies);
            results::measured(options, &name, &contestant.name, round, &outcome, report);
            progress.advance(1);
        }
    }
    progress.finish();
    let mut protocols: Vec<Protocol> = Vec::new();
    for contestant in contestants.iter() {
        if !protocols.contains(&contestant.protocol) {
            protocols.push(contestant.protocol);
            let rate = limit::measure(options, case, contestant.protocol, ALONE.min(options.round_time))?;
            results::alone(&name, contestant.protocol, rate * options.threads as f64, report);
        }
    }
    Ok(latencies)
}
