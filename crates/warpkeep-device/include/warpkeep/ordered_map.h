// An ordered map of unsigned keys of 4, 8 or 16 bytes in device memory: what kernels need to read one. Those that change one need warpkeep/ordered_writer.h,
// too. The host's side is warpkeep_containers::OrderedMap.
//
//     struct Params { wk::OrderedMapRef<wk::u64, wk::u64> quotes; const wk::u64* times; wk::u64* prices; wk::u64 count; };
//     WK_KERNEL(price_at, Params) {
//         wk::u64 i = wk::global_index();
//         if (i >= p.count) return;
//         auto at = p.quotes.last_at_most(wk::load(p.times + i));
//         wk::store(p.prices + i, at.is_valid() ? at.value() : 0);
//     }
//
// Pairs lie in leaves of up to 14, in order. A directory lists the leaves in the order of their keys: for each a separator, which no key of it is less than
// and all keys of the leaves before are less than, and a handle, which gives the leaf's address. Above the separators are levels of which each has
// every sixteenth separator of the level below, so that a thread descends by reading 16 neighbouring separators a level.
//
// A reference is a version of the map: the host never changes a leaf or a directory that a version uses, so any number of kernels may read it while the host
// makes the next one. It is good as long as the snapshot that it was taken from.
#pragma once
#include "warpkeep/simt.h"

