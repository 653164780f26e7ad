//! From kernel source to code for one GPU architecture. Needs NVRTC and no GPU.

mod cache;
#[cfg(feature = "cuda")]
mod nvrtc;
mod resources;

use std::collections::BTreeMap;

pub use cache::KernelCache;
pub use resources::Resources;

use crate::arch::Arch;
use crate::error::{CudaVersion, DeviceError, Result};
use crate::program::Program;

/// The seam header, by the names that kernels include it under.
pub const SEAM: &[(&str, &str)] = &[("warpkeep/simt.h", include_str!("../../include/warpkeep/simt.h"))];

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
///     sources: &[("example.cu", "extern \"C\" __global__ void nothing() {}")],
///     defines: vec![],
///     kernels: &[],
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
    let options = options(version, arch, program);
    let key = key(version, &options, program);
    let (entry, cached) = match cache.get(&key) {
        Some(entry) => (entry, true),
        None => {
            let entry = compiler.compile(arch, program, &options)?;
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
    Ok(Compiled { arch, cubin: entry.cubin, log: entry.log, resources, cached })
}

/// The version of NVRTC that compiles here.
pub fn compiler_version() -> Result<CudaVersion> {
    Compiler::find()?.version()
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

fn key(version: CudaVersion, options: &[String], program: &Program) -> cache::Key {
    let compiler = version.to_string();
    let sources = program.sources.iter().chain(SEAM).flat_map(|(name, text)| [*name, *text]);
    let options = options.iter().map(String::as_str);
    cache::Key::of(
        [compiler.as_str(), program.name].into_iter().chain(options).chain(["sources"]).chain(sources),
    )
}

#[cfg(feature = "cuda")]
use nvrtc::Compiler;

/// What stands where NVRTC would be.
#[cfg(not(feature = "cuda"))]
enum Compiler {}

#[cfg(not(feature = "cuda"))]
impl Compiler {
    fn find() -> Result<Self> {
        Err(DeviceError::NoNvrtc { looked: "this program was built without the feature cuda".to_owned() })
    }

    fn version(&self) -> Result<CudaVersion> {
        match *self {}
    }

    fn compile(&self, _: Arch, _: &Program, _: &[String]) -> Result<cache::Entry> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(value: &str) -> Program {
        Program {
            name: "p",
            sources: &[("p.cu", "")],
            defines: vec![("WIDTH".to_owned(), value.to_owned())],
            kernels: &[],
        }
    }

    #[test]
    fn the_key_depends_on_all_that_the_code_depends_on() {
        let of = |minor, arch, program: &Program| {
            let version = CudaVersion { major: 13, minor };
            key(version, &options(version, arch, program), program)
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
        other.sources = &[("q.cu", "")];
        assert_ne!(first, of(0, hopper, &other));
    }
}
