// Slab hashes of 64-bit keys alone.
#include "slab_batch.h"

WK_SLAB_KERNELS(slab_keys_64, wk::SlabKey64)