namespace wk {

// Pairs of a full leaf.
constexpr u32 kLeafPairs = 14;
// Bytes before the keys of a leaf: the number of its pairs, and the version that it was written for, eight bytes each.
constexpr u32 kLeafHeader = 16;
// Separators that a thread reads at once, and levels of them that there can be.
constexpr u32 kOrderedFanout = 16;
constexpr u32 kOrderedLevels = 8;

// What came of an operation.
enum class OrderedStatus : u8 {
    // The key is new.
    Inserted = 1,
    // The key was there, and its value was replaced, added to or compared.
    Updated = 2,
    // There is such a key.
    Found = 3,
    // There is no such key.
    Absent = 4,
    // The key was there, and is gone.
    Erased = 5,
    // There are more pairs in the range than there was room for.
    Truncated = 6,
    // There was no memory for what a kernel wanted to change, and nothing was changed.
    Full = 7,
};

enum class OrderedOp : u8 {
    // Keeps the value of a key that is there.
    Insert = 0,
    // These change it: to the new value, the sum, the smaller and the larger of both.
    Put = 1,
    Add = 2,
    Min = 3,
    Max = 4,
    Find = 5,
    Contains = 6,
    Erase = 7,
    // The smallest key above, the largest below, the smallest not below, the largest not above.
    Successor = 8,
    Predecessor = 9,
    Ceiling = 10,
    Floor = 11,
    // The number of keys between two bounds, both included, and the pairs.
    Count = 12,
    Range = 13,
};

// Whether an operation gives a value to a key that has none.
WK_DEVICE bool inserts(OrderedOp op) { return (u8)op <= (u8)OrderedOp::Max; }
// Whether an operation concerns other keys than its own.
WK_DEVICE bool looks_around(OrderedOp op) { return (u8)op >= (u8)OrderedOp::Successor && (u8)op <= (u8)OrderedOp::Range; }

// The value of a key that had `old`.
template <class V> WK_DEVICE V updated(OrderedOp op, V old, V operand) {
    switch (op) {
        case OrderedOp::Put: return operand;
        case OrderedOp::Add: return old + operand;
        case OrderedOp::Min: return operand < old ? operand : old;
        case OrderedOp::Max: return operand > old ? operand : old;
        default: return old;
    }
}

// Keys of sixteen bytes are numbers, too.
WK_DEVICE bool operator==(const U128& a, const U128& b) { return a.lo == b.lo && a.hi == b.hi; }
WK_DEVICE bool operator!=(const U128& a, const U128& b) { return !(a == b); }
WK_DEVICE bool operator<(const U128& a, const U128& b) { return a.hi < b.hi || (a.hi == b.hi && a.lo < b.lo); }
WK_DEVICE bool operator>(const U128& a, const U128& b) { return b < a; }
WK_DEVICE bool operator<=(const U128& a, const U128& b) { return !(b < a); }
WK_DEVICE bool operator>=(const U128& a, const U128& b) { return !(a < b); }

template <class K> WK_DEVICE constexpr K largest_key() {
    if constexpr (sizeof(K) == 16) return K{~0ull, ~0ull};
    else return (K)~(K)0;
}

// Of the words in sixteen bytes: how many are less than `key`, or not more.
template <bool OrEqual, class K> WK_DEVICE u32 words_below(const U128& part, K key) {
    u32 below = 0;
    for (u32 i = 0; i < 16 / sizeof(K); i++) {
        u64 word = i < 8 / sizeof(K) ? part.lo : part.hi;
        K its = (K)(sizeof(K) == 8 ? word : word >> 32 * (i % 2));
        below += OrEqual ? its <= key : its < key;
    }
    return below;
}

// Of the keys in sixteen bytes: how many are less than `key`, or not more.
template <bool OrEqual, class K> WK_DEVICE u32 keys_below(const U128& part, K key) {
    if constexpr (sizeof(K) == 16) return OrEqual ? part <= key : part < key;
    else return words_below<OrEqual>(part, key);
}

// Of the keys in sixteen bytes: whether one is `key`.
template <class K> WK_DEVICE bool has_key(const U128& part, K key) {
    if constexpr (sizeof(K) == 16) return part == key;
    else if constexpr (sizeof(K) == 8) return part.lo == key || part.hi == key;
    else return (K)part.lo == key || (K)(part.lo >> 32) == key || (K)part.hi == key || (K)(part.hi >> 32) == key;
}

// What a search among sorted keys comes to: how many are less than the key, or not more, and whether it is there.
struct SortedPlace {
    u32 below;
    bool is_there;
};

// Searches sorted keys, of which `part(i)` gives sixteen bytes. A lane that reads another line than its neighbours
// takes a cycle of the multiprocessor for each read, and these cycles limit lookups, so not all parts are read: of four
// two on average, of eight three.
template <bool OrEqual, class K, class Part> WK_DEVICE SortedPlace search_sorted(u32 parts, K key, const Part& part) {
    constexpr u32 kEach = 16 / sizeof(K);
    bool is_there = false;
    u32 low = 0, high = parts;
    while (low < high) {
        u32 middle = (low + high) / 2;
        U128 its = part(middle);
        u32 below = keys_below<OrEqual>(its, key);
        is_there |= has_key(its, key);
        if (below == 0) high = middle;
        else if (below < kEach) return {middle * kEach + below, is_there};
        else low = middle + 1;
    }
    return {low * kEach, is_there};
}

// A version of a map: plain data, to be a part of a kernel's parameters.
template <class K, class V> struct OrderedMapRef {
    static_assert(sizeof(K) == sizeof(V) || (sizeof(K) == 16 && sizeof(V) == 8), "keys and values of 4 or of 8 bytes, or of 16 and 8");
    static constexpr u32 kValuesAt = kLeafHeader + kLeafPairs * sizeof(K);
    // Whole lines of 128 bytes.
    static constexpr u32 kLeafBytes = (kValuesAt + kLeafPairs * sizeof(V) + 127) / 128 * 128;

    const u8* leaves;
    // All levels of separators, the lowest first, which has one for each leaf. A level ends with copies of the largest key, so that its length is a
    // multiple of 16.
    const K* separators;
    const u32* handles;
    // For each leaf, the number of keys in the leaves before it; and the number of all keys.
    const u32* before;
    // Where each level begins.
    u64 levels[kOrderedLevels];
    u32 leaf_count;
    u32 depth;

    // A leaf. One that is not there has no pairs.
    struct Leaf {
        const u8* at;
        u32 count;

        WK_DEVICE const K* keys() const { return (const K*)(at + kLeafHeader); }
        WK_DEVICE const V* values() const { return (const V*)(at + kValuesAt); }
        WK_DEVICE K key(u32 slot) const { return load(keys() + slot); }
        WK_DEVICE V value(u32 slot) const { return load(values() + slot); }
        WK_DEVICE bool has(u32 slot, K key) const { return slot < count && this->key(slot) == key; }

        // The first slot whose key is not less than `key`, and whether the key is there. Slots without a pair have the
        // largest key.
        WK_DEVICE SortedPlace search(K key) const {
            if (!at) return {0, false};
            constexpr u32 kBytes = kLeafPairs * sizeof(K);
            const U128* parts = (const U128*)keys();
            SortedPlace place = search_sorted<false>((kBytes + 15) / 16, key, [&](u32 i) {
                U128 part = load(parts + i);
                // Behind the last key are values.
                if (kBytes % 16 && i == kBytes / 16) part.hi = ~0ull;
                return part;
            });
            return {place.below, place.is_there && place.below < count};
        }
    };

    // The leaves in order.
    struct Leaves {
        const u8* first;
        const u32* handles;
        u32 count;

        // There is no leaf with a number that is not less than `count`.
        WK_DEVICE Leaf leaf(u32 number) const {
            if (number >= count) return Leaf{nullptr, 0};
            const u8* at = first + (u64)load(handles + number) * kLeafBytes;
            return Leaf{at, (u32)load((const u64*)at)};
        }
    };

    // A place in the order: a pair, or the end on either side. It has what it needs of the map by value, so that no parameters are copied to the stack.
    struct Cursor {
        Leaves leaves;
        Leaf leaf;
        u32 number;
        u32 slot;

        WK_DEVICE bool is_valid() const { return slot < leaf.count; }
        WK_DEVICE K key() const { return leaf.key(slot); }
        WK_DEVICE V value() const { return leaf.value(slot); }

        // No leaf of a directory is empty.
        WK_DEVICE void next() {
            if (++slot < leaf.count) return;
            leaf = leaves.leaf(++number);
            slot = 0;
        }
        WK_DEVICE void previous() {
            if (slot-- > 0) return;
            leaf = leaves.leaf(--number);
            slot = leaf.count - 1;
        }
    };

    WK_DEVICE Leaves in_order() const { return Leaves{leaves, handles, leaf_count}; }
    // The leaf of this number in the directory.
    WK_DEVICE Leaf leaf(u32 number) const { return in_order().leaf(number); }

    // Separators of a level that are a leaf's.
    WK_DEVICE u64 entries(u32 level) const { return ((u64)leaf_count + (1ull << 4 * level) - 1) >> 4 * level; }

    // The number of the leaf that has this key if there is one.
    WK_DEVICE u32 locate(K key) const {
        u64 node = 0;
        for (u32 level = depth; level-- > 0;) {
            u64 left = entries(level) - node * kOrderedFanout;
            const U128* parts = (const U128*)(separators + levels[level] + node * kOrderedFanout);
            u32 below = search_sorted<true>(kOrderedFanout * sizeof(K) / 16, key, [&](u32 i) { return load(parts + i); }).below;
            // Separators at the end of a level are no leaf's.
            if (below > left) below = (u32)left;
            node = node * kOrderedFanout + (below ? below - 1 : 0);
        }
        return (u32)node;
    }

    WK_DEVICE bool find(K key, V& value) const { return find_in(locate(key), key, value); }

    // Looks a key up in the leaf of this number. Of the leaf's header it needs the number of pairs for the largest key
    // alone, which slots without a pair have, too.
    WK_DEVICE bool find_in(u32 number, K key, V& value) const {
        if (number >= leaf_count) return false;
        Leaf its{leaves + (u64)load(handles + number) * kLeafBytes, kLeafPairs};
        SortedPlace place = its.search(key);
        if (key == largest_key<K>() && place.is_there) place.is_there = place.below < (u32)load((const u64*)its.at);
        if (place.is_there) value = its.value(place.below);
        return place.is_there;
    }

    // The nearest pair on one side.
    WK_DEVICE Cursor nearest(K key, bool is_down, bool or_equal) const { return nearest_in(locate(key), key, is_down, or_equal); }
    // The same from the leaf that has the key if there is one.
    WK_DEVICE Cursor nearest_in(u32 number, K key, bool is_down, bool or_equal) const {
        Leaf its = leaf(number);
        return nearest_at(number, its, its.search(key), is_down, or_equal);
    }
    // The same, given the place of the key in that leaf.
    WK_DEVICE Cursor nearest_at(u32 number, Leaf its, SortedPlace place, bool is_down, bool or_equal) const {
        Cursor at{in_order(), its, number, place.below};
        if (place.is_there && or_equal) return at;
        if (is_down) at.previous();
        // Unless the key is there, the slot has the next one, or there is none in this leaf.
        else if (place.is_there || place.below >= its.count) at.next();
        return at;
    }
    // The first pair whose key is not less than `key`, or is more.
    WK_DEVICE Cursor first_at_least(K key) const { return nearest(key, false, true); }
    WK_DEVICE Cursor first_above(K key) const { return nearest(key, false, false); }
    // The last pair whose key is less than `key`, or is not more.
    WK_DEVICE Cursor last_below(K key) const { return nearest(key, true, false); }
    WK_DEVICE Cursor last_at_most(K key) const { return nearest(key, true, true); }

    // How many keys are less than `key`, or not more.
    WK_DEVICE u32 rank(K key, bool or_equal) const { return rank_in(locate(key), key, or_equal); }
    // The same, given the leaf that has the key if there is one.
    WK_DEVICE u32 rank_in(u32 number, K key, bool or_equal) const {
        Leaf its = leaf(number);
        if (its.count == 0) return 0;
        SortedPlace place = its.search(key);
        return load(before + number) + place.below + (or_equal && place.is_there);
    }
    // How many keys lie between two bounds, both included.
    WK_DEVICE u32 count(K low, K high) const { return low > high ? 0 : rank(high, true) - rank(low, false); }

    // The pair with this many keys before it.
    WK_DEVICE Cursor nth(u32 index) const {
        u32 low = 0, high = leaf_count;
        while (low < high) {
            u32 middle = low + (high - low) / 2;
            if (load(before + middle) <= index) low = middle + 1;
            else high = middle;
        }
        u32 number = low - 1;
        Leaf its = leaf(number);
        return Cursor{in_order(), its, number, its.count ? index - load(before + number) : 0};
    }
};

}  // namespace wk
