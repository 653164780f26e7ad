// The mirror: which record each key has, in device memory, so that a look at one line of it answers for a key and the link carries
// values only. It knows nothing of levels and slots: items that move keep their records, and a table that grows keeps its mirror.
//
// Entries stand where the hash says, or in the next buckets, up to the first that has a vacant one. An entry that is given up is
// gone, not vacant, so that nobody stops too early. What the mirror cannot answer for, the image does: a key whose item is changing
// at this moment (its entry is veiled), and one that finds no vacant entry within reach.
#pragma once
#include "table.h"

namespace gphash {

// Entries of a bucket, which is one access of 64 bytes.
constexpr u32 kMirrorEntries = 4;
// Buckets that an entry can be in.
constexpr u32 kMirrorReach = 64;

// What an entry has in place of a record's offset.
constexpr u64 kVacant = 0;
constexpr u64 kGone = 1;
constexpr u64 kVeiled = 2;
// The key's value is in a row of the value cache, whose number the other bits are; see values.h.
constexpr u64 kInRow = 1ull << 63;
// No answer: the entry is further on.
constexpr u64 kFurther = ~0ull;

// An entry: the hash of its key in the lower half, the record in the upper.
WK_DEVICE U128* mirror_bucket(const Mirror& m, u64 home, u32 step) {
    u64 bucket = home + step;
    if (bucket >= m.buckets) bucket %= m.buckets;
    return m.entries + bucket * kMirrorEntries;
}

WK_DEVICE U128 read_entry(const U128* entry) { return load<Scope::Device, Order::Relaxed>(entry); }

// What the four entries that a tile holds say about a key.
WK_DEVICE u64 judge(const U128& entry, u64 hash) {
    Tile<kMirrorEntries> tile;
    u32 its = tile.ballot(entry.lo == hash && entry.hi > kGone);
    if (its) return tile.shfl(entry.hi, ffs(its) - 1);
    return tile.any(entry.hi == kVacant) ? kVacant : kFurther;
}

// The record of a key for each lane of a warp, or its row: kVacant if there is none, kVeiled if the image is to be asked. Four lanes look
// for the keys of all four, and their looks are under way at once.
WK_DEVICE u64 locate(const Mirror& m, u64 hash) {
    Tile<kMirrorEntries> tile;
    u64 home = reduce(hash, m.buckets);
    u64 homes[kMirrorEntries], hashes[kMirrorEntries];
    U128 entries[kMirrorEntries];
    for (u32 i = 0; i < kMirrorEntries; i++) {
        homes[i] = tile.shfl(home, i);
        hashes[i] = tile.shfl(hash, i);
    }
    u64 record = kVeiled;
    // Keys that there is no answer for yet, a bit each.
    u32 open = tile.full;
    for (u32 step = 0; open && step < kMirrorReach; step++) {
        for (u32 i = 0; i < kMirrorEntries; i++) {
            if (open >> i & 1) entries[i] = read_entry(mirror_bucket(m, homes[i], step) + tile.rank());
        }
        for (u32 i = 0; i < kMirrorEntries; i++) {
            u64 said = open >> i & 1 ? judge(entries[i], hashes[i]) : kFurther;
            if (said == kFurther) continue;
            open &= ~(1u << i);
            if (tile.rank() == i) record = said;
        }
    }
    return record;
}

// The entry of a key, for one lane; null if it has none.
WK_DEVICE U128* entry_of(const Mirror& m, u64 hash) {
    u64 home = reduce(hash, m.buckets);
    for (u32 step = 0; step < kMirrorReach; step++) {
        U128* bucket = mirror_bucket(m, home, step);
        for (u32 i = 0; i < kMirrorEntries; i++) {
            U128 entry = read_entry(bucket + i);
            if (entry.lo == hash && entry.hi > kGone) return bucket + i;
            if (entry.hi == kVacant) return nullptr;
        }
    }
    return nullptr;
}

// Makes an entry, veiled, for a key that has none; null if there is no room within reach, and then the image is asked for it.
WK_DEVICE U128* claim_entry(const Mirror& m, u64 hash) {
    u64 home = reduce(hash, m.buckets);
    for (u32 step = 0; step < kMirrorReach; step++) {
        U128* bucket = mirror_bucket(m, home, step);
        for (u32 i = 0; i < kMirrorEntries; i++) {
            U128 had = read_entry(bucket + i);
            while (had.hi <= kGone) {
                // Both halves at once: an entry that is gone still has the hash of its last key, which may be about to come back.
                U128 before = cas<Scope::Device, Order::AcqRel>(bucket + i, had, U128{hash, kVeiled});
                if (before.lo == had.lo && before.hi == had.hi) return bucket + i;
                had = before;
            }
        }
    }
    fetch_add(m.unplaced, (u64)1);
    return nullptr;
}

// What an entry says whose item was removed. Only of keys of eight bytes the hash is the key in other words: of others, another can have the same,
// and the image knows.
WK_DEVICE u64 removed(const Table& t) { return t.key_len() == 8 ? kGone : kVeiled; }

WK_DEVICE void set_entry(U128* entry, u64 record) { store<Scope::Device, Order::Release>(&entry->hi, record); }

// Sends readers of a key to the image, until its entry is set; null if they go there anyhow. `there` says whether it is to have an item.
WK_DEVICE U128* veil_entry(const Mirror& m, u64 hash, bool there) {
    U128* entry = entry_of(m, hash);
    if (!entry) return there ? claim_entry(m, hash) : nullptr;
    if (!left_out(Step::Veiled)) set_entry(entry, kVeiled);
    return entry;
}

}  // namespace gphash
