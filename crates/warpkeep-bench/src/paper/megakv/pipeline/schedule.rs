//! The paper's model of scheduling: how much a cycle allows, and how short it may be (section 5.2, equations 2 and 3).

use std::fmt;

use super::line::Line;

/// The times of batches by their sizes, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Times {
    pub(super) searches: Line,
    /// Of inserts and deletes.
    pub(super) writes: Line,
}

/// Published, for one GTX 780.
pub(super) const MEGA_KV: Times =
    Times { searches: Line { k: 3.0e-3, b: 37.4 }, writes: Line { k: 5.6e-3, b: 136.9 } };

/// When writes are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Schedule {
    /// In every second cycle.
    Delayed,
    /// In every cycle.
    Together,
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Schedule::Delayed => "writes delayed",
            Schedule::Together => "writes in every cycle",
        })
    }
}

impl Times {
    /// The highest rate, in keys a microsecond, that cycles of this length allow; `None` if a cycle is too short for any.
    pub(super) fn rate(&self, schedule: Schedule, cycle: f64, read_share: f64) -> Option<f64> {
        let rate = (cycle - self.fixed(schedule)) / (self.of_one_key(read_share) * cycle);
        (rate > 0.0).then_some(rate)
    }

    /// The shortest cycle, in microseconds, at this rate; `None` if no cycle is long enough.
    pub(super) fn cycle(&self, schedule: Schedule, rate: f64, read_share: f64) -> Option<f64> {
        let left = 1.0 - self.of_one_key(read_share) * rate;
        (left > 0.0).then_some(self.fixed(schedule) / left)
    }

    /// The highest rate of all, with endless cycles.
    pub(super) fn highest_rate(&self, read_share: f64) -> f64 {
        1.0 / self.of_one_key(read_share)
    }

    /// The time of a cycle that does not depend on its number of keys. Delayed writes fall into every second cycle.
    fn fixed(&self, schedule: Schedule) -> f64 {
        let writes = self.writes.b.max(0.0);
        self.searches.b.max(0.0) + if schedule == Schedule::Delayed { writes / 2.0 } else { writes }
    }

    fn of_one_key(&self, read_share: f64) -> f64 {
        self.searches.k * read_share + self.writes.k * (1.0 - read_share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_gives_the_bounds_that_the_paper_prints() {
        // Section 7.2.1: the cycle is longer than 105.8 us with delayed writes, and than 174.3 us without.
        for (schedule, bound) in [(Schedule::Delayed, 105.85), (Schedule::Together, 174.3)] {
            assert_eq!(MEGA_KV.rate(schedule, bound - 0.01, 0.95), None);
            assert!(MEGA_KV.rate(schedule, bound + 0.01, 0.95).is_some());
            let cycle = MEGA_KV.cycle(schedule, 0.0, 0.95).expect("a cycle");
            assert!((cycle - bound).abs() < 1e-6, "{cycle}");
        }
        // Equations 2 and 3 are each other's inverses.
        let rate = MEGA_KV.rate(Schedule::Delayed, 160.0, 0.95).expect("a rate");
        assert!((rate - 108.1).abs() < 0.1, "{rate}");
        let cycle = MEGA_KV.cycle(Schedule::Delayed, rate, 0.95).expect("a cycle");
        assert!((cycle - 160.0).abs() < 1e-6);
        assert_eq!(MEGA_KV.cycle(Schedule::Together, 1.01 * MEGA_KV.highest_rate(0.95), 0.95), None);
    }
}
