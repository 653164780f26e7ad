// The value cache: loading it, and redirecting updates of cached keys.
#include "value_cache/load.h"

// The host checks these values when it loads the kernels: src/gpu/kernels.rs.
WK_AGREE(gphash_values_params_bytes, sizeof(gphash::ValueCache))
WK_AGREE(gphash_values_choice_bytes, sizeof(gphash::Choice))
WK_AGREE(gphash_values_in_row, gphash::kInRow)
WK_AGREE(gphash_values_frequencies, gphash::kFrequencies)
