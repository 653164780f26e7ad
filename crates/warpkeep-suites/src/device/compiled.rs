//! Compiles kernels for a GPU, which needs no GPU.

use warpkeep_device::{Arch, DeviceError, KernelCache, Program, compile_with, compiler_version};

use super::{Container, report};

/// Compiles all kernels of a container for a GPU. Prints `SKIPPED` where there is no compiler for them.
///
/// # Panics
/// If one does not compile, has a warning, disagrees with the host, or spills registers.
pub fn compile<C: Container>() {
    compile_programs(C::NAME, &C::programs());
}

/// As [`compile`], for programs that are no container's.
///
/// # Panics
/// As [`compile`].
pub fn compile_programs(name: &str, programs: &[Program]) {
    if let Err(error @ DeviceError::NoNvrtc { .. }) = compiler_version() {
        return report(&format!("SKIPPED: {error}"));
    }
    for program in programs {
        let compiled = compile_with(&KernelCache::none(), Arch::new(9, 0), program)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!compiled.log.contains("warning"), "{}", compiled.log);
        for (kernel, uses) in &compiled.resources {
            assert!(!uses.spills(), "{kernel}: {uses:?}");
        }
    }
}
