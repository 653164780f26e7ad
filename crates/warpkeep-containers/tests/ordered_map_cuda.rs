//! The ordered map on a GPU: the same batches as on the simulator.

#[path = "ordered_map/changes.rs"]
mod changes;
#[path = "ordered_map/container.rs"]
mod container;
#[path = "ordered_map/model.rs"]
mod model;

use std::io::Write as _;

use warpkeep_containers::OrderedMap;
use warpkeep_device::{Arch, DeviceError, KernelCache, compile_with, compiler_version};

/// What a kernel indexes by a variable lies in local memory, which no count of spills shows.
#[test]
fn kernels_keep_what_they_have_in_registers() {
    let mut out = std::io::stdout().lock();
    if let Err(error @ DeviceError::NoNvrtc { .. }) = compiler_version() {
        return writeln!(out, "SKIPPED: {error}").unwrap();
    }
    let programs = [
        OrderedMap::<u32, u32>::program(),
        OrderedMap::<u64, u64>::program(),
        OrderedMap::<u128, u64>::program(),
    ];
    let (mut kernels, mut most) = (0, 0);
    for program in programs {
        let compiled = compile_with(&KernelCache::none(), Arch::new(9, 0), &program).unwrap();
        for (kernel, uses) in &compiled.resources {
            assert_eq!(uses.stack_bytes, 0, "{kernel}: {uses:?}");
            (kernels, most) = (kernels + 1, most.max(uses.registers));
        }
    }
    writeln!(out, "ordered map: {kernels} kernels, none with more than {most} registers").unwrap();
}

mod wide {
    use super::container::Wide;

    warpkeep_suites::cuda_suite!(Wide);
}

mod narrow {
    use super::container::Narrow;

    warpkeep_suites::cuda_suite!(Narrow);
}

mod widest {
    use super::container::Widest;

    warpkeep_suites::cuda_suite!(Widest);
}

mod wide_changes {
    use super::changes::WideChanges;

    warpkeep_suites::cuda_suite!(WideChanges, batches: 100, operations: 800);
}

mod narrow_changes {
    use super::changes::NarrowChanges;

    warpkeep_suites::cuda_suite!(NarrowChanges, batches: 100, operations: 800);
}

mod widest_changes {
    use super::changes::WidestChanges;

    warpkeep_suites::cuda_suite!(WidestChanges, batches: 100, operations: 800);
}
