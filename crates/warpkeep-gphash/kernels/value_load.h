// Loading the value cache: which keys are asked for most, and filling rows with their values.
//
// While it is learnt what is hot, a byte for each entry of the mirror is counted up. Loading weighs the entries, gives up the rows of those
// that are not hot enough, waits until nobody reads those rows, chooses the entries that get one, and fills rows in the order of the records'
// addresses. Whoever loads has the turn, so no entry changes meanwhile but by these kernels; readers go on.
#pragma once
#include "straight.h"

namespace gphash {

struct WarmParams {
    Table table;
    u64 count;
    const u64* keys;
    u32* heat;
};

struct WeighParams {
    Table table;
    // Null if nothing was learnt: then all are as cold.
    const u32* heat;
    // How many entries with a record, or a row, are this hot, for each of kHeats.
    u64* weights;
};

struct ReleaseParams {
    Table table;
    const u32* heat;
    // Rows of entries that are hotter stay, and of those that are just as hot this many.
    u64 enough;
    u64 ties;
    // Of those, how many were met.
    u64* tied;
    // Not 0 for each row that stays.
    u32* used;
};

struct SpareParams {
    u64 count;
    u32* used;
    // Rows that no entry leads to: how many, and which.
    u64* spare_count;
    u32* spares;
};

// An entry that gets a row.
struct Choice {
    u64 record;
    u64 entry;
};

struct ChooseParams {
    Table table;
    const u32* heat;
    // As hot as this, both included.
    u64 coldest;
    u64 hottest;
    // How many there is room for, and how many would be chosen.
    u64 room;
    u64* chosen;
    Choice* choices;
    // The place of each among those of the same region of the image.
    u32* ranks;
    Regions regions;
};

struct FillParams {
    // The rows are the values of this batch.
    GetParams get;
    u64 count;
    const Choice* choices;
    const u32* ranks;
    // Lined up.
    Regions regions;
    Choice* ordered;
    // Rows to be filled, as many as choices.
    const u32* spares;
    u64 wide;
};

struct FollowParams {
    StraightParams batch;
    // The rows are the values of this one.
    GetParams rows;
    const u32* spares;
    u64 spare_count;
};

// Fills 32 rows and has their entries lead to them, all lanes together.
WK_DEVICE void fill_rows(const FillParams& p, u64 place) {
    Warp warp;
    const Table& t = p.get.table;
    bool mine = place < p.count;
    u64 record = mine ? load(&p.ordered[place].record) : 0;
    u64 row = mine ? load(p.spares + place) : 0;
    U128* entry = mine ? t.mirror.entries + load(&p.ordered[place].entry) : nullptr;
    if (mine && left_out(Step::Filled)) set_entry(entry, kInRow | row);
    u64 from = record ? t.value_at(record) : 0;
    if (p.wide) copy_rows<U128>(p.get, t.at(0), from, row);
    else copy_rows<u64>(p.get, t.at(0), from, row);
    if (mine) {
        u64* tail = tail_of(t, row);
        store(tail, record);
        store(tail + 1, version_behind(t, record));
        for (u32 i = 0; t.key_len() != 8 && i < t.key_words(); i++) store(tail + 2 + i, record_word(t, key_behind(t, record) + 8 * i));
    }
    // Lanes have filled each other's rows: each orders what it stored, and all wait for each other.
    fence<Scope::Device>();
    warp.sync();
    if (mine) set_entry(entry, kInRow | row);
}

}  // namespace gphash

// Counts what is asked for. A thread a key.
WK_KERNEL(gphash_values_warm, gphash::WarmParams) {
    using namespace gphash;
    const Table& t = p.table;
    u64 i = global_index();
    if (i >= p.count) return;
    U128* entry = entry_of(t.mirror, Key{p.keys + i * t.key_words(), t.key_len()}.hash(t.seed));
    if (!entry) return;
    u64 number = entry - t.mirror.entries;
    u32* word = heat_word(p.heat, number);
    u32 shift = heat_shift(number);
    u32 had = load<Scope::Device, Order::Relaxed>(word);
    // Many ask for a hot key at once: one that gives way is missed among many.
    for (u32 attempt = 0; attempt < 4 && (had >> shift & (kHeats - 1)) != kHeats - 1; attempt++) {
        u32 before = cas<Scope::Device, Order::Relaxed>(word, had, had + (1u << shift));
        if (before == had) return;
        had = before;
    }
}

// How many entries are how hot. A thread an entry.
WK_KERNEL(gphash_values_weigh, gphash::WeighParams) {
    using namespace gphash;
    WK_SHARED(u32, counts, kHeats);
    const Mirror& m = p.table.mirror;
    for (u32 i = thread_index(); i < kHeats; i += block_size()) counts.store(i, 0);
    sync_block();
    u64 number = global_index();
    if (number < m.buckets * kMirrorEntries && read_entry(m.entries + number).hi > kVeiled) {
        counts.fetch_add(heat_of(p.heat, number), 1u);
    }
    sync_block();
    for (u32 i = thread_index(); i < kHeats; i += block_size()) {
        u32 count = counts.load(i);
        if (count) fetch_add(p.weights + i, (u64)count);
    }
}

