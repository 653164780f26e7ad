// A hash set of lists with one node a key: the baseline of the slab hash's paper (Misra and Chaudhuri). A thread works a request alone, by a lock-free
// sorted list: a node is deleted when the mark in its link is set, and is unlinked after that by whichever thread passes.
//
// Nodes come from an array, one for each insertion, and are not used again: no link can become what it was.
#include "requests.h"

namespace bench {

struct NodeListParams {
    // A word each: the key in the low half; in the upper one the link, which is the number of the next node times two, and the mark. The first nodes
    // are the heads of the buckets; their number 0 can be no next node and means the end.
    u64* nodes;
    u64 buckets;
    // The node of the first request of this batch; each has one.
    u64 fresh;
    u64 seed;
    Requests requests;
};

WK_DEVICE u64 node_of(u32 key, u32 link) { return key | (u64)link << 32; }
WK_DEVICE u32 link_in(u64 node) { return (u32)(node >> 32); }
WK_DEVICE bool is_marked(u64 node) { return link_in(node) & 1; }
WK_DEVICE u64 read_node(const u64* at) { return load<Scope::Device, Order::Acquire>(at); }

// Where a key is, or would be: the node before it, that node's word as it was read, and the word of the first node whose key is not smaller.
struct NodePlace {
    u64* before;
    u64 before_word;
    u64 word;
    u32 number;

    WK_DEVICE bool has(u32 key) const { return number && (u32)word == key; }
};

// Unlinks the marked nodes that it passes.
WK_DEVICE NodePlace find_place(const NodeListParams& p, u32 key) {
    u64* head = p.nodes + reduce(mix64(p.seed, key), p.buckets);
    for (;;) {
        NodePlace place{head, read_node(head), 0, 0};
        bool lost = false;
        while (!lost) {
            place.number = link_in(place.before_word) >> 1;
            if (!place.number) return place;
            u64* at = p.nodes + place.number;
            place.word = read_node(at);
            if (is_marked(place.word)) {
                u64 without = node_of((u32)place.before_word, link_in(place.word) & ~1u);
                lost = cas(place.before, place.before_word, without) != place.before_word;
                place.before_word = without;
                continue;
            }
            if ((u32)place.word >= key) return place;
            place.before = at;
            place.before_word = place.word;
        }
    }
}

WK_DEVICE Outcome insert_node(const NodeListParams& p, u32 key, u32 number) {
    for (;;) {
        NodePlace place = find_place(p, key);
        if (place.has(key)) return Outcome::Present;
        store<Scope::Device, Order::Relaxed>(p.nodes + number, node_of(key, place.number << 1));
        u64 linked = node_of((u32)place.before_word, number << 1);
        if (cas(place.before, place.before_word, linked) == place.before_word) return Outcome::Inserted;
    }
}

WK_DEVICE Outcome delete_node(const NodeListParams& p, u32 key) {
    for (;;) {
        NodePlace place = find_place(p, key);
        if (!place.has(key)) return Outcome::Absent;
        u64 marked = place.word | 1ull << 32;
        if (cas(p.nodes + place.number, place.word, marked) != place.word) continue;
        // Where this fails, another thread unlinks it.
        cas(place.before, place.before_word, node_of((u32)place.before_word, link_in(place.word)));
        return Outcome::Removed;
    }
}

WK_DEVICE Outcome search_node(const NodeListParams& p, u32 key) {
    u64 word = read_node(p.nodes + reduce(mix64(p.seed, key), p.buckets));
    while (u32 number = link_in(word) >> 1) {
        word = read_node(p.nodes + number);
        if ((u32)word >= key) return (u32)word == key && !is_marked(word) ? Outcome::Found : Outcome::Absent;
    }
    return Outcome::Absent;
}

}  // namespace bench

// Answers have no value: it is a set.
WK_KERNEL(bench_node_list_apply, bench::NodeListParams) {
    using namespace bench;
    u64 i = global_index();
    OwnRequest own(p.requests, i);
    if (!own.is_there) return;
    Outcome outcome;
    if (own.what == Request::Search) outcome = search_node(p, own.key);
    else if (own.what == Request::Delete) outcome = delete_node(p, own.key);
    else outcome = insert_node(p, own.key, (u32)(p.fresh + i));
    store(p.requests.answers + i, answer_of(outcome));
}
