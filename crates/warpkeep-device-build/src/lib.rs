//! For build scripts of crates that have GPU kernels.
//!
//! Such a crate depends on `warpkeep-device`, keeps its kernels in a folder `kernels`, and has this `build.rs`:
//!
//! ```no_run
//! warpkeep_device_build::Kernels::in_folder("kernels").compile();
//! ```
//!
//! [`Kernels::compile`] does three things:
//!
//! * It writes the table of all source files of the folder, which `warpkeep_device::kernel_set!` includes. For a GPU, the sources
//!   are compiled at run time.
//! * It compiles every `*.cu` of the folder for the simulator, in one translation unit, and links the result into the crate. A
//!   kernel that two `*.cu` files include is therefore compiled once, if its header has `#pragma once`.
//! * It sets the cfg `no_simulator` where there is no C++ compiler, and so no simulator.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Where `kernel_set!` finds the table of sources, in `OUT_DIR`.
const SOURCES: &str = "warpkeep_kernel_sources.rs";

/// A folder of kernels, to be compiled.
#[derive(Debug, Clone)]
pub struct Kernels {
    folder: PathBuf,
    library: String,
    link: bool,
}

impl Kernels {
    /// The kernels in this folder of the package.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        let package = env::var("CARGO_PKG_NAME").unwrap_or_default();
        Self { folder: folder.into(), library: format!("{}_kernels", package.replace('-', "_")), link: true }
    }

    /// Compiles them into this library and leaves it to the code that uses the kernels to link it, with `#[link(name = "...")]`:
    /// for kernels that only tests use.
    #[must_use]
    pub fn unlinked(self, library: &str) -> Self {
        Self { library: library.to_owned(), link: false, ..self }
    }

    /// Writes the table of sources, and compiles the kernels if the `warpkeep-device` that this package depends on has a simulator.
    ///
    /// # Panics
    /// If the folder cannot be read, the table cannot be written, or the kernels do not compile. Cargo reports it as a failed
    /// build script.
    pub fn compile(&self) {
        let of_seam = |name: &str| env::var(format!("DEP_WARPKEEP_SIMT_{name}")).unwrap_or_default();
        let seam = Seam {
            include: of_seam("INCLUDE").into(),
            simulator: of_seam("SIMULATOR") == "1",
            fault_points: of_seam("FAULT_POINTS") == "1",
        };
        self.compile_with(&seam);
    }

    /// As [`compile`](Self::compile), for the package that has the simulator itself.
    ///
    /// # Panics
    /// As [`compile`](Self::compile).
    pub fn compile_with(&self, seam: &Seam) {
        println!("cargo:rustc-check-cfg=cfg(no_simulator)");
        println!("cargo:rerun-if-changed={}", self.folder.display());
        println!("cargo:rerun-if-changed={}", seam.include.display());
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts"));
        let sources = sources(&self.folder);
        write_if_new(&out.join(SOURCES), &table(&sources));
        if !seam.simulator {
            println!("cargo:rustc-cfg=no_simulator");
            return;
        }
        let unit = out.join(format!("{}.cpp", self.library));
        write_if_new(&unit, &translation_unit(&sources));
        let mut build = compiler(&seam.include);
        if seam.fault_points {
            build.define("WK_FAULT_POINTS", None);
        }
        build.cargo_metadata(self.link).include(&self.folder).file(&unit).compile(&self.library);
        if !self.link {
            println!("cargo:rustc-link-search=native={}", out.display());
        }
    }
}

/// What the kernels are compiled against.
#[derive(Debug, Clone)]
pub struct Seam {
    /// The folder that has `warpkeep/simt.h`.
    pub include: PathBuf,
    /// Whether there is a simulator to run kernels on.
    pub simulator: bool,
    /// Whether fault points are compiled in.
    pub fault_points: bool,
}

/// A C++ compiler with the options that the simulator and all kernels are compiled with.
pub fn compiler(include: &Path) -> cc::Build {
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").include(include).warnings(true).extra_warnings(true);
    // Without optimisation every test of a kernel is slow.
    build.opt_level(2).cargo_warnings(true);
    build
}

/// A source file: its name relative to the folder, with `/` between parts, and its path.
struct Source {
    name: String,
    path: PathBuf,
}

/// All source files below a folder, by name.
fn sources(folder: &Path) -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inner) = folders.pop() {
        let entries = fs::read_dir(&inner).unwrap_or_else(|error| panic!("{}: {error}", inner.display()));
        for entry in entries {
            let path = entry.unwrap_or_else(|error| panic!("{}: {error}", inner.display())).path();
            let is_source = path.extension().is_some_and(|extension| extension == "h" || extension == "cu");
            if path.is_dir() {
                folders.push(path);
            } else if is_source {
                let relative = path.strip_prefix(folder).unwrap_or(&path);
                let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
                found.push(Source { name: parts.join("/"), path });
            }
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

/// A Rust expression: names and texts of all sources.
fn table(sources: &[Source]) -> String {
    let mut table = "&[\n".to_owned();
    for Source { name, path } in sources {
        let path = path.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        table.push_str(&format!("    ({name:?}, include_str!({path:?})),\n"));
    }
    table.push_str("]\n");
    table
}

/// The C++ source that has all kernels.
fn translation_unit(sources: &[Source]) -> String {
    let programs = sources.iter().filter(|source| source.name.ends_with(".cu"));
    programs.map(|source| format!("#include \"{}\"\n", source.name)).collect()
}

/// Writes a file unless it is there already, so that what depends on it is not compiled again.
fn write_if_new(path: &Path, text: &str) {
    if fs::read_to_string(path).is_ok_and(|there| there == text) {
        return;
    }
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sources_are_listed_and_programs_are_compiled() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("read")).unwrap();
        for name in ["write.cu", "read.cu", "read/get.h", "notes.txt"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let found = sources(folder.path());
        let names: Vec<&str> = found.iter().map(|source| source.name.as_str()).collect();
        assert_eq!(names, ["read.cu", "read/get.h", "write.cu"]);
        assert_eq!(translation_unit(&found), "#include \"read.cu\"\n#include \"write.cu\"\n");
        let table = table(&found);
        assert_eq!(table.matches("include_str!").count(), 3);
        assert!(table.contains("(\"read/get.h\", include_str!("), "{table}");
    }
}
