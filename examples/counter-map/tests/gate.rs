//! That the counter map's fault point is needed. Alone in its program: a fault point is left out of the whole process.

#![cfg(not(no_simulator))]

mod suite;

use suite::Counters;
use warpkeep_suites::device::{Gate, wrong_schedule};

#[test]
fn every_fault_point_is_noticed() {
    let schedules = || wrong_schedule::<Counters>(40);
    assert_eq!(schedules(), None);
    Gate::new("the counter map").with("counter_map.atomic_claim", "", &schedules).run();
}
