//! Tables worked by a device, at a size that takes a moment on the simulator.

mod common;

use std::time::Duration;

use warpkeep_bench::chart::Drawing;
use warpkeep_bench::device::{
    CachePolicy, Operation, Options, ProfileOptions, ScaleOptions, Strategy, run, run_profile, run_scale,
};
use warpkeep_bench::page::{self, Source};
use warpkeep_bench::report::Summary;
use warpkeep_bench::workload::{Distribution, Workload};
use warpkeep_bench::{BenchError, Quiet};
use warpkeep_device::{DeviceChoice, devices};
use warpkeep_gphash::Layout;

use common::{Impatient, assert_series, directory, is_empty, refusal};

fn small(directory: &tempfile::TempDir) -> Options {
    Options {
        dir: directory.path().to_path_buf(),
        image_dir: directory.path().to_path_buf(),
        workload: Workload { items: 1000, key_bytes: 8, value_bytes: 128, seed: 5 },
        batches: vec![50, 200],
        rounds: 2,
        round_time: Duration::from_micros(1),
        ..Options::on(DeviceChoice::Sim)
    }
}

fn has_simulator() -> bool {
    let there = devices()[1].unavailable.is_none();
    if !there {
        use std::io::Write as _;
        writeln!(std::io::stdout().lock(), "SKIPPED: no simulator on this machine").expect("standard output");
    }
    there
}

