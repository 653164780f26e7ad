//! Containers in device memory: [`sort`] and [`map`], beside the CPU and the limits of device memory.
//!
//! Columns, operations and answers lie in device memory before and after a batch, so that no figure has the link in it. Times are
//! those between two events in the stream of the batch, and contain what the host does between its kernels. Every answer is checked.

mod clock;
pub mod map;
pub mod sort;

use warpkeep_device::DeviceChoice;

use self::clock::Clock;
use crate::BenchError;
use crate::limits::median;
use crate::report::{Relation, Report};

/// The metric of items a second.
const RATE: &str = "rate";
/// The container, as a variant of a case.
const DEVICE: &str = "device";

/// What all containers want of their options.
fn check(device: DeviceChoice, rounds: u32, items: &[usize]) -> Result<(), BenchError> {
    if device == DeviceChoice::Cpu {
        return invalid("the CPU is no device; give --device cuda:0, or sim for the simulator");
    }
    if rounds == 0 {
        return invalid("at least one round is needed; give --rounds 3");
    }
    if items.is_empty() {
        return invalid("at least one number of items is needed; give --items 2^20");
    }
    Ok(())
}

fn invalid<T>(what: impl Into<String>) -> Result<T, BenchError> {
    Err(BenchError::Invalid(what.into()))
}

/// Records how near a rate of the device comes to the limit that binds it, and how it compares with the CPU.
fn relate(report: &mut Report, case: &str, limit: (&str, f64), cpu: &str) {
    let rate = median(&report.series(case, DEVICE, RATE));
    if rate > 0.0 && limit.1 > 0.0 {
        let relation = Relation { to: limit.0.to_owned(), ratio: rate / limit.1, too_close_to_tell: false };
        report.set_limit(case, DEVICE, RATE, relation);
    }
    if let Some(ratio) = report.ratio(case, RATE, DEVICE, cpu, None) {
        report.set_beside(case, DEVICE, RATE, Relation::of(cpu, &ratio));
    }
}
