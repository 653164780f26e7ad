// Batches of slab hashes whose keys need not be unique: 64-bit keys and 64-bit values.
#include "slab_batch.h"

WK_SLAB_MULTI_KERNELS(slab_multi_64, wk::SlabPair64)
