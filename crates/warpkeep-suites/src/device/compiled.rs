//! Compiles kernels for a GPU, which needs no GPU.

use warpkeep_device::{Arch, DeviceError, KernelCache, Program, compile_with, compiler_version};

use super::{Container, report};

/// Compiled kernels beside the test programs, for all of them: kernels that have not changed need not be compiled again.
fn cache() -> KernelCache {
    let program = std::env::current_exe().unwrap_or_default();
    let folder = program.parent().filter(|folder| folder.ends_with("deps"));
    match folder.and_then(|folder| folder.ancestors().nth(2)) {
        Some(target) => KernelCache::at(target.join("tmp").join("kernels")),
        None => KernelCache::none(),
    }
}

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
    let cache = cache();
    for program in programs {
        let compiled =
            compile_with(&cache, Arch::new(9, 0), program).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!compiled.log.contains("warning"), "{}", compiled.log);
        for (kernel, uses) in &compiled.resources {
            assert!(!uses.spills(), "{kernel}: {uses:?}");
        }
    }
}
