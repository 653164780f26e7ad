// Fused writes: a batch in which all operations are the same is decided and published without the host in between.
//
// Only records, in address order, and one word per key cross the link; or, where the host publishes, values and a store
// list (pipeline.h). Everything else is in device memory: the record of each key (the device index), the empty slots
// (copies of the states of the open levels), the free blocks (the block pool).
//
// Steps of a batch:
//   1. Deduplicate (gphash_dedup): each key enters the dedup table, so that its operations know their first and last
//      occurrence.
//   2. Decide (gphash_decide, decide.h): one operation per key gets an effect: a slot claimed in the copies, a block
//      for its record, and a hint to its index entry. Nothing of it is visible to readers.
//   3. With a log, the host reads which operations have effects and logs them. Nothing of the batch is in the image
//      before that.
//   4. Publish. A small batch is one chunk (write_and_publish):
//      a. mark the index entries of its keys busy, and write the records;
//      b. fence;
//      c. store the words;
//      d. fence;
//      e. update the copies, set the entries, list the retired records, report the result.
//      A large batch does the same as a pipeline over chunks: see pipeline.h.
//
// Ordering. Fence (b) orders records before the words that refer to them, and busy entries before words: a reader, or
// the CPU, that finds a new word in the image finds nothing older in the index afterwards. Fence (d) orders words
// before the acknowledgement, before the entries, and before reuse of the records they replaced.
//
// Crash. A slot in the image changes from one word to another by one store, and is never claimed there. So a crash
// leaves each key its old item or its new one. Blocks that no word refers to are found by marking.
#pragma once
#include "read/index_get.h"
#include "warpkeep/append.h"
#include "warpkeep/duplicates.h"
#include "write/two_phase.h"

