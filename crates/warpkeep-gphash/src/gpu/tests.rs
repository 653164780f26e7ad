//! What both sides of a launch must agree on.

use warpkeep_device::{Device, Grid, KernelCache, Mode};

use super::params::LayoutParams;
use super::{facts, program_for};
use crate::{Geometry, Layout};
use warpkeep_core::{KeySpec, ValueSpec};

#[test]
#[cfg(not(no_simulator))]
fn kernels_and_host_mean_the_same() {
    let device = Device::simulated(Mode::fast()).unwrap();
    let value = ValueSpec::fixed(128).unwrap();
    let program = program_for(Geometry::default(), Layout::Packed, KeySpec::U64, value).unwrap();
    let module = device.load_with(&program, &KernelCache::none()).unwrap();
    let expected = facts::expected();
    let out = device.allocate_zeroed(8 * expected.len()).unwrap();
    let stream = device.stream().unwrap();
    let params = LayoutParams { out: out.ptr() };
    // SAFETY: there is room for as many facts as are expected, which is as many as there are.
    unsafe {
        module.launch("gphash_layout", Grid { blocks: 1, threads: 32, shared_bytes: 0 }, &params, &stream)
    }
    .unwrap();
    stream.synchronize().unwrap();
    assert_eq!(out.to_vec::<u64>().unwrap(), expected);
}

#[test]
fn tables_without_fixed_lengths_are_for_devices_if_they_are_packed() {
    let (fixed, variable) = (ValueSpec::fixed(8).unwrap(), ValueSpec::variable(8).unwrap());
    let keys = KeySpec::variable(8).unwrap();
    let program = |layout, key, value| program_for(Geometry::default(), layout, key, value);
    for (key, value) in [(KeySpec::U64, variable), (keys, fixed), (keys, variable)] {
        assert!(program(Layout::Packed, key, value).is_some());
    }
    assert!(program(Layout::InPlace, KeySpec::U64, variable).is_none());
}
