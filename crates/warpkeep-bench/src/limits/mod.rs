//! The limits of the machine: its disk, its memory and its device by themselves.
//!
//! Benchmarks measure those that bind them in the same run as everything else; [`run`] measures all of them.

pub(crate) mod bare;
pub(crate) mod device;
pub(crate) mod disk;
pub(crate) mod memory;
mod options;
mod random;

use std::time::Duration;

use warpkeep_device::{Device, DeviceChoice};

pub use self::options::Options;
use crate::measure::Spread;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::{Amount, BenchError, Progress};

/// The metric of limits.
pub(crate) const RATE: &str = "rate";

/// How often each limit is measured, and for how long each time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds {
    pub(crate) count: u32,
    pub(crate) time: Duration,
}

/// Measures the limits of the disk, of memory, and of a device if one is named. Files are made in directories of their own
/// and removed, also after an error.
///
/// ```no_run
/// use warpkeep_bench::{Quiet, limits};
///
/// let options = limits::Options { device: "cuda:0".parse()?, ..Default::default() };
/// print!("{}", limits::run(&options, &Quiet)?.to_text());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    options.check()?;
    let mut report = Report::new("limits", &options.command, options.seed);
    report.machine.add_place("log", &options.dir)?;
    report.machine.add_place("image", &options.image_dir)?;
    // Before anything else takes time: there may be no such device.
    let device = match options.device {
        DeviceChoice::Cpu => None,
        choice => Some(Device::open(choice)?),
    };
    let scratch = Scratch::new(&options.dir, &options.image_dir)?;
    if let Some(device) = &device {
        let extent = device::Extent::of(options.device, options.device_bytes, &options.host_bytes);
        device::DeviceLimits::measure(
            device,
            scratch.images(),
            &extent,
            options.rounds,
            progress,
            &mut report,
        )?;
    }
    let threads = options.thread_counts();
    let rounds = Rounds { count: options.rounds, time: options.round_time };
    let total = u64::from(options.rounds) * (1 + 2 * threads.len() as u64);
    progress.begin("limits of the machine", Amount::Count(total));
    disk::measure(scratch.disk(), rounds, progress, &mut report)?;
    let lines = random::RandomLines::create(&scratch.images().join("lines"), options.memory_bytes)?;
    report.notes.push(format!("random lines lie in a file mapped as an image is, {}", lines.pages()?));
    for threads in threads {
        memory::measure(threads, rounds, progress, &mut report)?;
        lines.measure(threads, rounds, options.seed, progress, &mut report)?;
    }
    progress.finish();
    report.finish();
    Ok(report)
}

pub(crate) fn median(figures: &[f64]) -> f64 {
    Spread::of(figures).map_or(0.0, |spread| spread.median)
}
