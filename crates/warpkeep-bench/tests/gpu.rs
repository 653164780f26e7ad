//! Containers in device memory at sizes that take a moment.

mod common;

use warpkeep_bench::chart::Drawing;
use warpkeep_bench::gpu::{alloc, cuckoo, graph, map, ordered, slab, sort};
use warpkeep_bench::page::{self, Source};
use warpkeep_bench::report::{Report, Summary};
use warpkeep_bench::{BenchError, Quiet};
use warpkeep_device::{DeviceChoice, devices};

use common::{Impatient, assert_series, directory, is_empty, refusal};

fn has_simulator() -> bool {
    let there = devices()[1].unavailable.is_none();
    if !there {
        use std::io::Write as _;
        writeln!(std::io::stdout().lock(), "SKIPPED: no simulator on this machine").expect("standard output");
    }
    there
}

fn small_sorts() -> sort::Options {
    sort::Options { items: vec![2, 300], rounds: 2, seed: 5, ..sort::Options::on(DeviceChoice::Sim) }
}

fn small_maps() -> map::Options {
    map::Options { items: vec![300], rounds: 2, seed: 5, ..map::Options::on(DeviceChoice::Sim) }
}

fn small_pools() -> alloc::Options {
    alloc::Options { units: 200, rounds: 2, seed: 5, ..alloc::Options::on(DeviceChoice::Sim) }
}

fn small_slabs() -> slab::Options {
    let utilisations = vec![0.65, 0.3];
    slab::Options {
        items: vec![300],
        utilisations,
        rounds: 2,
        seed: 5,
        ..slab::Options::on(DeviceChoice::Sim)
    }
}

fn small_indexes() -> cuckoo::Options {
    cuckoo::Options { buckets: vec![40], rounds: 2, seed: 5, ..cuckoo::Options::on(DeviceChoice::Sim) }
}

fn small_ordered_maps() -> ordered::Options {
    ordered::Options {
        items: vec![60],
        batches: vec![16],
        rounds: 2,
        seed: 5,
        ..ordered::Options::on(DeviceChoice::Sim)
    }
}

fn small_graphs() -> graph::Options {
    graph::Options {
        vertices: vec![40],
        batches: vec![16],
        rounds: 2,
        seed: 5,
        ..graph::Options::on(DeviceChoice::Sim)
    }
}

/// The figures of a metric of the device, all rounds together.
fn summary(report: &Report, case: &str, metric: &str) -> Summary {
    summary_of(report, case, "device", metric)
}

/// The same of any variant.
fn summary_of(report: &Report, case: &str, variant: &str, metric: &str) -> Summary {
    let of =
        |summary: &&Summary| summary.case == case && summary.variant == variant && summary.metric == metric;
    report.summaries.iter().find(of).unwrap_or_else(|| panic!("no {metric} of {case}")).clone()
}

/// Everything that a report is written as.
fn assert_is_shown(report: &Report, what: &str) {
    assert!(report.to_text().contains(what) && report.to_csv().contains(what));
    assert!(report.notes.iter().any(|note| note.starts_with("sim is a simulator")), "{:?}", report.notes);
    let directory = directory();
    report.write_csv(&directory.path().join("figures.csv")).expect("files");
    assert!(!is_empty(&directory));
    let source = Source::parse(&report.benchmark, &report.to_json().expect("JSON")).expect("a report");
    let page = page::render(&[source]).expect("a page");
    assert!(page.html.contains(what) && page.plots.len() >= report.charts.len().max(1));
}

