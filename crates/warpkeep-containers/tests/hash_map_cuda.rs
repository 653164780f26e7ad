//! The hash map on a GPU: the same batches as on the simulator.

mod hash_map_suite;

use hash_map_suite::Pairs;

warpkeep_suites::cuda_suite!(Pairs);
