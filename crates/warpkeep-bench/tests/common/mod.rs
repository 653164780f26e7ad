//! What the tests of the benchmarks share.
#![allow(dead_code, reason = "no test uses all of it")]

use std::sync::atomic::{AtomicU64, Ordering};

use warpkeep_bench::report::Report;
use warpkeep_bench::{Amount, BenchError, Progress, Quiet};

/// An empty directory that goes with the test.
pub(crate) fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

/// Whether nothing was left behind.
pub(crate) fn is_empty(directory: &tempfile::TempDir) -> bool {
    std::fs::read_dir(directory.path()).expect("a directory").next().is_none()
}

/// Figures of so many rounds, all above 0.
pub(crate) fn assert_series(report: &Report, case: &str, variant: &str, metric: &str, rounds: usize) {
    let series = report.series(case, variant, metric);
    assert_eq!(series.len(), rounds, "{case}, {variant}, {metric}");
    assert!(series.iter().all(|&value| value > 0.0), "{case}, {variant}, {metric}: {series:?}");
}

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

/// Stops a benchmark after so many questions.
pub(crate) struct Impatient(AtomicU64);

impl Impatient {
    pub(crate) fn after(questions: u64) -> Impatient {
        Impatient(AtomicU64::new(questions))
    }
}

impl Progress for Impatient {
    fn begin(&self, _name: &str, _total: Amount) {}
    fn advance(&self, _amount: u64) {}
    fn finish(&self) {}

    fn is_cancelled(&self) -> bool {
        let left = |left: u64| Some(left.saturating_sub(1));
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left) == Ok(0)
    }
}
