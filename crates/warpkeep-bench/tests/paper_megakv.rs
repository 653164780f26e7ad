//! The measured parts of Mega-KV's paper, at a size that takes a moment.

mod common;

use std::time::Duration;

use warpkeep_bench::paper::megakv::{Figure, Options, run};
use warpkeep_bench::{BenchError, Quiet};
use warpkeep_device::DeviceChoice;

use common::{Impatient, assert_series, directory, is_empty, refusal};

/// Small, with batches that are large enough for a device.
fn small(directory: &tempfile::TempDir) -> Options {
    Options {
        dir: directory.path().to_path_buf(),
        image_dir: directory.path().to_path_buf(),
        items: 4000,
        clients: 96,
        rounds: 1,
        round_time: Duration::from_millis(2),
        ..Options::default()
    }
}

fn figure(number: &str) -> Vec<Figure> {
    vec![number.parse().expect("a figure")]
}

#[test]
fn rates_of_cpu_and_device_stand_beside_the_published_ones() {
    let directory = directory();
    let device = if cfg!(feature = "gpu") { DeviceChoice::Sim } else { DeviceChoice::Cpu };
    let options = Options { figures: figure("14"), device, threads: 2, ..small(&directory) };
    let report = run(&options, &Quiet).expect("all answers are right");
    assert!(is_empty(&directory));
    for (gets, law) in [(95, "zipfian:0.99"), (95, "uniform"), (100, "zipfian:0.99"), (100, "uniform")] {
        let case = format!("figure 14: 8-byte keys, 8-byte values, {gets}% gets, {law}");
        assert_series(&report, &case, "CPU index", "rate", 1);
        if device == DeviceChoice::Sim {
            assert_series(&report, &case, "GPHash index on sim", "rate", 1);
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
    for word in ["9", "12", "", "x"] {
        assert!(word.parse::<Figure>().is_err(), "{word}");
    }
    for figure in Figure::all() {
        for after in [0, 3] {
            let options = Options { figures: vec![figure], ..small(&directory) };
            let stopped = run(&options, &Impatient::after(after));
            assert!(matches!(stopped, Err(BenchError::Interrupted)), "{figure:?}");
            assert!(is_empty(&directory), "{figure:?}");
        }
    }
}
