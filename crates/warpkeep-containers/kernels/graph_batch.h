// Batches of edge operations on a graph. The host's side is src/graph/device.rs.
//
// Operations are sorted by (source, target), in batch order among equal ones. Operations on one edge are a run; runs of one source are a segment. A thread works
// a run: it looks the edge up, answers its operations in order and leaves the net effect. The sums of the effects before each run then give the new
// position of every edge, so that lists of any length are merged by as many threads as they have edges.
#pragma once
#include "warpkeep/append.h"
#include "warpkeep/graph.h"

namespace graph_batch {

using namespace wk;

// Threads of a block.
constexpr u32 kThreads = 128;
// The smallest block of edges.
constexpr u32 kLeastCapacity = 4;
// Lists longer than this are merged into a new block even if the old one has room: one warp would take too long.
constexpr u32 kLongList = 2048;

enum class Op : u8 { Insert = 0, Delete = 1 };
enum class Status : u8 { Inserted = 1, Updated = 2, Deleted = 3, Absent = 4, Loop = 5 };
// What the operations on an edge come to.
enum Effect : u32 { kNothing, kAdd, kRemove, kReplace };
// Sums that kernels of a batch count in.
enum Control : u32 { kLargest, kLargestInserted, kAdded, kRemoved, kLoopsAdded, kLoopsRemoved, kNeeded, kMoved, kDead, kControlWords };

struct Update {
    GraphRef graph;
    // As planned: entries with the same key (source and target) make a run, which begins at each of `begins`.
    const u64* sorted;
    const u32* numbers;
    const u32* begins;
    u64 runs;
    u64 entries;
    // For each operation, by number: what it does (if all do the same there is no column), the data of its edge, and its answer.
    const u8* codes;
    const u32* weights;
    const u64* ids;
    const u64* times;
    u8* statuses;
    // For each run: its edge, the position at which the edge is or would be, the operation whose data it has, and the effect. Then how many runs before it
    // add an edge, and how many remove one.
    u32* sources;
    u32* targets;
    u32* places;
    u32* winners;
    u32* effects;
    u32* added;
    u32* removed;
    // For each segment: its first run; how many slots of its new block, and how many edges that move there, lie before those of this segment.
    const u32* firsts;
    u32* needs;
    u32* moves;
    u64 segments;
    u64 moved;
    u64* control;
    // Where the new blocks begin.
    u64 pool_end;
    u32 code;
    // Bits of a vertex in a key.
    u32 bits;
    // 1 if each operation has two entries, one for each direction.
    u32 mirrored;
    u32 drops_loops;
};

// The operations in device memory, before they are planned.
struct Expand {
    const u32* sources;
    const u32* targets;
    const u8* codes;
    u64* sorted;
    u32* numbers;
    u64* control;
    u64 count;
    u32 code;
    u32 bits;
    u32 mirrored;
    u32 drops_loops;
};

// Adds the numbers of all lanes of the warp to a word. All lanes take part.
WK_DEVICE void add_by_warp(u64* to, u64 own) {
    Warp warp;
    for (u32 bit = kWarp / 2; bit > 0; bit /= 2) own += warp.shfl_xor(own, bit);
    if (lane() == 0 && own) fetch_add(to, own);
}

WK_DEVICE void max_by_warp(u64* to, u64 own) {
    Warp warp;
    for (u32 bit = kWarp / 2; bit > 0; bit /= 2) {
        u64 other = warp.shfl_xor(own, bit);
        own = other > own ? other : own;
    }
    if (lane() == 0 && own) fetch_max(to, own);
}

// The last of `count` ascending numbers that is not greater than `wanted`; the first one is not.
WK_DEVICE u32 owner_of(const u32* ascending, u64 count, u32 wanted) {
    u64 low = 0, high = count;
    while (high - low > 1) {
        u64 middle = (low + high) / 2;
        if (load(ascending + middle) <= wanted) low = middle;
        else high = middle;
    }
    return (u32)low;
}

// Slots of a block for this many edges: a power of two or three quarters of one.
WK_DEVICE u32 capacity_for(u32 degree) {
    if (degree == 0) return 0;
    if (degree <= kLeastCapacity) return kLeastCapacity;
    u64 whole = 1ull << (kWarp - clz(degree - 1)), three_quarters = whole / 4 * 3;
    u64 capacity = degree <= three_quarters ? three_quarters : whole;
    return capacity > ~0u ? ~0u : (u32)capacity;
}

// The sort key of entries that change nothing: behind all others, because no vertex of the batch has all bits set.
WK_DEVICE u64 dropped_key(u32 bits) { return ~0ull >> (64 - 2 * bits); }

// The largest vertices of a batch plus 1: of all operations, and of those that insert.
WK_DEVICE void largest(const Expand& p) {
    u64 i = global_index(), any = 0, inserted = 0;
    if (i < p.count) {
        u32 source = load(p.sources + i), target = load(p.targets + i);
        any = (source > target ? source : target) + 1ull;
        u32 code = p.codes ? load(p.codes + i) : p.code;
        bool dropped = p.drops_loops && source == target;
        inserted = (Op)code == Op::Insert && !dropped ? any : 0;
    }
    max_by_warp(p.control + kLargest, any);
    max_by_warp(p.control + kLargestInserted, inserted);
}

// The sort keys of all entries. Those of dropped loops, and the second one of a loop that is kept, have a key behind all others.
WK_DEVICE void expand(const Expand& p) {
    u64 i = global_index();
    if (i >= p.count << p.mirrored) return;
    u64 op = i >> p.mirrored, source = load(p.sources + op), target = load(p.targets + op);
    bool second = p.mirrored && i % 2;
    u64 key = second ? target << p.bits | source : source << p.bits | target;
    if (source == target && (p.drops_loops || second)) key = dropped_key(p.bits);
    store(p.sorted + i, key);
    store(p.numbers + i, (u32)i);
}

// A thread for each run, and one more: what its operations answer, and what they come to.
WK_DEVICE void resolve(const Update& p) {
    u64 r = global_index();
    u32 effect = kNothing;
    bool loop = false;
    if (r < p.runs) {
        u64 at = load(p.begins + r), end = r + 1 < p.runs ? load(p.begins + r + 1) : p.entries;
        u64 key = load(p.sorted + at), mask = ~0ull >> (64 - p.bits);
        u32 source = (u32)(key >> p.bits), target = (u32)(key & mask);
        u32 place = 0, winner = 0;
        if (key == dropped_key(p.bits)) {
            source = target = ~0u;
            for (; at < end && p.drops_loops; at++) store(p.statuses + (load(p.numbers + at) >> p.mirrored), (u8)Status::Loop);
        } else {
            loop = source == target;
            GraphVertex v = p.graph.vertex(source);
            place = lower_bound(p.graph.targets + v.begin, v.degree, target);
            bool was = place < v.degree && load(p.graph.targets + v.begin + place) == target, is = was, replaced = false;
            // Both directions of an edge have the same answers, and one stores them.
            bool answers = !p.mirrored || source <= target;
            for (; at < end; at++) {
                u32 op = load(p.numbers + at) >> p.mirrored, code = p.codes ? load(p.codes + op) : p.code;
                Status status;
                if ((Op)code == Op::Insert) {
                    status = is ? Status::Updated : Status::Inserted;
                    is = replaced = true;
                    winner = op;
                } else {
                    // A code that means nothing changes nothing.
                    bool deletes = is && (Op)code == Op::Delete;
                    status = deletes ? Status::Deleted : Status::Absent;
                    is = is && !deletes;
                }
                if (answers) store(p.statuses + op, (u8)status);
            }
            if (is != was) effect = is ? kAdd : kRemove;
            else if (is && replaced) effect = kReplace;
        }
        store(p.sources + r, source);
        store(p.targets + r, target);
        store(p.places + r, place);
        store(p.winners + r, winner);
        store(p.effects + r, effect);
    }
    if (r <= p.runs) {
        store(p.added + r, (u32)(effect == kAdd));
        store(p.removed + r, (u32)(effect == kRemove));
    }
    add_by_warp(p.control + kAdded, effect == kAdd);
    add_by_warp(p.control + kRemoved, effect == kRemove);
    add_by_warp(p.control + kLoopsAdded, loop && effect == kAdd);
    add_by_warp(p.control + kLoopsRemoved, loop && effect == kRemove);
}

// The runs of one vertex, when the effects are summed up.
struct Segment {
    u32 first;
    u32 end;
    u32 source;
    u32 add;
    u32 remove;
    GraphVertex vertex;

