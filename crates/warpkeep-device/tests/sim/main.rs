//! The simulator: that it computes what a GPU computes, and that it finds what is planted.

#[cfg(not(no_simulator))]
mod collectives;
#[cfg(not(no_simulator))]
mod crash;
#[cfg(not(no_simulator))]
mod faults;
#[cfg(not(no_simulator))]
mod order;
#[cfg(not(no_simulator))]
mod replay;
#[cfg(not(no_simulator))]
mod support;
#[cfg(not(no_simulator))]
mod table;
#[cfg(not(no_simulator))]
mod tsan;

#[cfg(no_simulator)]
#[test]
fn a_build_without_a_compiler_says_so() {
    use std::io::Write as _;
    use warpkeep_device::sim::{Mode, SimError, Simulator};

    assert_eq!(Simulator::new(Mode::fast()).err(), Some(SimError::Unavailable));
    writeln!(std::io::stdout().lock(), "sim: SKIPPED: built where there is no C++ compiler")
        .expect("standard output");
}
