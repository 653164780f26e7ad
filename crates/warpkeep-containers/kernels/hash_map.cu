// Batches of operations on a hash map, displacement, doubling, and what is asked of the whole map. The host's side is src/hash_map.
#include "warpkeep/append.h"
#include "warpkeep/hash_map.h"

namespace hash_map {

using namespace wk;

// Threads of a block.
constexpr u32 kThreads = 128;
// Words of HashMapRef::control.
enum Control : u32 { kLength, kPending, kWrongPlace, kTwice, kReserved, kHeld, kSecondChoice, kControlWords };
// How many keys a displacement moves, at most.
constexpr u32 kMostMoves = 4;

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

struct Batch {
    HashMapRef map;
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

struct Lookup {
    HashMapRef map;
    const u64* keys;
    u8* statuses;
    u64* values;
    u64 count;
};

// Two halves: slots that were there, and as many above them. The mask is that of the lower half.
struct Doubling {
    HashMapRef map;
    u64 slots;
};

struct Whole {
    HashMapRef map;
    u64* keys;
    u64* values;
    u64 slots;
    // How many pairs both columns have room for.
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

    WK_DEVICE Run(const Batch& p, u32 number) : present(false), value(0) {
        begin = load(p.begins + number);
        end = number + 1 < p.runs ? load(p.begins + number + 1) : p.count;
        hash = rotl(load(p.sorted + begin), p.rotation);
    }

