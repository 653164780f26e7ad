//! The radix sort in device memory, beside the sort of the standard library and copies within device memory.

mod charts;
mod options;
mod shape;
mod work;

use warpkeep_containers::Sorter;
use warpkeep_device::Device;

pub use self::options::Options;
pub use self::shape::Shape;
use self::work::Work;
use super::{Clock, DEVICE, RATE, relate};
use crate::limits::device::{MemoryLimits, note_of};
use crate::report::{Relation, Report, Unit};
use crate::size::Size;
use crate::{Amount, BenchError, Progress};

/// The standard library, as a variant of a case.
const CPU: &str = "CPU, standard library";
/// The metric of the bytes that a sort moves in a second.
const TRAFFIC: &str = "memory traffic";

/// Measures sorts of all shapes and sizes.
///
/// ```no_run
/// use warpkeep_bench::{Quiet, gpu::sort};
///
/// let options = sort::Options::on("cuda:0".parse()?);
/// print!("{}", sort::run(&options, &Quiet)?.to_text());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    options.check()?;
    let mut report = Report::new("gpu sort", &options.command, options.seed);
    let device = Device::open(options.device)?;
    report.notes.push(note_of(&device));
    report.notes.push(
        "columns lie in device memory before and after; bytes moved are those of keys and values that all passes read and write, without \
         counters; every sorted column was compared with that of the standard library, which sorts by one thread"
            .to_owned(),
    );
    let sorter = Sorter::new(&device)?;
    let clock = Clock::new(&device)?;
    let total = (options.items.len() * options.shapes.len()) as u64 * u64::from(options.rounds);
    progress.begin(&format!("sorts by {}", options.device), Amount::Count(total));
    for &items in &options.items {
        // Source and target of a pass, of the largest shape.
        let item_bytes = options.shapes.iter().map(|shape| shape.item_bytes()).max().unwrap_or(8);
        let bytes = 2 * items as u64 * item_bytes;
        let limits = MemoryLimits::measure(&device, bytes, options.rounds, progress, &mut report)?;
        for &shape in &options.shapes {
            let case = case_name(shape, items);
            let mut work = Work::new(&device, shape, items, options.seed)?;
            // The first sort takes memory and loads kernels.
            work.sort(&sorter, &clock)?;
            for round in 0..options.rounds {
                progress.check()?;
                let (ours, theirs) = (work.sort(&sorter, &clock)?, work.sort_on_cpu()?);
                add(&mut report, &case, (shape, items), round, (ours, theirs));
                progress.advance(1);
            }
            let moved = shape.moved_bytes() as f64;
            let limit = format!("device memory, copies of {} an item", Size(shape.moved_bytes()));
            relate(&mut report, &case, (&limit, limits.copied / moved), CPU);
            let traffic = crate::limits::median(&report.series(&case, DEVICE, TRAFFIC));
            if limits.copied > 0.0 {
                let ratio = traffic / limits.copied;
                let relation =
                    Relation { to: "device memory, copies".to_owned(), ratio, too_close_to_tell: false };
                report.set_limit(&case, DEVICE, TRAFFIC, relation);
            }
        }
    }
    progress.finish();
    report.finish();
    report.charts = charts::of(options, &report);
    Ok(report)
}

fn case_name(shape: Shape, items: usize) -> String {
    format!("{shape}, {items} items")
}

/// The figures of a round, by the seconds that it took.
fn add(
    report: &mut Report,
    case: &str,
    (shape, items): (Shape, usize),
    round: u32,
    (ours, theirs): (f64, f64),
) {
    let moved = (shape.moved_bytes() * items as u64) as f64;
    for (variant, seconds) in [(DEVICE, ours), (CPU, theirs)] {
        report.add(case, variant, round, RATE, Unit::PerSecond, items as f64 / seconds);
        report.add(case, variant, round, "time", Unit::Micros, 1e6 * seconds);
    }
    report.add(case, DEVICE, round, "bytes moved", Unit::Bytes, moved);
    report.add(case, DEVICE, round, TRAFFIC, Unit::BytesPerSecond, moved / ours);
}
