//! Graphs for which memory is short.

use warpkeep_containers::{EdgeOp, Graph};
use warpkeep_device::{Device, DeviceError, Mode};
use warpkeep_suites::device::Dice;

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
