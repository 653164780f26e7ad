// Writing a batch straight through: nothing is logged, all operations do the same, and nothing of it crosses the link but records, in
// the order of their addresses, and one word a key. What else is needed is in device memory: which record a key has (the mirror),
// which slots are empty (copies of the levels), which blocks are free (a list of them).
//
// In steps, a kernel each: keys are enrolled, so that of equal ones each knows who is the first and who the last; operations are
// decided, slots claimed in the copies, and blocks handed out; records are written; then the words that make them count.
//
// In the image slots go from one word to another in one step, and nothing is ever claimed there: a crash leaves each key what it had, or
// what it was to have. Blocks that nothing leads to are found by marking.
#pragma once
#include "lookup.h"
#include "stage.h"

namespace gphash {

// Of an operation that is left to the CPU: it has its answer already.
constexpr u32 kAnswered = 1u << 31;

// A key of the batch, by its hash. Places in the batch are counted so that what was never set is less than all of them.
struct Enrolled {
    u64 hash;
    // The first operation on it, counted from the end of the batch; the last, counted from 1.
    u32 first;
    u32 last;
};

// An operation that changes something.
struct Act {
    // The slot, as an offset in the image; the word it gets; the record that goes, or 0.
    u64 at;
    u64 word;
    u64 old;
    // The slot in the copies.
    u64* copy;
    u32 index;
    u32 kind;
};

// What a batch came to.
struct Came {
    u64 acts;
    u64 created;
    u64 removed;
    // Operations that are left to the CPU.
    u64 asked;
    // Records that are gone.
    u64 retired;
    // Rows of the value cache that were asked for.
    u64 rows;
};

struct StraightParams {
    Table table;
    u64 count;
    const u64* keys;
    const u64* values;
    u8* statuses;
    // Operation i gives what it writes this version plus i.
    u64 first_version;
    // The states of all open levels, one after the other.
    u64* copies;
    // An enrolment for each key, a power of two of them; and one more, for the key whose hash is 0.
    Enrolled* enrolled;
    u64 enrolments;
    // Free blocks, as many as there are operations.
    const u64* blocks;
    Act* acts;
    Came* came;
    u32* asks;
    u64* retired;
    // For each that acts what its entry is to say, if not its record; null if there is no value cache.
    u64* rows;
    u32 op;
    u32 block_len;
    u32 wide;
    u32 reserved;
};

// What all lanes of a block have stored, before what any of them stores next. One lane fences for all of them: it has met them before,
// and they meet it afterwards, so what they did is ordered with what it did; and a fence waits for the link, which a thousand do no faster.
WK_DEVICE void fence_block() {
    sync_block();
    if (thread_index() == 0) persist_fence();
    sync_block();
}

WK_DEVICE void fence_block_at(Step step) {
    if (!left_out(step)) fence_block();
}

// The next of a list for each lane that wants one, in the order of the lanes. All lanes ask.
WK_DEVICE u64 take_number(u64* next, bool wants) {
    Warp warp;
    u32 wanting = warp.ballot(wants);
    u64 first = 0;
    if (lane() == 0 && wanting) first = fetch_add(next, (u64)popc(wanting));
    return warp.shfl(first, 0) + popc(wanting & ((1u << lane()) - 1));
}

// Where a key's enrolment is: it is there, or this lane has made it.
WK_DEVICE Enrolled* enrolment(const StraightParams& p, u64 hash) {
    if (hash == 0) return p.enrolled + p.enrolments;
    for (u64 at = hash & (p.enrolments - 1);; at = (at + 1) & (p.enrolments - 1)) {
        u64 had = load<Scope::Device, Order::Relaxed>(&p.enrolled[at].hash);
        if (had == 0) had = cas<Scope::Device, Order::Relaxed>(&p.enrolled[at].hash, 0ull, hash);
        if (had == 0 || had == hash) return p.enrolled + at;
    }
}

// What an operation is answered, and whether it is the one to act for its key.
WK_DEVICE Decision decide_among(u32 op, bool there, bool first, bool last) {
    switch (op) {
    case kPut: return Decision{(u8)(there || !first ? kOk : kCreated), last};
    case kInsertOp: return Decision{(u8)(there || !first ? kAlreadyExists : kCreated), first && !there};
    case kUpdate: return Decision{(u8)(there ? kOk : kNotFound), last && there};
    default: return Decision{(u8)(there && first ? kOk : kNotFound), first && there};
    }
}

// Where the states of a bucket are, in the copies.
WK_DEVICE u64* copied_bucket(const StraightParams& p, u32 level, u64 bucket) {
    const Table& t = p.table;
    u64 before = first_number(t, level) - first_number(t, t.open_first);
    return p.copies + (before + bucket) * t.slots();
}

// A slot, in the image and in the copies.
struct Copied {
    u64 at;
    u64* copy;
};

WK_DEVICE Copied copied_slot(const StraightParams& p, u32 level, u64 bucket, u32 slot) {
    return Copied{bucket_at(p.table, p.table.level[level], bucket) + 8 * slot, copied_bucket(p, level, bucket) + slot};
}

// The slot that has this word, for one lane; none if it is in the overflow.
WK_DEVICE Copied find_word(const StraightParams& p, u64 hash, u64 word) {
    const Table& t = p.table;
    for (u32 level = t.open_first; level < t.open_first + t.open_count; level++) {
        for (u32 location = 0; location < t.hashes(); location++) {
            u64 bucket = top_bucket(t, hash, location) >> level;
            u64* states = copied_bucket(p, level, bucket);
            for (u32 slot = 0; slot < t.slots(); slot++) {
                if (load<Scope::Device, Order::Relaxed>(states + slot) == word) return copied_slot(p, level, bucket, slot);
            }
        }
    }
    return Copied{0, nullptr};
}

// Empty slots of a bucket in the copies.
WK_DEVICE u32 room_in(const StraightParams& p, u32 level, u64 bucket) {
    u64* states = copied_bucket(p, level, bucket);
    u32 room = 0;
    for (u32 slot = 0; slot < p.table.slots(); slot++) room += load<Scope::Device, Order::Relaxed>(states + slot) == kEmpty;
    return room;
}

// Claims an empty slot in the copies, for one lane: where the CPU and `choose` would have it. None if there is none.
WK_DEVICE Copied claim_copied(const StraightParams& p, u64 hash) {
    const Table& t = p.table;
    for (u32 level = t.open_first; level < t.open_first + t.open_count; level++) {
        for (;;) {
            u64 best = top_bucket(t, hash, 0) >> level;
            u32 most = room_in(p, level, best);
            if (2 * most < t.slots()) {
                for (u32 location = 1; location < t.hashes(); location++) {
                    u64 bucket = top_bucket(t, hash, location) >> level;
                    u32 room = room_in(p, level, bucket);
                    if (room > most) {
                        best = bucket;
                        most = room;
                    }
                }
            }
            if (most == 0) break;
            for (u32 slot = 0; slot < t.slots(); slot++) {
                Copied place = copied_slot(p, level, best, slot);
                if (load<Scope::Device, Order::Relaxed>(place.copy) != kEmpty) continue;
                if (left_out(Step::Claimed)) {
                    store<Scope::Device, Order::Relaxed>(place.copy, kInsert);
                    return place;
                }
                if (cas<Scope::Device, Order::Relaxed>(place.copy, kEmpty, kInsert) == kEmpty) return place;
            }
            // Whoever was faster has filled one of finitely many.
        }
    }
    return Copied{0, nullptr};
}

// Everything about the operation of a lane but its record: whether it acts.
WK_DEVICE bool plan_one(const StraightParams& p, u64 index, u64 hash, u64 record, Act& act) {
    const Table& t = p.table;
    Enrolled* its = enrolment(p, hash);
    bool first = load<Scope::Device, Order::Relaxed>(&its->first) == (u32)(p.count - index);
    bool last = load<Scope::Device, Order::Relaxed>(&its->last) == (u32)(index + 1);
    bool there = record > kVeiled;
    Decision decision = decide_among(p.op, there, first, last);
    bool asks = record == kVeiled;
    act = Act{0, 0, 0, nullptr, (u32)index, kNone};
    if (!asks && decision.writes) {
        Copied place = there ? find_word(p, hash, t.state_of(hash, record)) : claim_copied(p, hash);
        // In the overflow, or nowhere yet.
        asks = place.at == 0;
        act.at = place.at;
        act.copy = place.copy;
        act.old = there ? record : 0;
        act.kind = !there ? kFill : p.op == kDelete ? kClear : kReplaceWord;
    }
    // The CPU answers for keys that nothing is known of; for others it says so only if it cannot do it.
    bool known = record != kVeiled;
    if (known) store(p.statuses + index, decision.status);
    if (asks) store(p.asks + fetch_add(&p.came->asked, (u64)1), (u32)index | (known ? kAnswered : 0));
    return decision.writes && !asks;
}

// The words of a block: the value, the key, the version, and zeros to its end, so that whole lines go over the link.
WK_DEVICE u64 block_word(const StraightParams& p, u32 index, u32 i) {
    const Table& t = p.table;
    u32 values = t.value_words(), keys = t.record_key_words();
    if (i < values) return load(p.values + (u64)index * values + i);
    if (i < values + keys) return load(p.keys + (u64)index * t.key_words() + i - values);
    return i == values + keys ? p.first_version + index : 0;
}

// A piece of a record: whose, and which.
struct Piece {
    u64 number;
    u32 part;
};

// The piece that a thread writes. Neighbours write neighbouring bytes; of a tile, first the values of its records and then their tails, if its
// records come one after the other in the list of blocks. Numbers beyond the last are nobody's.
WK_DEVICE Piece piece_of(const StraightParams& p, u64 thread) {
    const Table& t = p.table;
    u32 size = p.wide ? 16 : 8, parts = p.block_len / size;
    if (!t.tiled()) return Piece{thread / parts, (u32)(thread % parts)};
    u32 records = t.tile_records(), values = t.value_len() / size, tails = t.tail_len() / size;
    parts = values + tails;
    u64 group = thread / (records * parts);
    u32 within = (u32)(thread % (records * parts));
    bool of_value = within < records * values;
    u32 behind = within - records * values;
    u32 record = of_value ? within / values : behind / tails;
    u32 part = of_value ? within % values : values + behind % tails;
    // The list may begin in the middle of a tile.
    u64 before = load(p.blocks) % 128 / 8;
    u64 number = group * records + record;
    return Piece{number < before ? ~0ull : number - before, part};
}

struct RecopyParams {
    Table table;
    u64* copies;
    u64 count;
    // Words of the image that were changed; null for all slots of the open levels.
    const u64* offsets;
};

}  // namespace gphash

