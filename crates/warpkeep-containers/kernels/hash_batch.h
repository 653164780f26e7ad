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
// Slots of a thread that lists keys.
constexpr u32 kRetrieved = 4;
// Words of HashRef::control, behind the number of keys.
// Two words count runs without a slot, so that a kernel can read one and count in the other.
enum Control : u32 { kPending = kCountWords, kPendingNext, kLost, kTwice, kReserved, kHeld, kSecondChoice, kControlWords };

// The order in which a batch is worked: by bucket, and operations on one key in the batch's order.
template <class Key> struct Plan {
    const Key* keys;
    // The numbers of the operations, in the batch's order; all if there is no list.
    const u32* list;
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
    // Without a plan, of operations whose keys all differ: the keys of all operations, by number; each of `numbers` is a run. Else null.
    const Key* keys;
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
    // If there is a word, and it is not 0, the kernel does nothing.
    const u64* unless;
    u32 rotation;
    u32 code;

    WK_DEVICE u64 all_runs() const { return runs_at ? load(runs_at) : runs; }
};

// A batch of insertions that is not planned: almost all of its keys are there once and find a slot at once. The others are listed.
template <class Key, class Value> struct Fresh {
    using Held = typename HashRef<Key, Value>::Held;

    HashRef<Key, Value> map;
    const Key* keys;
    const Held* operands;
    // Found or Absent, of a search before, unless no key was there.
    u8* statuses;
    Held* before;
    u64 count;
    // Operations that are to be worked in their order, and those whose key another operation has inserted; kPending and kPendingNext count them.
    u32* rest;
    u32* repeated;
    // How many are repeated; or, for compare_rest, how many are in `rest`.
    u64 repetitions;
    // Of compare_rest: words of `repeated`.
    u64 places;
    u32 has_searched;
    // Of sort_out_repeated and compare_rest.
    u32 step;
};

enum RepeatedStep : u32 { kFlag, kCollect, kRemove };
enum RestStep : u32 { kClear, kCompare };

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