namespace gphash {

// Chunks of a batch, at most.
constexpr u32 kMaxChunks = 64;

// Nanoseconds between two polls of a word that another thread will store.
constexpr u32 kBackoffNanoseconds = 2000;

// Flag of an operation in the fallback list: its status is already stored.
constexpr u32 kAnswered = 1u << 31;

// The effect of an operation: one change of the table.
struct Effect {
    // Offset of the slot; its new word; the record that it replaces, or 0.
    u64 slot_at;
    u64 word;
    u64 old_record;
    // The slot in the copies.
    u64* copy;
    // Before the entry is marked busy: an EntryHint, or null. In a batch of several chunks, afterwards: the key's
    // entry, or null if it has none.
    U128* entry;
    u32 index;
    u32 kind;
};
static_assert(sizeof(Effect) == 48, "effects are moved sixteen bytes at a time");

// Counters of a batch.
struct WriteSummary {
    u64 effects;
    u64 created;
    u64 removed;
    // Operations left to the CPU.
    u64 fallbacks;
    // Records that were replaced or removed.
    u64 retired;
    // Rows of the value cache that effects needed.
    u64 rows_wanted;
    // Effects of the prefix, the operations that were decided before the others.
    u64 prefix_effects;
    // In host memory: not 0 once the other words are stored.
    u64 is_complete;
};

struct FusedParams {
    Table table;
    u64 count;
    // The operations that this launch decides: from `first` to before `end`.
    u64 first;
    u64 end;
    const u64* keys;
    // Null for deletes, for values without bytes, and where the host stores the values.
    const u64* values;
    u8* statuses;
    // Operation i writes this version plus i.
    u64 first_version;
    // Copies of the states of all open levels, one level after the other.
    u64* copies;
    // First and last occurrence of each key in the batch.
    DuplicateTable dedup;
    // Free blocks, one per operation.
    const u64* blocks;
    Effect* effects;
    WriteSummary* summary;
    u32* fallbacks;
    u64* retired;
    // For each effect, the target of its entry if that is a row and not its record; null if there is no value cache.
    u64* new_targets;
    // For each operation, whether it has an effect; null if the host does not need it.
    u8* has_effect;
    // For sorting effects by slot: the effects as they were decided; the rank of each in its bucket; the partition of
    // the slots. Null if effects stay in batch order.
    Effect* unsorted;
    u32* ranks;
    Partition partition;
    // In host memory, where the host publishes: for each of kMaxChunks chunks its range of effects; for each chunk its
    // completion flag; then the store list (list_words in pipeline.h) and the digests. Null if the device stores the
    // words.
    U128* mailbox;
    // Per chunk, the blocks that have sent their part of it; in a batch of one chunk, the blocks that have finished.
    u32* blocks_done;
    // In host memory: the last block to finish copies the summary here. Null if the host copies it.
    WriteSummary* report;
    // The digest of each operation's value (checksum.h). Null if no digest is needed, or if the thread that needs one
    // computes it.
    u32* digests;
    u32 op;
    u32 block_len;
    // Whether records and values are aligned to 16 bytes, so that they move in units of 16 and not of 8.
    u32 wide;
    // Bits that number the operations in the store list, if the host stores the tails; 0 if it does not.
    u32 index_bits;
};

// Orders all stores of a block before any store that follows. One thread fences for all: the barriers order the stores
// of the others before and after its fence. A fence waits for the link, and a thousand of them are no faster than one.
WK_DEVICE void fence_block() {
    sync_block();
    if (thread_index() == 0) persist_fence();
    sync_block();
}

WK_DEVICE void fence_block_at(FaultPoint point) {
    if (!is_omitted(point)) fence_block();
}

// The number of an effect's slot among those of all open levels. Neighbouring numbers are neighbouring offsets in the
// image.
WK_DEVICE u64 slot_of_effect(const FusedParams& p, const Effect& effect) { return (u64)(effect.copy - p.copies); }

WK_DEVICE Effect no_effect() { return Effect{0, 0, 0, nullptr, nullptr, 0, kNone}; }

WK_DEVICE U128* effect_unit(const Effect* effect, u32 unit) { return (U128*)effect + unit; }

WK_DEVICE void store_effect(Effect* to, const Effect& effect) {
    store(effect_unit(to, 0), U128{effect.slot_at, effect.word});
    store(effect_unit(to, 1), U128{effect.old_record, (u64)effect.copy});
    store(effect_unit(to, 2), U128{(u64)effect.entry, effect.index | (u64)effect.kind << 32});
}

WK_DEVICE Effect load_effect(const Effect* from) {
    U128 word = load(effect_unit(from, 0)), slot = load(effect_unit(from, 1)), key = load(effect_unit(from, 2));
    return Effect{word.lo, word.hi, slot.lo, (u64*)slot.hi, (U128*)key.lo, (u32)key.hi, (u32)(key.hi >> 32)};
}

// The digest of an operation's value, by one thread.
WK_DEVICE u32 digest_of_value(const FusedParams& p, u32 index) {
    u32 words = p.table.value_words();
    const u64* value = p.values + (u64)index * words;
    u64 sum = 0;
    for (u32 i = 0; i < words; i++) sum += value_term(p.table, i, load(value + i));
    return digest_of_sum(sum);
}

// Adjacent threads that compute a digest together: enough that a warp reads whole lines.
WK_DEVICE u32 digest_lanes(const Table& t) { return t.value_words() >= 64 ? 32 : t.value_words() >= 8 ? 8 : 1; }

WK_DEVICE u64 checksum_of(const FusedParams& p, u32 index) {
    if (is_omitted(FaultPoint::RecordChecksum)) return 0;
    const Table& t = p.table;
    u32 digest = p.digests ? load(p.digests + index) : digest_of_value(p, index);
    return checksum(t, digest, Key{p.keys + (u64)index * t.key_words(), t.key_len()}, p.first_version + index);
}

// Word i of a block: value, key, version, checksum, and zeros to the end, so that whole lines cross the link.
WK_DEVICE u64 block_word(const FusedParams& p, u32 index, u32 i) {
    const Table& t = p.table;
    u32 values = t.value_words(), keys = t.record_key_words();
    if (i < values) return load(p.values + (u64)index * values + i);
    if (i < values + keys) return load(p.keys + (u64)index * t.key_words() + i - values);
    if (i == values + keys) return p.first_version + index;
    return t.checksums() && i == values + keys + 1 ? checksum_of(p, index) : 0;
}

// A unit, which is what a thread writes in one access: the number of its record among those that are written; its first
// word, counted through value and tail; whether it has two words.
struct UnitPosition {
    u64 number;
    u32 word;
    bool pair;
};

// Bytes of a block. In tiles this is a constant for the compiler, so that dividing by it needs no division.
WK_DEVICE u32 block_len(const FusedParams& p) {
    return p.table.tiled() ? p.table.value_len() + p.table.tail_len() : p.block_len;
}

// Whether the host stores the tails of records (key, version, checksum) from the store list. Only in tiles.
WK_DEVICE bool host_stores_tails(const FusedParams& p) { return p.table.tiled() && p.index_bits != 0; }

// What is written of records: all of it or, in tiles, only the values, which are whole lines.
enum class Extent { Whole, Values };

template <Extent E> WK_DEVICE u32 written_len(const FusedParams& p) {
    return E == Extent::Values ? p.table.value_len() : block_len(p);
}

// Bytes of a tail that a thread writes in one access, where it writes `size` bytes of a value: some tails are no
// multiple of `size`, nor aligned to it.
WK_DEVICE u32 tail_unit_len(const FusedParams& p, u32 size) { return p.table.tail_len() % size ? 8 : size; }

// Units of `records` records whose blocks are adjacent in the list of blocks. In tiles: enough for all records of the
// tiles that they touch.
template <Extent E> WK_DEVICE u64 unit_count(const FusedParams& p, u64 records) {
    const Table& t = p.table;
    u32 size = p.wide ? 16 : 8;
    if (!t.tiled() || E == Extent::Values) return records * (written_len<E>(p) / size);
    return (records + 2 * t.tile_records()) * (t.value_len() / size + t.tail_len() / tail_unit_len(p, size));
}

// Divides by 32 bits where the dividend allows it: 64-bit divisions are slow, and each unit takes one.
WK_DEVICE u64 divide(u64 dividend, u32 divisor) {
    return dividend >> 32 ? dividend / divisor : (u32)dividend / divisor;
}

// Records of the same tile before the record whose block is at `first` in the list of blocks.
WK_DEVICE u64 before_in_tile(const FusedParams& p, u64 first) {
    return p.table.tiled() ? load(p.blocks + first) % 128 / 8 : 0;
}

// The unit that a thread writes. Adjacent threads write adjacent bytes; in a tile, first the values of its records and
// then their tails. A number outside the range means no unit.
template <Extent E, class Unit> WK_DEVICE UnitPosition unit_position(const FusedParams& p, u64 before, u64 thread) {
    const Table& t = p.table;
    u32 size = sizeof(Unit);
    if (!t.tiled() || E == Extent::Values) {
        u32 units = written_len<E>(p) / size;
        u64 number = divide(thread, units);
        return UnitPosition{number, (u32)(thread - number * units) * (size / 8), size == 16};
    }
    u32 tail_size = tail_unit_len(p, size);
    u32 records = t.tile_records();
    u32 values = t.value_len() / size, tails = t.tail_len() / tail_size, units = values + tails;
    u64 group = divide(thread, records * units);
    u32 within = (u32)(thread - group * records * units);
    bool in_value = within < records * values;
    u32 tail_unit = within - records * values;
    u32 record = in_value ? within / values : tail_unit / tails;
    u32 word = in_value ? within % values * (size / 8) : t.value_words() + tail_unit % tails * (tail_size / 8);
    u64 number = group * records + record;
    return UnitPosition{number < before ? ~0ull : number - before, word, (in_value ? size : tail_size) == 16};
}

// The words of a unit.
WK_DEVICE void load_unit(const FusedParams& p, u32 index, u32 word, bool, u64& words) {
    words = block_word(p, index, word);
}

WK_DEVICE void load_unit(const FusedParams& p, u32 index, u32 word, bool pair, U128& words) {
    u32 values = p.table.value_words();
    if (word < values) words = load((const U128*)(p.values + (u64)index * values + word));
    else words = U128{block_word(p, index, word), pair ? block_word(p, index, word + 1) : 0};
}

WK_DEVICE void store_unit(const Table& t, u64 at, bool, const u64& words) { poke(t, at, words); }
WK_DEVICE void store_unit(const Table& t, u64 at, bool pair, const U128& words) {
    if (pair) store_streaming((U128*)t.at(at), words);
    else poke(t, at, words.lo);
}

// Units that a thread has in flight at once.
constexpr u32 kUnitsInFlight = 4;

template <Extent E, class Unit>
WK_DEVICE void write_units_as(const FusedParams& p, u64 first, u64 count, u64 before, u64 first_unit, u64 stride) {
    const Table& t = p.table;
    u32 first_words[kUnitsInFlight], indexes[kUnitsInFlight];
    bool pairs[kUnitsInFlight];
    u64 records[kUnitsInFlight];
    for (u32 i = 0; i < kUnitsInFlight; i++) {
        UnitPosition unit = unit_position<E, Unit>(p, before, first_unit + i * stride);
        bool active = unit.number < count;
        const Effect* effect = p.effects + first + unit.number;
        first_words[i] = unit.word;
        pairs[i] = unit.pair;
        indexes[i] = active ? load(&effect->index) : 0;
        records[i] = active ? record_of(t, load(&effect->word)) : 0;
    }
    Unit words[kUnitsInFlight];
    for (u32 i = 0; i < kUnitsInFlight; i++) {
        if (records[i]) load_unit(p, indexes[i], first_words[i], pairs[i], words[i]);
    }
    for (u32 i = 0; i < kUnitsInFlight; i++) {
        if (records[i]) store_unit(t, t.word_at(records[i], first_words[i]), pairs[i], words[i]);
    }
}

// Writes units of `count` records whose blocks are adjacent in the list of blocks from `first` on: kUnitsInFlight
// units, every `stride`-th from `first_unit` on.
template <Extent E>
WK_DEVICE void write_units(const FusedParams& p, u64 first, u64 count, u64 before, u64 first_unit, u64 stride) {
    if (p.wide) write_units_as<E, U128>(p, first, count, before, first_unit, stride);
    else write_units_as<E, u64>(p, first, count, before, first_unit, stride);
}

// The position of a key's entry when the batch was decided: its address, and in the lowest bit whether it was free. It
// stays valid, because entries do not move while a writer holds the write lock.
struct EntryHint {
    u64 entry;

