//! The count of triangles that follows random batches, in all schedules.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use warpkeep_containers::{Edge, EdgeOp, GraphOptions};
use warpkeep_device::{Device, Mode};

use crate::device;
use crate::incremental::{apply, count, follow, graphs};

proptest! {
    #![proptest_config(Config { cases: 24, rng_seed: RngSeed::Fixed(17), failure_persistence: None, ..Config::default() })]

    /// Few vertices, so that a batch names an edge several times and in both directions, and triangles have several new edges or none.
    #[test]
    fn the_count_after_each_batch_is_that_from_scratch(
        batches in prop::collection::vec(prop::collection::vec((0..3_u8, 0..14_u32, 0..14_u32), 0..80), 1..6),
        keeps_loops in any::<bool>(),
    ) {
        let options = GraphOptions::default().undirected();
        let options = if keeps_loops { options.keep_loops() } else { options };
        let device = device();
        let graphs = graphs(&device, &options);
        let mut known = 0;
        for batch in &batches {
            let ops: Vec<EdgeOp> = batch.iter().map(|(kind, source, target)| match kind {
                0 => EdgeOp::delete(*source, *target),
                _ => EdgeOp::insert(Edge::new(*source, *target)),
            }).collect();
            known = apply(&device, &graphs, &ops).after(known);
            prop_assert_eq!(known, count(&graphs[2]));
            prop_assert_eq!(graphs[0].triangles().unwrap(), known);
        }
    }
}

#[test]
fn every_schedule_has_the_same_count() {
    for seed in 0..3 {
        follow(&Device::simulated(Mode::seeded(seed)).unwrap(), seed);
    }
}
