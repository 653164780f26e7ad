//! The ordered map on the simulator and on the CPU.

#![cfg(not(no_simulator))]

mod calls;
mod container;
mod device_calls;
mod files;
mod limits;
mod model;
mod properties;
mod snapshots;
mod traps;

mod wide {
    use super::container::Wide;

    warpkeep_suites::simulator_suite!(Wide);
}

mod narrow {
    use super::container::Narrow;

    warpkeep_suites::simulator_suite!(Narrow);
}

mod widest {
    use super::container::Widest;

    warpkeep_suites::simulator_suite!(Widest);
}
