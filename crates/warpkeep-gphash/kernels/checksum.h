// The checksum of a record: the functions of warpkeep-record's module `checksum`, which says what they are and never changes.
#pragma once
#include "table.h"

namespace gphash {

constexpr u64 kC29 = 0x629A292A367CD507ull;
constexpr u64 kC31 = 0x9159015A3070DD17ull;
constexpr u64 kC37 = 0x152FECD8F70E5939ull;
constexpr u64 kC41 = 0x67332667FFC00B31ull;

WK_DEVICE u64 scramble(u64 place, u64 word) {
    u64 x = (word ^ place) * kC29;
    x = (x ^ x >> 32) * kC31;
    return x ^ x >> 32;
}

// What word i of a value adds to the sum that its digest is made of. What is behind the last byte does not count.
WK_DEVICE u64 value_share(const Table& t, u32 i, u64 word) {
    u32 rest = t.value_len() % 8 * 8;
    if (rest && i + 1 == t.value_words()) word &= ~(~0ull << rest);
    return scramble((i + 1) * kC37, word);
}

WK_DEVICE u32 digest_of_sum(u64 sum) { return (u32)(sum ^ sum >> 32); }

// The sum over a group of adjacent lanes, a power of two, in each of them. All lanes of a warp take part.
WK_DEVICE u64 sum_of_lanes(u64 sum, u32 lanes) {
    Warp warp;
    for (u32 apart = lanes / 2; apart > 0; apart /= 2) sum += warp.shfl_xor(sum, apart);
    return sum;
}

WK_DEVICE u64 checksum(const Table& t, u32 digest, const Key& key, u64 version) {
    u64 sum = scramble(kC41, digest) + scramble(kC41 + kC37, (u64)t.value_len() << 32 | t.key_len()) +
              scramble(kC41 + 2 * kC37, version);
    for (u32 i = 0; i < key.count(); i++) sum += scramble(kC41 + (3 + i) * kC37, key.word(i));
    return sum;
}

}  // namespace gphash
