// Hash sets of 64-bit keys.
#include "hash_batch.h"

WK_HASH_KERNELS(hash_set, wk::u64, wk::KeyOnly)
