//! Figures 11 and 12: how far searches for absent keys walk, and how long they take: in a fresh table, after all
//! keys were deleted and others inserted, and after deleted slots are collected.

use std::time::Instant;

use warpkeep_turbohash::Distances;

use super::items::{Items, Size};
use super::{Figure, Options};
use crate::chart::{Bar, Chart, Drawing};
use crate::report::{Report, Unit};
use crate::{Amount, BenchError, Progress};

const MEAN: &str = "buckets a miss, mean";
const LONGEST: &str = "buckets a miss, longest";
const LATENCY: &str = "latency of a miss";
/// How full the table is.
const LOADS: [f64; 4] = [0.2, 0.4, 0.6, 0.8];
/// The load that the text gives numbers for.
const HIGHEST: f64 = 0.8;
/// Searches that are timed, at the most.
const SEARCHES: u64 = 1 << 20;
/// Keys between two looks at whether to go on.
const EVERY: u64 = 1 << 14;
/// Sections 4.6: averages at a load of 80%, and the longest distance.
const PUBLISHED: [(&str, &str, Unit, f64); 5] = [
    ("fresh, published (section 4.6)", MEAN, Unit::Count, 1.34),
    ("fresh, published (section 4.6)", LONGEST, Unit::Count, 6.0),
    ("fresh, published (section 4.6)", LATENCY, Unit::Micros, 0.48),
    ("deleted and inserted again, published (section 4.6)", MEAN, Unit::Count, 6.13),
    ("deleted and inserted again, published (section 4.6)", LATENCY, Unit::Micros, 1.67),
];

/// The measured states of a table.
const STATES: [&str; 3] = ["fresh", "deleted and inserted again", "collected"];

pub(super) fn run(
    options: &Options,
    figure: Figure,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    for size in Size::ALL {
        for load in LOADS.into_iter().filter(|&load| figure == Figure::Distances || load >= HIGHEST) {
            for repeat in 0..options.repeats {
                let seed = options.seed + u64::from(repeat);
                measure(options, (figure, size, load), (repeat, seed), progress, report)?;
            }
            let case = case_name(figure, size, load);
            for (name, metric, unit, value) in PUBLISHED {
                if load >= HIGHEST && (figure == Figure::Distances) == (unit == Unit::Count) {
                    report.add(&case, name, 0, metric, unit, value);
                }
            }
        }
    }
    if figure == Figure::Distances {
        report.notes.push(
            "figure 11: buckets have a filter that the paper's have not, so a search goes on only if something like its key was put \
             further on; a distance of 1 is the home bucket alone"
                .to_owned(),
        );
    }
    Ok(())
}

fn case_name(figure: Figure, size: Size, load: f64) -> String {
    let what = if figure == Figure::Distances { "how far searches walk" } else { "how long searches take" };
    format!("figure {figure}: {what}, {}, load {:.0}%", size.name(), 100.0 * load)
}

/// One table, in its three states.
fn measure(
    options: &Options,
    (figure, size, load): (Figure, Size, f64),
    (repeat, seed): (u32, u64),
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    let case = case_name(figure, size, load);
    let items = Items::new(size, (options.items as f64 / load) as u64, 2 * options.items, seed)?;
    progress.begin(&case, Amount::Count(3 * options.items));
    let fill = |from: u64| -> Result<u64, BenchError> {
        let mut number = from;
        // Should shards grow, it takes more items; but not for ever.
        while items.load() < load && number < from + 2 * options.items {
            if number.is_multiple_of(EVERY) {
                progress.check()?;
                progress.advance(EVERY);
            }
            items.put(number)?;
            number += 1;
        }
        Ok(number)
    };
    let slots = items.table.slots();
    let first = fill(0)?;
    note(&items, figure, &case, (STATES[0], repeat), report);
    for number in 0..first {
        if number.is_multiple_of(EVERY) {
            progress.check()?;
            progress.advance(EVERY);
        }
        items.remove(number);
    }
    fill(first)?;
    note(&items, figure, &case, (STATES[1], repeat), report);
    // As a store's background thread would have done meanwhile.
    items.maintain()?;
    note(&items, figure, &case, (STATES[2], repeat), report);
    progress.finish();
    if items.table.slots() != slots {
        report.notes.push(format!("{case}: some shards have grown, so it is a little less full in the end"));
    }
    Ok(())
}

fn note(items: &Items, figure: Figure, case: &str, (state, repeat): (&str, u32), report: &mut Report) {
    if figure == Figure::Latency {
        report.add(case, state, repeat, LATENCY, Unit::Micros, latency(items));
        return;
    }
    let Distances { counts, mean } = items.table.stats().misses;
    let longest = counts.iter().rposition(|&count| count > 0).map_or(0, |at| at + 1);
    report.add(case, state, repeat, MEAN, Unit::Count, mean);
    report.add(case, state, repeat, LONGEST, Unit::Count, longest as f64);
    if repeat > 0 {
        return;
    }
    let searches: u64 = counts.iter().sum();
    let bar = |(count, distance): (&u64, usize)| Bar {
        name: format!("{distance} buckets"),
        value: 100.0 * *count as f64 / searches.max(1) as f64,
        range: None,
    };
    let bars = counts.iter().zip(1..).take(longest).map(bar).collect();
    report.charts.push(Chart::new(format!("{case}, {state}"), "% of searches", "", Drawing::Bars(bars)));
}

/// Microseconds that a get of a missing key takes, one by one.
fn latency(items: &Items) -> f64 {
    let searches = SEARCHES.min(items.table.len().max(1));
    // Numbers that are never put.
    let keys: Vec<Vec<u8>> = (0..searches).map(|number| items.key(u64::MAX - number)).collect();
    let begun = Instant::now();
    let found = keys.iter().filter(|key| items.table.get(key, |_| ()).is_some()).count();
    let seconds = begun.elapsed().as_secs_f64();
    debug_assert_eq!(found, 0, "keys of other numbers are other keys");
    seconds * 1e6 / searches as f64
}
