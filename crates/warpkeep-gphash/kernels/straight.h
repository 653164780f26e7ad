// Writing a batch straight through: all operations do the same, and nothing of it crosses the link but records, in
// the order of their addresses, and one word a key. What else is needed is in device memory: which record a key has (the mirror),
// which slots are empty (copies of the levels), which blocks are free (a list of them).
//
// In steps, a kernel each: keys are enrolled, so that of equal ones each knows who is the first and who the last; operations are
// decided, slots claimed in the copies, and blocks handed out; records are written, and after them the words that make them count, here
// by one kernel; see parts.h for large batches.
//
// Where there is a log, the host is told between deciding and writing which operations act, and logs them; nothing of the batch is in the
// image before it has.
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
    // The key's entry in the mirror while it is veiled, if it has one; of batches in parts.
    U128* entry;
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
    u64 reserved[2];
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
    // What the mirror has for each key, if that is known already and verified; or null.
    const u64* records;
    // Free blocks, as many as there are operations.
    const u64* blocks;
    Act* acts;
    Came* came;
    u32* asks;
    u64* retired;
    // For each that acts what its entry is to say, if not its record; null if there is no value cache.
    u64* rows;
    // For each operation, whether it acts; null if nobody wants to know.
    u8* acting;
    // For acts in the order of their slots: as they were decided; for each its place among those of its region; for each region how many
    // there are. Null if they stay in the order of the batch.
    Act* decided;
    u32* ranks;
    u32* regions;
    // In host memory, where the host stores the words: first, for each part, which acts it has; then where each word goes, and what it is.
    // Null if the device stores them itself.
    U128* words;
    // A region has 2^shift slots.
    u32 shift;
    u32 op;
    u32 block_len;
    u32 wide;
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

// Whether two operations have the same key, which is likely: they have the same hash.
WK_DEVICE bool same_row(const StraightParams& p, u64 one, u64 other) {
    u32 words = p.table.key_words();
    u64 differ = 0;
    for (u32 i = 0; i < words; i++) differ |= load(p.keys + one * words + i) ^ load(p.keys + other * words + i);
    return differ == 0;
}

