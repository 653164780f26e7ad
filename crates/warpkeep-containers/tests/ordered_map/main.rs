//! The ordered map on the simulator and on the CPU.

#![cfg(not(no_simulator))]

mod borders;
mod calls;
mod changes;
mod container;
mod device_calls;
mod files;
mod large;
mod limits;
mod memory;
mod model;
mod properties;
mod reads;
mod snapshots;
mod traps;
mod writers;

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

mod wide_changes {
    use super::changes::WideChanges;

    warpkeep_suites::simulator_suite!(WideChanges);
}
