// Triangles of an undirected graph: of all of it, and those of the edges that a batch changes. The host's side is src/graph/triangles_device.rs.
//
// Of the two directions of an edge one counts: towards the vertex of larger degree, of equal ones towards the larger number. The lists of these directions are short
// even for vertices of many edges, and each triangle is found once: at its smallest vertex u, as a neighbour w of a neighbour v. The targets of u are in registers or
// in a hash table in shared memory, and the lists of all v are read one after the other by all lanes.
#pragma once
#include "graph_batch.h"
#include "warpkeep/fault_point.h"

namespace graph_triangles {

using namespace wk;
using graph_batch::add_by_warp;
using graph_batch::Effect;

// Vertices with more edges than this are oriented by a block.
constexpr u32 kHub = 4096;
// Longest lists that a tile keeps in registers, and that a warp keeps in its table.
constexpr u32 kTiny = 8;
constexpr u32 kShort = 64;
// Slots of the table of a warp, and of a block.
constexpr u32 kWarpSlots = 256;
constexpr u32 kBlockSlots = 4096;
// No vertex has this number.
constexpr u32 kEmpty = ~0u;

// Words that hubs and lists are counted in, one after the other, and words of triangles: 64 of them, each in a sector of its own, because
// atomic operations on one word are carried out one after the other.
enum Control : u32 { kHubs, kShortLists, kLongLists, kFound = 4, kSector = 4, kFoundSums = 64, kControlWords = kFound + kFoundSums * kSector };

struct Orient {
    GraphRef graph;
    u32* degrees;
    // For each vertex: where the list of its larger neighbours begins, and in the upper half how many there are.
    u64* lists;
    // As many places as the pool has slots: the list of a vertex begins where its block does.
    u32* targets;
    u64* control;
    u32* hubs;
    u32* some;
    u32* many;
    // How many vertices a launch works.
    u64 count;
    // Targets that are in the table of a block at once.
    u32 most;
    u32 reserved;
};

// The edges of a batch that have one effect, as `resolve` leaves them.
struct Changed {
    GraphRef graph;
    const u32* sources;
    const u32* targets;
    const u32* effects;
    const u32* firsts;
    u64 runs;
    u64 segments;
    u64* triangles;
    u32 effect;
    u32 reserved;
};

// The sum of what the lanes before this one have, and of all lanes.
struct Sums {
    u32 before;
    u32 all;

    WK_DEVICE explicit Sums(u32 own) {
        Warp warp;
        u32 sum = own;
        for (u32 step = 1; step < kWarp; step *= 2) {
            u32 other = warp.shfl(sum, lane() - step);
            if (lane() >= step) sum += other;
        }
        before = sum - own;
        all = warp.shfl(sum, kWarp - 1);
    }

