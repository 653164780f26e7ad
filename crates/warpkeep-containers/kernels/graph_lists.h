// The lists of a batch are changed, when it is known where each goes. The host's side is src/graph/apply.rs.
#pragma once
#include "graph_batch.h"
#include "warpkeep/fault_point.h"

namespace graph_batch {

// The block that the list of a segment is in when it is changed: a new one, or the old one.
struct Target {
    u32 begin;
    // Of a new block.
    u32 slots;

    WK_DEVICE Target(const Update& p, u64 number, const GraphVertex& vertex) {
        u32 before = load(p.needs + number);
        slots = load(p.needs + number + 1) - before;
        begin = slots ? (u32)p.pool_end + before : vertex.begin;
    }
    WK_DEVICE bool is_new() const { return slots != 0; }
};

// An edge on its way to another position.
struct Moving {
    u32 target;
    u32 weight;
    u64 id;
    u64 time;

    WK_DEVICE Moving(const GraphRef& g, u32 at)
        : target(load(g.targets + at)), weight(g.weights ? load(g.weights + at) : 0), id(g.ids ? load(g.ids + at) : 0),
          time(g.times ? load(g.times + at) : 0) {}
    WK_DEVICE void put(const GraphRef& g, u32 at) const {
        store(g.targets + at, target);
        if (g.weights) store(g.weights + at, weight);
        if (g.ids) store(g.ids + at, id);
        if (g.times) store(g.times + at, time);
    }
};

// Copies an edge of a list that has a new block to its new position.
WK_DEVICE void move_edge(const Update& p, const Segment& s, const Target& to, u32 at) {
    Moving edge(p.graph, s.vertex.begin + at);
    u32 run = s.run_of(p, edge.target);
    if (s.removes(p, run, edge.target)) return;
    edge.put(p.graph, to.begin + at + s.added_before(p, run) - s.removed_before(p, run));
}

// A list stays in its block: the lanes close the gaps of removed edges from the front, then make room for added ones
// from the back. No edge is overwritten before it was read.
template <u32 kLanes> WK_DEVICE void shift_list(const Update& p, const Segment& s) {
    Tile<kLanes> tile;
    u32 begin = s.vertex.begin, left = s.vertex.degree - s.remove, rank = tile.rank();
    if (s.remove) {
        u32 kept = 0;
        for (u32 base = 0; base < s.vertex.degree; base += kLanes) {
            bool mine = base + rank < s.vertex.degree;
            Moving edge(p.graph, begin + (mine ? base + rank : base));
            bool keeps = mine && !s.removes(p, s.run_of(p, edge.target), edge.target);
            u32 keeping = tile.ballot(keeps);
            tile.sync();
            if (keeps) edge.put(p.graph, begin + kept + popc(keeping & ((1u << rank) - 1)));
            kept += popc(keeping);
            // Room is made from positions that other lanes have closed gaps to.
            if (!WK_FAULT_POINT("graph.shift")) tile.sync();
        }
    }
    if (!s.add) return;
    for (u32 base = (left + kLanes - 1) / kLanes * kLanes; base > 0;) {
        base -= kLanes;
        bool mine = base + rank < left;
        Moving edge(p.graph, begin + (mine ? base + rank : base));
        u32 before = mine ? s.added_before(p, s.run_of(p, edge.target)) : 0;
        // Edges in front of all added ones stay.
        bool some = tile.any(before > 0);
        tile.sync();
        if (before) edge.put(p.graph, begin + base + rank + before);
        tile.sync();
        if (!some) return;
    }
}

// Stores an edge that is added, or its data, when all other edges are in their positions.
WK_DEVICE void put_edge(const Update& p, const Segment& s, const Target& block, u32 run) {
    u32 effect = load(p.effects + run);
    if (effect != kAdd && effect != kReplace) return;
    u32 to = block.begin + load(p.places + run) + s.added_before(p, run) - s.removed_before(p, run);
    u32 op = load(p.winners + run);
    store(p.graph.targets + to, load(p.targets + run));
    if (p.graph.weights) store(p.graph.weights + to, p.weights ? load(p.weights + op) : 0x3f800000u);
    if (p.graph.ids) store(p.graph.ids + to, p.ids ? load(p.ids + op) : 0);
    if (p.graph.times) store(p.graph.times + to, p.times ? load(p.times + op) : 0);
}

// The vertex of a segment has the new list.
WK_DEVICE void commit_list(const Update& p, const Segment& s, const Target& to) {
    if (s.source == ~0u || !(s.add || s.remove || to.is_new())) return;
    GraphVertex changed{to.begin, s.degree(), to.is_new() ? to.slots : s.vertex.capacity};
    if (changed.degree == 0) changed = GraphVertex{0, 0, 0};
    store(p.graph.records + s.source, changed.record());
}

// The lanes move the list of a segment that is not long, or shift it, put new edges and data where they belong, and
// give its vertex the new list.
template <u32 kLanes> WK_DEVICE void finish_list(const Update& p, u64 number) {
    Tile<kLanes> tile;
    Segment s(p, number);
    Target to(p, number, s.vertex);
    if (to.is_new()) {
        for (u32 at = tile.rank(); at < s.vertex.degree; at += kLanes) move_edge(p, s, to, at);
    } else {
        shift_list<kLanes>(p, s);
    }
    // Replaced data comes after the copy of the old one, and the new record after all lanes have read the old one.
    if (!WK_FAULT_POINT("graph.put")) tile.sync();
    for (u32 run = s.first + tile.rank(); run < s.end; run += kLanes) put_edge(p, s, to, run);
    if (tile.rank() == 0) commit_list(p, s, to);
}

// Long segments.
//
// A thread for each edge of a long list that moves.
WK_DEVICE void relocate(const Update& p) {
    u64 i = global_index();
    if (i >= p.moved) return;
    u32 number = owner_of(p.moves, p.segments, (u32)i);
    Segment s(p, number);
    move_edge(p, s, Target(p, number, s.vertex), (u32)i - load(p.moves + number));
}

// A thread for each run.
WK_DEVICE void put(const Update& p) {
    u64 r = global_index();
    if (r >= p.runs || load(p.effects + r) == kNothing) return;
    u32 number = load(p.owners + r);
    if (load(p.classes + number) != kLong) return;
    Segment s(p, number);
    put_edge(p, s, Target(p, number, s.vertex), (u32)r);
}

// A thread for each segment.
WK_DEVICE void commit(const Update& p) {
    u64 number = global_index();
    if (number >= p.segments || load(p.classes + number) != kLong) return;
    Segment s(p, number);
    commit_list(p, s, Target(p, number, s.vertex));
}

}  // namespace graph_batch
