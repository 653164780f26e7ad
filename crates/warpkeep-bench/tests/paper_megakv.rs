//! The measured parts of Mega-KV's paper, at a size that takes a moment.

mod common;

use std::time::Duration;

use warpkeep_bench::paper::megakv::{Figure, Options, run};
use warpkeep_bench::{BenchError, Quiet};
use warpkeep_device::{DeviceChoice, devices};

use common::{Impatient, assert_series, directory, is_empty, refusal};

/// Small, with batches that are large enough for a device.
fn small(directory: &tempfile::TempDir) -> Options {
    Options {
        dir: directory.path().to_path_buf(),
        image_dir: directory.path().to_path_buf(),
        items: 4000,
        clients: 96,
        batches: vec![16, 128, 1024],
        cycles: vec![Duration::from_micros(160), Duration::from_millis(20)],
        rounds: 1,
        round_time: Duration::from_millis(2),
        ..Options::default()
    }
}

/// The simulator, if it was built.
fn simulator_or_cpu() -> DeviceChoice {
    match devices()[1].unavailable {
        None => DeviceChoice::Sim,
        Some(_) => DeviceChoice::Cpu,
    }
}

fn figure(number: &str) -> Vec<Figure> {
    vec![number.parse().expect("a figure")]
}

#[test]
fn rates_of_cpu_and_device_stand_beside_the_published_ones() {
    let directory = directory();
    let device = simulator_or_cpu();
    // What is asked for twice is measured once.
    let options = Options { figures: figure("14").repeat(2), device, threads: 2, ..small(&directory) };
    let report = run(&options, &Quiet).expect("all answers are right");
    assert!(is_empty(&directory));
    for (gets, law) in [(95, "zipfian:0.99"), (95, "uniform"), (100, "zipfian:0.99"), (100, "uniform")] {
        let case = format!("figure 14: 8-byte keys, 8-byte values, {gets}% gets, {law}");
        assert_series(&report, &case, "CPU index", "rate", 1);
        if device == DeviceChoice::Sim {
            assert_series(&report, &case, "index in the image, sim", "rate", 1);
            assert_series(&report, &case, "cuckoo index, sim", "rate", 1);
        }
        let published = report.series(&case, "Mega-KV, getk, published", "rate");
        assert_eq!(
            published,
            if law == "uniform" { vec![] } else { vec![if gets == 95 { 160e6 } else { 166e6 }] }
        );
    }
    assert!(report.charts.iter().all(|chart| chart.to_svg().is_ok()));

    let report = run(&Options { figures: figure("15"), ..small(&directory) }, &Quiet).expect("right answers");
    for (key, value, get) in [(16, 64, 110e6), (32, 512, 55e6), (128, 1024, 34e6)] {
        let case = format!("figure 15: {key}-byte keys, {value}-byte values, 95% gets, zipfian:0.99");
        assert_series(&report, &case, "CPU index", "rate", 1);
        assert_eq!(report.series(&case, "Mega-KV, get, published", "rate"), [get]);
    }
    assert_eq!(report.charts.len(), 6);
}

#[test]
fn batches_cycles_and_delayed_writes_are_measured_and_modelled() {
    let directory = directory();
    let device = simulator_or_cpu();
    let options = Options {
        figures: ["11", "13", "16"].iter().flat_map(|number| figure(number)).collect(),
        device,
        ..small(&directory)
    };
    let report = run(&options, &Quiet).expect("all answers are right");
    assert!(is_empty(&directory));
    let names: &[&str] = match device {
        DeviceChoice::Sim => &["CPU index", "index in the image, sim", "cuckoo index, sim"],
        _ => &["CPU index"],
    };
    for name in names {
        for n in [1, 2, 4, 8] {
            let case = "figure 11: writes in one batch of n, 95% gets, uniform";
            assert_series(&report, case, &format!("{name}, n = {n}"), "rate", 1);
            assert_series(&report, case, &format!("{name}, n = {n}"), "p95", 1);
        }
        for batch in [16, 128, 1024] {
            assert_series(&report, &format!("figure 13: a batch of {batch} gets"), name, "time", 1);
            assert_series(&report, &format!("figure 13: a batch of {batch} sets"), name, "time", 1);
        }
        assert_eq!(report.series("figure 13: T = k x + b of gets", name, "1000 k").len(), 1);
    }
    let published = "Mega-KV, by its equation, writes delayed";
    assert_series(&report, "figure 13: the rate that a cycle of 160 us allows", published, "rate", 1);
    assert_series(&report, "figure 11: the shortest cycle at 50% of the highest rate", published, "cycle", 1);
    // On a busy machine no request may be due in a round, or answered in time, or a cycle may be too short for any.
    let case = "figure 16: cycles of 20000 us, 95% gets";
    let count = |metric| report.series(case, "CPU index", metric).len();
    let is_possible = !report.notes.iter().any(|note| note.contains("CPU index: not possible"));
    assert_eq!([count("p95"), count("within 3 cycles")], [usize::from(is_possible); 2]);
    assert!(report.charts.iter().all(|chart| chart.to_svg().is_ok()));
}

