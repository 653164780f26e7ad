//! That every fault point of the graph is needed. Alone in its program: a fault point is left out of the whole process.

#![cfg(not(no_simulator))]

#[path = "graph/container.rs"]
mod container;
#[path = "graph/model.rs"]
mod model;

use std::ops::Range;

use warpkeep_containers::{ContainerError, Edge, Graph, GraphOptions};
use warpkeep_device::sim::Seeded;
use warpkeep_device::{Device, Mode, fault};
use warpkeep_suites::device::{Gate, wrong_schedule};

/// What an algorithm gives in one of these schedules that it should not; `right` is what it gives on the CPU.
fn wrong_answer<T: PartialEq + std::fmt::Debug>(
    mut schedules: Range<u64>,
    edges: &[Edge],
    algorithm: fn(&Graph) -> Result<T, ContainerError>,
) -> Option<String> {
    let options = GraphOptions::default().undirected();
    let on_cpu = Graph::on_cpu(&options);
    on_cpu.insert_edges(edges).expect("edges");
    let right = algorithm(&on_cpu).expect("undirected");
    schedules.find_map(|seed| {
        let mode = Mode::Seeded(Seeded { switch_chance: 400, ..Seeded::new(seed) });
        let graph = Graph::new(&Device::simulated(mode).expect("a simulator"), &options).expect("a graph");
        graph.insert_edges(edges).expect("edges");
        let wrong = match algorithm(&graph) {
            Ok(found) if found == right => return None,
            Ok(found) => format!("{found:?}, and not {right:?}"),
            Err(error) => error.to_string(),
        };
        Some(format!("in the schedule of seed {seed}: {wrong}"))
    })
}

#[test]
fn every_fault_point_is_noticed() {
    let batches = || wrong_schedule::<container::Undirected>(40);
    // The smallest vertex has enough larger neighbours that a block counts them.
    let clique: Vec<Edge> = (0..67).flat_map(|i| (0..i).map(move |j| Edge::new(i, j))).collect();
    let triangles = || wrong_answer(0..3, &clique, Graph::triangles);
    // All neighbours of few vertices go at once.
    let crowd: Vec<Edge> = (0..60).flat_map(|i| (0..4).map(move |j| Edge::new(10 + i, j))).collect();
    let cores = || wrong_answer(0..3, &crowd, Graph::core_numbers);
    // Lists of no more than 64 edges alone, which warps count.
    let small: Vec<Edge> = (0..40).flat_map(|i| (0..i).map(move |j| Edge::new(i, j))).collect();
    let few_triangles = || wrong_answer(0..3, &small, Graph::triangles);
    // Two hubs with the same neighbours. The list of the first one has the second at its end, which the last warp of a block looks at.
    let pair: Vec<Edge> = (0..4195)
        .flat_map(|leaf| [Edge::new(4195, leaf), Edge::new(4196, leaf)])
        .chain([Edge::new(4195, 4196)])
        .collect();
    let hubs = || wrong_answer(3..9, &pair, Graph::triangles);
    assert_eq!((batches(), triangles(), cores()), (None, None, None));
    assert_eq!((few_triangles(), hubs()), (None, None));
    // Batches that are worked as large ones have none of the steps of small ones, and are right without them.
    let large = || wrong_schedule::<container::Directed>(6);
    let more_large = || wrong_schedule::<container::Directed>(60);
    assert_eq!(more_large(), None);
    let active = fault::activate("graph.plan");
    assert_eq!((large(), active.reached()), (None, 0));
    drop(active);
    Gate::new("the graph")
        .with("graph.plan", "", &batches)
        .with("graph.put", "", &batches)
        .with("graph.put", "large batches", &large)
        .with("graph.shift", "", &batches)
        .with("graph.shift", "large batches", &more_large)
        .with("graph.table", "", &triangles)
        .with("graph.warp_table", "", &few_triangles)
        .with("graph.hub", "", &hubs)
        .with("graph.peel", "", &cores)
        .run();
}
