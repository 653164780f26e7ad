//! The growth benchmark: how long a table takes to double, how long concurrent users wait, and how long reopening a
//! store takes, each against the number of items, to show whether they grow alike.

mod comeback;
mod resize;
mod waits;

use std::path::PathBuf;

use crate::chart::{Chart, Curve, Drawing};
use crate::machine::{Others, placement_in};
use crate::report::{Report, Unit};
use crate::scratch::Scratch;
use crate::size::Size;
use crate::workload::Workload;
use crate::{BenchError, Progress, memory};
use waits::Waits;

/// What to measure, and how thoroughly.
#[derive(Clone, Debug)]
pub struct Options {
    /// A directory on a disk, for logs; a directory of its own is made in it, and removed.
    pub dir: PathBuf,
    /// A directory for images, best on tmpfs; used the same way.
    pub image_dir: PathBuf,
    /// Numbers of items, case by case.
    pub sizes: Vec<u64>,
    /// Bytes in a value.
    pub value_bytes: usize,
    /// How often each is measured.
    pub repeats: u32,
    /// Of everything random.
    pub seed: u64,
    /// How the benchmark was started, for the report.
    pub command: String,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            dir: PathBuf::from("."),
            image_dir: PathBuf::from("/dev/shm"),
            sizes: [1, 2, 4, 8, 16].map(|millions| millions * 1_000_000).to_vec(),
            value_bytes: 128,
            repeats: 3,
            seed: 1,
            command: "warpkeep bench growth".to_owned(),
        }
    }
}

impl Options {
    fn workload(&self, items: u64) -> Workload {
        Workload { items, key_bytes: 8, value_bytes: self.value_bytes, seed: self.seed }
    }

    fn check(&self) -> Result<(), BenchError> {
        if self.repeats == 0 || self.sizes.is_empty() {
            return Err(BenchError::Invalid("at least one repeat and one size are needed".to_owned()));
        }
        self.sizes.iter().try_for_each(|&items| self.workload(items).check())
    }
}

/// The name of a size.
fn case_name(items: u64) -> String {
    format!("{items} items")
}

/// The plotted figures against the size: variant and metric.
const DRAWN: [(&str, &str, &str); 5] = [
    ("resize", "alone", "seconds"),
    ("resize, while used", "under load", "seconds"),
    ("re-attach: mark", "re-attach", "mark"),
    ("re-attach", "re-attach", "total"),
    ("rebuild", "rebuild", "total"),
];

/// Runs the benchmark. Files are made in directories of their own and removed, also after an error.
///
/// ```no_run
/// use warpkeep_bench::{Quiet, growth};
///
/// let report = growth::run(&growth::Options::default(), &Quiet)?;
/// print!("{}", report.to_text());
/// # Ok::<(), warpkeep_bench::BenchError>(())
/// ```
pub fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    options.check()?;
    let mut report = Report::new("growth", &options.command, options.seed);
    report.machine.add_place("log", &options.dir)?;
    report.machine.add_place("image", &options.image_dir)?;
    for &items in &options.sizes {
        let workload = options.workload(items);
        if let Some(obstacle) = obstacle(options, &workload)? {
            report.notes.push(format!("{items} items were left out: {obstacle}"));
            continue;
        }
        let others = Others::watch();
        for repeat in 0..options.repeats {
            let scratch = Scratch::new(&options.dir, &options.image_dir)?;
            resize::run(&workload, &scratch, repeat, progress, &mut report)?;
        }
        let scratch = Scratch::new(&options.dir, &options.image_dir)?;
        comeback::run(&workload, &scratch, options.repeats, progress, &mut report)?;
        report.others(&case_name(items), others.share());
        memory::give_back();
    }
    report.notes.push(
        "resize: a table full to 85% becomes twice as large; under load: one thread makes it grow in the slices that a store's \
         background thread takes, another gets, updates and inserts in turn, each operation timed; not preempted: without the operations in which the \
         scheduler gave the processor to another thread"
            .to_owned(),
    );
    report.finish();
    let curves = curves(&report, &options.sizes);
    report.notes.extend(curves.iter().filter_map(growth_note));
    report.charts.push(Chart::new("time against size", "items", "seconds", Drawing::Curves(curves)));
    let waits = ["longest get", "longest put", "longest get, not preempted", "longest put, not preempted"];
    let waits = waits.map(|metric| curve(&report, &options.sizes, metric, "under load", metric, 1e-3));
    report.charts.push(Chart::new(
        "longest wait while growing",
        "items",
        "milliseconds",
        Drawing::Curves(waits.to_vec()),
    ));
    Ok(report)
}