    WK_DEVICE Segment(const Update& p, u64 number) {
        first = load(p.firsts + number);
        end = number + 1 < p.segments ? load(p.firsts + number + 1) : (u32)p.runs;
        source = load(p.sources + first);
        add = load(p.added + end) - load(p.added + first);
        remove = load(p.removed + end) - load(p.removed + first);
        vertex = p.graph.vertex(source);
    }

    WK_DEVICE u32 degree() const { return vertex.degree + add - remove; }
    // How many edges are added, or removed, before this run of the segment.
    WK_DEVICE u32 added_before(const Update& p, u32 run) const { return load(p.added + run) - load(p.added + first); }
    WK_DEVICE u32 removed_before(const Update& p, u32 run) const { return load(p.removed + run) - load(p.removed + first); }
    // The first run of the segment whose target is not less.
    WK_DEVICE u32 run_of(const Update& p, u32 target) const { return first + lower_bound(p.targets + first, end - first, target); }
    WK_DEVICE bool removes(const Update& p, u32 run, u32 target) const {
        return run < end && load(p.targets + run) == target && load(p.effects + run) == kRemove;
    }
};

// A thread for each segment, and one more: whether its list needs a new block.
WK_DEVICE void measure(const Update& p) {
    u64 i = global_index();
    u32 need = 0, move = 0, dead = 0;
    if (i < p.segments) {
        Segment s(p, i);
        u32 degree = s.degree();
        bool changes = s.add || s.remove;
        if (degree > s.vertex.capacity || (changes && degree && s.vertex.degree > kLongList)) {
            need = capacity_for(degree);
            move = s.vertex.degree;
            dead = s.vertex.capacity;
        } else if (changes && degree == 0) {
            dead = s.vertex.capacity;
        }
    }
    if (i <= p.segments) {
        store(p.needs + i, need);
        store(p.moves + i, move);
    }
    add_by_warp(p.control + kNeeded, need);
    add_by_warp(p.control + kMoved, move);
    add_by_warp(p.control + kDead, dead);
}

// The new block of a segment, or its old one.
WK_DEVICE bool has_new_block(const Update& p, u64 segment) { return load(p.needs + segment + 1) != load(p.needs + segment); }
WK_DEVICE u32 block_of(const Update& p, u64 segment, const GraphVertex& vertex) {
    return has_new_block(p, segment) ? (u32)p.pool_end + load(p.needs + segment) : vertex.begin;
}

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

// A thread for each edge whose list has a new block: copies it to its new position.
WK_DEVICE void relocate(const Update& p) {
    u64 i = global_index();
    if (i >= p.moved) return;
    u32 segment = owner_of(p.moves, p.segments, (u32)i);
    Segment s(p, segment);
    u32 at = (u32)i - load(p.moves + segment);
    Moving edge(p.graph, s.vertex.begin + at);
    u32 run = s.run_of(p, edge.target);
    if (s.removes(p, run, edge.target)) return;
    edge.put(p.graph, block_of(p, segment, s.vertex) + at + s.added_before(p, run) - s.removed_before(p, run));
}

// A warp for each segment whose list stays in its block: closes the gaps of removed edges from the front, then makes room for added ones from the back. No edge
// is overwritten before it was read.
WK_DEVICE void shift(const Update& p) {
    Warp warp;
    u64 segment = global_warp();
    if (segment >= p.segments || has_new_block(p, segment)) return;
    Segment s(p, segment);
    u32 begin = s.vertex.begin, left = s.vertex.degree - s.remove;
    if (s.remove) {
        u32 kept = 0;
        for (u32 base = 0; base < s.vertex.degree; base += kWarp) {
            bool mine = base + lane() < s.vertex.degree;
            Moving edge(p.graph, begin + (mine ? base + lane() : base));
            bool keeps = mine && !s.removes(p, s.run_of(p, edge.target), edge.target);
            u32 keeping = warp.ballot(keeps);
            warp.sync();
            if (keeps) edge.put(p.graph, begin + kept + popc(keeping & ((1u << lane()) - 1)));
            kept += popc(keeping);
            warp.sync();
        }
    }
    if (!s.add) return;
    for (u32 base = (left + kWarp - 1) / kWarp * kWarp; base > 0;) {
        base -= kWarp;
        bool mine = base + lane() < left;
        Moving edge(p.graph, begin + (mine ? base + lane() : base));
        u32 before = mine ? s.added_before(p, s.run_of(p, edge.target)) : 0;
        // Edges in front of all added ones stay.
        bool some = warp.any(before > 0);
        warp.sync();
        if (before) edge.put(p.graph, begin + base + lane() + before);
        warp.sync();
        if (!some) return;
    }
}

// A thread for each run that adds an edge or replaces its data, when all other edges are in their positions.
WK_DEVICE void put(const Update& p) {
    u64 r = global_index();
    if (r >= p.runs) return;
    u32 effect = load(p.effects + r);
    if (effect != kAdd && effect != kReplace) return;
    u32 segment = owner_of(p.firsts, p.segments, (u32)r);
    Segment s(p, segment);
    u32 to = block_of(p, segment, s.vertex) + load(p.places + r) + s.added_before(p, (u32)r) - s.removed_before(p, (u32)r);
    u32 op = load(p.winners + r);
    store(p.graph.targets + to, load(p.targets + r));
    if (p.graph.weights) store(p.graph.weights + to, p.weights ? load(p.weights + op) : 0x3f800000u);
    if (p.graph.ids) store(p.graph.ids + to, p.ids ? load(p.ids + op) : 0);
    if (p.graph.times) store(p.graph.times + to, p.times ? load(p.times + op) : 0);
}

// A thread for each segment: its vertex has the new list.
WK_DEVICE void commit(const Update& p) {
    u64 i = global_index();
    if (i >= p.segments) return;
    Segment s(p, i);
    if (s.source == ~0u || !(s.add || s.remove)) return;
    GraphVertex changed{block_of(p, i, s.vertex), s.degree(), s.vertex.capacity};
    if (has_new_block(p, i)) changed.capacity = load(p.needs + i + 1) - load(p.needs + i);
    if (changed.degree == 0) changed = GraphVertex{0, 0, 0};
    store(p.graph.records + s.source, changed.record());
}

}  // namespace graph_batch
