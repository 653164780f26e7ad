// Writing a batch straight through: all operations do the same, and nothing of it crosses the link but records, in
// the order of their addresses, and one word a key, or what the host is told instead (parts.h). What else is needed is in device memory: which record a key has (the mirror),
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
#include "numbers.h"
#include "stage.h"

namespace gphash {

// Parts of a batch, at the most.
constexpr u32 kMostParts = 64;

// How long somebody waits before he looks again.
constexpr u32 kPauseNanoseconds = 2000;

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
    // The key's entry in the mirror, or a free one for it, as it was when the batch was decided (see `Hint`), or null if nobody has looked; of
    // batches in parts, from when it is veiled on, its entry, or null if it has none.
    U128* entry;
    u32 index;
    u32 kind;
};
static_assert(sizeof(Act) == 48, "acts are moved sixteen bytes at a time");

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
    // Acts of the operations that were decided before the others.
    u64 early;
    // In host memory: not 0 once the rest is there.
    u64 is_told;
};

struct StraightParams {
    Table table;
    u64 count;
    // Operations that a launch decides: from the first on, to the end.
    u64 first;
    u64 end;
    const u64* keys;
    // Null for deletes, for values without bytes, and where the host stores them.
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
    // For each operation, whether it acts; null if nobody wants to know.
    u8* acting;
    // For acts in the order of their slots: as they were decided; for each its place among those of its region; regions of slots. Null if they
    // stay in the order of the batch.
    Act* decided;
    u32* ranks;
    Regions regions;
    // In host memory, where the host stores the words: first, for each part, which acts it has; then, for each part, whether it is sent; then what
    // it is told of each act, see told_word in parts.h. Null if the device stores them itself.
    U128* words;
    // For each part, how many blocks have sent their share of it; of a batch of one part, how many have finished theirs.
    u32* sent;
    // In host memory: what the batch came to, told by whoever finishes it last. Null if the host fetches it.
    Came* told;
    // The digest of each operation's value, see checksum.h; null if the thread that needs a digest computes it, or none is needed.
    u32* digests;
    u32 op;
    u32 block_len;
    u32 wide;
    // So many bits tell operations apart, if the host stores the tails, too; 0 if it does not.
    u32 index_bits;
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

// The number of an act's slot among those of all open levels: those near each other are near each other in the image.
WK_DEVICE u64 slot_of_act(const StraightParams& p, const Act& act) { return (u64)(act.copy - p.copies); }

WK_DEVICE Act no_act() { return Act{0, 0, 0, nullptr, nullptr, 0, kNone}; }

WK_DEVICE U128* part_of_act(const Act* act, u32 part) { return (U128*)act + part; }

WK_DEVICE void store_act(Act* to, const Act& act) {
    store(part_of_act(to, 0), U128{act.at, act.word});
    store(part_of_act(to, 1), U128{act.old, (u64)act.copy});
    store(part_of_act(to, 2), U128{(u64)act.entry, act.index | (u64)act.kind << 32});
}

WK_DEVICE Act load_act(const Act* from) {
    U128 word = load(part_of_act(from, 0)), slot = load(part_of_act(from, 1)), key = load(part_of_act(from, 2));
    return Act{word.lo, word.hi, slot.lo, (u64*)slot.hi, (U128*)key.lo, (u32)key.hi, (u32)(key.hi >> 32)};
}

// The digest of an operation's value, by one thread.
WK_DEVICE u32 digest_of_value(const StraightParams& p, u32 index) {
    u32 words = p.table.value_words();
    const u64* value = p.values + (u64)index * words;
    u64 sum = 0;
    for (u32 i = 0; i < words; i++) sum += value_share(p.table, i, load(value + i));
    return digest_of_sum(sum);
}

// Threads side by side that make a digest together: enough that a warp reads whole lines.
WK_DEVICE u32 digest_lanes(const Table& t) { return t.value_words() >= 64 ? 32 : t.value_words() >= 8 ? 8 : 1; }

// The checksum of an operation's record.
WK_DEVICE u64 checksum_of(const StraightParams& p, u32 index) {
    if (left_out(Step::Summed)) return 0;
    const Table& t = p.table;
    u32 digest = p.digests ? load(p.digests + index) : digest_of_value(p, index);
    return checksum(t, digest, Key{p.keys + (u64)index * t.key_words(), t.key_len()}, p.first_version + index);
}

// The words of a block: the value, the key, the version, the checksum, and zeros to its end, so that whole lines go over the link.
WK_DEVICE u64 block_word(const StraightParams& p, u32 index, u32 i) {
    const Table& t = p.table;
    u32 values = t.value_words(), keys = t.record_key_words();
    if (i < values) return load(p.values + (u64)index * values + i);
    if (i < values + keys) return load(p.keys + (u64)index * t.key_words() + i - values);
    if (i == values + keys) return p.first_version + index;
    return t.checksums() && i == values + keys + 1 ? checksum_of(p, index) : 0;
}

// A piece of a record: whose; its first word, counted through value and tail; and whether it has two. What a thread writes at once.
struct Piece {
    u64 number;
    u32 word;
    bool pair;
};

// Bytes of a block. Of those in tiles the compiler knows them, and divides by them without a division.
WK_DEVICE u32 block_len(const StraightParams& p) {
    return p.table.tiled() ? p.table.value_len() + p.table.tail_len() : p.block_len;
}

// Whether the tails of records, key and version, are told to the host, who stores them. Only of records in tiles.
WK_DEVICE bool tells_tails(const StraightParams& p) { return p.table.tiled() && p.index_bits != 0; }

// What is written of records: all of them, or, of those in tiles, their values alone, which are whole lines by themselves.
enum class Extent { Whole, Values };

// Bytes of it.
template <Extent E> WK_DEVICE u32 written_len(const StraightParams& p) {
    return E == Extent::Values ? p.table.value_len() : block_len(p);
}

// Bytes of a tail that a thread writes at once, where it writes `size` of a value: some tails are no multiple of that, and lie anywhere.
WK_DEVICE u32 tail_piece(const StraightParams& p, u32 size) { return p.table.tail_len() % size ? 8 : size; }

// As many threads as there are pieces of so many records that are side by side in the list of blocks; in tiles, of all that they are in.
template <Extent E> WK_DEVICE u64 pieces_of(const StraightParams& p, u64 records) {
    const Table& t = p.table;
    u32 size = p.wide ? 16 : 8;
    if (!t.tiled() || E == Extent::Values) return records * (written_len<E>(p) / size);
    return (records + 2 * t.tile_records()) * (t.value_len() / size + t.tail_len() / tail_piece(p, size));
}

// Divisions of long words are slow, and each piece takes one.
WK_DEVICE u64 divided(u64 by_what, u32 by) { return by_what >> 32 ? by_what / by : (u32)by_what / by; }

// Records in front of those that are side by side in the list of blocks from `first` on, in the same tile.
WK_DEVICE u64 before_in_tile(const StraightParams& p, u64 first) { return p.table.tiled() ? load(p.blocks + first) % 128 / 8 : 0; }

// The piece that a thread writes, of records that are side by side in the list of blocks. Neighbours write neighbouring bytes; of a
// tile, first the values of its records and then their tails. Numbers that are not of those records are nobody's. `Part` is what a thread
// writes at once.
template <Extent E, class Part> WK_DEVICE Piece piece_of(const StraightParams& p, u64 before, u64 thread) {
    const Table& t = p.table;
    u32 size = sizeof(Part);
    if (!t.tiled() || E == Extent::Values) {
        u32 parts = written_len<E>(p) / size;
        u64 number = divided(thread, parts);
        return Piece{number, (u32)(thread - number * parts) * (size / 8), size == 16};
    }
    u32 tail_size = tail_piece(p, size);
    u32 records = t.tile_records(), values = t.value_len() / size, tails = t.tail_len() / tail_size, parts = values + tails;
    u64 group = divided(thread, records * parts);
    u32 within = (u32)(thread - group * records * parts);
    bool of_value = within < records * values;
    u32 behind = within - records * values;
    u32 record = of_value ? within / values : behind / tails;
    u32 word = of_value ? within % values * (size / 8) : t.value_words() + behind % tails * (tail_size / 8);
    u64 number = group * records + record;
    return Piece{number < before ? ~0ull : number - before, word, (of_value ? size : tail_size) == 16};
}

// What a piece of the record of an operation has.
WK_DEVICE void piece_words(const StraightParams& p, u32 index, u32 word, bool, u64& words) { words = block_word(p, index, word); }

WK_DEVICE void piece_words(const StraightParams& p, u32 index, u32 word, bool pair, U128& words) {
    u32 values = p.table.value_words();
    if (word < values) words = load((const U128*)(p.values + (u64)index * values + word));
    else words = U128{block_word(p, index, word), pair ? block_word(p, index, word + 1) : 0};
}

WK_DEVICE void store_piece(const Table& t, u64 at, bool, const u64& words) { poke(t, at, words); }
WK_DEVICE void store_piece(const Table& t, u64 at, bool pair, const U128& words) {
    if (pair) store_streaming((U128*)t.at(at), words);
    else poke(t, at, words.lo);
}

// Pieces that a thread has under way at once.
constexpr u32 kPieces = 4;

template <Extent E, class Part>
WK_DEVICE void write_parts(const StraightParams& p, u64 first, u64 count, u64 before, u64 piece, u64 stride) {
    const Table& t = p.table;
    u32 firsts[kPieces], indexes[kPieces];
    bool pairs[kPieces];
    u64 records[kPieces];
    for (u32 i = 0; i < kPieces; i++) {
        Piece its = piece_of<E, Part>(p, before, piece + i * stride);
        bool is = its.number < count;
        const Act* act = p.acts + first + its.number;
        firsts[i] = its.word;
        pairs[i] = its.pair;
        indexes[i] = is ? load(&act->index) : 0;
        records[i] = is ? record_of(t, load(&act->word)) : 0;
    }
    Part words[kPieces];
    for (u32 i = 0; i < kPieces; i++) {
        if (records[i]) piece_words(p, indexes[i], firsts[i], pairs[i], words[i]);
    }
    for (u32 i = 0; i < kPieces; i++) {
        if (records[i]) store_piece(t, t.word_at(records[i], firsts[i]), pairs[i], words[i]);
    }
}

// Writes pieces of `count` records that are side by side in the list of blocks from `first` on: every `stride`-th of `kPieces`, from `piece` on,
// of those that there are.
template <Extent E>
WK_DEVICE void write_pieces(const StraightParams& p, u64 first, u64 count, u64 before, u64 piece, u64 stride) {
    if (p.wide) write_parts<E, U128>(p, first, count, before, piece, stride);
    else write_parts<E, u64>(p, first, count, before, piece, stride);
}

// Where the entry of a key is, or is to be: its address, and in its last bit whether it was free. Entries do not move while somebody has the turn.
struct Hint {
    u64 entry;

