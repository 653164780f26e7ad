// The mirror: which record each key has, in device memory, so that a look at one line of it answers for a key and the link carries
// values only. It knows nothing of levels and slots: items that move keep their records, and a table that grows keeps its mirror.
//
// Entries stand where the hash says, or in the next buckets, up to the first that has a vacant one. An entry that is given up is
// gone, not vacant, so that nobody stops too early. What the mirror cannot answer for, the image does: a key whose item is changing
// at this moment (its entry is veiled), and one that finds no vacant entry within reach.
#pragma once
#include "keys.h"
#include "lines.h"

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

// No place.
constexpr u32 kNowhere = ~0u;

// An entry: the hash of its key in the lower half, the record in the upper. A bucket that is beyond the last one is the first again; there are
// more of them than an entry can be away from its home, and fewer than 2^32.
WK_DEVICE U128* mirror_bucket(const Mirror& m, u32 home, u32 step) {
    u64 bucket = (u64)home + step;
    if (bucket >= m.buckets) bucket -= m.buckets;
    return m.entries + bucket * kMirrorEntries;
}

WK_DEVICE u32 home_of(const Mirror& m, u64 hash) { return (u32)reduce(hash, m.buckets); }

WK_DEVICE U128 read_entry(const U128* entry) { return load<Scope::Device, Order::Relaxed>(entry); }

// What a look at the mirror came to.
struct Looked {
    // What the entry with the hash of the key says; kVacant if there is none, kVeiled if it would be out of reach.
    u64 said;
    // Where it stands, counted from the first entry of its home; or, if there is none, where a free one does that it could have.
    u32 place;
    // Whether it is a free one, vacant or gone.
    bool free;

    WK_DEVICE bool is_there() const { return !free && place != kNowhere; }
};

// Goes through the entries of a bucket; whether one of them tells. `place` is that of the first. Of entries with one hash, which keys get that
// come at the same time, the first counts, for everybody.
template <class Bucket> WK_DEVICE bool judge(const Bucket& bucket, u64 hash, u32 place, Looked& looked) {
    u32 its = kNowhere, free = kNowhere;
    bool vacant = false;
    looked.said = kVacant;
    for (u32 i = 0; i < kMirrorEntries; i++) {
        const U128& entry = bucket.parts[i];
        u32 number = bucket.number(i);
        vacant = vacant || entry.hi == kVacant;
        if (entry.hi <= kGone && number < free) free = number;
        if (entry.lo != hash || entry.hi <= kGone || number > its) continue;
        its = number;
        looked.said = entry.hi;
    }
    looked.free = its == kNowhere;
    looked.place = place + (looked.free ? free : its);
    return !looked.free || vacant;
}

// A bucket as one lane reads it: its entries are under way at once.
struct OwnBucket {
    U128 parts[kMirrorEntries];

    WK_DEVICE explicit OwnBucket(const U128* bucket) {
        for (u32 i = 0; i < kMirrorEntries; i++) parts[i] = read_entry(bucket + i);
    }
    static WK_DEVICE u32 number(u32 i) { return i; }
};

// Looks from a bucket on, for one lane.
WK_DEVICE Looked look_from(const Mirror& m, u64 hash, u32 home, u32 step) {
    Looked looked;
    for (; step < kMirrorReach; step++) {
        if (judge(OwnBucket(mirror_bucket(m, home, step)), hash, step * kMirrorEntries, looked)) return looked;
    }
    return Looked{kVeiled, kNowhere, false};
}

// What there is for the key of each lane of a warp. Most buckets that keys begin with tell; where one does not, its lane goes on alone.
WK_DEVICE Looked look_in_mirror(const Mirror& m, u64 hash) {
    u32 home = home_of(m, hash);
    Looked looked;
    if (judge(Lines::at(m.entries, home, kMirrorEntries, kMirrorEntries).own(), hash, 0, looked)) return looked;
    return look_from(m, hash, home, 1);
}

// The entry at a place.
WK_DEVICE U128* entry_at(const Mirror& m, u64 hash, u32 place) {
    return mirror_bucket(m, home_of(m, hash), place / kMirrorEntries) + place % kMirrorEntries;
}

// The record of a key for each lane of a warp, or its row: kVacant if there is none, kVeiled if the image is to be asked. Other keys
// can have the same hash.
WK_DEVICE u64 locate(const Mirror& m, u64 hash) { return look_in_mirror(m, hash).said; }

// Whether keys stand beside the entries.
WK_DEVICE bool has_keys(const Table& t) { return t.key_len() != 8 && t.mirror.keys; }

// Whether an entry with the hash of a key counts as that key's. Without keys beside the entries it does.
WK_DEVICE bool is_entry_of(const Table& t, const U128* entry, const Key& key) {
    if (!has_keys(t)) return true;
    return load<Scope::Device, Order::Acquire>(&entry->hi) != kClaimed && entry_has_key(t, entry - t.mirror.entries, key);
}

