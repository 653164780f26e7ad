//! Where a benchmark runs, and that it measured something.

use warpkeep_bench::report::Report;

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
