// What is asked of vertices or of a whole graph: degrees, lists, whether edges exist, compaction, deletion of vertices, and whether all of it is consistent. The
// host's side is src/graph.
#pragma once
#include "graph_batch.h"

namespace graph_whole {

using namespace wk;
using graph_batch::add_by_warp;
using graph_batch::capacity_for;
using graph_batch::Moving;
using graph_batch::owner_of;

struct Lookup {
    GraphRef graph;
    const u32* sources;
    const u32* targets;
    u8* found;
    // The data of edges that are there, and zeros; null if it is not asked for.
    u32* weights;
    u64* ids;
    u64* times;
    u64 count;
};

// Lists of vertices one after the other. Without a list of vertices they are all vertices.
struct Gather {
    GraphRef graph;
    const u32* listed;
    u64 count;
    // Degrees; when they are summed up, where each list begins.
    u32* begins;
    u64* total;
    // A part of the edges: from the one with this number on.
    u64 first;
    u64 edges;
    u32* targets;
    u32* weights;
    u64* ids;
    u64* times;
};

// Blocks in the order of their addresses, and where they go.
struct Compact {
    GraphRef graph;
    u64* count;
    u32* olds;
    u32* listed;
    u32* sizes;
    u32* degrees;
    u64 blocks;
    // Edges from the one with this number on, of one array with elements of 4 or 8 bytes.
    u64 first;
    u64 edges;
    void* array;
    void* staging;
    u64 wide;
    // The blocks that begin in this part of the pool go to the position `to`, one behind the other. It is not behind
    // the first of them.
    u64 from;
    u64 until;
    u64 to;
};

struct Purge {
    GraphRef graph;
    // One bit a vertex.
    const u32* doomed;
    u64 doomed_words;
    // Sums of what goes: edges in lists, loops, slots, slots that belong to snapshots; and the slots of new blocks.
    u64* control;
    // For each vertex, how many slots of new blocks lie before its own; null if no block is frozen.
    u32* needs;
    // Where new blocks begin, and before which position blocks belong to snapshots.
    u64 pool_end;
    u64 frozen;
};

enum Purged : u32 { kRemoved, kLoopsRemoved, kDead, kFrozenDead, kNeeded, kPurgedWords };

// Blocks of a snapshot.
struct Held {
    // The vertices of the snapshot, and those of the graph.
    GraphRef pinned;
    GraphRef graph;
    u64 frozen;
    u64* slots;
};

struct Verify {
    GraphRef graph;
    u64 pool_end;
    u64* control;
    u32 mirrored;
    u32 drops_loops;
};

enum Verified : u32 { kOutside, kUnsorted, kUnknown, kOneWay, kLoops, kEdges, kSlots, kVerifiedWords };

WK_DEVICE void exists(const Lookup& p) {
    u64 i = global_index();
    if (i >= p.count) return;
    u32 at = p.graph.find(load(p.sources + i), load(p.targets + i));
    bool found = at != kNoEdge;
    store(p.found + i, (u8)found);
    if (p.weights) store(p.weights + i, found ? load(p.graph.weights + at) : 0);
    if (p.ids) store(p.ids + i, found ? load(p.graph.ids + at) : 0);
    if (p.times) store(p.times + i, found ? load(p.graph.times + at) : 0);
}

// A thread for each vertex, and one more if their sum is wanted.
WK_DEVICE void degrees(const Gather& p) {
    u64 i = global_index();
    u32 degree = i < p.count ? p.graph.degree(p.listed ? load(p.listed + i) : (u32)i) : 0;
    if (i < p.count || (p.total && i == p.count)) store(p.begins + i, degree);
    if (p.total) add_by_warp(p.total, degree);
}

// A thread for each edge of a part.
WK_DEVICE void gather(const Gather& p) {
    u64 i = global_index();
    if (i >= p.edges) return;
    u32 edge = (u32)(p.first + i), number = owner_of(p.begins, p.count, edge);
    GraphVertex v = p.graph.vertex(p.listed ? load(p.listed + number) : number);
    u32 from = v.begin + edge - load(p.begins + number);
    store(p.targets + i, load(p.graph.targets + from));
    if (p.weights) store(p.weights + i, load(p.graph.weights + from));
    if (p.ids) store(p.ids + i, load(p.graph.ids + from));
    if (p.times) store(p.times + i, load(p.graph.times + from));
}

// A thread for each vertex: lists those with a block in the part, by where it begins.
WK_DEVICE void list_blocks(const Compact& p) {
    u64 i = global_index();
    GraphVertex v = i < p.graph.vertices ? p.graph.vertex((u32)i) : GraphVertex{0, 0, 0};
    bool moves = v.capacity && v.begin >= p.from && v.begin < p.until;
    u64 at = append_by_warp(p.count, moves);
    if (!moves) return;
    store(p.olds + at, v.begin);
    store(p.listed + at, (u32)i);
}

// A thread for each block, and one more, when they are sorted.
WK_DEVICE void measure_blocks(const Compact& p) {
    u64 i = global_index();
    if (i > p.blocks) return;
    GraphVertex v = i < p.blocks ? p.graph.vertex(load(p.listed + i)) : GraphVertex{0, 0, 0};
    u32 fitting = capacity_for(v.degree);
    store(p.sizes + i, fitting < v.capacity ? fitting : v.capacity);
    store(p.degrees + i, v.degree);
}

// A thread for each edge of a part: to the staging memory, and from there to where it goes. A block never goes to a higher address, and parts are in the order of
// addresses, so nothing is overwritten before it was read.
template <class T, bool kBack> WK_DEVICE void slide(const Compact& p) {
    u64 i = global_index();
    if (i >= p.edges) return;
    u32 edge = (u32)(p.first + i), block = owner_of(p.degrees, p.blocks, edge), rank = edge - load(p.degrees + block);
    T *staging = (T*)p.staging + i, *array = (T*)p.array;
    if constexpr (kBack) store(array + p.to + load(p.sizes + block) + rank, load(staging));
    else store(staging, load(array + load(p.olds + block) + rank));
}

WK_DEVICE void fetch_part(const Compact& p) {
    if (p.wide) slide<u64, false>(p);
    else slide<u32, false>(p);
}

WK_DEVICE void store_part(const Compact& p) {
    if (p.wide) slide<u64, true>(p);
    else slide<u32, true>(p);
}

// A thread for each block: its vertex knows where it is now.
WK_DEVICE void rebase(const Compact& p) {
    u64 i = global_index();
    if (i >= p.blocks) return;
    u32 begin = load(p.sizes + i), degree = load(p.degrees + i + 1) - load(p.degrees + i);
    store(p.graph.records + load(p.listed + i), GraphVertex{(u32)p.to + begin, degree, load(p.sizes + i + 1) - begin}.record());
}

WK_DEVICE bool is_doomed(const Purge& p, u32 v) { return v / 32 < p.doomed_words && load(p.doomed + v / 32) >> v % 32 & 1; }

// A warp for each vertex, and one more: the slots of a new block for what is left of a list that a snapshot needs.
WK_DEVICE void measure_purge(const Purge& p) {
    Warp warp;
    u64 number = global_warp();
    if (number > p.graph.vertices) return;
    u32 own = (u32)number, kept = 0;
    GraphVertex v = number < p.graph.vertices ? p.graph.vertex(own) : GraphVertex{0, 0, 0};
    bool stays = v.begin < p.frozen && !is_doomed(p, own);
    for (u32 base = 0; stays && base < v.degree; base += kWarp) {
        bool mine = base + lane() < v.degree;
        kept += popc(warp.ballot(mine && !is_doomed(p, load(p.graph.targets + v.begin + (mine ? base + lane() : base)))));
    }
    u32 need = stays && kept < v.degree ? capacity_for(kept) : 0;
    if (lane() != 0) return;
    store(p.needs + number, need);
    if (need) fetch_add(p.control + kNeeded, (u64)need);
}

// A warp for each vertex: removes its list, or the vertices that are deleted from it. A list that a snapshot needs is copied.
WK_DEVICE void purge(const Purge& p) {
    Warp warp;
    u64 number = global_warp();
    if (number >= p.graph.vertices) return;
    u32 own = (u32)number, kept = 0;
    GraphVertex v = p.graph.vertex(own);
    bool goes = is_doomed(p, own), loop = false, is_frozen = v.begin < p.frozen;
    u32 first = p.needs ? load(p.needs + number) : 0, need = p.needs ? load(p.needs + number + 1) - first : 0;
    u32 to = need ? (u32)p.pool_end + first : v.begin;
    bool writes = need || !is_frozen;
    for (u32 base = 0; base < v.degree; base += kWarp) {
        bool mine = base + lane() < v.degree;
        Moving edge(p.graph, v.begin + (mine ? base + lane() : base));
        bool keeps = mine && !goes && !is_doomed(p, edge.target);
        loop |= mine && goes && edge.target == own;
        u32 keeping = warp.ballot(keeps);
        warp.sync();
        if (keeps && writes) edge.put(p.graph, to + kept + popc(keeping & ((1u << lane()) - 1)));
        kept += popc(keeping);
        warp.sync();
    }
    add_by_warp(p.control + kLoopsRemoved, loop);
    if (lane() != 0 || kept == v.degree) return;
    fetch_add(p.control + kRemoved, (u64)(v.degree - kept));
    if (kept == 0 || need) {
        fetch_add(p.control + kDead, (u64)v.capacity);
        if (is_frozen) fetch_add(p.control + kFrozenDead, (u64)v.capacity);
    }
    GraphVertex left = kept ? GraphVertex{to, kept, need ? need : v.capacity} : GraphVertex{0, 0, 0};
    store(p.graph.records + own, left.record());
}

// A thread for each vertex: the slots of blocks of the graph that snapshots need.
WK_DEVICE void count_frozen(const Held& p) {
    u64 i = global_index();
    GraphVertex v = i < p.graph.vertices ? p.graph.vertex((u32)i) : GraphVertex{0, 0, 0};
    add_by_warp(p.slots, v.begin < p.frozen ? v.capacity : 0);
}

// A thread for each vertex: the slots of blocks of a snapshot that the graph does not have any more.
WK_DEVICE void count_held(const Held& p) {
    u64 i = global_index();
    u32 held = 0;
    if (i < p.pinned.vertices) {
        GraphVertex then = p.pinned.vertex((u32)i), now = p.graph.vertex((u32)i);
        held = now.capacity && now.begin == then.begin ? 0 : then.capacity;
    }
    add_by_warp(p.slots, held);
}

// A warp for each vertex: counts what should not be, and what there is.
WK_DEVICE void verify(const Verify& p) {
    u64 number = global_warp();
    if (number >= p.graph.vertices) return;
    u32 own = (u32)number, unsorted = 0, unknown = 0, one_way = 0, loops = 0;
    GraphVertex v = p.graph.vertex(own);
    bool outside = v.begin + (u64)v.capacity > p.pool_end || v.degree > v.capacity;
    for (u32 at = lane(); !outside && at < v.degree; at += kWarp) {
        Moving edge(p.graph, v.begin + at);
        unsorted += at > 0 && load(p.graph.targets + v.begin + at - 1) >= edge.target;
        unknown += edge.target >= p.graph.vertices;
        loops += edge.target == own;
        if (!p.mirrored) continue;
        u32 back = p.graph.find(edge.target, own);
        if (back == kNoEdge) {
            one_way++;
            continue;
        }
        Moving other(p.graph, back);
        one_way += other.weight != edge.weight || other.id != edge.id || other.time != edge.time;
    }
    add_by_warp(p.control + kOutside, outside && lane() == 0);
    add_by_warp(p.control + kUnsorted, unsorted);
    add_by_warp(p.control + kUnknown, unknown);
    add_by_warp(p.control + kOneWay, one_way);
    add_by_warp(p.control + kLoops, loops);
    add_by_warp(p.control + kEdges, lane() == 0 ? v.degree : 0);
    add_by_warp(p.control + kSlots, lane() == 0 ? v.capacity : 0);
}

}  // namespace graph_whole
