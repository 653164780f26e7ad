//! The load factor benchmark at a size that takes a moment.

#[path = "common/refusal.rs"]
mod refusal;

use warpkeep::Geometry;
use warpkeep_bench::Quiet;
use warpkeep_bench::chart::Drawing;
use warpkeep_bench::load_factor::{Options, all_geometries, run};

use refusal::refusal;

const CASE: &str = "load factor by geometry";

fn small() -> Options {
    Options { items: 60_000, repeats: 2, ..Options::default() }
}

#[test]
fn every_geometry_fills_up_and_more_choices_fill_it_further() {
    let report = run(&small(), &Quiet).expect("memory");
    let geometries = all_geometries();
    assert!(geometries.len() >= 8, "{geometries:?}");
    let highest = |geometry: &str| {
        let series = report.series(CASE, geometry, "highest");
        assert_eq!(series.len(), 2, "{geometry}");
        assert!(series.iter().all(|load| (10.0..=100.0).contains(load)), "{geometry}: {series:?}");
        // Either a key found no place, or all items did.
        let failures = report.series(CASE, geometry, "first failure");
        assert!(failures.iter().all(|load| series.contains(load)), "{geometry}: {failures:?}");
        let all = format!("{geometry}: all ");
        assert_eq!(2 - failures.len(), report.notes.iter().filter(|note| note.starts_with(&all)).count());
        series[0].min(series[1])
    };
    for geometry in &geometries {
        highest(&geometry.to_string());
        let grown = report.series(CASE, &format!("{geometry}, grown"), "before a growth");
        assert!(!grown.is_empty() && grown.iter().all(|&load| load > 10.0), "{geometry}: {grown:?}");
    }
    // The paper: more hash locations and more levels give higher load factors.
    assert!(highest("2L-2H-8S") > 70.0);
    assert!(highest("1L-4H-8S") > highest("4L-1H-8S"));
    assert_eq!(report.series(CASE, "2L-2H-8S, published (section 4.2, figure 7)", "first failure"), [92.0]);
    let [failures, grown] = &report.charts[..] else { panic!("{:?}", report.charts) };
    let Drawing::Bars(bars) = &failures.drawing else { panic!("{failures:?}") };
    // Each geometry's, and the published one; the highest first.
    assert_eq!(bars.len(), geometries.len() + 1);
    assert!(bars.windows(2).all(|pair| pair[0].value >= pair[1].value), "{bars:?}");
    let Drawing::Curves(curves) = &grown.drawing else { panic!("{grown:?}") };
    assert!(curves.len() >= geometries.len());
    for curve in curves {
        assert!(curve.points.windows(2).all(|pair| pair[0].0 < pair[1].0), "{}", curve.name);
        assert!(curve.points.iter().all(|point| (0.0..=1.0).contains(&point.1)), "{}", curve.name);
    }
    assert!(report.charts.iter().all(|chart| chart.to_svg().expect("a picture").contains("2L-2H-8S")));
    assert!(report.notes.iter().any(|note| note.contains("figure 13")));
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let options = Options { geometries: vec![Geometry::default()], repeats: 1, ..small() };
    let once = run(&options, &Quiet).expect("memory");
    let twice = run(&options, &Quiet).expect("memory");
    assert_eq!(once.charts, twice.charts);
    let other = run(&Options { seed: 2, ..options }, &Quiet).expect("memory");
    assert_ne!(once.charts, other.charts);
}

#[test]
fn nonsense_is_refused() {
    let refused = |change: &dyn Fn(&mut Options)| refusal(small(), change, run);
    refused(&|options| options.items = 0);
    refused(&|options| options.items = 1 << 34);
    refused(&|options| options.load = 1.5);
    refused(&|options| options.repeats = 0);
}
