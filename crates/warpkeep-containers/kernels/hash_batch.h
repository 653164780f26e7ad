// Batches of operations on a hash map or a hash set, displacement, doubling, and what is asked of all of it: the kernels of hash_map.cu and hash_set.cu. The
// host's side is src/hash_map.
#pragma once
#include "warpkeep/append.h"
#include "warpkeep/coop_read.h"
#include "warpkeep/hash_map.h"

namespace hash_batch {

using namespace wk;

// Threads of a block.
constexpr u32 kThreads = 128;
// Words of HashRef::control.
enum Control : u32 { kLength, kPending, kLost, kTwice, kReserved, kHeld, kSecondChoice, kControlWords };

// The order in which a batch is worked: by bucket, and operations on one key in the batch's order.
struct Plan {
    const u64* keys;
    // Sorted by these: the hashes, with the bits that number the first bucket on top.
    u64* sorted;
    u32* numbers;
    u64 count;
    u64 seed;
    u64 rotation;
};

template <class Slot> struct Batch {
    HashRef<Slot> map;
    // As planned: operations with the same hash make a run, which begins at each of `begins`.
    const u64* sorted;
    const u32* numbers;
    const u32* begins;
    u64 runs;
    u64 count;
    // For each operation, by number: its code (if all have the same there is no column), operand and answers.
    const u8* codes;
    const u64* operands;
    u8* statuses;
    u64* before;
    // Runs to work; all if there is no list.
    const u32* list;
    u64 listed;
    // Runs whose key found no slot.
    u32* pending;
    u32 rotation;
    u32 code;
};

template <class Slot> struct Lookup {
    HashRef<Slot> map;
    const u64* keys;
    u8* statuses;
    u64* values;
    u64 count;
};

// Two halves: slots that were there, and as many above them. The mask is that of the lower half.
template <class Slot> struct Doubling {
    HashRef<Slot> map;
    u64 slots;
};

template <class Slot> struct Whole {
    HashRef<Slot> map;
    u64* keys;
    // None of a set.
    u64* values;
    u64 slots;
    // How many keys the columns have room for.
    u64 room;
};

// Adds to the number of keys. All lanes of a warp take part.
WK_DEVICE void count_change(u64* length, bool more, bool fewer) {
    Warp warp;
    u64 change = (u64)popc(warp.ballot(more)) - popc(warp.ballot(fewer));
    if (lane() == 0 && change) fetch_add(length, change);
}

// The operations on one key, and what the key has after those that were worked.
struct Run {
    u64 begin, end, hash;
    bool present;
    u64 value;

    template <class Slot> WK_DEVICE Run(const Batch<Slot>& p, u32 number) : present(false), value(0) {
        begin = load(p.begins + number);
        end = number + 1 < p.runs ? load(p.begins + number + 1) : p.count;
        hash = rotl(load(p.sorted + begin), p.rotation);
    }

    template <class Slot> WK_DEVICE void work(const Batch<Slot>& p, bool is_full) {
        for (u64 i = begin; i < end; i++) {
            u32 number = load(p.numbers + i);
            MapOp op = (MapOp)(p.codes ? load(p.codes + number) : (u8)p.code);
            u64 before = present && op != MapOp::Contains ? value : 0;
            MapStatus status = step(op, p.operands ? load(p.operands + number) : 0, is_full);
            store(p.statuses + number, (u8)status);
            if (p.before) store(p.before + number, before);
        }
    }

