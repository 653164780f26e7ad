//! What is here to run kernels on.

use std::fmt;

use crate::arch::Arch;
use crate::choice::DeviceChoice;

/// One place where an index can run, and what it can do.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// What to ask for to get it.
    pub choice: DeviceChoice,
    /// What it is, for people.
    pub name: String,
    /// Why it cannot be used, if it cannot: a sentence that ends with what to do next.
    pub unavailable: Option<String>,
    /// What it can do. The numbers of a device that cannot be used are zero.
    pub abilities: Abilities,
}

/// What a device can do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Abilities {
    /// What kernels are compiled for; `None` where they are not compiled for a GPU.
    pub arch: Option<Arch>,
    /// Bytes of device memory; 0 if it is the host's.
    pub memory_bytes: u64,
    /// Processors that run blocks of threads.
    pub multiprocessors: u32,
    /// Bytes of the last cache before device memory.
    pub l2_bytes: u64,
    /// Most threads in one block.
    pub threads_per_block: u32,
    /// Most bytes of shared memory in one block.
    pub shared_bytes_per_block: u32,
    /// Whether host memory can be registered, so that kernels reach it.
    pub registers_host_memory: bool,
    /// Whether atomics on host memory agree with the CPU's. Where they do not, CPU and device must never race on a word.
    pub host_atomics: bool,
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<8}{}", self.choice, self.name)?;
        if let Some(why) = &self.unavailable {
            return write!(f, ": not usable: {why}");
        }
        if let Some(arch) = self.abilities.arch {
            let gib = self.abilities.memory_bytes as f64 / (1u64 << 30) as f64;
            write!(f, ", {arch}, {gib:.0} GiB, {} multiprocessors", self.abilities.multiprocessors)?;
        }
        Ok(())
    }
}

/// Everything an index can run on here: the CPU first, then the simulator, then each GPU. Where no GPU can be used, one
/// entry for the first says why.
///
/// ```
/// let here = warpkeep_device::devices();
/// assert_eq!(here[0].choice.to_string(), "cpu");
/// for device in &here {
///     println!("{device}");
/// }
/// ```
pub fn devices() -> Vec<DeviceInfo> {
    let cpu = DeviceInfo {
        choice: DeviceChoice::Cpu,
        name: format!("this machine's {} cores", cores()),
        unavailable: None,
        abilities: Abilities { multiprocessors: cores(), host_atomics: true, ..Abilities::default() },
    };
    let mut found = vec![cpu, crate::simulated::info()];
    found.extend(cuda_devices());
    found
}

#[cfg(feature = "cuda")]
fn cuda_devices() -> Vec<DeviceInfo> {
    crate::cuda::devices()
}

#[cfg(not(feature = "cuda"))]
fn cuda_devices() -> Vec<DeviceInfo> {
    vec![without_cuda(&crate::error::NoCuda::BuiltWithout)]
}

/// The entry that says why there is no GPU to use.
pub(crate) fn without_cuda(reason: &crate::error::NoCuda) -> DeviceInfo {
    DeviceInfo {
        choice: DeviceChoice::Cuda(0),
        name: "a CUDA GPU".to_owned(),
        unavailable: Some(reason.to_string()),
        abilities: Abilities::default(),
    }
}

pub(crate) fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}
