// Loading the value cache: which keys are the hottest, and filling rows with their values.
//
// While frequencies are being learnt, each get increments a byte for its index entry. Loading then takes these steps, a
// kernel each:
//   1. Histogram: count the entries of each frequency. The host derives thresholds from it.
//   2. Release: entries below the threshold refer to their records again; rows that keep an entry are marked as used.
//   3. The host waits until no reader can be at a released row.
//   4. Free: list the rows that are not used.
//   5. Choose: list the entries that get a row, and partition them by record address.
//   6. Fill: copy values into rows in address order, fence, and publish the entries.
// The loader holds the table's write lock, so entries change only by these kernels. Readers run all the time: an entry
// refers either to its record or to a complete row.
//
// An update of a cached key is redirected: gphash_values_redirect fills a free row with the new value, and the batch
// publishes that row as the entry's target.
#pragma once
#include "write/fused.h"

namespace gphash {

struct CountGetsParams {
    Table table;
    u64 count;
    const u64* keys;
    u32* frequencies;
};

struct HistogramParams {
    Table table;
    // Null if nothing was learnt: then all frequencies are 0.
    const u32* frequencies;
    // For each of kFrequencies, the number of entries with a record or a row.
    u64* histogram;
};

struct ReleaseParams {
    Table table;
    const u32* frequencies;
    // Entries with a higher frequency keep their rows, and of those with exactly this one, `ties_kept`.
    u64 threshold;
    u64 ties_kept;
    // Entries with exactly that frequency so far.
    u64* tie_count;
    // Not 0 for each row that keeps its entry.
    u32* used;
};

struct FreeRowsParams {
    u64 count;
    u32* used;
    // Rows without an entry: their number, and the list.
    u64* free_count;
    u32* free_rows;
};

// An entry that gets a row.
struct Choice {
    u64 record;
    u64 entry;
};

struct ChooseParams {
    Table table;
    const u32* frequencies;
    // Range of frequencies, inclusive.
    u64 min_frequency;
    u64 max_frequency;
    // Capacity of the list, and the number of entries that qualify.
    u64 capacity;
    u64* chosen_count;
    Choice* choices;
    // The rank of each choice in its bucket of the partition.
    u32* ranks;
    Partition partition;
};

struct FillParams {
    // The rows are the values of this get.
    GetParams get;
    u64 count;
    const Choice* choices;
    const u32* ranks;
    // Scanned.
    Partition partition;
    Choice* ordered;
    // Rows to fill, one per choice.
    const u32* free_rows;
    u64 wide;
};

struct RedirectParams {
    FusedParams batch;
    // The rows are the values of this get.
    GetParams rows;
    const u32* free_rows;
    u64 free_count;
};

// Fills 32 rows and publishes their entries, by all lanes of a warp.
WK_DEVICE void fill_rows(const FillParams& p, u64 position) {
    Warp warp;
    const Table& t = p.get.table;
    bool active = position < p.count;
    u64 record = active ? load(&p.ordered[position].record) : 0;
    u64 row = active ? load(p.free_rows + position) : 0;
    U128* entry = active ? t.index.entries + load(&p.ordered[position].entry) : nullptr;
    if (active && is_omitted(FaultPoint::FillBeforeEntry)) publish_entry(entry, kInRow | row);
    u64 from = record ? t.value_at(record) : 0;
    if (p.wide) copy_rows<U128>(p.get, t.at(0), from, row);
    else copy_rows<u64>(p.get, t.at(0), from, row);
    if (active) {
        u64* tail = row_tail(t, row);
        store(tail, record);
        store(tail + 1, target_version(t, record));
        for (u32 i = 0; t.key_len() != 8 && i < t.key_words(); i++) {
            store(tail + 2 + i, record_word(t, target_key_at(t, record) + 8 * i));
        }
    }
    // Lanes fill each other's rows: each lane fences its own stores, and all lanes synchronise before the entries are
    // published.
    fence<Scope::Device>();
    warp.sync();
    if (active) publish_entry(entry, kInRow | row);
}

}  // namespace gphash

// Counts the entries of keys that gets read. One thread per key.
WK_KERNEL(gphash_values_count_gets, gphash::CountGetsParams) {
    using namespace gphash;
    const Table& t = p.table;
    u64 i = global_index();
    if (i >= p.count) return;
    U128* entry = find_entry(t.index, Key{p.keys + i * t.key_words(), t.key_len()}.hash(t.seed));
    if (!entry) return;
    u64 number = entry - t.index.entries;
    u32* word = frequency_word(p.frequencies, number);
    u32 shift = frequency_shift(number);
    u32 current = load<Scope::Device, Order::Relaxed>(word);
    // Many gets count a hot key at once. A thread gives up after four attempts; among many, a lost count does not
    // matter.
    for (u32 attempt = 0; attempt < 4 && (current >> shift & (kFrequencies - 1)) != kFrequencies - 1; attempt++) {
        u32 before = cas<Scope::Device, Order::Relaxed>(word, current, current + (1u << shift));
        if (before == current) return;
        current = before;
    }
}

