//! From kernel source to code for one GPU architecture. Needs NVRTC and no GPU.

mod cache;
#[cfg(feature = "cuda")]
mod nvrtc;
mod resources;
mod sources;
mod stated;

use std::collections::BTreeMap;

pub use cache::KernelCache;
pub use resources::Resources;

use crate::arch::Arch;
use crate::error::{CudaVersion, DeviceError, Result};
use crate::program::{Agreement, Program};

/// The headers of this crate, by the names that kernels include them under.
///
/// | header | what it has |
/// | --- | --- |
/// | `simt.h` | the machine: memory, atomics, fences, warps and tiles, shared memory |
/// | `hash.h` | the hash functions of `warpkeep-core` |
/// | `hash_map.h` | a hash map and a hash set, for kernels that use one of `warpkeep-containers` |
/// | `hash_map.h` | a hash map, for kernels that use one: `warpkeep_containers::HashMap` |
/// | `cuckoo_index.h` | a cuckoo index, for kernels that use one: `warpkeep_containers::CuckooIndex` |
/// | `graph.h` | a dynamic graph, for kernels that read one: `warpkeep_containers::Graph` |
/// | `scan.h` | prefix sums of a warp and of a block |
/// | `device_scan.h` | a prefix sum of an array in device memory |
/// | `partition.h` | a counting sort by address |
/// | `radix_sort.h` | a stable sort of keys with payloads |
/// | `sorted_runs.h` | runs of equal keys in a sorted column; sorted columns merged |
/// | `append.h` | positions in lists, one atomic operation for many threads |
/// | `coop_read.h` | lines of 64 bytes that lanes read together |
/// | `sm_affinity.h` | ranges of addresses that one multiprocessor reads |
/// | `ordered_map.h` | an ordered map, for kernels that read one: `warpkeep_containers::OrderedMap` |
/// | `ordered_writer.h` | the same for kernels that change one: `warpkeep_containers::OrderedWriter` |
/// | `duplicates.h` | equal keys in a block, and in a batch |
/// | `slab_alloc.h` | units of one size that kernels claim and give back |
/// | `slab_cell.h` | cells of slabs: keys with their values, or keys alone |
/// | `slab_chain.h` | whole chains of slabs, each worked by one tile |
/// | `slab_hash.h` | a hash table of chains of slabs |
/// | `fault_point.h` | steps that a test can have left out |
pub const SEAM: &[(&str, &str)] = &[
    ("warpkeep/append.h", include_str!("../../include/warpkeep/append.h")),
    ("warpkeep/coop_read.h", include_str!("../../include/warpkeep/coop_read.h")),
    ("warpkeep/cuckoo_index.h", include_str!("../../include/warpkeep/cuckoo_index.h")),
    ("warpkeep/device_scan.h", include_str!("../../include/warpkeep/device_scan.h")),
    ("warpkeep/duplicates.h", include_str!("../../include/warpkeep/duplicates.h")),
    ("warpkeep/fault_point.h", include_str!("../../include/warpkeep/fault_point.h")),
    ("warpkeep/graph.h", include_str!("../../include/warpkeep/graph.h")),
    ("warpkeep/hash.h", include_str!("../../include/warpkeep/hash.h")),
    ("warpkeep/hash_map.h", include_str!("../../include/warpkeep/hash_map.h")),
    ("warpkeep/ordered_map.h", include_str!("../../include/warpkeep/ordered_map.h")),
    ("warpkeep/ordered_writer.h", include_str!("../../include/warpkeep/ordered_writer.h")),
    ("warpkeep/partition.h", include_str!("../../include/warpkeep/partition.h")),
    ("warpkeep/radix_sort.h", include_str!("../../include/warpkeep/radix_sort.h")),
    ("warpkeep/scan.h", include_str!("../../include/warpkeep/scan.h")),
    ("warpkeep/simt.h", include_str!("../../include/warpkeep/simt.h")),
    ("warpkeep/slab_alloc.h", include_str!("../../include/warpkeep/slab_alloc.h")),
    ("warpkeep/slab_cell.h", include_str!("../../include/warpkeep/slab_cell.h")),
    ("warpkeep/slab_chain.h", include_str!("../../include/warpkeep/slab_chain.h")),
    ("warpkeep/slab_hash.h", include_str!("../../include/warpkeep/slab_hash.h")),
    ("warpkeep/sm_affinity.h", include_str!("../../include/warpkeep/sm_affinity.h")),
    ("warpkeep/sorted_runs.h", include_str!("../../include/warpkeep/sorted_runs.h")),
];

