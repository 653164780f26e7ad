// Columns of operations on ordered structures of 32-bit keys and values, and their answers: src/kernels.rs has the same.
#pragma once
#include "warpkeep/ordered_map.h"

namespace bench {

using namespace wk;

struct OrderedColumns {
    // What the operations do: one byte each, or all the same.
    const u8* codes;
    const u32* keys;
    const u32* ends;
    const u32* values;
    u8* statuses;
    u32* found_keys;
    u32* found_values;
    u32* counts;
    u32* pair_keys;
    u32* pair_values;
    // Pairs that each range has room for.
    u64 stride;
    u64 count;
    u32 code;
    u32 reserved;

    WK_DEVICE OrderedOp op(u64 i) const { return (OrderedOp)(codes ? load(codes + i) : (u8)code); }
    WK_DEVICE void answer(u64 i, OrderedStatus status, u32 value, u32 key) const {
        store(statuses + i, (u8)status);
        if (found_values) store(found_values + i, value);
        if (found_keys) store(found_keys + i, key);
    }
};

}  // namespace bench
