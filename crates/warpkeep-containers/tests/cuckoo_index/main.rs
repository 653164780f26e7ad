//! The cuckoo index on the simulator and on the CPU.

#![cfg(not(no_simulator))]

mod accesses;
mod calls;
mod container;
mod files;
mod model;
mod properties;
mod traps;

mod entries {
    use super::container::Entries;

    warpkeep_suites::simulator_suite!(Entries);
}

mod in_few_buckets {
    use super::container::Crowded;

    warpkeep_suites::simulator_suite!(Crowded);
}

mod calls_of_kernels {
    use super::calls::Calls;

    warpkeep_suites::simulator_suite!(Calls);
}