    WK_DEVICE void work(const Batch& p, bool is_full) {
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
struct Turn {
    bool mine;
    u32 number;

    WK_DEVICE explicit Turn(const Batch& p) : number(0) {
        u64 i = global_index();
        mine = i < (p.list ? p.listed : p.runs);
        if (mine) number = p.list ? load(p.list + i) : (u32)i;
    }

    // Puts the runs that found no slot on the list. All lanes of a warp take part.
    WK_DEVICE void finish(const Batch& p, bool is_pending, bool more, bool fewer) const {
        u64 at = append_by_warp(p.map.control + kPending, is_pending);
        if (is_pending) store(p.pending + at, number);
        count_change(p.map.control + kLength, more, fewer);
    }
};

// Moves keys to their other buckets until one of the new key's has room. No other thread looks for keys meanwhile; others may displace, too. A slot is
// kept by a mark while the key for it is on its way, so nobody else moves that key or takes the slot; whatever happens, a key that was there is there.
struct Displacement {
    const HashMapRef& map;
    u64 hash;
    u64 value;

    WK_DEVICE bool run() const {
        if (map.claim(hash, value)) return true;
        for (u32 moves = 1; moves <= kMostMoves; moves++) {
            for (u32 path = 0; path < 2u << 2 * moves; path++) {
                if (follow(path, moves)) return true;
            }
        }
        return false;
    }

    // A slot on a path, its key, and that key's other bucket. The path ends before it if there is no slot.
    struct Step {
        U128* slot;
        U128 word;
        u64 other;
    };

    // A path begins in one of the key's two buckets, by its lowest bit; then each two bits choose the slot whose key goes to its other bucket.
    WK_DEVICE Step step(u32 path, u32 number) const {
        u64 bucket = path & 1 ? map.partner(hash, map.first(hash)) : map.first(hash);
        Step step{nullptr, U128{0, 0}, 0};
        for (u32 i = 0; i <= number; i++, bucket = step.other) {
            step.slot = map.bucket(bucket) + (path >> (1 + 2 * i)) % kMapSlots;
            step.word = load<Scope::Device, Order::Relaxed>(step.slot);
            if (!(step.word.lo & kMapHeld)) return Step{nullptr, U128{0, 0}, 0};
            step.other = map.partner(map.hash_in(step.word, bucket), bucket);
        }
        return step;
    }

    // Moves the keys of a path, the last one first. Each step is looked up again: others may have changed it, and a path can come back to a slot.
    WK_DEVICE bool follow(u32 path, u32 moves) const {
        Step last = step(path, moves - 1);
        U128* free = last.slot ? reserve(map.bucket(last.other)) : nullptr;
        if (!free) return false;
        for (u32 i = moves; i-- > 0;) {
            Step next = step(path, i);
            bool fits = next.slot && next.other == (u64)(free - map.slots) / kMapSlots;
            if (!fits || !mark(next.slot, next.word)) {
                store<Scope::Device, Order::Relaxed>(free, U128{0, 0});
                return false;
            }
            // The bits of the hash that it stores are the same in both buckets.
            store<Scope::Device, Order::Relaxed>(free, U128{next.word.lo ^ kMapSecond, next.word.hi});
            free = next.slot;
        }
        store<Scope::Device, Order::Relaxed>(free, map.word(hash, path & 1, value));
        return true;
    }

    WK_DEVICE static U128* reserve(U128* bucket) {
        for (u32 i = 0; i < kMapSlots; i++) {
            if (HashMapRef::take(bucket + i, U128{kMapReserved, 0})) return bucket + i;
        }
        return nullptr;
    }

    // Takes a key out of its slot, if it is still there, and keeps the slot.
    WK_DEVICE static bool mark(U128* slot, const U128& word) {
        U128 reserved{kMapReserved, 0};
        if (WK_FAULT_POINT("hash_map.mark")) {
            store<Scope::Device, Order::Relaxed>(slot, reserved);
            return true;
        }
        return same(cas<Scope::Device, Order::Relaxed>(slot, word, reserved), word);
    }
};

}  // namespace hash_map

// What a batch is sorted by, and the numbers of its operations.
WK_KERNEL_OF(hash_map_plan, hash_map::Plan, hash_map::kThreads) {
    using namespace hash_map;
    u64 i = global_index();
    if (i >= p.count) return;
    store(p.sorted + i, rotl(mix64(p.seed, load(p.keys + i)), 64 - (u32)p.rotation));
    store(p.numbers + i, (u32)i);
}

// A thread for each run: it alone uses the key. Threads compete for empty slots only.
WK_KERNEL_OF(hash_map_apply, hash_map::Batch, hash_map::kThreads) {
    using namespace hash_map;
    Turn turn(p);
    bool is_pending = false, more = false, fewer = false;
    if (turn.mine) {
        Run run(p, turn.number);
        HashMapRef::Place place = p.map.locate(run.hash);
        run.present = place.at != nullptr;
        run.value = place.word.hi;
        run.work(p, false);
        if (place.at && !run.present) {
            store<Scope::Device, Order::Relaxed>(place.at, U128{0, 0});
            fewer = true;
        } else if (place.at && run.value != place.word.hi) {
            store<Scope::Device, Order::Relaxed>(place.at, U128{place.word.lo, run.value});
        } else if (!place.at && run.present) {
            more = p.map.claim(run.hash, run.value);
            is_pending = !more;
        }
    }
    turn.finish(p, is_pending, more, fewer);
}

// A thread for each listed run, whose keys are not there: displaces others for them.
WK_KERNEL_AT_ONCE(hash_map_place, hash_map::Batch, hash_map::kThreads, 4) {
    using namespace hash_map;
    Turn turn(p);
    bool is_pending = false, more = false;
    if (turn.mine) {
        Run run(p, turn.number);
        run.work(p, false);
        if (run.present) {
            more = Displacement{p.map, run.hash, run.value}.run();
            is_pending = !more;
        }
    }
    turn.finish(p, is_pending, more, false);
}

// Answers listed runs, whose keys are not there, that there is no room.
WK_KERNEL_OF(hash_map_refuse, hash_map::Batch, hash_map::kThreads) {
    using namespace hash_map;
    Turn turn(p);
    if (turn.mine) Run(p, turn.number).work(p, true);
}

// A thread for each key. Four of them read a bucket together.
WK_KERNEL_OF(hash_map_find, hash_map::Lookup, hash_map::kThreads) {
    using namespace hash_map;
    u64 i = global_index();
    bool mine = i < p.count, found = false;
    u64 hash = mine ? p.map.hash(load(p.keys + i)) : 0, value = 0, bucket = p.map.first(hash);
    for (u32 second = 0; second < 2; second++, bucket = p.map.partner(hash, bucket)) {
        if (!Warp().any(mine && !found)) break;
        Line line = Lines::at(p.map.slots, (u32)bucket, kMapSlots, kMapSlots).own();
        u64 wanted = p.map.word(hash, second, 0).lo;
        for (u32 slot = 0; slot < kMapSlots; slot++) {
            if (found || line.parts[slot].lo != wanted) continue;
            found = true;
            value = line.parts[slot].hi;
        }
    }
    if (!mine) return;
    store(p.statuses + i, (u8)(found ? MapStatus::Found : MapStatus::Absent));
    if (p.values) store(p.values + i, value);
}

// A thread for each slot: the key stays in its bucket, or goes to the bucket as far above as there were buckets.
WK_KERNEL_OF(hash_map_double, hash_map::Doubling, hash_map::kThreads) {
    using namespace hash_map;
    u64 i = global_index();
    if (i >= p.slots) return;
    const HashMapRef& map = p.map;
    U128 word = load(map.slots + i), low{0, 0}, high{0, 0};
    if (word.lo & kMapHeld) {
        u64 hash = map.hash_in(word, i / kMapSlots);
        bool second = word.lo & kMapSecond;
        HashMapRef wider{map.slots, map.control, map.seed, 2 * map.mask + 1};
        u64 first = wider.first(hash), bucket = second ? wider.partner(hash, first) : first;
        (bucket > map.mask ? high : low) = wider.word(hash, second, word.hi);
    }
    store(map.slots + i, low);
    store(map.slots + p.slots + i, high);
}

// A thread for each slot: lists all keys with their values, in no order.
WK_KERNEL_OF(hash_map_retrieve, hash_map::Whole, hash_map::kThreads) {
    using namespace hash_map;
    u64 i = global_index();
    U128 word = i < p.slots ? load(p.map.slots + i) : U128{0, 0};
    bool held = word.lo & kMapHeld;
    u64 at = append_by_warp(p.map.control + kPending, held);
    if (!held || at >= p.room) return;
    store(p.keys + at, p.map.key(p.map.hash_in(word, i / kMapSlots)));
    store(p.values + at, word.hi);
}

// A thread for each slot: counts what should not be, and what there is.
WK_KERNEL_OF(hash_map_verify, hash_map::Whole, hash_map::kThreads) {
    using namespace hash_map;
    u64 i = global_index();
    U128 word = i < p.slots ? load(p.map.slots + i) : U128{0, 0};
    bool held = word.lo & kMapHeld, second = held && word.lo & kMapSecond;
    bool wrong = false;
    bool reserved = !held && (word.lo | word.hi);
    bool twice = false;
    if (held) {
        u64 bucket = i / kMapSlots, hash = p.map.hash_in(word, bucket);
        // A lookup of the key comes to a slot that has it, in this bucket or the other.
        u64 found = 0;
        wrong = word.lo & p.map.mask & ~(kMapHeld | kMapSecond) || !p.map.find(p.map.key(hash), found);
        // All eight slots of the key: no other has it.
        for (u32 other = 0; other < 2; other++, bucket = p.map.partner(hash, bucket)) {
            u64 same = p.map.word(hash, second != (bool)other, 0).lo;
            for (u32 slot = 0; slot < kMapSlots; slot++) {
                u64 at = bucket * kMapSlots + slot;
                twice |= at != i && load(p.map.slots + at).lo == same;
            }
        }
    }
    count_change(p.map.control + kWrongPlace, wrong, false);
    count_change(p.map.control + kTwice, twice, false);
    count_change(p.map.control + kReserved, reserved, false);
    count_change(p.map.control + kHeld, held, false);
    count_change(p.map.control + kSecondChoice, second, false);
}

// The host has the same: src/hash_map.
WK_AGREE(hash_map_ref_bytes, sizeof(wk::HashMapRef))
WK_AGREE(hash_map_slots, wk::kMapSlots)
WK_AGREE(hash_map_least_bits, wk::kMapLeastBits)
WK_AGREE(hash_map_most_bits, wk::kMapMostBits)
WK_AGREE(hash_map_held, wk::kMapHeld)
WK_AGREE(hash_map_second, wk::kMapSecond)
WK_AGREE(hash_map_control_words, hash_map::kControlWords)
WK_AGREE(hash_map_inserted, wk::MapStatus::Inserted)
WK_AGREE(hash_map_updated, wk::MapStatus::Updated)
WK_AGREE(hash_map_found, wk::MapStatus::Found)
WK_AGREE(hash_map_absent, wk::MapStatus::Absent)
WK_AGREE(hash_map_erased, wk::MapStatus::Erased)
WK_AGREE(hash_map_full, wk::MapStatus::Full)
WK_AGREE(hash_map_insert, wk::MapOp::Insert)
WK_AGREE(hash_map_put, wk::MapOp::Put)
WK_AGREE(hash_map_add, wk::MapOp::Add)
WK_AGREE(hash_map_min, wk::MapOp::Min)
WK_AGREE(hash_map_max, wk::MapOp::Max)
WK_AGREE(hash_map_find_op, wk::MapOp::Find)
WK_AGREE(hash_map_contains, wk::MapOp::Contains)
WK_AGREE(hash_map_erase, wk::MapOp::Erase)