// Copies states again. A thread each.
WK_KERNEL(gphash_recopy, gphash::RecopyParams) {
    using namespace gphash;
    const Table& t = p.table;
    u64 i = global_index();
    if (i >= p.count) return;
    u64 at = p.offsets ? load(p.offsets + i) : 0;
    u64* to = p.copies;
    for (u32 level = t.open_first; level < t.open_first + t.open_count; level++) {
        u64 slots = t.level[level].buckets * t.slots();
        u64 slot = p.offsets ? (at - t.level[level].offset) / 8 : i;
        bool here = p.offsets ? at >= t.level[level].offset && slot < slots : i < slots;
        if (here) {
            store<Scope::Device, Order::Relaxed>(to + slot, peek(t, t.level[level].offset + 8 * slot));
            return;
        }
        to += slots;
        if (!p.offsets) i -= slots;
    }
}

// Enrols keys. A thread an operation.
WK_KERNEL(gphash_enrol, gphash::StraightParams) {
    using namespace gphash;
    u64 index = global_index();
    if (index >= p.count) return;
    Key key{p.keys + index * p.table.key_words(), p.table.key_len()};
    Enrolled* its = enrolment(p, key.hash(p.table.seed));
    fetch_max(&its->first, (u32)(p.count - index));
    fetch_max(&its->last, (u32)(index + 1));
}

