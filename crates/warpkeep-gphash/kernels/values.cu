// The value cache.
#include "value_load.h"

// The host has the same: src/gpu/kernels.rs.
WK_AGREE(gphash_values_params_bytes, sizeof(gphash::Values))
WK_AGREE(gphash_values_choice_bytes, sizeof(gphash::Choice))
WK_AGREE(gphash_values_in_row, gphash::kInRow)
WK_AGREE(gphash_values_heats, gphash::kHeats)
