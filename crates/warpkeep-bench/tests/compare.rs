//! The comparison at a size that takes a moment, with the peers this was built with.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use warpkeep::Durability;
use warpkeep_bench::compare::{Options, run};
use warpkeep_bench::workload::{Task, Workload};
use warpkeep_bench::{Amount, BenchError, Progress, Quiet};

fn small(directory: &tempfile::TempDir) -> Options {
    Options {
        dir: directory.path().to_path_buf(),
        image_dir: directory.path().to_path_buf(),
        workload: Workload { items: 3000, key_bytes: 8, value_bytes: 128, seed: 5 },
        threads: vec![1, 2],
        batch: 100,
        rounds: 2,
        round_time: Duration::from_millis(4),
        ..Options::default()
    }
}

/// Everybody in every way, and whether single operations are timed.
fn variants() -> Vec<(&'static str, bool)> {
    let mut variants = vec![
        ("warpkeep, batches", false),
        ("warpkeep, one by one", true),
        ("warpkeep without log, batches", false),
        ("warpkeep without log, one by one", true),
        ("the workload alone", false),
    ];
    let peers = [
        ("papaya", cfg!(feature = "peer-papaya")),
        ("scc", cfg!(feature = "peer-scc")),
        ("dashmap", cfg!(feature = "peer-dashmap")),
        ("dashmap + log", cfg!(feature = "peer-dashmap")),
        ("LMDB", cfg!(feature = "peer-lmdb")),
        ("redb", cfg!(feature = "peer-redb")),
    ];
    variants.extend(peers.into_iter().filter(|peer| peer.1));
    variants
}

fn is_empty(directory: &tempfile::TempDir) -> bool {
    std::fs::read_dir(directory.path()).expect("a directory").next().is_none()
}

#[test]
fn everybody_answers_right_and_leaves_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let report = run(&small(&directory), &Quiet).expect("all answers are right");
    assert!(is_empty(&directory));
    for threads in ["1 thread", "2 threads"] {
        for task in Task::ALL {
            let case = format!("{}, {threads}", task.name());
            for (variant, timed) in variants() {
                let metrics = if timed { &["rate", "p50", "p99", "p99.9", "max"][..] } else { &["rate"] };
                for metric in metrics {
                    let series = report.series(&case, variant, metric);
                    assert_eq!(series.len(), 2, "{case}, {variant}, {metric}");
                    assert!(
                        series.iter().all(|&value| value > 0.0),
                        "{case}, {variant}, {metric}: {series:?}"
                    );
                }
            }
        }
        let case = format!("positive get, {threads}");
        for way in ["a line after the other", "a line, prefetched", "lines of a get, prefetched"] {
            assert_eq!(report.series(&case, &format!("memory, {way}"), "rate").len(), 2, "{way}");
        }
    }
    assert!(report.ratios.iter().any(|ratio| ratio.goal.is_some() && ratio.name.contains("/ memory")));
    let text = report.to_text();
    assert!(text.contains("goals") && text.contains("1.3 lines of the index and 3 in a row"), "{text}");
}

#[test]
fn reports_and_charts_parse() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = tempfile::tempdir().expect("a directory");
    let options =
        Options { only: vec!["memory".to_owned()], rounds: 1, threads: vec![1], ..small(&directory) };
    let report = run(&options, &Quiet).expect("all answers are right");
    let json: Value = serde_json::from_str(&report.to_json().expect("JSON")).expect("JSON");
    assert_eq!(json["benchmark"], "compare");
    assert_eq!(json["charts"].as_array().expect("charts").len(), 5);
    report.write_csv(&out.path().join("figures.csv")).expect("a directory to write to");
    let read = |name: &str| std::fs::read_to_string(out.path().join(name)).expect("a file");
    assert_eq!(read("figures.csv").lines().count(), report.rows.len() + 1);
    assert!(read("figures-positive-get-1-thread.csv").starts_with("bar,M/s\n\"warpkeep, batches\","));
    let svg = read("figures-positive-get-1-thread.svg");
    assert!(
        svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>") && svg.contains("warpkeep, one by one")
    );
}

#[test]
fn other_sizes_and_power_are_right_too() {
    for (key_bytes, value_bytes, durability) in [(32, 8, Durability::Process), (8, 1024, Durability::Power)] {
        let directory = tempfile::tempdir().expect("a directory");
        let options = Options {
            workload: Workload { items: 300, key_bytes, value_bytes, seed: 1 },
            durability,
            rounds: 1,
            threads: vec![1],
            round_time: Duration::from_millis(1),
            ..small(&directory)
        };
        run(&options, &Quiet).expect("all answers are right");
        assert!(is_empty(&directory));
    }
}

#[test]
fn without_memory_for_all_they_take_turns_and_are_compared_within_their_group() {
    let directory = tempfile::tempdir().expect("a directory");
    let only = ["memory", "warpkeep without log"].map(str::to_owned).to_vec();
    let options = Options { memory_share: 0.0, only, threads: vec![1], ..small(&directory) };
    let report = run(&options, &Quiet).expect("all answers are right");
    let groups = "warpkeep, memory | warpkeep, warpkeep without log";
    assert!(report.notes.iter().any(|note| note.ends_with(groups)), "{:?}", report.notes);
    let rounds = |variant: &str| -> Vec<u32> {
        let of = |row: &&warpkeep_bench::report::Row| {
            row.case == "positive get, 1 thread" && row.variant == variant && row.metric == "rate"
        };
        report.rows.iter().filter(of).map(|row| row.round).collect()
    };
    assert_eq!(rounds("warpkeep, batches"), [0, 1, 2, 3]);
    assert_eq!(rounds("memory, a line, prefetched"), [0, 1]);
    assert_eq!(rounds("warpkeep without log, batches"), [2, 3]);
    let ratio = report.ratios.iter().find(|ratio| ratio.name.contains("memory, lines of a get"));
    assert_eq!(ratio.expect("it was compared").spread.count, 2);
}

#[test]
fn nonsense_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let refused = |change: &dyn Fn(&mut Options)| {
        let mut options = small(&directory);
        change(&mut options);
        match run(&options, &Quiet) {
            Err(BenchError::Invalid(message)) => message,
            other => panic!("{other:?}"),
        }
    };
    refused(&|options| options.rounds = 0);
    refused(&|options| options.threads = vec![]);
    refused(&|options| options.threads = vec![100_000]);
    refused(&|options| options.batch = 0);
    refused(&|options| options.workload.items = 0);
    refused(&|options| options.workload.value_bytes = 4);
    let unknown = refused(&|options| options.only = vec!["memcached".to_owned()]);
    assert!(unknown.contains("there are: warpkeep, "), "{unknown}");
    if cfg!(feature = "peer-papaya") {
        let sizes = refused(&|options| options.workload.value_bytes = 99);
        assert!(sizes.contains("not for 8 and 99"), "{sizes}");
    }
    assert!(is_empty(&directory));
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
    for patience in [0, 3, 30] {
        let stopped = run(&small(&directory), &Impatient(AtomicU64::new(patience)));
        assert!(matches!(stopped, Err(BenchError::Interrupted)), "{patience}");
        assert!(is_empty(&directory), "{patience}");
    }
}
