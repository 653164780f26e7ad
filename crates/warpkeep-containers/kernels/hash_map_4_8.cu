// Hash maps of keys of 4 bytes and values of 8 bytes.
#include "hash_batch.h"

WK_HASH_KERNELS(hash_map_4_8, wk::u32, wk::u64)
