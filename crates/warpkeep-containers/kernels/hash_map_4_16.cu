// Hash maps of keys of 4 bytes and values of 16 bytes.
#include "hash_batch.h"

WK_HASH_KERNELS(hash_map_4_16, wk::u32, wk::U128)
