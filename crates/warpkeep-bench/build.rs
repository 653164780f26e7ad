//! Compiles the kernels for the simulator, if there is one. For a GPU they are compiled when they are first used.

fn main() {
    println!("cargo:rustc-check-cfg=cfg(no_simulator)");
    println!("cargo:rerun-if-changed=kernels");
    let told = |name: &str| std::env::var(format!("DEP_WARPKEEP_SIMT_{name}")).unwrap_or_default();
    if told("SIMULATOR") != "1" {
        println!("cargo:rustc-cfg=no_simulator");
        return;
    }
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").include(told("INCLUDE")).warnings(true).extra_warnings(true).opt_level(2);
    build.file("kernels/simulated.cpp").compile("warpkeep_bench_kernels");
}
