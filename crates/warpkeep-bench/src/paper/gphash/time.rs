//! Figure 14: resizing and recovery against size.

use super::{Options, VALUE_BYTES};
use crate::report::Report;
use crate::{BenchError, Progress, growth};

/// The smallest table is this part of the largest.
const STEPS: u32 = 5;

pub(super) fn run(options: &Options, progress: &dyn Progress, report: &mut Report) -> Result<(), BenchError> {
    let sizes = (0..STEPS).rev().map(|halvings| (options.items >> halvings).max(1)).collect();
    let grown = growth::run(
        &growth::Options {
            dir: options.dir.clone(),
            image_dir: options.image_dir.clone(),
            sizes,
            value_bytes: VALUE_BYTES,
            repeats: options.repeats,
            seed: options.seed,
            command: options.command.clone(),
        },
        progress,
    )?;
    report.take_in(grown, "figure 14: ");
    report.notes.push(
        "figure 14: the paper says that resizing and recovery each take hundreds of milliseconds (section 4.7), of recovery more than \
         99% for mapping the memory; re-attaching is what it calls recovery, rebuilding is what it cannot do, for it has no log"
            .to_owned(),
    );
    Ok(())
}
