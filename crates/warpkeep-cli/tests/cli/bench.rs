//! Benchmarks at a size that takes a moment.

use serde_json::Value;

use crate::shop::{Ran, warpkeep};

#[test]
fn storage_writes_csv_and_json_that_parse() {
    let directory = tempfile::tempdir().expect("a directory");
    let (csv, json) = (directory.path().join("figures.csv"), directory.path().join("report.json"));
    let work = directory.path().join("work");
    let ran = Ran::of(
        warpkeep()
            .args(["bench", "storage", "--sizes", "256K,512K", "--writers", "1,3", "--rounds", "2"])
            .args(["--round-time", "20ms", "--repeats", "1", "--seed", "5", "--tail-percent", "50"])
            .arg("--dir")
            .arg(&work)
            .arg("--image-dir")
            .arg(directory.path())
            .arg("--csv")
            .arg(&csv)
            .arg("--json")
            .arg(&json),
    )
    .expect(0);
    assert!(ran.out.contains("store") && ran.out.contains("ratios"), "{}", ran.out);

    let report: Value = serde_json::from_slice(&std::fs::read(&json).expect("a file")).expect("JSON");
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(report["seed"], 5);
    assert!(
        report["command"].as_str().expect("text").starts_with("warpkeep bench storage --sizes 256K,512K")
    );
    assert_eq!(report["machine"]["places"].as_array().expect("places").len(), 2);

    let csv = std::fs::read_to_string(&csv).expect("a file");
    assert_eq!(csv.lines().count(), rows.len() + 1);
    let columns = |line: &str| {
        let mut quoted = false;
        line.chars()
            .filter(|&c| {
                quoted ^= c == '"';
                c == ',' && !quoted
            })
            .count()
            + 1
    };
    assert!(csv.lines().all(|line| columns(line) == 7), "{csv}");
    let numbers =
        csv.lines().skip(1).all(|line| line.rsplit(',').next().is_some_and(|n| n.parse::<f64>().is_ok()));
    assert!(numbers, "{csv}");
    assert!(std::fs::read_dir(&work).expect("a directory").next().is_none(), "something was left");
}

#[test]
fn json_on_standard_output_is_all_there_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let ran = Ran::of(
        warpkeep()
            .args(["bench", "storage", "--only", "recovery", "--sizes", "64K", "--repeats", "1", "--json"])
            .arg("--dir")
            .arg(directory.path())
            .arg("--image-dir")
            .arg(directory.path()),
    )
    .expect(0);
    assert_eq!(ran.json()["benchmark"], "storage");
}

