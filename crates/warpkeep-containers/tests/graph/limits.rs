//! Graphs for which memory is short, and memory that is not theirs.

use warpkeep_containers::{
    ContainerError, DeviceEdgeOps, Edge, EdgeOp, EdgeOpKind, EdgeOpKinds, Graph, GraphOptions,
};
use warpkeep_device::{Device, DeviceError, Mode};
use warpkeep_suites::device::Dice;

use crate::device;
use crate::model::{Model, Shape, check_answers, check_contents, random_op};

#[test]
fn memory_that_is_short_at_any_allocation_loses_nothing() {
    let device = Device::simulated(Mode::fast()).unwrap();
    let shape = Shape { undirected: true, times: true, ..Shape::default() };
    let mut dice = Dice::new(4);
    let ops: Vec<EdgeOp> = (0..24_000).map(|_| random_op(&mut dice, 3000)).collect();
    let (mut refused, mut done) = (0, 0);
    for step in 0..70_u64 {
        let small = device.with_budget(step * step * 1200);
        let graph = match Graph::new(&small, &shape.options()) {
            Ok(graph) => graph,
            Err(error) => {
                assert!(error.device().is_some_and(DeviceError::is_out_of_memory), "{error}");
                refused += 1;
                continue;
            }
        };
        let mut model = Model::new(shape);
        for (number, ops) in ops.chunks(4000).enumerate() {
            // Small batches between the large ones, which the host plans.
            let ops = if number % 2 == 1 { &ops[..500] } else { ops };
            match graph.apply(ops) {
                Err(error) => {
                    assert!(error.device().is_some_and(DeviceError::is_out_of_memory), "{error}");
                    refused += 1;
                }
                Ok(answers) => {
                    check_answers(&mut model, ops, &answers).unwrap();
                    done += 1;
                }
            }
            assert_eq!(graph.edge_count(), model.edge_count());
        }
        // To look at what is there takes memory as well.
        match graph.csr() {
            Ok(rows) => assert_eq!(rows, model.csr()),
            Err(error) => assert!(error.device().is_some_and(DeviceError::is_out_of_memory), "{error}"),
        }
        if small.budget_left() > 1 << 20 {
            check_contents(&graph, &model).unwrap();
        }
    }
    assert!(refused > 20 && done > 100, "{refused} refused, {done} done");
    assert_eq!(device.allocated(), 0);
}

#[test]
fn a_vertex_without_memory_leaves_graph_and_memory_as_they_were() {
    let device = Device::simulated(Mode::fast()).unwrap().with_budget(24 << 20);
    let options = GraphOptions::default().weights().ids().times();
    for graph in [
        Graph::new(&device, &options).unwrap(),
        Graph::new(&device, &options).unwrap().without_small_batches(),
    ] {
        let few = [Edge::new(0, 1), Edge::new(2, 0)];
        graph.insert_edges(&few).unwrap();
        let before = graph.stats();
        let refused = |edges: &[Edge]| {
            let error = graph.insert_edges(edges).unwrap_err();
            assert!(error.device().is_some_and(DeviceError::is_out_of_memory), "{error}");
            assert_eq!(graph.stats(), before);
        };
        // The table alone, and a table for which there would be memory with a pool for which there is none.
        refused(&[Edge::new(3, 4), Edge::new(0, 4_000_000_000)]);
        refused(&[Edge::new(4_000_000_000, 4_294_967_294)]);
        let hubs = (0..60_000).map(|i| Edge::new(i, i + 1)).chain([Edge::new(0, 1_000_000)]);
        refused(&hubs.collect::<Vec<Edge>>());
        // What there is memory for goes on.
        graph.insert_edges(&[Edge::new(1, 2), Edge::new(5, 70_000)]).unwrap();
        assert_eq!((graph.edge_count(), graph.vertex_count()), (4, 70_001));
        graph.verify().unwrap();
    }
}

#[test]
fn a_full_device_takes_new_edges_when_old_ones_are_deleted() {
    let device = Device::simulated(Mode::fast()).unwrap();
    for (budget, size) in [(2 << 20, 2000), (4 << 20, 3000)] {
        let small = device.with_budget(budget);
        let graph = Graph::new(&small, &GraphOptions::default().ids().keep_loops()).unwrap();
        // Batch `number` makes lists of five edges for vertices of its own.
        let batch = |number: u32| -> Vec<Edge> {
            (0..size).map(|i| Edge::new(number * size / 5 + i / 5, i % 5 * 7).id(u64::from(i))).collect()
        };
        let full = (0..).find(|&number| graph.insert_edges(&batch(number)).is_err()).unwrap();
        assert!(full > 3, "{full} batches of {size} in {budget} bytes");
        // Not the last ones, so that all blocks that stay have to move.
        for number in 0..full - 2 {
            let pairs: Vec<(u32, u32)> =
                batch(number).iter().map(|edge| (edge.source, edge.target)).collect();
            graph.delete_edges(&pairs).unwrap();
        }
        let (kept, before) = (graph.edge_count(), graph.stats());
        assert_eq!(kept, u64::from(2 * size));
        // What the call for the first batches took is there again.
        for number in 0..full - 2 {
            graph.insert_edges(&batch(number)).unwrap();
        }
        let stats = graph.stats();
        assert!(stats.compactions > before.compactions || stats.dead_slots == 0, "{stats:?}");
        assert_eq!(graph.edge_count(), u64::from(full * size));
        if small.budget_left() > 1 << 20 {
            graph.verify().unwrap();
        }
        let ids = graph.neighbours(&[full * size / 5 - 1, 0]).unwrap().ids;
        assert_eq!(ids.len(), 10);
    }
}

#[test]
fn memory_of_another_device_is_refused() {
    let (device, other) = (device(), device());
    let graph = Graph::new(&device, &GraphOptions::default()).unwrap();
    let stream = device.stream().unwrap();
    let column = |is_wrong: bool| if is_wrong { &other } else { &device }.upload(&[1_u32, 2]).unwrap();
    let foreign = |error: ContainerError| matches!(error.device(), Some(DeviceError::OtherDevice { .. }));
    for wrong in 0..3 {
        let [sources, targets] = [0, 1].map(|place| column(place == wrong));
        let mut answers = column(wrong == 2);
        let ops = DeviceEdgeOps {
            kinds: EdgeOpKinds::All(EdgeOpKind::Insert),
            sources: &sources,
            targets: &targets,
            weights: None,
            ids: None,
            times: None,
            count: 2,
        };
        assert!(foreign(graph.apply_on(ops, &mut answers, &stream).unwrap_err()), "column {wrong}");
        let error = graph.edges_exist_on(&sources, &targets, 2, &mut answers, &stream).unwrap_err();
        assert!(foreign(error), "column {wrong}");
    }
    assert_eq!(graph.stats().edges, 0);
}

#[test]
fn vertices_without_memory_for_their_records_are_refused() {
    let small = Device::simulated(Mode::fast()).unwrap().with_budget(1 << 20);
    let graph = Graph::new(&small, &GraphOptions::default()).unwrap();
    let error = graph.insert_vertices(1 << 20).unwrap_err();
    assert!(error.device().is_some_and(DeviceError::is_out_of_memory), "{error}");
    assert_eq!((graph.vertex_count(), graph.insert_vertices(100).unwrap()), (0, 0..100));
}
