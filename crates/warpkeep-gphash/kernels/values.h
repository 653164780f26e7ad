// The value cache: values of the keys that are asked for most lie in device memory, a row each. The entry of such a key in the mirror leads
// to its row, and beside the row stands what a record has beside its value, and which record that is.
//
// A row never changes while an entry leads to it, nor while a kernel runs that may have come to it: a key that changes gets its record in
// its entry, or another row, and its old row is used again when nobody can be reading it, as blocks of records are.
#pragma once
#include "find.h"
#include "mirror.h"

namespace gphash {

// How hot an entry is: a byte each, those of a bucket in one word.
constexpr u32 kHeats = 256;

WK_DEVICE u32 heat_shift(u64 number) { return 8 * (u32)(number % kMirrorEntries); }
template <class Word> WK_DEVICE Word* heat_word(Word* heat, u64 number) { return heat + number / kMirrorEntries; }

WK_DEVICE u32 heat_of(const u32* heat, u64 number) {
    if (!heat) return 0;
    return load<Scope::Device, Order::Relaxed>(heat_word(heat, number)) >> heat_shift(number) & (kHeats - 1);
}

// Whether what an entry says is a row.
WK_DEVICE bool in_row(u64 said) { return said >> 63; }

WK_DEVICE u32 tail_words(const Table& t) { return t.key_len() == 8 ? 2 : 2 + (t.key_words() + 1) / 2 * 2; }
WK_DEVICE u64* tail_of(const Table& t, u64 row) { return t.mirror.values.tails + (row & ~kInRow) * tail_words(t); }

// Where a word in device memory would be in the image: what is read by offset can be read there, too.
WK_DEVICE u64 as_offset(const Table& t, const u64* word) { return (u64)word - (u64)t.image; }

// Given what the entry of a key says, its record; and where its value, its key and its version lie.
WK_DEVICE u64 record_behind(const Table& t, u64 said) { return in_row(said) ? load_l2(tail_of(t, said)) : said; }

WK_DEVICE u64 value_behind(const Table& t, u64 said) {
    return in_row(said) ? as_offset(t, t.mirror.values.rows + (said & ~kInRow) * t.value_words()) : t.value_at(said);
}

WK_DEVICE u64 key_behind(const Table& t, u64 said) {
    return in_row(said) ? as_offset(t, tail_of(t, said) + 2) : t.tail_at(said);
}

WK_DEVICE u64 version_behind(const Table& t, u64 said) {
    return in_row(said) ? load_l2(tail_of(t, said) + 1) : record_word(t, t.version_at(said));
}

// Notes what the keys of a warp were answered from. All lanes, each with what it was told, or 0.
WK_DEVICE void tally_rows(const Values& values, u64 said) {
    if (!values.rows) return;
    Warp warp;
    u64 found = popc(warp.ballot(said != 0)), hits = popc(warp.ballot(in_row(said)));
    if (lane() != 0 || !found) return;
    u64* to = values.tallies + 2 * (global_index() / kWarp % kTallies);
    fetch_add(to, found);
    if (hits) fetch_add(to + 1, hits);
}

}  // namespace gphash
