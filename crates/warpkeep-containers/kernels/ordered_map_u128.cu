// Ordered maps of 128-bit keys and 64-bit values.
#include "ordered_pool.h"

using OrderedU128 = ordered_map::Params<wk::U128, wk::u64>;
WK_ORDERED_KERNELS(ordered_map_u128, OrderedU128)
