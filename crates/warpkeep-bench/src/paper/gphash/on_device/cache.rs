//! Figure 11: bucket caches by policy and share, rates and hit rates.

use warpkeep_gphash::Layout;
use warpkeep_gphash::gpu::paper::CachePolicy;

use super::Site;
use super::mixes::{Load, Mix};
use crate::chart::{Chart, Curve, Drawing, Scale};
use crate::device::{Hits, Strategy, Variant};
use crate::limits::median;
use crate::report::{Report, Unit};
use crate::{Amount, BenchError};

const POLICIES: [(CachePolicy, &str); 3] =
    [(CachePolicy::Lfu, "LFU"), (CachePolicy::Lru, "LRU"), (CachePolicy::Random, "random")];
/// In per cent of the buckets.
const SHARES: [u32; 8] = [0, 10, 20, 30, 40, 60, 80, 100];
const CASE: &str = "figure 11: YCSB C by policy and share";
const RATE: &str = "rate";
const HITS: &str = "hit rate";
const OF_SMALLER: &str = "of the rate with the smaller one";

pub(super) fn run(site: &Site<'_>, report: &mut Report) -> Result<(), BenchError> {
    let mut rig = site.rig(Layout::InPlace)?;
    let rounds = site.options.rounds * site.options.repeats;
    let batch = site.batches().last().copied().unwrap_or(1);
    site.progress.begin("figure 11", Amount::Count(u64::from(rounds) * SHARES.len() as u64));
    for round in 0..rounds {
        for share in SHARES {
            for (policy, name) in POLICIES {
                let variant = Variant { strategy: Strategy::BucketCache, share: f64::from(share) / 100.0 };
                rig.prepare(variant, policy, &site.pool, batch)?;
                let hits = Hits::now(variant, Some(&rig))?;
                let done = Load::new(site, &mut rig, batch).round(Mix::C, variant)?;
                let variant_name = format!("{name}, {share} %");
                report.add(CASE, &variant_name, round, RATE, Unit::PerSecond, done.rate());
                if let Some(rate) = hits.since(variant, Some(&rig))? {
                    report.add(CASE, &variant_name, round, HITS, Unit::Percent, rate);
                }
            }
            site.progress.advance(1);
        }
    }
    site.progress.finish();
    report.charts.extend(charts(report));
    gains(report);
    report.notes.push(
        "figure 11: the cache is a snapshot that gets read, so YCSB A, which the paper has beside YCSB C, is left out".to_owned(),
    );
    Ok(())
}

fn charts(report: &Report) -> [Chart; 2] {
    let chart = |metric: &str, unit: &str, scale: f64| {
        let curve = |(_, name): (CachePolicy, &str)| {
            let figure = |share: u32| median(&report.series(CASE, &format!("{name}, {share} %"), metric));
            let point = |share: u32| (f64::from(share), figure(share) * scale);
            Curve { name: name.to_owned(), points: SHARES.map(point).to_vec() }
        };
        let title = format!("figure 11: YCSB C, {metric} by policy and share");
        Chart::new(title, "% of the buckets", unit, Drawing::Curves(POLICIES.map(curve).to_vec()))
            .with_scales(Scale::Linear, Scale::Linear)
    };
    [chart(RATE, "million a second", 1e-6), chart(HITS, "% of the buckets asked for", 1.0)]
}

/// The two steps that the text has numbers for (section 4.6).
fn gains(report: &mut Report) {
    for (from, to, published) in [(0, 10, 145.7), (10, 40, 116.0)] {
        let rates = |share: u32| report.series(CASE, &format!("LFU, {share} %"), RATE);
        let pairs: Vec<f64> =
            rates(from).iter().zip(&rates(to)).map(|(from, to)| 100.0 * to / from).collect();
        let name = format!("LFU on YCSB C, from {from} % to {to} % of the buckets");
        for (round, gain) in pairs.into_iter().enumerate() {
            report.add(
                "figure 11: what a larger cache brings",
                &name,
                round as u32,
                OF_SMALLER,
                Unit::Percent,
                gain,
            );
        }
        let name = format!("{name}, published (section 4.6)");
        report.add("figure 11: what a larger cache brings", &name, 0, OF_SMALLER, Unit::Percent, published);
    }
}
