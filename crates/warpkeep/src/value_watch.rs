//! When the value cache of a table is loaded, and when the hot keys are determined again.

use std::sync::{Mutex, TryLockError};
use std::time::{Duration, Instant};

use warpkeep_gphash::gpu::{DeviceEngine, ValueRoom, ValuesStats};
use warpkeep_gphash::{Table, TableError};
use warpkeep_image::Persist;

/// Gets that are counted before values are loaded, for each item of the table.
const LEARNT: u64 = 4;
/// Gets that are counted of a table that has hardly any items.
const LEAST: u64 = 1000;
/// How often it is looked at: that takes a word with the device.
const PAUSE: Duration = Duration::from_millis(20);
/// How long nothing is tried where there was no memory.
const LONG_PAUSE: Duration = Duration::from_secs(60);
/// The hot keys are determined again when hits fall below this share of their initial rate.
const FALLEN: f64 = 0.75;

/// Looks after the value cache of one table.
pub(crate) struct ValueWatch {
    room: ValueRoom,
    seen: Mutex<Seen>,
}

/// Its state.
#[derive(Default)]
struct Seen {
    next_look: Option<Instant>,
    /// Items when it was loaded.
    items: u64,
    /// The hit rate at first.
    at_first: Option<f64>,
    /// Gets and hits when that was last looked at.
    counted: (u64, u64),
}

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Nothing,
    Learn,
    Load,
}

impl Seen {
    fn next(&mut self, stats: &ValuesStats, items: u64) -> Next {
        match stats.learnt {
            Some(learnt) if learnt >= (LEARNT * items).max(LEAST) => Next::Load,
            Some(_) => Next::Nothing,
            None if stats.rows == 0 => {
                if items > 0 {
                    Next::Learn
                } else {
                    Next::Nothing
                }
            }
            None if items > self.items + self.items / 2 => Next::Learn,
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
                    Some(first) if rate < FALLEN * first => Next::Learn,
                    Some(_) => Next::Nothing,
                }
            }
        }
    }
}

impl ValueWatch {
    pub(crate) fn new(room: ValueRoom) -> ValueWatch {
        ValueWatch { room, seen: Mutex::default() }
    }

    /// Takes the next action, if it is time. A failure is tried again later: values are in the image.
    pub(crate) fn look<P: Persist>(&self, engine: &DeviceEngine<P>, table: &Table<P>) {
        let mut seen = match self.seen.try_lock() {
            Ok(seen) => seen,
            Err(TryLockError::Poisoned(seen)) => seen.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let now = Instant::now();
        if seen.next_look.is_some_and(|next| now < next) {
            return;
        }
        let done = self.take_care(&mut seen, engine, table);
        seen.next_look = Some(Instant::now() + if done.unwrap_or(false) { PAUSE } else { LONG_PAUSE });
    }

    /// Whether it could be done.
    fn take_care<P: Persist>(
        &self,
        seen: &mut Seen,
        engine: &DeviceEngine<P>,
        table: &Table<P>,
    ) -> Result<bool, TableError> {
        let items = table.len();
        match seen.next(&engine.values_stats()?, items) {
            Next::Nothing => Ok(true),
            Next::Learn => engine.learn_values(table),
            Next::Load => {
                let report = engine.load_values(table, self.room)?;
                *seen = Seen { items, ..Seen::default() };
                Ok(report.rows > 0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hot_is_learnt_loaded_and_learnt_again() {
        let mut seen = Seen::default();
        let mut stats = ValuesStats::default();
        assert_eq!(seen.next(&stats, 0), Next::Nothing);
        assert_eq!(seen.next(&stats, 5000), Next::Learn);
        stats.learnt = Some(19_999);
        assert_eq!(seen.next(&stats, 5000), Next::Nothing);
        stats.learnt = Some(20_000);
        assert_eq!(seen.next(&stats, 5000), Next::Load);
        seen.items = 5000;
        stats = ValuesStats { rows: 2000, ..ValuesStats::default() };
        assert_eq!(seen.next(&stats, 5000), Next::Nothing);
        // It does well at first, and for a while; then it does not.
        for (gets, hits, next) in [
            (2000, 1600, Next::Nothing),
            (4000, 3000, Next::Nothing),
            (4900, 3000, Next::Nothing),
            (6000, 4000, Next::Learn),
        ] {
            (stats.gets, stats.hits) = (gets, hits);
            assert_eq!(seen.next(&stats, 5000), next, "{gets}");
        }
        assert_eq!(seen.next(&stats, 7501), Next::Learn, "the table has grown");
    }
}
