// Cooperative reads of 64-byte lines, one for each lane of a warp. A lane that read its line alone would need four accesses of 16 bytes to it; here
// four lanes read each of their lines together, in one access, and four lines are under way at once.
#pragma once
#include "warpkeep/simt.h"

namespace wk {

constexpr u32 kLineParts = 4;
// The line of a lane that needs none.
constexpr u32 kNoLine = ~0u;

// A line as its lane has it, in parts of sixteen bytes.
struct Line {
    U128 parts[kLineParts];

    // Which part of the line parts[i] is: the order differs from lane to lane.
    static WK_DEVICE u32 number(u32 i) { return lane() % kLineParts ^ i; }
};

// One of four registers by a number that is not a constant.
WK_DEVICE U128 select_part(const U128 (&of)[kLineParts], u32 which) {
    bool odd = which & 1, high = which & 2;
    U128 low{odd ? of[1].lo : of[0].lo, odd ? of[1].hi : of[0].hi};
    U128 upper{odd ? of[3].lo : of[2].lo, odd ? of[3].hi : of[2].hi};
    return U128{high ? upper.lo : low.lo, high ? upper.hi : low.hi};
}

// The lines of four neighbouring lanes, of which each lane has one part of every line.
struct Lines {
    U128 parts[kLineParts];

    // Reads the line `number` of each lane; lines begin `stride` parts from each other. At least the first `readable` parts of each are memory that can
    // be read; the others are unspecified. All lanes of a warp take part: lanes that need no line give the number of any. Other threads may change
    // words of a line meanwhile: each word of eight bytes is one that was there.
    static WK_DEVICE Lines at(const U128* first, u32 number, u32 stride, u32 readable) {
        u32 rank = lane() % kLineParts, part = rank < readable ? rank : 0;
        Lines lines;
        for (u32 i = 0; i < kLineParts; i++) {
            u64 its = (u64)Warp().shfl_among<kLineParts>(number, i) * stride;
            lines.parts[i] = load<Scope::Device, Order::Relaxed>(first + its + part);
        }
        return lines;
    }

    // The same for lines of kLineParts, and nothing is read for lanes that give kNoLine: their lines are zero.
    static WK_DEVICE Lines wanted(const U128* first, u32 number) {
        Lines lines;
        for (u32 i = 0; i < kLineParts; i++) {
            u32 its = Warp().shfl_among<kLineParts>(number, i);
            lines.parts[i] = U128{0, 0};
            if (its != kNoLine) lines.parts[i] = load<Scope::Device, Order::Relaxed>(first + (u64)its * kLineParts + lane() % kLineParts);
        }
        return lines;
    }

    // The same as at for lines anywhere, at the address of each lane. Lanes that need no line give that of any.
    static WK_DEVICE Lines of(const U128* own) {
        Lines lines;
        for (u32 i = 0; i < kLineParts; i++) {
            const U128* its = (const U128*)Warp().shfl_among<kLineParts>((u64)own, i);
            lines.parts[i] = load<Scope::Device, Order::Relaxed>(its + lane() % kLineParts);
        }
        return lines;
    }

    // Gives each lane its own line.
    WK_DEVICE Line own() const {
        Warp warp;
        Line line;
        for (u32 i = 0; i < kLineParts; i++) {
            // Exchanges parts with the lane whose rank differs by `i`.
            U128 one = select_part(parts, lane() % kLineParts ^ i);
            line.parts[i] = i == 0 ? one : U128{warp.shfl_xor(one.lo, i), warp.shfl_xor(one.hi, i)};
        }
        return line;
    }

    // Which of the eight words of its line equal `word`, one bit each, for each lane.
    WK_DEVICE u32 words_equal(u64 word) const {
        Warp warp;
        u32 rank = lane() % kLineParts, first = lane() - rank, even = 0, odd = 0;
        for (u32 i = 0; i < kLineParts; i++) {
            u64 its = warp.shfl_among<kLineParts>(word, i);
            u32 low = warp.ballot(parts[i].lo == its), high = warp.ballot(parts[i].hi == its);
            even = rank == i ? low : even;
            odd = rank == i ? high : odd;
        }
        return interleave(even >> first) | interleave(odd >> first) << 1;
    }

    // The lowest four bits, with a zero between each.
    static WK_DEVICE u32 interleave(u32 bits) {
        bits &= 0xf;
        bits = (bits | bits << 2) & 0x33;
        return (bits | bits << 1) & 0x55;
    }
};

}  // namespace wk
