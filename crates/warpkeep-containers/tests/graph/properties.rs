//! The graph beside a plain map.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use warpkeep_containers::{
    ContainerError, DeviceCsr, DeviceEdgeOps, Edge, EdgeOp, EdgeOpKind, EdgeOpKinds, EdgeStatus, Graph,
    GraphOptions,
};
use warpkeep_device::{Device, DeviceError, Mode};
use warpkeep_suites::device::Dice;

use crate::batches::apply_on;
use crate::device;
use crate::model::{Model, Shape, check_answers, check_contents, random_op};

fn config(cases: u32) -> Config {
    Config { cases, rng_seed: RngSeed::Fixed(31), failure_persistence: None, ..Config::default() }
}

pub(crate) fn operations(most: usize) -> impl Strategy<Value = Vec<EdgeOp>> {
    let vertex = || prop_oneof![3 => 0..8_u32, 2 => 0..200_u32];
    let data = (0..100_u32, any::<u64>(), any::<i64>());
    let op = (0..4_u8, vertex(), vertex(), data);
    let op = op.prop_map(|(kind, source, target, (weight, id, time))| match kind {
        0 => EdgeOp::delete(source, target),
        _ => EdgeOp::insert(Edge::new(source, target).weight(weight as f32 / 4.0).id(id).time(time)),
    });
    prop::collection::vec(op, 0..most)
}

proptest! {
    #![proptest_config(config(48))]

    #[test]
    fn batches_agree_with_a_plain_map(
        batches in prop::collection::vec((operations(300), prop::collection::vec(0..210_u32, 0..4)), 1..5),
        shape in 0..32_u32,
    ) {
        let (device, shape) = (device(), Shape::of(shape));
        let on_device = Graph::new(&device, &shape.options()).unwrap();
        let planned_there = Graph::new(&device, &shape.options()).unwrap().without_small_batches();
        let on_cpu = Graph::on_cpu(&shape.options());
        let mut model = Model::new(shape);
        for (ops, doomed) in &batches {
            let right: Vec<EdgeStatus> = ops.iter().map(|op| model.apply(*op)).collect();
            prop_assert_eq!(&on_device.apply(ops).unwrap(), &right);
            prop_assert_eq!(&apply_on(&device, &planned_there, ops), &right);
            prop_assert_eq!(&on_cpu.apply(ops).unwrap(), &right);
            let gone = model.delete_vertices(doomed);
            for graph in [&on_device, &planned_there, &on_cpu] {
                prop_assert_eq!(graph.delete_vertices(doomed).unwrap(), gone);
                check_contents(graph, &model).unwrap();
            }
        }
        planned_there.compact().unwrap();
        check_contents(&planned_there, &model).unwrap();
        // A graph that is built from scratch has the same rows.
        let rebuilt = Graph::new(&device, &shape.options()).unwrap();
        rebuilt.insert_edges(&on_device.edges().unwrap()).unwrap();
        let (rows, right) = (rebuilt.csr().unwrap(), on_device.csr().unwrap());
        prop_assert_eq!(&rows.targets, &right.targets);
        prop_assert_eq!((&rows.weights, &rows.ids, &rows.times), (&right.weights, &right.ids, &right.times));
    }

    #[test]
    fn lists_of_any_vertices_agree_with_the_rows_of_all(
        ops in operations(400),
        asked in prop::collection::vec(prop_oneof![0..210_u32, Just(u32::MAX)], 0..60),
    ) {
        let (shape, mut model) = (Shape::of(0b11101), Model::new(Shape::of(0b11101)));
        let on_device = Graph::new(&device(), &shape.options()).unwrap();
        let on_cpu = Graph::on_cpu(&shape.options());
        for graph in [&on_device, &on_cpu] {
            graph.apply(&ops).unwrap();
        }
        ops.iter().for_each(|op| { model.apply(*op); });
        let lists = on_device.neighbours(&asked).unwrap();
        prop_assert_eq!(&lists, &on_cpu.neighbours(&asked).unwrap());
        let degrees = on_device.degrees(&asked).unwrap();
        prop_assert_eq!(&degrees, &on_cpu.degrees(&asked).unwrap());
        for (at, vertex) in asked.iter().enumerate() {
            let right: Vec<u32> = model.edges.range((*vertex, 0)..=(*vertex, u32::MAX)).map(|(key, _)| key.1).collect();
            prop_assert_eq!(lists.list(at), &right[..]);
            prop_assert_eq!(degrees[at] as usize, right.len());
        }
    }
}

#[test]
fn batches_that_the_device_plans_are_alike_in_every_schedule() {
    for seed in 0..4 {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        let shape = Shape::of(seed as u32 * 7 + 1);
        let graph = Graph::new(&device, &shape.options()).unwrap();
        let (mut model, mut dice) = (Model::new(shape), Dice::new(seed));
        for count in [1, 200, 40] {
            let ops: Vec<EdgeOp> = (0..count).map(|_| random_op(&mut dice, 50)).collect();
            let answers = apply_on(&device, &graph, &ops);
            check_answers(&mut model, &ops, &answers).unwrap();
            graph.compact().unwrap();
            check_contents(&graph, &model).unwrap();
        }
    }
}

