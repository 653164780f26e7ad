// The checksum of a record: the functions of warpkeep-record's module `checksum`, which defines them. Their values are
// stored in files and never change.
//
// The checksum covers key, version and lengths, and a 4-byte digest of the value. The digest is a sum of one term per
// word, so that lanes can compute it together.
#pragma once
#include "table.h"

namespace gphash {

constexpr u64 kC29 = 0x629A292A367CD507ull;
constexpr u64 kC31 = 0x9159015A3070DD17ull;
constexpr u64 kC37 = 0x152FECD8F70E5939ull;
constexpr u64 kC41 = 0x67332667FFC00B31ull;

WK_DEVICE u64 scramble(u64 position, u64 word) {
    u64 x = (word ^ position) * kC29;
    x = (x ^ x >> 32) * kC31;
    return x ^ x >> 32;
}

// What word i of a value adds to the sum of its digest. Bytes behind the end of the value are ignored.
WK_DEVICE u64 value_term(const Table& t, u32 i, u64 word) {
    u32 rest = t.value_len() % 8 * 8;
    if (rest && i + 1 == t.value_words()) word &= ~(~0ull << rest);
    return scramble((i + 1) * kC37, word);
}

WK_DEVICE u32 digest_of_sum(u64 sum) { return (u32)(sum ^ sum >> 32); }

// The sum over a group of `lanes` adjacent lanes, in each of them; `lanes` is a power of two. All lanes of the warp
// take part.
WK_DEVICE u64 sum_over_lanes(u64 sum, u32 lanes) {
    Warp warp;
    for (u32 distance = lanes / 2; distance > 0; distance /= 2) sum += warp.shfl_xor(sum, distance);
    return sum;
}

WK_DEVICE u64 checksum(const Table& t, u32 digest, const Key& key, u64 version) {
    u64 sum = scramble(kC41, digest) + scramble(kC41 + kC37, (u64)t.value_len() << 32 | t.key_len()) +
              scramble(kC41 + 2 * kC37, version);
    for (u32 i = 0; i < key.count(); i++) sum += scramble(kC41 + (3 + i) * kC37, key.word(i));
    return sum;
}

}  // namespace gphash
