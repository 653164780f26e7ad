// An ordered map that kernels change: inserts, upserts, erasures and lookups by any threads at the same time. The host's side is
// warpkeep_containers::OrderedWriter, which opens the map for kernels and makes a version of what they did.
//
//     struct Params { wk::OrderedWriterRef<wk::u64, wk::u64> counts; const wk::u64* words; wk::u8* statuses; wk::u64 count; };
//     WK_KERNEL(count_words, Params) {
//         wk::u64 i = wk::global_index(), before;
//         if (i < p.count) wk::store(p.statuses + i, (wk::u8)p.counts.upsert(wk::OrderedOp::Add, wk::load(p.words + i), 1, before));
//     }
//
// Each thread calls for itself, from any branch: no call is a collective, so no lane waits for another lane of its warp. A thread that does not get a
// latch lets it go and begins its operation anew; a thread that holds a latch takes no second one, does not wait, and releases it in the same step.
//
// The leaves and the directory of the version before stay as they are. The first change of a leaf copies it to a node, and `heads` leads there. In a node
// - a place is written once, before the header says that it has a pair, and not used again: who has read a header can read what it lists at any time;
// - the header has one bit for each place that has a pair, the latch, and the handle of the node to the right;
// - keys that are not less than `high` are in nodes to the right, if there are any.
// A full node is replaced: by one with the pairs that are left, or by two, of which the second is to the right of the first. The old one keeps the way to
// the first. Nodes of several levels are above those with pairs if a leaf became many; their values are handles. They are hints: where the
// entry for a node could not be added, because the parent was latched, an operation that passes the node's left neighbour adds it later. So a thread that
// follows an old link still arrives, some steps later.
#pragma once
#include "warpkeep/fault_point.h"
#include "warpkeep/ordered_map.h"

namespace wk {

// What leads nowhere.
constexpr u32 kNoNode = ~0u;
// What `heads` has for a leaf that was not changed, and for one that a thread copies. More is the handle of a node, plus kFirstNode.
constexpr u32 kUnchanged = 0;
constexpr u32 kBeingCopied = 1;
constexpr u32 kFirstNode = 2;
// Nodes are counted by several words, because atomic operations on one are carried out one after the other; each has a line.
constexpr u32 kNodeStripes = 16;
constexpr u32 kStripeWords = 32;
// Pairs that a node gets at most when it replaces a full one.
constexpr u32 kNodePairs = 11;

// The header of a node: a bit for each place with a pair, how many places were used, the level, the latch, whether the node was replaced; and the node to
// the right, or the one that replaced it.
struct NodeState {
    u64 word;

    static constexpr u64 kLatched = 1ull << 24, kReplaced = 1ull << 25;

