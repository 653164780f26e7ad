// The mirror: which record each key has, in device memory, so that a look at one line of it answers for a key and the link carries
// values only. It knows nothing of levels and slots: items that move keep their records, and a table that grows keeps its mirror.
//
// Entries stand where the hash says, or in the next buckets, up to the first that has a vacant one. An entry that is given up is
// gone, not vacant, so that nobody stops too early. What the mirror cannot answer for, the image does: a key whose item is changing
// at this moment (its entry is veiled), and one that finds no vacant entry within reach.
#pragma once
#include "keys.h"

namespace gphash {

// Entries of a bucket, which is one access of 64 bytes.
constexpr u32 kMirrorEntries = 4;
// Buckets that an entry can be in.
constexpr u32 kMirrorReach = 64;

// What an entry has in place of a record's offset.
constexpr u64 kVacant = 0;
constexpr u64 kGone = 1;
// Of a mirror with keys: its key is not there yet.
constexpr u64 kClaimed = 2;
// The same: its key has no item. Other keys with its hash may have one.
constexpr u64 kAbsent = 3;
constexpr u64 kVeiled = 4;
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

// What the four entries that a tile holds say about a key: its record, or its row.
struct Record {
    using Said = u64;
    static constexpr Said kFurtherOn = kFurther;
    static constexpr Said kOutOfReach = kVeiled;

    static WK_DEVICE Said judge(const U128& entry, u64 hash, u32) {
        Tile<kMirrorEntries> tile;
        u32 its = tile.ballot(entry.lo == hash && entry.hi > kGone);
        if (its) return tile.shfl(entry.hi, ffs(its) - 1);
        return tile.any(entry.hi == kVacant) ? kVacant : kFurther;
    }
};

// The same: the place of its entry, counted from the first of the bucket that its hash says.
struct Place {
    using Said = u32;
    static constexpr Said kNowhere = ~0u;
    static constexpr Said kFurtherOn = ~0u - 1;
    static constexpr Said kOutOfReach = ~0u - 2;

