// Slab hashes of 64-bit keys and 64-bit values.
#include "slab_batch.h"

WK_SLAB_KERNELS(slab_pairs_64, wk::SlabPair64)