#[test]
fn every_strategy_does_every_operation_and_is_right() {
    if !has_simulator() {
        return;
    }
    let directory = directory();
    let options = Options {
        strategies: Strategy::ALL.to_vec(),
        value_shares: vec![0.2, 1.0],
        steps: true,
        ..small(&directory)
    };
    let report = run(&options, &Quiet).expect("all answers are right");
    assert!(is_empty(&directory));
    for step in ["clear", "dedup", "decide", "write", "first to last", "host: block pool", "host: wait"] {
        for variant in ["fused writes", "value cache, 20 %"] {
            let case = format!("insert, batches of 200, {variant}: steps");
            assert_series(&report, &case, step, "time in a batch", 2);
        }
    }
    assert!(
        report.series("delete, batches of 50, fused writes: steps", "step", "time in a batch").is_empty()
    );
    for step in ["locate and scatter", "fetch", "fall back", "first to last", "host: wait"] {
        let case = "absent get, uniform, batches of 200, index, values in order: steps";
        assert_series(&report, case, step, "time in a batch", 2);
        let written = "insert, batches of 200, fused writes: steps";
        assert!(
            !["locate and scatter", "fall back"].contains(&step)
                || report.series(written, step, "time in a batch").is_empty(),
            "of another batch"
        );
    }
    let ours = ["over the link", "index", "index, values in order", "library, host to host"];
    let both = [&ours[..], &["value cache, 20 %", "value cache, 100 %"]].concat();
    let writing = [&["fused writes"][..], &both].concat();
    let papers = ["over the link, a thread each", "bucket cache, 20 %", "bucket cache, 100 %"];
    let gets = ["library, gathered by the host", "library, by the CPU"];
    let reading = [&papers[..], &both, &gets].concat();
    for case in ["get, uniform", "get, zipfian:0.99", "absent get, uniform"] {
        for variant in &reading {
            for metric in ["rate", "p50 of a batch", "p99 of a batch", "max of a batch"] {
                assert_series(&report, &format!("{case}, batches of 200"), variant, metric, 2);
            }
        }
    }
    let locate = "locate, uniform, batches of 200";
    assert_series(&report, locate, "index", "rate", 2);
    assert_series(&report, locate, "over the link", "rate, 4 batches under way", 2);
    assert!(report.series(locate, "library, host to host", "rate").is_empty());
    for case in ["update, zipfian:0.99, batches of 50", "insert, batches of 200", "delete, batches of 50"] {
        for variant in &writing {
            assert_series(&report, case, variant, "rate", 2);
        }
        assert!(papers.iter().all(|paper| report.series(case, paper, "rate").is_empty()));
        assert_series(&report, case, "over the link", "rate of the kernels", 2);
    }
    for variant in ["library, logged, process", "library, logged, power"] {
        assert_series(&report, "update, uniform, batches of 200", variant, "rate", 2);
        assert_series(&report, "insert, batches of 200", variant, "rate", 2);
        assert!(report.series("get, uniform, batches of 200", variant, "rate").is_empty());
    }
    assert_series(&report, "limits of the disk", "sequential write", "rate", 2);
    let hits = report.series("get, uniform, batches of 200", "value cache, 100 %", "hit rate");
    assert_eq!(hits, [100.0, 100.0]);
    let some = report.series("get, zipfian:0.99, batches of 200", "value cache, 20 %", "hit rate");
    assert!(some.iter().all(|&share| share > 40.0 && share < 100.0), "{some:?}");
    let hits = report.series("get, uniform, batches of 200", "bucket cache, 100 %", "hit rate");
    assert_eq!(hits, [100.0, 100.0]);
    let some = report.series("get, zipfian:0.99, batches of 200", "bucket cache, 20 %", "hit rate");
    assert!(some.iter().all(|&share| share > 20.0 && share < 100.0), "{some:?}");

    let bound = |variant: &str, case: &str| {
        let of = |summary: &&Summary| {
            summary.case == case && summary.variant == variant && summary.metric == "rate"
        };
        report.summaries.iter().find(of).and_then(|summary| summary.limit.clone()).expect("a limit").to
    };
    // Whichever of the two the simulator is slower with.
    assert!(bound("over the link", "get, uniform, batches of 200").starts_with("the link, "));
    for gathered in ["library, gathered by the host", "library, by the CPU"] {
        assert!(bound(gathered, "get, uniform, batches of 200").starts_with("the host, "), "{gathered}");
    }
    let absent = bound("bucket cache, 100 %", "absent get, uniform, batches of 200");
    assert_eq!(absent, "device memory, random reads of 64 bytes");

    let chart = |title: &str| {
        let chart = report.charts.iter().find(|chart| chart.title == title);
        &chart.unwrap_or_else(|| panic!("no chart {title}")).drawing
    };
    match chart("rate against latency, get, zipfian:0.99") {
        Drawing::Trades(trades) => {
            assert_eq!(trades.iter().map(|trade| trade.points.len()).collect::<Vec<_>>(), [2; 13]);
        }
        other => panic!("{other:?}"),
    }
    match chart("gets by share of buckets with copies, batches of 200") {
        Drawing::Curves(curves) => assert_eq!((curves.len(), curves[0].points.len()), (2, 3)),
        other => panic!("{other:?}"),
    }
    assert!(matches!(chart("gets by skew, batches of 200"), Drawing::Curves(curves) if curves.len() == 13));
    let source = Source::parse("device", &report.to_json().expect("JSON")).expect("a report");
    let page = page::render(&[source]).expect("a page");
    assert!(
        page.html.contains("bucket cache, 20 %") && page.html.contains("<details>") && page.plots.len() > 8
    );
}

