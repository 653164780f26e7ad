// Neighbour sampling: chooses edges of vertices. The CPU form, src/graph/pick.rs, computes the same numbers in the same order and gives the same samples. The host's side is
// src/graph/sample_device.rs.
#pragma once
#include "graph_batch.h"
#include "warpkeep/hash.h"

namespace graph_sampling {

using namespace wk;

// The target of an edge that there is not.
constexpr u32 kNoVertex = ~0u;
// No list has this place.
constexpr u32 kNoPlace = ~0u;

enum class Pick : u32 { Uniform = 0, Weighted = 1, Last = 2 };

struct Choose {
    GraphRef graph;
    const u32* vertices;
    // The times of the seeds, null if edges of any time may be chosen; and for each vertex the seed that it was found from, null if they are the seeds.
    const u64* seed_times;
    const u32* batch;
    // For each vertex where its places begin, and one more: before they are summed up, how many it needs. Null if each has `most`.
    u32* room;
    // How many edges each vertex has, and one more. Null if the caller does not need it.
    u32* counts;
    // For each vertex where its edges begin in the columns, and one more. Null if each vertex has room for `most` edges, and those that it does not have are blank.
    const u32* begins;
    // For each place the position of an edge in the list of its vertex, and the key that it was chosen by or memory for choosing.
    u32* places;
    u64* keys;
    // The columns: numbers of vertices from `first_row` on, and the data of their edges. Null if they are not wanted.
    u32* rows;
    u32* targets;
    u64* ids;
    u64* times;
    // The sum of all places.
    u64* total;
    u64 count;
    u64 seed;
    u64 hop;
    u64 window;
    u64 first_row;
    u32 most;
    Pick pick;
    u32 replaces;
    // 1 if edges are earlier than the time of the seed; if they are not older than the window.
    u32 is_strict;
    u32 has_window;
    // Room in the columns, if vertices have as many edges as they have.
    u32 places_end;

    // Whether all edges may be chosen, and all alike.
    WK_DEVICE bool takes_any() const { return !seed_times && pick == Pick::Uniform; }
};

// Random numbers that depend on the seed, the hop, the vertex's position in the hop and their own number alone.
struct Random {
    u64 stream;
    WK_DEVICE Random(u64 seed, u64 hop, u64 item) : stream(mix64(seed, hop << 32 | item)) {}
    WK_DEVICE u64 draw(u32 number) const { return mix64(stream, number); }
};

WK_DEVICE double weight_of(u32 bits) {
#if WK_ON_GPU
    return (double)__uint_as_float(bits);
#else
    float weight;
    __builtin_memcpy(&weight, &bits, sizeof weight);
    return (double)weight;
#endif
}

// Numbers that are not negative are in the order of their bits.
WK_DEVICE u64 bits_of(double number) {
#if WK_ON_GPU
    return (u64)__double_as_longlong(number);
#else
    u64 bits;
    __builtin_memcpy(&bits, &number, sizeof bits);
    return bits;
#endif
}

// -log2(r / 2^64) in units of 2^-32, in whole numbers, so that every machine has the same. It is at least 1.
WK_DEVICE u64 negative_log2(u64 r) {
    if (r == 0) r = 1;
    u32 zeros = clz(r);
    u64 x = r << zeros, fraction = 0;
    for (u32 bit = 0; bit < 32; bit++) {
        x = mul_hi(x, x);
        bool is_large = x >> 63;
        fraction = 2 * fraction + is_large;
        if (!is_large) x *= 2;
    }
    return ((u64)(zeros + 1) << 32) - fraction;
}

// A number below a limit: what `reduce` gives, with two products.
WK_DEVICE u32 below(u64 number, u32 limit) {
    return (u32)(((number >> 32) * limit + ((number & 0xffffffff) * limit >> 32)) >> 32);
}

// The first and the last time that edges may have. If the first is after the last there is none.
struct Bounds {
    i64 from;
    i64 until;

