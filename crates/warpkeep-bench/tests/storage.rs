//! The storage benchmark at a size that takes a moment.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use warpkeep_bench::size::Size;
use warpkeep_bench::storage::{Options, run};
use warpkeep_bench::{Amount, BenchError, Progress, Quiet};

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

fn is_empty(directory: &tempfile::TempDir) -> bool {
    std::fs::read_dir(directory.path()).expect("a directory").next().is_none()
}

#[test]
fn gives_every_figure_and_leaves_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let report = run(&small(&directory), &Quiet).expect("the disk works");
    assert!(is_empty(&directory));

    for writers in ["1 writer, 100 bytes", "4 writers, 1024 bytes"] {
        let case = format!("commit, {writers} each");
        for variant in ["bare, preallocated", "bare, filled before", "log", "store"] {
            for metric in ["rate", "commits", "syncs", "a sync", "p50", "p99", "p99.9", "max"] {
                let series = report.series(&case, variant, metric);
                assert_eq!(series.len(), 2, "{case}, {variant}, {metric}");
                assert!(series.iter().all(|&value| value > 0.0), "{case}, {variant}, {metric}: {series:?}");
            }
        }
    }
    let case = "recovery, 1 MiB in 1024 values";
    for variant in ["re-attach", "rebuild"] {
        let series = report.series(case, variant, "total");
        assert!(series.len() == 2 && series.iter().all(|&seconds| seconds > 0.0), "{variant}: {series:?}");
    }
    assert_eq!(report.series(case, "prepare", "tail"), [102.0 * 1024.0]);
    assert_eq!(report.series(case, "limit", "sequential read").len(), 2);
    assert_eq!(report.ratios.len(), 8);
    assert_eq!(report.ratios.iter().filter(|ratio| ratio.goal.is_some()).count(), 4);
    assert!(report.to_text().contains("store"));
}

#[test]
fn a_store_too_large_is_left_out_with_a_note() {
    let directory = tempfile::tempdir().expect("a directory");
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
    let directory = tempfile::tempdir().expect("a directory");
    let refused = |change: &dyn Fn(&mut Options)| {
        let mut options = small(&directory);
        change(&mut options);
        matches!(run(&options, &Quiet), Err(BenchError::Invalid(_)))
    };
    assert!(refused(&|options| options.writers = vec![0]));
    assert!(refused(&|options| options.rounds = 0));
    assert!(refused(&|options| options.repeats = 0));
    assert!(refused(&|options| options.value_bytes = 0));
    assert!(refused(&|options| options.sizes = vec![Size(10)]));
}

/// Stops the benchmark after so many questions.
struct Impatient(AtomicU64);

impl Progress for Impatient {
    fn begin(&self, _name: &str, _total: Amount) {}
    fn advance(&self, _amount: u64) {}
    fn finish(&self) {}

    fn is_cancelled(&self) -> bool {
        let left = |left: u64| Some(left.saturating_sub(1));
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left) == Ok(0)
    }
}

#[test]
fn interrupted_anywhere_it_leaves_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    for patience in [0, 5, 40] {
        let options = Options { writers: if patience == 40 { vec![] } else { vec![2] }, ..small(&directory) };
        let options = Options { sizes: vec![Size(8 << 20)], ..options };
        let stopped = run(&options, &Impatient(AtomicU64::new(patience)));
        assert!(matches!(stopped, Err(BenchError::Interrupted)), "{patience}");
        assert!(is_empty(&directory), "{patience}");
    }
}