#[test]
fn other_keys_values_layouts_and_loads_are_right_too() {
    if !has_simulator() {
        return;
    }
    let directory = directory();
    let workload = |key_bytes, value_bytes| Workload { items: 700, key_bytes, value_bytes, seed: 2 };
    let cases = [
        (workload(8, 8), Layout::InPlace, None, CachePolicy::Random),
        (workload(20, 100), Layout::InPlace, Some(0.5), CachePolicy::Lru),
        (workload(32, 24), Layout::Packed, Some(0.7), CachePolicy::Lfu),
    ];
    for (workload, layout, load_factor, policy) in cases {
        let options = Options {
            workload,
            layout,
            load_factor,
            policy,
            strategies: Strategy::ALL.to_vec(),
            batches: vec![64],
            distributions: vec![Distribution::Zipfian(0.8)],
            rounds: 1,
            ..small(&directory)
        };
        let report = run(&options, &Quiet).unwrap_or_else(|error| panic!("{workload:?}, {layout}: {error}"));
        for case in ["get, zipfian:0.8, batches of 64", "insert, batches of 64"] {
            assert_series(&report, case, "over the link", "rate", 1);
        }
        assert!(report.notes.iter().any(|note| note.contains("% full")), "{:?}", report.notes);
        let left_out = report.notes.iter().any(|note| note.starts_with("left out") && note.contains("fused"));
        assert_eq!(left_out, layout == Layout::InPlace);
        let fused = report.series("insert, batches of 64", "fused writes", "rate");
        assert_eq!(fused.len(), usize::from(!left_out));
        if let Some(load) = load_factor {
            let note = report.notes.iter().find(|note| note.contains("% full")).expect("a note");
            let (before, _) = note.split_once(" % full").expect("a share");
            let full: f64 = before.rsplit(' ').next().and_then(|word| word.parse().ok()).expect("a number");
            // There are only whole buckets.
            assert!((full / 100.0 - load).abs() < 0.1, "{full} % and {load}");
        }
    }
    assert!(is_empty(&directory));
}

#[test]
fn nonsense_is_refused_and_whoever_interrupts_leaves_nothing() {
    if !has_simulator() {
        return;
    }
    let directory = directory();
    let refused = |change: &dyn Fn(&mut Options)| refusal(small(&directory), change, run);
    refused(&|options| options.device = DeviceChoice::Cpu);
    refused(&|options| options.rounds = 0);
    refused(&|options| options.strategies = vec![]);
    refused(&|options| options.operations = vec![]);
    refused(&|options| options.distributions = vec![]);
    refused(&|options| options.distributions = vec![Distribution::Latest(0.9)]);
    refused(&|options| options.batches = vec![0]);
    refused(&|options| options.batches = vec![1 << 25]);
    refused(&|options| options.cache_shares = vec![1.5]);
    refused(&|options| options.load_factor = Some(0.99));
    refused(&|options| options.word_threads = Some(0));
    assert!("warp".parse::<Strategy>().is_err() && "put".parse::<Operation>().is_err());
    refused(&|options| {
        options.layout = Layout::InPlace;
        options.strategies = vec![Strategy::Index];
    });
    for patience in [0, 3, 40] {
        let stopped = run(&small(&directory), &Impatient::after(patience));
        assert!(matches!(stopped, Err(BenchError::Interrupted)), "{patience}");
        assert!(is_empty(&directory), "{patience}");
    }
}

#[test]
fn tables_of_growing_sizes_come_back() {
    if !has_simulator() {
        return;
    }
    let scratch = directory();
    let options = ScaleOptions {
        dir: scratch.path().to_owned(),
        image_dir: scratch.path().to_owned(),
        rounds: 1,
        // The last is more than a quarter of the items.
        batches: vec![256, 512, 1024, 2048],
        ..ScaleOptions::on("sim".parse().unwrap())
    };
    let report = run_scale(&options, &Quiet).unwrap();
    for items in &options.sizes {
        let case = format!("{items} items");
        let larger = [512, 1024, 2048].map(|batch| format!("{case}, batches of {batch}"));
        let is_largest = Some(items) == options.sizes.iter().max();
        let measured = [true, is_largest, is_largest, false];
        for (case, is_measured) in std::iter::once(&case).chain(&larger).zip(measured) {
            for operation in ["get", "absent get", "locate", "update", "insert"] {
                let rates = report.series(case, operation, "rate");
                assert_eq!(rates.len(), usize::from(is_measured), "{operation}, {case}");
                assert!(rates.iter().all(|&rate| rate > 0.0), "{operation}, {case}");
            }
        }
        assert_eq!(report.series(&case, "coming back", "total").len(), 1);
    }
    assert_eq!(report.charts.len(), 2);
    assert!(is_empty(&scratch));
}

