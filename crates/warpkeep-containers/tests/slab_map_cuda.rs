//! The slab hash on a GPU: the same batches as on the simulator.

mod slab_multi;
mod slab_table;

use slab_multi::Multi;
use slab_table::Slabs;
use warpkeep_containers::{SlabHashOptions, SlabMap, SlabMultiMap, SlabSet};
use warpkeep_device::KernelSet as _;
use warpkeep_suites::device::{Container, Load, compare_with_model, compile_programs, on_gpu};

warpkeep_device::kernel_set! {
    struct HashCalls in "slab_hash_calls.cu" {}
}

warpkeep_device::kernel_set! {
    struct AllocCalls in "slab_alloc_calls.cu" {}
}

#[test]
fn kernels_compile_for_a_gpu_and_do_not_spill() {
    let mut programs = vec![HashCalls::program(), AllocCalls::program()];
    // The first program has what all kinds share; a multimap adds one; the last is that of the allocator.
    programs.extend(SlabMultiMap::<u32, u32>::programs());
    programs.extend(SlabMultiMap::<u64, u64>::programs().into_iter().take(2));
    programs.extend(SlabSet::<u32>::programs().into_iter().take(1));
    programs.extend(SlabSet::<u64>::programs().into_iter().take(1));
    compile_programs("slab hash", &programs);
}

fn agrees<C: Container>() {
    on_gpu(|device| {
        let load = Load { seed: 1, batches: 20, operations: 50_000 };
        compare_with_model::<C>(device, load).unwrap_or_else(|wrong| panic!("{wrong}"));
    });
}

#[test]
fn tables_that_grow_agree_with_the_model() {
    agrees::<Slabs<SlabMap, 64, true>>();
    agrees::<Slabs<SlabMap, 128, true>>();
    agrees::<Slabs<SlabMap<u64, u64>, 64, true>>();
    agrees::<Slabs<SlabMap<u64, u64>, 128, true>>();
    agrees::<Slabs<SlabSet, 64, true>>();
    agrees::<Slabs<SlabSet, 128, true>>();
    agrees::<Slabs<SlabSet<u64>, 64, true>>();
}

#[test]
fn few_buckets_agree_with_the_model() {
    agrees::<Slabs<SlabMap, 64, false>>();
    agrees::<Slabs<SlabMap<u64, u64>, 128, false>>();
    agrees::<Slabs<SlabSet, 128, false>>();
    agrees::<Slabs<SlabSet<u64>, 128, false>>();
}

#[test]
fn multimaps_agree_with_the_model() {
    agrees::<Multi<SlabMultiMap, 64>>();
    agrees::<Multi<SlabMultiMap, 128>>();
    agrees::<Multi<SlabMultiMap<u64, u64>, 128>>();
}

#[test]
fn builds_agree_with_the_cpu() {
    on_gpu(|device| {
        let keys: Vec<u64> = (0..300_000_u64).map(|i| (i * i % 200_003).wrapping_mul(0x9E37_79B9)).collect();
        let values: Vec<u64> = (0..300_000).collect();
        let mut map =
            SlabMap::<u64, u64>::new(device, SlabHashOptions { seed: Some(0), ..SlabHashOptions::default() })
                .unwrap();
        let mut on_cpu = SlabMap::on_cpu(SlabHashOptions { seed: Some(0), ..SlabHashOptions::default() });
        assert_eq!(map.build(&keys, &values).unwrap(), on_cpu.build(&keys, &values).unwrap());
        map.reserve(1 << 20).unwrap();
        assert_eq!(map.search(&keys).unwrap(), on_cpu.search(&keys).unwrap());
    });
}