    WK_DEVICE static EntryHint of(const DeviceIndex& index, u64 hash, const Probe& probe) {
        if (probe.position == kNoPosition) return EntryHint{0};
        return EntryHint{(u64)entry_at(index, hash, probe.position) | probe.free};
    }
    WK_DEVICE bool is_free() const { return entry & 1; }
    WK_DEVICE U128* at() const { return (U128*)(entry & ~1ull); }
};

// Marks the entry of an effect's key busy, and claims one for a new key. The entry, or null if the key has none.
WK_DEVICE U128* reserve_effect_entry(const FusedParams& p, const Effect* effect) {
    if (is_omitted(FaultPoint::IndexUpdate)) return nullptr;
    const Table& t = p.table;
    U128 unit = load(effect_unit(effect, 2));
    EntryHint hint{unit.lo};
    bool clears = (u32)(unit.hi >> 32) == kClear;
    if (hint.entry && !hint.is_free()) {
        mark_entry_busy(hint.at());
        return hint.at();
    }
    Key key{p.keys + (u64)(u32)unit.hi * t.key_words(), t.key_len()};
    if (hint.entry && !clears) return claim_hinted_entry(t, key, hint.at());
    return reserve_entry(t, key, !clears);
}

// What a completed effect changed, for the counters.
struct Completion {
    u32 kind;
    // The record that it replaced, or 0.
    u64 old_record;
};

// Updates the copies and the index for an effect whose word is in the image.
WK_DEVICE Completion complete_effect(const FusedParams& p, u64 number, const Effect& effect, U128* entry) {
    store<Scope::Device, Order::Relaxed>(effect.copy, effect.word);
    u64 row = p.new_targets ? load(p.new_targets + number) : 0;
    if (entry) {
        u64 target = effect.kind == kClear ? removed_target(p.table) : row ? row : record_of(p.table, effect.word);
        publish_entry_relaxed(entry, target);
    }
    return Completion{effect.kind, effect.old_record};
}

// Completes effects, counts them, and lists the records that they replaced. All lanes of a warp; lanes without an
// effect are not `active`.
WK_DEVICE void complete_effects(const FusedParams& p, u64 number, const Effect& effect, bool active, U128* entry) {
    Warp warp;
    Completion completion{kNone, 0};
    if (active) completion = complete_effect(p, number, effect, entry);
    u64 created = popc(warp.ballot(completion.kind == kFill)), removed = popc(warp.ballot(completion.kind == kClear));
    if (lane() == 0 && created) fetch_add(&p.summary->created, created);
    if (lane() == 0 && removed) fetch_add(&p.summary->removed, removed);
    u64 position = append_by_warp(&p.summary->retired, completion.old_record != 0);
    if (completion.old_record) store(p.retired + position, completion.old_record);
}

// Reports the summary to the host if all other blocks have finished. Copying it after the launch, and waiting for that,
// takes the driver longer than some batches take. All lanes of the first warp of a block, when the block has finished.
WK_DEVICE void report_if_last(const FusedParams& p, u64 effects) {
    if (!p.report) return;
    sync_warp();
    if (lane() > 0) return;
    u64 blocks = effects > kWarp ? (effects + kWarp - 1) / kWarp : 1;
    if (fetch_add<Scope::Device, Order::AcqRel>(p.blocks_done, 1u) + 1 != blocks) return;
    const u64* summary = &p.summary->effects;
    for (u64 i = 0; i < sizeof(WriteSummary) / 8 - 1; i++) {
        store(&p.report->effects + i, load<Scope::Device, Order::Relaxed>(summary + i));
    }
    store<Scope::System, Order::Release>(&p.report->is_complete, (u64)1);
}

// Step 4 of a batch of one chunk, for kWarp effects. All threads of a block; the lanes of its first warp have one
// effect each. All loads come first, because they would queue behind stores to the link. Tests insert `pauses` between
// words and entries, so that readers run in between.
WK_DEVICE void write_and_publish(const FusedParams& p, u64 block, u32 pauses = 0) {
    u64 effects = load(&p.summary->effects), first = block * kWarp;
    if (first >= effects) {
        if (block == 0 && warp_in_block() == 0) report_if_last(p, effects);
        return;
    }
    u32 count = effects - first < kWarp ? (u32)(effects - first) : kWarp;
    bool active = thread_index() < count;
    u64 number = first + thread_index();
    Effect effect = active ? load_effect(p.effects + number) : no_effect();
    U128* entry = active ? reserve_effect_entry(p, p.effects + number) : nullptr;
    if (is_omitted(FaultPoint::PublishAfterStage) && active) poke(p.table, effect.slot_at, effect.word);
    u64 units = p.op == kDelete ? 0 : unit_count<Extent::Whole>(p, count);
    u64 before = units ? before_in_tile(p, first) : 0;
    for (u64 i = thread_index(); i < units; i += kUnitsInFlight * block_size()) {
        write_units<Extent::Whole>(p, first, count, before, i, block_size());
    }
    // (b) Records before words, and busy entries before words.
    fence_block_at(FaultPoint::RecordFence);
    if (is_omitted(FaultPoint::ResultAfterWords) && warp_in_block() == 0) report_if_last(p, effects);
    if (active) poke(p.table, effect.slot_at, effect.word);
    // (d) Words before the acknowledgement, before entries, and before reuse of the records they replaced.
    fence_block_at(FaultPoint::PublishEndFence);
    if (warp_in_block() > 0) return;
    for (u32 i = 0; i < pauses; i++) backoff(kBackoffNanoseconds);
    // Orders the keys that the lanes have stored in the key column before the entries.
    if (has_key_column(p.table)) fence<Scope::Device>();
    complete_effects(p, number, effect, active, entry);
    if (!is_omitted(FaultPoint::ResultAfterWords)) report_if_last(p, effects);
}

struct CopyLevelsParams {
    Table table;
    u64* copies;
    u64 count;
    // Offsets of words that changed; null for all slots of the open levels.
    const u64* offsets;
};

}  // namespace gphash
