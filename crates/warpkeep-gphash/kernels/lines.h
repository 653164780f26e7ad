// Lines of 64 bytes, one for each lane of a warp. A lane that read its own would have four accesses take what one can: four lanes read each of
// theirs together, and all four lines are under way at once.
#pragma once
#include "hash.h"

namespace gphash {

constexpr u32 kLineParts = 4;

// A line as its lane holds it, sixteen bytes at a time.
struct Line {
    U128 parts[kLineParts];

    // Which of its parts this is, counted from its beginning: each lane has them in an order of its own.
    static WK_DEVICE u32 number(u32 i) { return lane() % kLineParts ^ i; }
};

// One of four. Registers have no index.
WK_DEVICE U128 pick(const U128 (&of)[kLineParts], u32 which) {
    bool odd = which & 1, high = which & 2;
    U128 low{odd ? of[1].lo : of[0].lo, odd ? of[1].hi : of[0].hi};
    U128 upper{odd ? of[3].lo : of[2].lo, odd ? of[3].hi : of[2].hi};
    return U128{high ? upper.lo : low.lo, high ? upper.hi : low.hi};
}

// The lines of four lanes, of which each of them has one part.
struct Lines {
    U128 parts[kLineParts];

    // Reads the line of each lane: `number` says which, of lines that are `apart` parts from each other. At least `there` parts of each are there to
    // be read; what it has for others is not said. All lanes of a warp, also those that want none, which say any. Others may be changing words of it:
    // each of eight bytes is one that was there.
    static WK_DEVICE Lines at(const U128* first, u32 number, u32 apart, u32 there) {
        u32 rank = lane() % kLineParts, part = rank < there ? rank : 0;
        Lines lines;
        for (u32 i = 0; i < kLineParts; i++) {
            u64 its = (u64)Warp().shfl_among<kLineParts>(number, i) * apart;
            lines.parts[i] = load<Scope::Device, Order::Relaxed>(first + its + part);
        }
        return lines;
    }

    // Its own line for each lane.
    WK_DEVICE Line own() const {
        Warp warp;
        Line line;
        for (u32 i = 0; i < kLineParts; i++) {
            // What it has of the lane that is `i` away, which gives what it has of this one.
            U128 one = pick(parts, lane() % kLineParts ^ i);
            line.parts[i] = i == 0 ? one : U128{warp.shfl_xor(one.lo, i), warp.shfl_xor(one.hi, i)};
        }
        return line;
    }

    // Which words of each lane's line are the one that it asks for, a bit each.
    WK_DEVICE u32 words_that_are(u64 word) const {
        Warp warp;
        u32 rank = lane() % kLineParts, first = lane() - rank, even = 0, odd = 0;
        for (u32 i = 0; i < kLineParts; i++) {
            u64 its = warp.shfl_among<kLineParts>(word, i);
            u32 low = warp.ballot(parts[i].lo == its), high = warp.ballot(parts[i].hi == its);
            even = rank == i ? low : even;
            odd = rank == i ? high : odd;
        }
        return spread(even >> first) | spread(odd >> first) << 1;
    }

    // The lowest four bits, with one between each.
    static WK_DEVICE u32 spread(u32 bits) {
        bits &= 0xf;
        bits = (bits | bits << 2) & 0x33;
        return (bits | bits << 1) & 0x55;
    }
};

}  // namespace gphash