    WK_DEVICE Bounds(const Choose& p, u64 item) : from((i64)(1ull << 63)), until((i64)~(1ull << 63)) {
        if (!p.seed_times) return;
        i64 least = from, most = until, time = (i64)load(p.seed_times + (p.batch ? load(p.batch + item) : (u32)item));
        // The distance from the least number is never negative.
        if (p.has_window && (u64)time - (u64)least > p.window) from = (i64)((u64)time - p.window);
        if (!p.is_strict) {
            until = time;
        } else if (time == least) {
            from = most;
            until = least;
        } else {
            until = time - 1;
        }
    }
};

// The edges of a vertex that may be chosen.
struct Candidates {
    const Choose& p;
    GraphVertex vertex;
    Bounds bounds;

    WK_DEVICE Candidates(const Choose& p, u64 item) : p(p), vertex(p.graph.vertex(load(p.vertices + item))), bounds(p, item) {}

    // 0 if the edge may not be chosen.
    WK_DEVICE double weight(u32 at) const {
        if (p.seed_times) {
            i64 time = (i64)load(p.graph.times + vertex.begin + at);
            if (time < bounds.from || time > bounds.until) return 0;
        }
        if (p.pick != Pick::Weighted) return 1;
        double weight = weight_of(load(p.graph.weights + vertex.begin + at));
        return weight > 0 && weight <= 3.4028234663852886e38 ? weight : 0;
    }

    // The smallest keys are chosen: random ones, times of exponential clocks, or the latest times.
    WK_DEVICE u64 key(u32 at, double weight, const Random& random) const {
        if (p.pick == Pick::Last) return ~(load(p.graph.times + vertex.begin + at) ^ 1ull << 63);
        u64 number = random.draw(at);
        return p.pick == Pick::Uniform ? number : bits_of((double)negative_log2(number) / weight);
    }
};

// The columns have an edge of a vertex, the one at this position in its list.
WK_DEVICE void put(const Choose& p, u64 item, const GraphVertex& vertex, u64 to, u32 place) {
    u64 at = vertex.begin + (u64)place;
    store(p.targets + to, load(p.graph.targets + at));
    if (p.rows) store(p.rows + to, (u32)(p.first_row + item));
    if (p.ids) store(p.ids + to, load(p.graph.ids + at));
    if (p.times) store(p.times + to, load(p.graph.times + at));
}

// The columns have no edge there.
WK_DEVICE void blank(const Choose& p, u64 to) {
    store(p.targets + to, kNoVertex);
    if (p.ids) store(p.ids + to, 0);
    if (p.times) store(p.times + to, 0);
}

WK_DEVICE u64 place_of(const Choose& p, u64 item) { return p.room ? load(p.room + item) : item * p.most; }

// A thread for each vertex, and one more: how many places it needs.
WK_DEVICE void allot(const Choose& p) {
    u64 i = global_index();
    u32 degree = i < p.count ? p.graph.degree(load(p.vertices + i)) : 0, most = i < p.count ? p.most : 0;
    u32 needed = p.replaces && p.pick != Pick::Last ? (degree ? most : 0) : (degree < most ? degree : most);
    if (i <= p.count) store(p.room + i, needed);
    if (p.total) graph_batch::add_by_warp(p.total, needed);
}

// With replacement, of edges that are all candidates: a thread for each place, so that neighbouring threads read one list and write neighbouring edges.
WK_DEVICE void choose_any(const Choose& p) {
    u64 i = global_index();
    if (i >= p.count * p.most) return;
    // All places of a call have 32 bits, and so has the division.
    u32 item = (u32)i / p.most, number = (u32)i - item * p.most;
    GraphVertex vertex = p.graph.vertex(load(p.vertices + item));
    if (number == 0 && p.counts) store(p.counts + item, vertex.degree ? p.most : 0);
    if (vertex.degree) {
        u64 to = p.begins ? load(p.begins + item) + (u64)number : i;
        put(p, item, vertex, to, below(Random(p.seed, p.hop, item).draw(number), vertex.degree));
    } else if (!p.begins) {
        blank(p, i);
    }
}

// Without replacement, of edges that are all candidates, 32 a vertex at most: Floyd's algorithm, with a lane for each place and as many vertices as fit into a warp.
WK_DEVICE void choose_some(const Choose& p) {
    Warp warp;
    u32 each = kWarp / p.most, own = lane() / p.most, number = lane() - own * p.most, first = own * p.most;
    u64 item = global_warp() * each + own;
    bool mine = own < each && item < p.count;
    GraphVertex vertex = mine ? p.graph.vertex(load(p.vertices + item)) : GraphVertex{0, 0, 0};
    u32 count = vertex.degree < p.most ? vertex.degree : p.most, place = number;
    bool draws = vertex.degree > p.most;
    if (warp.any(draws)) {
        // A place is the number that was drawn, or the last candidate of its turn if that number is taken.
        u32 least = vertex.degree - p.most, last = least + number, drawn = 0;
        if (draws) drawn = below(Random(p.seed, p.hop, item).draw(number), last + 1);
        u32 same = warp.match_any(draws ? (u64)own << 32 | drawn : 1ull << 63 | lane());
        bool taken = draws && (same & ((1u << lane()) - 1));
        // It is taken as well if it is the last candidate of an earlier turn, and that turn's number was taken.
        bool waits = draws && !taken && drawn >= least && drawn < last;
        u32 turn = first + drawn - least;
        for (bool goes_on = warp.any(waits); goes_on;) {
            u32 all = warp.ballot(taken);
            bool becomes = waits && all >> turn % kWarp & 1;
            if (becomes) {
                taken = true;
                waits = false;
            }
            goes_on = warp.any(becomes);
        }
        if (draws) place = taken ? last : drawn;
    }
    if (!mine) return;
    if (number == 0 && p.counts) store(p.counts + item, count);
    u64 to = p.begins ? load(p.begins + item) + (u64)number : item * p.most + number;
    if (number < count) put(p, item, vertex, to, place);
    else if (!p.begins) blank(p, to);
}

// A set of up to `most` places, in a hash table that half of is used at most. It takes eight bytes a place.
struct PlaceSet {
    u32* slots;
    u64 count;

