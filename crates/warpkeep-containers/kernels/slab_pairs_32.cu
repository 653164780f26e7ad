// Slab hashes of 32-bit keys and 32-bit values.
#include "slab_batch.h"

WK_SLAB_KERNELS(slab_pairs_32, wk::SlabPair32)
