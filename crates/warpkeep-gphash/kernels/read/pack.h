// Conversion between the rows of bytes that callers have in device memory and the rows of whole words that kernels use.
#pragma once
#include "write/two_phase.h"

namespace gphash {

struct UnpackParams {
    u64 count;
    // Rows of `len` bytes, one after the other.
    const u8* from;
    // Rows of `words` words, padded with zeros.
    u64* to;
    u32 len;
    u32 words;
};

struct PackParams {
    u64 count;
    const u64* from;
    u8* to;
    // Only rows of successful operations that return a value are copied.
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

// One thread per word.
WK_KERNEL(gphash_unpack, gphash::UnpackParams) {
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

// One thread per word.
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
