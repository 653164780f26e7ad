//! The ordered map on the simulator and on the CPU.

#![cfg(not(no_simulator))]

mod container;
mod model;
mod properties;
mod traps;

mod wide {
    use super::container::Wide;

    warpkeep_suites::simulator_suite!(Wide);
}

mod narrow {
    use super::container::Narrow;

    warpkeep_suites::simulator_suite!(Narrow);
}
