// Ordered maps of 32-bit keys and 32-bit values.
#include "ordered_pool.h"

using OrderedU32 = ordered_map::Params<wk::u32, wk::u32>;
WK_ORDERED_KERNELS(ordered_map_u32, OrderedU32)
