//! Snapshots beside random steps and short memory.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use warpkeep_containers::{EdgeOp, Graph, GraphSnapshot};
use warpkeep_device::{Device, DeviceError, Mode};
use warpkeep_suites::device::Dice;

use crate::device;
use crate::model::{Model, Shape, check_contents, random_op};
use crate::properties::operations;
use crate::snapshots::shows;

#[derive(Debug, Clone)]
enum Step {
    Batch(Vec<EdgeOp>),
    DeleteVertices(Vec<u32>),
    Compact,
    Snapshot,
    /// Drops the snapshot at this position, if there are any.
    Drop(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => operations(120).prop_map(Step::Batch),
        1 => prop::collection::vec(0..210_u32, 0..4).prop_map(Step::DeleteVertices),
        1 => Just(Step::Compact),
        4 => Just(Step::Snapshot),
        2 => (0..100_usize).prop_map(Step::Drop),
    ];
    prop::collection::vec(step, 1..16)
}

proptest! {
    #![proptest_config(Config { cases: 32, rng_seed: RngSeed::Fixed(23), failure_persistence: None, ..Config::default() })]

    #[test]
    fn each_snapshot_shows_its_own_state(steps in steps(), shape in 0..32_u32) {
        let (device, shape) = (device(), Shape::of(shape));
        let on_device = || Graph::new(&device, &shape.options()).unwrap();
        for graph in [on_device(), on_device().without_small_batches(), Graph::on_cpu(&shape.options())] {
            let (mut model, mut held) = (Model::new(shape), Vec::<(GraphSnapshot, Model)>::new());
            for step in &steps {
                match step {
                    Step::Batch(ops) => {
                        graph.apply(ops).unwrap();
                        ops.iter().for_each(|op| { model.apply(*op); });
                    }
                    Step::DeleteVertices(doomed) => {
                        prop_assert_eq!(graph.delete_vertices(doomed).unwrap(), model.delete_vertices(doomed));
                    }
                    Step::Compact => graph.compact().unwrap(),
                    Step::Snapshot => held.push((graph.snapshot().unwrap(), model.clone())),
                    Step::Drop(at) if held.is_empty() => assert!(*at < 100),
                    Step::Drop(at) => drop(held.swap_remove(at % held.len())),
                }
                check_contents(&graph, &model).unwrap();
                held.iter().for_each(|(snapshot, model)| shows(snapshot, model));
            }
            drop(graph);
            held.iter().for_each(|(snapshot, model)| shows(snapshot, model));
        }
    }
}

#[test]
fn memory_that_is_short_leaves_snapshots_and_graph_as_they_were() {
    let device = Device::simulated(Mode::fast()).unwrap();
    let shape = Shape { times: true, ..Shape::default() };
    let mut refused = 0;
    for step in 1..30_u64 {
        let small = device.with_budget(100_000 + step * 40_000);
        let Ok(graph) = Graph::new(&small, &shape.options()) else { continue };
        let (mut model, mut dice, mut held) = (Model::new(shape), Dice::new(step), Vec::new());
        for _ in 0..6 {
            let ops: Vec<EdgeOp> = (0..1500).map(|_| random_op(&mut dice, 500)).collect();
            match graph.apply(&ops) {
                Ok(_) => ops.iter().for_each(|op| {
                    model.apply(*op);
                }),
                Err(error) => {
                    assert!(error.device().is_some_and(DeviceError::is_out_of_memory), "{error}");
                    refused += 1;
                }
            }
            match graph.delete_vertices(&[1, 400]) {
                Ok(_) => drop(model.delete_vertices(&[1, 400])),
                Err(error) => {
                    assert!(error.device().is_some_and(DeviceError::is_out_of_memory), "{error}");
                }
            }
            held.extend(graph.snapshot().ok().map(|snapshot| (snapshot, model.clone())));
            if let Ok(csr) = graph.csr() {
                assert_eq!(csr, model.csr());
            }
            for (snapshot, model) in &held {
                if let Ok(csr) = snapshot.csr() {
                    assert_eq!(csr, model.csr());
                }
            }
        }
    }
    assert!(refused > 10, "{refused} refused");
}