    WK_DEVICE PlaceSet(u64* memory, u32 most) : slots((u32*)memory), count(2 * (u64)most) {
        for (u64 at = 0; at < count; at++) store(slots + at, kNoPlace);
    }

    // False if the set has it.
    WK_DEVICE bool insert(u32 place) const {
        for (u64 at = reduce((u64)(place * 2654435769u) << 32, count);; at = at + 1 < count ? at + 1 : 0) {
            u32 held = load(slots + at);
            if (held == place) return false;
            if (held != kNoPlace) continue;
            store(slots + at, place);
            return true;
        }
    }
};

// Without replacement, of edges that are all candidates: Floyd's algorithm. The keys are memory for the set of what was chosen.
WK_DEVICE u32 pick_some(u32* places, u64* keys, u32 degree, u32 most, const Random& random) {
    PlaceSet taken(keys, most);
    for (u32 i = 0; i < most; i++) {
        u32 last = degree - most + i, chosen = below(random.draw(i), last + 1);
        if (!taken.insert(chosen)) {
            chosen = last;
            taken.insert(last);
        }
        store(places + i, chosen);
    }
    return most;
}

// A place and the key that it was chosen by. Of equal keys the smaller place comes first.
struct Keyed {
    u64 key;
    u32 place;

    WK_DEVICE bool is_after(const Keyed& other) const { return key != other.key ? key > other.key : place > other.place; }
};

// A heap: no place comes after its parent, and the children of place `i` are 2i + 1 and 2i + 2.
struct Heap {
    u64* keys;
    u32* places;

    WK_DEVICE Keyed at(u64 i) const { return Keyed{load(keys + i), load(places + i)}; }
    WK_DEVICE void put(u64 i, const Keyed& held) const {
        store(keys + i, held.key);
        store(places + i, held.place);
    }

    // Adds one to the first `count`.
    WK_DEVICE void push(u32 count, const Keyed& added) const {
        u64 to = count;
        while (to > 0) {
            u64 parent = (to - 1) / 2;
            Keyed held = at(parent);
            if (!added.is_after(held)) break;
            put(to, held);
            to = parent;
        }
        put(to, added);
    }

