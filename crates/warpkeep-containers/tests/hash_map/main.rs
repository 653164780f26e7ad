//! The hash map on the simulator and on the CPU.

#![cfg(not(no_simulator))]

mod calls;
mod container;
mod crowded;
mod files;
mod keys;
mod limits;
mod model;
mod properties;
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
