//! Figure 10: the load factor over inserts, from a table made for a small part of them.

use super::Options;
use super::items::{Items, Size};
use crate::chart::{Chart, Curve, Drawing, Scale};
use crate::report::{Report, Unit};
use crate::{Amount, BenchError, Progress};

const CASE: &str = "figure 10: highest load factor while inserting";
const METRIC: &str = "highest";
/// The table begins with this part of the slots that all items would need: the paper's has room for 12 million and takes 100
/// million.
const FIRST_SHARE: u64 = 8;
/// Looks at the load factor.
const LOOKS: u64 = 400;
/// Section 4.5.
const PUBLISHED: [(&str, f64); 5] = [
    ("TurboHash, published (section 4.5)", 85.0),
    ("Dash, published (section 4.5)", 85.0),
    ("Clevel and CLHT, published (section 4.5)", 80.0),
    ("CCEH, 16-byte items, published (section 4.5)", 70.0),
    ("CCEH, 30-byte items, published (section 4.5)", 44.0),
];

/// When shards grow.
#[derive(Clone, Copy)]
enum Growing {
    /// At the first key without a slot, as in the paper.
    WhenFull,
    /// When they are nearly full, as a store makes them.
    Early,
}

pub(super) fn run(options: &Options, progress: &dyn Progress, report: &mut Report) -> Result<(), BenchError> {
    let mut curves = Vec::new();
    for size in Size::ALL {
        for growing in [Growing::WhenFull, Growing::Early] {
            let how = match growing {
                Growing::WhenFull => "grown when full, as in the paper",
                Growing::Early => "grown early, as a store does",
            };
            let name = format!("{}, {how}", size.name());
            for repeat in 0..options.repeats {
                let seed = options.seed + u64::from(repeat);
                let points = insert_all(options, size, growing, seed, &name, progress)?;
                let highest = points.iter().map(|point| point.1).fold(0.0, f64::max);
                report.add(CASE, &name, repeat, METRIC, Unit::Percent, highest);
                if repeat == 0 {
                    curves.push(Curve { name: name.clone(), points });
                }
            }
        }
    }
    for (name, value) in PUBLISHED {
        report.add(CASE, name, 0, METRIC, Unit::Percent, value);
    }
    let chart = Chart::new("figure 10: load factor over inserts", "items", "%", Drawing::Curves(curves));
    report.charts.push(chart.with_scales(Scale::Linear, Scale::Linear));
    report.notes.push(
        "figure 10: one slot of a bucket is kept free for updates, so of items that lie in records at most 13 of 14 slots are in use \
         (93%), of values in the slots 8 of 9 (89%): slots of values have the version beside the value, which the paper's have not"
            .to_owned(),
    );
    Ok(())
}

fn insert_all(
    options: &Options,
    size: Size,
    growing: Growing,
    seed: u64,
    name: &str,
    progress: &dyn Progress,
) -> Result<Vec<(f64, f64)>, BenchError> {
    progress.begin(&format!("figure 10, {name}"), Amount::Count(options.items));
    let items = Items::new(size, options.items / FIRST_SHARE, options.items, seed)?;
    let first = items.table.slots();
    let every = (options.items / LOOKS).max(1);
    let mut points = Vec::new();
    for number in 0..options.items {
        items.put(number)?;
        if let (Growing::Early, true) = (growing, number.is_multiple_of(64)) {
            items.maintain()?;
        }
        if number.is_multiple_of(every) {
            progress.check()?;
            progress.advance(every);
            points.push((number as f64, 100.0 * items.load()));
        }
    }
    progress.finish();
    if items.table.len() != options.items {
        return Err(BenchError::Wrong(format!("{} of {} items are there", items.table.len(), options.items)));
    }
    if items.table.slots() == first {
        return Err(BenchError::Invalid("the table never grew; take more items".to_owned()));
    }
    Ok(points)
}