    static WK_DEVICE Said judge(const U128& entry, u64 hash, u32 step) {
        Tile<kMirrorEntries> tile;
        u32 its = tile.ballot(entry.lo == hash && entry.hi > kGone);
        if (its) return step * kMirrorEntries + ffs(its) - 1;
        return tile.any(entry.hi == kVacant) ? kNowhere : kFurtherOn;
    }
};

// What there is for the key of each lane of a warp. Four lanes look for the keys of all four, and their looks are under way at once.
template <class What> WK_DEVICE typename What::Said look_in_mirror(const Mirror& m, u64 hash) {
    Tile<kMirrorEntries> tile;
    u64 home = reduce(hash, m.buckets);
    u64 homes[kMirrorEntries], hashes[kMirrorEntries];
    U128 entries[kMirrorEntries];
    for (u32 i = 0; i < kMirrorEntries; i++) {
        homes[i] = tile.shfl(home, i);
        hashes[i] = tile.shfl(hash, i);
    }
    typename What::Said mine = What::kOutOfReach;
    // Keys that there is no answer for yet, a bit each.
    u32 open = tile.full;
    for (u32 step = 0; open && step < kMirrorReach; step++) {
        for (u32 i = 0; i < kMirrorEntries; i++) {
            if (open >> i & 1) entries[i] = read_entry(mirror_bucket(m, homes[i], step) + tile.rank());
        }
        for (u32 i = 0; i < kMirrorEntries; i++) {
            typename What::Said said = open >> i & 1 ? What::judge(entries[i], hashes[i], step) : What::kFurtherOn;
            if (said == What::kFurtherOn) continue;
            open &= ~(1u << i);
            if (tile.rank() == i) mine = said;
        }
    }
    return mine;
}

// The record of a key for each lane of a warp, or its row: kVacant if there is none, kVeiled if the image is to be asked. Other keys
// can have the same hash.
WK_DEVICE u64 locate(const Mirror& m, u64 hash) { return look_in_mirror<Record>(m, hash); }

// What an entry says of a key that has its hash, where there are keys beside the entries.
WK_DEVICE u64 said_of_key(const Table& t, u64 number, const Key& key) {
    u64 said = load<Scope::Device, Order::Acquire>(&t.mirror.entries[number].hi);
    if (said == kClaimed || said == kVeiled || !entry_has_key(t, number, key)) return kVeiled;
    return said == kAbsent ? kVacant : said;
}

// The same as `locate`, of the key of each lane that wants one: where there are keys beside the entries, nothing is said of another.
WK_DEVICE u64 locate_own(const Table& t, u64 hash, const Key& key, bool wants) {
    if (t.key_len() == 8 || !t.mirror.keys) return locate(t.mirror, hash);
    u32 place = look_in_mirror<Place>(t.mirror, hash);
    if (place == Place::kNowhere) return kVacant;
    if (!wants || place == Place::kOutOfReach) return kVeiled;
    // Hashed again: what is kept while all lanes look takes registers, and a multiprocessor has room for a quarter fewer warps then.
    u64 home = reduce(key.hash(t.seed), t.mirror.buckets);
    u64 number = mirror_bucket(t.mirror, home, place / kMirrorEntries) + place % kMirrorEntries - t.mirror.entries;
    return said_of_key(t, number, key);
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

// Makes an entry that says this for a key that has none; null if there is no room within reach, and then the image is asked for it.
WK_DEVICE U128* claim_entry(const Mirror& m, u64 hash, u64 says) {
    u64 home = reduce(hash, m.buckets);
    for (u32 step = 0; step < kMirrorReach; step++) {
        U128* bucket = mirror_bucket(m, home, step);
        for (u32 i = 0; i < kMirrorEntries; i++) {
            U128 had = read_entry(bucket + i);
            while (had.hi <= kGone) {
                // Both halves at once: an entry that is gone still has the hash of its last key, which may be about to come back.
                U128 before = cas<Scope::Device, Order::AcqRel>(bucket + i, had, U128{hash, says});
                if (before.lo == had.lo && before.hi == had.hi) return bucket + i;
                had = before;
            }
        }
    }
    fetch_add(m.unplaced, (u64)1);
    return nullptr;
}

// The same for a key, which stands beside the entry if there are keys. Nobody is told more of the entry before it is set.
WK_DEVICE U128* claim_for_key(const Table& t, u64 hash, const Key& key) {
    if (t.key_len() == 8 || !t.mirror.keys) return claim_entry(t.mirror, hash, kVeiled);
    U128* entry = claim_entry(t.mirror, hash, left_out(Step::Reserved) ? kVeiled : kClaimed);
    if (entry) put_key(t, entry, key);
    return entry;
}

// Whether an entry with the hash of a key counts as that key's. Without keys beside the entries it does.
WK_DEVICE bool is_entry_of(const Table& t, const U128* entry, const Key& key) {
    if (t.key_len() == 8 || !t.mirror.keys) return true;
    return load<Scope::Device, Order::Acquire>(&entry->hi) != kClaimed && entry_has_key(t, entry - t.mirror.entries, key);
}

// What an entry says whose item was removed. Only of keys of eight bytes the hash is the key in other words: of others, another can have the same.
// Where there are keys, those who have another ask the image; where there are none, everybody does.
WK_DEVICE u64 removed(const Table& t) { return t.key_len() == 8 ? kGone : t.mirror.keys ? kAbsent : kVeiled; }

WK_DEVICE void set_entry(U128* entry, u64 record) { store<Scope::Device, Order::Release>(&entry->hi, record); }

// Sends readers of a key to the image, until its entry is set; null if they go there anyhow. `there` says whether it is to have an item.
WK_DEVICE U128* veil_entry(const Table& t, const Key& key, bool there) {
    u64 hash = key.hash(t.seed);
    U128* entry = entry_of(t.mirror, hash);
    if (!entry) return there ? claim_for_key(t, hash, key) : nullptr;
    // That of another key stays as it is.
    if (!is_entry_of(t, entry, key)) return nullptr;
    if (!left_out(Step::Veiled)) set_entry(entry, kVeiled);
    return entry;
}

}  // namespace gphash
