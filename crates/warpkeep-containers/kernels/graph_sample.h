// Neighbour sampling: a thread chooses edges of a vertex. The CPU form, src/graph/pick.rs, computes the same numbers in the same order and gives the same samples.
#pragma once
#include "warpkeep/graph.h"
#include "warpkeep/hash.h"

namespace graph_sampling {

using namespace wk;

enum class Pick : u32 { Uniform = 0, Weighted = 1, Last = 2 };

struct Sample {
    GraphRef graph;
    const u32* vertices;
    // The first and the last time that edges of each vertex may have; null if any.
    const u64* from;
    const u64* until;
    // For each vertex: how many edges it has in the sample, and room for `most` of each of these.
    u32* counts;
    u32* places;
    u64* keys;
    u32* targets;
    u64* ids;
    u64* times;
    u64 count;
    u64 seed;
    u64 hop;
    u32 most;
    Pick pick;
    u32 replaces;
    u32 reserved;
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

// The edges of a vertex that may be chosen.
struct Candidates {
    const Sample& p;
    GraphVertex vertex;
    u64 item;

    // 0 if the edge may not be chosen.
    WK_DEVICE double weight(u32 at) const {
        if (p.from) {
            i64 time = (i64)load(p.graph.times + vertex.begin + at);
            if (time < (i64)load(p.from + item) || time > (i64)load(p.until + item)) return 0;
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

// Without replacement, of edges that are all candidates: Floyd's algorithm.
WK_DEVICE u32 pick_some(u32* places, u32 degree, u32 most, const Random& random) {
    if (degree <= most) {
        for (u32 i = 0; i < degree; i++) store(places + i, i);
        return degree;
    }
    for (u32 i = 0; i < most; i++) {
        u32 last = degree - most + i, chosen = (u32)reduce(random.draw(i), last + 1ull);
        for (u32 other = 0; other < i; other++) {
            if (load(places + other) == chosen) {
                chosen = last;
                break;
            }
        }
        store(places + i, chosen);
    }
    return most;
}

// Without replacement: the candidates with the smallest keys, in their order; of equal keys the first ones.
WK_DEVICE u32 pick_smallest(const Candidates& list, u32* places, u64* keys, u32 most, const Random& random) {
    u32 count = 0;
    for (u32 at = 0; at < list.vertex.degree && most; at++) {
        double weight = list.weight(at);
        if (weight == 0) continue;
        u64 key = list.key(at, weight, random);
        if (count == most && key >= load(keys + most - 1)) continue;
        u32 to = count < most ? count++ : most - 1;
        for (; to > 0 && load(keys + to - 1) > key; to--) {
            store(keys + to, load(keys + to - 1));
            store(places + to, load(places + to - 1));
        }
        store(keys + to, key);
        store(places + to, at);
    }
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

// A thread for each vertex.
WK_DEVICE void sample(const Sample& p) {
    u64 i = global_index();
    if (i >= p.count) return;
    Candidates list{p, p.graph.vertex(load(p.vertices + i)), i};
    Random random(p.seed, p.hop, i);
    u32 *places = p.places + i * p.most, count, degree = list.vertex.degree;
    bool all = !p.from && p.pick == Pick::Uniform;
    if (all && p.replaces) {
        count = degree ? p.most : 0;
        for (u32 j = 0; j < count; j++) store(places + j, (u32)reduce(random.draw(j), degree));
    } else if (all) {
        count = pick_some(places, degree, p.most, random);
    } else if (p.replaces && p.pick != Pick::Last) {
        count = pick_repeatedly(list, places, p.most, random);
    } else {
        count = pick_smallest(list, places, p.keys + i * p.most, p.most, random);
    }
    store(p.counts + i, count);
    for (u32 j = 0; j < count; j++) {
        u64 at = list.vertex.begin + (u64)load(places + j), to = i * p.most + j;
        store(p.targets + to, load(p.graph.targets + at));
        if (p.ids) store(p.ids + to, load(p.graph.ids + at));
        if (p.times) store(p.times + to, load(p.graph.times + at));
    }
}

}  // namespace graph_sampling