#[test]
fn nonsense_is_refused_and_an_interrupted_run_leaves_nothing() {
    let directory = directory();
    let refused = |change: &dyn Fn(&mut Options)| refusal(small(&directory), change, run);
    refused(&|options| options.items = 10);
    refused(&|options| options.items = 1 << 32);
    refused(&|options| options.rounds = 0);
    refused(&|options| options.round_time = Duration::ZERO);
    refused(&|options| options.threads = 0);
    refused(&|options| options.clients = 0);
    refused(&|options| options.keys_a_get = 0);
    refused(&|options| options.batches = vec![64]);
    refused(&|options| options.cycles = vec![Duration::ZERO]);
    for word in ["9", "12", "", "x"] {
        assert!(word.parse::<Figure>().is_err(), "{word}");
    }
    // Without a device, those of the index measure nothing that could be interrupted.
    for figure in Figure::all().filter(|figure| figure.number() > 10) {
        for after in [0, 3] {
            let options = Options { figures: vec![figure], ..small(&directory) };
            let stopped = run(&options, &Impatient::after(after));
            assert!(matches!(stopped, Err(BenchError::Interrupted)), "{figure:?}");
            assert!(is_empty(&directory), "{figure:?}");
        }
    }
}

#[test]
fn figures_of_the_index_stand_beside_the_published_ones() {
    let directory = directory();
    let figures = ["6", "7", "8", "10"].map(|number| number.parse().expect("a figure")).to_vec();
    let without = Options { figures: figures.clone(), ..small(&directory) };
    let report = run(&without, &Quiet).expect("notes");
    assert!(
        report.rows.is_empty() && report.notes.iter().filter(|note| note.contains("--device")).count() == 4
    );
    if devices()[1].unavailable.is_some() {
        use std::io::Write as _;
        writeln!(std::io::stdout().lock(), "SKIPPED: no simulator on this machine").expect("standard output");
        return;
    }
    let report =
        run(&Options { device: DeviceChoice::Sim, ..without }, &Quiet).expect("all answers are right");
    for variant in ["8 cells, 1 lanes a job", "8 cells, 8 lanes a job", "32 cells, 32 lanes a job"] {
        let case = "figure 6: searches of 285 jobs in each of 7 streams";
        assert_series(&report, case, variant, "time of a launch", 1);
        assert_series(&report, "figure 6: searches of 2000 jobs", variant, "rate", 1);
    }
    let case = "figure 7: insertion of 500 entries";
    for variant in ["1 partition", "2 partitions", "16 partitions", "cuckoo index, sorted by bucket"] {
        assert_series(&report, case, variant, "rate", 1);
        assert_series(&report, case, variant, "of the rate with one partition", 1);
    }
    for (operation, peak) in [("search", 303.7e6), ("insert", 210.3e6), ("delete", 196.5e6)] {
        for variant in ["jobs in device memory, 1 stream", "1 stream", "7 streams"] {
            let case = format!("figure 8: {operation}, batches of 128");
            assert_series(&report, &case, variant, "rate", 1);
            assert_series(&report, &case, variant, "latency", 1);
        }
        let case = format!("figure 8: {operation}, peak");
        assert_eq!(report.series(&case, "Mega-KV, published (GTX 780)", "rate"), [peak]);
        let case = format!("figure 10: {operation}");
        let slope = report.series(&case, "Mega-KV, published (GTX 780)", "k, the time of one more job");
        assert_eq!(slope, [if operation == "search" { 3.0e-3 } else { 5.6e-3 }]);
        assert_eq!(report.series(&case, "fitted line", "k, the time of one more job").len(), 1);
    }
    for figure in figures {
        let options = Options { figures: vec![figure], device: DeviceChoice::Sim, ..small(&directory) };
        let stopped = run(&options, &Impatient::after(1));
        assert!(matches!(stopped, Err(BenchError::Interrupted)), "{figure:?}");
    }
}
