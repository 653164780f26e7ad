//! The slab hash on a GPU: the same batches as on the simulator.

mod slab_multi;
mod slab_table;

use slab_multi::Multi;
use slab_table::Slabs;
use warpkeep_containers::{SlabHashOptions, SlabMap, SlabMultiMap, SlabSet};
use warpkeep_suites::device::{Container, Load, compare_with_model, on_gpu};

warpkeep_suites::cuda_suite!(Slabs<SlabMap, 64, true>);

mod wide {
    use super::*;
    warpkeep_suites::cuda_suite!(Slabs<SlabMap<u64, u64>, 128, true>);
}

mod keys {
    use super::*;
    warpkeep_suites::cuda_suite!(Slabs<SlabSet, 64, true>);
}

mod wide_keys {
    use super::*;
    warpkeep_suites::cuda_suite!(Slabs<SlabSet<u64>, 64, true>);
}

mod several_values {
    use super::*;
    warpkeep_suites::cuda_suite!(Multi<SlabMultiMap, 64>);
}

mod several_wide_values {
    use super::*;
    warpkeep_suites::cuda_suite!(Multi<SlabMultiMap<u64, u64>, 128>);
}

fn agrees<C: Container>() {
    on_gpu(|device| {
        let load = Load { seed: 1, batches: 20, operations: 50_000 };
        compare_with_model::<C>(device, load).unwrap_or_else(|wrong| panic!("{wrong}"));
    });
}

#[test]
fn slabs_of_other_sizes_agree_with_the_model() {
    agrees::<Slabs<SlabMap, 128, true>>();
    agrees::<Slabs<SlabMap<u64, u64>, 64, true>>();
    agrees::<Slabs<SlabSet, 128, true>>();
    agrees::<Multi<SlabMultiMap, 128>>();
}

#[test]
fn few_buckets_agree_with_the_model() {
    agrees::<Slabs<SlabMap, 64, false>>();
    agrees::<Slabs<SlabMap<u64, u64>, 128, false>>();
    agrees::<Slabs<SlabSet, 128, false>>();
    agrees::<Slabs<SlabSet<u64>, 128, false>>();
}

#[test]
fn builds_agree_with_the_cpu() {
    on_gpu(|device| {
        let keys: Vec<u64> = (0..300_000_u64).map(|i| (i * i % 200_003).wrapping_mul(0x9E37_79B9)).collect();
        let values: Vec<u64> = (0..300_000).collect();
        let mut map = SlabMap::<u64, u64>::new(device, SlabHashOptions::default()).unwrap();
        let mut on_cpu = SlabMap::on_cpu(SlabHashOptions::default());
        assert_eq!(map.build(&keys, &values).unwrap(), on_cpu.build(&keys, &values).unwrap());
        map.reserve(1 << 20).unwrap();
        assert_eq!(map.search(&keys).unwrap(), on_cpu.search(&keys).unwrap());
    });
}
