// The value cache: values of the hottest keys in device memory, one row each.
//
// The index entry of a cached key refers to its row instead of its record, so the test whether a key is cached costs
// nothing. The tail of a row has what a record has beside its value: the record's offset, the version, and the key.
//
// Invariant: a row does not change while an entry refers to it, nor while a running kernel can have reached it.
//   1. A row is filled, fenced, and then its entry is published (fill_rows).
//   2. An update of the key sets the entry to the new record, or to another row that was filled before.
//   3. The old row is reused when no reader can be at it, by epochs, as blocks of records are.
#pragma once
#include "find.h"
#include "index/device_index.h"

namespace gphash {

// Frequencies: one byte per entry, those of a line in one word.
constexpr u32 kFrequencies = 256;

WK_DEVICE u32 frequency_shift(u64 number) { return 8 * (u32)(number % kLineEntries); }
template <class Word> WK_DEVICE Word* frequency_word(Word* frequencies, u64 number) {
    return frequencies + number / kLineEntries;
}

WK_DEVICE u32 frequency_of(const u32* frequencies, u64 number) {
    if (!frequencies) return 0;
    return load<Scope::Device, Order::Relaxed>(frequency_word(frequencies, number)) >> frequency_shift(number) &
           (kFrequencies - 1);
}

// Whether the target of an entry is a row.
WK_DEVICE bool in_row(u64 target) { return target >> 63; }

WK_DEVICE u32 row_tail_words(const Table& t) { return t.key_len() == 8 ? 2 : 2 + (t.key_words() + 1) / 2 * 2; }
WK_DEVICE u64* row_tail(const Table& t, u64 row) {
    return t.index.value_cache.tails + (row & ~kInRow) * row_tail_words(t);
}

// The offset that a word in device memory would have in the image, so that code which reads by offset can read rows as
// well.
WK_DEVICE u64 as_offset(const Table& t, const u64* word) { return (u64)word - (u64)t.image; }

// For the target of an entry: its record, and the offsets of its value and key, and its version.
WK_DEVICE u64 target_record(const Table& t, u64 target) {
    return in_row(target) ? load_l2(row_tail(t, target)) : target;
}

WK_DEVICE u64 target_value_at(const Table& t, u64 target) {
    return in_row(target) ? as_offset(t, t.index.value_cache.rows + (target & ~kInRow) * t.value_words())
                          : t.value_at(target);
}

WK_DEVICE u64 target_key_at(const Table& t, u64 target) {
    return in_row(target) ? as_offset(t, row_tail(t, target) + 2) : t.tail_at(target);
}

WK_DEVICE u64 target_version(const Table& t, u64 target) {
    return in_row(target) ? load_l2(row_tail(t, target) + 1) : record_word(t, t.version_at(target));
}

// Counts which keys of a warp the cache served. Each lane gives the target of its key, or 0.
WK_DEVICE void count_hits(const ValueCache& cache, u64 target) {
    if (!cache.rows) return;
    Warp warp;
    u64 found = popc(warp.ballot(target != 0)), hits = popc(warp.ballot(in_row(target)));
    if (lane() != 0 || !found) return;
    u64* to = cache.hit_counters + 2 * (global_index() / kWarp % kHitCounters);
    fetch_add(to, found);
    if (hits) fetch_add(to + 1, hits);
}

}  // namespace gphash
