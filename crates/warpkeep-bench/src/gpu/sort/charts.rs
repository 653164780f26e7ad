//! Curves: items a second over the number of items.

use super::{Options, case_name};
use crate::chart::{Chart, Curve, Drawing, Scale};
use crate::gpu::{DEVICE, RATE};
use crate::limits::median;
use crate::report::Report;

pub(super) fn of(options: &Options, report: &Report) -> Vec<Chart> {
    let mut sizes = options.items.clone();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.len() < 2 {
        return Vec::new();
    }
    let curve = |&shape: &super::Shape| {
        let point = |&items: &usize| {
            (items as f64, 1e-6 * median(&report.series(&case_name(shape, items), DEVICE, RATE)))
        };
        Curve { name: shape.to_string(), points: sizes.iter().map(point).collect() }
    };
    let curves = Drawing::Curves(options.shapes.iter().map(curve).collect());
    vec![
        Chart::new("sort by number of items", "items", "million a second", curves)
            .with_scales(Scale::Logarithmic, Scale::Fitting),
    ]
}
