//! Lists the kernels' sources, and compiles them for the simulator if there is one.

fn main() {
    warpkeep_device_build::Kernels::in_folder("kernels").compile();
}
