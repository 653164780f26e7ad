//! The hash map on the simulator and on the CPU.

#![cfg(not(no_simulator))]

mod accesses;
mod caller_stream;
mod calls;
mod container;
mod crowded;
mod files;
mod insertions;
mod keys;
mod limits;
mod model;
mod properties;
mod rest;
mod set;
mod set_limits;
mod traps;
mod widths;

mod pairs {
    use super::container::Pairs;

    warpkeep_suites::simulator_suite!(Pairs);
}

mod in_few_buckets {
    use super::crowded::Crowded;

    warpkeep_suites::simulator_suite!(Crowded);
}

mod insertions_alone {
    use super::insertions::Insertions;

    warpkeep_suites::simulator_suite!(Insertions);

    #[test]
    fn values_apart_and_keys_of_32_bits_agree_with_the_model() {
        use warpkeep_suites::device::wrong_schedule;

        assert_eq!(wrong_schedule::<Insertions<u64, [u64; 2]>>(20), None);
        assert_eq!(wrong_schedule::<Insertions<u32, u32>>(20), None);
    }
}

mod keys_alone {
    use super::set::{CrowdedKeys, Keys};

    mod any {
        use super::Keys;

        warpkeep_suites::simulator_suite!(Keys);
    }

    mod in_few_buckets {
        use super::CrowdedKeys;

        warpkeep_suites::simulator_suite!(CrowdedKeys);
    }
}

mod calls_of_kernels {
    use super::calls::Calls;

    warpkeep_suites::simulator_suite!(Calls);
}

#[test]
fn a_batch_sees_what_kernels_before_it_in_the_stream_do() {
    let device = warpkeep_device::Device::simulated(warpkeep_device::Mode::fast()).unwrap();
    caller_stream::a_batch_sees_what_kernels_before_it_in_the_stream_do(&device, 1000);
}

#[test]
fn keys_without_a_slot_are_inserted_once() {
    assert_eq!(rest::wrong_rest::<u64, u64>(40), None);
    assert_eq!(rest::wrong_rest::<u32, u32>(20), None);
    assert_eq!(rest::wrong_rest::<u64, [u64; 2]>(20), None);
    assert_eq!(rest::wrong_rest::<u32, [u64; 2]>(20), None);
}
