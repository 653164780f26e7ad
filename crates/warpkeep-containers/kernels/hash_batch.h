// Batches of operations on a hash map or a hash set, displacement, doubling, and what is asked of all of it: the kernels of hash_map*.cu and hash_set*.cu,
// one file for each pair of widths. The host's side is src/hash_map.
#pragma once
#include "warpkeep/append.h"
#include "warpkeep/coop_read.h"
#include "warpkeep/hash_map.h"

namespace hash_batch {

using namespace wk;

// Threads of a block.
constexpr u32 kThreads = 128;
// Words of HashRef::control.
// Two words count runs without a slot, so that a kernel can read one and count in the other.
enum Control : u32 { kLength, kPending, kPendingNext, kLost, kTwice, kReserved, kHeld, kSecondChoice, kControlWords };

// The order in which a batch is worked: by bucket, and operations on one key in the batch's order.
template <class Key> struct Plan {
    const Key* keys;
    // Sorted by these: the hashes, with the bits that number the first bucket on top.
    Key* sorted;
    u32* numbers;
    u64 count;
    u64 seed;
    u64 rotation;
};

template <class Key, class Value> struct Batch {
    using Ref = HashRef<Key, Value>;
    using Held = typename Ref::Held;

    Ref map;
    // As planned: operations with the same hash make a run, which begins at each of `begins`.
    const Key* sorted;
    const u32* numbers;
    const u32* begins;
    u64 runs;
    u64 count;
    // For each operation, by number: its code (if all have the same there is no column), operand and answers.
    const u8* codes;
    const Held* operands;
    u8* statuses;
    Held* before;
    // Runs to work; all if there is no list.
    const u32* list;
    u64 listed;
    // Runs whose key found no slot, and their number.
    u32* pending;
    u64* pending_count;
    // Where the numbers of runs and of listed runs are, if the host does not know them: then `runs` and `listed` are the most that there can be.
    const u32* runs_at;
    const u64* listed_at;
    u32 rotation;
    u32 code;

    WK_DEVICE u64 all_runs() const { return runs_at ? load(runs_at) : runs; }
};

template <class Key, class Value> struct Lookup {
    HashRef<Key, Value> map;
    const Key* keys;
    u8* statuses;
    typename HashRef<Key, Value>::Held* values;
    u64 count;
};

// Two halves: slots that were there, and as many above them. The mask is that of the lower half.
template <class Key, class Value> struct Doubling {
    HashRef<Key, Value> map;
    u64 slots;
};

template <class Key, class Value> struct Whole {
    HashRef<Key, Value> map;
    Key* keys;
    // None of a set.
    typename HashRef<Key, Value>::Held* values;
    u64 slots;
    // How many keys the columns have room for.
    u64 room;
};

WK_DEVICE u64 rotated(u64 hash, u32 bits) { return rotl(hash, bits); }
WK_DEVICE u32 rotated(u32 hash, u32 bits) { return bits % 32 ? hash << bits % 32 | hash >> (32 - bits % 32) : hash; }

// Adds to the number of keys. All lanes of a warp take part.
WK_DEVICE void count_change(u64* length, bool more, bool fewer) {
    Warp warp;
    u64 change = (u64)popc(warp.ballot(more)) - popc(warp.ballot(fewer));
    if (lane() == 0 && change) fetch_add(length, change);
}

// The operations on one key, and what the key has after those that were worked.
template <class Key, class Value> struct Run {
    using Batch = hash_batch::Batch<Key, Value>;
    using Layout = MapLayout<Key, Value>;
    using Held = typename Layout::Held;

    u64 begin, end;
    Key hash;
    bool present;
    Held value;

    WK_DEVICE Run(const Batch& p, u32 number) : present(false), value{} {
        begin = load(p.begins + number);
        end = number + 1 < p.all_runs() ? load(p.begins + number + 1) : p.count;
        hash = rotated(load(p.sorted + begin), p.rotation);
    }

    WK_DEVICE void work(const Batch& p, bool is_full) {
        for (u64 i = begin; i < end; i++) {
            u32 number = load(p.numbers + i);
            MapOp op = (MapOp)(p.codes ? load(p.codes + number) : (u8)p.code);
            if (!Layout::kNumbers && computes(op)) op = MapOp::Find;
            Held before = present && op != MapOp::Contains ? value : Held{};
            MapStatus status = step(op, p.operands ? load(p.operands + number) : Held{}, is_full);
            store(p.statuses + number, (u8)status);
            if (p.before) store(p.before + number, before);
        }
    }

    WK_DEVICE MapStatus step(MapOp op, const Held& operand, bool is_full) {
        if (!present) {
            if (!inserts(op)) return MapStatus::Absent;
            if (is_full) return MapStatus::Full;
            present = true;
            value = operand;
            return MapStatus::Inserted;
        }
        if (op == MapOp::Erase) {
            present = false;
            return MapStatus::Erased;
        }
        value = updated(op, value, operand);
        return inserts(op) && op != MapOp::Insert ? MapStatus::Updated : MapStatus::Found;
    }
};

// The run of this thread, if it has one.
template <class Key, class Value> struct Turn {
    using Batch = hash_batch::Batch<Key, Value>;

    bool mine;
    u32 number;

    WK_DEVICE explicit Turn(const Batch& p) : number(0) {
        u64 i = global_index();
        mine = i < (p.list ? (p.listed_at ? load(p.listed_at) : p.listed) : p.all_runs());
        if (mine) number = p.list ? load(p.list + i) : (u32)i;
    }

    // Puts the runs that found no slot on the list. All lanes of a warp take part.
    WK_DEVICE void finish(const Batch& p, bool is_pending, bool more, bool fewer) const {
        u64 at = append_by_warp(p.pending_count, is_pending);
        if (is_pending) store(p.pending + at, number);
        count_change(p.map.control + kLength, more, fewer);
    }
};

// Moves keys to their other buckets until one of the new key's has room. No other thread looks for keys meanwhile; others may displace, too. A slot is
// kept by a mark while the key for it is on its way, so no other thread moves that key or takes the slot; whatever happens, a key that was there is there.
template <class Key, class Value> struct Displacement {
    using Ref = HashRef<Key, Value>;
    using Layout = typename Ref::Layout;
    using Slot = typename Ref::Slot;
    using Held = typename Ref::Held;
    static constexpr u32 kSlotBits = Ref::kSlots == 4 ? 2 : Ref::kSlots == 8 ? 3 : 4;
    // How many keys it moves, at most, so that it looks at about a thousand buckets.
    static constexpr u32 kMostMoves = Ref::kSlots == 4 ? 4 : Ref::kSlots == 8 ? 3 : 2;

    const Ref& map;
    Key hash;
    Held value;

    WK_DEVICE bool run() const {
        if (map.claim(hash, value)) return true;
        for (u32 moves = 1; moves <= kMostMoves; moves++) {
            for (u32 path = 0; path < 2u << kSlotBits * moves; path++) {
                if (follow(path, moves)) return true;
            }
        }
        return false;
    }

    // A slot on a path, what it has, and the other bucket of its key. The path ends before it if there is no slot.
    struct Step {
        Slot* at;
        Slot slot;
        u64 other;
    };

    // A path begins in one of the key's two buckets, by its lowest bit; the bits above choose the slots whose keys go to their other buckets.
    WK_DEVICE Step step(u32 path, u32 number) const {
        u64 bucket = map.bucket_of(hash, path & 1);
        Step step{nullptr, Slot{}, 0};
        for (u32 i = 0; i <= number; i++, bucket = step.other) {
            step.at = map.bucket(bucket) + (path >> (1 + kSlotBits * i)) % Ref::kSlots;
            step.slot = load<Scope::Device, Order::Relaxed>(step.at);
            Key part = Layout::key_part(step.slot);
            if (!(part & kMapHeld)) return Step{nullptr, Slot{}, 0};
            step.other = map.other_bucket(part, bucket);
        }
        return step;
    }

    // Moves the keys of a path, the last one first. Each step is looked up again: others may have changed it, and a path can come back to a slot.
    WK_DEVICE bool follow(u32 path, u32 moves) const {
        Step last = step(path, moves - 1);
        if (!last.at) return false;
        Slot* free = typename Ref::Bucket(map.bucket(last.other)).take(Layout::make(kMapReserved, Held{}));
        if (!free) return false;
        for (u32 i = moves; i-- > 0;) {
            Step next = step(path, i);
            bool fits = next.at && next.other == (u64)(free - map.slots) / Ref::kSlots;
            if (!fits || !mark(next.at, next.slot)) {
                store<Scope::Device, Ref::kGiving>(free, Slot{});
                return false;
            }
            // The bits of the hash that it stores are the same in both buckets.
            map.publish(free, Layout::key_part(next.slot) ^ kMapSecond, map.value_at(next.at, next.slot));
            free = next.at;
        }
        map.publish(free, map.word(hash, path & 1), value);
        return true;
    }

    // Takes a key out of its slot, if it is still there, and keeps the slot.
    WK_DEVICE static bool mark(Slot* at, const Slot& slot) {
        Slot reserved = Layout::make(kMapReserved, Held{});
        if (WK_FAULT_POINT("hash_map.mark")) {
            store<Scope::Device, Order::Relaxed>(at, reserved);
            return true;
        }
        return same(cas<Scope::Device, Ref::kTaking>(at, slot, reserved), slot);
    }
};

// What a batch is sorted by, and the numbers of its operations.
template <class Key> WK_DEVICE void plan(const Plan<Key>& p) {
    u64 i = global_index();
    if (i >= p.count) return;
    store(p.sorted + i, rotated(KeyHash<Key>::mix(p.seed, load(p.keys + i)), 8 * sizeof(Key) - (u32)p.rotation));
    store(p.numbers + i, (u32)i);
}

// A thread for each run: it alone uses the key. Threads compete for empty slots only.
template <class Key, class Value> WK_DEVICE void apply(const Batch<Key, Value>& p) {
    using Ref = HashRef<Key, Value>;
    using Layout = typename Ref::Layout;
    Turn<Key, Value> turn(p);
    bool is_pending = false, more = false, fewer = false;
    if (turn.mine) {
        Run<Key, Value> run(p, turn.number);
        auto place = p.map.locate(run.hash);
        run.present = place.at != nullptr;
        if (place.at) run.value = p.map.value_at(place.at, place.slot);
        auto before = run.value;
        run.work(p, false);
        if (place.at && !run.present) {
            store<Scope::Device, Ref::kGiving>(place.at, typename Ref::Slot{});
            fewer = true;
        } else if (place.at && !same(run.value, before)) {
            if constexpr (Ref::kApart) store(p.map.values + (place.at - p.map.slots), run.value);
            else store<Scope::Device, Order::Relaxed>(place.at, Layout::make(Layout::key_part(place.slot), run.value));
        } else if (!place.at && run.present) {
            more = p.map.claim(run.hash, run.value);
            is_pending = !more;
        }
    }
    turn.finish(p, is_pending, more, fewer);
}

// A thread for each run of a batch for an empty map. Runs are in the order of their first buckets, so the first ones of a bucket have its slots without
// looking. The others are pending.
template <class Key, class Value> WK_DEVICE void build(const Batch<Key, Value>& p) {
    using Ref = HashRef<Key, Value>;
    Turn<Key, Value> turn(p);
    bool is_pending = false, more = false;
    if (turn.mine) {
        Run<Key, Value> run(p, turn.number);
        run.work(p, false);
        u64 bucket = p.map.first(run.hash);
        u32 rank = 0;
        while (rank < Ref::kSlots && rank < turn.number) {
            Key other = load(p.sorted + load(p.begins + turn.number - rank - 1));
            if (p.map.first(rotated(other, p.rotation)) != bucket) break;
            rank++;
        }
        more = run.present && rank < Ref::kSlots;
        is_pending = run.present && !more;
        if (more) p.map.publish(p.map.bucket(bucket) + rank, p.map.word(run.hash, false), run.value);
    }
    turn.finish(p, is_pending, more, false);
}

// A thread for each listed run, whose keys are not there: displaces others for them.
template <class Key, class Value> WK_DEVICE void place(const Batch<Key, Value>& p) {
    Turn<Key, Value> turn(p);
    bool is_pending = false, more = false;
    if (turn.mine) {
        Run<Key, Value> run(p, turn.number);
        run.work(p, false);
        if (run.present) {
            more = Displacement<Key, Value>{p.map, run.hash, run.value}.run();
            is_pending = !more;
        }
    }
    turn.finish(p, is_pending, more, false);
}

// Answers listed runs, whose keys are not there, that there is no room.
template <class Key, class Value> WK_DEVICE void refuse(const Batch<Key, Value>& p) {
    Turn<Key, Value> turn(p);
    if (turn.mine) Run<Key, Value>(p, turn.number).work(p, true);
}

// A thread for each key. Four of them read a bucket together.
template <class Key, class Value> WK_DEVICE void find(const Lookup<Key, Value>& p) {
    using Ref = HashRef<Key, Value>;
    using Layout = typename Ref::Layout;
    u64 i = global_index(), at = 0;
    bool mine = i < p.count, found = false;
    Key hash = mine ? p.map.hash(load(p.keys + i)) : 0;
    typename Ref::Held value{};
    for (u32 second = 0; second < 2; second++) {
        if (!Warp().any(mine && !found)) break;
        u64 bucket = p.map.bucket_of(hash, second);
        Line line = Lines::at((const U128*)p.map.slots, (u32)bucket, kLineParts, kLineParts).own();
        Key wanted = p.map.word(hash, second);
        for (u32 part = 0; part < kLineParts; part++) {
            for (u32 j = 0; j < Ref::kPartSlots; j++) {
                auto there = Layout::in_part(line.parts[part], j);
                if (Layout::key_part(there) != wanted || found) continue;
                found = true;
                value = Layout::value_part(there);
                at = bucket * Ref::kSlots + Line::number(part) * Ref::kPartSlots + j;
            }
        }
    }
    if (!mine) return;
    store(p.statuses + i, (u8)(found ? MapStatus::Found : MapStatus::Absent));
    if constexpr (Ref::kApart) {
        if (found && p.values) value = load(p.map.values + at);
    }
    if (p.values) store(p.values + i, value);
}

// A thread for each slot: the key stays in its bucket, or goes to the bucket as far above as there were buckets.
template <class Key, class Value> WK_DEVICE void double_buckets(const Doubling<Key, Value>& p) {
    using Ref = HashRef<Key, Value>;
    using Layout = typename Ref::Layout;
    u64 i = global_index();
    if (i >= p.slots) return;
    const Ref& map = p.map;
    typename Ref::Slot slot = load(map.slots + i), low{}, high{};
    Key part = Layout::key_part(slot);
    if (part & kMapHeld) {
        Key hash = map.hash_in(part, i / Ref::kSlots);
        bool second = part & kMapSecond;
        Ref wider{map.slots, map.values, map.control, map.seed, 2 * map.mask + 1};
        bool goes_up = wider.bucket_of(hash, second) > map.mask;
        (goes_up ? high : low) = Layout::make(wider.word(hash, second), Layout::value_part(slot));
        if constexpr (Ref::kApart) {
            if (goes_up) store(map.values + p.slots + i, load(map.values + i));
        }
    }
    store(map.slots + i, low);
    store(map.slots + p.slots + i, high);
}

// A thread for each slot: lists all keys with their values, in no order.
template <class Key, class Value> WK_DEVICE void retrieve(const Whole<Key, Value>& p) {
    using Ref = HashRef<Key, Value>;
    u64 i = global_index();
    typename Ref::Slot slot = i < p.slots ? load(p.map.slots + i) : typename Ref::Slot{};
    Key part = Ref::Layout::key_part(slot);
    bool held = part & kMapHeld;
    u64 at = append_by_warp(p.map.control + kPending, held);
    if (!held || at >= p.room) return;
    store(p.keys + at, p.map.key(p.map.hash_in(part, i / Ref::kSlots)));
    if (p.values) store(p.values + at, p.map.value_at(p.map.slots + i, slot));
}

// A thread for each slot: counts what should not be, and what there is.
template <class Key, class Value> WK_DEVICE void verify(const Whole<Key, Value>& p) {
    using Ref = HashRef<Key, Value>;
    using Layout = typename Ref::Layout;
    u64 i = global_index();
    typename Ref::Slot slot = i < p.slots ? load(p.map.slots + i) : typename Ref::Slot{};
    Key part = Layout::key_part(slot);
    bool held = part & kMapHeld, second = held && part & kMapSecond;
    bool reserved = !held && !same(slot, typename Ref::Slot{}), lost = false, twice = false;
    if (held) {
        u64 bucket = i / Ref::kSlots;
        Key hash = p.map.hash_in(part, bucket);
        // A lookup of the key comes to a slot that has it, in this bucket or the other.
        lost = part & p.map.mask & ~(u64)(kMapHeld | kMapSecond) || !p.map.contains(p.map.key(hash));
        // Of all slots of its two buckets no other has it.
        for (u32 other = 0; other < 2; other++) {
            bool is_second = second != (bool)other;
            Key equal = p.map.word(hash, is_second);
            for (u32 j = 0; j < Ref::kSlots; j++) {
                u64 at = p.map.bucket_of(hash, is_second) * Ref::kSlots + j;
                twice |= at != i && Layout::key_part(load(p.map.slots + at)) == equal;
            }
        }
    }
    count_change(p.map.control + kLost, lost, false);
    count_change(p.map.control + kTwice, twice, false);
    count_change(p.map.control + kReserved, reserved, false);
    count_change(p.map.control + kHeld, held, false);
    count_change(p.map.control + kSecondChoice, second, false);
}

}  // namespace hash_batch

