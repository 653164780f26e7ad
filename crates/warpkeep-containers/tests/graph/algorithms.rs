//! Algorithms beside plain ones on a map of sets.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use warpkeep_containers::{ContainerError, Edge, Graph, GraphOptions};
use warpkeep_device::sim::Seeded;
use warpkeep_device::{Device, Mode};

use crate::properties::device;

type Sets = BTreeMap<u32, BTreeSet<u32>>;

/// The same graph on the simulator and on the CPU, and as a map of sets.
fn graphs(device: &Device, options: &GraphOptions, edges: &[Edge]) -> ([Graph; 2], Sets) {
    let graphs = [Graph::new(device, options).unwrap(), Graph::on_cpu(options)];
    let mut sets = Sets::new();
    for graph in &graphs {
        graph.insert_edges(edges).unwrap();
    }
    for edge in graphs[1].csr().unwrap().edges() {
        sets.entry(edge.source).or_default().insert(edge.target);
    }
    (graphs, sets)
}

/// Distances by relaxing all edges until nothing changes.
fn distances(sets: &Sets, vertices: usize, sources: &[u32]) -> Vec<u32> {
    let mut levels = vec![u32::MAX; vertices];
    sources
        .iter()
        .filter(|source| (**source as usize) < vertices)
        .for_each(|source| levels[*source as usize] = 0);
    loop {
        let before = levels.clone();
        for (source, targets) in sets {
            for target in targets {
                let through = levels[*source as usize].saturating_add(1);
                levels[*target as usize] = levels[*target as usize].min(through);
            }
        }
        if levels == before {
            return levels;
        }
    }
}

/// The smallest vertex of each component, by spreading it until nothing changes.
fn smallest(sets: &Sets, vertices: usize) -> Vec<u32> {
    let mut labels: Vec<u32> = (0..vertices as u32).collect();
    loop {
        let before = labels.clone();
        for (source, targets) in sets {
            for target in targets {
                let label = labels[*source as usize].min(labels[*target as usize]);
                (labels[*source as usize], labels[*target as usize]) = (label, label);
            }
        }
        if labels == before {
            return labels;
        }
    }
}

fn triangles(sets: &Sets) -> u64 {
    let mut count = 0;
    for (one, targets) in sets {
        for two in targets.iter().filter(|two| *two > one) {
            count += targets.iter().filter(|three| *three > two && sets[two].contains(three)).count();
        }
    }
    count as u64
}

fn ranks(sets: &Sets, vertices: usize, rounds: u32) -> Vec<f64> {
    let mut ranks = vec![1.0 / vertices as f64; vertices];
    for _ in 0..rounds {
        let mut sums = vec![0.0; vertices];
        for (vertex, rank) in ranks.iter().enumerate() {
            match sets.get(&(vertex as u32)) {
                Some(targets) => {
                    targets.iter().for_each(|target| sums[*target as usize] += rank / targets.len() as f64);
                }
                None => sums.iter_mut().for_each(|sum| *sum += rank / vertices as f64),
            }
        }
        ranks = sums.iter().map(|sum| 0.15 / vertices as f64 + 0.85 * sum).collect();
    }
    ranks
}

fn check(device: &Device, options: &GraphOptions, edges: &[Edge], sources: &[u32]) {
    let (graphs, sets) = graphs(device, options, edges);
    let vertices = graphs[0].vertex_count() as usize;
    let right = ranks(&sets, vertices, 12);
    let mut all = Vec::new();
    for graph in &graphs {
        assert_eq!(graph.bfs(sources).unwrap(), distances(&sets, vertices, sources));
        assert_eq!(graph.components().unwrap(), smallest(&sets, vertices));
        if *options == GraphOptions::default().undirected() {
            assert_eq!(graph.triangles().unwrap(), triangles(&sets));
        }
        let found = graph.pagerank(0.85, 12).unwrap();
        for (found, right) in found.iter().zip(&right) {
            assert!((found - right).abs() < 1e-12, "{found} and not {right}");
        }
        all.push(found);
    }
    assert_eq!(all[0], all[1], "both forms have the same ranks");
}

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
        let options = if undirected { options.undirected() } else { options.keep_loops() };
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

#[test]
fn paths_hubs_and_cliques() {
    let options = GraphOptions::default().undirected();
    // A path whose numbers jump, a star with a long list, and a clique beside both.
    let path = (0..60_u32).map(|i| Edge::new(i * 37 % 61, (i + 1) * 37 % 61));
    let star = (0..300_u32).map(|i| Edge::new(100, 101 + i));
    let clique = (0..20_u32).flat_map(|i| (0..i).map(move |j| Edge::new(500 + i, 500 + j)));
    // Two hubs that have all vertices of the star in common, so that lists of very different lengths meet.
    let second = (0..300_u32).step_by(40).map(|i| Edge::new(99, 101 + i)).chain([Edge::new(99, 100)]);
    let edges: Vec<Edge> = path.chain(star).chain(clique).chain(second).collect();
    check(&device(), &options, &edges, &[0]);
    let (graphs, _) = graphs(&device(), &options, &edges);
    assert_eq!(graphs[0].triangles().unwrap(), 20 * 19 * 18 / 6 + 8);
}

#[test]
fn an_empty_graph_and_a_directed_one_have_their_answers() {
    let (graphs, _) = graphs(&device(), &GraphOptions::default(), &[]);
    for graph in &graphs {
        assert!(graph.bfs(&[0, 7]).unwrap().is_empty() && graph.components().unwrap().is_empty());
        assert!(graph.pagerank(0.85, 3).unwrap().is_empty());
        let error = graph.triangles().unwrap_err();
        assert!(matches!(error, ContainerError::Directed { call: "triangles" }), "{error}");
        graph.insert_edges(&[Edge::new(0, 1)]).unwrap();
        let ranks = graph.pagerank(f64::NAN, 5).unwrap();
        assert_eq!(ranks, [0.5, 0.5]);
    }
}
