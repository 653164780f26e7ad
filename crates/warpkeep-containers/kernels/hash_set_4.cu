// Hash sets of 32-bit keys.
#include "hash_batch.h"

WK_HASH_KERNELS(hash_set_4, wk::u32, wk::KeyOnly)
