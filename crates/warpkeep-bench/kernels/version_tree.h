// The multiversion B-tree of "GPU Data Structures", chapter 4, by its text: leaves of 14 pairs, a timestamp with the number of an older copy of the leaf, and
// the link to the right. A leaf stays where it is and has the newest pairs; before they change they are copied aside. A snapshot is a timestamp: it reads of
// every leaf the newest copy that is not later.
//
// In place: the host takes snapshots, between launches. A leaf is copied once, by the first change after a snapshot that is still open.
// Out of place: every range takes a snapshot, beside changes, by adding one to the global timestamp. A change copies the leaf, marks it as in change, stores the
// pair, and marks it as without a timestamp. The first tile that reads this mark, the changing one or another, reads the global timestamp and stores it in the
// leaf: the change takes effect then. Snapshots and these reads are atomic operations on one word, so they have an order: a snapshot that comes later sees the
// change, and one that came first makes the timestamp of the change a later one. A reader of a leaf in change reads the copy.
//
// Inner nodes have no versions. The smallest key of a node never changes, so that a node leads to leaves that have, in some version, every key below it, or that
// lead there by their links. A split copies nothing: both halves have the timestamp and the older copies of the whole, so that a snapshot reads both halves or,
// in place of them, the whole.
//
// Words of a leaf are read one by one, and the version word before and after them: if it is another one, they are read again.
#pragma once
#include "node_epochs.h"

namespace bench {

constexpr u32 kVersionPairs = 14;
constexpr u32 kVersionWord = 14;
// The snapshot that sees everything; the timestamps of a leaf that has none yet, and of one whose pairs are changing.
constexpr u32 kNewest = ~0u - 2, kUnset = ~0u - 1, kInChange = ~0u;

// How the kernel that reads a tree changes it.
enum class Form : u32 { Alone, InPlace, OutOfPlace };

struct VersionTree {
    LinkTree nodes;
    // The global timestamp.
    u32* now;
    // In place: a leaf with a timestamp before this is read by a snapshot; 0 if there is none. And the snapshot that ranges read.
    u32 kept_until;
    u32 snapshot;
};

// The version word of a leaf: a timestamp and an older copy.
struct Version {
    u64 word;

