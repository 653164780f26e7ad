//! The load factor benchmark at a size that takes a moment.

use warpkeep::Geometry;
use warpkeep_bench::chart::Drawing;
use warpkeep_bench::load_factor::{Options, all_geometries, run};
use warpkeep_bench::{BenchError, Quiet};

const CASE: &str = "load factor by geometry";

fn small() -> Options {
    Options { items: 60_000, repeats: 2, ..Options::default() }
}

#[test]
fn every_geometry_fills_up_and_more_choices_fill_it_further() {
    let report = run(&small(), &Quiet).expect("memory");
    let geometries = all_geometries();
    assert!(geometries.len() >= 8, "{geometries:?}");
    let first_failure = |geometry: &str| {
        let series = report.series(CASE, geometry, "first failure");
        assert_eq!(series.len(), 2, "{geometry}");
        assert!(series.iter().all(|load| (10.0..100.0).contains(load)), "{geometry}: {series:?}");
        series[0].min(series[1])
    };
    for geometry in &geometries {
        first_failure(&geometry.to_string());
        let grown = report.series(CASE, &format!("{geometry}, grown"), "before a growth");
        assert!(!grown.is_empty() && grown.iter().all(|&load| load > 10.0), "{geometry}: {grown:?}");
    }
    // The paper: more hash locations and more levels give higher load factors.
    assert!(first_failure("2L-2H-8S") > 70.0);
    assert!(first_failure("1L-4H-8S") > first_failure("4L-1H-8S"));
    assert_eq!(report.series(CASE, "2L-2H-8S, published (section 4.2, figure 7)", "first failure"), [92.0]);
    for chart in &report.charts {
        let Drawing::Curves(curves) = &chart.drawing else { panic!("{chart:?}") };
        assert!(curves.len() >= geometries.len());
        for curve in curves {
            assert!(curve.points.windows(2).all(|pair| pair[0].0 < pair[1].0), "{}", curve.name);
            assert!(curve.points.iter().all(|point| (0.0..=1.0).contains(&point.1)), "{}", curve.name);
        }
        assert!(chart.to_svg().expect("a picture").contains("2L-2H-8S"));
    }
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
    let refused = |options| matches!(run(&options, &Quiet), Err(BenchError::Invalid(_)));
    assert!(refused(Options { items: 0, ..small() }));
    assert!(refused(Options { items: 1 << 34, ..small() }));
    assert!(refused(Options { load: 1.5, ..small() }));
    assert!(refused(Options { repeats: 0, ..small() }));
}
