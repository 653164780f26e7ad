//! The slab hash on a GPU: the same batches as on the simulator.

mod slab_multi;
mod slab_table;

use slab_multi::Multi;
use slab_table::Map;
use warpkeep_suites::device::{Container, Load, compare_with_model, on_gpu};

// All kinds have their kernels in one program, which this compiles.
warpkeep_suites::cuda_suite!(Map<64, true>);

fn agrees<C: Container>() {
    on_gpu(|device| {
        let load = Load { seed: 1, batches: 20, operations: 50_000 };
        compare_with_model::<C>(device, load).unwrap_or_else(|wrong| panic!("{wrong}"));
    });
}

#[test]
fn large_slabs_agree_with_the_model() {
    agrees::<Map<128, true>>();
}

#[test]
fn few_buckets_agree_with_the_model() {
    agrees::<Map<64, false>>();
}

#[test]
fn multimaps_agree_with_the_model() {
    agrees::<Multi<64>>();
    agrees::<Multi<128>>();
}
