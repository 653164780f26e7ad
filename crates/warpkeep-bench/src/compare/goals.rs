//! The goals of the comparison: ratios, and their targets.

use super::contestants::limit::{AS_A_GET, ONE_LINE};
use super::contestants::{DASHMAP, DASHMAP_LOGGED, MAPS, MEMORY, TREES};
use super::{BATCHES, case_name, variant_name};
use crate::measure::{Goal, Ratio};
use crate::report::Report;
use crate::workload::{Task, Work};

const RATE: &str = "rate";
const ONE_BY_ONE: &str = "one by one";

/// Batched gets against the map that is fastest one by one: the expected gain of batching.
const GET_AGAINST_BEST_MAP: f64 = 5.0;
/// Batched gets against stores that a user would embed instead.
const GET_AGAINST_TREES: f64 = 15.0;
/// Batched gets as a share of the memory limit for the lines they touch.
const GET_AGAINST_MEMORY: f64 = 0.5;
/// Gets one by one against a plain map in memory: the allowed cost of persistence.
const SINGLE_GET_AGAINST_DASHMAP: f64 = 1.0;
/// Batched puts against a map with the same log behind it.
const PUT_AGAINST_LOGGED_MAP: f64 = 1.0;

/// Compares the figures of the report, for each number of threads; `ours` is our name in it.
pub(crate) fn judge(report: &mut Report, threads: &[usize], ours: &str) {
    for &threads in threads {
        let case = |task| case_name(Work::Task(task), threads);
        let (batches, one_by_one) = (variant_name(ours, BATCHES), variant_name(ours, ONE_BY_ONE));
        let gets = case(Task::Hit);
        let mut found = Vec::new();

        let mut maps: Vec<Ratio> = MAPS
            .iter()
            .filter_map(|map| {
                report.ratio(&gets, RATE, &batches, map, Some(Goal::AtLeast(GET_AGAINST_BEST_MAP)))
            })
            .collect();
        maps.sort_by(|a, b| a.spread.median.total_cmp(&b.spread.median));
        // The smallest ratio is that against the best map; it has the goal.
        for (place, ratio) in maps.into_iter().enumerate() {
            found.push(match place {
                0 => Ratio { name: format!("{} (the best map)", ratio.name), ..ratio },
                _ => Ratio { goal: None, verdict: None, ..ratio },
            });
        }
        for tree in TREES {
            let goal = Some(Goal::AtLeast(GET_AGAINST_TREES));
            found.extend(report.ratio(&gets, RATE, &batches, tree, goal));
        }
        let memory = |way| variant_name(MEMORY, way);
        let goal = Some(Goal::AtLeast(GET_AGAINST_MEMORY));
        found.extend(report.ratio(&gets, RATE, &batches, &memory(AS_A_GET), goal));
        found.extend(report.ratio(&gets, RATE, &batches, &memory(ONE_LINE), None));
        let goal = Some(Goal::AtLeast(SINGLE_GET_AGAINST_DASHMAP));
        found.extend(report.ratio(&gets, RATE, &one_by_one, DASHMAP, goal));
        for task in [Task::Update, Task::Insert] {
            let goal = Some(Goal::AtLeast(PUT_AGAINST_LOGGED_MAP));
            found.extend(report.ratio(&case(task), RATE, &batches, DASHMAP_LOGGED, goal));
            found.extend(report.ratio(&case(task), RATE, &one_by_one, DASHMAP_LOGGED, None));
        }
        report.ratios.extend(found);
    }
}

#[cfg(test)]
mod tests {
    use super::super::contestants::WARPKEEP;
    use super::*;
    use crate::measure::Verdict;
    use crate::report::Unit;

    #[test]
    fn ratios_of_fixed_rows() {
        let mut report = Report::new("compare", "test", 1);
        let mut add = |task, variant: &str, rates: [f64; 2], first_round: u32| {
            for (round, rate) in rates.into_iter().enumerate() {
                report.add(
                    &case_name(Work::Task(task), 1),
                    variant,
                    first_round + round as u32,
                    RATE,
                    Unit::PerSecond,
                    rate,
                );
            }
        };
        let batches = variant_name(WARPKEEP, BATCHES);
        // Two groups: rounds 0 and 1 with papaya, 2 and 3 with dashmap, when the machine was twice as fast.
        add(Task::Hit, &batches, [90.0, 92.0], 0);
        add(Task::Hit, &batches, [180.0, 184.0], 2);
        add(Task::Hit, "papaya", [30.0, 31.0], 0);
        add(Task::Hit, DASHMAP, [100.0, 101.0], 2);
        add(Task::Hit, &variant_name(MEMORY, AS_A_GET), [100.0, 100.0], 0);
        add(Task::Hit, &variant_name(WARPKEEP, ONE_BY_ONE), [50.0, 50.0], 2);
        add(Task::Update, &batches, [10.0, 10.0], 0);
        add(Task::Update, DASHMAP_LOGGED, [20.0, 20.0], 0);
        judge(&mut report, &[1], WARPKEEP);
        let got: Vec<(String, f64, Option<Verdict>)> = report
            .ratios
            .iter()
            .map(|ratio| (ratio.name.clone(), (ratio.spread.median * 100.0).round() / 100.0, ratio.verdict))
            .collect();
        let name = |ours: &str, theirs: &str| format!("positive get, 1 thread: rate, {ours} / {theirs}");
        assert_eq!(
            got,
            [
                (name("warpkeep, batches", "dashmap (the best map)"), 1.81, Some(Verdict::Missed)),
                (name("warpkeep, batches", "papaya"), 2.98, None),
                (name("warpkeep, batches", "memory, lines of a get, prefetched"), 0.91, Some(Verdict::Met)),
                (name("warpkeep, one by one", "dashmap"), 0.5, Some(Verdict::Missed)),
                (
                    "update, 1 thread: rate, warpkeep, batches / dashmap + log".to_owned(),
                    0.5,
                    Some(Verdict::Missed)
                ),
            ]
        );
    }
}
