// Core numbers: vertices with few edges are taken away, level by level. The host's side is src/graph/cores_device.rs.
#pragma once
#include "graph_batch.h"
#include "warpkeep/fault_point.h"

namespace graph_cores {

using namespace wk;

// The core number of a vertex that is still there.
constexpr u32 kThere = ~0u;

struct Peel {
    GraphRef graph;
    // For each vertex: its edges to vertices that are there, and its core number.
    u32* left;
    u32* cores;
    // Vertices that were taken away last.
    const u32* frontier;
    u64 count;
    // Vertices that are taken away now, and how many.
    u32* next;
    u64* found;
    // The fewest edges that a vertex has which stays.
    u64* least;
    u64 level;
};

// A thread for each vertex. Loops do not count.
WK_DEVICE void prepare(const Peel& p) {
    u64 v = global_index();
    if (v >= p.graph.vertices) return;
    store(p.left + v, p.graph.degree((u32)v) - p.graph.has_edge((u32)v, (u32)v));
    store(p.cores + v, kThere);
}

// A thread for each vertex: takes those away that have no more edges than the level.
WK_DEVICE void take(const Peel& p) {
    Warp warp;
    u64 v = global_index();
    bool is_there = v < p.graph.vertices && load(p.cores + v) == kThere;
    u32 left = is_there ? load(p.left + v) : kThere;
    bool goes = is_there && left <= p.level;
    u64 at = append_by_warp(p.found, goes);
    if (goes) {
        store(p.next + at, (u32)v);
        store(p.cores + v, (u32)p.level);
    }
    u32 least = goes ? kThere : left;
    for (u32 bit = kWarp / 2; bit > 0; bit /= 2) {
        u32 other = warp.shfl_xor(least, bit);
        least = other < least ? other : least;
    }
    if (lane() == 0 && least != kThere) fetch_min(p.least, (u64)least);
}

// Takes an edge of a vertex away; gives how many it had.
WK_DEVICE u32 take_edge(const Peel& p, u32 v) {
    if (!WK_FAULT_POINT("graph.peel")) return fetch_add(p.left + v, ~0u);
    u32 had = load<Scope::Device, Order::Relaxed>(p.left + v);
    store<Scope::Device, Order::Relaxed>(p.left + v, had - 1);
    return had;
}

// A warp for each vertex that was taken away: its neighbours have an edge less, and those that come down to the level go as well. Of the lanes that take edges of one
// vertex, one takes it to the level.
WK_DEVICE void peel(const Peel& p) {
    Warp warp;
    u64 number = global_warp();
    if (number >= p.count) return;
    u32 own = load(p.frontier + number), rounds = (p.graph.degree(own) + kWarp - 1) / kWarp;
    auto edge = p.graph.neighbours(own, lane(), kWarp);
    for (u32 round = 0; round < rounds; round++, edge.next()) {
        u32 target = edge.valid() ? edge.target() : own;
        bool is_there = target != own && load<Scope::Device, Order::Relaxed>(p.cores + target) == kThere;
        bool goes = is_there && take_edge(p, target) == p.level + 1;
        if (goes) store<Scope::Device, Order::Relaxed>(p.cores + target, (u32)p.level);
        u64 at = append_by_warp(p.found, goes);
        if (goes) store(p.next + at, target);
    }
    warp.sync();
}

}  // namespace graph_cores