// Decides, claims and hands out blocks. A thread an operation.
WK_KERNEL(gphash_decide, gphash::StraightParams) {
    using namespace gphash;
    const Table& t = p.table;
    u64 index = global_index();
    if (index / kWarp * kWarp >= p.count) return;
    Key key{p.keys + index * t.key_words(), t.key_len()};
    u64 hash = index < p.count ? key.hash(t.seed) : 0;
    u64 record = record_behind(t, locate(t.mirror, hash));
    Act act{0, 0, 0, nullptr, 0, kNone};
    bool acts = index < p.count && plan_one(p, index, hash, record, act);
    u64 number = take_number(&p.came->acts, acts);
    if (!acts) return;
    act.word = act.kind == kClear ? kEmpty : t.state_of(hash, load(p.blocks + number));
    Act* to = p.acts + number;
    store(&to->at, act.at);
    store(&to->word, act.word);
    store(&to->old, act.old);
    store(&to->copy, act.copy);
    store(&to->index, act.index);
    store(&to->kind, act.kind);
}

// Writes records. A thread for each part of a block: neighbours write neighbouring bytes, of neighbouring blocks.
WK_KERNEL(gphash_write, gphash::StraightParams) {
    using namespace gphash;
    const Table& t = p.table;
    Piece mine = piece_of(p, global_index());
    u64 number = mine.number;
    u32 part = mine.part;
    if (number < load(&p.came->acts)) {
        const Act* act = p.acts + number;
        u32 index = load(&act->index);
        u64 block = record_of(t, load(&act->word));
        if (left_out(Step::Apart) && part == 0) poke(t, load(&act->at), load(&act->word));
        if (!p.wide) {
            poke(t, t.word_at(block, part), block_word(p, index, part));
        } else if (2 * part < t.value_words()) {
            U128 words = load((const U128*)(p.values + (u64)index * t.value_words()) + part);
            store_streaming((U128*)t.at(t.word_at(block, 2 * part)), words);
        } else {
            U128 words{block_word(p, index, 2 * part), block_word(p, index, 2 * part + 1)};
            store_streaming((U128*)t.at(t.word_at(block, 2 * part)), words);
        }
    }
    // Records before the words that lead to them, which the next kernel stores.
    fence_block_at(Step::Written);
}