    WK_DEVICE static Hint of(const Mirror& m, u64 hash, const Looked& looked) {
        if (looked.place == kNowhere) return Hint{0};
        return Hint{(u64)entry_at(m, hash, looked.place) | looked.free};
    }
    WK_DEVICE bool is_free() const { return entry & 1; }
    WK_DEVICE U128* at() const { return (U128*)(entry & ~1ull); }
};

// Sends readers of an act's key to the image; its entry, if it has one.
WK_DEVICE U128* veil_act(const StraightParams& p, const Act* act) {
    if (left_out(Step::Mirrored)) return nullptr;
    const Table& t = p.table;
    U128 tail = load(part_of_act(act, 2));
    Hint hint{tail.lo};
    bool clears = (u32)(tail.hi >> 32) == kClear;
    if (hint.entry && !hint.is_free()) {
        hide_entry(hint.at());
        return hint.at();
    }
    Key key{p.keys + (u64)(u32)tail.hi * t.key_words(), t.key_len()};
    if (hint.entry && !clears) return claim_free(t, key, hint.at());
    return veil_entry(t, key, !clears);
}

// What has become of an act.
struct Settled {
    u32 kind;
    // The record that is gone, or 0.
    u64 old;
};

// Whose word is in the image: it reaches the copies and the mirror.
WK_DEVICE Settled settle_own(const StraightParams& p, u64 number, const Act& act, U128* entry) {
    store<Scope::Device, Order::Relaxed>(act.copy, act.word);
    u64 row = p.rows ? load(p.rows + number) : 0;
    if (entry) show_entry(entry, act.kind == kClear ? removed(p.table) : row ? row : record_of(p.table, act.word));
    return Settled{act.kind, act.old};
}

// The same, and what it was instead of is gone. All lanes of a warp, each with an act or none.
WK_DEVICE void settle_act(const StraightParams& p, u64 number, const Act& act, bool mine, U128* entry) {
    Warp warp;
    Settled settled{kNone, 0};
    if (mine) settled = settle_own(p, number, act, entry);
    u64 created = popc(warp.ballot(settled.kind == kFill)), removed = popc(warp.ballot(settled.kind == kClear));
    if (lane() == 0 && created) fetch_add(&p.came->created, created);
    if (lane() == 0 && removed) fetch_add(&p.came->removed, removed);
    u64 place = take_number(&p.came->retired, settled.old != 0);
    if (settled.old) store(p.retired + place, settled.old);
}

// Tells the host what the batch came to, if all other blocks have finished: to copy it when the launch is over, and to wait for that, takes the driver longer than
// some batches do. All lanes of the first warp of a block, when it has finished.
WK_DEVICE void tell_if_last(const StraightParams& p, u64 acts) {
    if (!p.told) return;
    sync_warp();
    if (lane() > 0) return;
    u64 blocks = acts > kWarp ? (acts + kWarp - 1) / kWarp : 1;
    if (fetch_add<Scope::Device, Order::AcqRel>(p.sent, 1u) + 1 != blocks) return;
    const u64* came = &p.came->acts;
    for (u64 i = 0; i < sizeof(Came) / 8 - 1; i++) store(&p.told->acts + i, load<Scope::Device, Order::Relaxed>(came + i));
    store<Scope::System, Order::Release>(&p.told->is_told, (u64)1);
}

// Writes the records of some acts and makes them count: in the image, then in the copies and the mirror. All threads of a block, or of a
// warp that is one; the first of its warps has an act in each lane. Whatever is loaded is loaded first: it would wait behind what goes over the link.
// Tests have it pause when words are in the image and entries not set, so that others come between.
WK_DEVICE void finish(const StraightParams& p, u64 block, u32 pauses = 0) {
    u64 acts = load(&p.came->acts), first = block * kWarp;
    if (first >= acts) {
        if (block == 0 && warp_in_block() == 0) tell_if_last(p, acts);
        return;
    }
    u32 count = acts - first < kWarp ? (u32)(acts - first) : kWarp;
    bool mine = thread_index() < count;
    u64 number = first + thread_index();
    Act act = mine ? load_act(p.acts + number) : no_act();
    U128* entry = mine ? veil_act(p, p.acts + number) : nullptr;
    if (left_out(Step::Apart) && mine) poke(p.table, act.at, act.word);
    u64 pieces = p.op == kDelete ? 0 : pieces_of<Extent::Whole>(p, count);
    u64 before = pieces ? before_in_tile(p, first) : 0;
    for (u64 i = thread_index(); i < pieces; i += kPieces * block_size()) write_pieces<Extent::Whole>(p, first, count, before, i, block_size());
    // Records before the words that lead to them; and whoever finds a new word in the image, the CPU too, finds nothing older in the
    // mirror afterwards.
    fence_block_at(Step::Written);
    if (left_out(Step::Told) && warp_in_block() == 0) tell_if_last(p, acts);
    if (mine) poke(p.table, act.at, act.word);
    // Words before the acknowledgement, before entries, and before what they led to is used again.
    fence_block_at(Step::Published);
    if (warp_in_block() > 0) return;
    for (u32 i = 0; i < pauses; i++) backoff(kPauseNanoseconds);
    // Keys that its lanes have put beside entries.
    if (has_keys(p.table)) fence<Scope::Device>();
    settle_act(p, number, act, mine, entry);
    if (!left_out(Step::Told)) tell_if_last(p, acts);
}

struct RecopyParams {
    Table table;
    u64* copies;
    u64 count;
    // Words of the image that were changed; null for all slots of the open levels.
    const u64* offsets;
};

}  // namespace gphash
