// Numbers that depend on a seed alone.
#pragma once
#include "warpkeep/simt.h"

namespace wk::sim {

// Spreads a value over all bits, so that neighbouring seeds have nothing in common.
inline u64 scramble(u64 x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

class Rng {
  public:
    explicit Rng(u64 seed) : state_(scramble(seed) | 1) {}

    u64 next() {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return state_ * 0x2545f4914f6cdd1dull;
    }
    // A number below `bound`, which is not 0. The high bits are the better ones.
    u32 below(u32 bound) { return (u32)(((next() >> 32) * bound) >> 32); }
    // True `parts` times out of 1024.
    bool chance(u32 parts) { return below(1024) < parts; }

  private:
    u64 state_;
};

}  // namespace wk::sim
