// A dynamic graph: what kernels need to read one. The host's side, which changes it, is warpkeep_containers::Graph.
//
//     struct Params { wk::GraphRef graph; wk::u64* sums; };
//     WK_KERNEL(sum_neighbours, Params) {
//         wk::u64 v = wk::global_index(), sum = 0;
//         if (v >= p.graph.vertices) return;
//         for (auto edge = p.graph.neighbours((wk::u32)v); edge.valid(); edge.next()) sum += edge.target();
//         wk::store(p.sums + v, sum);
//     }
//
// Each vertex has one block of edges, sorted by target, without duplicates. Weights, ids and times are parallel arrays, and null if the graph has none.
// Kernels only read. A reference is good until the next call of the host that changes the graph, because that may move blocks.
#pragma once
#include "warpkeep/simt.h"

namespace wk {

// What `GraphRef::find` gives if there is no such edge.
constexpr u32 kNoEdge = ~0u;

// The first position of an ascending array whose element is not less than `wanted`.
WK_DEVICE u32 lower_bound(const u32* sorted, u32 count, u32 wanted) {
    u32 low = 0, high = count;
    while (low < high) {
        u32 middle = low + (high - low) / 2;
        if (load(sorted + middle) < wanted) low = middle + 1;
        else high = middle;
    }
    return low;
}

// The block of a vertex: where it begins in the arrays of edges, how many edges it has and how many it has room for.
struct GraphVertex {
    u32 begin;
    u32 degree;
    u32 capacity;

    WK_DEVICE static GraphVertex of(const U128& record) {
        return GraphVertex{(u32)record.lo, (u32)(record.lo >> 32), (u32)record.hi};
    }
    WK_DEVICE U128 record() const { return U128{begin | (u64)degree << 32, capacity}; }
};

struct GraphNeighbours;

struct GraphRef {
    U128* records;
    u32* targets;
    // The bits of 32-bit floating-point numbers.
    u32* weights;
    u64* ids;
    // Signed numbers.
    u64* times;
    u64 vertices;

    // A vertex without edges if there is no such vertex.
    WK_DEVICE GraphVertex vertex(u32 v) const {
        return v < vertices ? GraphVertex::of(load(records + v)) : GraphVertex{0, 0, 0};
    }
    WK_DEVICE u32 degree(u32 v) const { return vertex(v).degree; }

    // The position of the edge in the arrays, or kNoEdge.
    WK_DEVICE u32 find(u32 source, u32 target) const {
        GraphVertex v = vertex(source);
        u32 at = lower_bound(targets + v.begin, v.degree, target);
        return at < v.degree && load(targets + v.begin + at) == target ? v.begin + at : kNoEdge;
    }
    WK_DEVICE bool has_edge(u32 source, u32 target) const { return find(source, target) != kNoEdge; }

    // The edges of a vertex in ascending order of their targets. With `rank` and `size` of a tile each lane has every size-th edge, so that the tile reads
    // neighbouring edges together.
    WK_DEVICE GraphNeighbours neighbours(u32 v, u32 rank = 0, u32 size = 1) const;
};

struct GraphNeighbours {
    const GraphRef& graph;
    u32 at;
    u32 end;
    u32 step;

    WK_DEVICE bool valid() const { return at < end; }
    // After the last edge `at` stays, because a position of 32 bits could wrap around.
    WK_DEVICE void next() { at = end - at > step ? at + step : end; }
    WK_DEVICE u32 target() const { return load(graph.targets + at); }
    WK_DEVICE u32 weight_bits() const { return load(graph.weights + at); }
    WK_DEVICE u64 id() const { return load(graph.ids + at); }
    WK_DEVICE i64 time() const { return (i64)load(graph.times + at); }
};

WK_DEVICE GraphNeighbours GraphRef::neighbours(u32 v, u32 rank, u32 size) const {
    GraphVertex block = vertex(v);
    u32 end = block.begin + block.degree;
    return GraphNeighbours{*this, rank < block.degree ? block.begin + rank : end, end, size};
}

}  // namespace wk
