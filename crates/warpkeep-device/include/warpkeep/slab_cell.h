// Cells of slabs: a key with its value or a key alone, in a word that is read and changed as a whole. And the bijection that keys go through.
//
// The lower bits of a mixed key are its bucket; a cell has the others, its quotient. There are four buckets at least, so the quotient leaves two
// bits free: one that is set, and one that says whether the key is there or the cell is a tombstone. So every key can be stored, and a word of zero
// is an empty cell. The last cell of a slab is the link: the number of the next slab plus one, or zero.
#pragma once
#include "warpkeep/simt.h"

namespace wk {

// A bijection of keys with a seed: its multiplier is odd and comes with its inverse. Keys of 32 bits use the lower halves.
struct KeyMixer {
    u64 seed;
    u64 multiplier;
    u64 inverse;

    static constexpr u32 kOdd = 0x846ca68bu, kOddInverse = 0x43021123u;
    static constexpr u64 kWideOdd = 0xbf58476d1ce4e5b9ull, kWideOddInverse = 0x96de1b173f119089ull;
    static_assert(kOdd * kOddInverse == 1u && kWideOdd * kWideOddInverse == 1ull, "multiplying by both changes nothing");

    WK_DEVICE u32 mix(u32 key) const {
        u32 x = key ^ (u32)seed;
        x = (x ^ x >> 16) * (u32)multiplier;
        x = (x ^ x >> 15) * kOdd;
        return x ^ x >> 16;
    }
    WK_DEVICE u32 unmix(u32 mixed) const {
        u32 x = (mixed ^ mixed >> 16) * kOddInverse;
        x = (x ^ x >> 15 ^ x >> 30) * (u32)inverse;
        return x ^ x >> 16 ^ (u32)seed;
    }
    WK_DEVICE u64 mix(u64 key) const {
        u64 x = key ^ seed;
        x = (x ^ x >> 32) * multiplier;
        x = (x ^ x >> 29) * kWideOdd;
        return x ^ x >> 32;
    }
    WK_DEVICE u64 unmix(u64 mixed) const {
        u64 x = (mixed ^ mixed >> 32) * kWideOddInverse;
        x = (x ^ x >> 29 ^ x >> 58) * inverse;
        return x ^ x >> 32 ^ seed;
    }
};

// What the words of cells have in common.
WK_DEVICE bool same_word(u32 a, u32 b) { return a == b; }
WK_DEVICE bool same_word(u64 a, u64 b) { return a == b; }
WK_DEVICE bool same_word(U128 a, U128 b) { return a.lo == b.lo && a.hi == b.hi; }
// Word `i` of the words in sixteen bytes.
template <class Word> WK_DEVICE Word word_in(const U128& part, u32 i) {
    if constexpr (sizeof(Word) == 16) {
        return part;
    } else if constexpr (sizeof(Word) == 8) {
        return i ? part.hi : part.lo;
    } else {
        return (Word)((i < 2 ? part.lo : part.hi) >> 32 * (i % 2));
    }
}
// What the lane of this rank gave.
template <u32 Lanes, class Word> WK_DEVICE Word word_of_lane(Word word, u32 rank) {
    Tile<Lanes> tile;
    if constexpr (sizeof(Word) == 16) {
        return U128{tile.shfl(word.lo, rank), tile.shfl(word.hi, rank)};
    } else {
        return tile.shfl(word, rank);
    }
}

// A key of 32 bits with a value of 32 bits: the quotient, two bits, the value.
struct SlabPair32 {
    using Word = u64;
    using Key = u32;
    using Value = u32;
    Word word;

    WK_DEVICE static SlabPair32 of(Key quotient, Value value) { return {(u64)quotient << 34 | 3ull << 32 | value}; }
    WK_DEVICE bool is_empty() const { return word == 0; }
    WK_DEVICE bool is_live() const { return word >> 33 & 1; }
    WK_DEVICE bool has(Key quotient) const { return word >> 34 == quotient && (word >> 32 & 1); }
    WK_DEVICE Key quotient() const { return (Key)(word >> 34); }
    WK_DEVICE Value value() const { return (Value)word; }
    WK_DEVICE SlabPair32 tombstone() const { return {word >> 34 << 34 | 1ull << 32}; }
    WK_DEVICE static Word link_to(u32 slab) { return (u64)slab + 1; }
    WK_DEVICE static u64 link_of(Word word) { return word; }
};

// A key of 64 bits with a value of 64 bits. The value of a tombstone is zero, so that equal cells are equal words.
struct SlabPair64 {
    using Word = U128;
    using Key = u64;
    using Value = u64;
    Word word;

    WK_DEVICE static SlabPair64 of(Key quotient, Value value) { return {U128{quotient << 2 | 3, value}}; }
    WK_DEVICE bool is_empty() const { return word.lo == 0; }
    WK_DEVICE bool is_live() const { return word.lo >> 1 & 1; }
    WK_DEVICE bool has(Key quotient) const { return word.lo >> 2 == quotient && (word.lo & 1); }
    WK_DEVICE Key quotient() const { return word.lo >> 2; }
    WK_DEVICE Value value() const { return word.hi; }
    WK_DEVICE SlabPair64 tombstone() const { return {U128{word.lo >> 2 << 2 | 1, 0}}; }
    WK_DEVICE static Word link_to(u32 slab) { return U128{(u64)slab + 1, 0}; }
    WK_DEVICE static u64 link_of(Word word) { return word.lo; }
};

// A key alone. Its value is 0, whatever it is given.
template <class Bits> struct SlabKeyOf {
    using Word = Bits;
    using Key = Bits;
    using Value = u32;
    Word word;

    WK_DEVICE static SlabKeyOf of(Key quotient, Value) { return {(Bits)(quotient << 2 | 3)}; }
    WK_DEVICE bool is_empty() const { return word == 0; }
    WK_DEVICE bool is_live() const { return word >> 1 & 1; }
    WK_DEVICE bool has(Key quotient) const { return word >> 2 == quotient && (word & 1); }
    WK_DEVICE Key quotient() const { return word >> 2; }
    WK_DEVICE Value value() const { return 0; }
    WK_DEVICE SlabKeyOf tombstone() const { return {(Bits)(word >> 2 << 2 | 1)}; }
    WK_DEVICE static Word link_to(u32 slab) { return (Bits)slab + 1; }
    WK_DEVICE static u64 link_of(Word word) { return word; }
};
using SlabKey32 = SlabKeyOf<u32>;
using SlabKey64 = SlabKeyOf<u64>;

}  // namespace wk