    WK_DEVICE static Version of(u32 time, u32 older) { return Version{pair_of(time, older)}; }
    WK_DEVICE u32 time() const { return (u32)(word >> 32); }
    WK_DEVICE u32 older() const { return (u32)word; }
};

// A tile's view of a tree. All lanes of the tile call together.
template <Form F> struct VersionTile : TreeTile<F != Form::Alone, kVersionPairs> {
    using Base = TreeTile<F != Form::Alone, kVersionPairs>;
    using Node = typename Base::Node;
    using Base::tile;
    const VersionTree& versions;
    const NodeEpochs& epochs;

    WK_DEVICE VersionTile(const VersionTree& of, const NodeEpochs& its) : Base{of.nodes, {}}, versions(of), epochs(its) {}

    WK_DEVICE u64* version_word(u32 leaf) const { return Base::word(leaf, kVersionWord); }

    // A snapshot, of this tile alone.
    WK_DEVICE u32 take_snapshot() const {
        if (F != Form::OutOfPlace) return versions.snapshot;
        u32 now = 0;
        if (tile.rank() == 0) now = fetch_add<Scope::Device, Order::AcqRel>(versions.now, 1);
        return tile.shfl(now, 0);
    }

    // Gives a leaf a timestamp if it has none. Of one lane.
    WK_DEVICE u64 settle(u32 leaf, u64 version) const {
        if (Version{version}.time() != kUnset) return version;
        u32 now = fetch_add<Scope::Device, Order::AcqRel>(versions.now, 0u);
        u64 settled = Version::of(now, Version{version}.older()).word;
        u64 seen = cas<Scope::Device, Order::AcqRel>(version_word(leaf), version, settled);
        return seen == version ? settled : seen;
    }

    // A leaf as of a snapshot. Its version word was read before.
    WK_DEVICE Node contents(u32 leaf, u64 version, u32 snapshot) const {
        for (;;) {
            if (F == Form::OutOfPlace) {
                if (tile.rank() == 0) version = settle(leaf, version);
                version = tile.shfl(version, 0);
            }
            // After the version word, whichever lane read it.
            tile.sync();
            if (Version{version}.time() > snapshot) return copy_of(Version{version}.older(), snapshot);
            u64 own = load<Scope::Device, Order::Acquire>(Base::word(leaf, tile.rank()));
            tile.sync();
            u64 last = load<Scope::Device, Order::Acquire>(Base::word(leaf, kVersionWord + tile.rank() % 2));
            u64 again = tile.shfl(last, 0);
            last = tile.shfl(last, 1);
            if (again == version) return Node{leaf, own, Link{last}};
            version = again;
        }
    }
    // The newest copy that a snapshot sees, from one on. Copies do not change.
    WK_DEVICE Node copy_of(u32 copy, u32 snapshot) const {
        for (;;) {
            u64 own = load<Scope::Device, Order::Relaxed>(Base::word(copy, tile.rank()));
            Version version{tile.shfl(own, kVersionWord)};
            if (version.time() <= snapshot || version.older() == kNoRight) return Node{copy, own, Link{tile.shfl(own, kLinkWord)}};
            copy = version.older();
        }
    }

    // The leaf for a key as of a snapshot, beside writers.
    WK_DEVICE Node leaf_at(u32 key, u32 snapshot) const {
        u32 at = kRoot;
        for (;;) {
            u64 own = Base::read_words(at);
            Link link{tile.shfl(own, kLinkWord)};
            if (link.goes_right(key)) {
                at = link.right();
                continue;
            }
            Node node = link.is_leaf() ? contents(at, tile.shfl(own, kVersionWord), snapshot) : Base::with_link(at, own);
            if (node.link.goes_right(key)) at = node.link.right();
            else if (link.is_leaf()) return node;
            else at = Base::child(node, key);
        }
    }

    WK_DEVICE void find(u32 key, bool& there, u32& value) const {
        Node leaf = F == Form::OutOfPlace ? leaf_at(key, kNewest) : Base::leaf_of(key);
        u32 place = Base::place_of(leaf, key);
        there = place < kVersionPairs;
        value = (u32)tile.shfl(leaf.own, place % kTreeWords);
    }

    // The number of pairs between two bounds at a snapshot; writes as many as there is room for.
    WK_DEVICE u32 range(u32 low, u32 high, u32* keys, u32* values, u32 room, u32 snapshot) const {
        u32 count = 0;
        Node leaf = leaf_at(low, snapshot);
        for (;;) {
            count += Base::pairs_between(leaf, low, high, keys, values, room, count);
            u32 right = leaf.link.right();
            if (right == kNoRight || key_of(leaf.link.word) > high) return count;
            leaf = contents(right, tile.shfl(Base::read_words(right), kVersionWord), snapshot);
        }
    }

    WK_DEVICE Attempt insert(u32 key, u32 value, OrderedStatus& status, u32& time) const {
        Node leaf;
        u32 place;
        Attempt attempt = Base::latch_leaf(key, leaf, place, status);
        if (attempt != Attempt::Latched) return attempt;
        if (!change(leaf, place, pair_of(key, value), time)) status = OrderedStatus::Full;
        return Attempt::Done;
    }

    WK_DEVICE Attempt erase(u32 key, OrderedStatus& status, u32& before, u32& time) const {
        Node leaf = Base::leaf_of(key);
        if (!Base::latch(leaf)) return Attempt::Again;
        u32 place = Base::place_of(leaf, key);
        status = OrderedStatus::Absent;
        if (place == kVersionPairs) {
            Base::unlatch(leaf);
            return Attempt::Done;
        }
        before = (u32)tile.shfl(leaf.own, place);
        status = change(leaf, place, kNoPair, time) ? OrderedStatus::Erased : OrderedStatus::Full;
        return Attempt::Done;
    }

    // Stores a pair in a leaf that is latched, and unlatches it; the timestamp that the change has. false: there is no node for a copy, and nothing changed.
    WK_DEVICE bool change(const Node& leaf, u32 place, u64 pair, u32& time) const {
        bool is_changed = F == Form::OutOfPlace ? change_out_of_place(leaf, place, pair, time) : change_in_place(leaf, place, pair, time);
        Base::unlatch(leaf);
        return is_changed;
    }

private:
    // Copies a leaf, as it was, to a node that is free. What the lane of rank 0 stores next, with release, comes after it.
    WK_DEVICE void copy_to(u32 copy, const Node& leaf) const {
        Base::write(copy, leaf.own, leaf.link);
        fence();
        tile.sync();
    }

    WK_DEVICE bool change_out_of_place(const Node& leaf, u32 place, u64 pair, u32& time) const {
        u32 copy = 0;
        if (tile.rank() == 0) copy = epochs.take();
        copy = tile.shfl(copy, 0);
        if (copy == kNoRight) return false;
        copy_to(copy, leaf);
        if (tile.rank() == 0) {
            store<Scope::Device, Order::Release>(version_word(leaf.at), Version::of(kInChange, copy).word);
            store<Scope::Device, Order::Release>(Base::word(leaf.at, place), pair);
            u64 version = Version::of(kUnset, copy).word;
            store<Scope::Device, Order::Release>(version_word(leaf.at), version);
            // No other change begins while the leaf is latched, so that this is the timestamp of this one.
            time = Version{settle(leaf.at, version)}.time();
            epochs.retire(copy);
        }
        return true;
    }

    WK_DEVICE bool change_in_place(const Node& leaf, u32 place, u64 pair, u32& time) const {
        u64 version = tile.shfl(leaf.own, kVersionWord);
        time = load(versions.now);
        if (Version{version}.time() < versions.kept_until) {
            u32 copy = Base::take(1);
            if (copy == kNoRight) return false;
            copy_to(copy, leaf);
            if (tile.rank() == 0) store<Scope::Device, Order::Release>(version_word(leaf.at), Version::of(time, copy).word);
        }
        if (tile.rank() == 0) store<Scope::Device, Order::Release>(Base::word(leaf.at, place), pair);
        return true;
    }
};

}  // namespace bench
