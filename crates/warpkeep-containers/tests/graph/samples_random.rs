//! Samples of random graphs: what may be chosen, in all schedules, and what is refused.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use warpkeep_containers::{ContainerError, Edge, Graph, GraphOptions, GraphSample, SampleOptions};
use warpkeep_device::{Device, Mode};

use crate::device;
use crate::samples::{agreed, both, kinds};

fn check_shape(sample: &GraphSample, edges: &BTreeMap<(u32, u32), Edge>, fanouts: &[u32], repeats: bool) {
    // First occurrence: each vertex has one number, and numbers are in the order of the columns.
    let owner = |number: usize| sample.batch.get(number).copied().unwrap_or(0);
    let keys: BTreeSet<(u32, u32)> =
        sample.vertices.iter().enumerate().map(|(at, vertex)| (owner(at), *vertex)).collect();
    assert_eq!(keys.len(), sample.vertices.len());
    let mut reached = sample.vertices_per_hop[0] as u32;
    for col in &sample.cols {
        assert!(*col <= reached);
        reached = reached.max(col + 1);
    }
    assert_eq!(reached as usize, sample.vertices.len());
    assert_eq!(sample.vertices_per_hop.iter().sum::<u64>(), sample.vertices.len() as u64);
    assert_eq!(sample.edges_per_hop.iter().sum::<u64>(), sample.rows.len() as u64);
    assert_eq!(
        (sample.vertices_per_hop.len(), sample.edges_per_hop.len()),
        (fanouts.len() + 1, fanouts.len())
    );
    // Edges are edges of the graph, with their data, and no vertex has more than the fan-out of its hop.
    let mut of_row: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for at in 0..sample.rows.len() {
        let (row, col) = (sample.rows[at] as usize, sample.cols[at] as usize);
        let edge = edges[&(sample.vertices[row], sample.vertices[col])];
        assert_eq!((sample.ids[at], sample.times[at]), (edge.id, edge.time));
        assert_eq!(owner(row), owner(col));
        of_row.entry(sample.rows[at]).or_default().push(sample.cols[at]);
    }
    let mut begin = 0;
    for (hop, fanout) in fanouts.iter().enumerate() {
        let end = begin + sample.vertices_per_hop[hop];
        for (row, cols) in of_row.range(begin as u32..end as u32) {
            assert!(cols.len() <= *fanout as usize, "vertex {row} has {} edges", cols.len());
            let different: BTreeSet<&u32> = cols.iter().collect();
            assert!(repeats || different.len() == cols.len(), "an edge was chosen twice");
        }
        begin = end;
    }
}

proptest! {
    #![proptest_config(Config { cases: 24, rng_seed: RngSeed::Fixed(5), failure_persistence: None, ..Config::default() })]

    #[test]
    fn samples_are_samples_and_both_forms_agree(
        pairs in prop::collection::vec((0..12_u32, 0..40_u32, 0..20_i64, -2..20_i32), 0..250),
        seeds in prop::collection::vec((prop_oneof![0..45_u32, Just(u32::MAX)], -1..22_i64), 0..12),
        fanouts in prop::collection::vec(0..6_u32, 0..4),
        (seed, window) in (any::<u64>(), 0..12_u64),
    ) {
        let edges: Vec<Edge> = pairs
            .iter()
            .zip(0..)
            .map(|((source, target, time, weight), id)| {
                Edge::new(*source, *target).time(*time).weight(*weight as f32 / 3.0).id(id)
            })
            .collect();
        let graphs = both(&device(), &edges);
        let stored: BTreeMap<(u32, u32), Edge> =
            graphs[1].edges().unwrap().into_iter().map(|edge| ((edge.source, edge.target), edge)).collect();
        let (vertices, times): (Vec<u32>, Vec<i64>) = seeds.into_iter().unzip();
        for (number, kind) in kinds(&fanouts, seed).into_iter().enumerate() {
            let sample = agreed(&graphs, &vertices, None, &kind);
            check_shape(&sample, &stored, &fanouts, number == 1 || number == 3);
            for (kind, least, most) in [
                (kind.clone(), i64::MIN, 0),
                (kind.clone().before(), i64::MIN, -1),
                (kind.clone().window(window), -(window as i64), 0),
            ] {
                let sample = agreed(&graphs, &vertices, Some(&times), &kind);
                check_shape(&sample, &stored, &fanouts, number == 1 || number == 3);
                for (row, time) in sample.rows.iter().zip(&sample.times) {
                    let of_seed = times[sample.batch[*row as usize] as usize];
                    assert!(*time <= of_seed + most, "an edge of the future");
                    assert!(*time >= of_seed.saturating_add(least), "an edge outside the window");
                }
            }
        }
    }
}

#[test]
fn a_seed_decides_the_sample_and_fan_outs_may_be_larger_than_lists() {
    let edges: Vec<Edge> = (0..3000).map(|i| Edge::new(i % 30, i * 7 % 211)).collect();
    let device = device();
    let graphs = both(&device, &edges);
    let sample = |seed| agreed(&graphs, &[1, 2, 3], None, &SampleOptions::new(&[5, 5]).seed(seed));
    assert_eq!(sample(1), sample(1));
    assert_ne!(sample(1), sample(2));
    let all = agreed(&graphs, &[1, 2], None, &SampleOptions::new(&[u32::MAX]));
    let lists = graphs[0].neighbours(&[1, 2]).unwrap();
    let targets: Vec<u32> = all.cols.iter().map(|col| all.vertices[*col as usize]).collect();
    assert_eq!(targets, lists.targets);
    let error = graphs[0].sample(&[1, 2], &SampleOptions::new(&[u32::MAX]).with_replacement()).unwrap_err();
    assert!(matches!(error, ContainerError::TooLarge { .. }), "{error}");
    // Every schedule chooses the same.
    for seed in 0..3 {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        let graphs = both(&device, &edges[..400]);
        agreed(&graphs, &[1, 2, 3], Some(&[5, 5, 5]), &SampleOptions::new(&[4, 3]).weighted());
    }
}

#[test]
fn data_that_the_graph_does_not_have_is_asked_for_in_vain() {
    let graph = Graph::on_cpu(&GraphOptions::default());
    for kind in [SampleOptions::new(&[1]).weighted(), SampleOptions::new(&[1]).last()] {
        let error = graph.sample(&[0], &kind).unwrap_err();
        assert!(matches!(error, ContainerError::NoEdgeData { call: "sample", .. }), "{error}");
        assert!(error.to_string().contains("GraphOptions::"), "{error}");
    }
    assert!(graph.sample_at(&[0], &[0], &SampleOptions::new(&[1])).is_err());
    let error = graph.sample_at(&[0], &[], &SampleOptions::new(&[1])).unwrap_err();
    assert!(matches!(error, ContainerError::WrongLength { given: 0, expected: 1, .. }), "{error}");
}
