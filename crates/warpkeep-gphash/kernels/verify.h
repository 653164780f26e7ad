// Whether keys that the mirror has a record for are the keys of those records, for keys that are longer than their hashes, where they do not stand beside
// the mirror's entries: their records are read over the link, so in the order of their addresses.
#pragma once
#include "lookup.h"

namespace gphash {

constexpr u32 kNoSuspect = ~0u;

struct VerifyParams {
    Table table;
    u64 count;
    const u64* keys;
    // For each key what the mirror has: kVeiled if the image is to be asked, here also because the record is that of another key.
    u64* records;
    // For each its place among those of the same region, or kNoSuspect.
    u32* ranks;
    Regions regions;
    // Those whose records are to be read, in order.
    Fetching* suspects;
};

// A word of a key without what is behind its last byte.
WK_DEVICE u64 within_key(const Table& t, u32 word, u64 bits) {
    u32 rest = t.key_len() - 8 * word;
    return rest < 8 ? bits << (64 - 8 * rest) : bits;
}

}  // namespace gphash

// Asks the mirror, and counts records by region. A thread a key.
WK_KERNEL(gphash_suspect, gphash::VerifyParams) {
    using namespace gphash;
    const Table& t = p.table;
    u64 index = global_index();
    if (index / kWarp * kWarp >= p.count) return;
    Key key{p.keys + index * t.key_words(), t.key_len()};
    u64 said = locate(t.mirror, index < p.count ? key.hash(t.seed) : 0);
    bool suspect = index < p.count && said > kVeiled && !in_row(said);
    u32 suspects = Warp().ballot(suspect);
    if (lane() == 0 && suspects) fetch_add(p.regions.all(), popc(suspects));
    if (index >= p.count) return;
    // What has a row has its key there.
    bool other = in_row(said) && !record_has_key(t, key_behind(t, said), key);
    u64 record = other ? kVeiled : record_behind(t, said);
    store(p.records + index, record);
    store(p.ranks + index, suspect ? p.regions.take(record) : kNoSuspect);
}

// Puts suspects in order. A thread a key.
WK_KERNEL(gphash_queue, gphash::VerifyParams) {
    using namespace gphash;
    u64 index = global_index();
    if (index >= p.count) return;
    u64 record = load(p.records + index);
    u32 rank = load(p.ranks + index);
    if (rank == kNoSuspect) return;
    Fetching* to = p.suspects + p.regions.place(record, rank);
    store((U128*)to, U128{record, index});
}

// Compares keys in that order. A thread for each of 2^n words, as many as a key has or more.
WK_KERNEL(gphash_verify, gphash::VerifyParams) {
    using namespace gphash;
    Warp warp;
    const Table& t = p.table;
    u32 words = t.key_words();
    u32 lanes = words <= 1 ? 1 : 1u << (32 - clz(words - 1));
    u64 count = load(p.regions.all());
    u64 place = global_index() / lanes;
    if (global_index() / kWarp * kWarp / lanes >= count) return;
    u32 word = (u32)(global_index() % lanes);
    U128 suspect = place < count ? load((const U128*)(p.suspects + place)) : U128{0, 0};
    u64 differ = 0;
    if (place < count && word < words) {
        u64 had = record_word(t, t.tail_at(suspect.lo) + 8 * word);
        differ = within_key(t, word, had ^ load(p.keys + suspect.hi * words + word));
    }
    u32 wrong = warp.ballot(differ != 0) >> lane() / lanes * lanes & (lanes == kWarp ? ~0u : (1u << lanes) - 1);
    if (place < count && word == 0 && wrong) store(p.records + suspect.hi, kVeiled);
}
