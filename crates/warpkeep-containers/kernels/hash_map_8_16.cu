// Hash maps of keys of 8 bytes and values of 16 bytes.
#include "hash_batch.h"

WK_HASH_KERNELS(hash_map_8_16, wk::u64, wk::U128)
