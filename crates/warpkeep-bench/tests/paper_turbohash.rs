//! The measured parts of TurboHash's paper, at a size that takes a moment.

mod common;

use std::time::Duration;

use warpkeep_bench::paper::turbohash::{Figure, Options, run};
use warpkeep_bench::{BenchError, Quiet};

use common::{Impatient, assert_series, directory, is_empty, refusal};

fn small(directory: &tempfile::TempDir) -> Options {
    Options {
        dir: directory.path().to_path_buf(),
        image_dir: directory.path().to_path_buf(),
        items: 20_000,
        threads: vec![1],
        repeats: 1,
        rounds: 1,
        round_time: Duration::from_millis(2),
        ..Options::default()
    }
}

#[test]
fn every_figure_has_ours_and_what_was_published() {
    let directory = directory();
    let report = run(&small(&directory), &Quiet).expect("all answers are right");
    assert!(is_empty(&directory));

    let scope = "figure 1: before each rehashing, by probing scope";
    assert_eq!(
        report.series(scope, "16 buckets, published (section 2), 6th rehashing", "load factor"),
        [80.0]
    );
    let last = |scope_buckets: u32| {
        let series = report.series(scope, &format!("{scope_buckets} buckets"), "load factor");
        *series.last().expect("it was rehashed")
    };
    assert!(last(2) < last(16), "{} and {}", last(2), last(16));

    for size in ["16-byte items", "30-byte items"] {
        for work in ["insert", "positive get", "negative get", "update", "delete"] {
            let case = report
                .rows
                .iter()
                .map(|row| &row.case)
                .find(|case| case.starts_with(&format!("figure 6, {size}: ")) && case.contains(work));
            let case = case.unwrap_or_else(|| panic!("{size}, {work}"));
            assert_series(&report, case, "turbohash, batches", "rate", 1);
        }
        let load = "figure 10: highest load factor while inserting";
        for how in ["grown when full, as in the paper", "grown early, as a store does"] {
            let series = report.series(load, &format!("{size}, {how}"), "highest");
            assert!(series.iter().all(|load| (60.0..94.0).contains(load)), "{size}, {how}: {series:?}");
            assert_eq!(series.len(), 1);
        }
        let case = format!("figure 11: how far searches walk, {size}, load 80%");
        let mean = |state: &str| report.series(&case, state, "buckets a miss, mean")[0];
        assert!(mean("fresh") < 1.5 && mean("collected") < 1.5, "{} {}", mean("fresh"), mean("collected"));
        assert!(mean("deleted and inserted again") >= mean("collected"));
        assert_eq!(report.series(&case, "fresh, published (section 4.6)", "buckets a miss, mean"), [1.34]);
        let case = format!("figure 12: how long searches take, {size}, load 80%");
        assert_series(&report, &case, "collected", "latency of a miss", 1);
        for index in ["gphash", "turbohash"] {
            assert_series(&report, &format!("restart: 20000 {size}"), index, "re-attach", 1);
        }
    }
    assert!(report.charts.iter().all(|chart| chart.to_svg().is_ok()));
    assert!(report.charts.iter().any(|chart| chart.title.starts_with("figure 1b")));
}

#[test]
fn nonsense_is_refused_and_whoever_interrupts_leaves_nothing() {
    let directory = directory();
    let refused = |change: &dyn Fn(&mut Options)| refusal(small(&directory), change, run);
    refused(&|options| options.items = 10);
    refused(&|options| options.repeats = 0);
    refused(&|options| options.rounds = 0);
    for word in ["2", "", "restarts"] {
        assert!(word.parse::<Figure>().is_err(), "{word}");
    }
    for figure in Figure::ALL {
        assert_eq!(figure.to_string().parse(), Ok(figure));
        let options = Options { figures: vec![figure], ..small(&directory) };
        let stopped = run(&options, &Impatient::after(0));
        assert!(matches!(stopped, Err(BenchError::Interrupted)), "{figure}");
        assert!(is_empty(&directory), "{figure}");
    }
}