/// The first NVRTC with a cache of its own, and with the option that turns it off.
const OLDEST_WITH_CACHE: CudaVersion = CudaVersion { major: 12, minor: 9 };

/// A program compiled for one architecture.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Compiled {
    /// What it was compiled for.
    pub arch: Arch,
    /// The code.
    pub cubin: Vec<u8>,
    /// What the compiler said: warnings, and the assembler's report.
    pub log: String,
    /// What each kernel uses.
    pub resources: BTreeMap<String, Resources>,
    /// Whether it came from the cache.
    pub cached: bool,
}

/// Compiles a program for an architecture, with the user's cache. No GPU is needed.
///
/// ```no_run
/// use warpkeep_device::{Arch, DeviceError, Program, compile_for};
///
/// let program = Program {
///     name: "example",
///     main: "example.cu",
///     sources: &[("example.cu", "extern \"C\" __global__ void nothing() {}")],
///     defines: vec![],
///     kernels: &[],
///     agreements: &[],
/// };
/// match compile_for(Arch::new(9, 0), &program) {
///     Ok(compiled) => assert_eq!(compiled.resources["nothing"].spill_load_bytes, 0),
///     Err(DeviceError::NoNvrtc { .. }) => println!("nothing to compile with"),
///     Err(other) => return Err(other),
/// }
/// # Ok::<(), DeviceError>(())
/// ```
pub fn compile_for(arch: Arch, program: &Program) -> Result<Compiled> {
    compile_with(&KernelCache::from_environment(), arch, program)
}

/// Compiles a program for an architecture, unless this cache has it.
pub fn compile_with(cache: &KernelCache, arch: Arch, program: &Program) -> Result<Compiled> {
    let compiler = Compiler::find()?;
    let version = compiler.version()?;
    let sources = sources::sources(program).ok_or_else(|| DeviceError::Compile {
        program: program.name,
        arch: arch.to_string(),
        log: format!("there is no source {:?}", program.main),
    })?;
    let options = options(version, arch, program);
    let key = key(version, &options, program.name, &sources);
    let (entry, cached) = match cache.get(&key) {
        Some(entry) => (entry, true),
        None => {
            let entry = compiler.compile(arch, program.name, &sources, &options)?;
            cache.put(&key, &entry);
            (entry, false)
        }
    };
    let resources = resources::parse(&entry.log);
    if let Some(missing) = program.kernels.iter().find(|kernel| !has_kernel(&entry.cubin, kernel.name)) {
        let known = resources.keys().cloned().collect::<Vec<_>>().join(", ");
        return Err(DeviceError::UnknownKernel {
            program: program.name,
            kernel: missing.name.to_owned(),
            known,
        });
    }
    check_agreements(program, &entry.cubin)?;
    Ok(Compiled { arch, cubin: entry.cubin, log: entry.log, resources, cached })
}

/// The version of NVRTC that compiles here.
pub fn compiler_version() -> Result<CudaVersion> {
    Compiler::find()?.version()
}

