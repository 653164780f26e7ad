//! Figure 1: the effect of a probing scope on the load factor and on how far searches walk.
//!
//! The paper shows it with a plain table of linear probing, and so does this: buckets of 16 slots, of which only
//! the number of keys is kept, with twice as many buckets whenever a key has no slot within the scope.

use warpkeep_core::{Seed, mix64};

use super::Options;
use crate::chart::{Chart, Curve, Drawing, Scale};
use crate::report::{Report, Unit};
use crate::{Amount, BenchError, Progress};

const CASE: &str = "figure 1: before each rehashing, by probing scope";
const LOAD: &str = "load factor";
const DISTANCE: &str = "probing distance, buckets";
const SLOTS: u8 = 16;
const FIRST_BITS: u32 = 10;
/// Buckets that a key may be in.
const SCOPES: [usize; 5] = [2, 4, 8, 16, 32];
/// Keys between two looks at whether to go on.
const EVERY: u64 = 1 << 16;

/// Section 2: "at the 6th rehashing the load factor is 0.8 with the 16-bucket scope", the average distance 1.7.
const PUBLISHED: (&str, f64, f64) = ("16 buckets, published (section 2), 6th rehashing", 80.0, 1.7);

/// A table of linear probing that stores only the number of keys of each bucket.
struct Probing {
    seed: Seed,
    scope: usize,
    bits: u32,
    buckets: Vec<u8>,
    keys: u64,
}

/// How a table stood when it had to become larger.
struct Standing {
    load: f64,
    distance: f64,
}

impl Probing {
    fn new(scope: usize, seed: u64) -> Probing {
        let buckets = vec![0; 1 << FIRST_BITS];
        Probing { seed: Seed(seed), scope, bits: FIRST_BITS, buckets, keys: 0 }
    }

    /// Puts a key into the first bucket of its scope with room; `false` if there is none.
    fn place(&mut self, key: u64) -> bool {
        let home = (mix64(self.seed, key) >> (64 - self.bits)) as usize;
        let mask = self.buckets.len() - 1;
        let free = (0..self.scope).map(|step| (home + step) & mask).find(|&at| self.buckets[at] < SLOTS);
        free.inspect(|&at| self.buckets[at] += 1).is_some()
    }

    /// Inserts the next key; how the table stood if it had to become larger.
    fn insert(&mut self) -> Option<Standing> {
        let mut standing = None;
        while !self.place(self.keys) {
            standing.get_or_insert_with(|| self.standing());
            self.rehash();
        }
        self.keys += 1;
        standing
    }

    /// All keys into twice as many buckets, or as many as it takes.
    fn rehash(&mut self) {
        loop {
            self.bits += 1;
            self.buckets = vec![0; 1 << self.bits];
            if (0..self.keys).all(|key| self.place(key)) {
                return;
            }
        }
    }

    /// A search for a missing key ends at the first bucket with room.
    fn standing(&self) -> Standing {
        let mask = self.buckets.len() - 1;
        let walk = |home: usize| {
            let full = (0..self.scope).take_while(|step| self.buckets[(home + step) & mask] == SLOTS).count();
            (full + 1).min(self.scope)
        };
        let walked: usize = (0..self.buckets.len()).map(walk).sum();
        Standing {
            load: self.keys as f64 / (self.buckets.len() as f64 * f64::from(SLOTS)),
            distance: walked as f64 / self.buckets.len() as f64,
        }
    }
}

pub(super) fn run(options: &Options, progress: &dyn Progress, report: &mut Report) -> Result<(), BenchError> {
    let mut curves = (Vec::new(), Vec::new());
    for scope in SCOPES {
        let name = format!("{scope} buckets");
        progress.begin(&format!("figure 1, {name}"), Amount::Count(options.items));
        let mut probing = Probing::new(scope, options.seed);
        let mut standings: Vec<Standing> = Vec::new();
        for inserted in 0..options.items {
            if inserted.is_multiple_of(EVERY) {
                progress.check()?;
                progress.advance(EVERY);
            }
            standings.extend(probing.insert());
        }
        progress.finish();
        for (round, standing) in standings.iter().enumerate() {
            report.add(CASE, &name, round as u32, LOAD, Unit::Percent, 100.0 * standing.load);
            report.add(CASE, &name, round as u32, DISTANCE, Unit::Count, standing.distance);
        }
        let curve = |of: fn(&Standing) -> f64| Curve {
            name: name.clone(),
            points: standings
                .iter()
                .zip(1..)
                .map(|(one, rehashing)| (f64::from(rehashing), of(one)))
                .collect(),
        };
        curves.0.push(curve(|one| 100.0 * one.load));
        curves.1.push(curve(|one| one.distance));
    }
    let (name, load, distance) = PUBLISHED;
    report.add(CASE, name, 0, LOAD, Unit::Percent, load);
    report.add(CASE, name, 0, DISTANCE, Unit::Count, distance);
    for (title, axis, curves) in [
        ("figure 1a: load factor before each rehashing, by probing scope", "%", curves.0),
        ("figure 1b: probing distance before each rehashing, by probing scope", "buckets", curves.1),
    ] {
        let chart = Chart::new(title, "rehashing", axis, Drawing::Curves(curves));
        report.charts.push(chart.with_scales(Scale::Linear, Scale::Linear));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_scope_makes_tables_fuller() {
        let loads = [2, 16].map(|scope| {
            let mut probing = Probing::new(scope, 1);
            let standings: Vec<Standing> = (0..100_000).filter_map(|_| probing.insert()).collect();
            let in_buckets: u64 = probing.buckets.iter().map(|&keys| u64::from(keys)).sum();
            assert_eq!(in_buckets, 100_000);
            assert!(standings.iter().all(|one| (1.0..=scope as f64).contains(&one.distance)));
            standings[1].load
        });
        assert!(loads[0] < 0.6 && loads[1] > 0.7, "{loads:?}");
    }

    #[test]
    fn a_search_walks_past_full_buckets_only() {
        let mut probing = Probing::new(4, 1);
        assert!((probing.standing().distance - 1.0).abs() < 1e-9);
        probing.buckets.fill(SLOTS);
        assert!((probing.standing().distance - 4.0).abs() < 1e-9);
    }
}
