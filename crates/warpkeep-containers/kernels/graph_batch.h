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
// Lists longer than this, and those with more runs, are merged into a new block even if the old one has room: one warp
// would take too long.
constexpr u32 kLongList = 2048;
// In a large batch lists and segments that are no longer are worked by some lanes of a warp.
constexpr u32 kShortList = 64;

enum class Op : u8 { Insert = 0, Delete = 1 };
enum class Status : u8 { Inserted = 1, Updated = 2, Deleted = 3, Absent = 4, Loop = 5 };
// What works a segment: some lanes of a warp, a warp, or a thread for each edge and each run.
enum Class : u32 { kShort, kMedium, kLong };
// What the operations on an edge come to.
enum Effect : u32 { kNothing, kAdd, kRemove, kReplace };
// Sums that kernels of a batch count in.
enum Control : u32 {
    // Those that kernels count in.
    kLargest, kLargestInserted, kLoopsAdded, kLoopsRemoved, kMediums, kLongs,
    // Those that a kernel stores when it has summed up.
    kRuns, kAdded, kRemoved, kSegments, kNeeded, kMoved, kDead, kFrozenDead, kControlWords,
};
// Columns of sums: of runs, then of segments.
constexpr u32 kRunSums = kSegments - kAdded + 1;
constexpr u32 kSegmentSums = kFrozenDead - kNeeded + 1;

struct Update {
    GraphRef graph;
    // As planned: entries with the same key (source and target) make a run, which begins at each of `begins`.
    const u64* sorted;
    const u32* numbers;
    const u32* begins;
    // How many there are; as long as the host does not know that, how many there can be, and where the number is.
    u64 runs;
    const u32* runs_at;
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
    // For each segment: its first run; how many slots of new blocks lie before its own, and how many edges of long
    // lists that move. One more each.
    u32* firsts;
    u32* needs;
    u32* moves;
    // What works each segment, for each run its segment, and in a large batch the segments that a warp works.
    u32* classes;
    u32* owners;
    u32* listed;
    // In a large batch: columns of sums, one for each block of a kernel; each column begins `stride` words behind the
    // one before.
    u64* sums;
    u64 stride;
    u64 segments;
    u64 mediums;
    u64 moved;
    u64* control;
    // Where the new blocks begin.
    u64 pool_end;
    // Blocks before this position belong to snapshots: they stay as they are.
    u64 frozen;
    // For each segment 1 if data of its edges is replaced; null if that does not matter.
    u32* touched;
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
    u64* control;
    // Vertices plus 1 up to this one are not looked for: of all operations, and of those that insert.
    u64 named;
    u64 inserted;
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
    if (!warp.any(own > 0)) return;
    for (u32 bit = kWarp / 2; bit > 0; bit /= 2) {
        u64 other = warp.shfl_xor(own, bit);
        own = other > own ? other : own;
    }
    if (lane() == 0) fetch_max(to, own);
}

// Blocks of a kernel with this many threads.
WK_DEVICE u64 blocks_for(u64 threads) { return (threads + kThreads - 1) / kThreads; }

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

// The largest vertices of a batch plus 1, beyond those that are not looked for. All threads of a warp take part.
WK_DEVICE void find_largest(const Expand& p, u64 op, bool is_op) {
    u64 any = 0, inserted = 0;
    if (is_op) {
        u32 source = load(p.sources + op), target = load(p.targets + op);
        any = (source > target ? source : target) + 1ull;
        u32 code = p.codes ? load(p.codes + op) : p.code;
        bool dropped = p.drops_loops && source == target;
        inserted = (Op)code == Op::Insert && !dropped && any > p.inserted ? any : 0;
        if (any <= p.named) any = 0;
    }
    max_by_warp(p.control + kLargest, any);
    max_by_warp(p.control + kLargestInserted, inserted);
}

// A thread for each operation.
WK_DEVICE void largest(const Expand& p) { find_largest(p, global_index(), global_index() < p.count); }

// The sort keys of all entries. Those of dropped loops, and the second one of a loop that is kept, have a key behind
// all others. If a vertex has too many bits, the keys mean nothing but have no more bits than others, and the largest
// vertex tells.
WK_DEVICE void expand(const Expand& p) {
    u64 i = global_index(), op = i >> p.mirrored;
    bool is_entry = i < p.count << p.mirrored, second = p.mirrored && i % 2;
    if (is_entry) {
        u64 mask = (1ull << p.bits) - 1, source = load(p.sources + op) & mask, target = load(p.targets + op) & mask;
        u64 key = second ? target << p.bits | source : source << p.bits | target;
        if (source == target && (p.drops_loops || second)) key = dropped_key(p.bits);
        store(p.sorted + i, key);
    }
    if (p.control) find_largest(p, op, is_entry && !second);
}