// Has entries that are not hot enough lead to their records again. A thread an entry.
WK_KERNEL(gphash_values_release, gphash::ReleaseParams) {
    using namespace gphash;
    const Table& t = p.table;
    u64 number = global_index();
    bool inside = number < t.mirror.buckets * kMirrorEntries;
    u64 said = inside ? read_entry(t.mirror.entries + number).hi : kVacant;
    bool is = in_row(said);
    u64 heat = is ? heat_of(p.heat, number) : 0;
    bool ties = is && heat == p.enough;
    bool stays = take_number(p.tied, ties) < p.ties ? ties : false;
    if (is && heat > p.enough) stays = true;
    if (stays) store(p.used + (said & ~kInRow), 1u);
    else if (is) set_entry(t.mirror.entries + number, record_behind(t, said));
}

// Has rows that are listed count as used. A thread each.
WK_KERNEL(gphash_values_hold, gphash::SpareParams) {
    using namespace gphash;
    u64 i = global_index();
    if (i < p.count) store(p.used + load(p.spares + i), 1u);
}

// Rows that no entry leads to. A thread a row.
WK_KERNEL(gphash_values_spare, gphash::SpareParams) {
    using namespace gphash;
    u64 row = global_index();
    bool spare = row < p.count && load(p.used + row) == 0;
    u64 number = take_number(p.spare_count, spare);
    if (spare) store(p.spares + number, (u32)row);
}

// Chooses entries that get rows. A thread an entry.
WK_KERNEL(gphash_values_choose, gphash::ChooseParams) {
    using namespace gphash;
    const Mirror& m = p.table.mirror;
    u64 number = global_index();
    bool inside = number < m.buckets * kMirrorEntries;
    u64 said = inside ? read_entry(m.entries + number).hi : kVacant;
    u64 heat = inside ? heat_of(p.heat, number) : 0;
    bool wants = said > kVeiled && !in_row(said) && heat >= p.coldest && heat <= p.hottest;
    u64 place = take_number(p.chosen, wants);
    if (!wants || place >= p.room) return;
    store((U128*)(p.choices + place), U128{said, number});
    store(p.ranks + place, p.regions.take(said));
}

// Puts them in the order of their records. A thread each.
WK_KERNEL(gphash_values_order, gphash::FillParams) {
    using namespace gphash;
    u64 i = global_index();
    if (i >= p.count) return;
    U128 choice = load((const U128*)(p.choices + i));
    u64 place = p.regions.place(choice.lo, load(p.ranks + i));
    store((U128*)(p.ordered + place), choice);
}

// Fills rows. A thread a row.
WK_KERNEL(gphash_values_fill, gphash::FillParams) {
    using namespace gphash;
    u64 place = global_index();
    if (place / kWarp * kWarp < p.count) fill_rows(p, place);
}

// Puts values that replace what is in rows into spare rows, to which entries lead when the batch counts. A thread for each that acts.
WK_KERNEL(gphash_values_follow, gphash::FollowParams) {
    using namespace gphash;
    const StraightParams& b = p.batch;
    const Table& t = b.table;
    u64 number = global_index(), acts = load(&b.came->acts);
    if (number / kWarp * kWarp >= acts) return;
    bool mine = number < acts;
    const Act* act = b.acts + number;
    u32 index = mine ? load(&act->index) : 0;
    U128* entry = nullptr;
    if (mine && load(&act->kind) == kReplaceWord) {
        entry = entry_of(t.mirror, Key{b.keys + (u64)index * t.key_words(), t.key_len()}.hash(t.seed));
    }
    bool wants = entry && in_row(read_entry(entry).hi);
    u64 place = take_number(&b.came->rows, wants);
    bool has = wants && place < p.spare_count;
    u64 row = has ? load(p.spares + place) : 0;
    // An offset of 0 is none, so the base is one word before.
    u64 from = has ? (u64)index * t.value_words() * 8 + 8 : 0;
    if (b.wide) copy_rows<U128>(p.rows, b.values - 1, from, row);
    else copy_rows<u64>(p.rows, b.values - 1, from, row);
    if (has) {
        u64* tail = tail_of(t, row);
        store(tail, record_of(t, load(&act->word)));
        store(tail + 1, b.first_version + index);
        for (u32 i = 0; t.key_len() != 8 && i < t.key_words(); i++) {
            store(tail + 2 + i, load(b.keys + (u64)index * t.key_words() + i));
        }
    }
    if (mine) store(b.rows + number, has ? kInRow | row : 0ull);
}