/// An error if the code takes other parameters than the host passes, or has another value for what both must agree on.
fn check_agreements(program: &Program, cubin: &[u8]) -> Result<()> {
    let stated = stated::numbers(cubin);
    for kernel in program.kernels {
        // Kernels that are not made by WK_KERNEL state nothing; the driver knows more when they are loaded.
        let expected = stated.get(format!("wk_params_{}", kernel.name).as_str()).map(|bytes| *bytes as usize);
        if let Some(expected) = expected.filter(|expected| *expected != kernel.params_bytes) {
            let (kernel, given) = (kernel.name.to_owned(), kernel.params_bytes);
            return Err(DeviceError::WrongParams { kernel, given, expected });
        }
    }
    for &Agreement { name, host, .. } in program.agreements {
        let kernels = stated.get(format!("wk_agree_{name}").as_str()).copied();
        if kernels != Some(host) {
            return Err(DeviceError::Disagreement { program: program.name, name, host, kernels });
        }
    }
    Ok(())
}

/// Whether the code has a kernel of this name: each has a section of its own, whose name stands in the file.
fn has_kernel(cubin: &[u8], name: &str) -> bool {
    let section = format!(".text.{name}\0");
    cubin.windows(section.len()).any(|bytes| bytes == section.as_bytes())
}

fn options(version: CudaVersion, arch: Arch, program: &Program) -> Vec<String> {
    let mut options = vec![
        format!("--gpu-architecture={arch}"),
        "--std=c++17".to_owned(),
        // Costs nothing at run time, and lets profilers and checkers name a line.
        "--generate-line-info".to_owned(),
        "--ptxas-options=-v".to_owned(),
    ];
    if version >= OLDEST_WITH_CACHE {
        // What comes out of NVRTC's own cache comes without the assembler's report.
        options.push("--no-cache".to_owned());
    }
    options.extend(program.defines.iter().map(|(name, value)| format!("--define-macro={name}={value}")));
    options
}

fn key(version: CudaVersion, options: &[String], name: &str, sources: &[sources::Source]) -> cache::Key {
    let compiler = version.to_string();
    let sources = sources.iter().flat_map(|(name, text)| [*name, *text]);
    let options = options.iter().map(String::as_str);
    cache::Key::of([compiler.as_str(), name].into_iter().chain(options).chain(["sources"]).chain(sources))
}

#[cfg(feature = "cuda")]
use nvrtc::Compiler;

/// What stands where NVRTC would be.
#[cfg(not(feature = "cuda"))]
enum Compiler {}

#[cfg(not(feature = "cuda"))]
impl Compiler {
    fn find() -> Result<Self> {
        Err(DeviceError::NoNvrtc { looked: "this program was built without the feature gpu".to_owned() })
    }

    fn version(&self) -> Result<CudaVersion> {
        match *self {}
    }

    fn compile(&self, _: Arch, _: &str, _: &[sources::Source], _: &[String]) -> Result<cache::Entry> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(value: &str) -> Program {
        Program {
            name: "p",
            main: "p.cu",
            sources: &[("p.cu", ""), ("unused.h", "")],
            defines: vec![("WIDTH".to_owned(), value.to_owned())],
            kernels: &[],
            agreements: &[],
        }
    }

    #[test]
    fn the_key_depends_on_all_that_the_code_depends_on() {
        let of = |minor, arch, program: &Program| {
            let version = CudaVersion { major: 13, minor };
            let sources = sources::sources(program).unwrap();
            key(version, &options(version, arch, program), program.name, &sources)
        };
        let hopper = Arch::new(9, 0);
        let first = of(0, hopper, &program("4"));
        assert_eq!(first, of(0, hopper, &program("4")));
        assert_ne!(first, of(0, hopper, &program("8")));
        assert_ne!(first, of(1, hopper, &program("4")));
        assert_ne!(first, of(0, Arch::new(8, 0), &program("4")));
        let mut other = program("4");
        other.sources = &[("p.cu", " ")];
        assert_ne!(first, of(0, hopper, &other));
        (other.main, other.sources) = ("q.cu", &[("q.cu", "")]);
        assert_ne!(first, of(0, hopper, &other));
        (other.main, other.sources) = ("p.cu", &[("p.cu", ""), ("unused.h", "changed")]);
        assert_eq!(first, of(0, hopper, &other));
    }
}
