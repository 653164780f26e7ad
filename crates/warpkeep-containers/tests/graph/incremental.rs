//! The count of triangles that follows batches, beside the count from scratch.

use warpkeep_containers::{
    ContainerError, DeviceEdgeOps, Edge, EdgeOp, EdgeOpKinds, Graph, GraphOptions, TriangleChange,
};
use warpkeep_device::Device;
use warpkeep_suites::device::Dice;

use crate::algorithms::{Sets, triangles};

tests_of! {
    the_count_follows_random_batches,
    edges_of_hubs_have_their_triangles,
    a_directed_graph_has_no_count_and_is_not_changed,
}

/// Applies the batch to all three forms; gives the change, which all agree on.
pub(crate) fn apply(device: &Device, graphs: &[Graph; 3], ops: &[EdgeOp]) -> TriangleChange {
    let [on_device, planned_there, on_cpu] = graphs;
    let (answers, change) = on_device.apply_counting_triangles(ops).unwrap();
    assert_eq!((answers, change), on_cpu.apply_counting_triangles(ops).unwrap());
    let stream = device.stream().unwrap();
    let column = |of: fn(&EdgeOp) -> u32| device.upload(&ops.iter().map(of).collect::<Vec<u32>>()).unwrap();
    let codes: Vec<u8> = ops.iter().map(|op| op.kind as u8).collect();
    let batch = DeviceEdgeOps {
        kinds: EdgeOpKinds::Each(&device.upload(&codes).unwrap()),
        sources: &column(|op| op.edge.source),
        targets: &column(|op| op.edge.target),
        weights: None,
        ids: None,
        times: None,
        count: ops.len(),
    };
    let mut statuses = device.allocate(ops.len()).unwrap();
    assert_eq!(planned_there.apply_counting_triangles_on(batch, &mut statuses, &stream).unwrap(), change);
    change
}

pub(crate) fn graphs(device: &Device, options: &GraphOptions) -> [Graph; 3] {
    let on_device = || Graph::new(device, options).unwrap();
    [on_device(), on_device().without_small_batches(), Graph::on_cpu(options)]
}

pub(crate) fn count(graph: &Graph) -> u64 {
    let mut sets = Sets::new();
    graph.csr().unwrap().edges().for_each(|edge| {
        sets.entry(edge.source).or_default().insert(edge.target);
    });
    triangles(&sets)
}

pub(crate) fn edges_of_hubs_have_their_triangles(device: &Device) {
    let graphs = graphs(device, &GraphOptions::default().undirected());
    // Two vertices with long lists that move to new blocks, then the edge between them, then a part of the lists again.
    let lists = (0..3000).flat_map(|i| [Edge::new(0, 2 + i), Edge::new(1, 2 + i)]).map(EdgeOp::insert);
    assert_eq!(apply(device, &graphs, &lists.collect::<Vec<_>>()), TriangleChange::default());
    let change = apply(device, &graphs, &[EdgeOp::insert(Edge::new(1, 0)), EdgeOp::insert(Edge::new(0, 1))]);
    assert_eq!((change.gained, change.lost, change.after(5)), (3000, 0, 3005));
    let gone: Vec<EdgeOp> = (0..2000).map(|i| EdgeOp::delete(2 + i, i % 2)).collect();
    let change = apply(device, &graphs, &gone);
    assert_eq!((change.gained, change.lost, graphs[0].triangles().unwrap()), (0, 2000, 1000));
}

pub(crate) fn a_directed_graph_has_no_count_and_is_not_changed(device: &Device) {
    for graph in
        [Graph::new(device, &GraphOptions::default()).unwrap(), Graph::on_cpu(&GraphOptions::default())]
    {
        let error = graph.apply_counting_triangles(&[EdgeOp::insert(Edge::new(0, 1))]).unwrap_err();
        assert!(matches!(error, ContainerError::Directed { .. }), "{error}");
        assert_eq!(graph.edge_count(), 0);
    }
}

/// Inserts and deletions of few vertices: triangles have several edges of a batch.
pub(crate) fn follow(device: &Device, seed: u64) {
    let graphs = graphs(device, &GraphOptions::default().undirected());
    let (mut dice, mut known) = (Dice::new(seed), 0);
    for _ in 0..4 {
        let mut vertex = || dice.below(16) as u32;
        let mut ops: Vec<EdgeOp> = (0..40).map(|_| EdgeOp::insert(Edge::new(vertex(), vertex()))).collect();
        ops.extend((0..12).map(|_| EdgeOp::delete(vertex(), vertex())));
        known = apply(device, &graphs, &ops).after(known);
        assert_eq!(known, count(&graphs[2]));
        assert_eq!(graphs[0].triangles().unwrap(), known);
    }
}

pub(crate) fn the_count_follows_random_batches(device: &Device) {
    (0..6).for_each(|seed| follow(device, seed));
}