/// Runs a benchmark on the simulator and returns its report; `None` if there is no simulator.
fn on_the_simulator(arguments: &[&str]) -> Option<Value> {
    if warpkeep::devices()[1].unavailable.is_some() {
        println!("SKIPPED: no simulator on this machine");
        return None;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = warpkeep();
    command.arg("bench").args(arguments).args(["--device", "sim", "--json"]);
    let ran = Ran::of(command.arg("--dir").arg(directory.path()).arg("--image-dir").arg(directory.path()));
    Some(ran.expect(0).json())
}

#[test]
fn limits_of_a_device_are_told_with_those_of_the_machine() {
    let arguments = ["limits", "--memory", "1M", "--rounds", "1", "--round-time", "1ms", "--threads", "1"];
    let Some(report) = on_the_simulator(&arguments) else { return };
    let rows = report["rows"].as_array().expect("rows");
    let of = |case: &str| rows.iter().filter(|row| row["case"] == case).count();
    assert_eq!(of("limits of sim (simulated), the link to 2 MiB of memory"), 7);
    assert!(of("limits of memory, 1 thread, random lines") > 0 && of("limits of the disk") > 0);
}

#[test]
fn a_device_is_measured_by_batch_size() {
    let arguments = [
        "device",
        "--items",
        "500",
        "--batch",
        "2^4..2^6:2",
        "--rounds",
        "1",
        "--round-time",
        "1us",
        "--cache",
        "50",
        "--operations",
        "get,insert",
    ];
    let Some(report) = on_the_simulator(&arguments) else { return };
    let rows = report["rows"].as_array().expect("rows");
    let ours =
        ["over the link", "bucket cache, 50 %", "index", "index, values in order", "value cache, 20 %"];
    let library = [
        "host to host",
        "pinned memory to pinned memory",
        "pinned memory, split",
        "gathered by the host",
        "by the CPU",
    ]
    .map(|strategy| format!("library, {strategy}"));
    let reading: Vec<&str> = ours.into_iter().chain(library.iter().map(String::as_str)).collect();
    let writing = [&ours[..1], &ours[2..4], &["fused writes"], &reading[4..6]].concat();
    let cases = [
        ("get, uniform, batches of 16", &reading),
        ("get, zipfian:0.99, batches of 64", &reading),
        ("insert, batches of 16", &writing),
    ];
    for (case, strategies) in cases {
        let rates = rows.iter().filter(|row| row["case"] == case && row["metric"] == "rate");
        let measured: Vec<&str> = rates.filter_map(|row| row["variant"].as_str()).collect();
        assert_eq!(&measured, strategies, "{case}");
    }
}

#[test]
fn keys_of_any_length_are_measured_on_a_device() {
    let arguments = ["device", "--items", "400", "--batch", "64", "--rounds", "1", "--round-time", "1us"];
    let of = |key_bytes| [&arguments[..], &["--key-bytes", key_bytes]].concat();
    let strategies = "ordered,values,fused,library,library-process";
    let all = [&of("var:24")[..], &["--strategies", strategies, "--operations", "get,update"]].concat();
    let Some(report) = on_the_simulator(&all) else { return };
    let rows = report["rows"].as_array().expect("rows");
    for (case, count) in [("get, uniform, batches of 64", 6), ("update, uniform, batches of 64", 4)] {
        let rates = rows.iter().filter(|row| row["case"] == case && row["metric"] == "rate");
        assert!(rates.count() >= count, "{case}");
    }
    let notes = report["notes"].to_string();
    assert!(notes.contains("keys of 8 to 24 bytes"), "{notes}");
    // An invalid length is refused by the command, one that a device does not support by the benchmark.
    let wrong =
        [("var:64", "var:63", 1), ("var:7", "8 to 128", 1), ("var:", "no length", 2), ("x", "no length", 2)];
    for (key_bytes, told, code) in wrong {
        let ran = Ran::of(warpkeep().arg("bench").args(of(key_bytes)).args(["--device", "sim"])).expect(code);
        assert!(ran.err.contains(told), "{key_bytes}: {}", ran.err);
    }
}

#[test]
fn containers_in_device_memory_are_measured_beside_the_cpu() {
    if warpkeep::devices()[1].unavailable.is_some() {
        println!("SKIPPED: no simulator on this machine");
        return;
    }
    let cases = [
        (
            &["sort", "--items", "2^6,100", "--shapes", "8+4,4"][..],
            "gpu sort",
            ["pairs of 8 + 4 bytes, 64 items", "keys of 4 bytes, 100 items"],
            "CPU, standard library",
        ),
        (
            &["map", "--items", "256", "--load", "0.5", "--pairs", "8/8,4/16"],
            "gpu map",
            ["find, hit, load 0.5, 256 slots", "growth, 4/16 pairs, 1024 to 2048 slots"],
            "CPU form, one thread",
        ),
        (
            &["cuckoo", "--buckets", "16", "--load", "0.5", "--batch", "8"],
            "gpu cuckoo",
            ["search, hit, batches of 8, load 0.5, 16 buckets", "delete, batches of 8, load 0.5, 16 buckets"],
            "CPU, one thread",
        ),
        (
            &["ordered", "--items", "40", "--pairs", "4/4", "--batch", "8"],
            "gpu ordered",
            [
                "range of 8, 4/4 pairs, batches of 8, 40 pairs in the map",
                "build, unsorted, 4/4 pairs, 40 pairs in the map",
            ],
            "CPU, one thread",
        ),
        (
            &["graph", "--vertices", "32", "--graphs", "road", "--batch", "8"],
            "gpu graph",
            ["insert edges, road, batches of 8, 32 vertices", "triangles, road, 32 vertices"],
            "CPU, one thread",
        ),
    ];
    for (arguments, benchmark, names, cpu) in cases {
        let mut command = warpkeep();
        command.args(["bench", "gpu"]).args(arguments).args(["--device", "sim", "--rounds", "1", "--json"]);
        let report = Ran::of(&mut command).expect(0).json();
        assert_eq!(report["benchmark"], benchmark);
        let rows = report["rows"].as_array().expect("rows");
        for name in names {
            let rates = rows.iter().filter(|row| row["case"] == name && row["metric"] == "rate");
            let variants: Vec<&str> = rates.filter_map(|row| row["variant"].as_str()).collect();
            assert_eq!(variants, ["device", cpu], "{name}");
        }
        assert!(report["notes"].to_string().contains("simulator"), "{}", report["notes"]);
    }
    // Those whose variants are not a device and the CPU.
    let others = [
        (
            &["gpu", "alloc", "--units", "64", "--full", "0,0.5"][..],
            "claim, 64 units of 128 bytes, pool 50% full",
        ),
        (
            &["gpu", "slab", "--items", "100", "--utilisation", "0.5"],
            "build, utilisation 0.5, about 100 pairs",
        ),
        (
            &["paper", "slabhash", "--figure", "v", "--items", "2^8"],
            "section V: claims of 256 slabs of 128 bytes, one a thread",
        ),
    ];
    for (arguments, case) in others {
        let mut command = warpkeep();
        command.arg("bench").args(arguments).args(["--device", "sim", "--rounds", "1", "--json"]);
        let report = Ran::of(&mut command).expect(0).json();
        let rows = report["rows"].as_array().expect("rows");
        assert!(rows.iter().any(|row| row["case"] == case && row["metric"] == "rate"), "{case}");
    }
    // A word that cannot be read is refused by the command, a number that makes no sense by the benchmark.
    let wrong = [
        (&["sort", "--shapes", "3+4"][..], "8+4", 2),
        (&["sort", "--items", "many"], "2^10", 2),
        (&["sort", "--items", "1"], "--items 2^20", 1),
        (&["map", "--pairs", "8/3"], "8/16", 2),
        (&["map", "--load", "0.99"], "--load 0.5", 1),
        (&["map", "--device", "cpu"], "--device cuda:0", 1),
        (&["alloc", "--full", "1"], "--full 0,0.95", 1),
        (&["slab", "--slab-bytes", "96"], "--slab-bytes 64,128", 1),
        (&["slab", "--pairs", "4/8"], "4/4 or 8/8", 2),
        (&["cuckoo", "--batch", "0"], "--batch 2^24", 1),
        (&["ordered", "--pairs", "8/4"], "4/4 or 8/8", 2),
        (&["ordered", "--items", "1"], "--items 45000000", 1),
        (&["graph", "--graphs", "tree"], "some of rmat", 2),
        (&["graph", "--vertices", "1"], "--vertices 2^20", 1),
    ];
    for (arguments, told, code) in wrong {
        let mut command = warpkeep();
        let ran = Ran::of(command.args(["bench", "gpu"]).args(arguments)).expect(code);
        assert!(ran.err.contains(told), "{arguments:?}: {}", ran.err);
    }
}

#[test]
fn options_that_take_one_number_refuse_several() {
    for arguments in [
        ["graph", "--vertices", "2^16..2^20"],
        ["graph", "--vertices", "2^16,2^20"],
        ["btree", "--items", "2^16..2^20"],
        ["slabhash", "--items", "2^20..2^20"],
    ] {
        let ran = Ran::of(warpkeep().args(["bench", "paper"]).args(arguments)).expect(2);
        assert!(ran.err.contains("give one number"), "{arguments:?}: {}", ran.err);
    }
    let help = Ran::of(warpkeep().args(["bench", "paper", "graph", "--help"])).expect(0).out;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("rmat and road on sim") && help.contains("64 on sim"), "{help}");
}

