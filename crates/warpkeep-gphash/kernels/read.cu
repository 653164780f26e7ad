// Gets from the image, and rows of a caller's as kernels have them.
#include "get.h"
#include "rows.h"

WK_KERNEL(gphash_get, gphash::GetParams) {
    using namespace gphash;
    get_block<false>(p, [&](u64 first, u64 hash, u32 which, u32) { get_keys(p, first, hash, which); });
}

// The host has the same: src/gpu/kernels.rs.
WK_AGREE(gphash_table_bytes, sizeof(gphash::Table))
WK_AGREE(gphash_max_levels, gphash::kMaxLevels)
WK_AGREE(gphash_max_overflows, gphash::kMaxOverflows)
WK_AGREE(gphash_empty, gphash::kEmpty)
WK_AGREE(gphash_insert, gphash::kInsert)
WK_AGREE(gphash_reference_bits, gphash::kReferenceBits)
WK_AGREE(gphash_special, gphash::kSpecial)
WK_AGREE(gphash_overflow_reach, gphash::kOverflowReach)
WK_AGREE(gphash_block_threads, gphash::kTwinThreads)
WK_AGREE(gphash_ok, gphash::kOk)
WK_AGREE(gphash_not_found, gphash::kNotFound)
