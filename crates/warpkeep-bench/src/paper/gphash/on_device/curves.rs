//! Figures 5 and 6: rate against latency over batch sizes, with keys of 8 and of 32 bytes.

use warpkeep_device::DeviceChoice;

use super::SKEW;
use crate::device::{self, Operation};
use crate::paper::gphash::{Options, VALUE_BYTES};
use crate::report::Report;
use crate::workload::Workload;
use crate::{BenchError, Progress};

pub(super) fn run(
    number: u8,
    options: &Options,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    let usual = device::Options::on(options.device);
    let key_bytes = if number == 5 { 8 } else { 32 };
    let workload = Workload { items: options.items, key_bytes, value_bytes: VALUE_BYTES, seed: options.seed };
    let simulated = options.device == DeviceChoice::Sim;
    let found = device::run(
        &device::Options {
            dir: options.dir.clone(),
            image_dir: options.image_dir.clone(),
            workload,
            operations: Operation::ALL.to_vec(),
            distributions: vec![SKEW],
            strategies: usual.strategies.clone(),
            cache_shares: vec![0.2],
            batches: if simulated { vec![64, 256] } else { usual.batches.clone() },
            rounds: options.rounds * options.repeats,
            round_time: options.round_time,
            command: options.command.clone(),
            ..usual
        },
        progress,
    )?;
    report.take_in(found, &format!("figure {number}: "));
    Ok(())
}
