//! The counter map on the simulator.

mod suite;

use suite::Counters;

warpkeep_suites::simulator_suite!(Counters);
