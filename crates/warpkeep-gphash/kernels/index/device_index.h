// The device index: a hash table in device memory from key hash to record. One access to device memory locates a key,
// and only values cross the link. The index knows nothing of levels and slots: items that move keep their records, so a
// table that grows keeps its index.
//
// Layout. An entry is a hash and a target: a record, a row of the value cache, or a state. Four entries are a line of
// 64 bytes. A key's entry is in the line that its hash selects or in one of the following lines, at most kMaxProbes of
// them. A search stops at the first line with a vacant entry. A removed key leaves a tombstone or a negative entry and
// never a vacant one, so that searches for other keys do not stop too early.
//
// Publishing a change of a key's item:
//   1. Mark the key's entry busy (reserve_entry). A key without an entry claims a free one by a 16-byte
//      compare-and-swap; it begins as busy, or as reserved where there is a key column. From now on readers of the key
//      fall back to the image.
//   2. Fence of system scope.
//   3. Store the word in the image.
//   4. Fence of system scope.
//   5. Set the entry to the new target (publish_entry).
//
// Ordering. Step 2 orders (1) before (3): a reader, or the CPU, that has seen the new word in the image never finds the
// old target in the index afterwards. Step 4 orders (3) before (5): the index never shows anything that the image does
// not have. Publishers hold the table's write lock, so no two batches change an entry at the same time. The change feed
// may be applied meanwhile, but only to other keys.
//
// Fallback. The image serves what the index cannot: a key whose entry is busy, a key whose hash another key's entry has
// (keys.h), and a key that found no free entry within reach (`unplaced`).
#pragma once
#include "index/keys.h"
#include "warpkeep/coop_read.h"

namespace gphash {

// Entries of a line, which is one access of 64 bytes.
constexpr u32 kLineEntries = 4;
// Lines that an entry can be in.
constexpr u32 kMaxProbes = 64;

// Targets that are states and no records. All are below the offset of any record.
constexpr u64 kVacant = 0;
constexpr u64 kTombstone = 1;
// Only with a key column: the entry is claimed and its key is not stored yet.
constexpr u64 kReserved = 2;
// Only with a key column: the entry's key has no item. Other keys with its hash may have one.
constexpr u64 kNegative = 3;
// The key's item is changing, or not known here: the reader falls back to the image.
constexpr u64 kBusy = 4;
// The value is in a row of the value cache; the other bits are the number of the row. See value_cache/value_cache.h.
constexpr u64 kInRow = 1ull << 63;

constexpr u32 kNoPosition = ~0u;

// The line `step` lines behind `first`; the first line follows the last. There are more lines than kMaxProbes and fewer
// than 2^32. An entry has the hash of its key in the lower half and the target in the upper.
WK_DEVICE U128* index_line(const DeviceIndex& index, u32 first, u32 step) {
    u64 number = (u64)first + step;
    if (number >= index.lines) number -= index.lines;
    return index.entries + number * kLineEntries;
}

WK_DEVICE u32 first_line(const DeviceIndex& index, u64 hash) { return (u32)reduce(hash, index.lines); }

WK_DEVICE U128 read_entry(const U128* entry) { return load<Scope::Device, Order::Relaxed>(entry); }

// The result of a search.
struct Probe {
    // The target of the entry with the key's hash; kVacant if there is none, kBusy if it would be out of reach.
    u64 target;
    // Position of that entry, counted from the first entry of the first line; if there is none, of a free entry that
    // the key can claim.
    u32 position;
    // Whether the entry at `position` is free: vacant or a tombstone.
    bool free;

