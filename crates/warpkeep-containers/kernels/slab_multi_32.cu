// Batches of slab hashes whose keys need not be unique: 32-bit keys and 32-bit values.
#include "slab_batch.h"

WK_SLAB_MULTI_KERNELS(slab_multi_32, wk::SlabPair32)
