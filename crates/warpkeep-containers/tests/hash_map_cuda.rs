//! The hash map on a GPU: the same batches as on the simulator.

#[path = "hash_map/caller_stream.rs"]
mod caller_stream;
#[path = "hash_map/calls.rs"]
mod calls;
#[path = "hash_map/container.rs"]
mod container;
#[path = "hash_map/crowded.rs"]
mod crowded;
#[path = "hash_map/insertions.rs"]
mod insertions;
#[path = "hash_map/keys.rs"]
mod keys;
#[path = "hash_map/model.rs"]
mod model;
#[path = "hash_map/set.rs"]
mod set;

use warpkeep_containers::HashMap;
use warpkeep_device::{Arch, KernelCache, Program, compile_with, compiler_version};
use warpkeep_suites::device::{Container, Load, compare_with_model, on_gpu, report};

mod pairs {
    use super::container::Pairs;

    warpkeep_suites::cuda_suite!(Pairs);
}

mod in_few_buckets {
    use super::crowded::Crowded;

    warpkeep_suites::cuda_suite!(Crowded);
}

mod insertions_alone {
    use super::insertions::Insertions;

    warpkeep_suites::cuda_suite!(Insertions);
}

mod keys_alone {
    use super::set::{CrowdedKeys, Keys};

    mod any {
        use super::Keys;

        warpkeep_suites::cuda_suite!(Keys);
    }

    mod in_few_buckets {
        use super::CrowdedKeys;

        warpkeep_suites::cuda_suite!(CrowdedKeys);
    }
}

mod calls_of_kernels {
    use super::calls::Calls;

    warpkeep_suites::cuda_suite!(Calls);
}

#[test]
fn a_batch_sees_what_kernels_before_it_in_the_stream_do() {
    on_gpu(|device| caller_stream::a_batch_sees_what_kernels_before_it_in_the_stream_do(device, 1 << 13));
}

/// Without compiling the kernels once more.
fn agrees<C: Container>() {
    on_gpu(|device| {
        let load = Load { seed: 1, batches: 20, operations: 50_000 };
        compare_with_model::<C>(device, load).unwrap_or_else(|wrong| panic!("{wrong}"));
    });
}

macro_rules! widths {
    ($($name:ident: $key:ty, $value:ty;)*) => {$(
        mod $name {
            use super::agrees;

            mod pairs {
                use crate::container::Pairs;

                warpkeep_suites::cuda_suite!(Pairs<$key, $value>);
            }

            #[test]
            fn insertions_alone() {
                agrees::<crate::insertions::Insertions<$key, $value>>();
            }

            #[test]
            fn in_few_buckets() {
                agrees::<crate::crowded::Crowded<$key, $value>>();
            }

            #[test]
            fn calls_of_kernels() {
                agrees::<crate::calls::Calls<$key, $value>>();
            }
        }
    )*};
}

widths! {
    eight_to_four: u64, u32;
    eight_to_sixteen: u64, [u64; 2];
    four_to_four: u32, u32;
    four_to_eight: u32, u64;
    four_to_sixteen: u32, [u64; 2];
}

mod keys_of_32_bits {
    use super::set::{CrowdedKeys, Keys};

    warpkeep_suites::cuda_suite!(Keys<u32>);

    #[test]
    fn in_few_buckets() {
        super::agrees::<CrowdedKeys<u32>>();
    }
}

#[test]
fn slots_of_up_to_8_bytes_compile_for_older_gpus() {
    if compiler_version().is_err() {
        return report("SKIPPED: no NVRTC: run scripts/nvrtc");
    }
    for program in [HashMap::<u32, u32>::program(), HashMap::<u64, [u64; 2]>::program()] {
        let compiled = compile_with(&KernelCache::none(), Arch::new(8, 0), &program)
            .unwrap_or_else(|error| panic!("{}: {error}", program.name));
        assert!(compiled.resources.values().all(|uses| !uses.spills()), "{:?}", compiled.resources);
    }
}

/// A program with one kernel that makes this call of a map with values of 16 bytes.
fn program_of(name: &'static str, sources: &'static [(&'static str, &'static str)]) -> Program {
    Program { name, main: name, sources, defines: Vec::new(), kernels: &[], agreements: &[] }
}

macro_rules! calling {
    ($name:literal, $call:literal) => {
        program_of(
            $name,
            &[(
                $name,
                concat!(
                    "#include \"warpkeep/hash_map.h\"\n",
                    "struct Params { wk::HashRef<wk::u64, wk::U128> map; wk::u64* out; };\n",
                    "WK_KERNEL(call, Params) {\n",
                    "    wk::u64 i = wk::global_index();\n",
                    "    wk::U128 value{i, i};\n",
                    "    wk::store(p.out + i, (wk::u64)(",
                    $call,
                    ") + value.lo);\n",
                    "}\n",
                ),
            )],
        )
    };
}

#[test]
fn calls_with_values_of_16_bytes_compile_for_older_gpus_unless_they_exchange_them() {
    if compiler_version().is_err() {
        return report("SKIPPED: no NVRTC: run scripts/nvrtc");
    }
    let compiles = |arch, program: &Program| compile_with(&KernelCache::none(), arch, program).is_ok();
    let (older, newer) = (Arch::new(8, 0), Arch::new(9, 0));
    for program in [
        calling!("find.cu", "p.map.find(i, value)"),
        calling!("insert.cu", "p.map.insert(i, value, &value)"),
        calling!("erase.cu", "p.map.erase(i, &value)"),
        calling!("put.cu", "p.map.upsert(wk::MapOp::Put, i, value)"),
    ] {
        assert!(compiles(older, &program) && compiles(newer, &program), "{}", program.name);
    }
    let exchange = calling!("exchange.cu", "p.map.upsert(wk::MapOp::Put, i, value, &value)");
    assert!(!compiles(older, &exchange) && compiles(newer, &exchange));
}