    // The lane that this item belongs to, if each lane has the items from `before` on.
    WK_DEVICE u32 owner(u32 item) const {
        Warp warp;
        u32 owner = 0;
        for (u32 step = kWarp / 2; step > 0; step /= 2) {
            if (warp.shfl(before, owner + step) <= item) owner += step;
        }
        return owner;
    }
};

WK_DEVICE bool is_above(const Orient& p, u32 target, u32 degree, u32 own) {
    u32 other = load(p.degrees + target);
    return other != degree ? other > degree : target > own;
}

WK_DEVICE bool is_short(u32 kept) { return kept > kTiny && kept <= kShort; }

// Adds up the triangles of a warp's lanes.
WK_DEVICE void add_found(const Orient& p, u64 found) { add_by_warp(p.control + kFound + (u32)(global_warp() % kFoundSums) * kSector, found); }

// A thread for each vertex.
WK_DEVICE void list_degrees(const Orient& p) {
    u64 v = global_index();
    if (v < p.graph.vertices) store(p.degrees + v, p.graph.degree((u32)v));
}

// A warp for 32 vertices: their edges, one list after the other, are looked at by all lanes, and the larger targets are kept in their order.
WK_DEVICE void orient(const Orient& p) {
    Warp warp;
    u64 number = global_index();
    u32 own = (u32)number;
    GraphVertex v = number < p.graph.vertices ? p.graph.vertex(own) : GraphVertex{0, 0, 0};
    bool is_hub = v.degree > kHub;
    u32 degree = is_hub ? 0 : v.degree, kept = 0;
    Sums sums(degree);
    for (u32 base = 0; base < sums.all; base += kWarp) {
        u32 item = base + lane(), owner = sums.owner(item), its_begin = warp.shfl(v.begin, owner), its_first = warp.shfl(sums.before, owner);
        u32 its_degree = warp.shfl(degree, owner), its_kept = warp.shfl(kept, owner), its_number = own - lane() + owner;
        u32 target = item < sums.all ? load(p.graph.targets + its_begin + item - its_first) : 0;
        bool keeps = item < sums.all && is_above(p, target, its_degree, its_number);
        u32 keeping = warp.ballot(keeps);
        // The lanes before this one that have edges of the same vertex.
        u32 others = ((1u << lane()) - 1) & ~0u << (its_first > base ? its_first - base : 0) % kWarp;
        if (keeps) store(p.targets + its_begin + its_kept + popc(keeping & others), target);
        // Which of the lanes have edges of this lane's vertex.
        u32 low = sums.before > base ? sums.before - base : 0, high = sums.before + degree > base ? sums.before + degree - base : 0;
        if (low < kWarp && high > low) kept += popc(keeping & (high < kWarp ? (1u << high) - 1 : ~0u) & ~0u << low);
    }
    if (number < p.graph.vertices && !is_hub) store(p.lists + number, v.begin | (u64)kept << 32);
    bool is_some = is_short(kept), is_many = kept > kShort;
    BlockCounts<3> counts((u32)is_hub | (u32)is_some << 1 | (u32)is_many << 2);
    BlockPositions<3, u64> positions(counts, p.control);
    if (is_hub) store(p.hubs + positions.begin[kHubs] + counts.rank(kHubs), own);
    if (is_some) store(p.some + positions.begin[kShortLists] + counts.rank(kShortLists), own);
    if (is_many) store(p.many + positions.begin[kLongLists] + counts.rank(kLongLists), own);
}

// A block for each hub. The order of its targets is not that of its list.
WK_DEVICE void orient_hubs(const Orient& p) {
    WK_SHARED(u32, kept, 1);
    Warp warp;
    if (block_index() >= p.count) return;
    u32 own = load(p.hubs + block_index());
    GraphVertex v = p.graph.vertex(own);
    if (thread_index() == 0) kept.store(0, 0);
    sync_block();
    for (u32 base = warp_in_block() * kWarp; base < v.degree; base += block_size()) {
        u32 at = base + lane();
        u32 target = at < v.degree ? load(p.graph.targets + v.begin + at) : 0;
        bool keeps = at < v.degree && is_above(p, target, v.degree, own);
        u32 keeping = warp.ballot(keeps), to = 0;
        if (lane() == 0 && keeping) to = kept.fetch_add(0, popc(keeping));
        to = warp.shfl(to, 0) + popc(keeping & ((1u << lane()) - 1));
        if (keeps) store(p.targets + v.begin + to, target);
    }
    if (!WK_FAULT_POINT("graph.hub")) sync_block();
    if (thread_index() != 0) return;
    u32 all = kept.load(0);
    store(p.lists + own, v.begin | (u64)all << 32);
    if (is_short(all)) store(p.some + fetch_add(p.control + kShortLists, 1), own);
    if (all > kShort) store(p.many + fetch_add(p.control + kLongLists, 1), own);
}

// A tile of eight lanes for each vertex: its targets, if they are few, are in registers.
WK_DEVICE void count_tiny(const Orient& p) {
    Tile<kTiny> tile;
    u64 number = global_index() / kTiny, found = 0;
    u64 list = number < p.graph.vertices ? load(p.lists + number) : 0;
    u32 degree = (u32)(list >> 32);
    // Others are counted by warps and blocks, and one target makes no triangle.
    if (degree < 2 || degree > kTiny) degree = 0;
    u32 mine = tile.rank() < degree ? load(p.targets + (u32)list + tile.rank()) : kEmpty;
    u64 its = tile.rank() < degree ? load(p.lists + mine) : 0;
    for (u32 i = 0; i < degree; i++) {
        u64 other = tile.shfl(its, i);
        u32 begin = (u32)other, length = (u32)(other >> 32);
        for (u32 base = 0; base < length; base += kTiny) {
            u32 at = base + tile.rank();
            u32 wanted = at < length ? load(p.targets + begin + at) : kEmpty;
            for (u32 j = 0; j < degree; j++) found += tile.shfl(mine, j) == wanted;
        }
    }
    sync_warp();
    add_found(p, found);
}

// A set of vertices in shared memory, with open addressing. `slots` is a power of two, and some slots stay empty.
struct Table {
    Shared<u32> words;
    u32 first;
    u32 slots;

