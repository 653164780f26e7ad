//! The limits of a device that were measured in the same run.

use warpkeep_gphash::Layout;

use super::{Operation, Options, Strategy, Variant, case_name};
use crate::limits::device::{Access, DeviceLimits};
use crate::limits::median;
use crate::report::{Relation, Report};

/// The name of a limit, and operations a second.
pub(super) type Bound = (String, f64);

/// The limit that binds an operation at best, however its index is searched: its value crosses the link once,
/// unless it lies in device memory.
pub(super) fn bound(
    options: &Options,
    limits: &DeviceLimits,
    variant: Variant,
    operation: Operation,
) -> Bound {
    let workload = &options.workload;
    let is_inline = options.layout == Layout::InPlace && workload.key_bytes == 8 && workload.value_bytes <= 8;
    // Absent keys have no value, and a value in its slot comes with the bucket.
    let without_record = matches!(operation, Operation::AbsentGet | Operation::Locate) || is_inline;
    let cached = variant.strategy == Strategy::BucketCache && variant.share >= 1.0 || variant.has_index();
    // Values need not be fetched one by one if the device knows the positions of all of them.
    let ordered = matches!(
        variant.strategy,
        Strategy::Ordered | Strategy::Fused | Strategy::FusedLink | Strategy::Values
    ) || variant.strategy.is_library();
    let fused = matches!(variant.strategy, Strategy::Fused | Strategy::FusedLink)
        || variant.strategy == Strategy::Values && workload.key_bytes == 8;
    let rows = workload.value_bytes.div_ceil(128).max(1) as f64;
    let mut bounds = Vec::new();
    match (operation.only_reads(), without_record && cached) {
        // How many of them cross the link depends on the requested keys.
        (true, false) if variant.strategy == Strategy::Values => {
            let access = Access::RandomRead(128);
            bounds.push((format!("device memory, {access}"), limits.device(access) / rows));
        }
        (true, true) => {
            let access = Access::RandomRead(64);
            bounds.push((format!("device memory, {access}"), limits.device(access)));
        }
        (true, false) => {
            let access = Access::RandomRead(128);
            if !ordered {
                bounds.push((format!("the link, {access}"), limits.link(access)));
            }
            let access = Access::OrderedRead(128);
            bounds.push((format!("the link, {access}"), limits.link(access) / rows));
        }
        (false, _) => {
            let access = Access::RandomWrite;
            if !fused || operation == Operation::Delete {
                bounds.push((format!("the link, {access}"), limits.link(access)));
            }
            let access = Access::OrderedWrite;
            bounds.push((format!("the link, {access}"), limits.link(access) / rows));
        }
    }
    let comes_from_host = variant.strategy.is_library() || !fused && !operation.only_reads();
    if comes_from_host {
        let value = workload.value_bytes as f64;
        let writes = matches!(operation, Operation::Insert | Operation::Update);
        let bytes_in = workload.key_bytes as f64 + if writes { value } else { 0.0 };
        bounds.push(("copies to the device".to_owned(), limits.copy_in / bytes_in));
        if operation == Operation::Get {
            bounds.push(("copies from the device".to_owned(), limits.copy_out / value));
        }
    }
    if variant.strategy.is_logged() {
        // Head, key and value of a change, in words.
        let value = if operation == Operation::Delete { 0 } else { workload.value_bytes };
        let change = (24 + (workload.key_bytes + value).next_multiple_of(8)) as f64;
        bounds.push(("the disk, sequential writes".to_owned(), limits.disk / change));
    }
    let lowest =
        bounds.into_iter().filter(|bound| bound.1 > 0.0).min_by(|one, other| one.1.total_cmp(&other.1));
    let fetched = lowest.unwrap_or_default();
    // The host can copy the values of existing keys; the library takes the better strategy.
    let (name, rate) = &limits.gathered;
    let gathered = || (name.clone(), rate / rows);
    match (variant.strategy, operation) {
        (Strategy::LibraryGather | Strategy::LibraryCpu, Operation::Get) => gathered(),
        (Strategy::Library | Strategy::LibraryPinned | Strategy::LibrarySplit, Operation::Get)
            if rate / rows > fetched.1 =>
        {
            gathered()
        }
        _ => fetched,
    }
}

/// Records for each figure the limit that binds it and how near it comes, and how variants compare with the first.
pub(super) fn relate(options: &Options, limits: &DeviceLimits, report: &mut Report) {
    let variants = options.variants();
    let Some(first) = variants.first().map(|variant| variant.name()) else { return };
    for &operation in &options.operations {
        for &distribution in &options.distributions {
            for batch in options.batch_sizes() {
                let case = case_name(operation, distribution, batch);
                for variant in &variants {
                    let name = variant.name();
                    let rate = median(&report.series(&case, &name, "rate"));
                    let (to, most) = bound(options, limits, *variant, operation);
                    if rate > 0.0 && most > 0.0 {
                        let relation = Relation { to, ratio: rate / most, too_close_to_tell: false };
                        report.set_limit(&case, &name, "rate", relation);
                    }
                    if name != first
                        && let Some(ratio) = report.ratio(&case, "rate", &name, &first, None)
                    {
                        report.set_beside(&case, &name, "rate", Relation::of(&first, &ratio));
                    }
                }
            }
        }
    }
}