/// Tables whose keys lie in cells, with keys of 8 to 24 bytes: every strategy, and every answer is right.
#[test]
fn keys_of_any_length_go_every_way() {
    if !has_simulator() {
        return;
    }
    let directory = directory();
    let small = small(&directory);
    let workload = Workload { key_bytes: 24, ..small.workload };
    let options = Options {
        strategies: Strategy::ALL.to_vec(),
        variable_keys: true,
        workload,
        batches: vec![200],
        rounds: 1,
        ..small
    };
    let report = run(&options, &Quiet).expect("all answers are right");
    for variant in ["index, values in order", "value cache, 20 %", "library, gathered by the host"] {
        assert_series(&report, "get, uniform, batches of 200", variant, "rate", 1);
    }
    for variant in ["fused writes", "library, host to host", "library, logged, power"] {
        assert_series(&report, "update, uniform, batches of 200", variant, "rate", 1);
    }
    for (layout, key_bytes, told) in [(Layout::InPlace, 24, "packed"), (Layout::Packed, 64, "var:63")] {
        let wrong = Options { layout, workload: Workload { key_bytes, ..workload }, ..options.clone() };
        match run(&wrong, &Quiet) {
            Err(BenchError::Invalid(what)) => assert!(what.contains(told), "{what}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn profile_times_both_settings_of_every_threshold() {
    if !has_simulator() {
        return;
    }
    let directory = directory();
    let options = ProfileOptions {
        dir: directory.path().to_path_buf(),
        image_dir: directory.path().to_path_buf(),
        workload: Workload { items: 1000, key_bytes: 8, value_bytes: 128, seed: 5 },
        largest: 64,
        rounds: 2,
        round_time: Duration::from_micros(1),
        ..ProfileOptions::on(DeviceChoice::Sim)
    };
    let (report, profile) = run_profile(&options, &Quiet).expect("all answers are right");
    assert!(is_empty(&directory));
    for (field, settings) in [
        ("scattered_to", ["scattered", "sorted"]),
        ("unassigned_from", ["SM affinity", "no SM affinity"]),
        ("ordered_from", ["fused", "in address order"]),
        ("located_at_once_to", ["one launch", "two launches"]),
        ("gathered_from", ["by the CPU", "located by the device"]),
        ("device_share", ["share 0.2", "share 0.8"]),
        ("shared_from", ["located by the device", "shared with the device"]),
        ("streamed_from_bytes", ["cached copies", "streaming copies"]),
        ("publish_by", ["device", "device"]),
        ("chunk_operations", ["8192 operations", "262144 operations"]),
        ("fused_from", ["two phases", "fused"]),
        ("written_from", ["by the CPU", "by the device"]),
    ] {
        for setting in settings {
            assert_series(&report, &format!("{field}, batches of 64"), setting, "time of a batch", 2);
        }
    }
    assert_series(&report, "ordered_from, batches of 32", "fused", "time of a batch", 2);
    // A single write never goes to the device.
    assert!(profile.written_from >= 16 && profile.fused_from >= 64, "{profile}");
    let shown = report.notes.concat();
    assert!(shown.contains("the store has a log"), "{shown}");
    assert!(profile.to_string().lines().all(|line| shown.contains(line)), "{shown}");

    let refused = |change: fn(&mut ProfileOptions)| {
        refusal(options.clone(), change, |options, progress| run_profile(options, progress).map(|run| run.0))
    };
    assert!(refused(|options| options.device = DeviceChoice::Cpu).contains("--device cuda:0"));
    assert!(refused(|options| options.largest = 1001).contains("one for each item"));
    assert!(refused(|options| options.rounds = 0).contains("at least one round"));
}
