//! Figures 6, 7, 8 and 10: the index by itself.

mod fit;
mod partitions;
mod streams;
mod unit_index;
mod units;

use warpkeep_device::{Device, DeviceChoice};

use super::Options;
use crate::gpu::Clock;
use crate::limits::device::note_of;
use crate::report::Report;
use crate::{BenchError, Progress};

/// Streams of the paper.
const STREAMS: usize = 7;

/// What the figures are measured with.
struct Bench<'b> {
    options: &'b Options,
    device: &'b Device,
    clock: &'b Clock,
    progress: &'b dyn Progress,
}

impl Bench<'_> {
    /// Entries of an index: as many as there are items.
    fn entries(&self) -> u64 {
        self.options.items
    }

    /// Sizes of batches: every second power of two, to an eighth of the entries.
    fn batches(&self) -> Vec<usize> {
        let least = if self.options.device == DeviceChoice::Sim { 5 } else { 10 };
        let most = (self.entries() / 8).max(64).ilog2().min(24);
        (least..=most).step_by(2).map(|bits| 1 << bits).collect()
    }
}

/// Measures a figure, or says what it needs.
pub(super) fn run(
    number: u8,
    options: &Options,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    if options.device == DeviceChoice::Cpu {
        report.notes.push(format!("figure {number} needs a device; give --device cuda:0"));
        return Ok(());
    }
    let device = Device::open(options.device)?;
    let note = note_of(&device);
    if !report.notes.contains(&note) {
        report.notes.push(note);
    }
    let clock = Clock::new(&device)?;
    let bench = Bench { options, device: &device, clock: &clock, progress };
    match number {
        6 => units::run(&bench, report),
        7 => partitions::run(&bench, report),
        8 => streams::run(&bench, report),
        _ => fit::run(&bench, report),
    }
}
