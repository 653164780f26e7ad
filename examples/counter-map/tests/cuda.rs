//! The counter map on a GPU: the same batches as on the simulator.

mod suite;

use suite::Counters;

warpkeep_suites::cuda_suite!(Counters);
