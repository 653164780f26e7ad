//! The tables and figures of the graph's paper.

#[path = "common/impatient.rs"]
mod impatient;
#[path = "common/refusal.rs"]
mod refusal;

use warpkeep_bench::gpu::graph::Shape;
use warpkeep_bench::paper::graph::{Options, Part, run};
use warpkeep_bench::report::Report;
use warpkeep_bench::{BenchError, Quiet};
use warpkeep_device::{DeviceChoice, devices};

use impatient::Impatient;
use refusal::refusal;

fn has_simulator() -> bool {
    if let Some(why) = &devices()[1].unavailable {
        use std::io::Write as _;
        writeln!(std::io::stdout().lock(), "SKIPPED: {why}").expect("standard output");
        return false;
    }
    true
}

/// An error unless there is a figure for each round.
fn assert_series(report: &Report, case: &str, variant: &str, metric: &str, rounds: usize) {
    let series = report.series(case, variant, metric);
    assert!(
        series.len() == rounds && series.iter().all(|value| *value > 0.0),
        "{case}, {variant}: {series:?}"
    );
}

fn small(parts: Vec<Part>) -> Options {
    Options { parts, rounds: 1, ..Options::on(DeviceChoice::Sim) }
}

const OURS: &str = "ours";
const PAPER: &str = "the paper's layout";

fn assert_both(report: &Report, case: &str, metric: &str) {
    for variant in [OURS, PAPER] {
        assert_series(report, case, variant, metric, 1);
    }
}

#[test]
fn all_tables_and_figures_are_measured_beside_the_papers_layout() {
    if !has_simulator() {
        return;
    }
    let report = run(&small(Vec::new()), &Quiet).expect("all answers are right");
    for shape in ["rmat, 64 vertices", "road, 64 vertices"] {
        for (part, what) in [
            ("table 5.2", "batches of 32"),
            ("table 5.3", "batches of 32"),
            ("table 5.4", "batches of 32"),
            ("table 5.5", "all edges"),
            ("table 5.6", "batches of 32"),
            ("table 5.7", "triangles"),
        ] {
            assert_both(&report, &format!("{part}: {what}, {shape}"), "rate");
        }
        let sorted = format!("table 5.8: sorting, {shape}");
        assert_series(&report, &sorted, "sorting all edges by source and target", "rate", 1);
        let five = format!("table 5.9: 5 batches of 32, {shape}");
        assert_both(&report, &five, "time");
        assert_series(&report, &five, "ours, from the changed edges", "time", 1);
        // The paper's time is that of batches of 2^22.
        let published =
            report.rows.iter().filter(|row| row.case == five && row.variant.starts_with("published"));
        assert_eq!(published.count(), 0, "{five}");
    }
    // The graph of a road network stands for one of the paper's.
    let published = "published, road_usa of 23947347 vertices (TITAN V)";
    assert_eq!(report.series("table 5.7: triangles, road, 64 vertices", published, "time"), [66_200.0]);
    for figure in ["5.2", "5.3"] {
        let case = |chains: &str| format!("figure {figure}: mean degree 16{chains}, rmat, 64 vertices");
        assert_series(&report, &case(""), OURS, "rate", 1);
        for chains in [", chains of 0.3", ", chains of 5"] {
            assert_series(&report, &case(chains), PAPER, "rate", 1);
        }
        // Longer chains are fuller, and take less memory.
        let of = |chains, metric| report.series(&case(chains), PAPER, metric)[0];
        assert!(of(", chains of 0.3", "utilisation") < of(", chains of 5", "utilisation"));
        assert!(of(", chains of 0.3", "memory an edge") > of(", chains of 5", "memory an edge"));
    }
}

#[test]
fn batches_of_the_paper_have_its_numbers_beside_them() {
    if !has_simulator() {
        return;
    }
    let options = Options {
        shapes: vec![Shape::Road],
        vertices: 16,
        batches: vec![1 << 16],
        ..small(vec![Part::table("5.3").expect("a table")])
    };
    let report = run(&options, &Quiet).expect("all answers are right");
    let case = "table 5.3: batches of 65536, road, 16 vertices";
    assert_both(&report, case, "rate");
    assert_eq!(report.series(case, "published, mean of graphs (TITAN V)", "rate"), [640.63e6]);
}

#[test]
fn what_is_asked_for_twice_is_measured_once() {
    if !has_simulator() {
        return;
    }
    let [sorting, insertion] = ["5.8", "5.2"].map(|number| Part::table(number).expect("a table"));
    let chains = Part::figure("5.2").expect("a figure");
    let parts = vec![sorting, chains, insertion, sorting, chains];
    let shapes = vec![Shape::Road, Shape::Road];
    let options = Options { shapes, ..small(parts) };
    let report = run(&options, &Quiet).expect("all answers are right");
    let sorted = "sorting all edges by source and target";
    assert_series(&report, "table 5.8: sorting, road, 64 vertices", sorted, "rate", 1);
    assert_both(&report, "table 5.2: batches of 32, road, 64 vertices", "rate");
    assert_series(&report, "figure 5.2: mean degree 16, rmat, 64 vertices", OURS, "rate", 1);
    // All tables of a graph, and then the figures.
    let cases: Vec<&str> = report.rows.iter().map(|row| &row.case[..9]).collect();
    assert!(
        cases.is_sorted_by_key(|case| ["table 5.8", "table 5.2", "figure 5."]
            .iter()
            .position(|of| of == case))
    );
}

#[test]
fn nonsense_is_refused_and_an_interruption_ends_a_run() {
    let refused = |change: &dyn Fn(&mut Options)| refusal(small(Vec::new()), change, run);
    assert!(refused(&|options| options.device = DeviceChoice::Cpu).contains("--device cuda:0"));
    assert!(refused(&|options| options.rounds = 0).contains("--rounds 3"));
    assert!(refused(&|options| options.vertices = 15).contains("--vertices 2^20"));
    assert!(refused(&|options| options.shapes = vec![]).contains("--graphs road,orkut"));
    assert!(refused(&|options| options.batches = vec![0]).contains("--batch"));
    for number in ["5.1", "5.10", "", "seven"] {
        assert!(Part::table(number).is_err() && Part::figure(number).is_err(), "{number}");
    }
    assert!(Part::figure("5.9").expect_err("a table").contains("5.2, 5.3"));
    if !has_simulator() {
        return;
    }
    for patience in [0, 4, 30] {
        let stopped = run(&small(Vec::new()), &Impatient::after(patience));
        assert!(matches!(stopped, Err(BenchError::Interrupted)), "{patience}");
    }
}