// What an entry that was read says of a key that has its hash, where there are keys beside the entries.
WK_DEVICE u64 said_of_key(const Table& t, u64 said, const U128* entry, const Key& key) {
    if (said == kClaimed || said == kVeiled) return kVeiled;
    Its its = compare_key(t, entry - t.mirror.entries, key);
    if (its == Its::No || (its == Its::PerhapsUnwritten && !is_entry_of(t, entry, key))) return kVeiled;
    return said == kAbsent ? kVacant : said;
}

// The same as `look_in_mirror`, of the key of each lane that wants one: where there are keys beside the entries, nothing is said of another.
WK_DEVICE Looked look_for_own(const Table& t, u64 hash, const Key& key, bool wants) {
    Looked looked = look_in_mirror(t.mirror, hash);
    if (!has_keys(t) || !wants || !looked.is_there()) return looked;
    looked.said = said_of_key(t, looked.said, entry_at(t.mirror, hash, looked.place), key);
    return looked;
}

WK_DEVICE u64 locate_own(const Table& t, u64 hash, const Key& key, bool wants) { return look_for_own(t, hash, key, wants).said; }

// The entry of a key, for one lane; null if it has none.
WK_DEVICE U128* entry_of(const Mirror& m, u64 hash) {
    Looked looked = look_from(m, hash, home_of(m, hash), 0);
    return looked.is_there() ? entry_at(m, hash, looked.place) : nullptr;
}

// Takes an entry that is vacant, or gone, for a key that has none; whether nobody else has. `had` is what it is thought to be. Both halves at once: an
// entry that is gone still has the hash of its last key, which may be about to come back. Nothing is published by it, so it orders nothing.
WK_DEVICE bool take_entry(U128* entry, U128 had, u64 hash, u64 says) {
    while (had.hi <= kGone) {
        U128 before = cas<Scope::Device, Order::Relaxed>(entry, had, U128{hash, says});
        if (before.lo == had.lo && before.hi == had.hi) return true;
        had = before;
    }
    return false;
}

// Makes an entry that says this for a key that has none; null if there is no room within reach, and then the image is asked for it.
WK_DEVICE U128* claim_entry(const Mirror& m, u64 hash, u64 says) {
    u32 home = home_of(m, hash);
    for (u32 step = 0; step < kMirrorReach; step++) {
        U128* first = mirror_bucket(m, home, step);
        // Whoever was faster has taken one of finitely many.
        for (;;) {
            OwnBucket bucket(first);
            u32 free = kMirrorEntries;
            for (u32 i = kMirrorEntries; i-- > 0;) free = bucket.parts[i].hi <= kGone ? i : free;
            if (free == kMirrorEntries) break;
            if (take_entry(first + free, pick(bucket.parts, free), hash, says)) return first + free;
        }
    }
    fetch_add(m.unplaced, (u64)1);
    return nullptr;
}

// What an entry says from when it is claimed until it is set.
WK_DEVICE u64 says_before_key(const Table& t) { return has_keys(t) && !left_out(Step::Reserved) ? kClaimed : kVeiled; }

// Makes an entry for a key, which stands beside it if there are keys. Nobody is told more of the entry before it is set.
WK_DEVICE U128* claim_for_key(const Table& t, u64 hash, const Key& key) {
    U128* entry = claim_entry(t.mirror, hash, says_before_key(t));
    if (entry && has_keys(t)) put_key(t, entry, key);
    return entry;
}

// What an entry says whose item was removed. Only of keys of eight bytes the hash is the key in other words: of others, another can have the same.
// Where there are keys, those who have another ask the image; where there are none, everybody does.
WK_DEVICE u64 removed(const Table& t) { return t.key_len() == 8 ? kGone : t.mirror.keys ? kAbsent : kVeiled; }

WK_DEVICE void set_entry(U128* entry, u64 record) { store<Scope::Device, Order::Release>(&entry->hi, record); }

// The same where what it leads to was ordered before by a fence, or the end of a launch: each release would wait for all that its lane has stored.
WK_DEVICE void show_entry(U128* entry, u64 record) { store<Scope::Device, Order::Relaxed>(&entry->hi, record); }

// Sends readers of a key to the image. There is nothing that this leads to; and whoever changes the image fences first.
WK_DEVICE void hide_entry(U128* entry) {
    if (!left_out(Step::Veiled)) show_entry(entry, kVeiled);
}

// Sends readers of a key to the image, until its entry is set; null if they go there anyhow. `there` says whether it is to have an item.
WK_DEVICE U128* veil_entry(const Table& t, const Key& key, bool there) {
    u64 hash = key.hash(t.seed);
    U128* entry = entry_of(t.mirror, hash);
    if (!entry) return there ? claim_for_key(t, hash, key) : nullptr;
    // That of another key stays as it is.
    if (!is_entry_of(t, entry, key)) return nullptr;
    hide_entry(entry);
    return entry;
}

// The same for a key that has no entry, and for which one was free within reach: vacant, most likely.
WK_DEVICE U128* claim_free(const Table& t, const Key& key, U128* entry) {
    u64 hash = key.hash(t.seed);
    if (!take_entry(entry, U128{kVacant, kVacant}, hash, says_before_key(t))) return claim_for_key(t, hash, key);
    if (has_keys(t)) put_key(t, entry, key);
    return entry;
}

}  // namespace gphash