#[test]
fn bad_arguments_are_refused_before_anything_changes() {
    let device = device();
    let graph = Graph::new(&device, &GraphOptions::default()).unwrap();
    let on_cpu = Graph::on_cpu(&GraphOptions::default());
    for graph in [&graph, &on_cpu] {
        graph.insert_edges(&[Edge::new(1, 2)]).unwrap();
        for ops in [
            [EdgeOp::insert(Edge::new(3, 4)), EdgeOp::insert(Edge::new(u32::MAX, 0))],
            [EdgeOp::insert(Edge::new(3, 4)), EdgeOp::delete(0, u32::MAX)],
        ] {
            let error = graph.apply(&ops).unwrap_err();
            assert!(matches!(error, ContainerError::TooLarge { what: "vertices", .. }), "{error}");
        }
        assert_eq!((graph.edge_count(), graph.vertex_count()), (1, 3));
        assert!(graph.apply(&[]).unwrap().is_empty() && graph.edges_exist(&[]).unwrap().is_empty());
        assert_eq!(graph.neighbours(&[]).unwrap().offsets, [0]);
        assert_eq!(graph.delete_vertices(&[]).unwrap(), 0);
    }
    let stream = device.stream().unwrap();
    let (column, codes) = (device.upload(&[1_u32, 2]).unwrap(), device.upload(&[7_u8, 200]).unwrap());
    let mut statuses = device.allocate(2).unwrap();
    let mut run = |graph: &Graph, kinds, count| {
        let none = None;
        let ops = DeviceEdgeOps {
            kinds,
            sources: &column,
            targets: &column,
            weights: none,
            ids: none,
            times: none,
            count,
        };
        graph.apply_on(ops, &mut statuses, &stream).map(|()| statuses.to_vec::<u8>().unwrap())
    };
    let error = run(&graph, EdgeOpKinds::All(EdgeOpKind::Insert), 3).unwrap_err();
    assert!(matches!(error.device(), Some(DeviceError::OutOfBounds { len: 12, size: 8, .. })), "{error}");
    let error = run(&on_cpu, EdgeOpKinds::All(EdgeOpKind::Insert), 2).unwrap_err();
    assert!(matches!(error, ContainerError::OnCpu { what: "apply_on" }), "{error}");
    assert!(on_cpu.reference().is_err());
    // Loops are dropped whatever the code is.
    assert_eq!(run(&graph, EdgeOpKinds::Each(&codes), 2).unwrap(), [EdgeStatus::Loop as u8; 2]);
    // A code that means nothing changes nothing.
    let kept = Graph::new(&device, &GraphOptions::default().keep_loops()).unwrap();
    kept.insert_edges(&[Edge::new(1, 1)]).unwrap();
    assert_eq!(run(&kept, EdgeOpKinds::Each(&codes), 2).unwrap(), [EdgeStatus::Absent as u8; 2]);
    assert_eq!((graph.edge_count(), kept.edge_count()), (1, 1));
}

#[test]
fn rows_can_be_had_in_device_memory() {
    let (device, shape) = (device(), Shape::of(0b11101));
    let graph = Graph::new(&device, &shape.options()).unwrap();
    let stream = device.stream().unwrap();
    let mut dice = Dice::new(3);
    let ops: Vec<EdgeOp> = (0..2000).map(|_| random_op(&mut dice, 90)).collect();
    graph.apply(&ops).unwrap();
    let (stats, right) = (graph.stats(), graph.csr().unwrap());
    let (vertices, edges) = (stats.vertices as usize, stats.entries as usize);
    let column = |bytes: usize| device.allocate(bytes).unwrap();
    let (mut offsets, mut targets) = (column(4 * (vertices + 1)), column(4 * edges));
    let (mut weights, mut ids, mut times) = (column(4 * edges), column(8 * edges), column(8 * edges));
    let rows = DeviceCsr {
        offsets: &mut offsets,
        targets: &mut targets,
        weights: Some(&mut weights),
        ids: Some(&mut ids),
        times: Some(&mut times),
    };
    assert_eq!(graph.csr_on(rows, &stream).unwrap(), (vertices as u64, edges as u64));
    let found: Vec<u64> = offsets.to_vec::<u32>().unwrap().into_iter().map(u64::from).collect();
    assert_eq!((found, targets.to_vec::<u32>().unwrap()), (right.offsets.clone(), right.targets.clone()));
    assert_eq!(weights.to_vec::<f32>().unwrap(), right.weights);
    assert_eq!(ids.to_vec::<u64>().unwrap(), right.ids);
    assert_eq!(times.to_vec::<i64>().unwrap(), right.times);
    let mut short = column(4 * edges - 4);
    let rows =
        DeviceCsr { offsets: &mut offsets, targets: &mut short, weights: None, ids: None, times: None };
    let error = graph.csr_on(rows, &stream).unwrap_err();
    assert!(matches!(error.device(), Some(DeviceError::OutOfBounds { what: "targets", .. })), "{error}");
    // Without room for it, data stays where it is.
    let rows =
        DeviceCsr { offsets: &mut offsets, targets: &mut targets, weights: None, ids: None, times: None };
    graph.csr_on(rows, &stream).unwrap();
    assert_eq!(targets.to_vec::<u32>().unwrap(), right.targets);
}
