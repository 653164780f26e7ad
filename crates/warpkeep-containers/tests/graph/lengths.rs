//! Lists and batches of all lengths that are worked differently, and batches that name vertices beyond the table.

use warpkeep_containers::{ContainerError, Edge, EdgeOp, EdgeStatus, Graph};
use warpkeep_device::Device;
use warpkeep_suites::device::Dice;

use crate::batches::{apply_on, try_apply_on};
use crate::model::{Model, Shape, check_answers, check_contents};

tests_of! {
    lists_of_all_lengths_change_in_one_batch,
    batches_name_vertices_beyond_the_table,
}

/// Lists of short, medium and long segments, at the boundaries between them.
const DEGREES: [u32; 8] = [0, 1, 9, 64, 65, 500, 2048, 2049];
/// Operations on a list in one batch.
const OPERATIONS: [u32; 5] = [1, 64, 65, 2048, 2049];

/// What operations do to the lists of a batch.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Grow,
    Shrink,
    Replace,
    Nothing,
    Mix,
}

fn operations(vertex: u32, degree: u32, count: u32, kind: Kind, dice: &mut Dice) -> Vec<EdgeOp> {
    // A list has every third vertex from 0 on.
    let there = |i: u32| 3 * (i % degree.max(1));
    let insert = |target: u32, i: u32| {
        EdgeOp::insert(Edge::new(vertex, target).weight(i as f32).id(u64::from(i) << 8).time(i64::from(i)))
    };
    (0..count)
        .map(|i| match kind {
            Kind::Grow => insert(3 * i + 1, i),
            Kind::Shrink => EdgeOp::delete(vertex, there(i)),
            Kind::Replace => insert(there(i), i),
            Kind::Nothing => EdgeOp::delete(vertex, 3 * i + 2),
            Kind::Mix => match dice.below(3) {
                0 => EdgeOp::delete(vertex, dice.below(u64::from(3 * degree + 3)) as u32),
                _ => insert(dice.below(u64::from(3 * degree + 200)) as u32, i),
            },
        })
        .collect()
}

pub(crate) fn lists_of_all_lengths_change_in_one_batch(device: &Device) {
    let mut dice = Dice::new(11);
    let shape = Shape { weights: true, ids: true, times: true, keeps_loops: true, ..Shape::default() };
    for kind in [Kind::Grow, Kind::Shrink, Kind::Replace, Kind::Nothing, Kind::Mix] {
        for (number, with_snapshot) in [(0, false), (1, true)] {
            let (graph, mut model) = (Graph::new(device, &shape.options()).unwrap(), Model::new(shape));
            let lists: Vec<(u32, u32, u32)> = DEGREES
                .iter()
                .flat_map(|degree| OPERATIONS.map(|count| (*degree, count)))
                .zip(1000..)
                .map(|((degree, count), vertex)| (vertex, degree, count))
                .collect();
            let old: Vec<EdgeOp> = lists
                .iter()
                .flat_map(|&(vertex, degree, _)| {
                    (0..degree).map(move |i| EdgeOp::insert(Edge::new(vertex, 3 * i)))
                })
                .collect();
            check_answers(&mut model, &old, &graph.apply(&old).unwrap()).unwrap();
            let kept = with_snapshot.then(|| (graph.snapshot().unwrap(), model.csr()));
            let mut ops: Vec<EdgeOp> = lists
                .iter()
                .flat_map(|&(vertex, degree, count)| operations(vertex, degree, count, kind, &mut dice))
                .collect();
            // In any order, but the operations on one edge after each other.
            ops.sort_by_key(|op| (op.edge.target.wrapping_mul(2_654_435_761), op.edge.source));
            let answers =
                if number == 0 { graph.apply(&ops).unwrap() } else { apply_on(device, &graph, &ops) };
            check_answers(&mut model, &ops, &answers).unwrap();
            check_contents(&graph, &model).unwrap();
            if let Some((snapshot, right)) = kept {
                assert_eq!(snapshot.csr().unwrap(), right, "{kind:?}");
            }
            // Few runs, of which some belong to long lists.
            let few: Vec<EdgeOp> = ops.iter().step_by(ops.len() / 1500).copied().collect();
            check_answers(&mut model, &few, &graph.apply(&few).unwrap()).unwrap();
            check_contents(&graph, &model).unwrap();
        }
    }
}

pub(crate) fn batches_name_vertices_beyond_the_table(device: &Device) {
    for undirected in [false, true] {
        let shape = Shape { undirected, keeps_loops: true, ids: true, ..Shape::default() };
        let graphs = [
            Graph::new(device, &shape.options()).unwrap(),
            Graph::new(device, &shape.options()).unwrap().without_small_batches(),
        ];
        for (number, graph) in graphs.iter().enumerate() {
            let (mut model, mut dice) = (Model::new(shape), Dice::new(3));
            // The table gets new vertices without more bits, and with them; operations that only delete make none.
            for (vertices, count) in
                [(3, 5), (4, 700), (5, 3), (9, 40), (300, 6000), (500, 100), (9000, 5000)]
            {
                let ops: Vec<EdgeOp> = (0..count)
                    .map(|i| {
                        let (source, target) = (dice.below(vertices) as u32, dice.below(vertices) as u32);
                        match i % 4 {
                            3 => EdgeOp::delete(source + 100_000 * (i % 8 / 4), target),
                            _ => EdgeOp::insert(Edge::new(source, target).id(u64::from(i))),
                        }
                    })
                    .collect();
                let answers = apply_on(device, graph, &ops);
                check_answers(&mut model, &ops, &answers).unwrap();
                check_contents(graph, &model).unwrap();
            }
            let before = graph.stats();
            let none = [EdgeOp::insert(Edge::new(5, 6)), EdgeOp::insert(Edge::new(2, u32::MAX))];
            let error = try_apply_on(device, graph, &none).unwrap_err();
            assert!(
                matches!(error, ContainerError::TooLarge { what: "vertices", .. }),
                "graph {number}: {error}"
            );
            let absent = [EdgeOp::delete(5, u32::MAX - 1), EdgeOp::delete(u32::MAX - 1, u32::MAX - 1)];
            assert_eq!(apply_on(device, graph, &absent), [EdgeStatus::Absent; 2]);
            assert_eq!((graph.stats().edges, graph.vertex_count()), (before.edges, before.vertices));
        }
    }
}