WK_DEVICE u64 runs_of(const Update& p) { return p.runs_at ? load(p.runs_at) : p.runs; }

// The source of a run; there is none for entries that change nothing.
WK_DEVICE u32 source_of(const Update& p, u64 key) { return key == dropped_key(p.bits) ? ~0u : (u32)(key >> p.bits); }

// A thread for each run, and one more: what its operations answer, and what they come to. In a large batch each block
// counts what it has found.
WK_DEVICE void resolve(const Update& p) {
    u64 r = global_index(), runs = runs_of(p);
    if (block_index() * (u64)kThreads > runs) return;
    u32 effect = kNothing;
    bool loop = false, starts = false;
    if (r < runs) {
        u64 at = load(p.begins + r), end = r + 1 < runs ? load(p.begins + r + 1) : p.entries;
        u64 key = load(p.sorted + at), mask = ~0ull >> (64 - p.bits);
        u32 source = source_of(p, key), target = source == ~0u ? ~0u : (u32)(key & mask);
        u32 place = 0, winner = 0;
        starts = r == 0 || source_of(p, load(p.sorted + at - 1)) != source;
        if (key == dropped_key(p.bits)) {
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
    if (!p.drops_loops) {
        add_by_warp(p.control + kLoopsAdded, loop && effect == kAdd);
        add_by_warp(p.control + kLoopsRemoved, loop && effect == kRemove);
    }
    if (!p.sums) return;
    BlockCounts<kRunSums> counts((u32)(effect == kAdd) | (u32)(effect == kRemove) << 1 | (u32)starts << 2);
    u32 list = thread_index();
    if (list < kRunSums) store(p.sums + list * p.stride + block_index(), (u64)counts.of(counts.all, list));
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
        end = load(p.firsts + number + 1);
        source = load(p.sources + first);
        add = load(p.added + end) - load(p.added + first);
        remove = load(p.removed + end) - load(p.removed + first);
        vertex = p.graph.vertex(source);
    }

    WK_DEVICE u32 degree() const { return vertex.degree + add - remove; }
    // As long as its vertex is not changed.
    WK_DEVICE Class what_works_it() const {
        u32 runs = end - first, more = vertex.degree > runs ? vertex.degree : runs;
        return more > kLongList ? kLong : more > kShortList ? kMedium : kShort;
    }
    // How many edges are added, or removed, before this run of the segment.
    WK_DEVICE u32 added_before(const Update& p, u32 run) const { return load(p.added + run) - load(p.added + first); }
    WK_DEVICE u32 removed_before(const Update& p, u32 run) const { return load(p.removed + run) - load(p.removed + first); }
    // The first run of the segment whose target is not less.
    WK_DEVICE u32 run_of(const Update& p, u32 target) const { return first + lower_bound(p.targets + first, end - first, target); }
    WK_DEVICE bool removes(const Update& p, u32 run, u32 target) const {
        return run < end && load(p.targets + run) == target && load(p.effects + run) == kRemove;
    }
};

// What the lists of some segments need: slots of new blocks, the edges of long lists that move there, and slots that
// are left. Sums of many segments can pass 2^32, and have to be exact all the same, so that a batch for which there are
// too few slots is refused.
struct Needs {
    u64 slots = 0;
    u64 moved = 0;
    u64 dead = 0;
    u64 frozen_dead = 0;
    Class what_works_it = kShort;

    WK_DEVICE Needs() {}
    // Of the segment with this number.
    WK_DEVICE Needs(const Update& p, u64 number) {
        Segment s(p, number);
        u32 degree = s.degree();
        bool changes = s.add || s.remove, touched = changes || (p.touched && load<Scope::Device, Order::Relaxed>(p.touched + number));
        bool is_frozen = s.vertex.begin < p.frozen;
        what_works_it = s.what_works_it();
        bool moves = (is_frozen && touched) || (what_works_it == kLong && changes);
        if (degree > s.vertex.capacity || (moves && degree)) {
            slots = capacity_for(degree);
            moved = what_works_it == kLong ? s.vertex.degree : 0;
            dead = s.vertex.capacity;
        } else if (changes && degree == 0) {
            dead = s.vertex.capacity;
        }
        if (is_frozen) frozen_dead = dead;
    }

    WK_DEVICE void add(const Needs& other) {
        slots += other.slots;
        moved += other.moved;
        dead += other.dead;
        frozen_dead += other.frozen_dead;
    }
};

}  // namespace graph_batch
