//! The directory of a benchmark, and checks of its figures.

use warpkeep_bench::report::Report;

/// An empty temporary directory.
pub(crate) fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

/// Whether no files were left behind.
pub(crate) fn is_empty(directory: &tempfile::TempDir) -> bool {
    std::fs::read_dir(directory.path()).expect("a directory").next().is_none()
}

/// Checks that there are figures of all rounds, all above 0.
pub(crate) fn assert_series(report: &Report, case: &str, variant: &str, metric: &str, rounds: usize) {
    let series = report.series(case, variant, metric);
    assert_eq!(series.len(), rounds, "{case}, {variant}, {metric}");
    assert!(series.iter().all(|&value| value > 0.0), "{case}, {variant}, {metric}: {series:?}");
}
