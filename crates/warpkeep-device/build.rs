//! Builds the simulator, and the kernels that this crate's tests run on it.
//!
//! Crates with kernels of their own get from here what to compile against; their build scripts use `warpkeep-device-build`.

use std::path::{Path, PathBuf};

use warpkeep_device_build::{Kernels, Seam, compiler};

const SIMULATOR: &[&str] = &[
    "ask.cpp",
    "c_api.cpp",
    "collective.cpp",
    "context.cpp",
    "fault_point.cpp",
    "machine.cpp",
    "pool.cpp",
    "region.cpp",
    "replay.cpp",
    "stale.cpp",
    "weak.cpp",
    "wide.cpp",
    "worker.cpp",
];

fn main() {
    println!("cargo:rustc-check-cfg=cfg(no_simulator)");
    for watched in ["build.rs", "include", "simulator"] {
        println!("cargo:rerun-if-changed={watched}");
    }
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| ".".to_owned()));
    // A build without the feature needs no compiler, and no warning about one.
    let wanted = std::env::var_os("CARGO_FEATURE_SIMULATOR").is_some();
    let missing = if wanted { compiler_missing() } else { Some(String::new()) };
    let seam = Seam {
        include: root.join("include"),
        simulator: missing.is_none(),
        fault_points: std::env::var_os("CARGO_FEATURE_TESTING").is_some(),
    };
    println!("cargo:include={}", seam.include.display());
    println!("cargo:simulator={}", u32::from(seam.simulator));
    println!("cargo:fault_points={}", u32::from(seam.fault_points));
    match missing {
        // From here on an error is a mistake in the sources, and must not pass as a machine without a compiler.
        None => compile_simulator(&seam.include),
        Some(reason) => {
            println!("cargo:rustc-cfg=no_simulator");
            if wanted {
                println!("cargo:rerun-if-env-changed=CXX");
                println!(
                    "cargo:warning=no simulator: {reason}; install a C++17 compiler (g++ or clang++) to run kernels with no GPU"
                );
            }
        }
    }
    // A published crate may come without its tests.
    if Path::new("tests/kernels").exists() {
        Kernels::in_folder("tests/kernels").unlinked("warpkeep_test_kernels").compile_with(&seam);
    }
}

/// Why there is no compiler that will do; `None` if there is one.
fn compiler_missing() -> Option<String> {
    let compiler =
        match compiler(Path::new("include")).cargo_warnings(false).cargo_output(false).try_get_compiler() {
            Ok(compiler) => compiler,
            Err(error) => return Some(error.to_string()),
        };
    match compiler.to_command().arg("--version").output() {
        Ok(output) if output.status.success() => None,
        Ok(_) => Some(format!("{} does not run", compiler.path().display())),
        Err(error) => Some(format!("{}: {error}", compiler.path().display())),
    }
}

/// Compiles the simulator into a static library that is linked into this crate.
fn compile_simulator(include: &Path) {
    let mut build = compiler(include);
    for source in SIMULATOR {
        build.file(Path::new("simulator").join(source));
    }
    build.compile("warpkeep_simt");
}
