//! Graphs that grow, shrink and have no memory to grow, and what the host knows of them.

use warpkeep_containers::{ContainerError, DeviceCsr, Edge, EdgeOp, Graph, SampleOptions};
use warpkeep_device::{Device, DeviceError};
use warpkeep_suites::device::Dice;

use crate::model::{Model, Shape, check_answers, check_contents, random_op};

tests_of! {
    vertices_are_made_without_edges,
    what_the_host_knows_is_exact_after_every_change,
    budgets_that_are_too_small_lose_nothing,
}

pub(crate) fn vertices_are_made_without_edges(device: &Device) {
    let shape = Shape { undirected: true, ..Shape::default() };
    for graph in [Graph::new(device, &shape.options()).unwrap(), Graph::on_cpu(&shape.options())] {
        let mut model = Model::new(shape);
        assert_eq!(graph.insert_vertices(0).unwrap(), 0..0);
        assert_eq!(graph.insert_vertices(5).unwrap(), 0..5);
        model.vertices = 5;
        check_contents(&graph, &model).unwrap();
        graph.insert_edges(&[Edge::new(2, 9)]).unwrap();
        model.apply(EdgeOp::insert(Edge::new(2, 9)));
        let before = graph.snapshot().unwrap();
        assert_eq!(graph.insert_vertices(7000).unwrap(), 10..7010);
        assert_eq!((before.vertex_count(), before.csr().unwrap().lists()), (10, 10));
        model.vertices = 7010;
        check_contents(&graph, &model).unwrap();
        assert_eq!(graph.components().unwrap()[7009], 7009);
        assert_eq!(graph.bfs(&[9]).unwrap()[7009], u32::MAX);
        assert_eq!(graph.sample(&[7009], &SampleOptions::new(&[3])).unwrap().vertices, [7009]);
        for count in [u64::from(u32::MAX), u64::MAX] {
            let error = graph.insert_vertices(count).unwrap_err();
            assert!(matches!(error, ContainerError::TooLarge { what: "vertices", .. }), "{error}");
        }
        check_contents(&graph, &model).unwrap();
    }
}

/// An error unless the counts, the reference for kernels and the rows in device memory are those of the model.
fn check_known(device: &Device, graph: &Graph, model: &Model) {
    let stats = graph.stats();
    let loops = model.edges.keys().filter(|(source, target)| source == target).count() as u64;
    assert_eq!((stats.vertices, stats.edges), (model.vertices, model.edge_count()));
    assert_eq!((stats.entries, stats.loops), (model.edges.len() as u64, loops));
    assert!(stats.slots >= stats.entries, "{stats:?}");
    // The number of vertices is the last word.
    let reference = graph.reference().unwrap();
    let words: &[u64] = bytemuck::cast_slice(bytemuck::bytes_of(&reference));
    assert_eq!(words.last(), Some(&model.vertices));

    let right = model.csr();
    let (vertices, edges) = (stats.vertices as usize, stats.entries as usize);
    // One more of each, which stays as it is.
    let mut offsets = device.upload(&vec![77_u32; vertices + 2]).unwrap();
    let mut targets = device.upload(&vec![77_u32; edges + 1]).unwrap();
    let rows =
        DeviceCsr { offsets: &mut offsets, targets: &mut targets, weights: None, ids: None, times: None };
    let found = graph.csr_on(rows, &device.stream().unwrap()).unwrap();
    assert_eq!(found, (stats.vertices, stats.entries));
    let offsets: Vec<u64> = offsets.to_vec::<u32>().unwrap().into_iter().map(u64::from).collect();
    assert_eq!((&offsets[..=vertices], offsets[vertices + 1]), (&right.offsets[..], 77));
    let targets = targets.to_vec::<u32>().unwrap();
    assert_eq!((&targets[..edges], targets[edges]), (&right.targets[..], 77));
    check_contents(graph, model).unwrap();
}

pub(crate) fn what_the_host_knows_is_exact_after_every_change(device: &Device) {
    let small = device.with_budget(256 << 20);
    for undirected in [false, true] {
        let shape = Shape { undirected, keeps_loops: true, ids: true, ..Shape::default() };
        let on_device = || Graph::new(&small, &shape.options()).unwrap();
        for graph in [on_device(), on_device().without_small_batches()] {
            let (mut model, mut dice, mut held) = (Model::new(shape), Dice::new(29), None);
            check_known(device, &graph, &model);
            for round in 0..6_u64 {
                // More vertices and longer lists each time.
                let ops: Vec<EdgeOp> = (0..700).map(|_| random_op(&mut dice, 60 << round)).collect();
                check_answers(&mut model, &ops, &graph.apply(&ops).unwrap()).unwrap();
                check_known(device, &graph, &model);
                model.vertices += round;
                graph.insert_vertices(round).unwrap();
                check_known(device, &graph, &model);
                // Batches that are refused: a vertex that there cannot be, and records that there is no memory for.
                graph.insert_edges(&[Edge::new(0, 1), Edge::new(3, u32::MAX)]).unwrap_err();
                let error = graph.insert_edges(&[Edge::new(5, 6), Edge::new(0, 4_000_000_000)]).unwrap_err();
                assert!(error.device().is_some_and(DeviceError::is_out_of_memory), "{error}");
                check_known(device, &graph, &model);
                let doomed = [2, dice.below(60) as u32, 7_000_000];
                assert_eq!(graph.delete_vertices(&doomed).unwrap(), model.delete_vertices(&doomed));
                check_known(device, &graph, &model);
                if round % 2 == 1 {
                    graph.compact().unwrap();
                    check_known(device, &graph, &model);
                }
                // From round 2 to round 4 there is a snapshot.
                held = match round {
                    2 | 3 => held.or_else(|| Some(graph.snapshot().unwrap())),
                    _ => None,
                };
            }
            drop(held);
        }
    }
}

/// On every device, whatever it maps at once.
pub(crate) fn budgets_that_are_too_small_lose_nothing(device: &Device) {
    let shape = Shape { undirected: true, times: true, ..Shape::default() };
    let mut dice = Dice::new(14);
    let ops: Vec<EdgeOp> = (0..9000).map(|_| random_op(&mut dice, 3000)).collect();
    let (mut refused, mut done) = (0, 0);
    for megabytes in (0..32).step_by(2) {
        let small = device.with_budget(megabytes << 20);
        let graph = match Graph::new(&small, &shape.options()) {
            Ok(graph) => graph,
            Err(error) => {
                assert!(error.device().is_some_and(DeviceError::is_out_of_memory), "{error}");
                refused += 1;
                continue;
            }
        };
        let mut model = Model::new(shape);
        for ops in ops.chunks(3000) {
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
            assert_eq!((graph.edge_count(), graph.vertex_count()), (model.edge_count(), model.vertices));
        }
        match graph.csr() {
            Ok(rows) => assert_eq!(rows, model.csr()),
            Err(error) => assert!(error.device().is_some_and(DeviceError::is_out_of_memory), "{error}"),
        }
    }
    assert!(refused > 0 && done > 3, "{refused} refused, {done} done");
}