#[test]
fn sorts_of_all_shapes_are_right_and_have_a_limit() {
    if !has_simulator() {
        return;
    }
    let shapes = ["4", "8", "4+4", "4+8", "8+4", "8+8"].map(|text| text.parse().expect("a shape"));
    let report = sort::run(&sort::Options { shapes: shapes.to_vec(), ..small_sorts() }, &Quiet)
        .expect("all columns are right");
    for shape in shapes {
        for items in [2, 300] {
            let case = format!("{shape}, {items} items");
            for variant in ["device", "CPU, standard library"] {
                assert_series(&report, &case, variant, "rate", 2);
                assert_series(&report, &case, variant, "time", 2);
            }
            assert_series(&report, &case, "device", "memory traffic", 2);
            let rate = summary(&report, &case, "rate");
            let limit = rate.limit.expect("a limit").to;
            assert!(limit.starts_with("device memory, copies of "), "{limit}");
            assert_eq!(rate.beside.expect("a ratio").to, "CPU, standard library");
        }
    }
    // Four passes, each of which reads keys twice and values once, and writes both once.
    let moved = report.series("pairs of 4 + 4 bytes, 300 items", "device", "bytes moved");
    assert_eq!(moved, [300.0 * 80.0; 2]);
    match &report.charts[..] {
        [chart] => match &chart.drawing {
            Drawing::Curves(curves) => assert_eq!((curves.len(), curves[0].points.len()), (6, 2)),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
    assert_is_shown(&report, "pairs of 8 + 4 bytes");
}

#[test]
fn device_memory_has_limits_of_its_own() {
    if !has_simulator() {
        return;
    }
    let report =
        sort::run(&sort::Options { items: vec![1 << 12], ..small_sorts() }, &Quiet).expect("a report");
    let case = "limits of sim (simulated), device memory, 128 KiB";
    for variant in ["random reads of 64 bytes", "copies, read and written"] {
        assert_series(&report, case, variant, "rate", 2);
    }
}

#[test]
fn maps_of_all_widths_are_measured() {
    if !has_simulator() {
        return;
    }
    let pairs = ["8/4", "8/16", "4/4", "4/8", "4/16", "4/4"].map(|text| text.parse().expect("widths"));
    let options =
        map::Options { pairs: pairs.to_vec(), loads: vec![0.8], rounds: 1, batches: vec![8], ..small_maps() };
    let report = map::run(&options, &Quiet).expect("all answers are right");
    for (pairs, slots) in [("8/4", 512), ("8/16", 512), ("4/4", 512), ("4/8", 512), ("4/16", 1024)] {
        for operation in ["bulk insert", "find, hit", "find, miss", "mixed", "erase"] {
            let case = format!("{operation}, {pairs} pairs, load 0.8, {slots} slots");
            assert_series(&report, &case, "device", "rate", 1);
            let limit = summary(&report, &case, "rate").limit.expect("a limit").to;
            let two = operation == "find, miss" || pairs.ends_with("16");
            assert_eq!(limit.contains("2 random reads"), two, "{case}: {limit}");
        }
        let case = format!("find, hit, {pairs} pairs, batches of 8, load 0.8, {slots} slots");
        assert_series(&report, &case, "device", "rate", 1);
        let case = format!("growth, {pairs} pairs, {slots} to {} slots", 2 * slots);
        assert_series(&report, &case, "device", "rate", 1);
    }
}

#[test]
fn maps_of_all_loads_are_right_and_grow() {
    if !has_simulator() {
        return;
    }
    // The last is larger than the map, and the one before it too large for inserts.
    let options = map::Options { loads: vec![0.9, 0.5], batches: vec![4, 100, 512], ..small_maps() };
    let report = map::run(&options, &Quiet).expect("all answers are right");
    // Slots are rounded up to a power of two.
    for load in ["0.5", "0.9"] {
        for operation in ["bulk insert", "find, hit", "find, miss", "mixed", "erase"] {
            let case = format!("{operation}, load {load}, 512 slots");
            for variant in ["device", "CPU form, one thread"] {
                assert_series(&report, &case, variant, "rate", 2);
                assert_series(&report, &case, variant, "time", 2);
            }
            let rate = summary(&report, &case, "rate");
            let limit = rate.limit.expect("a limit").to;
            assert_eq!(limit.contains("2 random reads"), operation == "find, miss", "{limit}");
            assert_eq!(rate.beside.expect("a ratio").to, "CPU form, one thread");
        }
    }
    for operation in ["find, hit", "find, miss", "insert", "erase"] {
        for (batch, is_measured) in [(4, true), (100, operation.starts_with("find")), (512, false)] {
            let case = format!("{operation}, batches of {batch}, load 0.9, 512 slots");
            for variant in ["device", "CPU form, one thread"] {
                for metric in ["rate", "p50 of a batch", "max of a batch"] {
                    let rounds = if is_measured { 2 } else { 0 };
                    assert_series(&report, &case, variant, metric, rounds);
                }
            }
        }
    }
    let loads = report.series("bulk insert, load 0.5, 512 slots", "device", "load");
    assert_eq!(loads, [50.0; 2]);
    let second = report.series("bulk insert, load 0.9, 512 slots", "device", "keys in their second bucket");
    assert!(second.iter().all(|&share| share > 0.0 && share < 50.0), "{second:?}");

    let growth = "growth, 512 to 1024 slots";
    for variant in ["device", "CPU form, one thread"] {
        assert_series(&report, growth, variant, "rate", 2);
        assert_series(&report, growth, variant, "time of the batch that doubles it", 2);
    }
    let full = report.series(growth, "device", "load before it");
    assert!(full.iter().all(|&share| share > 80.0 && share <= 100.0), "{full:?}");
    assert_eq!(summary(&report, growth, "rate").limit.expect("a limit").to, "device memory, copies");
    match &report.charts[..] {
        [chart] => match &chart.drawing {
            Drawing::Curves(curves) => {
                assert_eq!(curves.len(), 5);
                let loads: Vec<f64> = curves[0].points.iter().map(|point| point.0).collect();
                assert_eq!(loads, [50.0, 90.0]);
            }
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
    assert_is_shown(&report, "find, miss");
}

#[test]
fn maps_and_indexes_are_measured_up_to_a_load_of_95_percent() {
    if !has_simulator() {
        return;
    }
    let options = map::Options { loads: vec![0.95, 0.5], batches: vec![4], ..small_maps() };
    let report = map::run(&options, &Quiet).expect("all answers are right");
    for (operation, rounds) in
        [("bulk insert", 2), ("find, hit", 2), ("find, miss", 2), ("erase", 2), ("mixed", 0)]
    {
        // What changes other keys could make the map grow.
        assert_series(&report, &format!("{operation}, load 0.95, 512 slots"), "device", "rate", rounds);
    }
    assert_series(&report, "insert, batches of 4, load 0.95, 512 slots", "device", "rate", 0);
    let loads = report.series("bulk insert, load 0.95, 512 slots", "device", "load");
    assert!(loads.iter().all(|load| *load > 94.0), "it did not grow: {loads:?}");
    match &report.charts[0].drawing {
        Drawing::Curves(curves) => {
            let points: Vec<usize> = curves.iter().map(|curve| curve.points.len()).collect();
            assert_eq!(points, [2, 2, 2, 1, 2]);
        }
        other => panic!("{other:?}"),
    }

    let options = cuckoo::Options { loads: vec![0.95], batches: vec![8], ..small_indexes() };
    let report = cuckoo::run(&options, &Quiet).expect("all answers are right");
    assert_series(&report, "insert, batches of 8, load 0.95, 64 buckets", "device", "rate", 2);
}

#[test]
fn units_are_claimed_exchanged_and_given_back() {
    if !has_simulator() {
        return;
    }
    let report = alloc::run(&small_pools(), &Quiet).expect("all handles are right");
    let mut cases = Vec::new();
    for full in [0, 95] {
        for operation in ["claim", "exchange", "give back"] {
            cases.push(format!("{operation}, 200 units of 128 bytes, pool {full}% full"));
        }
    }
    for operation in ["claim", "give back"] {
        for (runs, length) in [(100, 2), (25, 8), (6, 32)] {
            cases.push(format!("{operation}, {runs} runs of {length} units of 128 bytes"));
        }
        cases.push(format!("{operation}, 200 units of 32 to 512 bytes"));
    }
    for case in &cases {
        assert_series(&report, case, "device", "rate", 2);
        assert_series(&report, case, "device", "time", 2);
        let limit = summary(&report, case, "rate").limit.expect("a limit").to;
        assert!(limit.contains("compare-and-swap"), "{limit}");
    }
    assert_eq!(report.charts.len(), 1);
    assert_is_shown(&report, "exchange");
}

#[test]
fn slab_hashes_of_all_utilisations_are_right() {
    if !has_simulator() {
        return;
    }
    let report = slab::run(&small_slabs(), &Quiet).expect("all answers are right");
    let operations = [
        "build",
        "search, hit",
        "search, miss",
        "mixed, 100% updates",
        "mixed, 40% updates",
        "mixed, 20% updates",
    ];
    for share in [0.3, 0.65] {
        for operation in operations {
            let case = format!("{operation}, utilisation {share}, about 300 pairs");
            for variant in ["64-byte slabs", "128-byte slabs", "CPU, standard library, one thread"] {
                assert_series(&report, &case, variant, "rate", 2);
            }
            for bytes in [64, 128] {
                let rate = summary_of(&report, &case, &format!("{bytes}-byte slabs"), "rate");
                let limit = rate.limit.expect("a limit").to;
                let bound = match operation {
                    "build" => "device memory, compare-and-swap of 8 bytes".to_owned(),
                    _ => format!("device memory, random reads of {bytes} bytes"),
                };
                assert_eq!(limit, bound);
                assert_eq!(rate.beside.expect("a ratio").to, "CPU, standard library, one thread");
            }
        }
        let bulk = format!("bulk build, utilisation {share}, about 300 pairs");
        for variant in ["64-byte slabs", "128-byte slabs"] {
            assert_series(&report, &bulk, variant, "rate", 2);
            assert!(summary_of(&report, &bulk, variant, "rate").limit.is_some());
        }
        let build = format!("build, utilisation {share}, about 300 pairs");
        for variant in ["64-byte slabs", "128-byte slabs"] {
            for reached in report.series(&build, variant, "utilisation") {
                assert!((reached - 100.0 * share).abs() < 12.0, "{variant}: {reached} for {share}");
            }
        }
    }
    // Pairs of 64 bits are cases of their own.
    for operation in operations {
        let case = format!("{operation}, utilisation 0.3, about 300 pairs of 8/8");
        for variant in ["64-byte slabs", "128-byte slabs"] {
            assert_series(&report, &case, variant, "rate", 2);
        }
    }
    let build = "build, utilisation 0.3, about 300 pairs of 8/8";
    for reached in report.series(build, "128-byte slabs", "utilisation") {
        assert!((reached - 30.0).abs() < 12.0, "{reached}");
    }
    assert_eq!(report.charts.len(), 2 * operations.len());
    assert_is_shown(&report, "search, miss");
}

#[test]
fn slab_hashes_are_not_filled_beyond_what_their_slabs_hold() {
    let only_long_chains = |options: &mut slab::Options| {
        (options.utilisations, options.slab_bytes) = (vec![0.75], vec![64]);
    };
    let refused = refusal(small_slabs(), only_long_chains, slab::run);
    assert!(refused.contains("3 pairs of 8/8") && refused.contains("--utilisation"), "{refused}");
    if !has_simulator() {
        return;
    }
    let options =
        slab::Options { items: vec![100], utilisations: vec![0.6, 0.75], rounds: 1, ..small_slabs() };
    let report = slab::run(&options, &Quiet).expect("all answers are right");
    let case = |pairs: &str, share: f64| format!("search, hit, utilisation {share}, about 100 pairs{pairs}");
    for (pairs, share, variant, rounds) in [
        ("", 0.75, "64-byte slabs", 1),
        (" of 8/8", 0.6, "64-byte slabs", 1),
        (" of 8/8", 0.75, "64-byte slabs", 0),
        (" of 8/8", 0.75, "128-byte slabs", 1),
    ] {
        assert_series(&report, &case(pairs, share), variant, "rate", rounds);
    }
    let told = report.notes.iter().find(|note| note.contains("left out: 0.75")).expect("a note");
    assert!(told.contains("slabs of 64 bytes") && told.contains("8/8"), "{told}");
    assert!(report.charts.iter().all(|chart| chart.to_svg().is_ok()));
}

#[test]
fn indexes_are_right_in_batches_of_all_sizes() {
    if !has_simulator() {
        return;
    }
    // The last is larger than the index.
    let options = cuckoo::Options { batches: vec![8, 200, 1000], ..small_indexes() };
    let report = cuckoo::run(&options, &Quiet).expect("all answers are right");
    for operation in ["insert", "search, hit", "search, miss", "delete"] {
        // Buckets are rounded up to a power of two.
        for (batch, rounds) in [(8, 2), (200, 2), (1000, 0)] {
            let case = format!("{operation}, batches of {batch}, load 0.8, 64 buckets");
            for variant in ["device", "CPU, one thread"] {
                assert_series(&report, &case, variant, "rate", rounds);
                assert_series(&report, &case, variant, "time of a batch", rounds);
            }
        }
        let rate = summary(&report, &format!("{operation}, batches of 8, load 0.8, 64 buckets"), "rate");
        let limit = rate.limit.expect("a limit").to;
        assert_eq!(limit.contains("2 random reads"), operation.starts_with("search"), "{limit}");
        assert_eq!(rate.beside.expect("a ratio").to, "CPU, one thread");
    }
    assert_eq!(report.charts.len(), 1);
    assert_is_shown(&report, "search, miss");
}

#[test]
fn nonsense_is_refused_and_the_message_says_what_to_give() {
    let sorts = |change: &dyn Fn(&mut sort::Options)| refusal(small_sorts(), change, sort::run);
    let maps = |change: &dyn Fn(&mut map::Options)| refusal(small_maps(), change, map::run);
    let pools = |change: &dyn Fn(&mut alloc::Options)| refusal(small_pools(), change, alloc::run);
    let slabs = |change: &dyn Fn(&mut slab::Options)| refusal(small_slabs(), change, slab::run);
    let graphs = |change: &dyn Fn(&mut graph::Options)| refusal(small_graphs(), change, graph::run);
    let trees = |change: &dyn Fn(&mut ordered::Options)| refusal(small_ordered_maps(), change, ordered::run);
    let indexes = |change: &dyn Fn(&mut cuckoo::Options)| refusal(small_indexes(), change, cuckoo::run);
    let told = [
        (pools(&|options| options.device = DeviceChoice::Cpu), "--device cuda:0"),
        (pools(&|options| options.units = 1), "--units 1000000"),
        (pools(&|options| options.unit_bytes = 100), "--unit-bytes 128"),
        (pools(&|options| options.full = vec![1.0]), "--full 0,0.95"),
        (pools(&|options| options.exchanges = 0), "--exchanges 16"),
        (pools(&|options| options.units = 1 << 28), "fewer --units"),
        (maps(&|options| options.pairs = Vec::new()), "--pairs 8/8"),
        (slabs(&|options| options.rounds = 0), "--rounds 3"),
        (slabs(&|options| options.items = vec![1]), "--items 2^22"),
        (slabs(&|options| options.utilisations = vec![0.95]), "--utilisation 0.5"),
        (slabs(&|options| options.slab_bytes = vec![32]), "--slab-bytes 64"),
        (indexes(&|options| options.device = DeviceChoice::Cpu), "--device cuda:0"),
        (indexes(&|options| options.buckets = vec![1]), "--buckets 2^25"),
        (indexes(&|options| options.loads = vec![0.96]), "--load 0.8"),
        (indexes(&|options| options.batches = vec![]), "--batch 2^24"),
        (graphs(&|options| options.device = DeviceChoice::Cpu), "--device cuda:0"),
        (graphs(&|options| options.rounds = 0), "--rounds 3"),
        (graphs(&|options| options.vertices = vec![15]), "--vertices 2^20"),
        (graphs(&|options| options.vertices = vec![]), "--vertices 2^20"),
        (graphs(&|options| options.shapes = vec![]), "--graphs rmat,road"),
        (graphs(&|options| options.batches = vec![]), "--batch 2^20"),
        (trees(&|options| options.device = DeviceChoice::Cpu), "--device cuda:0"),
        (trees(&|options| options.items = vec![15]), "--items 45000000"),
        (trees(&|options| options.pairs = vec![]), "--pairs 4/4,8/8"),
        (trees(&|options| options.batches = vec![0]), "--batch 2^20"),
        (sorts(&|options| options.device = DeviceChoice::Cpu), "--device cuda:0"),
        (sorts(&|options| options.rounds = 0), "--rounds 3"),
        (sorts(&|options| options.items = vec![]), "--items 2^20"),
        (sorts(&|options| options.items = vec![1]), "--items 2^20"),
        (sorts(&|options| options.items = vec![(1 << 30) + 1]), "--items 2^20"),
        (sorts(&|options| options.shapes = vec![]), "--shapes 8+4"),
        (maps(&|options| options.device = DeviceChoice::Cpu), "--device cuda:0"),
        (maps(&|options| options.rounds = 0), "--rounds 3"),
        (maps(&|options| options.items = vec![255]), "--items 2^20"),
        (maps(&|options| options.loads = vec![]), "--load 0.5"),
        (maps(&|options| options.loads = vec![0.96]), "--load 0.5"),
        (maps(&|options| options.loads = vec![f64::NAN]), "--load 0.5"),
        (maps(&|options| options.batches = vec![0]), "--batch 4096"),
    ];
    for (message, advice) in told {
        assert!(message.contains(advice), "{message}");
    }
    assert!("16".parse::<sort::Shape>().expect_err("too long").contains("8+4"));
}

#[test]
fn ordered_maps_of_all_widths_are_right_and_have_a_limit() {
    if !has_simulator() {
        return;
    }
    // The last batch is larger than the map.
    let options = ordered::Options { batches: vec![16, 7, 61], ..small_ordered_maps() };
    let report = ordered::run(&options, &Quiet).expect("all answers are right");
    let operations = [
        "find, unsorted",
        "find, sorted",
        "range of 8",
        "successor",
        "insert",
        "erase",
        "first insert after a snapshot",
        "find at a snapshot, unsorted",
        "find at a snapshot, sorted",
        "half inserts, half ranges of 8",
        "range of 8 at a snapshot",
    ];
    for pairs in ["4/4", "8/8"] {
        for operation in ["kernel-insert", "kernel-insert, opened and finished", "kernel-find"] {
            for (batch, rounds) in [(7, 2), (16, 2), (61, 0)] {
                let case = format!("{operation}, {pairs} pairs, batches of {batch}, 60 pairs in the map");
                assert_series(&report, &case, "device", "rate", rounds);
                assert_series(&report, &case, "CPU, one thread", "rate", 0);
            }
        }
        for operation in operations {
            for (batch, rounds) in [(7, 2), (16, 2), (61, 0)] {
                let case = format!("{operation}, {pairs} pairs, batches of {batch}, 60 pairs in the map");
                for variant in ["device", "CPU, one thread"] {
                    assert_series(&report, &case, variant, "rate", rounds);
                    assert_series(&report, &case, variant, "time of a batch", rounds);
                }
                if rounds > 0 {
                    let rate = summary(&report, &case, "rate");
                    let limit = rate.limit.expect("a limit").to;
                    assert!(limit.ends_with("random reads of 128 bytes"), "{limit}");
                    assert_eq!(limit.contains("2 random reads"), pairs == "8/8", "{limit}");
                    assert_eq!(rate.beside.expect("a ratio").to, "CPU, one thread");
                }
            }
        }
        for build in ["build, unsorted", "build of host memory, unsorted", "build of host memory, sorted"] {
            let case = format!("{build}, {pairs} pairs, 60 pairs in the map");
            for variant in ["device", "CPU, one thread"] {
                assert_series(&report, &case, variant, "rate", 2);
            }
            assert!(summary(&report, &case, "rate").limit.is_none());
        }
        let case = format!("build, unsorted, {pairs} pairs, 60 pairs in the map");
        assert_series(&report, &case, "device", "memory a pair", 2);
        assert_series(&report, &case, "device", "memory a pair of a snapshot, 10 % changed", 2);
        let case = format!("build, sorted, {pairs} pairs, 60 pairs in the map");
        assert_series(&report, &case, "device", "rate", 2);
    }
    match &report.charts[..] {
        [four, _eight] => match &four.drawing {
            Drawing::Curves(curves) => assert_eq!((curves.len(), curves[0].points.len()), (14, 2)),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
    assert_is_shown(&report, "half inserts, half ranges of 8");
}

#[test]
fn graphs_of_all_shapes_are_right_beside_the_cpu() {
    if !has_simulator() {
        return;
    }
    // The last batch is larger than both graphs.
    let options = graph::Options { batches: vec![16, 5, 10_000], ..small_graphs() };
    let report = graph::run(&options, &Quiet).expect("all answers are right");
    let operations = [
        "delete edges",
        "insert edges",
        "edges exist",
        "degrees",
        "sample 10, without replacement",
        "sample 10, with replacement",
        "delete vertices",
    ];
    // Vertices of R-MAT graphs are rounded up to a power of two.
    for (shape, vertices) in [("rmat", 64), ("road", 40)] {
        for operation in operations {
            for (batch, rounds) in [(5, 2), (16, 2), (10_000, 0)] {
                let case = format!("{operation}, {shape}, batches of {batch}, {vertices} vertices");
                for variant in ["device", "CPU, one thread"] {
                    assert_series(&report, &case, variant, "rate", rounds);
                    assert_series(&report, &case, variant, "time", rounds);
                }
                if rounds > 0 {
                    let rate = summary(&report, &case, "rate");
                    let limit = rate.limit.map(|limit| limit.to);
                    let bound =
                        operation.ends_with(" edges").then_some("device memory, 2 random reads of 64 bytes");
                    assert_eq!(limit.as_deref(), bound, "{case}");
                    assert_eq!(rate.beside.expect("a ratio").to, "CPU, one thread");
                }
            }
        }
        // What only device memory has.
        for (operation, has_limit) in [
            ("edges exist, in device memory", true),
            ("degrees, in device memory", true),
            ("10 neighbours, without replacement", true),
            ("10 neighbours, with replacement", true),
            ("sample 10, without replacement, in device memory", false),
            ("sample 10, with replacement, in device memory", false),
            ("sample 10 and 10, without replacement, in device memory", false),
        ] {
            for batch in [5, 16] {
                let case = format!("{operation}, {shape}, batches of {batch}, {vertices} vertices");
                assert_series(&report, &case, "device", "rate", 2);
                assert_series(&report, &case, "CPU, one thread", "rate", 0);
                assert_eq!(summary(&report, &case, "rate").limit.is_some(), has_limit, "{case}");
            }
        }
        for whole in ["build", "CSR export", "triangles"] {
            let case = format!("{whole}, {shape}, {vertices} vertices");
            for variant in ["device", "CPU, one thread"] {
                assert_series(&report, &case, variant, "rate", 2);
            }
            let limit = summary(&report, &case, "rate").limit.map(|limit| limit.to);
            assert_eq!(limit.as_deref(), (whole == "CSR export").then_some("device memory, copies"));
        }
        let case = format!("build, {shape}, {vertices} vertices");
        assert_series(&report, &case, "device", "memory an edge", 2);
    }
    // A graph with hubs has triangles.
    let triangles = report.series("triangles, rmat, 64 vertices", "device", "triangles");
    assert!(triangles[0] > 100.0 && triangles[0] == triangles[1], "{triangles:?}");
    assert_is_shown(&report, "sample 10, with replacement");
}

#[test]
fn an_interruption_ends_a_run() {
    if !has_simulator() {
        return;
    }
    for patience in [0, 3, 9] {
        let stopped = sort::run(&small_sorts(), &Impatient::after(patience));
        assert!(matches!(stopped, Err(BenchError::Interrupted)), "{patience}");
        let stopped = [
            map::run(&small_maps(), &Impatient::after(patience)),
            alloc::run(&small_pools(), &Impatient::after(patience)),
            slab::run(&small_slabs(), &Impatient::after(patience)),
            cuckoo::run(&small_indexes(), &Impatient::after(patience)),
            ordered::run(&small_ordered_maps(), &Impatient::after(patience)),
            graph::run(&small_graphs(), &Impatient::after(patience)),
        ];
        for stopped in stopped {
            assert!(matches!(stopped, Err(BenchError::Interrupted)), "{patience}");
        }
    }
}
