//! The paper's graph, against a plain map.

use std::collections::BTreeSet;
use std::io::Write as _;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use warpkeep_containers::EdgeOpKind;
use warpkeep_device::{Device, Mode, devices};

use super::answers::Answers;
use super::contestant::{Contestant, Edges, Ours};
use super::slab_graph::{LOAD, Plan, SlabGraph};
use crate::gpu::Clock;

/// A device whose schedule follows from the seed.
fn simulated(seed: u64) -> Option<(Device, Clock)> {
    if devices()[1].unavailable.is_some() {
        writeln!(std::io::stdout().lock(), "SKIPPED: no simulator on this machine").expect("standard output");
        return None;
    }
    let device = Device::simulated(Mode::seeded(seed)).expect("a simulator");
    let clock = Clock::new(&device).expect("a clock");
    Some((device, clock))
}

fn plan(degrees: &[usize], has_weights: bool, mirrored: bool) -> Plan<'_> {
    Plan { has_weights, mirrored, degrees, load: LOAD, entries: 4000, seed: 5 }
}

const VERTICES: usize = 12;

type Batch = (bool, Vec<(u32, u32)>);

fn batches() -> impl Strategy<Value = Vec<Batch>> {
    let vertex = || prop_oneof![2 => 0..2_u32, 3 => 0..VERTICES as u32];
    prop::collection::vec((any::<bool>(), prop::collection::vec((vertex(), vertex()), 1..120)), 1..5)
}

proptest! {
    #![proptest_config(Config { cases: 10, rng_seed: RngSeed::Fixed(11), failure_persistence: None, ..Config::default() })]

    #[test]
    fn graphs_of_the_papers_layout_are_sets_of_edges(
        batches in batches(),
        has_weights in any::<bool>(),
        mirrored in any::<bool>(),
        seed in 0_u64..1000,
        known in 0_usize..40,
    ) {
        let Some((device, clock)) = simulated(seed) else { return Ok(()) };
        let degrees = vec![known; VERTICES];
        let mut graph = SlabGraph::new(&device, &clock, &plan(&degrees, has_weights, mirrored)).expect("memory");
        let mut model = BTreeSet::new();
        for (deletes, pairs) in &batches {
            let kind = if *deletes { EdgeOpKind::Delete } else { EdgeOpKind::Insert };
            let edges = Edges::new(&device, pairs.clone()).expect("memory");
            let (_, statuses) = graph.apply(kind, &edges).expect("slabs");
            let answers = Answers::of(kind, pairs, mirrored, |edge| model.contains(&edge));
            for &(one, two) in pairs.iter().filter(|pair| pair.0 != pair.1) {
                for pair in if mirrored { vec![(one, two), (two, one)] } else { vec![(one, two)] } {
                    if *deletes { model.remove(&pair) } else { model.insert(pair) };
                }
            }
            prop_assert_eq!(graph.edges().expect("a graph"), model.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(graph.entry_count().expect("a graph"), model.len() as u64);
            prop_assert_eq!(answers.wrong_in(pairs, &statuses, graph.keeps_order()), None);
        }
        prop_assert!(graph.utilisation().expect("a graph") <= 1.0);
    }

    #[test]
    fn vertices_go_and_triangles_are_those_of_our_graph(
        pairs in prop::collection::vec((0..30_u32, 0..30_u32), 1..250),
        doomed in prop::collection::btree_set(0..30_u32, 0..8),
        has_weights in any::<bool>(),
        seed in 0_u64..1000,
    ) {
        let Some((device, clock)) = simulated(seed) else { return Ok(()) };
        let mut paper = SlabGraph::new(&device, &clock, &plan(&[1; 30], has_weights, true)).expect("memory");
        let mut ours = Ours::new(&device, &clock, has_weights, true).expect("memory");
        let empty = paper.bytes().expect("a graph");
        let answers = Answers::of(EdgeOpKind::Insert, &pairs, true, |_| false);
        let edges = Edges::new(&device, pairs).expect("memory");
        let doomed: Vec<u32> = doomed.into_iter().collect();
        for contestant in [&mut paper as &mut dyn Contestant, &mut ours] {
            let (_, statuses) = contestant.apply(EdgeOpKind::Insert, &edges).expect("slabs");
            prop_assert_eq!(answers.wrong_in(&edges.pairs, &statuses, contestant.keeps_order()), None);
        }
        for gone in [&[][..], &doomed] {
            prop_assert_eq!(
                paper.delete_vertices(gone).expect("a graph").1,
                ours.delete_vertices(gone).expect("a graph").1
            );
            let all = ours.edges().expect("a graph");
            prop_assert_eq!(&paper.edges().expect("a graph"), &all);
            let once: Vec<(u32, u32)> = all.into_iter().filter(|pair| pair.0 < pair.1).collect();
            let once = Edges::new(&device, once).expect("memory");
            prop_assert_eq!(
                paper.triangles(&once).expect("a graph").1,
                ours.triangles(&once).expect("a graph").1
            );
        }
        // Slabs of deleted lists are given back.
        let all: Vec<u32> = (0..30).collect();
        paper.delete_vertices(&all).expect("a graph");
        ours.delete_vertices(&all).expect("a graph");
        prop_assert_eq!(paper.bytes().expect("a graph"), empty);
        paper.apply(EdgeOpKind::Insert, &edges).expect("slabs");
        ours.apply(EdgeOpKind::Insert, &edges).expect("memory");
        prop_assert_eq!(paper.edges().expect("a graph"), ours.edges().expect("a graph"));
    }
}
