//! The comparison at a size that takes a moment: every workload, and every peer in this build.

mod common;

use std::time::Duration;

use serde_json::Value;
use warpkeep_bench::chart::Drawing;
use warpkeep_bench::compare::{Options, Promise, run};
use warpkeep_bench::report::{Report, Row, Summary};
use warpkeep_bench::workload::{Distribution, Mix, Task, Work, WorkSet, Workload};
use warpkeep_bench::{BenchError, Quiet};

use common::{Impatient, assert_series, directory, is_empty, refusal};

fn small(directory: &tempfile::TempDir) -> Options {
    Options {
        dir: directory.path().to_path_buf(),
        image_dir: directory.path().to_path_buf(),
        workload: Workload { items: 3000, key_bytes: 8, value_bytes: 128, seed: 5 },
        threads: vec![1, 2],
        batches: vec![100],
        rounds: 2,
        round_time: Duration::from_millis(4),
        ..Options::default()
    }
}

/// How single operations and batches of a variant are timed.
#[derive(Clone, Copy)]
struct Timed {
    singly: bool,
    in_batches: bool,
}

impl Timed {
    fn metrics(self) -> Vec<String> {
        let percentiles = ["p50", "p99", "p99.9", "max"];
        let singly = percentiles.map(str::to_owned).into_iter().filter(|_| self.singly);
        let in_batches =
            percentiles.map(|metric| format!("{metric} of a batch")).into_iter().filter(|_| self.in_batches);
        std::iter::once("rate".to_owned()).chain(singly).chain(in_batches).collect()
    }
}

/// All contestants in every way.
fn variants() -> Vec<(&'static str, Timed)> {
    let timed = |singly, in_batches| Timed { singly, in_batches };
    let mut variants = vec![
        ("warpkeep, batches", timed(false, true)),
        ("warpkeep, one by one", timed(true, false)),
        ("warpkeep without log, batches", timed(false, true)),
        ("warpkeep without log, one by one", timed(true, false)),
    ];
    variants.extend(peers().into_iter().map(|(name, is_tree)| (name, timed(true, is_tree))));
    variants
}

/// The peers this was built with, and whether each is a tree, which has transactions.
fn peers() -> Vec<(&'static str, bool)> {
    let peers = [
        ("papaya", false, cfg!(feature = "peer-papaya")),
        ("scc", false, cfg!(feature = "peer-scc")),
        ("dashmap", false, cfg!(feature = "peer-dashmap")),
        ("dashmap + log", false, cfg!(feature = "peer-dashmap")),
        ("LMDB", true, cfg!(feature = "peer-lmdb")),
        ("redb", true, cfg!(feature = "peer-redb")),
        ("fjall", true, cfg!(feature = "peer-fjall")),
        ("RocksDB", true, cfg!(feature = "peer-rocksdb")),
    ];
    peers.into_iter().filter(|peer| peer.2).map(|(name, is_tree, _)| (name, is_tree)).collect()
}

fn summary<'a>(report: &'a Report, case: &str, variant: &str, metric: &str) -> &'a Summary {
    let wanted =
        |summary: &&Summary| summary.case == case && summary.variant == variant && summary.metric == metric;
    report.summaries.iter().find(wanted).expect("it took part")
}

#[test]
fn single_operations_are_right_and_nothing_is_left() {
    let directory = directory();
    let report = run(&small(&directory), &Quiet).expect("all answers are right");
    assert!(is_empty(&directory));
    for threads in ["1 thread", "2 threads"] {
        for task in Task::ALL {
            let case = format!("{}, {threads}", task.name());
            for (variant, timed) in variants() {
                timed.metrics().iter().for_each(|metric| assert_series(&report, &case, variant, metric, 2));
                let of = summary(&report, &case, variant, "rate");
                assert!(of.limit.as_ref().is_some_and(|limit| limit.ratio > 0.0), "{case}, {variant}");
                assert_eq!(of.beside.is_none(), variant == "warpkeep, batches", "{case}, {variant}");
            }
            assert_series(&report, &case, "the workload alone", "rate", 2);
        }
        let case = format!("positive get, {threads}");
        for way in ["a line after the other", "a line, prefetched", "lines of a get, prefetched"] {
            assert_series(&report, &case, &format!("memory, {way}"), "rate", 2);
        }
        assert_series(
            &report,
            &format!("update, {threads}"),
            "memory, lines of the work, prefetched",
            "rate",
            2,
        );
        for variant in ["sequential read", "sequential write"] {
            assert_series(&report, &format!("limits of memory, {threads}"), variant, "rate", 2);
            assert_series(&report, "limits of the disk", variant, "rate", 2);
        }
        assert_series(&report, "limits of the disk", "a page and fdatasync", "syncs", 2);
    }
    assert_series(&report, "drawing operations, 1 thread", "uniform", "rate", 2);
    assert!(report.ratios.iter().any(|ratio| ratio.goal.is_some() && ratio.name.contains("/ memory")));
    let text = report.to_text();
    assert!(text.contains("goals") && text.contains("1.3 lines of the index and 3 in a row"), "{text}");
    assert!(text.contains("of its limit") && text.contains("beside warpkeep, batches"), "{text}");
}