    // Puts another one instead of the last in order, which is the first of the heap's `count`.
    WK_DEVICE void replace_first(u32 count, const Keyed& added) const {
        u64 to = 0;
        for (u64 child = 1; child < count; child = 2 * to + 1) {
            Keyed held = at(child);
            if (child + 1 < count) {
                Keyed other = at(child + 1);
                if (other.is_after(held)) {
                    held = other;
                    child++;
                }
            }
            if (!held.is_after(added)) break;
            put(to, held);
            to = child;
        }
        put(to, added);
    }

    // All of them in order; it is no heap then.
    WK_DEVICE void sort(u32 count) const {
        for (u32 left = count; left > 1; left--) {
            Keyed first = at(0), last = at(left - 1);
            replace_first(left - 1, last);
            put(left - 1, first);
        }
    }
};

// Without replacement: the candidates with the smallest keys, in their order; of equal keys the first ones.
WK_DEVICE u32 pick_smallest(const Candidates& list, u32* places, u64* keys, u32 most, const Random& random) {
    Heap heap{keys, places};
    u32 count = 0;
    for (u32 at = 0; at < list.vertex.degree && most; at++) {
        double weight = list.weight(at);
        if (weight == 0) continue;
        Keyed next{list.key(at, weight, random), at};
        if (count < most) heap.push(count++, next);
        else if (heap.at(0).is_after(next)) heap.replace_first(count, next);
    }
    heap.sort(count);
    return count;
}

// With replacement: a number below the sum of all weights for each, and the candidate that it falls on.
WK_DEVICE u32 pick_repeatedly(const Candidates& list, u32* places, u32 most, const Random& random) {
    double total = 0;
    for (u32 at = 0; at < list.vertex.degree; at++) total += list.weight(at);
    if (total == 0) return 0;
    for (u32 i = 0; i < most; i++) {
        double wanted = (double)(random.draw(i) >> 11) * 0x1p-53 * total, reached = 0;
        u32 chosen = 0;
        for (u32 at = 0; at < list.vertex.degree && reached <= wanted; at++) {
            double weight = list.weight(at);
            if (weight == 0) continue;
            reached += weight;
            chosen = at;
        }
        store(places + i, chosen);
    }
    return most;
}

// Whether the places of a vertex are its whole list, and not written down.
WK_DEVICE bool takes_all(const Choose& p, u32 degree) { return p.takes_any() && degree <= p.most; }

// A thread for each vertex, and one more: finds the places of its edges.
WK_DEVICE void stage(const Choose& p) {
    u64 i = global_index();
    if (i == p.count && p.room) store(p.counts + i, 0);
    if (i >= p.count) return;
    Candidates list(p, i);
    Random random(p.seed, p.hop, i);
    u64 room = place_of(p, i);
    u32 *places = p.places + room, count, degree = list.vertex.degree;
    bool whole = takes_all(p, degree);
    if (whole) count = degree;
    else if (p.takes_any()) count = pick_some(places, p.keys + room, degree, p.most, random);
    else if (p.replaces && p.pick != Pick::Last) count = pick_repeatedly(list, places, p.most, random);
    else count = pick_smallest(list, places, p.keys + room, p.most, random);
    if (p.counts) store(p.counts + i, count);
    if (p.room) return;
    for (u32 j = 0; j < p.most; j++) {
        if (j < count) put(p, i, list.vertex, room + j, whole ? j : load(places + j));
        else blank(p, room + j);
    }
}

// The place that this lane of a warp chose is stored, or its edge is.
WK_DEVICE void keep(const Choose& p, const Candidates& list, u64 item, u32 count, u32 place) {
    if (lane() == 0 && p.counts) store(p.counts + item, count);
    if (lane() >= p.most) return;
    u64 to = place_of(p, item) + lane();
    if (lane() >= count) {
        if (!p.room) blank(p, to);
    } else if (p.room) {
        store(p.places + to, place);
    } else {
        put(p, item, list.vertex, to, place);
    }
}

WK_DEVICE double number_of(u64 bits) {
#if WK_ON_GPU
    return __longlong_as_double((i64)bits);
#else
    double number;
    __builtin_memcpy(&number, &bits, sizeof number);
    return number;
#endif
}

// What pick_smallest does, by a warp: each lane holds one of the places, in the order of their keys.
WK_DEVICE u32 hold_smallest(const Candidates& list, u32& place, const Random& random) {
    Warp warp;
    const Choose& p = list.p;
    u64 held = ~0ull, worst = ~0ull;
    u32 count = 0;
    for (u32 base = 0; base < list.vertex.degree; base += kWarp) {
        u32 at = base + lane();
        double weight = at < list.vertex.degree ? list.weight(at) : 0;
        u64 key = weight != 0 ? list.key(at, weight, random) : ~0ull;
        u32 better = warp.ballot(weight != 0 && (count < p.most || key < worst));
        for (; better; better &= better - 1) {
            u32 from = ffs(better) - 1;
            u64 next = warp.shfl(key, from);
            if (count == p.most && next >= worst) continue;
            // Of equal keys the first one stays in front.
            u32 to = popc(warp.ballot(lane() < count && held <= next));
            u64 above = warp.shfl(held, lane() - 1);
            u32 place_above = warp.shfl(place, lane() - 1);
            if (lane() > to) {
                held = above;
                place = place_above;
            } else if (lane() == to) {
                held = next;
                place = base + from;
            }
            if (count < p.most) count++;
            worst = warp.shfl(held, p.most - 1);
        }
        if (list.vertex.degree - base <= kWarp) break;
    }
    return count;
}

// What pick_repeatedly does, by a warp: each lane draws one place, and all read the list together. Weights are added in the order of the list.
WK_DEVICE u32 hold_repeatedly(const Candidates& list, u32& place, const Random& random) {
    Warp warp;
    u32 degree = list.vertex.degree;
    double total = 0, reached = 0, wanted = 0;
    for (u32 pass = 0; pass < 2; pass++) {
        for (u32 base = 0; base < degree; base += kWarp) {
            u32 at = base + lane();
            double weight = at < degree ? list.weight(at) : 0;
            for (u32 some = warp.ballot(weight != 0); some; some &= some - 1) {
                u32 from = ffs(some) - 1;
                if (pass && reached <= wanted) place = base + from;
                reached += number_of(warp.shfl(bits_of(weight), from));
            }
            if (degree - base <= kWarp) break;
            if (pass && warp.all(lane() >= list.p.most || reached > wanted)) break;
        }
        if (reached == 0) return 0;
        if (pass) break;
        total = reached;
        wanted = (double)(random.draw(lane()) >> 11) * 0x1p-53 * total;
        reached = 0;
    }
    return list.p.most;
}

// As `stage`, a warp for each vertex, and one more. There are 32 edges a vertex at most, and not all edges are candidates alike.
WK_DEVICE void stage_by_warp(const Choose& p) {
    u64 i = global_warp();
    if (i == p.count && p.room && lane() == 0) store(p.counts + i, 0);
    if (i >= p.count) return;
    Candidates list(p, i);
    Random random(p.seed, p.hop, i);
    u32 place = 0;
    bool repeats = p.replaces && p.pick != Pick::Last;
    u32 count = repeats ? hold_repeatedly(list, place, random) : hold_smallest(list, place, random);
    keep(p, list, i, count, place);
}

// A thread for each edge, when all places are found and counted.
WK_DEVICE void fetch(const Choose& p) {
    u64 i = global_index();
    if (i >= p.places_end || i >= load(p.begins + p.count)) return;
    u32 item = graph_batch::owner_of(p.begins, p.count, (u32)i), number = (u32)i - load(p.begins + item);
    GraphVertex vertex = p.graph.vertex(load(p.vertices + item));
    put(p, item, vertex, i, takes_all(p, vertex.degree) ? number : load(p.places + place_of(p, item) + number));
}

}  // namespace graph_sampling