    WK_DEVICE MapStatus step(MapOp op, u64 operand, bool is_full) {
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
template <class Slot> struct Turn {
    bool mine;
    u32 number;

    WK_DEVICE explicit Turn(const Batch<Slot>& p) : number(0) {
        u64 i = global_index();
        mine = i < (p.list ? p.listed : p.runs);
        if (mine) number = p.list ? load(p.list + i) : (u32)i;
    }

    // Puts the runs that found no slot on the list. All lanes of a warp take part.
    WK_DEVICE void finish(const Batch<Slot>& p, bool is_pending, bool more, bool fewer) const {
        u64 at = append_by_warp(p.map.control + kPending, is_pending);
        if (is_pending) store(p.pending + at, number);
        count_change(p.map.control + kLength, more, fewer);
    }
};

// Moves keys to their other buckets until one of the new key's has room. No other thread looks for keys meanwhile; others may displace, too. A slot is
// kept by a mark while the key for it is on its way, so no other thread moves that key or takes the slot; whatever happens, a key that was there is there.
template <class Slot> struct Displacement {
    using Ref = HashRef<Slot>;
    // How many keys it moves, at most, so that it looks at about a thousand buckets.
    static constexpr u32 kMostMoves = Ref::kSlots == 4 ? 4 : 3;
    static constexpr u32 kSlotBits = Ref::kSlots == 4 ? 2 : 3;

    const Ref& map;
    u64 hash;
    u64 value;

    WK_DEVICE bool run() const {
        if (map.claim(hash, value)) return true;
        for (u32 moves = 1; moves <= kMostMoves; moves++) {
            for (u32 path = 0; path < 2u << kSlotBits * moves; path++) {
                if (follow(path, moves)) return true;
            }
        }
        return false;
    }

    // A slot on a path, its key, and that key's other bucket. The path ends before it if there is no slot.
    struct Step {
        Slot* slot;
        Slot word;
        u64 other;
    };

    // A path begins in one of the key's two buckets, by its lowest bit; the bits above choose the slots whose keys go to their other buckets.
    WK_DEVICE Step step(u32 path, u32 number) const {
        u64 bucket = path & 1 ? map.partner(hash, map.first(hash)) : map.first(hash);
        Step step{nullptr, Slot{}, 0};
        for (u32 i = 0; i <= number; i++, bucket = step.other) {
            step.slot = map.bucket(bucket) + (path >> (1 + kSlotBits * i)) % Ref::kSlots;
            step.word = load<Scope::Device, Order::Relaxed>(step.slot);
            if (!(key_part(step.word) & kMapHeld)) return Step{nullptr, Slot{}, 0};
            step.other = map.partner(map.hash_in(step.word, bucket), bucket);
        }
        return step;
    }

    // Moves the keys of a path, the last one first. Each step is looked up again: others may have changed it, and a path can come back to a slot.
    WK_DEVICE bool follow(u32 path, u32 moves) const {
        Step last = step(path, moves - 1);
        if (!last.slot) return false;
        Slot* free = typename Ref::Bucket(map.bucket(last.other)).take(make_slot<Slot>(kMapReserved, 0));
        if (!free) return false;
        for (u32 i = moves; i-- > 0;) {
            Step next = step(path, i);
            bool fits = next.slot && next.other == (u64)(free - map.slots) / Ref::kSlots;
            if (!fits || !mark(next.slot, next.word)) {
                store<Scope::Device, Order::Relaxed>(free, Slot{});
                return false;
            }
            // The bits of the hash that it stores are the same in both buckets.
            Slot moved = make_slot<Slot>(key_part(next.word) ^ kMapSecond, value_part(next.word));
            store<Scope::Device, Order::Relaxed>(free, moved);
            free = next.slot;
        }
        store<Scope::Device, Order::Relaxed>(free, map.word(hash, path & 1, value));
        return true;
    }

    // Takes a key out of its slot, if it is still there, and keeps the slot.
    WK_DEVICE static bool mark(Slot* slot, const Slot& word) {
        Slot reserved = make_slot<Slot>(kMapReserved, 0);
        if (WK_FAULT_POINT("hash_map.mark")) {
            store<Scope::Device, Order::Relaxed>(slot, reserved);
            return true;
        }
        return same(cas<Scope::Device, Order::Relaxed>(slot, word, reserved), word);
    }
};

// What a batch is sorted by, and the numbers of its operations.
WK_DEVICE void plan(const Plan& p) {
    u64 i = global_index();
    if (i >= p.count) return;
    store(p.sorted + i, rotl(mix64(p.seed, load(p.keys + i)), 64 - (u32)p.rotation));
    store(p.numbers + i, (u32)i);
}

// A thread for each run: it alone uses the key. Threads compete for empty slots only.
template <class Slot> WK_DEVICE void apply(const Batch<Slot>& p) {
    Turn<Slot> turn(p);
    bool is_pending = false, more = false, fewer = false;
    if (turn.mine) {
        Run run(p, turn.number);
        auto place = p.map.locate(run.hash);
        u64 before = value_part(place.word);
        run.present = place.at != nullptr;
        run.value = before;
        run.work(p, false);
        if (place.at && !run.present) {
            store<Scope::Device, Order::Relaxed>(place.at, Slot{});
            fewer = true;
        } else if (place.at && run.value != before) {
            store<Scope::Device, Order::Relaxed>(place.at, make_slot<Slot>(key_part(place.word), run.value));
        } else if (!place.at && run.present) {
            more = p.map.claim(run.hash, run.value);
            is_pending = !more;
        }
    }
    turn.finish(p, is_pending, more, fewer);
}

// A thread for each run of a batch for an empty map. Runs are in the order of their first buckets, so the first ones of a bucket have its slots without
// looking. The others are pending.
template <class Slot> WK_DEVICE void build(const Batch<Slot>& p) {
    using Ref = HashRef<Slot>;
    Turn<Slot> turn(p);
    bool is_pending = false, more = false;
    if (turn.mine) {
        Run run(p, turn.number);
        run.work(p, false);
        u64 bucket = p.map.first(run.hash);
        u32 rank = 0;
        while (rank < Ref::kSlots && rank < turn.number) {
            u64 other = load(p.sorted + load(p.begins + turn.number - rank - 1));
            if (p.map.first(rotl(other, p.rotation)) != bucket) break;
            rank++;
        }
        more = run.present && rank < Ref::kSlots;
        is_pending = run.present && !more;
        if (more) store(p.map.bucket(bucket) + rank, p.map.word(run.hash, false, run.value));
    }
    turn.finish(p, is_pending, more, false);
}

// A thread for each listed run, whose keys are not there: displaces others for them.
template <class Slot> WK_DEVICE void place(const Batch<Slot>& p) {
    Turn<Slot> turn(p);
    bool is_pending = false, more = false;
    if (turn.mine) {
        Run run(p, turn.number);
        run.work(p, false);
        if (run.present) {
            more = Displacement<Slot>{p.map, run.hash, run.value}.run();
            is_pending = !more;
        }
    }
    turn.finish(p, is_pending, more, false);
}

// Answers listed runs, whose keys are not there, that there is no room.
template <class Slot> WK_DEVICE void refuse(const Batch<Slot>& p) {
    Turn<Slot> turn(p);
    if (turn.mine) Run(p, turn.number).work(p, true);
}

// A thread for each key. Four of them read a bucket together.
template <class Slot> WK_DEVICE void find(const Lookup<Slot>& p) {
    u64 i = global_index();
    bool mine = i < p.count, found = false;
    u64 hash = mine ? p.map.hash(load(p.keys + i)) : 0, value = 0, bucket = p.map.first(hash);
    for (u32 second = 0; second < 2; second++, bucket = p.map.partner(hash, bucket)) {
        if (!Warp().any(mine && !found)) break;
        Line line = Lines::at((const U128*)p.map.slots, (u32)bucket, kLineParts, kLineParts).own();
        u64 wanted = key_part(p.map.word(hash, second, 0));
        for (u32 part = 0; part < kLineParts; part++) {
            U128 there = line.parts[part];
            bool is_here = there.lo == wanted || (sizeof(Slot) == 8 && there.hi == wanted);
            if (!is_here || found) continue;
            found = true;
            value = there.hi;
        }
    }
    if (!mine) return;
    store(p.statuses + i, (u8)(found ? MapStatus::Found : MapStatus::Absent));
    if (p.values) store(p.values + i, value);
}

// A thread for each slot: the key stays in its bucket, or goes to the bucket as far above as there were buckets.
template <class Slot> WK_DEVICE void double_buckets(const Doubling<Slot>& p) {
    using Ref = HashRef<Slot>;
    u64 i = global_index();
    if (i >= p.slots) return;
    const Ref& map = p.map;
    Slot word = load(map.slots + i), low{}, high{};
    if (key_part(word) & kMapHeld) {
        u64 hash = map.hash_in(word, i / Ref::kSlots);
        bool second = key_part(word) & kMapSecond;
        Ref wider{map.slots, map.control, map.seed, 2 * map.mask + 1};
        u64 first = wider.first(hash), bucket = second ? wider.partner(hash, first) : first;
        (bucket > map.mask ? high : low) = wider.word(hash, second, value_part(word));
    }
    store(map.slots + i, low);
    store(map.slots + p.slots + i, high);
}

// A thread for each slot: lists all keys with their values, in no order.
template <class Slot> WK_DEVICE void retrieve(const Whole<Slot>& p) {
    u64 i = global_index();
    Slot word = i < p.slots ? load(p.map.slots + i) : Slot{};
    bool held = key_part(word) & kMapHeld;
    u64 at = append_by_warp(p.map.control + kPending, held);
    if (!held || at >= p.room) return;
    store(p.keys + at, p.map.key(p.map.hash_in(word, i / HashRef<Slot>::kSlots)));
    if (p.values) store(p.values + at, value_part(word));
}

// A thread for each slot: counts what should not be, and what there is.
template <class Slot> WK_DEVICE void verify(const Whole<Slot>& p) {
    u64 i = global_index();
    Slot word = i < p.slots ? load(p.map.slots + i) : Slot{};
    u64 part = key_part(word);
    bool held = part & kMapHeld, second = held && part & kMapSecond;
    bool reserved = !held && (part | value_part(word)), lost = false, twice = false;
    if (held) {
        u64 bucket = i / HashRef<Slot>::kSlots, hash = p.map.hash_in(word, bucket), value = 0;
        // A lookup of the key comes to a slot that has it, in this bucket or the other.
        lost = part & p.map.mask & ~(kMapHeld | kMapSecond) || !p.map.find(p.map.key(hash), value);
        // Of all slots of its two buckets no other has it.
        for (u32 other = 0; other < 2; other++, bucket = p.map.partner(hash, bucket)) {
            u64 equal = key_part(p.map.word(hash, second != (bool)other, 0));
            for (u32 slot = 0; slot < HashRef<Slot>::kSlots; slot++) {
                u64 at = bucket * HashRef<Slot>::kSlots + slot;
                twice |= at != i && key_part(load(p.map.slots + at)) == equal;
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

// Defines the kernels of maps or of sets. The host has the same: src/hash_map/kernels.rs.
#define WK_HASH_KERNELS(prefix, Slot)                                                                                                  \
    WK_KERNEL_OF(prefix##_plan, hash_batch::Plan, hash_batch::kThreads) { hash_batch::plan(p); }                                       \
    WK_KERNEL_OF(prefix##_apply, hash_batch::Batch<Slot>, hash_batch::kThreads) { hash_batch::apply(p); }                              \
    WK_KERNEL_OF(prefix##_build, hash_batch::Batch<Slot>, hash_batch::kThreads) { hash_batch::build(p); }                              \
    WK_KERNEL_AT_ONCE(prefix##_place, hash_batch::Batch<Slot>, hash_batch::kThreads, 4) { hash_batch::place(p); }                      \
    WK_KERNEL_OF(prefix##_refuse, hash_batch::Batch<Slot>, hash_batch::kThreads) { hash_batch::refuse(p); }                            \
    WK_KERNEL_OF(prefix##_find, hash_batch::Lookup<Slot>, hash_batch::kThreads) { hash_batch::find(p); }                               \
    WK_KERNEL_OF(prefix##_double, hash_batch::Doubling<Slot>, hash_batch::kThreads) { hash_batch::double_buckets(p); }                 \
    WK_KERNEL_OF(prefix##_retrieve, hash_batch::Whole<Slot>, hash_batch::kThreads) { hash_batch::retrieve(p); }                        \
    WK_KERNEL_OF(prefix##_verify, hash_batch::Whole<Slot>, hash_batch::kThreads) { hash_batch::verify(p); }                            \
    WK_AGREE(prefix##_ref_bytes, sizeof(wk::HashRef<Slot>))                                                                            \
    WK_AGREE(prefix##_slots, wk::HashRef<Slot>::kSlots)                                                                                \
    WK_AGREE(prefix##_least_bits, wk::kMapLeastBits)                                                                                   \
    WK_AGREE(prefix##_most_bits, wk::kMapMostBits)                                                                                     \
    WK_AGREE(prefix##_held, wk::kMapHeld)                                                                                              \
    WK_AGREE(prefix##_second, wk::kMapSecond)                                                                                          \
    WK_AGREE(prefix##_control_words, hash_batch::kControlWords)
