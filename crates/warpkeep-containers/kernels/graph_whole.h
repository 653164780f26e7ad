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
};

struct Purge {
    GraphRef graph;
    // One bit a vertex.
    const u32* doomed;
    u64 doomed_words;
    u64* removed;
    u64* loops;
    u64* dead;
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
    if (i < p.count) store(p.found + i, (u8)p.graph.has_edge(load(p.sources + i), load(p.targets + i)));
}

// A thread for each vertex, and one more.
WK_DEVICE void degrees(const Gather& p) {
    u64 i = global_index();
    u32 degree = i < p.count ? p.graph.degree(p.listed ? load(p.listed + i) : (u32)i) : 0;
    if (i <= p.count) store(p.begins + i, degree);
    add_by_warp(p.total, degree);
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

// A thread for each vertex: lists those with a block, by where it begins.
WK_DEVICE void list_blocks(const Compact& p) {
    u64 i = global_index();
    GraphVertex v = i < p.graph.vertices ? p.graph.vertex((u32)i) : GraphVertex{0, 0, 0};
    u64 at = append_by_warp(p.count, v.capacity > 0);
    if (!v.capacity) return;
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
    if constexpr (kBack) store(array + load(p.sizes + block) + rank, load(staging));
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
    store(p.graph.records + load(p.listed + i), GraphVertex{begin, degree, load(p.sizes + i + 1) - begin}.record());
}

WK_DEVICE bool is_doomed(const Purge& p, u32 v) { return v / 32 < p.doomed_words && load(p.doomed + v / 32) >> v % 32 & 1; }

// A warp for each vertex: removes its list, or the vertices that are deleted from it.
WK_DEVICE void purge(const Purge& p) {
    Warp warp;
    u64 number = global_warp();
    if (number >= p.graph.vertices) return;
    u32 own = (u32)number, kept = 0;
    GraphVertex v = p.graph.vertex(own);
    bool goes = is_doomed(p, own), loop = false;
    for (u32 base = 0; base < v.degree; base += kWarp) {
        bool mine = base + lane() < v.degree;
        Moving edge(p.graph, v.begin + (mine ? base + lane() : base));
        bool keeps = mine && !goes && !is_doomed(p, edge.target);
        loop |= mine && goes && edge.target == own;
        u32 keeping = warp.ballot(keeps);
        warp.sync();
        if (keeps) edge.put(p.graph, v.begin + kept + popc(keeping & ((1u << lane()) - 1)));
        kept += popc(keeping);
        warp.sync();
    }
    add_by_warp(p.loops, loop);
    if (lane() != 0 || kept == v.degree) return;
    fetch_add(p.removed, (u64)(v.degree - kept));
    if (kept == 0) fetch_add(p.dead, (u64)v.capacity);
    GraphVertex left = kept ? GraphVertex{v.begin, kept, v.capacity} : GraphVertex{0, 0, 0};
    store(p.graph.records + own, left.record());
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
