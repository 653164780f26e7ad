//! Options that are nonsense.

use warpkeep_bench::report::Report;
use warpkeep_bench::{BenchError, Progress, Quiet};

/// What a benchmark says to options that are nonsense.
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
