//! The growth benchmark at a size that takes a moment.

use warpkeep_bench::growth::{Options, run};
use warpkeep_bench::{BenchError, Quiet};

fn small(directory: &tempfile::TempDir) -> Options {
    Options {
        dir: directory.path().to_path_buf(),
        image_dir: directory.path().to_path_buf(),
        sizes: vec![5000, 20_000],
        repeats: 2,
        ..Options::default()
    }
}

fn is_empty(directory: &tempfile::TempDir) -> bool {
    std::fs::read_dir(directory.path()).expect("a directory").next().is_none()
}

#[test]
fn gives_every_figure_and_leaves_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let report = run(&small(&directory), &Quiet).expect("all items stay");
    assert!(is_empty(&directory));
    for case in ["5000 items", "20000 items"] {
        for (variant, metrics) in [
            ("alone", &["seconds", "items a second"][..]),
            ("before", &["p50 get", "longest get", "p50 put", "longest put"]),
            ("under load", &["seconds", "p50 get", "p99.9 get", "longest get", "p99.9 put", "longest put"]),
            ("re-attach", &["total", "mark", "attach"]),
            ("rebuild", &["total"]),
        ] {
            for metric in metrics {
                let series = report.series(case, variant, metric);
                assert_eq!(series.len(), 2, "{case}, {variant}, {metric}");
                assert!(series.iter().all(|&value| value > 0.0), "{case}, {variant}, {metric}: {series:?}");
            }
        }
    }
    assert_eq!(report.notes.iter().filter(|note| note.contains("to the power of")).count(), 5);
    assert_eq!(report.charts.len(), 2);
    assert!(report.charts.iter().all(|chart| chart.to_svg().is_ok() && chart.to_csv().lines().count() > 2));
}

#[test]
fn what_does_not_fit_is_left_out_with_a_note() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = Options { sizes: vec![1 << 39], ..small(&directory) };
    let report = run(&options, &Quiet).expect("nothing to do");
    assert!(report.rows.is_empty());
    assert!(report.notes.iter().any(|note| note.contains("left out")), "{:?}", report.notes);
}

#[test]
fn nonsense_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let refused = |options| matches!(run(&options, &Quiet), Err(BenchError::Invalid(_)));
    assert!(refused(Options { repeats: 0, ..small(&directory) }));
    assert!(refused(Options { sizes: vec![], ..small(&directory) }));
    assert!(refused(Options { sizes: vec![0], ..small(&directory) }));
    assert!(refused(Options { value_bytes: 3, ..small(&directory) }));
}
