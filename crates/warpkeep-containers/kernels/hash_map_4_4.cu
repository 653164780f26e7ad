// Hash maps of keys of 4 bytes and values of 4 bytes.
#include "hash_batch.h"

WK_HASH_KERNELS(hash_map_4_4, wk::u32, wk::u32)
