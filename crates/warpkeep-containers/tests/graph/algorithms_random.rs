//! Algorithms on random graphs and in many schedules.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use warpkeep_containers::{Edge, Graph, GraphOptions};
use warpkeep_device::sim::Seeded;
use warpkeep_device::{Device, Mode};

use crate::algorithms::check;
use crate::device;

proptest! {
    #![proptest_config(Config { cases: 24, rng_seed: RngSeed::Fixed(8), failure_persistence: None, ..Config::default() })]

    #[test]
    fn random_graphs_agree_with_plain_algorithms(
        pairs in prop::collection::vec((0..40_u32, 0..60_u32), 0..200),
        sources in prop::collection::vec(0..70_u32, 0..4),
        undirected in any::<bool>(),
    ) {
        let edges: Vec<Edge> = pairs.iter().map(|(source, target)| Edge::new(*source, *target)).collect();
        let options = GraphOptions::default();
        let options = match (undirected, sources.len() % 2) {
            (true, 0) => options.undirected().keep_loops(),
            (true, _) => options.undirected(),
            (false, _) => options.keep_loops(),
        };
        check(&device(), &options, &edges, &sources);
    }
}

#[test]
fn every_schedule_finds_the_same() {
    let edges: Vec<Edge> = (0..120_u32).map(|i| Edge::new(i * 7 % 37, i * i % 41)).collect();
    for seed in 0..6 {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        let options = GraphOptions::default();
        let options = if seed % 2 == 0 { options.undirected() } else { options };
        check(&device, &options, &edges, &[3, 5]);
    }
}

#[test]
fn components_that_meet_in_one_vertex_at_once_are_all_joined() {
    // All edges of the largest vertex try to give it another parent, and one of them does.
    let edges: Vec<Edge> = (0..30).map(|i| Edge::new(50, i)).collect();
    for seed in 0..6 {
        let mode = Mode::Seeded(Seeded { switch_chance: 500, ..Seeded::new(seed) });
        let graph = Graph::new(&Device::simulated(mode).unwrap(), &GraphOptions::default()).unwrap();
        graph.insert_edges(&edges).unwrap();
        let components = graph.components().unwrap();
        assert!((0..30).chain([50]).all(|vertex| components[vertex] == 0), "{components:?}");
        assert_eq!(components[40], 40);
    }
}
