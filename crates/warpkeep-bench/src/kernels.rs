//! The benchmarks' own kernels, `kernels/*.cu`, and their parameters.
#![allow(unsafe_code, reason = "the simulator's entries are C functions")]

use bytemuck::NoUninit;
use warpkeep_device::DevicePtr;

/// Words that a kernel spreads its sums over.
pub(crate) const SUMS: usize = 64;

/// Rows to read or write; see `kernels/limits.cu`.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct AccessParams {
    pub(crate) words: DevicePtr,
    pub(crate) rows: u64,
    pub(crate) count: u64,
    pub(crate) seed: u64,
    pub(crate) stride: u64,
    pub(crate) salt: u64,
    pub(crate) sums: DevicePtr,
    pub(crate) homes: u64,
    pub(crate) came: DevicePtr,
}

impl AccessParams {
    /// The row of an access.
    pub(crate) fn row_of(&self, number: u64) -> u64 {
        let drawn = scatter(self.seed, number);
        let below = |range: u64| ((u128::from(drawn) * u128::from(range)) >> 64) as u64;
        if let Some(share) = self.rows.checked_div(self.homes) {
            return number % self.homes * share + below(share);
        }
        if self.stride > 0 { number * self.stride + below(self.stride) } else { below(self.rows) }
    }
}

fn scatter(seed: u64, number: u64) -> u64 {
    let x = number.wrapping_add(seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    x ^ (x >> 32)
}

/// Answers to check; see `kernels/answers.cu`.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct AnswersParams {
    pub(crate) count: u64,
    pub(crate) numbers: DevicePtr,
    pub(crate) statuses: DevicePtr,
    pub(crate) values: DevicePtr,
    pub(crate) value_len: u64,
    pub(crate) generation: u64,
    pub(crate) seed: u64,
    pub(crate) status: u32,
    pub(crate) with_value: u32,
    pub(crate) wrong: DevicePtr,
}

/// The parameters of a kernel that does nothing.
pub(crate) type NothingParams = u64;

warpkeep_device::kernel_set! {
    /// Kernels that read and write rows, and one that does nothing.
    pub(crate) struct LimitKernels in "limits.cu", prefix "bench_" {
        read_8: AccessParams,
        read_16: AccessParams,
        read_32: AccessParams,
        read_64: AccessParams,
        read_128: AccessParams,
        read_own_128: AccessParams,
        write_128: AccessParams,
        write_own_128: AccessParams,
        nothing: NothingParams,
    }
    agree {
        limits_sums = SUMS,
    }
}

warpkeep_device::kernel_set! {
    /// The kernel that checks answers.
    pub(crate) struct AnswerKernels in "answers.cu", prefix "bench_" {
        answers: AnswersParams,
    }
    agree {
        answers_sums = SUMS,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use warpkeep_device::{Arch, DeviceError, KernelCache, KernelSet as _, compile_with, compiler_version};

    use super::*;

    #[test]
    fn all_kernels_compile_for_a_gpu_and_nothing_spills() {
        if let Err(error @ DeviceError::NoNvrtc { .. }) = compiler_version() {
            writeln!(std::io::stdout().lock(), "SKIPPED: no NVRTC ({error})").expect("standard output");
            return;
        }
        for program in [LimitKernels::program(), AnswerKernels::program()] {
            let compiled =
                compile_with(&KernelCache::none(), Arch::new(9, 0), &program).expect("they compile");
            assert!(!compiled.log.contains("warning"), "{}", compiled.log);
            for kernel in program.kernels {
                let uses =
                    compiled.resources.get(kernel.name).unwrap_or_else(|| panic!("no {}", kernel.name));
                assert!(!uses.spills() && uses.registers <= 64, "{}: {uses:?}", kernel.name);
            }
        }
    }
}
