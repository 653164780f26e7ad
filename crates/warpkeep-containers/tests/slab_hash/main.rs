//! Slab hashes of all widths: batches in device memory, bulk builds, the CPU, files.

#![cfg(not(no_simulator))]

#[path = "../slab_table/mod.rs"]
mod slab_table;

mod build;
mod calls;
mod cpu;
mod files;
mod limits;
mod traps;
mod verify;

use slab_table::Slabs;
use warpkeep_containers::{SlabMap, SlabSet};

mod wide_pairs {
    use super::{SlabMap, Slabs};
    warpkeep_suites::simulator_suite!(Slabs<SlabMap<u64, u64>, 128, false>);
}

mod keys {
    use super::{SlabSet, Slabs};
    warpkeep_suites::simulator_suite!(Slabs<SlabSet, 64, true>);
}

mod keys_in_few_buckets {
    use super::{SlabSet, Slabs};
    warpkeep_suites::simulator_suite!(Slabs<SlabSet, 128, false>);
}

mod wide_keys {
    use super::{SlabSet, Slabs};
    warpkeep_suites::simulator_suite!(Slabs<SlabSet<u64>, 64, false>);
}

use warpkeep_device::{Device, Mode};

fn device() -> Device {
    Device::simulated(Mode::fast()).unwrap()
}

/// Elements in ascending order.
fn sorted<T: Ord>(mut elements: Vec<T>) -> Vec<T> {
    elements.sort_unstable();
    elements
}
