//! Figures 14 and 15: rates by the share of gets, the distribution of keys, and the size of items.

use super::round::{self, Plan};
use super::{MOSTLY_GETS, SMALL, Site, Size};
use crate::BenchError;
use crate::machine::Others;
use crate::measure::Latencies;
use crate::report::{Report, Unit};
use crate::server::Demand;
use crate::workload::{DEFAULT_THETA, Distribution};

pub(super) const SKEWED: Distribution = Distribution::Zipfian(DEFAULT_THETA);

/// Published rates with keys drawn by Zipf's law, in millions of keys a second: `get`, and `getk`, which leaves the
/// comparison of keys to clients.
struct Published {
    size: Size,
    read_share: f64,
    get: f64,
    getk: f64,
}

const fn published(key_bytes: usize, value_bytes: usize, read_share: f64, get: f64, getk: f64) -> Published {
    Published { size: Size { key_bytes, value_bytes }, read_share, get, getk }
}

/// Sections 7.2.2 and 7.2.3.
const PUBLISHED: [Published; 8] = [
    published(8, 8, MOSTLY_GETS, 120.0, 160.0),
    published(8, 8, 1.0, 124.0, 166.0),
    published(16, 64, MOSTLY_GETS, 110.0, 139.0),
    published(32, 512, MOSTLY_GETS, 55.0, 60.0),
    published(128, 1024, MOSTLY_GETS, 34.0, 30.0),
    published(16, 64, 1.0, 107.0, 144.0),
    published(32, 512, 1.0, 56.0, 62.0),
    published(128, 1024, 1.0, 36.0, 33.0),
];

/// MICA with 95 % gets, in millions of keys a second (section 7.2.2).
const MICA: f64 = 76.3;

/// Adds how long requests waited for their answers.
pub(super) fn add_percentiles(
    report: &mut Report,
    case: &str,
    name: &str,
    round: u32,
    latencies: &Latencies,
) {
    for (metric, percent) in [("p50", 50.0), ("p95", 95.0), ("p99", 99.0)] {
        report.add(case, name, round, metric, Unit::Micros, latencies.micros(percent));
    }
}

/// Figure 14.
pub(super) fn small(site: &Site<'_>, report: &mut Report) -> Result<(), BenchError> {
    let contestants = site.load(SMALL)?;
    for read_share in [MOSTLY_GETS, 1.0] {
        for distribution in [SKEWED, Distribution::Uniform] {
            measure(site, 14, SMALL, (read_share, distribution), &contestants, report)?;
        }
    }
    report.notes.push(
        "figure 14: with uniform keys the paper gives 6 to 10 % less, and for both kinds of gets together 100 to 150 M/s (section 7.2.2); \
         our gets compare keys, as its `get` does, and answer with the key, as its `getk` does"
            .to_owned(),
    );
    Ok(())
}

/// Figure 15.
pub(super) fn large(site: &Site<'_>, report: &mut Report) -> Result<(), BenchError> {
    for (key_bytes, value_bytes) in [(16, 64), (32, 512), (128, 1024)] {
        let size = Size { key_bytes, value_bytes };
        let contestants = site.load(size)?;
        for read_share in [MOSTLY_GETS, 1.0] {
            measure(site, 15, size, (read_share, SKEWED), &contestants, report)?;
        }
    }
    Ok(())
}

fn measure(
    site: &Site<'_>,
    figure: u8,
    size: Size,
    (read_share, distribution): (f64, Distribution),
    contestants: &[super::Contestant],
    report: &mut Report,
) -> Result<(), BenchError> {
    let Size { key_bytes, value_bytes } = size;
    let case = format!(
        "figure {figure}: {key_bytes}-byte keys, {value_bytes}-byte values, {:.0}% gets, {distribution}",
        100.0 * read_share
    );
    let others = Others::watch();
    for round in 0..site.options.rounds {
        for turn in 0..contestants.len() {
            let contestant = &contestants[(turn + round as usize) % contestants.len()];
            let keys_a_get = site.options.keys_a_get;
            let demand = Demand { read_share, distribution, keys_a_get, stream: u64::from(round) };
            let plan = Plan { demand, clients: site.options.clients, write_every: 1 };
            let outcome = round::run(site, contestant, plan)?;
            let name = &contestant.name;
            report.add(&case, name, round, "rate", Unit::PerSecond, outcome.rate);
            report.add(&case, name, round, "keys in a batch", Unit::Count, outcome.batch_keys());
            report.add(&case, name, round, "time of a batch", Unit::Micros, outcome.batch_micros());
        }
    }
    report.others(&case, others.share());
    let same = |row: &&Published| row.size == size && row.read_share == read_share && distribution == SKEWED;
    for row in PUBLISHED.iter().filter(same) {
        for (api, rate) in [("get", row.get), ("getk", row.getk)] {
            let name = format!("Mega-KV, {api}, published");
            report.add(&case, &name, 0, "rate", Unit::PerSecond, 1e6 * rate);
        }
        if size == SMALL && read_share == MOSTLY_GETS {
            report.add(&case, "MICA, published", 0, "rate", Unit::PerSecond, 1e6 * MICA);
        }
    }
    Ok(())
}