    WK_DEVICE static NodeState of(u32 pairs, u32 level, u32 next) {
        return NodeState{((1ull << pairs) - 1) | (u64)pairs << 16 | (u64)level << 20 | (u64)next << 32};
    }
    WK_DEVICE u32 present() const { return (u32)word & ((1u << kLeafPairs) - 1); }
    WK_DEVICE u32 used() const { return (u32)(word >> 16) & 15; }
    WK_DEVICE u32 level() const { return (u32)(word >> 20) & 15; }
    WK_DEVICE bool is_latched() const { return word & kLatched; }
    WK_DEVICE bool is_replaced() const { return word & kReplaced; }
    WK_DEVICE u32 next() const { return (u32)(word >> 32); }
    WK_DEVICE NodeState with_one_more() const { return NodeState{(word + (1ull << 16)) | 1ull << used()}; }
    WK_DEVICE NodeState without(u32 slot) const { return NodeState{word & ~(1ull << slot)}; }
    WK_DEVICE static NodeState replaced_by(u32 node) { return NodeState{kReplaced | (u64)node << 32}; }
};

// A map that is open for kernels: plain data, to be a part of a kernel's parameters. Good until the host finishes the writer that it was taken from.
template <class K, class V> struct OrderedWriterRef {
    using Ref = OrderedMapRef<K, V>;
    // Where a node has its upper bound: in the second word of the header, which finished leaves use otherwise, or behind the values.
    static constexpr u32 kHighAt = sizeof(K) == 16 ? Ref::kValuesAt + kLeafPairs * sizeof(V) : 8;

    // The version before.
    Ref map;
    // For each of its leaves, or one for all if there are none.
    u32* heads;
    // How many nodes were taken, of each stripe.
    u32* taken;
    // The handles of nodes: first those of free leaves, the last one first, then `fresh` and above.
    const u32* free;
    u64 free_count;
    u64 fresh;
    u32 capacity;
    u32 reserved;

    // Looks a key up.
    WK_DEVICE bool find(K key, V& value) const {
        u32 number = map.locate(key), head = load<Scope::Device, Order::Acquire>(heads + number);
        if (head < kFirstNode) return map.find_in(number, key, value);
        Way way = descend<false>(number, head, key);
        u32 slot = slot_of(way.node, way.state.present(), key);
        if (slot == kLeafPairs) return false;
        value = value_at(way.node, slot);
        return true;
    }

    // Adds a key: Inserted; Found, with the value that it keeps, if it is there; Full if there is no node left for it, which changes nothing.
    WK_DEVICE OrderedStatus insert(K key, V value, V& before) const { return change(OrderedOp::Insert, key, value, before); }
    // Adds a key, or changes its value as `how` says: Put, Add, Min or Max. Inserted, Updated with the value before, or Full.
    WK_DEVICE OrderedStatus upsert(OrderedOp how, K key, V value, V& before) const { return change(how, key, value, before); }
    // Removes a key: Erased, with the value that it had; Absent; or Full, because the copy of a leaf that changes takes memory.
    WK_DEVICE OrderedStatus erase(K key, V& before) const { return change(OrderedOp::Erase, key, (V)0, before); }

    // One of the above, or Find or Contains: for operations that come as numbers. Others are answered as Find.
    WK_DEVICE OrderedStatus run(OrderedOp op, K key, V value, V& before) const {
        OrderedStatus status = change(op, key, value, before);
        if (op == OrderedOp::Contains) before = 0;
        return status;
    }

    // For the host's kernels, when no other ones run: the handle of a node, and whether it was taken.
    WK_DEVICE u32 handle(u64 node) const { return node < free_count ? load(free + free_count - 1 - node) : (u32)(fresh + node - free_count); }
    WK_DEVICE bool is_taken(u64 node) const { return node / kNodeStripes < load(taken + node % kNodeStripes * kStripeWords); }
    WK_DEVICE u8* at(u32 handle) const { return (u8*)map.leaves + (u64)handle * Ref::kLeafBytes; }
    WK_DEVICE K* keys(u32 handle) const { return (K*)(at(handle) + kLeafHeader); }
    WK_DEVICE V* values(u32 handle) const { return (V*)(at(handle) + Ref::kValuesAt); }

    // Gives `take` every key of a node, with its place. Keys of places without a pair are anything.
    template <class Take> WK_DEVICE void each_key(u32 node, Take take) const {
        constexpr u32 kEach = 16 / sizeof(K), kParts = kLeafPairs / kEach;
        const U128* parts = (const U128*)keys(node);
        for (u32 i = 0; i < kParts; i++) {
            U128 part = load<Scope::Device, Order::Relaxed>(parts + i);
            for (u32 j = 0; j < kEach; j++) take(i * kEach + j, key_of(part, j));
        }
        if constexpr (kLeafPairs % kEach != 0) {
            U128 part{load<Scope::Device, Order::Relaxed>((const u64*)(parts + kParts)), 0};
            for (u32 j = 0; j < kLeafPairs % kEach; j++) take(kParts * kEach + j, key_of(part, j));
        }
    }

private:
    // Where a key belongs.
    struct Way {
        // What `heads` had.
        u32 head;
        // A node without a level, and the node that led to its level; kNoNode if `heads` did.
        u32 node;
        u32 parent;
        NodeState state;
        // A node that only its left neighbour led to: its first possible key, its level, and the node that should lead there. None if it is kNoNode.
        u32 missed;
        u32 missed_level;
        u32 missed_parent;
        K missed_low;

        WK_DEVICE void miss(u32 its, K low, u32 level) {
            missed = its;
            missed_low = low;
            missed_level = level;
            missed_parent = parent;
        }
    };
    // What came of an attempt.
    enum Outcome : u32 { kDone, kBusy, kNoMemory };

    // Whether an operation changes the value of a key that is there.
    WK_DEVICE static bool updates(OrderedOp op) { return inserts(op) && op != OrderedOp::Insert; }
    WK_DEVICE static K key_of(const U128& part, u32 number) {
        if constexpr (sizeof(K) == 16) return part;
        else if constexpr (sizeof(K) == 8) return number ? part.hi : part.lo;
        else return (K)((number < 2 ? part.lo : part.hi) >> 32 * (number % 2));
    }
    WK_DEVICE u64* header(u32 node) const { return (u64*)at(node); }
    WK_DEVICE K* high(u32 node) const { return (K*)(at(node) + kHighAt); }
    WK_DEVICE V value_at(u32 node, u32 slot) const { return load<Scope::Device, Order::Relaxed>(values(node) + slot); }
    WK_DEVICE NodeState state_of(u32 node) const { return NodeState{load<Scope::Device, Order::Acquire>(header(node))}; }
    WK_DEVICE void publish(u32 node, NodeState state) const {
        if (WK_FAULT_POINT("ordered_map.publish")) store<Scope::Device, Order::Relaxed>(header(node), state.word);
        else store<Scope::Device, Order::Release>(header(node), state.word);
    }

    // The place of a key; kLeafPairs if it is not there.
    WK_DEVICE u32 slot_of(u32 node, u32 present, K key) const {
        u32 found = kLeafPairs;
        each_key(node, [&](u32 slot, K its) {
            if (its == key && present >> slot & 1) found = slot;
        });
        return found;
    }
    // The place that leads towards a key: that of the largest key that is not more. The first node of a level has the smallest key there is.
    WK_DEVICE u32 slot_towards(u32 node, u32 present, K key) const {
        u32 found = 0;
        K best{};
        each_key(node, [&](u32 slot, K its) {
            if (!(present >> slot & 1) || its > key || its < best) return;
            found = slot;
            best = its;
        });
        return found;
    }
    WK_DEVICE u32 keys_less(u32 node, u32 present, K key) const {
        u32 less = 0;
        each_key(node, [&](u32 slot, K its) { less += present >> slot & 1 && its < key; });
        return less;
    }

    // From a head to the node that a key belongs to. One that changes the map lets ways to replaced nodes lead to what replaced them.
    template <bool Mends> WK_DEVICE Way descend(u32 number, u32 head, K key) const {
        Way way{head, head - kFirstNode, kNoNode, NodeState{0}, kNoNode, 0, kNoNode, K{}};
        u32 slot = 0;
        bool is_direct = true;
        for (;;) {
            NodeState state = state_of(way.node);
            u32 next = state.next();
            if (state.is_replaced()) {
                if (Mends && is_direct) mend(number, way, slot, next);
                way.node = next;
                continue;
            }
            if (next != kNoNode && !WK_FAULT_POINT("ordered_map.right")) {
                K its_high = load<Scope::Device, Order::Relaxed>(high(way.node));
                if (key >= its_high) {
                    way.miss(next, its_high, state.level());
                    way.node = next;
                    is_direct = false;
                    continue;
                }
            }
            way.state = state;
            if (state.level() == 0) return way;
            slot = slot_towards(way.node, state.present(), key);
            way.parent = way.node;
            // Another thread may have let the place lead to what replaced the node.
            way.node = (u32)load<Scope::Device, Order::Acquire>(values(way.node) + slot);
            is_direct = true;
        }
    }

    // Lets the head, or the place of the parent that led to the way's node, lead to what replaced it.
    WK_DEVICE void mend(u32 number, Way& way, u32 slot, u32 next) const {
        if (way.parent == kNoNode) {
            u32 from = way.node + kFirstNode, to = next + kFirstNode;
            if (cas(heads + number, from, to) == from) way.head = to;
        } else {
            cas(values(way.parent) + slot, (V)way.node, (V)next);
        }
    }

    // A new node; kNoNode if there is none. All of its keys will be read, so they are zeros unless it becomes a copy.
    WK_DEVICE u32 take(bool clears = true) const {
        u32 node = take_handle();
        for (u32 i = 0; clears && node != kNoNode && i < (kLeafPairs * sizeof(K) + 15) / 16; i++) store((U128*)keys(node) + i, U128{0, 0});
        return node;
    }
    WK_DEVICE u32 take_handle() const {
        u32 stripe = (u32)(global_warp() % kNodeStripes);
        for (u32 tried = 0; tried < kNodeStripes; tried++) {
            u32* next = taken + stripe * kStripeWords;
            u32 most = (capacity + kNodeStripes - 1 - stripe) / kNodeStripes, count = fetch_add(next, 1u);
            if (count < most) return handle((u64)count * kNodeStripes + stripe);
            // Nobody takes a node meanwhile: the count is not less than the most before either.
            fetch_add(next, ~0u);
            stripe = (stripe + 1) % kNodeStripes;
        }
        return kNoNode;
    }

    // Fails if the node is not as it was seen. If it is, so is all that was read of it: its header never comes back to what it was after a change of its
    // pairs, because places are not used again.
    WK_DEVICE bool latch(u32 node, NodeState seen) const {
        if (seen.is_latched()) return false;
        if (WK_FAULT_POINT("ordered_map.latch")) {
            store<Scope::Device, Order::Relaxed>(header(node), seen.word | NodeState::kLatched);
            return true;
        }
        return cas<Scope::Device, Order::Acquire>(header(node), seen.word, seen.word | NodeState::kLatched) == seen.word;
    }

    // Copies a leaf of the version before to a node, so that it can be changed.
    WK_DEVICE Outcome copy(u32 number) const {
        if (WK_FAULT_POINT("ordered_map.copy")) store<Scope::Device, Order::Relaxed>(heads + number, kBeingCopied);
        else if (cas(heads + number, kUnchanged, kBeingCopied) != kUnchanged) return kBusy;
        auto leaf = map.leaf(number);
        u32 node = take(leaf.count == 0);
        if (node == kNoNode) {
            store<Scope::Device, Order::Relaxed>(heads + number, kUnchanged);
            return kNoMemory;
        }
        for (u32 i = 1; leaf.count && i < (Ref::kValuesAt + kLeafPairs * sizeof(V)) / 16; i++) store((U128*)at(node) + i, load((const U128*)leaf.at + i));
        store(header(node), NodeState::of(leaf.count, 0, kNoNode).word);
        if (WK_FAULT_POINT("ordered_map.lead")) store<Scope::Device, Order::Relaxed>(heads + number, node + kFirstNode);
        else store<Scope::Device, Order::Release>(heads + number, node + kFirstNode);
        return kDone;
    }

    WK_DEVICE void put(u32 node, u32 slot, K key, V value) const {
        store<Scope::Device, Order::Relaxed>(keys(node) + slot, key);
        store<Scope::Device, Order::Relaxed>(values(node) + slot, value);
    }

    // Adds a pair to a node that was seen in a state without this key. If the node was full and became two, the second begins with `low`.
    WK_DEVICE Outcome add(u32 node, NodeState seen, K key, V value, K& low, u32& right) const {
        right = kNoNode;
        if (!latch(node, seen)) return kBusy;
        if (seen.used() < kLeafPairs) {
            put(node, seen.used(), key, value);
            publish(node, seen.with_one_more());
            return kDone;
        }
        u32 present = seen.present(), pairs = popc(present) + 1;
        bool splits = pairs > kNodePairs;
        u32 left = take();
        if (left != kNoNode && splits) right = take();
        if (left == kNoNode || (splits && right == kNoNode)) {
            if (left != kNoNode) store(header(left), NodeState::replaced_by(kNoNode).word);
            publish(node, seen);
            return kNoMemory;
        }
        if (splits) low = middle(node, present, pairs, key);
        u32 of_left = 0, of_right = 0;
        for (u32 left_over = present; left_over; left_over &= left_over - 1) {
            u32 slot = ffs(left_over) - 1;
            K its = load<Scope::Device, Order::Relaxed>(keys(node) + slot);
            bool is_right = splits && its >= low;
            put(is_right ? right : left, is_right ? of_right++ : of_left++, its, value_at(node, slot));
        }
        bool is_right = splits && key >= low;
        put(is_right ? right : left, is_right ? of_right++ : of_left++, key, value);
        u32 last = splits ? right : left;
        if (seen.next() != kNoNode) store(high(last), load<Scope::Device, Order::Relaxed>(high(node)));
        store(header(last), NodeState::of(splits ? of_right : of_left, seen.level(), seen.next()).word);
        if (splits) {
            store(high(left), low);
            store(header(left), NodeState::of(of_left, seen.level(), right).word);
        }
        publish(node, WK_FAULT_POINT("ordered_map.replaced") ? seen : NodeState::replaced_by(left));
        return kDone;
    }

    // The first key of the right one of two nodes that share the pairs of a full one and a new key. Keys that come in order leave full nodes behind.
    WK_DEVICE K middle(u32 node, u32 present, u32 pairs, K key) const {
        u32 rank = keys_less(node, present, key);
        u32 target = rank == pairs - 1 ? kNodePairs : rank == 0 ? pairs - kNodePairs : pairs / 2;
        if (rank == target) return key;
        for (u32 left = present; left; left &= left - 1) {
            K its = load<Scope::Device, Order::Relaxed>(keys(node) + ffs(left) - 1);
            if (keys_less(node, present, its) + (key < its) == target) return its;
        }
        return key;
    }

    // Lets the level above lead to a node whose first possible key is `low`, unless it is latched or there is no memory: then nodes to the left do.
    WK_DEVICE void lead_to(u32 node, K low, u32 level, u32 parent, u32 number, u32 head) const {
        if (parent == kNoNode) {
            u32 root = take();
            if (root == kNoNode) return;
            put(root, 0, K{}, (V)(head - kFirstNode));
            put(root, 1, low, (V)node);
            store(header(root), NodeState::of(2, level + 1, kNoNode).word);
            cas(heads + number, head, root + kFirstNode);
            return;
        }
        for (;;) {
            NodeState state = state_of(parent);
            u32 next = state.next();
            if (state.is_replaced() || (next != kNoNode && low >= load<Scope::Device, Order::Relaxed>(high(parent)))) {
                parent = next;
                continue;
            }
            K its_low{};
            u32 right = kNoNode;
            if (slot_of(parent, state.present(), low) == kLeafPairs) add(parent, state, low, (V)node, its_low, right);
            return;
        }
    }

    WK_DEVICE OrderedStatus change(OrderedOp op, K key, V operand, V& before) const {
        u32 number = map.locate(key);
        before = 0;
        for (u32 wait = 32;; wait = wait < 1024 ? 2 * wait : wait) {
            Outcome outcome = kBusy;
            OrderedStatus status = OrderedStatus::Full;
            u32 head = load<Scope::Device, Order::Acquire>(heads + number);
            if (head >= kFirstNode) outcome = change_node(op, key, operand, number, head, status, before);
            else if (is_answered(op, key, operand, number, status, before)) return status;
            else if (head == kUnchanged) {
                outcome = copy(number);
                if (outcome == kDone) continue;
            }
            if (outcome == kDone) return status;
            if (outcome == kNoMemory) return OrderedStatus::Full;
            backoff(wait);
        }
    }

    // Whether a leaf of the version before stays as it is.
    WK_DEVICE bool is_answered(OrderedOp op, K key, V operand, u32 number, OrderedStatus& status, V& before) const {
        V old = 0;
        status = OrderedStatus::Absent;
        if (!map.find_in(number, key, old)) return !inserts(op);
        if (op == OrderedOp::Erase || updated(op, old, operand) != old) return false;
        before = old;
        status = updates(op) ? OrderedStatus::Updated : OrderedStatus::Found;
        return true;
    }

    // One attempt.
    WK_DEVICE Outcome change_node(OrderedOp op, K key, V operand, u32 number, u32 head, OrderedStatus& status, V& before) const {
        Way way = descend<true>(number, head, key);
        u32 slot = slot_of(way.node, way.state.present(), key), right = kNoNode;
        if (slot < kLeafPairs) {
            if (!updates(op) && op != OrderedOp::Erase) {
                before = value_at(way.node, slot);
                status = OrderedStatus::Found;
                return kDone;
            }
            if (!latch(way.node, way.state)) return kBusy;
            before = value_at(way.node, slot);
            status = op == OrderedOp::Erase ? OrderedStatus::Erased : OrderedStatus::Updated;
            if (op != OrderedOp::Erase) store<Scope::Device, Order::Relaxed>(values(way.node) + slot, updated(op, before, operand));
            publish(way.node, op == OrderedOp::Erase ? way.state.without(slot) : way.state);
            return kDone;
        }
        if (!inserts(op)) {
            status = OrderedStatus::Absent;
            return kDone;
        }
        K low{};
        Outcome outcome = add(way.node, way.state, key, operand, low, right);
        if (outcome != kDone) return outcome;
        status = OrderedStatus::Inserted;
        if (right != kNoNode) way.miss(right, low, 0);
        if (way.missed != kNoNode) lead_to(way.missed, way.missed_low, way.missed_level, way.missed_parent, number, way.head);
        return kDone;
    }
};

}  // namespace wk
