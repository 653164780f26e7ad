//! SlabMap on a GPU: the same batches as on the simulator.

mod slab_table;

use slab_table::Map;

mod small_slabs {
    use super::Map;
    warpkeep_suites::cuda_suite!(Map<64, true>);
}

mod large_slabs {
    use super::Map;
    warpkeep_suites::cuda_suite!(Map<128, true>);
}