// Everything about the operation of a lane but its record: whether it acts.
WK_DEVICE bool plan_one(const StraightParams& p, u64 index, u64 hash, u64 record, Act& act) {
    const Table& t = p.table;
    Enrolled* its = enrolment(p, hash);
    u64 the_first = p.count - load<Scope::Device, Order::Relaxed>(&its->first);
    u64 the_last = load<Scope::Device, Order::Relaxed>(&its->last) - 1;
    bool first = the_first == index, last = the_last == index;
    // Another key with the same hash is enrolled with this one. If both ends are this key's they are right for it, and the other is done
    // by the CPU; if not, both are.
    if (t.key_len() != 8 && !(same_row(p, index, the_first) && same_row(p, index, the_last))) record = kVeiled;
    bool there = record > kVeiled;
    Decision decision = decide_among(p.op, there, first, last);
    bool asks = record == kVeiled;
    act = Act{0, 0, 0, nullptr, nullptr, (u32)index, kNone};
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

// The region of an act: slots that are near each other in the image.
WK_DEVICE u32 region_of_act(const StraightParams& p, const Act& act) {
    u64 region = (u64)(act.copy - p.copies) >> p.shift;
    return region < kRegions ? (u32)region : kRegions - 1;
}

WK_DEVICE void store_act(Act* to, const Act& act) {
    store(&to->at, act.at);
    store(&to->word, act.word);
    store(&to->old, act.old);
    store(&to->copy, act.copy);
    store(&to->index, act.index);
    store(&to->kind, act.kind);
}

WK_DEVICE Act load_act(const Act* from) {
    return Act{load(&from->at), load(&from->word), load(&from->old), load(&from->copy), nullptr, load(&from->index), load(&from->kind)};
}

// The words of a block: the value, the key, the version, and zeros to its end, so that whole lines go over the link.
WK_DEVICE u64 block_word(const StraightParams& p, u32 index, u32 i) {
    const Table& t = p.table;
    u32 values = t.value_words(), keys = t.record_key_words();
    if (i < values) return load(p.values + (u64)index * values + i);
    if (i < values + keys) return load(p.keys + (u64)index * t.key_words() + i - values);
    return i == values + keys ? p.first_version + index : 0;
}

// A piece of a record: whose, and which. What a thread writes at once.
struct Piece {
    u64 number;
    u32 part;
};

// Bytes of a block. Of those in tiles the compiler knows them, and divides by them without a division.
WK_DEVICE u32 block_len(const StraightParams& p) {
    return p.table.tiled() ? p.table.value_len() + p.table.tail_len() : p.block_len;
}

// As many threads as there are pieces of so many records that are side by side in the list of blocks; in tiles, of all that they are in.
WK_DEVICE u64 pieces_of(const StraightParams& p, u64 records) {
    return (p.table.tiled() ? records + 2 * p.table.tile_records() : records) * (block_len(p) / (p.wide ? 16 : 8));
}

// Divisions of long words are slow, and each piece takes one.
WK_DEVICE u64 divided(u64 by_what, u32 by) { return by_what >> 32 ? by_what / by : (u32)by_what / by; }

// Records in front of those that are side by side in the list of blocks from `first` on, in the same tile.
WK_DEVICE u64 before_in_tile(const StraightParams& p, u64 first) { return p.table.tiled() ? load(p.blocks + first) % 128 / 8 : 0; }

// The piece that a thread writes, of records that are side by side in the list of blocks. Neighbours write neighbouring bytes; of a
// tile, first the values of its records and then their tails. Numbers that are not of those records are nobody's. `Part` is what a thread
// writes at once.
template <class Part> WK_DEVICE Piece piece_of(const StraightParams& p, u64 before, u64 thread) {
    const Table& t = p.table;
    u32 size = sizeof(Part), parts = block_len(p) / size;
    if (!t.tiled()) {
        u64 number = divided(thread, parts);
        return Piece{number, (u32)(thread - number * parts)};
    }
    u32 records = t.tile_records(), values = t.value_len() / size, tails = t.tail_len() / size;
    u64 group = divided(thread, records * parts);
    u32 within = (u32)(thread - group * records * parts);
    bool of_value = within < records * values;
    u32 behind = within - records * values;
    u32 record = of_value ? within / values : behind / tails;
    u32 part = of_value ? within % values : values + behind % tails;
    u64 number = group * records + record;
    return Piece{number < before ? ~0ull : number - before, part};
}

// What a piece of the record of an operation has.
WK_DEVICE void piece_words(const StraightParams& p, u32 index, u32 part, u64& words) { words = block_word(p, index, part); }

WK_DEVICE void piece_words(const StraightParams& p, u32 index, u32 part, U128& words) {
    u32 values = p.table.value_words();
    if (2 * part < values) words = load((const U128*)(p.values + (u64)index * values) + part);
    else words = U128{block_word(p, index, 2 * part), block_word(p, index, 2 * part + 1)};
}

WK_DEVICE void store_piece(const Table& t, u64 at, const u64& words) { poke(t, at, words); }
WK_DEVICE void store_piece(const Table& t, u64 at, const U128& words) { store_streaming((U128*)t.at(at), words); }

// Pieces that a thread has under way at once.
constexpr u32 kPieces = 4;

template <class Part>
WK_DEVICE void write_parts(const StraightParams& p, u64 first, u64 count, u64 before, u64 piece, u64 stride) {
    const Table& t = p.table;
    u32 parts[kPieces], indexes[kPieces];
    u64 records[kPieces];
    for (u32 i = 0; i < kPieces; i++) {
        Piece its = piece_of<Part>(p, before, piece + i * stride);
        bool is = its.number < count;
        const Act* act = p.acts + first + its.number;
        parts[i] = its.part;
        indexes[i] = is ? load(&act->index) : 0;
        records[i] = is ? record_of(t, load(&act->word)) : 0;
    }
    Part words[kPieces];
    for (u32 i = 0; i < kPieces; i++) {
        if (records[i]) piece_words(p, indexes[i], parts[i], words[i]);
    }
    for (u32 i = 0; i < kPieces; i++) {
        if (records[i]) store_piece(t, t.word_at(records[i], sizeof(Part) / 8 * parts[i]), words[i]);
    }
}

// Writes pieces of `count` records that are side by side in the list of blocks from `first` on: every `stride`-th of `kPieces`, from `piece` on,
// of those that there are.
WK_DEVICE void write_pieces(const StraightParams& p, u64 first, u64 count, u64 before, u64 piece, u64 stride) {
    if (p.wide) write_parts<U128>(p, first, count, before, piece, stride);
    else write_parts<u64>(p, first, count, before, piece, stride);
}

// Sends readers of an act's key to the image; its entry, if it has one.
WK_DEVICE U128* veil_act(const StraightParams& p, const Act* act) {
    if (left_out(Step::Mirrored)) return nullptr;
    const Table& t = p.table;
    Key key{p.keys + load(&act->index) * t.key_words(), t.key_len()};
    return veil_entry(t, key, load(&act->kind) != kClear);
}

// Whose word is in the image: it reaches the copies and the mirror, and what it was instead of is gone. All lanes of a warp, each with
// an act or none.
WK_DEVICE void settle_act(const StraightParams& p, const Act* act, bool mine, U128* entry) {
    Warp warp;
    u32 kind = mine ? load(&act->kind) : kNone;
    u64 word = mine ? load(&act->word) : 0, old = mine ? load(&act->old) : 0;
    if (mine) store<Scope::Device, Order::Relaxed>(load(&act->copy), word);
    u64 row = mine && p.rows ? load(p.rows + (act - p.acts)) : 0;
    if (entry) set_entry(entry, kind == kClear ? removed(p.table) : row ? row : record_of(p.table, word));
    u64 created = popc(warp.ballot(kind == kFill)), removed = popc(warp.ballot(kind == kClear));
    if (lane() == 0 && created) fetch_add(&p.came->created, created);
    if (lane() == 0 && removed) fetch_add(&p.came->removed, removed);
    u64 place = take_number(&p.came->retired, old != 0);
    if (old) store(p.retired + place, old);
}

// Writes the records of some acts and makes them count: in the image, then in the copies and the mirror. All threads of a block, or of a
// warp that is one; the first of its warps has an act in each lane.
WK_DEVICE void finish(const StraightParams& p, u64 block) {
    u64 acts = load(&p.came->acts), first = block * kWarp;
    if (first >= acts) return;
    u32 count = acts - first < kWarp ? (u32)(acts - first) : kWarp;
    bool mine = thread_index() < count;
    const Act* act = p.acts + first + thread_index();
    if (left_out(Step::Apart) && mine) poke(p.table, load(&act->at), load(&act->word));
    u64 pieces = p.op == kDelete ? 0 : pieces_of(p, count);
    u64 before = pieces ? before_in_tile(p, first) : 0;
    for (u64 i = thread_index(); i < pieces; i += kPieces * block_size()) write_pieces(p, first, count, before, i, block_size());
    U128* entry = mine ? veil_act(p, act) : nullptr;
    // Records before the words that lead to them; and whoever finds a new word in the image, the CPU too, finds nothing older in the
    // mirror afterwards.
    fence_block_at(Step::Written);
    if (mine) poke(p.table, load(&act->at), load(&act->word));
    // Words before the acknowledgement, before entries, and before what they led to is used again.
    fence_block_at(Step::Published);
    if (warp_in_block() == 0) settle_act(p, act, mine, entry);
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
    if (index - lane() >= p.count) return;
    bool mine = index < p.count;
    Key key{p.keys + index * t.key_words(), t.key_len()};
    u64 hash = mine ? key.hash(t.seed) : 0;
    u64 record = kVeiled;
    if (p.records) {
        if (mine) record = load(p.records + index);
    } else {
        u64 said = locate_own(t, hash, key, mine);
        // Other keys can have the same hash; a key whose hash nobody has is new for certain.
        bool doubtful = mine && said > kVeiled && !tells_keys_apart(t);
        record = doubtful && !record_has_key(t, key_behind(t, said), key) ? kVeiled : record_behind(t, said);
    }
    Act act{0, 0, 0, nullptr, nullptr, 0, kNone};
    bool acts = mine && plan_one(p, index, hash, record, act);
    if (p.acting && mine) store(p.acting + index, (u8)acts);
    u64 number = take_number(&p.came->acts, acts);
    u32 acting = Warp().ballot(acts);
    // Behind the regions, how many there are in all.
    if (p.decided && lane() == 0 && acting) fetch_add(p.regions + kRegions, popc(acting));
    if (!acts) return;
    if (p.decided) {
        store(p.ranks + number, fetch_add(p.regions + region_of_act(p, act), 1u));
        act.word = t.state_of(hash, 0);
        store_act(p.decided + number, act);
    } else {
        act.word = act.kind == kClear ? kEmpty : t.state_of(hash, load(p.blocks + number));
        store_act(p.acts + number, act);
    }
}

// Writes records and makes them count, of a small batch. A block for as many acts as a warp has lanes.
WK_KERNEL(gphash_finish, gphash::StraightParams) {
    using namespace gphash;
    finish(p, block_index());
}