#[test]
fn mixes_loads_and_traces_are_right_too() {
    let directory = directory();
    let WorkSet(works) = "all".parse().expect("a word");
    let works: Vec<Work> = works.into_iter().filter(|work| !matches!(work, Work::Task(_))).collect();
    let options = Options { works: works.clone(), threads: vec![2], rounds: 1, ..small(&directory) };
    let report = run(&options, &Quiet).expect("all answers are right");
    assert!(is_empty(&directory));
    assert_eq!(works.len(), 8);
    for work in works {
        let case = format!("{}, 2 threads", work.name());
        for (variant, _) in variants() {
            // For loading, all at once or one by one makes no difference.
            if work == Work::Load && variant.ends_with("one by one") {
                continue;
            }
            assert_series(&report, &case, variant, "rate", 1);
            assert!(summary(&report, &case, variant, "rate").limit.is_some(), "{case}, {variant}");
        }
        let mixed = !work.only_reads() && work != Work::Load;
        let apart = report.series(&case, "warpkeep, batches, reads apart", "rate");
        assert_eq!(apart.len(), usize::from(mixed), "{case}");
    }
    for drawn in ["YCSB A, zipfian:0.99", "YCSB D, latest:0.99", "DLRM, 26 x zipfian:0.99", "PageRank, R-MAT"]
    {
        assert_series(&report, "drawing operations, 1 thread", drawn, "rate", 1);
    }
    assert_eq!(report.charts.len(), 8);
}

#[test]
fn reports_and_charts_parse() {
    let (directory, out) = (directory(), directory());
    let only = vec!["memory".to_owned()];
    let options = Options { only, rounds: 1, threads: vec![1], ..small(&directory) };
    let report = run(&options, &Quiet).expect("all answers are right");
    let json: Value = serde_json::from_str(&report.to_json().expect("JSON")).expect("JSON");
    assert_eq!(json["benchmark"], "compare");
    assert_eq!(json["charts"].as_array().expect("charts").len(), 5);
    report.write_csv(&out.path().join("figures.csv")).expect("a directory to write to");
    let read = |name: &str| std::fs::read_to_string(out.path().join(name)).expect("a file");
    assert_eq!(read("figures.csv").lines().count(), report.rows.len() + 1);
    assert_eq!(read("figures.summary.csv").lines().count(), report.summaries.len() + 1);
    let bars = read("figures-positive-get-1-thread.csv");
    assert!(bars.starts_with("bar,M/s") && bars.contains("\n\"warpkeep, batches\","), "{bars}");
    let svg = read("figures-positive-get-1-thread.svg");
    assert!(
        svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>") && svg.contains("warpkeep, one by one")
    );
}

#[test]
fn sizes_of_batches_give_a_curve_of_rate_and_latency() {
    let directory = directory();
    let works = vec![Work::Task(Task::Hit), Work::Mix(Mix::A), Work::Mix(Mix::D)];
    let options = Options {
        works,
        batches: vec![16, 1, 200_000],
        threads: vec![1],
        rounds: 1,
        only: vec!["memory".to_owned()],
        ..small(&directory)
    };
    let report = run(&options, &Quiet).expect("all answers are right");
    for batch in [1, 16, 200_000] {
        for variant in ["warpkeep, batches", "warpkeep, one by one"] {
            let case = format!("YCSB A, 1 thread, batches of {batch}");
            for metric in ["rate", "p50 of a batch", "p99 of a batch", "p99.9 of a batch", "max of a batch"] {
                assert_series(&report, &case, variant, metric, 1);
            }
        }
    }
    let chart = report.charts.iter().find(|chart| chart.title == "rate against latency, YCSB A, 1 thread");
    let Drawing::Trades(trades) = &chart.expect("a chart").drawing else { panic!("{chart:?}") };
    let points = &trades.iter().find(|trade| trade.name == "warpkeep, batches").expect("a line").points;
    assert_eq!(points.iter().map(|point| point.label.as_str()).collect::<Vec<_>>(), ["1", "16", "200000"]);
    // A larger batch takes longer.
    assert!(points[0].y < points[2].y, "{points:?}");
    let note = report.notes.iter().find(|note| note.contains("were left out where items are inserted"));
    assert!(note.expect("D inserts fewer").contains("[200000]"));
}

