//! Options that are nonsense.

use warpkeep_bench::report::Report;
use warpkeep_bench::{BenchError, Progress, Quiet};

/// A benchmark's error for invalid options.
pub(crate) fn refusal<O>(
    mut options: O,
    change: impl FnOnce(&mut O),
    run: impl FnOnce(&O, &dyn Progress) -> Result<Report, BenchError>,
) -> String {
    change(&mut options);
    match run(&options, &Quiet) {
        Err(BenchError::Invalid(message)) => message,
        other => panic!("{other:?}"),
    }
}
