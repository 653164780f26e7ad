//! The load factor benchmark: the load factor at the first key without a slot, by geometry.
//!
//! *Fresh*: a table of a given size takes random keys until one has a slot neither in the levels nor in the overflow, or
//! until a thousandth of the slots has come to lie in the overflow. *Grown*: a small table takes them all and grows on the way, either when a key finds
//! no place, as in the paper, or early, as a store makes it grow.

mod filling;
mod paper;

use warpkeep_gphash::Geometry;

use self::filling::{Filling, Growing};
use crate::chart::{Bar, Chart, Curve, Drawing, Scale};
use crate::measure::Spread;
use crate::report::{Report, Unit};
use crate::size::Size;
use crate::{Amount, BenchError, Progress};

/// The most inserts between two looks at the load factor: as many as in the paper.
const EVERY: u64 = 1 << 14;
/// The share of the slots that the overflow may hold; geometries of one level have more of it.
const MAX_OVERFLOW: f64 = 0.001;
/// Growths of smaller tables are left out of the summary: chance decides there.
const LARGE: u64 = 1 << 16;

/// What to measure, and how thoroughly.
#[derive(Clone, Debug)]
pub struct Options {
    /// Keys to insert; a fresh table has this number of slots, divided by `load`.
    pub items: u64,
    /// How full a fresh table would be with all items.
    pub load: f64,
    /// The layouts; all if none is given.
    pub geometries: Vec<Geometry>,
    /// Fresh tables of each geometry, each with keys of its own.
    pub repeats: u32,
    /// Of everything random.
    pub seed: u64,
    /// How the benchmark was started, for the report.
    pub command: String,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            items: 16_000_000,
            load: 1.0,
            geometries: Vec::new(),
            repeats: 3,
            seed: 1,
            command: "warpkeep bench load-factor".to_owned(),
        }
    }
}

impl Options {
    /// Inserts between two looks.
    fn every(&self) -> u64 {
        (self.items / 512).clamp(1, EVERY)
    }

    fn check(&self) -> Result<(), BenchError> {
        let wrong = |what: &str| Err(BenchError::Invalid(what.to_owned()));
        if !(1000..=1 << 34).contains(&self.items) {
            return wrong("1000 to 2^34 items are possible");
        }
        if !(0.1..=1.0).contains(&self.load) {
            return wrong("the load must be from 0.1 to 1: a table takes no more items than it has slots");
        }
        if self.repeats == 0 {
            return wrong("at least one repeat is needed");
        }
        let (needed, memory) =
            (filling::memory_bytes(self.items), crate::machine::Machine::describe().memory_bytes);
        if needed > memory / 10 * 8 {
            return Err(BenchError::Invalid(format!(
                "{} items need about {} of memory, and there are {}; take fewer",
                self.items,
                Size(needed),
                Size(memory)
            )));
        }
        Ok(())
    }
}

/// Every possible geometry: all products of 32 that a table takes, more levels first.
///
/// ```
/// use warpkeep_bench::load_factor::all_geometries;
///
/// assert!(all_geometries().iter().any(|geometry| geometry.to_string() == "2L-2H-8S"));
/// ```
pub fn all_geometries() -> Vec<Geometry> {
    let powers = || (0..=5).map(|shift| 1_u8 << shift);
    let pairs = powers().flat_map(|levels| powers().map(move |hashes| (levels, hashes)));
    let geometry = |(levels, hashes): (u8, u8)| {
        let slots = 32_u32.checked_div(u32::from(levels) * u32::from(hashes))?;
        Geometry::new(levels, hashes, u8::try_from(slots).ok()?).ok()
    };
    pairs.filter_map(geometry).collect()
}

