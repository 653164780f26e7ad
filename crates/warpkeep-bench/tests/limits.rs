//! The limits at a size that takes a moment.

mod common;

use std::time::Duration;

use warpkeep_bench::limits::{Options, run};
use warpkeep_bench::{BenchError, Quiet};
use warpkeep_device::{DeviceChoice, devices};

use common::{Impatient, assert_series, directory, is_empty, refusal};

fn small(directory: &tempfile::TempDir) -> Options {
    Options {
        dir: directory.path().to_path_buf(),
        image_dir: directory.path().to_path_buf(),
        memory_bytes: 1 << 20,
        threads: vec![2],
        rounds: 2,
        round_time: Duration::from_millis(2),
        ..Options::default()
    }
}

fn has_simulator() -> bool {
    let there =
        devices().iter().any(|device| device.choice == DeviceChoice::Sim && device.unavailable.is_none());
    if !there {
        use std::io::Write as _;
        writeln!(std::io::stdout().lock(), "SKIPPED: no simulator on this machine").expect("standard output");
    }
    there
}

#[test]
fn the_cpu_has_limits_without_a_device() {
    let directory = directory();
    let report = run(&small(&directory), &Quiet).expect("memory and a disk");
    assert!(is_empty(&directory));
    assert_series(&report, "limits of the disk", "sequential write", "rate", 2);
    assert_series(&report, "limits of memory, 2 threads", "sequential read", "rate", 2);
    for variant in ["one after the other", "prefetched"] {
        assert_series(&report, "limits of memory, 2 threads, random lines", variant, "rate", 2);
    }
    assert!(!report.rows.iter().any(|row| row.case.contains("sim")));
}

#[test]
fn a_device_has_its_own_and_the_simulator_says_that_it_is_none() {
    if !has_simulator() {
        return;
    }
    let directory = directory();
    let report =
        run(&Options { device: DeviceChoice::Sim, ..small(&directory) }, &Quiet).expect("a simulator");
    assert!(is_empty(&directory));
    for bytes in [8, 16, 32, 64, 128] {
        let case = "limits of sim (simulated), device memory, 1 MiB";
        assert_series(&report, case, &format!("random reads of {bytes} bytes"), "rate", 2);
    }
    let link = "limits of sim (simulated), the link to 2 MiB of memory";
    let own = "of 128 bytes, each multiprocessor in its own share";
    for variant in ["random reads of 128 bytes", "ordered reads of 128 bytes", "random writes of 128 bytes"]
        .map(str::to_owned)
        .into_iter()
        .chain(["reads", "writes"].map(|what| format!("random {what} {own}")))
    {
        assert_series(&report, link, &variant, "rate", 2);
    }
    assert_series(&report, "limits of sim (simulated), copies", "from the device", "rate", 2);
    assert_series(&report, "limits of sim (simulated), launches", "empty kernels in a row, each", "time", 2);
    assert!(report.notes.iter().any(|note| note.contains("simulator")));
}

#[test]
fn nonsense_is_refused_and_whoever_interrupts_leaves_nothing() {
    let directory = directory();
    let refused = |change: &dyn Fn(&mut Options)| refusal(small(&directory), change, run);
    refused(&|options| options.rounds = 0);
    refused(&|options| options.threads = vec![1000]);
    refused(&|options| options.host_bytes = vec![]);
    refused(&|options| options.memory_bytes = 1);
    let missing = run(&Options { device: DeviceChoice::Cuda(63), ..small(&directory) }, &Quiet);
    assert!(matches!(missing, Err(BenchError::Store(_))), "{missing:?}");
    for patience in [0, 2, 5] {
        let stopped = run(&small(&directory), &Impatient::after(patience));
        assert!(matches!(stopped, Err(BenchError::Interrupted)), "{patience}");
        assert!(is_empty(&directory), "{patience}");
    }
}