// Makes it count: in the image, then in the copies and the mirror. A thread for each that acts.
WK_KERNEL(gphash_commit, gphash::StraightParams) {
    using namespace gphash;
    Warp warp;
    const Table& t = p.table;
    u64 number = global_index();
    u64 acts = load(&p.came->acts);
    // A whole block, because its lanes wait for each other.
    if ((u64)block_index() * block_size() >= acts) return;
    bool mine = number < acts;
    const Act* act = p.acts + number;
    u32 kind = mine ? load(&act->kind) : kNone;
    u64 at = mine ? load(&act->at) : 0, word = mine ? load(&act->word) : 0, old = mine ? load(&act->old) : 0;
    u64* copy = mine ? load(&act->copy) : nullptr;
    U128* entry = nullptr;
    if (mine && !left_out(Step::Mirrored)) {
        Key key{p.keys + load(&act->index) * t.key_words(), t.key_len()};
        entry = veil_entry(t.mirror, key.hash(t.seed), kind != kClear);
    }
    // Whoever finds the new word in the image, the CPU too, finds nothing older in the mirror afterwards.
    fence_block();
    if (mine) poke(t, at, word);
    // Words before the acknowledgement, and before what they led to is used again.
    fence_block_at(Step::Published);
    if (mine) store<Scope::Device, Order::Relaxed>(copy, word);
    u64 row = mine && p.rows ? load(p.rows + number) : 0;
    if (entry) set_entry(entry, kind == kClear ? kGone : row ? row : record_of(t, word));
    u64 created = popc(warp.ballot(kind == kFill)), removed = popc(warp.ballot(kind == kClear));
    if (lane() == 0 && created) fetch_add(&p.came->created, created);
    if (lane() == 0 && removed) fetch_add(&p.came->removed, removed);
    u64 place = take_number(&p.came->retired, old != 0);
    if (old) store(p.retired + place, old);
}
