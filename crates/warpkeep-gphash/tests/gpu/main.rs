//! Tables on the simulator: seeded schedules, crashes, lost devices, and work shared with the CPU. The cases that do
//! not need the simulator run on a GPU, too: see `gpu_cuda`.

#![cfg(not(no_simulator))]

#[macro_use]
mod cases;
mod adversary;
mod agree;
mod harness;
#[macro_use]
mod cells;
mod crash;
mod crashes;
#[macro_use]
mod host_gets;
#[macro_use]
mod keys;
mod losses;
mod lost;
#[macro_use]
mod device_index;
mod oracle;
#[macro_use]
mod paper;
#[path = "../table/rig.rs"]
#[allow(dead_code, reason = "shared with the tests of the CPU")]
mod rig;
mod schedules;
#[macro_use]
mod host_split;
mod snapshot;
#[macro_use]
mod fused;
#[macro_use]
mod value_cache;
mod variable;

fn on_the_simulator(case: fn(&warpkeep_device::Device, harness::Space)) {
    let device = warpkeep_device::Device::simulated(warpkeep_device::Mode::fast()).unwrap();
    case(&device, rig::heap);
}

all_cases!(crate::on_the_simulator);
paper_cases!(crate::on_the_simulator);
device_index_cases!(crate::on_the_simulator);
keys_cases!(crate::on_the_simulator);
fused_cases!(crate::on_the_simulator);
value_cache_cases!(crate::on_the_simulator);
host_gets_cases!(crate::on_the_simulator);
host_split_cases!(crate::on_the_simulator);
cells_cases!(crate::on_the_simulator);