    WK_DEVICE u32 place(u32 v) const { return (v * 2654435769u) >> (clz(slots) + 1); }
    WK_DEVICE void insert(u32 v) const {
        for (u32 at = place(v);; at = (at + 1) & (slots - 1)) {
            if (words.cas(first + at, kEmpty, v) == kEmpty) return;
        }
    }
    WK_DEVICE bool has(u32 v) const {
        for (u32 at = place(v);; at = (at + 1) & (slots - 1)) {
            u32 there = words.load(first + at);
            if (there == v || there == kEmpty) return there == v;
        }
    }
};

// How many targets of 32 neighbours are in the table. All lanes of the warp take part, each with a neighbour or with kEmpty.
WK_DEVICE u64 count_lists(const Orient& p, const Table& table, u32 neighbour) {
    Warp warp;
    u64 list = neighbour != kEmpty ? load(p.lists + neighbour) : 0, found = 0;
    Sums sums((u32)(list >> 32));
    for (u32 base = 0; base < sums.all; base += kWarp) {
        u32 item = base + lane(), owner = sums.owner(item);
        u32 from = warp.shfl((u32)list, owner) + item - warp.shfl(sums.before, owner);
        if (item < sums.all) found += table.has(load(p.targets + from));
    }
    return found;
}

// A warp for each vertex with some targets.
WK_DEVICE void count_short(const Orient& p) {
    WK_SHARED(u32, words, graph_batch::kThreads / kWarp * kWarpSlots);
    Warp warp;
    u64 number = global_warp(), found = 0;
    if (number >= p.count) return;
    u64 list = load(p.lists + load(p.some + number));
    u32 begin = (u32)list, degree = (u32)(list >> 32);
    Table table{words, warp_in_block() * kWarpSlots, kWarpSlots};
    for (u32 at = lane(); at < kWarpSlots; at += kWarp) words.store(table.first + at, kEmpty);
    if (!WK_FAULT_POINT("graph.warp_table")) warp.sync();
    for (u32 at = lane(); at < degree; at += kWarp) table.insert(load(p.targets + begin + at));
    warp.sync();
    for (u32 base = 0; base < degree; base += kWarp) {
        u32 at = base + lane();
        found += count_lists(p, table, at < degree ? load(p.targets + begin + at) : kEmpty);
    }
    add_found(p, found);
}

// A block for each vertex with many targets, as many of them at once as the table holds.
WK_DEVICE void count_long(const Orient& p) {
    WK_SHARED(u32, words, kBlockSlots);
    if (block_index() >= p.count) return;
    u64 list = load(p.lists + load(p.many + block_index())), found = 0;
    u32 begin = (u32)list, degree = (u32)(list >> 32);
    for (u32 part = 0; part < degree; part += p.most) {
        u32 held = degree - part < p.most ? degree - part : p.most;
        // A quarter of the slots is used, or up to a half.
        u32 slots = 4 * held < kBlockSlots ? 1u << (kWarp - clz(4 * held - 1)) : kBlockSlots;
        Table table{words, 0, slots};
        for (u32 at = thread_index(); at < slots; at += block_size()) words.store(at, kEmpty);
        if (!WK_FAULT_POINT("graph.table")) sync_block();
        for (u32 at = thread_index(); at < held; at += block_size()) table.insert(load(p.targets + begin + part + at));
        sync_block();
        for (u32 base = warp_in_block() * kWarp; base < degree; base += block_size()) {
            u32 at = base + lane();
            found += count_lists(p, table, at < degree ? load(p.targets + begin + at) : kEmpty);
        }
        sync_block();
    }
    add_found(p, found);
}

// The run of an edge that has the effect, or kEmpty.
WK_DEVICE u32 changed_run(const Changed& p, u32 one, u32 two) {
    u32 source = one < two ? one : two, target = one < two ? two : one;
    u64 low = 0, high = p.segments;
    while (low < high) {
        u64 middle = (low + high) / 2;
        if (load(p.sources + load(p.firsts + middle)) < source) low = middle + 1;
        else high = middle;
    }
    if (low == p.segments) return kEmpty;
    u32 first = load(p.firsts + low);
    if (load(p.sources + first) != source) return kEmpty;
    u32 end = low + 1 < p.segments ? load(p.firsts + low + 1) : (u32)p.runs;
    u32 run = first + lower_bound(p.targets + first, end - first, target);
    return run < end && load(p.targets + run) == target && load(p.effects + run) == p.effect ? run : kEmpty;
}

// A warp for each run: the triangles of its edge, if it has the effect. A triangle with several such edges counts for the first of them.
WK_DEVICE void count_changed(const Changed& p) {
    u64 number = global_warp(), found = 0;
    if (number >= p.runs || load(p.effects + number) != p.effect) return;
    u32 run = (u32)number, source = load(p.sources + run), target = load(p.targets + run);
    if (source >= target) return;
    GraphVertex less = p.graph.vertex(source), more = p.graph.vertex(target);
    if (less.degree > more.degree) {
        GraphVertex other = less;
        less = more;
        more = other;
    }
    for (u32 at = lane(); at < less.degree; at += kWarp) {
        u32 third = load(p.graph.targets + less.begin + at);
        if (third == source || third == target) continue;
        u32 place = lower_bound(p.graph.targets + more.begin, more.degree, third);
        if (place == more.degree || load(p.graph.targets + more.begin + place) != third) continue;
        found += changed_run(p, source, third) >= run && changed_run(p, target, third) >= run;
    }
    sync_warp();
    add_by_warp(p.triangles, found);
}

}  // namespace graph_triangles
