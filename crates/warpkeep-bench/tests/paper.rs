//! The paper's figures at a size that takes a moment.

#[path = "paper/btree.rs"]
mod btree;
mod common;

use std::time::Duration;

use warpkeep_bench::chart::Drawing;
use warpkeep_bench::load_factor::all_geometries;
use warpkeep_bench::paper::gphash::{Figure, Options, run};
use warpkeep_bench::paper::slabhash;
use warpkeep_bench::report::Report;
use warpkeep_bench::{BenchError, Quiet};
use warpkeep_device::{DeviceChoice, devices};

use common::{Impatient, assert_series, directory, is_empty, refusal};

fn small(directory: &tempfile::TempDir) -> Options {
    Options {
        dir: directory.path().to_path_buf(),
        image_dir: directory.path().to_path_buf(),
        items: 4000,
        threads: 1,
        repeats: 1,
        rounds: 1,
        round_time: Duration::from_millis(2),
        ..Options::default()
    }
}

fn figure(number: u8) -> Figure {
    number.to_string().parse().expect("a figure")
}

#[test]
fn every_figure_that_the_cpu_can_do_has_ours_and_what_was_published() {
    let directory = directory();
    let report = run(&small(&directory), &Quiet).expect("all answers are right");
    assert!(is_empty(&directory));

    let load = "figure 7: highest load factor while loading";
    assert_eq!(report.series(load, "GPHash, published (section 4.2)", "highest"), [92.0]);
    for ours in
        ["grown when full, as in the paper", "grown early, as a store does", "a table that does not grow"]
    {
        let series = report.series(load, ours, "highest");
        // Of a small table, the few items in the overflow can make it more than full.
        assert!(
            !series.is_empty() && series.iter().all(|load| (40.0..102.0).contains(load)),
            "{ours}: {series:?}"
        );
    }

    let keys = "figure 12a: YCSB C by key size";
    for bytes in [8, 16, 32, 64, 128] {
        let variant = format!("{bytes} bytes");
        for metric in ["rate", "memory, lines of the work", "of the rate with 8-byte keys"] {
            assert_series(&report, keys, &variant, metric, 1);
        }
    }
    let itself = report.series(keys, "8 bytes", "of the rate with 8-byte keys");
    assert!(itself.len() == 1 && (itself[0] - 100.0).abs() < 1e-9, "{itself:?}");
    let published = "128 bytes, GPHash, published (section 4.6)";
    assert_eq!(report.series(keys, published, "of the rate with 8-byte keys"), [86.9]);
    for theta in ["0", "0.5", "0.99", "1.2"] {
        assert_series(&report, "figure 12b: YCSB C by skew", &format!("theta {theta}"), "rate", 1);
    }

    for geometry in all_geometries() {
        let case = "figure 13: YCSB C and highest load factor by geometry";
        assert_series(&report, case, &geometry.to_string(), "rate", 1);
        assert_series(&report, case, &geometry.to_string(), "highest load factor", 1);
    }

    for items in [250, 500, 1000, 2000, 4000] {
        assert_series(&report, &format!("figure 14: {items} items"), "alone", "seconds", 1);
        assert_series(&report, &format!("figure 14: {items} items"), "re-attach", "total", 1);
    }
    let curves = |title: &str| {
        let chart = report.charts.iter().find(|chart| chart.title == title).expect("a chart");
        assert!(chart.to_svg().is_ok());
        match &chart.drawing {
            Drawing::Curves(curves) => curves.iter().map(|curve| curve.points.len()).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(curves(keys), [5, 5]);
    assert_eq!(curves("figure 12b: YCSB C by skew"), [6, 6]);
    assert_eq!(curves("figure 14: time against size"), [5; 5]);
    assert!(report.notes.iter().any(|note| note.contains("hundreds of milliseconds")));
}

#[test]
fn figures_that_need_a_gpu_say_so_and_measure_nothing() {
    let directory = directory();
    let figures = [5, 6, 8, 9, 10, 11, 15].map(figure).to_vec();
    let report = run(&Options { figures, ..small(&directory) }, &Quiet).expect("nothing to do");
    assert!(report.rows.is_empty());
    for number in [5, 6, 8, 9, 10, 11, 15] {
        let begins = format!("figure {number} (");
        let note = report.notes.iter().find(|note| note.starts_with(&begins)).expect("a note");
        assert!(note.contains("needs a CUDA device"), "{note}");
    }
}

#[test]
fn nonsense_is_refused_and_whoever_interrupts_leaves_nothing() {
    let directory = directory();
    let refused = |change: &dyn Fn(&mut Options)| refusal(small(&directory), change, run);
    refused(&|options| options.items = 10);
    refused(&|options| options.repeats = 0);
    refused(&|options| options.rounds = 0);
    for word in ["4", "16", "", "seven"] {
        assert!(word.parse::<Figure>().is_err(), "{word}");
    }
    for patience in [0, 10, 25] {
        let options = Options { figures: vec![figure(12)], ..small(&directory) };
        let stopped = run(&options, &Impatient::after(patience));
        assert!(matches!(stopped, Err(BenchError::Interrupted)), "{patience}");
        assert!(is_empty(&directory), "{patience}");
    }
}

#[test]
fn a_device_does_the_others() {
    let simulator = &warpkeep_device::devices()[1];
    if let Some(why) = &simulator.unavailable {
        use std::io::Write as _;
        writeln!(std::io::stdout().lock(), "SKIPPED: {why}").expect("standard output");
        return;
    }
    let directory = directory();
    let options = Options {
        items: 1000,
        device: simulator.choice,
        round_time: Duration::from_micros(500),
        ..small(&directory)
    };
    let report = run(&options, &Quiet).expect("all answers are right");
    assert!(is_empty(&directory));
    let gets = "figure 9: YCSB C, batches of 250";
    let steps = [
        "1 a thread an operation",
        "2 + warps that work together",
        "3 + keys in place",
        "4 + bucket cache of 20 %",
        "5 + device index, in place of the cache",
        "6 + values in address order",
        "7 + fused writes",
        "8 + value cache of 20 %",
    ];
    for step in steps {
        assert_series(&report, gets, step, "rate", 1);
    }
    for (mix, step) in
        [("A", steps[1]), ("B", steps[4]), ("LOAD", steps[2]), ("A", steps[7]), ("LOAD", steps[6])]
    {
        assert_series(&report, &format!("figure 9: YCSB {mix}, batches of 250"), step, "rate", 1);
        for reading in [steps[0], steps[3]] {
            assert!(
                report.series(&format!("figure 9: YCSB {mix}, batches of 250"), reading, "rate").is_empty()
            );
        }
    }
    assert_series(&report, "figure 9: updates, batches of 250", steps[7], "rate", 1);
    let more = "of the rate of the step before";
    assert_eq!(report.series(gets, steps[1], more).len(), 1);
    let published = "2 + warps that work together, published at most (section 4.4)";
    assert_eq!(report.series(gets, published, more), [204.1]);
    let published = "4 + bucket cache of 20 %, published at most (section 4.4)";
    assert_eq!(report.series(gets, published, more), [140.9]);
    // The step before, of those that write.
    assert_eq!(report.series("figure 9: YCSB A, batches of 250", steps[4], more).len(), 1);

    let case = "figure 11: YCSB C by policy and share";
    for policy in ["LFU", "LRU", "random"] {
        for share in [0, 20, 100] {
            assert_series(&report, case, &format!("{policy}, {share} %"), "rate", 1);
        }
        assert_eq!(report.series(case, &format!("{policy}, 100 %"), "hit rate"), [100.0]);
        assert_eq!(report.series(case, &format!("{policy}, 0 %"), "hit rate"), [0.0]);
    }
    let brings = "figure 11: what a larger cache brings";
    let metric = "of the rate with the smaller one";
    assert_eq!(
        report.series(
            brings,
            "LFU on YCSB C, from 0 % to 10 % of the buckets, published (section 4.6)",
            metric
        ),
        [145.7]
    );
    assert_eq!(report.series(brings, "LFU on YCSB C, from 10 % to 40 % of the buckets", metric).len(), 1);

    for name in ["gets go on", "gets wait"] {
        let case = "figure 15: loading 20 % of the buckets";
        assert_series(&report, case, &format!("{name}, while loading"), "seconds", 1);
        assert_series(&report, case, &format!("{name}, while loading"), "buckets", 1);
    }
    for number in [5, 6] {
        let case = format!("figure {number}: get, zipfian:0.99, batches of 256");
        assert_series(&report, &case, "index, values in order", "p50 of a batch", 1);
    }
    let curves = report.charts.iter().filter(|chart| chart.title.starts_with("figure 1")).count();
    assert_eq!(curves, 2 + 2);
    assert!(report.charts.iter().all(|chart| chart.to_svg().is_ok()));
}

/// Figures of the slab hash's paper, on the simulator.
fn slab_figures(names: &[&str]) -> Option<Report> {
    if devices()[1].unavailable.is_some() {
        use std::io::Write as _;
        writeln!(std::io::stdout().lock(), "SKIPPED: no simulator on this machine").expect("standard output");
        return None;
    }
    let figures = names.iter().map(|name| name.parse().expect("a figure")).collect();
    let small =
        slabhash::Options { figures, items: 256, rounds: 1, ..slabhash::Options::on(DeviceChoice::Sim) };
    Some(slabhash::run(&small, &Quiet).expect("all answers are right"))
}

const SLAB_TABLES: [&str; 3] = ["64-byte slabs", "128-byte slabs", "the paper's layout"];
const SLAB_PUBLISHED: &str = "slab hash, published (K40c)";

#[test]
fn bulk_figures_of_the_slab_hash_have_ours_and_the_papers_layout() {
    // What is asked for twice is measured once.
    let Some(report) = slab_figures(&["V", "4a", "4b", "V", "5"]) else { return };
    let claims = "section V: claims of 256 slabs of 128 bytes, one a thread";
    for variant in ["SlabAlloc of ours", "SlabAlloc, the paper's layout"] {
        assert_series(&report, claims, variant, "rate", 1);
    }
    assert_eq!(report.series(claims, "SlabAlloc, published (K40c)", "rate"), [600e6]);
    for (operation, peak) in
        [("4a: building", 512e6), ("4b: searches, all found", 937e6), ("4b: searches, none found", 937e6)]
    {
        for slabs in [0.1, 0.7, 5.0] {
            let case = format!("figure {operation}, {slabs} slabs a bucket, about 256 pairs");
            for variant in SLAB_TABLES {
                assert_series(&report, &case, variant, "rate", 1);
                assert_series(&report, &case, variant, "utilisation", 1);
            }
            let limited =
                report.summaries.iter().filter(|summary| summary.case == case && summary.limit.is_some());
            assert!(limited.count() >= SLAB_TABLES.len(), "{case}");
        }
        let case = format!("figure {operation}, peak");
        assert_eq!(report.series(&case, SLAB_PUBLISHED, "rate"), [peak]);
        assert_series(&report, &case, "cuckoo index", "rate", 1);
        assert!(report.charts.iter().any(|chart| chart.title == format!("figure {operation}")));
    }
    for operation in ["building", "searches, all found", "searches, none found"] {
        for variant in SLAB_TABLES.into_iter().chain(["cuckoo index"]) {
            assert_series(&report, &format!("figure 5: {operation}, about 512 pairs"), variant, "rate", 1);
            let all = format!("figure 5: {operation}, all sizes");
            assert_series(&report, &all, variant, "harmonic mean of the rate", 1);
        }
    }
}

#[test]
fn dynamic_figures_of_the_slab_hash_have_their_baselines() {
    let Some(report) = slab_figures(&["6", "7a", "7b"]) else { return };
    for (batch, published) in [(2, 17.3), (4, 10.4), (8, 6.4)] {
        let case = format!("figure 6: batches of {batch}, about 128 pairs in all");
        for variant in SLAB_TABLES.into_iter().chain(["cuckoo index"]) {
            assert_series(&report, &case, variant, "time until all pairs are in the table", 1);
        }
        let ours = report.series(&case, SLAB_PUBLISHED, "of the time of rebuilding");
        assert_eq!(ours, [100.0 / published]);
    }
    for mix in ["100% updates", "40% updates", "20% updates"] {
        for variant in SLAB_TABLES {
            let case = format!("figure 7a: {mix}, 0.7 slabs a bucket, about 256 pairs");
            assert_series(&report, &case, variant, "rate", 1);
            let case = format!("figure 7b: {mix}, 256 requests, 16 keys a bucket before");
            assert_series(&report, &case, variant, "rate", 1);
            assert_series(&report, &case, "lists, one node a key", "rate", 1);
            let mean = format!("figure 7b: {mix}, geometric mean");
            assert_series(&report, &mean, variant, "of the lists' rate", 1);
        }
    }
}

#[test]
fn figures_of_the_slab_hash_refuse_nonsense_and_can_be_interrupted() {
    let small = || slabhash::Options::on(DeviceChoice::Sim);
    let refused = |change: &dyn Fn(&mut slabhash::Options)| refusal(small(), change, slabhash::run);
    for (message, advice) in [
        (refused(&|options| options.device = DeviceChoice::Cpu), "--device cuda:0"),
        (refused(&|options| options.rounds = 0), "--rounds 3"),
        (refused(&|options| options.items = 3), "--items 2^22"),
        (refused(&|options| options.sizes = vec![3]), "--sizes 2^16"),
    ] {
        assert!(message.contains(advice), "{message}");
    }
    assert!("8".parse::<slabhash::Figure>().expect_err("no such figure").contains("7b"));
    if devices()[1].unavailable.is_none() {
        let stopped = slabhash::run(&small(), &Impatient::after(3));
        assert!(matches!(stopped, Err(BenchError::Interrupted)));
    }
}
