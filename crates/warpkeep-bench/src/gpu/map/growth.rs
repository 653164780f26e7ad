//! How long a map takes to double.

use super::batch::{Batch, Items};
use super::contestant::Contestant;
use super::pairs::{Key, Value};
use crate::gpu::RATE;
use crate::limits::median;
use crate::report::{Report, Unit};
use crate::{BenchError, Progress};

/// The metric of the time of the batch in which a map doubles.
pub(super) const DOUBLING: &str = "time of the batch that doubles it";
/// Percent of the slots that are filled at once, before small batches fill the rest.
const FILLED: u64 = 90;
/// Small batches that a map takes.
const BATCHES: u64 = 256;
/// Keys of a small batch at the least.
const LEAST: u64 = 16;

/// Fills a map until it doubles, in batches so small that the last takes little more time than the doubling.
pub(super) fn measure<K: Key, V: Value>(
    contestant: &Contestant<'_, K, V>,
    items: Items,
    case: &str,
    round: u32,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    let mut there = 0;
    let mut insert = |count: u64| {
        progress.check()?;
        let numbers = there..there + count;
        there += count;
        Ok::<_, BenchError>((contestant.run(&Batch::insert(items, numbers))?, there))
    };
    let slots = loop {
        // The CPU form is made with room for few keys, and grows meanwhile.
        let stats = contestant.map.stats()?;
        match (stats.slots * FILLED / 100).saturating_sub(stats.items) {
            0 => break stats.slots,
            missing => insert(missing)?,
        };
    };
    let batch = (slots / BATCHES).max(LEAST);
    let mut others = Vec::new();
    let (seconds, keys) = loop {
        let (seconds, keys) = insert(batch)?;
        if contestant.map.stats()?.slots > slots {
            break (seconds, keys);
        }
        others.push(seconds);
        if keys > slots {
            return Err(BenchError::Wrong(format!(
                "a map of {slots} slots took {keys} keys and did not grow"
            )));
        }
    };
    contestant.run(&Batch::hits(items, 0..keys))?;
    let full = 100.0 * (keys - batch) as f64 / slots as f64;
    report.add(case, contestant.name, round, RATE, Unit::PerSecond, keys as f64 / seconds);
    report.add(case, contestant.name, round, DOUBLING, Unit::Micros, 1e6 * seconds);
    if !others.is_empty() {
        let usual = 1e6 * median(&others);
        report.add(case, contestant.name, round, "time of other batches", Unit::Micros, usual);
    }
    report.add(case, contestant.name, round, "load before it", Unit::Percent, full);
    Ok(())
}
