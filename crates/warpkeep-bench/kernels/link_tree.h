// The B-tree of "Engineering a High-Performance GPU B-Tree", by its text: nodes of 128 bytes with 15 pairs and, last, the smallest key of the right
// neighbour and the way there; one latch a node, for those that write; a node that is found full is split on the way down; who does not get a latch begins
// anew. A tile of 16 lanes works the operations of its lanes, one at a time, and goes on to another one if it did not get a latch.
//
// The published code can miss a key beside a split. Here a leaf is filled from the left and not kept in order, so that an insertion is one store; a split tells
// the way to the right before it takes the upper half away; and a reader beside writers looks for that way after it has read the pairs.
#pragma once
#include "ordered_calls.h"

// Before a loop that is not to be unrolled.
#if WK_ON_GPU
#define BENCH_ROLLED _Pragma("unroll 1")
#else
#define BENCH_ROLLED
#endif

namespace bench {

// A place without a pair; no key of the paper's trees is as large.
constexpr u64 kNoPair = ~0ull;
constexpr u32 kTreePairs = 15;
constexpr u32 kTreeWords = 16;
// The word of a node with its link.
constexpr u32 kLinkWord = 15;
// The root stays where it is, and has nodes below it from the beginning on.
constexpr u32 kRoot = 0;
constexpr u32 kNoRight = (1u << 30) - 1;

struct LinkTree {
    u64* nodes;
    // The next node that is free.
    u32* next;
    u32 capacity;
    u32 reserved;
};

WK_DEVICE constexpr u64 pair_of(u32 key, u32 value) { return (u64)key << 32 | value; }
WK_DEVICE constexpr u32 key_of(u64 pair) { return (u32)(pair >> 32); }

// The last word of a node: the smallest key of the node to the right, whether the node is latched and whether it is a leaf, and the node to the right.
struct Link {
    u64 word;

    static constexpr u64 kLatched = 1u << 31, kLeaf = 1u << 30;

    WK_DEVICE static Link of(bool is_leaf, u32 low, u32 right) { return Link{pair_of(low, right) | (is_leaf ? kLeaf : 0)}; }
    WK_DEVICE bool is_latched() const { return word & kLatched; }
    WK_DEVICE bool is_leaf() const { return word & kLeaf; }
    WK_DEVICE u32 right() const { return (u32)word & kNoRight; }
    WK_DEVICE bool goes_right(u32 key) const { return right() != kNoRight && key >= key_of(word); }
};

// What became of an attempt: Latched if the leaf is latched that the operation is to change.
enum class Attempt : u32 { Done, Again, Latched };

// A level of a tree that is built of sorted pairs.
struct TreeLevel {
    u64* nodes;
    const u32* keys;
    const u32* values;
    u64 count;
    // Pairs below each child of this level's nodes: 1 for leaves.
    u64 below;
    // The first node of this level, and of the level below.
    u32 first;
    u32 first_below;
    // Nodes of this level, and what each has at most: pairs or children.
    u32 nodes_here;
    u32 each;
    u32 is_leaf;
    u32 reserved;

