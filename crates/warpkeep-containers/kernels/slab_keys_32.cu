// Slab hashes of 32-bit keys alone.
#include "slab_batch.h"

WK_SLAB_KERNELS(slab_keys_32, wk::SlabKey32)
