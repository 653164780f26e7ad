// Rows of bytes, as callers have them in device memory, and rows of whole words, as kernels take them.
#pragma once
#include "stage.h"

namespace gphash {

struct SpreadParams {
    u64 count;
    // Rows of `len` bytes, one after the other.
    const u8* from;
    // Rows of `words` words, with zeros behind the bytes.
    u64* to;
    u32 len;
    u32 words;
};

struct PackParams {
    u64 count;
    const u64* from;
    u8* to;
    // Only rows of operations that answer with a value are copied, and that were done.
    const u8* statuses;
    const u8* ops;
    u32 len;
    u32 words;
};

WK_DEVICE bool answers_value(const PackParams& p, u64 row) {
    u8 op = p.ops ? load(p.ops + row) : (u8)kGet;
    u8 status = load(p.statuses + row);
    return (op == kGet || op == kFetchAdd) && (status == kOk || status == kCreated);
}

}  // namespace gphash

// A thread a word.
WK_KERNEL(gphash_spread, gphash::SpreadParams) {
    using namespace gphash;
    u64 i = global_index();
    if (i >= p.count * p.words) return;
    u64 row = i / p.words;
    u32 first = (u32)(i % p.words) * 8;
    u64 word = 0;
    for (u32 byte = first; byte < first + 8 && byte < p.len; byte++) {
        word |= (u64)load(p.from + row * p.len + byte) << 8 * (byte - first);
    }
    store(p.to + i, word);
}

// A thread a word.
WK_KERNEL(gphash_pack, gphash::PackParams) {
    using namespace gphash;
    u64 i = global_index();
    if (i >= p.count * p.words) return;
    u64 row = i / p.words;
    if (!answers_value(p, row)) return;
    u32 first = (u32)(i % p.words) * 8;
    u64 word = load(p.from + i);
    for (u32 byte = first; byte < first + 8 && byte < p.len; byte++) {
        store(p.to + row * p.len + byte, (u8)(word >> 8 * (byte - first)));
    }
}
