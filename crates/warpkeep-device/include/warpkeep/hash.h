// Hash functions of keys: those of warpkeep-core's module `hash`, whose values are stored in files and never change.
#pragma once
#include "warpkeep/simt.h"

namespace wk {

constexpr u64 kC3 = 0xBB67AE8584CAA73Bull;
constexpr u64 kC5 = 0x3C6EF372FE94F82Bull;
constexpr u64 kC7 = 0xA54FF53A5F1D36F1ull;
constexpr u64 kC11 = 0x510E527FADE682D1ull;
constexpr u64 kC13 = 0x9B05688C2B3E6C1Full;
constexpr u64 kC17 = 0x1F83D9ABFB41BD6Bull;
constexpr u64 kC19 = 0x5BE0CD19137E2179ull;

// The upper half of a product.
WK_DEVICE u64 mul_hi(u64 a, u64 b) {
#if WK_ON_GPU
    return __umul64hi(a, b);
#else
    __extension__ typedef unsigned __int128 Wide;
    return (u64)((Wide)a * b >> 64);
#endif
}

WK_DEVICE u64 rotl(u64 x, u32 bits) { return x << bits | x >> (64 - bits); }

// A hash of eight bytes.
WK_DEVICE u64 mix64(u64 seed, u64 key) {
    u64 x = key ^ seed ^ kC13;
    x = (x ^ x >> 32) * kC3;
    x ^= rotl(seed, 32);
    x = (x ^ x >> 29) * kC7;
    x = (x ^ x >> 32) * kC11;
    return x ^ x >> 29;
}

// Another hash of the same key, computed from the first.
WK_DEVICE u64 second_hash(u64 hash) {
    u64 x = (hash ^ hash >> 32) * kC5;
    x = (x ^ x >> 29) * kC19;
    return x ^ x >> 32;
}

// A hash as a number below `range`.
WK_DEVICE u64 reduce(u64 hash, u64 range) { return mul_hi(hash, range); }

WK_DEVICE u64 absorb(u64 h, u64 k, u64 a, u64 b) {
    u64 x = a ^ h, y = b ^ k;
    return ((x * y) ^ mul_hi(x, y)) + (x ^ rotl(y, 32));
}

// A key of `len` bytes in whole words, with zeros behind the last byte. Nothing changes it while it is read.
struct Key {
    const u64* words;
    u32 len;

    WK_DEVICE u32 count() const { return (len + 7) / 8; }
    WK_DEVICE u64 word(u32 i) const { return load(words + i); }
    // Words 2i and 2i + 1, in one access where the alignment allows it.
    WK_DEVICE U128 pair(u32 i) const {
        if (count() % 2 == 0 && (u64)words % 16 == 0) return load((const U128*)words + i);
        return U128{word(2 * i), word(2 * i + 1)};
    }
    // The eight bytes from byte `at` on, all of them within the key.
    WK_DEVICE u64 bytes(u32 at) const {
        u32 shift = at % 8 * 8;
        u64 low = word(at / 8) >> shift;
        return shift == 0 ? low : low | word(at / 8 + 1) << (64 - shift);
    }
    WK_DEVICE u64 hash(u64 seed) const {
        if (len == 8) return mix64(seed, word(0));
        u64 h = (seed ^ kC17) + len * kC5;
        u64 k = rotl(seed, 32) ^ kC19;
        u64 a = 0, b = 0;
        if (len > 16) {
            for (u32 i = 0; i < (len - 1) / 16; i++) {
                U128 two = pair(i);
                h = absorb(h, k, two.lo, two.hi);
            }
            if (len % 16 == 0) {
                U128 two = pair(len / 16 - 1);
                a = two.lo;
                b = two.hi;
            } else {
                a = bytes(len - 16);
                b = bytes(len - 8);
            }
        } else if (len > 8) {
            a = word(0);
            b = bytes(len - 8);
        } else if (len > 0) {
            u64 all = word(0);
            if (len > 3) {
                a = all & 0xffffffff;
                b = all >> 8 * (len - 4) & 0xffffffff;
            } else {
                a = (all & 0xff) | (all >> 8 * (len / 2) & 0xff) << 8 | (all >> 8 * (len - 1) & 0xff) << 16;
            }
        }
        return mix64(seed, absorb(h, k, a, b));
    }
};

}  // namespace wk
