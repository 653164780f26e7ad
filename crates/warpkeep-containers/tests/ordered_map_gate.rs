//! That every fault point of the ordered map is needed. Alone in its program: a fault point is left out of the whole process.

#![cfg(not(no_simulator))]

// Other tests use the rest of it.
#[allow(dead_code)]
#[path = "ordered_map/changes.rs"]
mod changes;
#[allow(dead_code)]
#[path = "ordered_map/model.rs"]
mod model;

use warpkeep_suites::device::{Gate, wrong_schedule};

#[test]
fn every_fault_point_is_noticed() {
    let wide = || wrong_schedule::<changes::WideChanges>(80);
    assert_eq!(wide(), None);
    Gate::new("the ordered map")
        .with("ordered_map.copy", "", &wide)
        .with("ordered_map.latch", "", &wide)
        .with("ordered_map.lead", "", &wide)
        .with("ordered_map.publish", "", &wide)
        .with("ordered_map.replaced", "", &wide)
        .with("ordered_map.right", "", &wide)
        .run();
}
