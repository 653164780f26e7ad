//! How often each item is requested.

use std::fmt;
use std::str::FromStr;

use super::{Dice, Scramble, Workload, Zipf};
use crate::BenchError;

/// The default skew of YCSB.
pub const DEFAULT_THETA: f64 = 0.99;

/// How items are drawn. Written `uniform`, `zipfian`, `zipfian:0.8`, `latest` or `latest:0.8`.
///
/// ```
/// use warpkeep_bench::workload::Distribution;
///
/// assert_eq!("zipfian".parse(), Ok(Distribution::Zipfian(0.99)));
/// assert_eq!("zipfian:0.5".parse::<Distribution>().expect("one").to_string(), "zipfian:0.5");
/// assert!("normal".parse::<Distribution>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// All alike.
    Uniform,
    /// By Zipf's law, with this skew; a hash decides which items are the most frequent.
    Zipfian(f64),
    /// By Zipf's law, the newest first.
    Latest(f64),
}

impl Distribution {
    /// Its skew; 0 if it has none.
    pub fn theta(self) -> f64 {
        match self {
            Distribution::Uniform => 0.0,
            Distribution::Zipfian(theta) | Distribution::Latest(theta) => theta,
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Distribution::Uniform => f.write_str("uniform"),
            Distribution::Zipfian(theta) => write!(f, "zipfian:{theta}"),
            Distribution::Latest(theta) => write!(f, "latest:{theta}"),
        }
    }
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Distribution, String> {
        let wrong = || {
            format!(
                "`{text}` is no distribution; write uniform, zipfian or latest, the last two with a skew from 0 to 10 if you like: zipfian:0.8"
            )
        };
        let (name, theta) = match text.split_once(':') {
            None => (text, DEFAULT_THETA),
            Some((name, theta)) => (name, theta.parse().map_err(|_| wrong())?),
        };
        match name {
            "uniform" if !text.contains(':') => Ok(Distribution::Uniform),
            _ if !(0.0..=10.0).contains(&theta) => Err(wrong()),
            "zipfian" => Ok(Distribution::Zipfian(theta)),
            "latest" => Ok(Distribution::Latest(theta)),
            _ => Err(wrong()),
        }
    }
}

/// Endless draws from a distribution; see [`Workload::picks`].
#[derive(Clone, Debug)]
pub struct Picks {
    law: Law,
    dice: Dice,
}

#[derive(Clone, Debug)]
enum Law {
    Uniform { items: u64 },
    Zipfian { zipf: Zipf, scramble: Scramble },
    Age { zipf: Zipf },
}

impl Workload {
    /// Numbers of items, endless; for [`Distribution::Latest`] ages, of which 0 is the newest item's. Each stream is another
    /// sequence, all with the same favourites.
    pub fn picks(&self, distribution: Distribution, stream: u64) -> Result<Picks, BenchError> {
        let items = self.items;
        let law = match distribution {
            Distribution::Uniform => Law::Uniform { items },
            Distribution::Zipfian(theta) => {
                Law::Zipfian { zipf: Zipf::new(items, theta)?, scramble: Scramble::new(items, self.seed) }
            }
            Distribution::Latest(theta) => Law::Age { zipf: Zipf::new(items, theta)? },
        };
        Ok(Picks { law, dice: Dice::new(self.seed, stream) })
    }
}

impl Iterator for Picks {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        let Picks { law, dice } = self;
        Some(match law {
            Law::Uniform { items } => dice.below(*items),
            Law::Zipfian { zipf, scramble } => scramble.apply(zipf.rank(dice)),
            Law::Age { zipf } => zipf.rank(dice),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::fit;

    const WORKLOAD: Workload = Workload { items: 5000, key_bytes: 8, value_bytes: 8, seed: 3 };

    fn counts(distribution: Distribution, stream: u64) -> Vec<u64> {
        let mut counts = vec![0; WORKLOAD.items as usize];
        let picks = WORKLOAD.picks(distribution, stream).expect("a law");
        picks.take(500_000).for_each(|number| counts[number as usize] += 1);
        counts
    }

    #[test]
    fn all_follow_their_law() {
        let zipfian: Vec<f64> = (1..=5000).map(|rank| f64::from(rank).powf(-0.8)).collect();
        assert!(fit::chi_square(&counts(Distribution::Uniform, 1), &[1.0; 5000]).abs() < 4.0);
        assert!(fit::chi_square(&counts(Distribution::Latest(0.8), 1), &zipfian).abs() < 4.0);
        // Scrambled: the item of each rank has that rank's share.
        let scramble = Scramble::new(5000, WORKLOAD.seed);
        let counts = counts(Distribution::Zipfian(0.8), 1);
        let by_rank: Vec<u64> = (0..5000).map(|rank| counts[scramble.apply(rank) as usize]).collect();
        assert!(fit::chi_square(&by_rank, &zipfian).abs() < 4.0);
        assert!(fit::kolmogorov(&by_rank, &zipfian) < 1.63);
    }

    #[test]
    fn streams_differ_and_have_the_same_favourites() {
        let favourite = |stream| {
            let counts = counts(Distribution::Zipfian(0.99), stream);
            (0..counts.len()).max_by_key(|&number| counts[number])
        };
        assert_eq!(favourite(1), favourite(2));
        let picks = |stream| WORKLOAD.picks(Distribution::Uniform, stream).expect("a law").take(100);
        assert!(picks(1).zip(picks(2)).filter(|(a, b)| a == b).count() < 5);
        assert!(picks(1).eq(picks(1)));
    }

    #[test]
    fn words_for_them() {
        for text in ["uniform", "zipfian:0.99", "latest:0.5", "zipfian:0"] {
            assert_eq!(text.parse::<Distribution>().expect(text).to_string(), text);
        }
        for text in ["", "uniform:1", "zipfian:", "zipfian:x", "zipfian:-1", "zipfian:11", "zipfian:NaN"] {
            assert!(text.parse::<Distribution>().is_err(), "{text}");
        }
    }
}
