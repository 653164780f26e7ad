//! Neighbour sampling: what may be chosen, how often, and that the kernels and the CPU form choose the same.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use warpkeep_containers::{ContainerError, Edge, Graph, GraphOptions, GraphSample, SampleOptions};
use warpkeep_device::{Device, Mode};

use crate::properties::device;

fn options() -> GraphOptions {
    GraphOptions::default().weights().ids().times()
}

/// The same edges on the simulator and on the CPU.
fn both(device: &Device, edges: &[Edge]) -> [Graph; 2] {
    let graphs = [Graph::new(device, &options()).unwrap(), Graph::on_cpu(&options())];
    for graph in &graphs {
        graph.insert_edges(edges).unwrap();
    }
    graphs
}

/// A sample that both forms agree on.
fn agreed(graphs: &[Graph; 2], seeds: &[u32], times: Option<&[i64]>, options: &SampleOptions) -> GraphSample {
    let [one, two] = graphs.each_ref().map(|graph| match times {
        None => graph.sample(seeds, options).unwrap(),
        Some(times) => graph.sample_at(seeds, times, options).unwrap(),
    });
    assert_eq!(one, two);
    one
}

/// All kinds of choices.
fn kinds(fanouts: &[u32], seed: u64) -> Vec<SampleOptions> {
    let new = || SampleOptions::new(fanouts).seed(seed);
    vec![new(), new().with_replacement(), new().weighted(), new().weighted().with_replacement(), new().last()]
}

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

/// Pearson's statistic of counts beside their expectations.
fn chi_square(counts: &[u64], expected: &[f64]) -> f64 {
    counts.iter().zip(expected).map(|(count, right)| (*count as f64 - right).powi(2) / right).sum()
}

#[test]
fn uniform_and_weighted_samples_have_the_right_frequencies() {
    // 20 edges; the statistic has 19 degrees of freedom and exceeds 52 with a probability below 0.0001.
    const DEGREE: usize = 20;
    let weight = |target: u32| (1 + target % 4) as f32;
    let edges: Vec<Edge> = (0..DEGREE as u32).map(|t| Edge::new(100, t).weight(weight(t)).time(7)).collect();
    let graph = Graph::new(&device(), &options()).unwrap();
    graph.insert_edges(&edges).unwrap();
    let total: f64 = (0..DEGREE as u32).map(|target| f64::from(weight(target))).sum();
    let (seeds, times) = (vec![100; 6000], vec![9; 6000]);
    for (number, kind) in kinds(&[5], 3).into_iter().take(4).enumerate() {
        // Only the first of the weighted ones is in proportion, so one is chosen.
        let kind = if number < 2 { kind } else { kinds(&[1], 3)[number].clone() };
        let sample = graph.sample_at(&seeds, &times, &kind).unwrap();
        let mut counts = [0_u64; DEGREE];
        sample.cols.iter().for_each(|col| counts[sample.vertices[*col as usize] as usize] += 1);
        let all: u64 = counts.iter().sum();
        let share =
            |target: usize| if number < 2 { 1.0 / 20.0 } else { f64::from(weight(target as u32)) / total };
        let expected: Vec<f64> = (0..DEGREE).map(|target| all as f64 * share(target)).collect();
        let statistic = chi_square(&counts, &expected);
        assert!(statistic < 52.0, "{statistic} for {counts:?}, choice {number}");
    }
    // Without times all edges are candidates, and other algorithms choose them. Each seed has a vertex of its own with the same list.
    let edges: Vec<Edge> =
        (0..4000).flat_map(|v| (0..DEGREE as u32).map(move |t| Edge::new(1000 + v, t))).collect();
    graph.insert_edges(&edges).unwrap();
    let seeds: Vec<u32> = (0..4000).map(|v| 1000 + v).collect();
    for kind in kinds(&[5], 11).into_iter().take(2) {
        let sample = graph.sample(&seeds, &kind).unwrap();
        let mut counts = [0_u64; DEGREE];
        sample.cols.iter().for_each(|col| counts[sample.vertices[*col as usize] as usize] += 1);
        assert_eq!(counts.iter().sum::<u64>(), 20_000);
        let statistic = chi_square(&counts, &[1000.0; DEGREE]);
        assert!(statistic < 52.0, "{statistic} for {counts:?}");
    }
}

#[test]
fn an_empty_vertex_has_an_empty_sample() {
    let graphs =
        both(&device(), &[Edge::new(0, 1), Edge::new(2, 3).weight(0.0), Edge::new(4, 5).weight(f32::NAN)]);
    for (number, kind) in kinds(&[3, 3], 1).into_iter().enumerate() {
        let sample = agreed(&graphs, &[1, 7, 4_000_000_000, 1], None, &kind);
        assert_eq!((sample.vertices, sample.seeds), (vec![1, 7, 4_000_000_000], vec![0, 1, 2, 0]));
        assert_eq!((sample.rows.len(), sample.vertices_per_hop), (0, vec![3, 0, 0]));
        // Weights that are no positive, finite numbers are never chosen.
        let edges = agreed(&graphs, &[2, 4], None, &kind).rows.len();
        assert_eq!(edges > 0, number != 2 && number != 3);
        assert_eq!(agreed(&graphs, &[], None, &kind).vertices_per_hop, [0, 0, 0]);
    }
    assert_eq!(agreed(&graphs, &[0], None, &SampleOptions::new(&[])).vertices, [0]);
}

#[test]
fn time_ties_are_broken_by_the_smaller_target() {
    let edges: Vec<Edge> = (1..9).map(|target| Edge::new(0, target).time(i64::from(target / 3))).collect();
    let graphs = both(&device(), &edges);
    let targets = |most, time, options: fn(SampleOptions) -> SampleOptions| {
        let kind = options(SampleOptions::new(&[most]).last());
        let sample = agreed(&graphs, &[0], Some(&[time]), &kind);
        sample.cols.iter().map(|col| sample.vertices[*col as usize]).collect::<Vec<u32>>()
    };
    // Times of the targets 1..9 are 0, 0, 1, 1, 1, 2, 2, 2.
    assert_eq!(targets(4, 5, |kind| kind), [6, 7, 8, 3]);
    assert_eq!(targets(2, 1, |kind| kind), [3, 4]);
    assert_eq!(targets(3, 1, SampleOptions::before), [1, 2]);
    assert_eq!(targets(9, 2, |kind| kind.window(1)), [6, 7, 8, 3, 4, 5]);
    assert_eq!(targets(9, i64::MIN, SampleOptions::before), [0; 0]);
    assert_eq!(targets(9, i64::MAX, |kind| kind.window(u64::MAX)).len(), 8);
}

#[test]
fn large_times_are_compared_exactly() {
    // Times above 2^53 that differ by one are the same 64-bit floating-point number.
    let large = 1_i64 << 60;
    let edges: Vec<Edge> = (0..50).map(|i| Edge::new(0, i + 1).time(large + i64::from(i))).collect();
    let graphs = both(&device(), &edges);
    let sample = agreed(&graphs, &[0], Some(&[large + 30]), &SampleOptions::new(&[2]).last());
    assert_eq!(sample.times, [large + 30, large + 29]);
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
