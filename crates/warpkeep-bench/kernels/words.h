// Arithmetic that host and device must agree on: src/kernels.rs has the same.
#pragma once
#include "warpkeep/hash.h"

namespace bench {

using namespace wk;

// A number that looks random, for each.
WK_DEVICE u64 scatter(u64 seed, u64 number) {
    u64 x = (number + seed) * 0x9E3779B97F4A7C15ull;
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93ull;
    return x ^ x >> 32;
}

// Adds the values of a warp's lanes to one of several sums, so that no single word is contended.
constexpr u32 kSums = 64;
WK_DEVICE void add_up(u64* sums, u64 of_lane) {
    Warp warp;
    for (u32 bit = kWarp / 2; bit > 0; bit /= 2) of_lane += warp.shfl_xor(of_lane, bit);
    if (lane() == 0) fetch_add(sums + global_index() / kWarp % kSums, of_lane);
}

}  // namespace bench
