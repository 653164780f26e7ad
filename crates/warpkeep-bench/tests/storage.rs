//! The storage benchmark at a size that takes a moment.

mod common;

use std::time::Duration;

use warpkeep_bench::size::Size;
use warpkeep_bench::storage::{Options, run};
use warpkeep_bench::{BenchError, Quiet};

use common::{Impatient, assert_series, directory, is_empty, refusal};

fn small(directory: &tempfile::TempDir) -> Options {
    Options {
        dir: directory.path().to_path_buf(),
        image_dir: directory.path().to_path_buf(),
        writers: vec![1, 4],
        rounds: 2,
        round_time: Duration::from_millis(25),
        sizes: vec![Size(1 << 20)],
        repeats: 2,
        ..Options::default()
    }
}

#[test]
fn gives_every_figure_and_leaves_nothing() {
    let directory = directory();
    let report = run(&small(&directory), &Quiet).expect("the disk works");
    assert!(is_empty(&directory));

    for writers in ["1 writer, 100 bytes", "4 writers, 1024 bytes"] {
        let case = format!("commit, {writers} each");
        for variant in ["bare, preallocated", "bare, filled before", "log", "store"] {
            for metric in ["rate", "commits", "syncs", "a sync", "p50", "p99", "p99.9", "max"] {
                assert_series(&report, &case, variant, metric, 2);
            }
        }
    }
    let case = "recovery, 1 MiB in 1024 values";
    for variant in ["re-attach", "rebuild"] {
        assert_series(&report, case, variant, "total", 2);
    }
    assert_eq!(report.series(case, "prepare", "tail"), [102.0 * 1024.0]);
    assert_eq!(report.series(case, "limit", "sequential read").len(), 2);
    assert_eq!(report.ratios.len(), 8);
    assert_eq!(report.ratios.iter().filter(|ratio| ratio.goal.is_some()).count(), 4);
    assert!(report.to_text().contains("store"));
}

#[test]
fn a_store_too_large_is_left_out_with_a_note() {
    let directory = directory();
    let options = Options { writers: vec![], sizes: vec![Size(1 << 50)], ..small(&directory) };
    let report = run(&options, &Quiet).expect("nothing to do");
    assert!(report.rows.is_empty());
    assert!(
        report.notes.iter().any(|note| note.contains("left out") && note.contains("1024 TiB")),
        "{:?}",
        report.notes
    );
}

#[test]
fn nonsense_is_refused() {
    let directory = directory();
    let refused = |change: &dyn Fn(&mut Options)| refusal(small(&directory), change, run);
    refused(&|options| options.writers = vec![0]);
    refused(&|options| options.rounds = 0);
    refused(&|options| options.repeats = 0);
    refused(&|options| options.value_bytes = 0);
    refused(&|options| options.sizes = vec![Size(10)]);
}

#[test]
fn interrupted_anywhere_it_leaves_nothing() {
    let directory = directory();
    for patience in [0, 5, 40] {
        let options = Options { writers: if patience == 40 { vec![] } else { vec![2] }, ..small(&directory) };
        let options = Options { sizes: vec![Size(8 << 20)], ..options };
        let stopped = run(&options, &Impatient::after(patience));
        assert!(matches!(stopped, Err(BenchError::Interrupted)), "{patience}");
        assert!(is_empty(&directory), "{patience}");
    }
}
