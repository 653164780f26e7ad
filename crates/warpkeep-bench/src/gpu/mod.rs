//! Containers in device memory: [`sort`], [`map`], [`alloc`], [`slab`], [`cuckoo`], [`ordered`] and [`graph`], beside the CPU and the limits of device memory.
//!
//! Columns, operations and answers lie in device memory before and after a batch, so that no figure has the link in it. Times are
//! those between two events in the stream of the batch, and contain what the host does between its kernels. Calls that exist for slices of
//! host memory alone are timed by the host, with the link: the report says which. Every answer is checked.

pub mod alloc;
mod clock;
pub mod cuckoo;
pub mod graph;
pub mod map;
pub mod ordered;
pub mod slab;
pub mod sort;

use warpkeep_device::DeviceChoice;

pub(crate) use self::clock::Clock;
use crate::BenchError;
use crate::chart::{Curve, Drawing};
use crate::limits::median;
use crate::report::{Relation, Report};

/// The metric of items a second.
pub(crate) const RATE: &str = "rate";
/// The container, as a variant of a case.
const DEVICE: &str = "device";

/// What all containers want of their options.
pub(crate) fn check(device: DeviceChoice, rounds: u32, items: &[usize]) -> Result<(), BenchError> {
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

pub(crate) fn invalid<T>(what: impl Into<String>) -> Result<T, BenchError> {
    Err(BenchError::Invalid(what.into()))
}

/// Records how near a rate of the device comes to the limit that binds it, and how it compares with the CPU.
fn relate(report: &mut Report, case: &str, limit: (&str, f64), cpu: &str) {
    relate_variant(report, case, DEVICE, limit, Some(cpu));
}

/// The same for any variant, which need not have a counterpart on the CPU.
pub(crate) fn relate_variant(
    report: &mut Report,
    case: &str,
    variant: &str,
    limit: (&str, f64),
    other: Option<&str>,
) {
    let rate = median(&report.series(case, variant, RATE));
    if rate > 0.0 && limit.1 > 0.0 {
        let relation = Relation { to: limit.0.to_owned(), ratio: rate / limit.1, too_close_to_tell: false };
        report.set_limit(case, variant, RATE, relation);
    }
    if let Some((other, ratio)) =
        other.and_then(|other| Some((other, report.ratio(case, RATE, variant, other, None)?)))
    {
        report.set_beside(case, variant, RATE, Relation::of(other, &ratio));
    }
}

/// Shares of a whole, the lowest first, each once.
fn sorted_shares(shares: &[f64]) -> Vec<f64> {
    let mut shares = shares.to_vec();
    shares.sort_by(f64::total_cmp);
    shares.dedup();
    shares
}

/// A rate over a share of a whole, one curve for each name.
fn curves_by_share(shares: &[f64], names: &[String], rate: impl Fn(&str, f64) -> Vec<f64>) -> Drawing {
    let curve = |name: &String| {
        // A variant need not be measured at each share.
        let point = |&share: &f64| {
            let rates = rate(name, share);
            (!rates.is_empty()).then(|| (100.0 * share, 1e-6 * median(&rates)))
        };
        Curve { name: name.clone(), points: shares.iter().filter_map(point).collect() }
    };
    Drawing::Curves(names.iter().map(curve).filter(|curve| !curve.points.is_empty()).collect())
}
