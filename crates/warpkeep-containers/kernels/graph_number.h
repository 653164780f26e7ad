// Numbers for the vertices of a sample, in the order in which they were found. A hash table has for each vertex the smallest position at which it was found: its
// number, or, for those that have none yet, a larger one for each place of the list. What is first of its vertex gets the next number by a prefix sum. Seeds with times
// have vertices of their own. The host's side is src/graph/sample_device.rs.
#pragma once
#include "warpkeep/graph.h"
#include "warpkeep/hash.h"

namespace graph_numbers {

using namespace wk;

// A vertex that is in no graph.
constexpr u32 kNoVertex = ~0u;
// A slot of the table that holds nothing.
constexpr u64 kEmpty = ~0ull;

struct Number {
    // The vertices; `count` is an upper bound of their number if `end` has the exact one.
    const u32* vertices;
    u64 count;
    const u32* end;
    // The table. If seeds share vertices, a slot has the vertex in its upper half and the smallest position in its lower one. If they do not, it has the seed and the vertex,
    // and `smallest` has the position.
    u64* slots;
    u32* smallest;
    // If seeds do not share vertices: the seed of each vertex that was found before. `rows` says which of these each vertex of the list belongs to; without `owners` each is
    // a seed itself.
    const u32* owners;
    const u32* rows;
    // For each vertex of the list its slot, then the smallest position. Null if it is not needed.
    u32* places;
    // 1 for those that are the first of their vertex; when they are summed up, how many are before each. One more than there are vertices.
    u32* firsts;
    // The number of each vertex.
    u32* numbers;
    // The numbers of positions before `base`. Null if these are numbers themselves.
    const u32* renumbered;
    // Output: the vertex of each number, and its seed.
    u32* found;
    u32* found_owners;
    // How many vertices the list has, and how many of them were new.
    u64* totals;
    // How many numbers there are before; null if they are `base`.
    const u64* given;
    // The position of the first vertex of the list.
    u64 base;
    u64 table_bits;
    // 1 if `found` has room for the whole list, and what is behind the new vertices becomes no vertex: kernels that do not know their number have all of it.
    u64 pads;

    WK_DEVICE u64 items() const { return end ? load(end) : count; }
    WK_DEVICE u32 owner(u64 i) const { return !owners ? (u32)i : load(owners + (rows ? load(rows + i) : (u32)i)); }
};

// A thread for each vertex of the list: its slot has no larger position than its own. Many vertices have few slots, so a slot that needs no change is only read.
WK_DEVICE void enter(const Number& p) {
    u64 i = global_index();
    if (i >= p.items()) return;
    u64 vertex = load(p.vertices + i), position = p.base + i;
    u64 key = p.smallest ? (u64)p.owner(i) << 32 | vertex : vertex;
    u64 mask = (1ull << p.table_bits) - 1, at = mix64(0, key) >> (64 - p.table_bits);
    for (;; at = (at + 1) & mask) {
        u64 own = p.smallest ? key : vertex << 32 | position;
        u64 held = load<Scope::Device, Order::Relaxed>(p.slots + at);
        if (held == kEmpty) held = cas<Scope::Device, Order::Relaxed>(p.slots + at, kEmpty, own);
        if (p.smallest) {
            if (held != kEmpty && held != key) continue;
            if (load<Scope::Device, Order::Relaxed>(p.smallest + at) > position) fetch_min(p.smallest + at, (u32)position);
            break;
        }
        if (held == kEmpty) break;
        if (held >> 32 != vertex) continue;
        if (held > own) fetch_min(p.slots + at, own);
        break;
    }
    if (p.places) store(p.places + i, (u32)at);
}

// A thread for each vertex of the list, and one more: the smallest position of the vertex, and whether it is this one.
WK_DEVICE void mark(const Number& p) {
    u64 i = global_index();
    u32 is_first = 0;
    if (i < p.items()) {
        u64 at = load(p.places + i);
        u32 position = p.smallest ? load(p.smallest + at) : (u32)load(p.slots + at);
        store(p.places + i, position);
        is_first = position == p.base + i;
    }
    if (i <= p.count) store(p.firsts + i, is_first);
}

// A thread for each vertex of the list, when the firsts are summed up: its number. `numbers` may be `vertices`.
WK_DEVICE void assign(const Number& p) {
    u64 i = global_index(), items = p.items(), given = p.given ? load(p.given) : p.base;
    u32 fresh = load(p.firsts + p.count);
    if (i == 0) {
        store(p.totals, items);
        store(p.totals + 1, (u64)fresh);
    }
    if (i >= items) return;
    if (p.pads && i >= fresh) store(p.found + i, kNoVertex);
    u32 position = load(p.places + i), vertex = load(p.vertices + i);
    u64 number = position;
    if (position >= p.base) number = given + load(p.firsts + (position - p.base));
    else if (p.renumbered) number = load(p.renumbered + position);
    if (position == p.base + i) {
        store(p.found + number, vertex);
        if (p.smallest) store(p.found_owners + number, p.owner(i));
    }
    store(p.numbers + i, (u32)number);
}

}  // namespace graph_numbers
