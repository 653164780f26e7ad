// Gets from the image, and conversion of the caller's rows.
#include "read/get.h"
#include "read/pack.h"

WK_KERNEL(gphash_get, gphash::GetParams) {
    using namespace gphash;
    get_block<false>(p, [&](u64 first, u64 hash, u32 lanes, u32) { get_keys(p, first, hash, lanes); });
}

// The host checks these values when it loads the kernels: src/gpu/kernels.rs.
WK_AGREE(gphash_table_bytes, sizeof(gphash::Table))
WK_AGREE(gphash_max_levels, gphash::kMaxLevels)
WK_AGREE(gphash_max_overflows, gphash::kMaxOverflows)
WK_AGREE(gphash_empty, gphash::kEmpty)
WK_AGREE(gphash_insert, gphash::kInsert)
WK_AGREE(gphash_reference_bits, gphash::kReferenceBits)
WK_AGREE(gphash_special, gphash::kSpecial)
WK_AGREE(gphash_overflow_reach, gphash::kOverflowReach)
WK_AGREE(gphash_block_threads, gphash::kDuplicateThreads)
WK_AGREE(gphash_ok, gphash::kOk)
WK_AGREE(gphash_not_found, gphash::kNotFound)
