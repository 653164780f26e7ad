//! The hash map on the simulator: the suites of containers.

mod hash_map_suite;

use hash_map_suite::Pairs;

warpkeep_suites::simulator_suite!(Pairs);
