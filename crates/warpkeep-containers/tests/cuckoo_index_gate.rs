//! That every fault point of the cuckoo index is needed. Alone in its program: a fault point is left out of the whole process.

#![cfg(not(no_simulator))]

#[path = "cuckoo_index/calls.rs"]
mod calls;
#[path = "cuckoo_index/container.rs"]
mod container;
#[path = "cuckoo_index/model.rs"]
mod model;

use warpkeep_suites::device::{Gate, wrong_schedule};

#[test]
fn every_fault_point_is_noticed() {
    let entries = || wrong_schedule::<container::Entries>(60);
    let crowded = || wrong_schedule::<container::Crowded>(60);
    // Displacements must meet, which few schedules do.
    let displaced = || wrong_schedule::<container::Crowded>(2000);
    let calls = || wrong_schedule::<calls::Calls>(60);
    assert_eq!((entries(), crowded(), calls()), (None, None, None));
    Gate::new("the cuckoo index")
        .with("cuckoo_index.take", "in few buckets", &crowded)
        .with("cuckoo_index.take", "in calls of kernels", &calls)
        .with("cuckoo_index.mark", "", &displaced)
        .with("cuckoo_index.change", "", &calls)
        .run();
}
