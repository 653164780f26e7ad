//! Snapshots: what they show while batches go on, and what they keep.

use warpkeep_containers::{DeviceCsr, Edge, EdgeOp, Graph, GraphOptions, GraphSnapshot, SampleOptions};
use warpkeep_device::Device;
use warpkeep_suites::device::Dice;

use crate::model::{Model, Shape, check_contents, random_op};

tests_of! {
    long_lists_are_kept_and_their_memory_comes_back,
    a_pool_with_a_snapshot_is_compacted_behind_it,
    all_that_reads_a_graph_reads_a_snapshot,
}

/// An error unless the snapshot shows these edges.
pub(crate) fn shows(snapshot: &GraphSnapshot, model: &Model) {
    let right = model.csr();
    assert_eq!(snapshot.csr().unwrap(), right);
    assert_eq!((snapshot.edge_count(), snapshot.vertex_count()), (model.edge_count(), model.vertices));
    assert_eq!(snapshot.entry_count(), model.edges.len() as u64);
    let asked: Vec<(u32, u32)> = model.edges.keys().flat_map(|edge| [*edge, (edge.0, edge.1 ^ 1)]).collect();
    let there: Vec<bool> = asked.iter().map(|edge| model.edges.contains_key(edge)).collect();
    assert_eq!(snapshot.edges_exist(&asked).unwrap(), there);
}

pub(crate) fn long_lists_are_kept_and_their_memory_comes_back(device: &Device) {
    let shape = Shape { undirected: true, weights: true, ..Shape::default() };
    let graph = Graph::new(device, &shape.options()).unwrap();
    let (mut model, mut dice) = (Model::new(shape), Dice::new(9));
    let mut apply = |model: &mut Model, count: u64| {
        // All of one hub, whose list is longer than one that is shifted.
        let ops: Vec<EdgeOp> = (0..count)
            .map(|_| {
                let target = 1 + dice.below(4000) as u32;
                let edge = Edge::new(0, target).weight(dice.below(99) as f32);
                if dice.below(4) == 0 { EdgeOp::delete(target, 0) } else { EdgeOp::insert(edge) }
            })
            .collect();
        graph.apply(&ops).unwrap();
        ops.iter().for_each(|op| {
            model.apply(*op);
        });
    };
    apply(&mut model, 9000);
    assert!(graph.pins().unwrap().is_empty());
    let mut held = Vec::new();
    for round in 0..12 {
        held.push((graph.snapshot().unwrap(), model.clone()));
        assert_eq!(graph.stats().pins, held.len() as u64);
        apply(&mut model, 300);
        check_contents(&graph, &model).unwrap();
        if round % 3 == 2 {
            held.swap_remove(round % held.len());
        }
    }
    let pins = graph.pins().unwrap();
    assert_eq!(pins.len(), held.len());
    assert!(pins.windows(2).all(|pair| pair[0].version < pair[1].version), "{pins:?}");
    // Each needs its own list of the hub, and its own vertex records.
    let all = |pins: &[warpkeep_containers::GraphPin]| {
        pins.iter().all(|pin| pin.slots > 2000 && pin.bytes == 16 * pin.vertices + 8 * pin.slots)
    };
    assert!(all(&pins), "{pins:?}");
    held.iter().for_each(|(snapshot, model)| shows(snapshot, model));
    let before = graph.stats();
    held.clear();
    graph.compact().unwrap();
    let after = graph.stats();
    assert_eq!((after.pins, after.dead_slots, before.pins > 5), (0, 0, true));
    assert!(after.bytes < before.bytes && graph.pins().unwrap().is_empty(), "{after:?}");
    check_contents(&graph, &model).unwrap();
}

pub(crate) fn a_pool_with_a_snapshot_is_compacted_behind_it(device: &Device) {
    let graph = Graph::new(device, &GraphOptions::default()).unwrap();
    let batch = |round: u32| -> Vec<EdgeOp> {
        let list = move |vertex: u32| {
            (0..20).map(move |i| Edge::new(vertex, 1 + round * 7 % 50 + i * (1 + round % 3)))
        };
        (0..200).flat_map(list).map(EdgeOp::insert).collect()
    };
    graph.apply(&batch(0)).unwrap();
    let (kept, right) = (graph.snapshot().unwrap(), graph.csr().unwrap());
    // Lists grow and shrink for long: without compaction behind the snapshot the pool would only grow.
    for round in 1..60 {
        graph.apply(&batch(round)).unwrap();
        let gone: Vec<(u32, u32)> = graph
            .edges()
            .unwrap()
            .iter()
            .filter(|e| e.target % 4 != round % 4)
            .map(|e| (e.source, e.target))
            .collect();
        graph.delete_edges(&gone).unwrap();
    }
    let stats = graph.stats();
    assert!(stats.compactions > 0 && stats.slots + stats.dead_slots < 40_000, "{stats:?}");
    assert_eq!(kept.csr().unwrap(), right);
    graph.verify().unwrap();
    drop(kept);
    graph.compact().unwrap();
    assert_eq!(graph.stats().dead_slots, 0);
    graph.verify().unwrap();
}

pub(crate) fn all_that_reads_a_graph_reads_a_snapshot(device: &Device) {
    let shape = Shape { undirected: true, ids: true, times: true, ..Shape::default() };
    let graph = Graph::new(device, &shape.options()).unwrap();
    let mut dice = Dice::new(2);
    let ops: Vec<EdgeOp> = (0..900).map(|_| random_op(&mut dice, 70)).collect();
    graph.apply(&ops).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let options = SampleOptions::new(&[4, 3]).seed(5);
    let seeds: Vec<u32> = (0..70).collect();
    macro_rules! all_of {
        ($of:expr, $file:literal) => {{
            $of.save(folder.path().join($file)).unwrap();
            (
                (
                    $of.csr().unwrap(),
                    $of.edges().unwrap(),
                    $of.degrees(&seeds).unwrap(),
                    $of.neighbours(&seeds).unwrap(),
                ),
                (
                    $of.bfs(&[3]).unwrap(),
                    $of.components().unwrap(),
                    $of.triangles().unwrap(),
                    $of.core_numbers().unwrap(),
                ),
                ($of.pagerank(0.85, 9).unwrap(), $of.pagerank_until(&[], 0.85, 1e-6, 99).unwrap()),
                ($of.sample(&seeds, &options).unwrap(), $of.sample_at(&seeds, &[10; 70], &options).unwrap()),
            )
        }};
    }
    let (right, before) = (all_of!(graph, "graph"), graph.snapshot().unwrap());
    let ops: Vec<EdgeOp> = (0..900).map(|_| random_op(&mut dice, 80)).collect();
    graph.apply(&ops).unwrap();
    graph.compact().unwrap();
    assert_eq!(all_of!(before, "snapshot"), right);
    assert_ne!(graph.csr().unwrap(), right.0.0);
    let bytes = |name| std::fs::read(folder.path().join(name)).unwrap();
    assert_eq!(bytes("snapshot"), bytes("graph"));
    let (vertices, edges) = (before.vertex_count() as usize, before.entry_count() as usize);
    let column = |bytes: usize| device.allocate(bytes).unwrap();
    let (mut offsets, mut targets) = (column(4 * (vertices + 1)), column(4 * edges));
    let rows =
        DeviceCsr { offsets: &mut offsets, targets: &mut targets, weights: None, ids: None, times: None };
    before.csr_on(rows, &device.stream().unwrap()).unwrap();
    assert_eq!(targets.to_vec::<u32>().unwrap(), right.0.0.targets);
    assert!(before.reference().is_ok() && before.options() == graph.options());
}
