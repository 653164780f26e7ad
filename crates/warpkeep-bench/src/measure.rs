//! Measurement: spreads of repeated figures, latencies, and comparisons that report when they are inconclusive.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// The smallest, the quartiles and the largest of some figures.
///
/// ```
/// use warpkeep_bench::measure::Spread;
///
/// let spread = Spread::of(&[3.0, 1.0, 2.0]).expect("there are some");
/// assert_eq!((spread.min, spread.median, spread.max), (1.0, 2.0, 3.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// How many there are.
    pub count: usize,
    /// The smallest.
    pub min: f64,
    /// A quarter of them is smaller.
    pub q1: f64,
    /// Half of them is smaller.
    pub median: f64,
    /// A quarter of them is larger.
    pub q3: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// The spread of these figures; `None` if there are none.
    pub fn of(figures: &[f64]) -> Option<Spread> {
        let mut sorted = figures.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let at = |share: f64| {
            let place = share * last as f64;
            let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        let count = sorted.len();
        Some(Spread { count, min: sorted[0], q1: at(0.25), median: at(0.5), q3: at(0.75), max: sorted[last] })
    }
}

/// The target of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
}

/// What a ratio shows about its goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The middle half of the rounds meets it.
    Met,
    /// The middle half of the rounds misses it.
    Missed,
    /// The goal lies within the spread.
    Unclear,
}

/// How two things compare, round by round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The compared variants and the case.
    pub name: String,
    /// The ratios of the rounds.
    pub spread: Spread,
    /// Whether the spread is wider than the difference: then the ratio may as well be 1.
    pub too_close_to_tell: bool,
    /// Its target, if there is one.
    pub goal: Option<Goal>,
    /// What the rounds show about the goal.
    pub verdict: Option<Verdict>,
}

impl Ratio {
    /// Compares two series of figures that were taken in the same rounds; `None` if there are none.
    ///
    /// ```
    /// use warpkeep_bench::measure::{Goal, Ratio, Verdict};
    ///
    /// let ratio = Ratio::of("rate", &[9.0, 8.9], &[10.0, 10.0], Some(Goal::AtLeast(0.8))).expect("two rounds");
    /// assert_eq!(ratio.verdict, Some(Verdict::Met));
    /// assert!(!ratio.too_close_to_tell);
    /// ```
    pub fn of(name: impl Into<String>, ours: &[f64], theirs: &[f64], goal: Option<Goal>) -> Option<Ratio> {
        let pairs = ours.iter().zip(theirs).filter(|&(_, &theirs)| theirs > 0.0);
        let spread = Spread::of(&pairs.map(|(ours, theirs)| ours / theirs).collect::<Vec<_>>())?;
        let verdict = goal.map(|goal| match goal {
            Goal::AtLeast(least) => judge(spread.q1 >= least, spread.q3 < least),
            Goal::AtMost(most) => judge(spread.q3 <= most, spread.q1 > most),
        });
        let too_close_to_tell = (spread.q1..=spread.q3).contains(&1.0);
        Some(Ratio { name: name.into(), spread, too_close_to_tell, goal, verdict })
    }
}

fn judge(met: bool, missed: bool) -> Verdict {
    match (met, missed) {
        (true, _) => Verdict::Met,
        (_, true) => Verdict::Missed,
        _ => Verdict::Unclear,
    }
}

/// In nanoseconds: an hour.
const LONGEST: u64 = 3_600_000_000_000;

/// Latencies of many operations, to three digits. More than an hour counts as an hour.
///
/// ```
/// use std::time::Duration;
/// use warpkeep_bench::measure::Latencies;
///
/// let mut latencies = Latencies::new();
/// latencies.record(Duration::from_micros(100));
/// assert!((latencies.micros(50.0) - 100.0).abs() < 0.2);
/// ```
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Latencies::new()
    }
}

impl Latencies {
    /// None so far.
    pub fn new() -> Latencies {
        Latencies(Histogram::new_with_bounds(1, LONGEST, 3).expect("these bounds are in order"))
    }

    /// Adds one.
    pub fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds the latencies of another thread.
    pub fn add(&mut self, other: &Latencies) {
        self.0.add(&other.0).expect("all have the same bounds");
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The share of them that is not longer than this.
    pub fn share_within(&self, time: Duration) -> f64 {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(LONGEST);
        self.0.percentile_below(nanos) / 100.0
    }

    /// The latency, in microseconds, that this share of the operations did not exceed.
    pub fn micros(&self, percent: f64) -> f64 {
        self.0.value_at_percentile(percent) as f64 / 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_interpolated() {
        assert_eq!(Spread::of(&[]), None);
        let spread = Spread::of(&[5.0, 1.0, 4.0, 2.0]).unwrap();
        assert_eq!((spread.q1, spread.median, spread.q3), (1.75, 3.0, 4.25));
        let one = Spread::of(&[7.0]).unwrap();
        assert_eq!((one.min, one.q1, one.median, one.q3, one.max), (7.0, 7.0, 7.0, 7.0, 7.0));
    }

    #[test]
    fn a_wide_spread_decides_nothing() {
        let bare = [10.0; 4];
        let verdict = |ours: &[f64], goal| Ratio::of("x", ours, &bare, Some(goal)).unwrap().verdict.unwrap();
        assert_eq!(verdict(&[8.5, 8.6, 8.7, 9.0], Goal::AtLeast(0.8)), Verdict::Met);
        assert_eq!(verdict(&[7.5, 7.6, 7.7, 7.9], Goal::AtLeast(0.8)), Verdict::Missed);
        assert_eq!(verdict(&[6.0, 7.0, 9.0, 10.0], Goal::AtLeast(0.8)), Verdict::Unclear);
        assert_eq!(verdict(&[11.0, 11.5, 11.8, 11.9], Goal::AtMost(1.2)), Verdict::Met);
        assert_eq!(verdict(&[13.0, 13.5, 14.0, 15.0], Goal::AtMost(1.2)), Verdict::Missed);
        assert!(Ratio::of("x", &[9.0, 9.5, 10.5, 11.0], &bare, None).unwrap().too_close_to_tell);
        assert!(!Ratio::of("x", &[9.0, 9.1, 9.2, 9.3], &bare, None).unwrap().too_close_to_tell);
        assert_eq!(Ratio::of("x", &[1.0], &[0.0], None), None);
    }

    #[test]
    fn latencies_of_threads_add_up() {
        let (mut all, mut one) = (Latencies::new(), Latencies::new());
        all.record(Duration::from_micros(10));
        one.record(Duration::from_secs(100));
        all.add(&one);
        assert_eq!(all.count(), 2);
        assert!((all.micros(50.0) - 10.0).abs() < 0.1);
        assert_eq!(all.share_within(Duration::from_millis(1)), 0.5);
        assert_eq!(all.share_within(Duration::from_secs(3)), 0.5);
        assert_eq!(all.share_within(Duration::MAX), 1.0);
        assert!((all.micros(100.0) - 1e8).abs() < 1e5);
    }
}