// Counts the lanes of a warp for which something is so. All take part.
WK_DEVICE void count_lanes(u64* word, bool is_so) {
    u32 lanes = popc(Warp().ballot(is_so));
    if (lane() == 0 && lanes) fetch_add(word, (u64)lanes);
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
        if (p.keys) {
            begin = number;
            end = begin + 1;
            hash = p.map.hash(load(p.keys + load(p.numbers + number)));
            return;
        }
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
        mine = mine && !(p.unless && load(p.unless));
        if (mine) number = p.list ? load(p.list + i) : (u32)i;
    }

    // Puts the runs that found no slot on the list. All lanes of a warp take part.
    WK_DEVICE void finish(const Batch& p, bool is_pending, bool more, bool fewer) const {
        u64 at = append_by_warp(p.pending_count, is_pending);
        if (is_pending) store(p.pending + at, number);
        p.map.length().add_by_warp(more, fewer);
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
    u32 number = p.list ? load(p.list + i) : (u32)i;
    store(p.sorted + i, rotated(KeyHash<Key>::mix(p.seed, load(p.keys + number)), 8 * sizeof(Key) - (u32)p.rotation));
    store(p.numbers + i, number);
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

// A slot of the key's buckets whose key part is this.
template <class Ref, class Key> WK_DEVICE typename Ref::Place slot_with(const Ref& map, Key hash, Key flags) {
    typename Ref::Place place{nullptr, typename Ref::Slot{}};
    for (u32 second = 0; second < 2; second++) {
        Key wanted = map.word(hash, second) | flags;
        typename Ref::Bucket there(map.bucket(map.bucket_of(hash, second)));
        for (u32 i = 0; i < Ref::kSlots; i++) {
            if (Ref::Layout::key_part(there.slots[i]) == wanted) place = {there.at + i, there.slots[i]};
        }
    }
    return place;
}

// A thread for each operation of a batch that is not planned. Slots only fill up here, and threads with the same key try the empty slots of its buckets in
// the same order, so one of them inserts the key and the others come to its slot. Four threads read a bucket together.
template <class Key, class Value> WK_DEVICE void insert_fresh(const Fresh<Key, Value>& p) {
    using Ref = HashRef<Key, Value>;
    using Layout = typename Ref::Layout;
    using Held = typename Ref::Held;
    Warp warp;
    u64 i = global_index();
    bool wants = i < p.count && (!p.has_searched || load(p.statuses + i) == (u8)MapStatus::Absent);
    bool inserted = false, repeated = false;
    Key hash = wants ? p.map.hash(load(p.keys + i)) : 0;
    Held value = wants && p.operands ? load(p.operands + i) : Held{};
    for (u32 second = 0; second < 2; second++) {
        bool goes_on = wants && !inserted && !repeated;
        if (!warp.any(goes_on)) break;
        u64 bucket = p.map.bucket_of(hash, second);
        Line line = Lines::wanted((const U128*)p.map.slots, goes_on ? (u32)bucket : kNoLine).own();
        Key own = p.map.word(hash, second);
        // What tells the others whose slot it will be while the value is written.
        Key coming = Ref::kApart ? (Key)((own & ~(Key)kMapHeld) | kMapReserved) : own;
        u32 empty = 0;
        for (u32 part = 0; part < kLineParts; part++) {
            for (u32 j = 0; j < Ref::kPartSlots; j++) {
                Key there = Layout::key_part(Layout::in_part(line.parts[part], j));
                repeated |= goes_on && (there == own || there == coming);
                empty |= (u32)(there == 0) << (Line::number(part) * Ref::kPartSlots + j);
            }
        }
        if (!goes_on || repeated) continue;
        for (; empty && !inserted && !repeated; empty &= empty - 1) {
            typename Ref::Slot* at = p.map.bucket(bucket) + ffs(empty) - 1;
            typename Ref::Slot none{}, wanted = Layout::make(coming, value), was = none;
            if (WK_FAULT_POINT("hash_map.fresh_claim")) store<Scope::Device, Order::Relaxed>(at, wanted);
            else was = cas<Scope::Device, Ref::kTaking>(at, none, wanted);
            inserted = same(was, none);
            Key there = Layout::key_part(was);
            repeated = there == own || there == coming;
            if constexpr (Ref::kApart) {
                if (inserted) p.map.publish(at, own, value);
            }
        }
    }
    if (inserted) {
        store(p.statuses + i, (u8)MapStatus::Inserted);
        if (p.before) store(p.before + i, Held{});
    } else if (wants) {
        store(p.statuses + i, (u8)MapStatus::Absent);
    }
    u64* control = p.map.control;
    bool rests = wants && !inserted && !repeated;
    u64 rest_at = append_by_warp(control + kPending, rests), repeated_at = append_by_warp(control + kPendingNext, repeated);
    if (rests) store(p.rest + rest_at, (u32)i);
    if (repeated) store(p.repeated + repeated_at, (u32)i);
    p.map.length().add_by_warp(inserted, false);
}

// Takes keys that several operations of the batch have out of the map again, and lists all these operations. Three launches: a thread for each repeated
// operation flags its key's slot and is listed, a thread for each operation is listed if the slot of the key that it inserted is flagged, and a thread for each
// repeated operation empties that slot.
template <class Key, class Value> WK_DEVICE void sort_out_repeated(const Fresh<Key, Value>& p) {
    using Ref = HashRef<Key, Value>;
    using Layout = typename Ref::Layout;
    u64 i = global_index();
    bool of_all = p.step == kCollect, mine = i < (of_all ? p.count : p.repetitions);
    u32 number = !mine ? 0 : of_all ? (u32)i : load(p.repeated + i);
    if (of_all) mine = mine && load(p.statuses + number) == (u8)MapStatus::Inserted;
    bool lists = false, fewer = false;
    if (mine) {
        Key hash = p.map.hash(load(p.keys + number)), flag = kMapReserved;
        auto place = slot_with(p.map, hash, p.step == kFlag ? (Key)0 : flag);
        lists = p.step == kFlag || (of_all && place.at);
        if (p.step == kFlag && place.at) {
            // Another thread may have flagged it.
            auto flagged = Layout::make(Layout::key_part(place.slot) | flag, Layout::value_part(place.slot));
            cas<Scope::Device, Order::Relaxed>(place.at, place.slot, flagged);
        } else if (p.step == kRemove && place.at) {
            fewer = same(cas<Scope::Device, Order::Relaxed>(place.at, place.slot, typename Ref::Slot{}), place.slot);
        }
    }
    u64 at = append_by_warp(p.map.control + kPending, lists);
    if (lists) store(p.rest + at, number);
    p.map.length().add_by_warp(false, fewer);
}

// Counts in kPendingNext the operations of `rest` whose key another one of them has. Two launches: a thread for each place clears it, and a thread for each
// operation takes the first free place from that of its key on, or comes to an operation with its key. `repeated` has the places: the number of an operation,
// plus one.
template <class Key, class Value> WK_DEVICE void compare_rest(const Fresh<Key, Value>& p) {
    u64 i = global_index();
    if (p.step == kClear) {
        if (i < p.places) store(p.repeated + i, 0u);
        return;
    }
    bool is_repeated = false;
    if (i < p.repetitions) {
        u32 number = load(p.rest + i);
        Key key = load(p.keys + number);
        u64 at = reduce(mix64(~p.map.seed, (u64)key), p.places);
        for (;;) {
            u32 taken = 0;
            if (WK_FAULT_POINT("hash_map.rest_place")) store<Scope::Device, Order::Relaxed>(p.repeated + at, number + 1);
            else taken = cas<Scope::Device, Order::Relaxed>(p.repeated + at, 0, number + 1);
            if (!taken) break;
            is_repeated = load(p.keys + taken - 1) == key;
            if (is_repeated) break;
            at = at + 1 == p.places ? 0 : at + 1;
        }
    }
    count_lanes(p.map.control + kPendingNext, is_repeated);
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
        // Few keys of those that are there are in their second bucket, but those of a warp seldom are all in their first.
        bool goes_on = mine && !found;
        if (!Warp().any(goes_on)) break;
        u64 bucket = p.map.bucket_of(hash, second);
        Line line = Lines::wanted((const U128*)p.map.slots, goes_on ? (u32)bucket : kNoLine).own();
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

// A thread for each kRetrieved slots: lists all keys with their values, in no order. A block asks for the positions of its keys once.
template <class Key, class Value> WK_DEVICE void retrieve(const Whole<Key, Value>& p) {
    using Ref = HashRef<Key, Value>;
    u64 first = (u64)block_index() * kThreads * kRetrieved + thread_index();
    typename Ref::Slot slots[kRetrieved];
    u32 held = 0;
    for (u32 part = 0; part < kRetrieved; part++) {
        u64 i = first + part * kThreads;
        slots[part] = i < p.slots ? load(p.map.slots + i) : typename Ref::Slot{};
        held |= (u32)((Ref::Layout::key_part(slots[part]) & kMapHeld) != 0) << part;
    }
    BlockCounts<kRetrieved> counts(held);
    BlockParts<kRetrieved> parts(counts, p.map.control + kPending);
    for (u32 part = 0; part < kRetrieved; part++) {
        u64 i = first + part * kThreads, at = parts.position(part);
        if (!(held >> part & 1) || at >= p.room) continue;
        store(p.keys + at, p.map.key(p.map.hash_in(Ref::Layout::key_part(slots[part]), i / Ref::kSlots)));
        if (p.values) store(p.values + at, p.map.value_at(p.map.slots + i, slots[part]));
    }
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
    count_lanes(p.map.control + kLost, lost);
    count_lanes(p.map.control + kTwice, twice);
    count_lanes(p.map.control + kReserved, reserved);
    count_lanes(p.map.control + kHeld, held);
    count_lanes(p.map.control + kSecondChoice, second);
}

}  // namespace hash_batch

// Defines the kernels of maps or of sets of one pair of widths. The host has the same: src/hash_map/kernels.rs.
#define WK_HASH_KERNELS(prefix, Key, Value)                                                                    \
    using prefix##_Batch = hash_batch::Batch<Key, Value>;                                                      \
    using prefix##_Fresh = hash_batch::Fresh<Key, Value>;                                                      \
    using prefix##_Lookup = hash_batch::Lookup<Key, Value>;                                                    \
    using prefix##_Doubling = hash_batch::Doubling<Key, Value>;                                                \
    using prefix##_Whole = hash_batch::Whole<Key, Value>;                                                      \
    using prefix##_Ref = wk::HashRef<Key, Value>;                                                              \
    WK_KERNEL_OF(prefix##_plan, hash_batch::Plan<Key>, hash_batch::kThreads) { hash_batch::plan(p); }          \
    WK_KERNEL_OF(prefix##_apply, prefix##_Batch, hash_batch::kThreads) { hash_batch::apply(p); }               \
    WK_KERNEL_OF(prefix##_insert_fresh, prefix##_Fresh, hash_batch::kThreads) { hash_batch::insert_fresh(p); } \
    WK_KERNEL_OF(prefix##_sort_out_repeated, prefix##_Fresh, hash_batch::kThreads) {                           \
        hash_batch::sort_out_repeated(p);                                                                      \
    }                                                                                                          \
    WK_KERNEL_OF(prefix##_compare_rest, prefix##_Fresh, hash_batch::kThreads) { hash_batch::compare_rest(p); } \
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
    WK_AGREE(prefix##_retrieved, hash_batch::kRetrieved)                                                       \
    WK_AGREE(prefix##_held, wk::kMapHeld)                                                                      \
    WK_AGREE(prefix##_second, wk::kMapSecond)                                                                  \
    WK_AGREE(prefix##_control_words, hash_batch::kControlWords)                                                \
    WK_AGREE(prefix##_count_words, wk::kCountWords)
