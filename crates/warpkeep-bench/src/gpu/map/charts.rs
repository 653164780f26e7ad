//! Curves: operations a second over the load.

use super::{Operation, Options, Pairs, case_name};
use crate::chart::{Chart, Curve, Drawing, Scale};
use crate::gpu::{DEVICE, RATE};
use crate::limits::median;
use crate::report::Report;

pub(super) fn of(options: &Options, report: &Report) -> Vec<Chart> {
    let loads = options.sorted_loads();
    if loads.len() < 2 {
        return Vec::new();
    }
    let chart = |(pairs, slots): (Pairs, u64)| {
        let curve = |operation: Operation| {
            // Not everything is measured at every load.
            let point = |&load: &f64| {
                let rates = report.series(&case_name(operation, pairs, load, slots), DEVICE, RATE);
                (!rates.is_empty()).then(|| (100.0 * load, 1e-6 * median(&rates)))
            };
            Curve { name: operation.to_string(), points: loads.iter().filter_map(point).collect() }
        };
        let curves = Drawing::Curves(Operation::ALL.map(curve).to_vec());
        let title = format!("map of {}{slots} slots by load", pairs.in_a_name());
        Chart::new(title, "% of the slots", "million a second", curves)
            .with_scales(Scale::Linear, Scale::Fitting)
    };
    options.sizes().into_iter().map(chart).collect()
}