// Defines the kernels of maps or of sets of one pair of widths. The host has the same: src/hash_map/kernels.rs.
#define WK_HASH_KERNELS(prefix, Key, Value)                                                                    \
    using prefix##_Batch = hash_batch::Batch<Key, Value>;                                                      \
    using prefix##_Lookup = hash_batch::Lookup<Key, Value>;                                                    \
    using prefix##_Doubling = hash_batch::Doubling<Key, Value>;                                                \
    using prefix##_Whole = hash_batch::Whole<Key, Value>;                                                      \
    using prefix##_Ref = wk::HashRef<Key, Value>;                                                              \
    WK_KERNEL_OF(prefix##_plan, hash_batch::Plan<Key>, hash_batch::kThreads) { hash_batch::plan(p); }          \
    WK_KERNEL_OF(prefix##_apply, prefix##_Batch, hash_batch::kThreads) { hash_batch::apply(p); }               \
    WK_KERNEL_OF(prefix##_build, prefix##_Batch, hash_batch::kThreads) { hash_batch::build(p); }               \
    WK_KERNEL_AT_ONCE(prefix##_place, prefix##_Batch, hash_batch::kThreads, 4) { hash_batch::place(p); }       \
    WK_KERNEL_OF(prefix##_refuse, prefix##_Batch, hash_batch::kThreads) { hash_batch::refuse(p); }             \
    WK_KERNEL_OF(prefix##_find, prefix##_Lookup, hash_batch::kThreads) { hash_batch::find(p); }                \
    WK_KERNEL_OF(prefix##_double, prefix##_Doubling, hash_batch::kThreads) { hash_batch::double_buckets(p); }  \
    WK_KERNEL_OF(prefix##_retrieve, prefix##_Whole, hash_batch::kThreads) { hash_batch::retrieve(p); }         \
    WK_KERNEL_OF(prefix##_verify, prefix##_Whole, hash_batch::kThreads) { hash_batch::verify(p); }             \
    WK_AGREE(prefix##_ref_bytes, sizeof(prefix##_Ref))                                                         \
    WK_AGREE(prefix##_key_bytes, sizeof(Key))                                                                  \
    WK_AGREE(prefix##_value_bytes, prefix##_Ref::Layout::kValueBytes)                                          \
    WK_AGREE(prefix##_slots, prefix##_Ref::kSlots)                                                             \
    WK_AGREE(prefix##_least_bits, wk::kMapLeastBits)                                                           \
    WK_AGREE(prefix##_most_bits, prefix##_Ref::kMostBits)                                                      \
    WK_AGREE(prefix##_held, wk::kMapHeld)                                                                      \
    WK_AGREE(prefix##_second, wk::kMapSecond)                                                                  \
    WK_AGREE(prefix##_control_words, hash_batch::kControlWords)
