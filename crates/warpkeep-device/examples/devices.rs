//! What kernels could run on here, and what compiles them.

fn main() {
    for device in warpkeep_device::devices() {
        println!("{device}");
    }
    match warpkeep_device::compiler_version() {
        Ok(version) => println!("kernels are compiled by NVRTC {version}"),
        Err(error) => println!("no kernels can be compiled: {error}"),
    }
    match warpkeep_device::KernelCache::from_environment().folder() {
        Some(folder) => println!("compiled kernels are kept in {}", folder.display()),
        None => println!("compiled kernels are not kept"),
    }
}
