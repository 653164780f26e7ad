//! SlabAlloc on a GPU: the same batches as on the simulator.

mod slab_pool;

use slab_pool::Pool;

warpkeep_suites::cuda_suite!(Pool);