// Counts entries by frequency. One thread per entry.
WK_KERNEL(gphash_values_histogram, gphash::HistogramParams) {
    using namespace gphash;
    WK_SHARED(u32, counts, kFrequencies);
    const DeviceIndex& index = p.table.index;
    for (u32 i = thread_index(); i < kFrequencies; i += block_size()) counts.store(i, 0);
    sync_block();
    u64 number = global_index();
    if (number < index.lines * kLineEntries && read_entry(index.entries + number).hi > kBusy) {
        counts.fetch_add(frequency_of(p.frequencies, number), 1u);
    }
    sync_block();
    for (u32 i = thread_index(); i < kFrequencies; i += block_size()) {
        u32 count = counts.load(i);
        if (count) fetch_add(p.histogram + i, (u64)count);
    }
}

// Makes entries below the threshold refer to their records again. One thread per entry.
WK_KERNEL(gphash_values_release, gphash::ReleaseParams) {
    using namespace gphash;
    const Table& t = p.table;
    u64 number = global_index();
    bool inside = number < t.index.lines * kLineEntries;
    u64 target = inside ? read_entry(t.index.entries + number).hi : kVacant;
    bool cached = in_row(target);
    u64 frequency = cached ? frequency_of(p.frequencies, number) : 0;
    bool is_tie = cached && frequency == p.threshold;
    bool keeps_row = append_by_warp(p.tie_count, is_tie) < p.ties_kept ? is_tie : false;
    if (cached && frequency > p.threshold) keeps_row = true;
    if (keeps_row) store(p.used + (target & ~kInRow), 1u);
    else if (cached) publish_entry(t.index.entries + number, target_record(t, target));
}

// Marks listed rows as used. One thread per row.
WK_KERNEL(gphash_values_keep, gphash::FreeRowsParams) {
    using namespace gphash;
    u64 i = global_index();
    if (i < p.count) store(p.used + load(p.free_rows + i), 1u);
}

// Lists rows that are not used. One thread per row.
WK_KERNEL(gphash_values_free, gphash::FreeRowsParams) {
    using namespace gphash;
    u64 row = global_index();
    bool is_free = row < p.count && load(p.used + row) == 0;
    u64 number = append_by_warp(p.free_count, is_free);
    if (is_free) store(p.free_rows + number, (u32)row);
}

// Chooses entries that get rows. One thread per entry.
WK_KERNEL(gphash_values_choose, gphash::ChooseParams) {
    using namespace gphash;
    const DeviceIndex& index = p.table.index;
    u64 number = global_index();
    bool inside = number < index.lines * kLineEntries;
    u64 target = inside ? read_entry(index.entries + number).hi : kVacant;
    u64 frequency = inside ? frequency_of(p.frequencies, number) : 0;
    bool wants = target > kBusy && !in_row(target) && frequency >= p.min_frequency && frequency <= p.max_frequency;
    u64 position = append_by_warp(p.chosen_count, wants);
    if (!wants || position >= p.capacity) return;
    store((U128*)(p.choices + position), U128{target, number});
    store(p.ranks + position, p.partition.rank(target));
}

// Sorts the choices by record address. One thread per choice.
WK_KERNEL(gphash_values_partition, gphash::FillParams) {
    using namespace gphash;
    u64 i = global_index();
    if (i >= p.count) return;
    U128 choice = load((const U128*)(p.choices + i));
    u64 position = p.partition.position(choice.lo, load(p.ranks + i));
    store((U128*)(p.ordered + position), choice);
}

// Fills rows. One thread per row.
WK_KERNEL(gphash_values_fill, gphash::FillParams) {
    using namespace gphash;
    u64 position = global_index();
    if (position / kWarp * kWarp < p.count) fill_rows(p, position);
}

// Fills free rows with the new values of cached keys; the batch publishes them as targets. One thread per effect.
WK_KERNEL(gphash_values_redirect, gphash::RedirectParams) {
    using namespace gphash;
    const FusedParams& b = p.batch;
    const Table& t = b.table;
    u64 number = global_index(), effects = load(&b.summary->effects);
    if (number / kWarp * kWarp >= effects) return;
    bool active = number < effects;
    const Effect* effect = b.effects + number;
    u32 index = active ? load(&effect->index) : 0;
    U128* entry = nullptr;
    if (active && load(&effect->kind) == kReplaceWord) {
        entry = find_entry(t.index, Key{b.keys + (u64)index * t.key_words(), t.key_len()}.hash(t.seed));
    }
    bool wants = entry && in_row(read_entry(entry).hi);
    u64 position = append_by_warp(&b.summary->rows_wanted, wants);
    bool has_row = wants && position < p.free_count;
    u64 row = has_row ? load(p.free_rows + position) : 0;
    // An offset of 0 means none, so the base is one word before the values.
    u64 from = has_row ? (u64)index * t.value_words() * 8 + 8 : 0;
    if (b.wide) copy_rows<U128>(p.rows, b.values - 1, from, row);
    else copy_rows<u64>(p.rows, b.values - 1, from, row);
    if (has_row) {
        u64* tail = row_tail(t, row);
        store(tail, record_of(t, load(&effect->word)));
        store(tail + 1, b.first_version + index);
        for (u32 i = 0; t.key_len() != 8 && i < t.key_words(); i++) {
            store(tail + 2 + i, load(b.keys + (u64)index * t.key_words() + i));
        }
    }
    if (active) store(b.new_targets + number, has_row ? kInRow | row : 0ull);
}
