//! What both sides of a launch must agree on.

#[cfg(not(no_simulator))]
use warpkeep_device::{Device, KernelCache, Mode};

use super::programs_for;
use crate::{Geometry, Layout};
use warpkeep_core::{KeySpec, ValueSpec};

/// Loading compares what both sides have.
#[test]
#[cfg(not(no_simulator))]
fn kernels_and_host_mean_the_same() {
    let device = Device::simulated(Mode::fast()).unwrap();
    let value = ValueSpec::fixed(128).unwrap();
    let programs = programs_for(Geometry::default(), Layout::Packed, KeySpec::U64, value).unwrap();
    for program in &programs {
        device.load_with(program, &KernelCache::none()).unwrap();
    }
    assert_eq!(programs.len(), 7);
    assert!(programs.iter().map(|program| program.agreements.len()).sum::<usize>() > 50);
}

#[test]
fn tables_without_fixed_lengths_are_for_devices_if_they_are_packed() {
    let (fixed, variable) = (ValueSpec::fixed(8).unwrap(), ValueSpec::variable(8).unwrap());
    let keys = KeySpec::variable(8).unwrap();
    let program = |layout, key, value| programs_for(Geometry::default(), layout, key, value);
    for (key, value) in [(KeySpec::U64, variable), (keys, fixed), (keys, variable)] {
        assert!(program(Layout::Packed, key, value).is_some());
    }
    assert!(program(Layout::InPlace, KeySpec::U64, variable).is_none());
}
