// Hash maps of keys of 8 bytes and values of 4 bytes.
#include "hash_batch.h"

WK_HASH_KERNELS(hash_map_8_4, wk::u64, wk::u32)
