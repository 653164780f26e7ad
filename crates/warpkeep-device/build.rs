//! Builds the simulator, and the kernels that this crate's tests run on it.
//!
//! Crates with kernels of their own find the seam header through `DEP_WARPKEEP_SIMT_INCLUDE` in their build scripts; see the
//! documentation of the module `sim`.

use std::path::Path;

const SIMULATOR: &[&str] = &[
    "ask.cpp",
    "c_api.cpp",
    "collective.cpp",
    "context.cpp",
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
    for watched in ["build.rs", "include", "simulator", "tests/kernels"] {
        println!("cargo:rerun-if-changed={watched}");
    }
    let root = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| ".".to_owned());
    println!("cargo:include={}", Path::new(&root).join("include").display());

    let missing = compiler_missing();
    println!("cargo:simulator={}", u32::from(missing.is_none()));
    if let Some(reason) = missing {
        println!("cargo:rustc-cfg=no_simulator");
        println!("cargo:rerun-if-env-changed=CXX");
        println!(
            "cargo:warning=no simulator: {reason}; install a C++17 compiler (g++ or clang++) to run kernels with no GPU"
        );
        return;
    }
    // From here on an error is a mistake in the sources, and must not pass as a machine without a compiler.
    compile("simulator", SIMULATOR, "warpkeep_simt", true);
    // A published crate may come without its tests.
    if Path::new("tests/kernels/all.cpp").exists() {
        compile("tests/kernels", &["all.cpp"], "warpkeep_test_kernels", false);
    }
}

fn build() -> cc::Build {
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").include("include").warnings(true).extra_warnings(true);
    // A simulator that is not optimised makes every test of a kernel slow.
    build.opt_level(2).cargo_warnings(true);
    build
}

/// Why there is no compiler that will do; `None` if there is one.
fn compiler_missing() -> Option<String> {
    let compiler = match build().cargo_warnings(false).cargo_output(false).try_get_compiler() {
        Ok(compiler) => compiler,
        Err(error) => return Some(error.to_string()),
    };
    match compiler.to_command().arg("--version").output() {
        Ok(output) if output.status.success() => None,
        Ok(_) => Some(format!("{} does not run", compiler.path().display())),
        Err(error) => Some(format!("{}: {error}", compiler.path().display())),
    }
}

/// Compiles sources of one folder into a static library. The simulator is linked into this crate; the test kernels are left
/// to the tests, which name them.
fn compile(folder: &str, sources: &[&str], library: &str, link: bool) {
    let mut build = build();
    build.cargo_metadata(link);
    for source in sources {
        build.file(Path::new(folder).join(source));
    }
    build.compile(library);
}
