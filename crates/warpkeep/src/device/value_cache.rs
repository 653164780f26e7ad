//! When the value cache of a table is loaded, and when the most requested keys are determined again.

use std::sync::{Mutex, TryLockError};
use std::time::{Duration, Instant};

use warpkeep_image::Persist;

use crate::Result;
use crate::index::{Planned, ValueBudget, ValueCache as _, ValueCacheStats};

/// Gets that are counted before values are loaded, for each item of the table.
const COUNTED: u64 = 4;
/// Gets that are counted of a table that has hardly any items.
const LEAST: u64 = 1000;
/// The time between two checks, each of which reads counters of the device.
const PAUSE: Duration = Duration::from_millis(20);
/// The time until the next attempt where there was no memory.
const LONG_PAUSE: Duration = Duration::from_secs(60);
/// The most requested keys are determined again when hits fall below this share of their initial rate.
const FALLEN: f64 = 0.75;

/// Maintains the value cache of one table.
pub(crate) struct ValueCacheControl {
    budget: ValueBudget,
    state: Mutex<State>,
}

/// Its state.
#[derive(Default)]
struct State {
    next_check: Option<Instant>,
    /// Items when the cache was loaded.
    items: u64,
    /// The hit rate at first.
    at_first: Option<f64>,
    /// Gets and hits at the last check of the hit rate.
    counted: (u64, u64),
}

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Nothing,
    Count,
    Load,
}

impl State {
    fn next(&mut self, stats: &ValueCacheStats, items: u64) -> Next {
        match stats.learnt {
            Some(learnt) if learnt >= (COUNTED * items).max(LEAST) => Next::Load,
            Some(_) => Next::Nothing,
            None if stats.rows == 0 => {
                if items > 0 {
                    Next::Count
                } else {
                    Next::Nothing
                }
            }
            None if items > self.items + self.items / 2 => Next::Count,
            None => {
                let (gets, hits) = (stats.gets - self.counted.0.min(stats.gets), stats.hits);
                if gets < stats.rows.max(LEAST) {
                    return Next::Nothing;
                }
                let rate = hits.saturating_sub(self.counted.1) as f64 / gets as f64;
                self.counted = (stats.gets, stats.hits);
                match self.at_first {
                    None => {
                        self.at_first = Some(rate);
                        Next::Nothing
                    }
                    Some(first) if rate < FALLEN * first => Next::Count,
                    Some(_) => Next::Nothing,
                }
            }
        }
    }
}

impl ValueCacheControl {
    pub(crate) fn new(budget: ValueBudget) -> ValueCacheControl {
        ValueCacheControl { budget, state: Mutex::default() }
    }

    /// Takes the next action, if it is time. A failure is tried again later: values are in the image.
    pub(crate) fn maintain<P: Persist, T: Planned<P>>(&self, device: &T::Device, table: &T) {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let now = Instant::now();
        if state.next_check.is_some_and(|next| now < next) {
            return;
        }
        let done = self.act(&mut state, device, table);
        state.next_check = Some(Instant::now() + if done.unwrap_or(false) { PAUSE } else { LONG_PAUSE });
    }

    /// Takes the next action; returns whether there was memory for it.
    fn act<P: Persist, T: Planned<P>>(
        &self,
        state: &mut State,
        device: &T::Device,
        table: &T,
    ) -> Result<bool> {
        let items = table.len();
        match state.next(&device.value_cache_stats()?, items) {
            Next::Nothing => Ok(true),
            Next::Count => device.count_requests(table),
            Next::Load => {
                let loaded = device.load_values(table, self.budget)?;
                *state = State { items, ..State::default() };
                Ok(loaded)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_values_loaded_and_requests_counted_again() {
        let mut state = State::default();
        let mut stats = ValueCacheStats::default();
        assert_eq!(state.next(&stats, 0), Next::Nothing);
        assert_eq!(state.next(&stats, 5000), Next::Count);
        stats.learnt = Some(19_999);
        assert_eq!(state.next(&stats, 5000), Next::Nothing);
        stats.learnt = Some(20_000);
        assert_eq!(state.next(&stats, 5000), Next::Load);
        state.items = 5000;
        stats = ValueCacheStats { rows: 2000, ..ValueCacheStats::default() };
        assert_eq!(state.next(&stats, 5000), Next::Nothing);
        // The hit rate is high at first and for a while, and then falls.
        for (gets, hits, next) in [
            (2000, 1600, Next::Nothing),
            (4000, 3000, Next::Nothing),
            (4900, 3000, Next::Nothing),
            (6000, 4000, Next::Count),
        ] {
            (stats.gets, stats.hits) = (gets, hits);
            assert_eq!(state.next(&stats, 5000), next, "{gets}");
        }
        assert_eq!(state.next(&stats, 7501), Next::Count, "the table has grown");
    }
}
