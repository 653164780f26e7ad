//! Vertices without edges, the data of edges, and numbers that are used again while a snapshot holds their old edges.

use warpkeep_containers::{ContainerError, Edge, EdgeOp, Graph, GraphOptions};
use warpkeep_device::Device;
use warpkeep_suites::device::Dice;

use crate::model::{Model, Shape, check_contents, random_op};

tests_of! {
    edges_are_found_with_their_data,
    lists_with_more_than_2_32_edges_are_refused_on_both_forms,
    numbers_of_deleted_vertices_are_used_again_beside_a_snapshot,
}

pub(crate) fn edges_are_found_with_their_data(device: &Device) {
    for number in 0..32 {
        let shape = Shape::of(number);
        let on_device = Graph::new(device, &shape.options()).unwrap();
        for graph in [on_device, Graph::on_cpu(&shape.options())] {
            let (mut model, mut dice) = (Model::new(shape), Dice::new(7));
            let ops: Vec<EdgeOp> = (0..900).map(|_| random_op(&mut dice, 60)).collect();
            graph.apply(&ops).unwrap();
            ops.iter().for_each(|op| {
                model.apply(*op);
            });
            let mut asked: Vec<(u32, u32)> = (0..70).flat_map(|i| (0..70).map(move |j| (i, j))).collect();
            asked.extend([(0, u32::MAX), (u32::MAX, u32::MAX), (4_000_000_000, 1)]);
            let right: Vec<Option<Edge>> = asked.iter().map(|pair| model.edges.get(pair).copied()).collect();
            assert_eq!(graph.find_edges(&asked).unwrap(), right);
            let before = graph.snapshot().unwrap();
            graph.delete_vertices(&(0..60).collect::<Vec<u32>>()).unwrap();
            assert_eq!(before.find_edges(&asked).unwrap(), right);
            assert_eq!(graph.find_edges(&asked[..900]).unwrap(), vec![None; 900]);
            assert_eq!(graph.find_edges(&[]).unwrap(), []);
        }
    }
}

pub(crate) fn numbers_of_deleted_vertices_are_used_again_beside_a_snapshot(device: &Device) {
    for shape in [0, 1, 28, 31].map(Shape::of) {
        let on_device = || Graph::new(device, &shape.options()).unwrap();
        for graph in [on_device(), on_device().without_small_batches(), Graph::on_cpu(&shape.options())] {
            let (mut model, mut dice, mut held) = (Model::new(shape), Dice::new(17), Vec::new());
            for round in 0..5_u32 {
                let ops: Vec<EdgeOp> = (0..700).map(|_| random_op(&mut dice, 90)).collect();
                graph.apply(&ops).unwrap();
                ops.iter().for_each(|op| {
                    model.apply(*op);
                });
                held.push((graph.snapshot().unwrap(), model.clone()));
                let doomed: Vec<u32> = (0..90).filter(|vertex| vertex % 5 == round).collect();
                assert_eq!(graph.delete_vertices(&doomed).unwrap(), model.delete_vertices(&doomed));
                // The same numbers, with other edges and data.
                let reused: Vec<EdgeOp> = doomed
                    .iter()
                    .flat_map(|vertex| (1..4).map(move |i| Edge::new(*vertex, (vertex + 7 * i) % 90)))
                    .map(|edge| EdgeOp::insert(edge.id(u64::from(round) + 900).time(-1).weight(8.5)))
                    .collect();
                graph.apply(&reused).unwrap();
                reused.iter().for_each(|op| {
                    model.apply(*op);
                });
                check_contents(&graph, &model).unwrap();
                for (snapshot, then) in &held {
                    assert_eq!(snapshot.csr().unwrap(), then.csr());
                    let pairs: Vec<(u32, u32)> = then.edges.keys().copied().collect();
                    let edges: Vec<Option<Edge>> = then.edges.values().copied().map(Some).collect();
                    assert_eq!(snapshot.find_edges(&pairs).unwrap(), edges);
                }
                if round == 2 {
                    graph.compact().unwrap();
                    held.remove(0);
                }
            }
        }
    }
}

pub(crate) fn lists_with_more_than_2_32_edges_are_refused_on_both_forms(device: &Device) {
    const DEGREE: u32 = 1 << 16;
    let options = GraphOptions::default();
    let edges: Vec<Edge> = (0..DEGREE).map(|i| Edge::new(7, i + 8)).collect();
    for graph in [Graph::new(device, &options).unwrap(), Graph::on_cpu(&options)] {
        graph.insert_edges(&edges).unwrap();
        // Also those of a snapshot, and totals that 32 bits would show as a few.
        let snapshot = graph.snapshot().unwrap();
        for count in [DEGREE, DEGREE + 1] {
            let asked = vec![7; count as usize];
            for answer in [graph.neighbours(&asked), snapshot.neighbours(&asked)] {
                let error = answer.unwrap_err();
                let ContainerError::TooLarge { what, given, most } = error else { panic!("{error}") };
                assert_eq!((what, given), ("edges of one call", u64::from(count) << 16));
                assert_eq!(most, u64::from(u32::MAX));
            }
            assert_eq!(graph.degrees(&asked).unwrap(), vec![DEGREE; count as usize]);
        }
        assert_eq!(graph.neighbours(&[7; 3]).unwrap().offsets, [0, 1 << 16, 2 << 16, 3 << 16]);
    }
}
