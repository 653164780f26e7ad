//! Tables worked by a device, on the simulator: seeded schedules, crashes, hand-over to the CPU and back.
//! What does not depend on the simulator runs on a GPU, too: see the tests named `gpu_cuda`.

#![cfg(not(no_simulator))]

#[macro_use]
mod cases;
mod adversary;
mod agree;
mod bench;
#[macro_use]
mod cells;
mod crash;
mod crashes;
#[macro_use]
mod hosts;
#[macro_use]
mod keys;
mod losses;
mod lost;
#[macro_use]
mod mirror;
mod mirror_schedules;
mod oracle;
#[macro_use]
mod paper;
#[path = "../table/rig.rs"]
#[allow(dead_code, reason = "shared with the tests of the CPU")]
mod rig;
mod schedules;
#[macro_use]
mod sharing;
mod snapshot;
#[macro_use]
mod straight;
mod straight_schedules;
#[macro_use]
mod values;
mod values_schedules;
mod variable;

fn on_the_simulator(case: fn(&warpkeep_device::Device, bench::Space)) {
    let device = warpkeep_device::Device::simulated(warpkeep_device::Mode::fast()).unwrap();
    case(&device, rig::heap);
}

all_cases!(crate::on_the_simulator);
paper_cases!(crate::on_the_simulator);
mirror_cases!(crate::on_the_simulator);
keys_cases!(crate::on_the_simulator);
straight_cases!(crate::on_the_simulator);
values_cases!(crate::on_the_simulator);
hosts_cases!(crate::on_the_simulator);
sharing_cases!(crate::on_the_simulator);
cells_cases!(crate::on_the_simulator);