    // A word of a node, its pairs and its link; kNoPair for other words.
    WK_DEVICE u64 word(u64 node, u64 number_of_word) const {
        u64 number = node * each + number_of_word, pair = number * below;
        if (number_of_word == kLinkWord) {
            u64 next = (node + 1) * each * below;
            bool has_right = node + 1 < nodes_here;
            return Link::of(is_leaf, has_right ? load(keys + next) : 0, has_right ? (u32)(first + node + 1) : kNoRight).word;
        }
        if (number_of_word >= each || (pair >= count && (is_leaf || number != 0))) return kNoPair;
        // The first way of a level leads to all smaller keys.
        u32 key = !is_leaf && number == 0 ? 0 : load(keys + pair);
        return pair_of(key, is_leaf ? load(values + pair) : (u32)(first_below + number));
    }
};

// A tile's view of a tree. All lanes of the tile call together. Beside writers, reads are not from the first cache, and look twice.
// A node has up to `Pairs` pairs; words behind them, but for the link, are the tree's own, and both halves of a split node have the same ones.
template <bool BesideWriters, u32 Pairs = kTreePairs> struct TreeTile {
    const LinkTree& tree;
    Tile<16> tile;

    struct Node {
        u32 at;
        // This lane's word, and the last one.
        u64 own;
        Link link;
    };

    WK_DEVICE u64* word(u32 node, u32 number) const { return tree.nodes + (u64)node * kTreeWords + number; }

    WK_DEVICE Node read(u32 at) const {
        return with_link(at, read_words(at));
    }
    WK_DEVICE u64 read_words(u32 at) const {
        return BesideWriters ? load<Scope::Device, Order::Acquire>(word(at, tile.rank())) : load(word(at, tile.rank()));
    }
    WK_DEVICE Node with_link(u32 at, u64 own) const {
        u64 last = tile.shfl(own, kLinkWord);
        if (BesideWriters) {
            // After the pairs: what a split took away from them is to the right.
            tile.sync();
            last = load<Scope::Device, Order::Acquire>(word(at, kLinkWord));
            last = tile.shfl(last, 0);
        }
        return Node{at, own, Link{last}};
    }
    WK_DEVICE bool has_pair(const Node& node) const { return tile.rank() < Pairs && node.own != kNoPair; }
    WK_DEVICE u32 pairs(const Node& node) const { return popc(tile.ballot(has_pair(node))); }

    // The child towards a key: of the last place whose key is not more. While pairs are moved some are there twice or not at all, which leads further left.
    WK_DEVICE u32 child(const Node& node, u32 key) const {
        u32 fits = tile.ballot(has_pair(node) && key_of(node.own) <= key);
        return (u32)tile.shfl(node.own, fits ? 31 - clz(fits) : 0);
    }

    WK_DEVICE Node leaf_of(u32 key) const {
        Node node = read(kRoot);
        for (;;) {
            if (node.link.goes_right(key)) node = read(node.link.right());
            else if (node.link.is_leaf()) return node;
            else node = read(child(node, key));
        }
    }

    // The place of a key in a leaf; Pairs if it has none.
    WK_DEVICE u32 place_of(const Node& node, u32 key) const {
        u32 found = tile.ballot(has_pair(node) && key_of(node.own) == key);
        return found ? ffs(found) - 1 : Pairs;
    }

    WK_DEVICE void find(u32 key, bool& there, u32& value) const {
        Node leaf = leaf_of(key);
        u32 place = place_of(leaf, key);
        there = place < Pairs;
        value = (u32)tile.shfl(leaf.own, place % kTreeWords);
    }

    // The smallest key above, and its value.
    WK_DEVICE void successor(u32 key, bool& there, u64& pair) const {
        Node leaf = leaf_of(key);
        for (;;) {
            pair = has_pair(leaf) && key_of(leaf.own) > key ? leaf.own : kNoPair;
            for (u32 bits = 1; bits < kTreeWords; bits *= 2) {
                u64 other = tile.shfl_xor(pair, bits);
                pair = other < pair ? other : pair;
            }
            there = pair != kNoPair;
            if (there || leaf.link.right() == kNoRight) return;
            leaf = read(leaf.link.right());
        }
    }

    // The number of a leaf's pairs between two bounds. They are written, in order, behind `count` others, as far as there is room.
    WK_DEVICE u32 pairs_between(const Node& leaf, u32 low, u32 high, u32* keys, u32* values, u32 room, u32 count) const {
        u32 key = key_of(leaf.own), rank = 0;
        // A leaf that is being split can have pairs that are to its right, too.
        bool is_in = has_pair(leaf) && key >= low && key <= high && !leaf.link.goes_right(key);
        for (u32 i = 0; i < Pairs; i++) {
            u64 other = tile.shfl(is_in ? leaf.own : kNoPair, i);
            rank += is_in && other < leaf.own;
        }
        if (is_in && count + rank < room) {
            store(keys + count + rank, key);
            store(values + count + rank, (u32)leaf.own);
        }
        return popc(tile.ballot(is_in));
    }

    // The number of pairs between two bounds; writes as many as there is room for.
    WK_DEVICE u32 range(u32 low, u32 high, u32* keys, u32* values, u32 room) const {
        u32 count = 0;
        Node leaf = leaf_of(low);
        for (;;) {
            count += pairs_between(leaf, low, high, keys, values, room, count);
            if (leaf.link.right() == kNoRight || key_of(leaf.link.word) > high) return count;
            leaf = read(leaf.link.right());
        }
    }

    // Latches a node as it was seen, and reads it again, because others may have written it before.
    WK_DEVICE bool latch(Node& node) const {
        bool is_ours = false;
        if (tile.rank() == 0 && !node.link.is_latched()) {
            u64* at = word(node.at, kLinkWord);
            is_ours = cas<Scope::Device, Order::Acquire>(at, node.link.word, node.link.word | Link::kLatched) == node.link.word;
        }
        if (!tile.any(is_ours)) return false;
        tile.sync();
        Link link = node.link;
        node.own = load<Scope::Device, Order::Relaxed>(word(node.at, tile.rank()));
        node.link = link;
        return true;
    }
    // What all lanes of the tile have written comes first.
    WK_DEVICE void unlatch(const Node& node) const { unlatch(node.at, node.link); }
    WK_DEVICE void unlatch(u32 at, Link link) const {
        fence();
        tile.sync();
        if (tile.rank() == 0) store<Scope::Device, Order::Release>(word(at, kLinkWord), link.word);
        tile.sync();
    }

    WK_DEVICE void put(u32 node, u32 place, u64 pair) const { store<Scope::Device, Order::Relaxed>(word(node, place), pair); }

    // A node that is new: `own` of the lanes, and a link.
    WK_DEVICE void write(u32 node, u64 own, Link link) const { put(node, tile.rank(), tile.rank() == kLinkWord ? link.word : own); }

    // The first of new nodes that are free; kNoRight if there are none. They are not given back.
    WK_DEVICE u32 take(u32 count) const {
        u32 first = 0;
        if (tile.rank() == 0) first = fetch_add(tree.next, count);
        first = tile.shfl(first, 0);
        if (first + count <= tree.capacity) return first;
        if (tile.rank() == 0) fetch_add(tree.next, 0u - count);
        return kNoRight;
    }

    // The upper half of a full node for another one: which lanes have it, the smallest key of it, and the pair that a lane of the new node gets. Leaves are
    // not in order, nodes above them are.
    WK_DEVICE u64 upper_half(const Node& node, bool& is_upper, u32& low) const {
        u32 rank = 0;
        for (u32 i = 0; i < Pairs; i++) rank += tile.shfl(node.own, i) < node.own;
        is_upper = tile.rank() < Pairs && rank >= (Pairs + 1) / 2;
        u64 own = kNoPair;
        BENCH_ROLLED
        for (u32 i = 0; i < Pairs; i++) {
            u32 its_rank = tile.shfl(rank, i);
            u64 its = tile.shfl(node.own, i);
            if (its_rank == tile.rank() + (Pairs + 1) / 2) own = its;
        }
        low = key_of(tile.shfl(own, 0));
        return own;
    }

    // Splits a full node. The root becomes the parent of its two halves; another node has a parent with room, or the operation begins anew.
    WK_DEVICE Attempt split(Node& node, u32 parent_at) const {
        Node parent = node;
        if (node.at != kRoot) parent = read(parent_at);
        if (!latch(node)) return Attempt::Again;
        bool is_ready = pairs(node) == Pairs && (node.at == kRoot || latch(parent));
        if (!is_ready) {
            unlatch(node);
            return Attempt::Again;
        }
        return split_latched(node, parent);
    }
    // The same of a node that is latched, and so is its parent. Both are unlatched.
    WK_DEVICE Attempt split_latched(Node& node, Node& parent) const {
        // The parent leads to the node, and has room.
        u32 leads = tile.ballot(has_pair(parent) && (u32)parent.own == node.at), places = pairs(parent);
        if (node.at != kRoot && (leads == 0 || places == Pairs)) {
            unlatch(parent);
            unlatch(node);
            return Attempt::Again;
        }
        u32 fresh = take(node.at == kRoot ? 2 : 1);
        if (fresh == kNoRight) {
            if (node.at != kRoot) unlatch(parent);
            unlatch(node);
            return Attempt::Done;
        }
        bool is_upper;
        u32 low;
        u64 upper = upper_half(node, is_upper, low);
        if (tile.rank() >= Pairs) upper = node.own;
        Link right = Link::of(node.link.is_leaf(), key_of(node.link.word), node.link.right());
        write(fresh, upper, right);
        if (node.at == kRoot) {
            write(fresh + 1, is_upper ? kNoPair : node.own, Link::of(false, low, fresh));
            tile.sync();
            fence();
            put_all(kRoot, tile.rank() == 0 ? pair_of(0, fresh + 1) : tile.rank() == 1 ? pair_of(low, fresh) : kNoPair);
            unlatch(node);
            return Attempt::Again;
        }
        fence();
        tile.sync();
        // The way to the right, which is there before pairs go.
        Link link = Link::of(node.link.is_leaf(), low, fresh);
        if (tile.rank() == 0) store<Scope::Device, Order::Release>(word(node.at, kLinkWord), link.word | Link::kLatched);
        tile.sync();
        fence();
        if (is_upper) put(node.at, tile.rank(), kNoPair);
        // The new node comes behind the one that was split; those behind it move by one place, the last first.
        u32 at = ffs(leads);
        u64 before = tile.shfl(parent.own, tile.rank() ? tile.rank() - 1 : 0);
        for (u32 place = places; place > at; place--) {
            if (tile.rank() == place) put(parent.at, place, before);
            tile.sync();
        }
        if (tile.rank() == at) put(parent.at, at, pair_of(low, fresh));
        unlatch(parent);
        unlatch(node.at, link);
        return Attempt::Again;
    }
    WK_DEVICE void put_all(u32 node, u64 own) const {
        if (tile.rank() < Pairs) put(node, tile.rank(), own);
    }

    // Latches the leaf for a key, and finds the place of its pair: its own, or one that is free. Nodes that are full are split on the way; the one above a
    // node has had room then.
    WK_DEVICE Attempt latch_leaf(u32 key, Node& node, u32& place, OrderedStatus& status) const {
        u32 parent = kRoot;
        node = read(kRoot);
        for (;;) {
            if (node.link.goes_right(key)) {
                node = read(node.link.right());
                continue;
            }
            if (pairs(node) == Pairs && (!node.link.is_leaf() || place_of(node, key) == Pairs)) {
                status = OrderedStatus::Full;
                return split(node, parent);
            }
            if (node.link.is_leaf()) break;
            parent = node.at;
            node = read(child(node, key));
        }
        if (!latch(node)) return Attempt::Again;
        place = place_of(node, key);
        u32 free = tile.ballot(tile.rank() < Pairs && node.own == kNoPair);
        status = place == Pairs ? OrderedStatus::Inserted : OrderedStatus::Updated;
        if (place == Pairs && free == 0) {
            unlatch(node);
            return Attempt::Again;
        }
        if (place == Pairs) place = ffs(free) - 1;
        return Attempt::Latched;
    }

    // One attempt to insert a pair.
    WK_DEVICE Attempt insert(u32 key, u32 value, OrderedStatus& status) const {
        Node leaf;
        u32 place;
        Attempt attempt = latch_leaf(key, leaf, place, status);
        if (attempt != Attempt::Latched) return attempt;
        if (tile.rank() == 0) put(leaf.at, place, pair_of(key, value));
        unlatch(leaf);
        return Attempt::Done;
    }

    // One attempt to insert a pair with latch coupling, the baseline of the text: from the root on a node is latched before its parent is given up, for
    // those that read as well.
    WK_DEVICE Attempt insert_coupled(u32 key, u32 value, OrderedStatus& status) const {
        Node parent = read(kRoot), node = parent;
        if (!latch(node)) return Attempt::Again;
        for (;;) {
            bool is_leaf = node.link.is_leaf();
            u32 place = is_leaf ? place_of(node, key) : Pairs;
            if (pairs(node) == Pairs && place == Pairs) {
                status = OrderedStatus::Full;
                return split_latched(node, parent);
            }
            if (node.at != kRoot) unlatch(parent);
            if (is_leaf) {
                u32 free = tile.ballot(tile.rank() < Pairs && node.own == kNoPair);
                bool is_new = place == Pairs;
                if (tile.rank() == 0) put(node.at, is_new ? ffs(free) - 1 : place, pair_of(key, value));
                status = is_new ? OrderedStatus::Inserted : OrderedStatus::Updated;
                unlatch(node);
                return Attempt::Done;
            }
            parent = node;
            node = read(child(parent, key));
            if (!latch(node)) {
                unlatch(parent);
                return Attempt::Again;
            }
        }
    }

    WK_DEVICE Attempt erase(u32 key, OrderedStatus& status, u32& before) const {
        Node node = leaf_of(key);
        status = OrderedStatus::Absent;
        if (place_of(node, key) == Pairs) return Attempt::Done;
        if (!latch(node)) return Attempt::Again;
        u32 place = place_of(node, key);
        if (place < Pairs) {
            before = (u32)tile.shfl(node.own, place);
            status = OrderedStatus::Erased;
            if (tile.rank() == 0) put(node.at, place, kNoPair);
        }
        unlatch(node);
        return Attempt::Done;
    }
};

}  // namespace bench