#[test]
fn other_sizes_promises_and_distributions_are_right_too() {
    for (key_bytes, value_bytes, promise, distribution) in [
        (32, 8, Promise::Process, None),
        (8, 1024, Promise::Power, Some(Distribution::Uniform)),
        (128, 128, Promise::NoLog, Some(Distribution::Zipfian(0.5))),
        (13, 20, Promise::Process, Some(Distribution::Zipfian(1.2))),
    ] {
        let directory = directory();
        let options = Options {
            workload: Workload { items: 300, key_bytes, value_bytes, seed: 1 },
            works: vec![
                Work::Task(Task::Hit),
                Work::Task(Task::Update),
                Work::Task(Task::Delete),
                Work::Mix(Mix::F),
            ],
            promise,
            distribution,
            rounds: 1,
            threads: vec![1],
            round_time: Duration::from_millis(1),
            ..small(&directory)
        };
        let report = run(&options, &Quiet).expect("all answers are right");
        assert!(is_empty(&directory));
        let took_part = |variant: &str| !report.series("YCSB F, 1 thread", variant, "rate").is_empty();
        assert_eq!(took_part("warpkeep, batches"), promise != Promise::NoLog);
        assert!(took_part("warpkeep without log, batches"));
        assert!(report.series("insert, 1 thread", "warpkeep without log, batches", "rate").is_empty());
        if cfg!(feature = "peer-papaya") {
            assert_eq!(took_part("papaya"), key_bytes != 13);
            assert_eq!(report.notes.iter().any(|note| note.contains("they were left out")), key_bytes == 13);
        }
    }
}

#[test]
fn a_number_of_operations_instead_of_a_time() {
    let directory = directory();
    let options = Options {
        works: vec![Work::Task(Task::Hit)],
        operations: Some(5000),
        round_time: Duration::from_millis(1),
        threads: vec![1],
        rounds: 1,
        only: vec!["memory".to_owned()],
        ..small(&directory)
    };
    let report = run(&options, &Quiet).expect("all answers are right");
    assert_series(&report, "positive get, 1 thread", "warpkeep, batches", "rate", 1);
    assert!(report.notes[0].contains("rounds of 5000 operations"), "{}", report.notes[0]);
}

#[test]
fn without_memory_for_all_they_take_turns_and_are_compared_within_their_group() {
    let directory = directory();
    let only = ["memory", "warpkeep without log"].map(str::to_owned).to_vec();
    let options = Options { memory_share: 0.0, only, threads: vec![1], ..small(&directory) };
    let report = run(&options, &Quiet).expect("all answers are right");
    let groups = "warpkeep, memory | warpkeep, warpkeep without log";
    assert!(report.notes.iter().any(|note| note.ends_with(groups)), "{:?}", report.notes);
    let rounds = |variant: &str| -> Vec<u32> {
        let of = |row: &&Row| {
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
    let directory = directory();
    let refused = |change: &dyn Fn(&mut Options)| refusal(small(&directory), change, run);
    refused(&|options| options.rounds = 0);
    refused(&|options| options.threads = vec![]);
    refused(&|options| options.threads = vec![100_000]);
    refused(&|options| options.batches = vec![]);
    refused(&|options| options.batches = vec![16, 0]);
    refused(&|options| options.batches = vec![(1 << 24) + 1]);
    refused(&|options| options.works = vec![]);
    refused(&|options| options.operations = Some(0));
    refused(&|options| options.workload.items = 0);
    refused(&|options| options.workload.value_bytes = 4);
    refused(&|options| options.distribution = Some(Distribution::Latest(0.9)));
    refused(&|options| options.distribution = Some(Distribution::Zipfian(11.0)));
    refused(&|options| (options.works, options.workload.items) = (vec![Work::Dlrm], 900));
    let unknown = refused(&|options| options.only = vec!["memcached".to_owned()]);
    assert!(unknown.contains("there are: warpkeep, "), "{unknown}");
    if cfg!(feature = "peer-papaya") {
        let sizes = refused(&|options| {
            (options.only, options.workload.value_bytes) = (vec!["papaya".to_owned()], 99);
        });
        assert!(sizes.contains("keys of 8 bytes with values of 99"), "{sizes}");
    }
    assert!(is_empty(&directory));
}

#[test]
fn interrupted_anywhere_it_leaves_nothing() {
    let directory = directory();
    for patience in [0, 3, 30, 60] {
        let options = Options { works: vec![Work::Load, Work::Mix(Mix::A)], ..small(&directory) };
        let stopped = run(&options, &Impatient::after(patience));
        assert!(matches!(stopped, Err(BenchError::Interrupted)), "{patience}");
        assert!(is_empty(&directory), "{patience}");
    }
}

#[test]
fn a_device_is_bound_by_its_link() {
    let simulator = &warpkeep_device::devices()[1];
    if let Some(why) = &simulator.unavailable {
        use std::io::Write as _;
        writeln!(std::io::stdout().lock(), "SKIPPED: {why}").expect("standard output");
        return;
    }
    let directory = directory();
    let options = Options {
        device: simulator.choice,
        works: vec![Work::Task(Task::Hit)],
        threads: vec![1],
        only: vec!["memory".to_owned()],
        ..small(&directory)
    };
    let report = run(&options, &Quiet).expect("all answers are right");
    let link = "limits of sim (simulated), the link to 2 MiB of memory";
    assert_series(&report, link, "ordered reads of 128 bytes", "rate", 2);
    let ours = |summary: &&Summary| summary.variant == "warpkeep, batches" && summary.metric == "rate";
    let ours = report.summaries.iter().find(ours).expect("ours");
    // Whichever binds most: the limit of the device, of its copies, or of the host's memory.
    assert!(ours.limit.as_ref().is_some_and(|limit| limit.ratio > 0.0), "{ours:?}");
    assert!(is_empty(&directory));
}