/// Runs the benchmark, in memory alone.
///
/// ```no_run
/// use warpkeep_bench::{Quiet, load_factor};
///
/// let report = load_factor::run(&load_factor::Options::default(), &Quiet)?;
/// print!("{}", report.to_text());
/// # Ok::<(), warpkeep_bench::BenchError>(())
/// ```
pub fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    options.check()?;
    let mut report = Report::new("load-factor", &options.command, options.seed);
    let geometries =
        if options.geometries.is_empty() { all_geometries() } else { options.geometries.clone() };
    let (mut fresh, mut grown, mut early) = (Vec::new(), Vec::new(), Vec::new());
    for &geometry in &geometries {
        for repeat in 0..options.repeats {
            fill_fresh(options, geometry, repeat, progress, &mut report)?;
        }
        fresh.extend(highest(&report, &geometry.to_string()));
        let points = fill_grown(options, geometry, Growing::WhenFull, progress, &mut report)?;
        grown.push(Curve { name: geometry.to_string(), points });
        if geometry == Geometry::default() {
            let points = fill_grown(options, geometry, Growing::Early, progress, &mut report)?;
            early.push(Curve { name: format!("{geometry}, as a store does"), points });
        }
        if let Some(figure) = paper::published(geometry) {
            let published = figure.label(geometry);
            for metric in ["highest", "first failure"] {
                report.add(CASE, &published, 0, metric, Unit::Percent, 100.0 * figure.load_factor);
            }
            fresh.extend(highest(&report, &published));
        }
    }
    grown.extend(early);
    report.notes.extend(paper::notes());
    report.notes.push(format!(
        "a fresh table has {} slots; an item without a slot in the levels goes to the overflow; failure is the first key \
         that finds none there either, or a thousandth of the slots in the overflow, whichever comes first",
        (options.items as f64 / options.load) as u64
    ));
    fresh.sort_by(|a, b| b.value.total_cmp(&a.value));
    report.charts.push(Chart::new("load factor at the first failure", "%", "", Drawing::Bars(fresh)));
    let grown = Chart::new("load factor, grown tables", "inserts", "load factor", Drawing::Curves(grown));
    report.charts.push(grown.with_scales(Scale::Linear, Scale::Linear));
    report.finish();
    Ok(report)
}

/// The case of its figures.
pub(crate) const CASE: &str = "load factor by geometry";

/// The bar of a geometry, or of its published figure: the load factor at the first failure, or with all items if
/// none failed.
fn highest(report: &Report, variant: &str) -> Option<Bar> {
    let spread = Spread::of(&report.series(CASE, variant, "highest"))?;
    let range = (spread.count > 1).then_some((spread.q1, spread.q3));
    Some(Bar { name: variant.to_owned(), value: spread.median, range })
}

fn fill_fresh(
    options: &Options,
    geometry: Geometry,
    repeat: u32,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    progress.begin(
        &format!("{geometry}, fresh, {} of {}", repeat + 1, options.repeats),
        Amount::Count(options.items),
    );
    let slots = (options.items as f64 / options.load) as u64;
    let mut filling = Filling::fresh(geometry, slots, options.seed + u64::from(repeat))?;
    let mut first_in_overflow = None;
    let mut failed = false;
    while filling.inserted() < options.items && !failed {
        progress.check()?;
        let before = filling.inserted();
        failed = !filling.insert(options.every().min(options.items - before))?;
        progress.advance(filling.inserted() - before);
        // Looking takes a pass over the table: only where it can matter.
        let in_overflow = if filling.load_factor() > 0.3 { filling.in_overflow() } else { 0 };
        if in_overflow > 0 {
            first_in_overflow.get_or_insert(filling.load_factor());
        }
        failed |= in_overflow as f64 > MAX_OVERFLOW * slots as f64;
    }
    progress.finish();
    let overflow = filling.in_overflow() as f64 / slots as f64;
    let mut add = |metric, value: f64| {
        report.add(CASE, &geometry.to_string(), repeat, metric, Unit::Percent, 100.0 * value);
    };
    add("highest", filling.load_factor());
    if failed {
        add("first failure", filling.load_factor());
    }
    if let Some(load) = first_in_overflow {
        add("overflow begins", load);
    }
    add("in overflow at the end", overflow);
    if !failed {
        let (items, load) = (options.items, filling.load_factor());
        report
            .notes
            .push(format!("{geometry}: all {items} items found a place, at a load factor of {load:.3}"));
    }
    Ok(())
}

fn fill_grown(
    options: &Options,
    geometry: Geometry,
    growing: Growing,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<Vec<(f64, f64)>, BenchError> {
    progress.begin(&format!("{geometry}, {}", growing.name()), Amount::Count(options.items));
    let mut filling = Filling::small(geometry, options.items, options.seed, growing)?;
    let mut points = Vec::new();
    while filling.inserted() < options.items {
        progress.check()?;
        let before = filling.inserted();
        filling.insert(options.every().min(options.items - before))?;
        progress.advance(filling.inserted() - before);
        points.push((filling.inserted() as f64, filling.load_factor()));
    }
    progress.finish();
    let peaks = filling.peaks().iter().filter(|peak| peak.items >= LARGE.min(options.items / 16));
    let loads: Vec<f64> = peaks.map(|peak| 100.0 * peak.load_factor).collect();
    let variant = format!("{geometry}, {}", growing.name());
    for (growth, &load) in loads.iter().enumerate() {
        report.add(CASE, &variant, growth as u32, "before a growth", Unit::Percent, load);
    }
    let overflow = 100.0 * filling.in_overflow() as f64 * filling.load_factor() / options.items as f64;
    report.add(CASE, &variant, 0, "in overflow at the end", Unit::Percent, overflow);
    Ok(points)
}
