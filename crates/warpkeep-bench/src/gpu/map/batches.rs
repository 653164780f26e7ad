//! Batches of given sizes on a map that stays as full as it is.

use std::collections::HashMap;
use std::time::Duration;

use super::batch::{ABSENT, Batch, Items};
use super::contestant::Contestant;
use super::operation::Operation;
use super::options::MOST_CHANGED_LOAD;
use super::pairs::{Key, Pairs, Value};
use crate::gpu::RATE;
use crate::measure::Latencies;
use crate::report::{Report, Unit};
use crate::{BenchError, Progress};

/// Batches of a size in a round at the most, and their operations, unless one batch has more.
const MOST_BATCHES: u64 = 64;
const MOST_OPERATIONS: u64 = 1 << 22;
/// A batch of inserts has one key for this many slots at the most, so that the map does not grow.
const SLOTS_A_KEY: u64 = 100;

/// The operations that batches of a size do on a map with this many slots and keys.
pub(super) fn operations(batch: usize, slots: u64, keys: u64) -> Vec<Operation> {
    let (batch, mut operations) = (batch as u64, Vec::new());
    if batch <= keys {
        operations.extend([Operation::Hit, Operation::Miss]);
        let has_room = keys as f64 <= MOST_CHANGED_LOAD * slots as f64;
        if batch * SLOTS_A_KEY <= slots && has_room {
            operations.extend([Operation::Insert, Operation::Erase]);
        }
    }
    operations
}

/// The name of their case.
pub(super) fn case_name(operation: Operation, pairs: Pairs, batch: usize, load: f64, slots: u64) -> String {
    let what = match operation {
        Operation::Insert => "insert".to_owned(),
        other => other.to_string(),
    };
    format!("{what}, {}batches of {batch}, load {load}, {slots} slots", pairs.in_a_name())
}

/// Batches of one size on maps of one size and load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) items: Items,
    pub(super) pairs: Pairs,
    /// The map has the first of the items.
    pub(super) keys: u64,
    pub(super) batch: usize,
    pub(super) load: f64,
    pub(super) slots: u64,
}

impl Work {
    /// Runs the batches, and leaves the map as it is.
    pub(super) fn measure<K: Key, V: Value>(
        &self,
        contestant: &Contestant<'_, K, V>,
        round: u32,
        progress: &dyn Progress,
        report: &mut Report,
    ) -> Result<(), BenchError> {
        let Work { items, pairs, keys, batch, load, slots } = *self;
        let len = batch as u64;
        let count = (MOST_OPERATIONS / len).clamp(1, MOST_BATCHES).min(keys / len);
        let operations = operations(batch, slots, keys);
        let mut times: Vec<_> =
            operations.into_iter().map(|operation| (operation, 0.0, Latencies::new())).collect();
        for number in 0..count {
            // Other keys in every round.
            let first = (u64::from(round) * count + number) % (keys / len) * len;
            let (there, absent) = (first..first + len, ABSENT + first..ABSENT + first + len);
            for (operation, seconds, latencies) in &mut times {
                progress.check()?;
                let batch = match operation {
                    Operation::Hit => Batch::hits(items, there.clone()),
                    Operation::Miss => Batch::misses(items, absent.clone()),
                    Operation::Insert => Batch::insert(items, absent.clone()),
                    // What was just inserted.
                    Operation::Erase => Batch::erase(items, absent.clone(), &HashMap::new()),
                    Operation::Mixed => continue,
                };
                let took = contestant.run(&batch)?;
                *seconds += took;
                latencies.record(Duration::from_secs_f64(took));
            }
        }
        for (operation, seconds, latencies) in times {
            let case = case_name(operation, pairs, batch, load, slots);
            let rate = (count * len) as f64 / seconds;
            report.add(&case, contestant.name, round, RATE, Unit::PerSecond, rate);
            for (metric, percent) in [("p50 of a batch", 50.0), ("max of a batch", 100.0)] {
                report.add(&case, contestant.name, round, metric, Unit::Micros, latencies.micros(percent));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_that_would_make_a_map_grow_do_not_insert() {
        let counts = [10, 11, 500, 501].map(|batch| operations(batch, 1000, 500).len());
        assert_eq!(counts, [4, 2, 2, 0]);
        let counts = [930, 931].map(|keys| operations(10, 1000, keys).len());
        assert_eq!(counts, [4, 2]);
    }
}
