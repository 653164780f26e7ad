//! The growth benchmark at a size that takes a moment.

#[path = "common/refusal.rs"]
mod refusal;
#[path = "common/scene.rs"]
mod scene;

use warpkeep_bench::Quiet;
use warpkeep_bench::growth::{Options, run};

use refusal::refusal;
use scene::{assert_series, directory, is_empty};

fn small(directory: &tempfile::TempDir) -> Options {
    Options {
        dir: directory.path().to_path_buf(),
        image_dir: directory.path().to_path_buf(),
        sizes: vec![5000, 20_000],
        repeats: 2,
        ..Options::default()
    }
}

#[test]
fn gives_every_figure_and_leaves_nothing() {
    let directory = directory();
    let report = run(&small(&directory), &Quiet).expect("all items stay");
    assert!(is_empty(&directory));
    for case in ["5000 items", "20000 items"] {
        for (variant, metrics) in [
            ("alone", &["seconds", "items a second"][..]),
            ("before", &["p50 get", "longest get", "p50 put", "longest put"]),
            ("under load", &["seconds", "p50 get", "p99.9 get", "longest get", "longest put, not preempted"]),
            ("re-attach", &["total", "mark", "attach"]),
            ("rebuild", &["total"]),
        ] {
            for metric in metrics {
                assert_series(&report, case, variant, metric, 2);
            }
        }
    }
    assert_eq!(report.notes.iter().filter(|note| note.contains("to the power of")).count(), 5);
    assert_eq!(report.charts.len(), 2);
    assert!(report.charts.iter().all(|chart| chart.to_svg().is_ok() && chart.to_csv().lines().count() > 2));
}

#[test]
fn what_does_not_fit_is_left_out_with_a_note() {
    let directory = directory();
    let options = Options { sizes: vec![1 << 39], ..small(&directory) };
    let report = run(&options, &Quiet).expect("nothing to do");
    assert!(report.rows.is_empty());
    assert!(report.notes.iter().any(|note| note.contains("left out")), "{:?}", report.notes);
}

#[test]
fn nonsense_is_refused() {
    let directory = directory();
    let refused = |change: &dyn Fn(&mut Options)| refusal(small(&directory), change, run);
    refused(&|options| options.repeats = 0);
    refused(&|options| options.sizes = vec![]);
    refused(&|options| options.sizes = vec![0]);
    refused(&|options| options.value_bytes = 3);
}