#[test]
fn the_server_is_measured_cycle_by_cycle() {
    let directory = tempfile::tempdir().expect("a directory");
    let ran = Ran::of(
        warpkeep()
            .args(["bench", "server", "--spawn", "warpkeep", "--cycles", "0us,200us", "--items", "2000"])
            .args(["--depth", "8", "--keys-a-get", "1,4", "--warm-up", "10ms", "--round-time", "100ms"])
            .args(["--rounds", "1", "--json", "--csv"])
            .arg(directory.path().join("figures.csv")),
    )
    .expect(0);
    let report: Value = serde_json::from_str(&ran.out).expect("JSON");
    let rows = report["rows"].as_array().expect("rows");
    for variant in ["warpkeep", "warpkeep, cycle of 200 us"] {
        let rates = rows.iter().filter(|row| row["variant"] == variant && row["metric"] == "rate");
        // Two cases, and the storing of keys.
        assert_eq!(rates.filter(|row| row["value"].as_f64() > Some(0.0)).count(), 3, "{variant}");
    }
    let names: Vec<String> = std::fs::read_dir(directory.path())
        .expect("charts")
        .map(|file| file.expect("a file").file_name().to_string_lossy().into_owned())
        .collect();
    let of =
        |end: &str| names.iter().filter(|name| name.contains("latencies") && name.ends_with(end)).count();
    assert_eq!((of(".csv"), of(".svg")), (2, 2), "{names:?}");
    Ran::of(warpkeep().args(["bench", "server", "--spawn", "redis", "--cycles", "1us"])).expect(2);
    Ran::of(warpkeep().args(["bench", "server", "--spawn", "redis", "--io", "poll"])).expect(2);
}