/// The obstacle to a size, if there is one.
fn obstacle(options: &Options, workload: &Workload) -> Result<Option<String>, BenchError> {
    let image = resize::image_bytes(workload);
    let disk = 3 * workload.items * (workload.value_bytes as u64 + 64) + (512 << 20);
    for (directory, needed) in [(&options.image_dir, image), (&options.dir, disk)] {
        let free = placement_in(directory)?.free_bytes;
        if free < needed {
            return Ok(Some(format!(
                "{} are needed in {}, and {} are free",
                Size(needed),
                directory.display(),
                Size(free)
            )));
        }
    }
    Ok(None)
}

fn curves(report: &Report, sizes: &[u64]) -> Vec<Curve> {
    DRAWN.iter().map(|(name, variant, metric)| curve(report, sizes, name, variant, metric, 1.0)).collect()
}

fn curve(report: &Report, sizes: &[u64], name: &str, variant: &str, metric: &str, scale: f64) -> Curve {
    let median = |items: u64| {
        let case = case_name(items);
        let wanted = |summary: &&crate::report::Summary| {
            summary.case == case && summary.variant == variant && summary.metric == metric
        };
        report.summaries.iter().find(wanted).map(|summary| (items as f64, summary.spread.median * scale))
    };
    Curve { name: name.to_owned(), points: sizes.iter().filter_map(|&items| median(items)).collect() }
}

/// With which power of the size a time grows; 1 is in proportion.
fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    let logs: Vec<(f64, f64)> =
        points.iter().filter(|(x, y)| *x > 0.0 && *y > 0.0).map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = logs.len() as f64;
    let (sum_x, sum_y) = logs.iter().fold((0.0, 0.0), |sums, (x, y)| (sums.0 + x, sums.1 + y));
    let (mean_x, mean_y) = (sum_x / count, sum_y / count);
    let spread: f64 = logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let together: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    (spread > 0.0).then(|| together / spread)
}

fn growth_note(curve: &Curve) -> Option<String> {
    let exponent = exponent(&curve.points)?;
    Some(format!("{} grows with the size to the power of {exponent:.2} (1 is in proportion)", curve.name))
}

/// Adds the latencies of operations.
fn add_waits(report: &mut Report, case: &str, variant: &str, repeat: u32, what: &str, waits: &Waits) {
    let micros = [
        ("p50", "", waits.all.micros(50.0)),
        ("p99.9", "", waits.all.micros(99.9)),
        ("longest", "", waits.all.micros(100.0)),
        ("longest", ", not preempted", waits.undisturbed.micros(100.0)),
    ];
    for (metric, which, micros) in micros {
        report.add(case, variant, repeat, &format!("{metric} {what}{which}"), Unit::Micros, micros);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_of_known_laws() {
        let law = |power: f64| -> Vec<(f64, f64)> {
            [1e6, 2e6, 4e6].map(|x: f64| (x, 3e-9 * x.powf(power))).to_vec()
        };
        for power in [0.0, 0.5, 1.0, 2.0] {
            assert!((exponent(&law(power)).expect("three points") - power).abs() < 1e-9, "{power}");
        }
        assert_eq!(exponent(&[(1.0, 1.0)]), None);
        assert_eq!(exponent(&[]), None);
        let note = growth_note(&Curve { name: "resize".into(), points: law(1.0) }).expect("a note");
        assert!(note.contains("power of 1.00"), "{note}");
    }
}