    WK_DEVICE bool has_entry() const { return !free && position != kNoPosition; }
};

// Searches a line; true if the search ends here. `first_position` is the position of its first entry. Keys with one
// hash that are inserted at the same time can get several entries; all searches take the first of them.
template <class AnyLine> WK_DEVICE bool match_line(const AnyLine& line, u64 hash, u32 first_position, Probe& probe) {
    u32 match = kNoPosition, free = kNoPosition;
    bool vacant = false;
    probe.target = kVacant;
    for (u32 i = 0; i < kLineEntries; i++) {
        const U128& entry = line.parts[i];
        u32 number = line.number(i);
        vacant = vacant || entry.hi == kVacant;
        if (entry.hi <= kTombstone && number < free) free = number;
        if (entry.lo != hash || entry.hi <= kTombstone || number > match) continue;
        match = number;
        probe.target = entry.hi;
    }
    probe.free = match == kNoPosition;
    probe.position = first_position + (probe.free ? free : match);
    return !probe.free || vacant;
}

// A line that one lane reads, with all its entries in flight at once.
struct OwnLine {
    U128 parts[kLineEntries];

    WK_DEVICE explicit OwnLine(const U128* first) {
        for (u32 i = 0; i < kLineEntries; i++) parts[i] = read_entry(first + i);
    }
    static WK_DEVICE u32 number(u32 i) { return i; }
};

// Searches from line `line + step` on, by one lane.
WK_DEVICE Probe probe_from(const DeviceIndex& index, u64 hash, u32 line, u32 step) {
    Probe probe;
    for (; step < kMaxProbes; step++) {
        if (match_line(OwnLine(index_line(index, line, step)), hash, step * kLineEntries, probe)) return probe;
    }
    return Probe{kBusy, kNoPosition, false};
}

// Searches for the hash of each lane of a warp. The first line ends most searches and is read cooperatively; other
// lanes continue alone.
WK_DEVICE Probe probe_index(const DeviceIndex& index, u64 hash) {
    u32 line = first_line(index, hash);
    Probe probe;
    if (match_line(Lines::at(index.entries, line, kLineEntries, kLineEntries).own(), hash, 0, probe)) return probe;
    return probe_from(index, hash, line, 1);
}

WK_DEVICE U128* entry_at(const DeviceIndex& index, u64 hash, u32 position) {
    return index_line(index, first_line(index, hash), position / kLineEntries) + position % kLineEntries;
}

WK_DEVICE bool has_key_column(const Table& t) { return t.key_len() != 8 && t.index.keys; }

// Whether an entry that has the hash of a key is treated as that key's. Without a key column it always is.
WK_DEVICE bool is_entry_of_key(const Table& t, const U128* entry, const Key& key) {
    if (!has_key_column(t)) return true;
    return load<Scope::Device, Order::Acquire>(&entry->hi) != kReserved &&
           entry_has_key(t, entry - t.index.entries, key);
}

// The target for a key, given the target of an entry with its hash, where there is a key column.
WK_DEVICE u64 target_for_key(const Table& t, u64 target, const U128* entry, const Key& key) {
    if (target == kReserved || target == kBusy) return kBusy;
    KeyMatch match = compare_key(t, entry - t.index.entries, key);
    if (match == KeyMatch::No || (match == KeyMatch::MaybeUnwritten && !is_entry_of_key(t, entry, key))) return kBusy;
    return target == kNegative ? kVacant : target;
}

// probe_index for the key of each lane with `wants`. Where there is a key column, an entry of another key yields kBusy.
WK_DEVICE Probe probe_key(const Table& t, u64 hash, const Key& key, bool wants) {
    Probe probe = probe_index(t.index, hash);
    if (!has_key_column(t) || !wants || !probe.has_entry()) return probe;
    probe.target = target_for_key(t, probe.target, entry_at(t.index, hash, probe.position), key);
    return probe;
}

WK_DEVICE u64 find_target(const Table& t, u64 hash, const Key& key, bool wants) {
    return probe_key(t, hash, key, wants).target;
}

// The entry with a hash, by one lane; null if there is none.
WK_DEVICE U128* find_entry(const DeviceIndex& index, u64 hash) {
    Probe probe = probe_from(index, hash, first_line(index, hash), 0);
    return probe.has_entry() ? entry_at(index, hash, probe.position) : nullptr;
}

// Claims a free entry for a key that has none; false if another lane claimed it first. `expected` is the entry as the
// caller read it. Both halves change together: a tombstone still has the hash of its last key, which may be inserted
// again at this moment. The claim publishes nothing, so it orders nothing.
WK_DEVICE bool try_take_entry(U128* entry, U128 expected, u64 hash, u64 target) {
    while (expected.hi <= kTombstone) {
        U128 before = cas<Scope::Device, Order::Relaxed>(entry, expected, U128{hash, target});
        if (before.lo == expected.lo && before.hi == expected.hi) return true;
        expected = before;
    }
    return false;
}

// Claims an entry with this target for a key that has none. Null if none is free within reach; then readers of the key
// fall back to the image.
WK_DEVICE U128* claim_entry(const DeviceIndex& index, u64 hash, u64 target) {
    u32 line = first_line(index, hash);
    for (u32 step = 0; step < kMaxProbes; step++) {
        U128* first = index_line(index, line, step);
        // A failed claim means that another lane took one of finitely many entries.
        for (;;) {
            OwnLine entries(first);
            u32 free = kLineEntries;
            for (u32 i = kLineEntries; i-- > 0;) free = entries.parts[i].hi <= kTombstone ? i : free;
            if (free == kLineEntries) break;
            if (try_take_entry(first + free, select_part(entries.parts, free), hash, target)) return first + free;
        }
    }
    fetch_add(index.unplaced, (u64)1);
    return nullptr;
}

// The target of an entry from its claim until it is published.
WK_DEVICE u64 initial_target(const Table& t) {
    return has_key_column(t) && !is_omitted(FaultPoint::ReservedUntilKeyed) ? kReserved : kBusy;
}

// Inserts an entry for a key, and its key in the key column. Readers fall back to the image until the entry is
// published.
WK_DEVICE U128* insert_entry(const Table& t, u64 hash, const Key& key) {
    U128* entry = claim_entry(t.index, hash, initial_target(t));
    if (entry && has_key_column(t)) store_key(t, entry, key);
    return entry;
}

// The target of an entry whose item was removed. The hash of an 8-byte key is a bijection of the key, so its entry
// becomes free. Longer keys can share a hash: with a key column the entry stays negative for its key, and other keys
// fall back to the image; without one, all keys with this hash do.
WK_DEVICE u64 removed_target(const Table& t) {
    return t.key_len() == 8 ? kTombstone : t.index.keys ? kNegative : kBusy;
}

WK_DEVICE void publish_entry(U128* entry, u64 target) { store<Scope::Device, Order::Release>(&entry->hi, target); }

// For a target whose record was ordered before by a fence or by the end of a launch. A release would wait for all
// stores of its lane.
WK_DEVICE void publish_entry_relaxed(U128* entry, u64 target) {
    store<Scope::Device, Order::Relaxed>(&entry->hi, target);
}

// Sends readers of a key to the image. Relaxed: the entry refers to nothing, and the caller fences before it changes
// the image.
WK_DEVICE void mark_entry_busy(U128* entry) {
    if (!is_omitted(FaultPoint::InvalidateBeforeChange)) publish_entry_relaxed(entry, kBusy);
}

// Step 1 of publishing: sends readers of a key to the image until its entry is published. Null if the key has no entry
// of its own, so that readers go to the image anyway. `will_exist` is whether the key will have an item.
WK_DEVICE U128* reserve_entry(const Table& t, const Key& key, bool will_exist) {
    u64 hash = key.hash(t.seed);
    U128* entry = find_entry(t.index, hash);
    if (!entry) return will_exist ? insert_entry(t, hash, key) : nullptr;
    // The entry of another key stays as it is.
    if (!is_entry_of_key(t, entry, key)) return nullptr;
    mark_entry_busy(entry);
    return entry;
}

// reserve_entry for a key that had no entry, given an entry that was free within reach when the batch was decided. It
// is expected to be vacant; any other state leads to a new search.
WK_DEVICE U128* claim_hinted_entry(const Table& t, const Key& key, U128* entry) {
    u64 hash = key.hash(t.seed);
    if (!try_take_entry(entry, U128{kVacant, kVacant}, hash, initial_target(t))) return insert_entry(t, hash, key);
    if (has_key_column(t)) store_key(t, entry, key);
    return entry;
}

}  // namespace gphash
