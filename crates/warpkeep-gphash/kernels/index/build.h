// Building the device index from the image, moving it to another size, and applying changes made by the CPU.
//
// Build: gphash_collect lists the records of all slots, gphash_build inserts one entry per record. Rehash:
// gphash_rehash copies live entries to a new index. Change feed: gphash_apply sets the entries of keys that the CPU has
// written, before the next kernel reads the index.
#pragma once
#include "find.h"
#include "drain.h"
#include "value_cache/value_cache.h"

namespace gphash {

struct CollectParams {
    Table table;
    // `count` slots of a run, from `first` on.
    Run run;
    u64 first;
    u64 count;
    // Their records, and the number of these.
    u64* records;
    u64* items;
};

struct BuildParams {
    Table table;
    const u64* records;
    u64 count;
};

struct CountEntriesParams {
    DeviceIndex index;
    // Entries that are not vacant, and those of them that are not tombstones.
    u64* counts;
};

struct RehashParams {
    DeviceIndex from;
    DeviceIndex to;
    // Frequencies of the entries of each, or null; see value_cache/load.h.
    const u32* from_frequencies;
    u32* to_frequencies;
};

// A change made by the CPU: the new record of a key, or 0 if the key was removed.
struct IndexChange {
    u64 hash;
    u64 record;
};

struct ApplyParams {
    Table table;
    u64 count;
    // At most one change per hash: of keys that share a hash, the last one written.
    const IndexChange* changes;
    // The target of entries whose items were removed.
    u64 removed;
};

// Applies a change made by the CPU.
WK_DEVICE void apply_change(const ApplyParams& p, u64 i) {
    const Table& t = p.table;
    u64 hash = load(&p.changes[i].hash), record = load(&p.changes[i].record);
    U128* entry = find_entry(t.index, hash);
    if (!entry && record) {
        entry = insert_entry(t, hash, key_of_record(t, record));
        if (entry) publish_entry(entry, record);
        return;
    }
    if (!entry) return;
    if (t.index.keys) {
        // The publisher that claimed the entry is storing its key now and will publish it. The changed key is another
        // one.
        if (load<Scope::Device, Order::Acquire>(&entry->hi) == kReserved) return;
        // A removal does not name its key, and a change of the entry's own key may have been dropped in favour of
        // another key with the same hash. So the entry keeps a target only if the record has its key; otherwise readers
        // fall back to the image.
        bool own = record && entry_has_key(t, entry - t.index.entries, key_of_record(t, record));
        publish_entry(entry, own ? record : kBusy);
        return;
    }
    publish_entry(entry, record ? record : p.removed);
}

}  // namespace gphash

// Lists the records of packed slots. One thread per slot; no writer runs meanwhile.
WK_KERNEL(gphash_collect, gphash::CollectParams) {
    using namespace gphash;
    Warp warp;
    const Table& t = p.table;
    u64 i = p.first + global_index();
    u64 state = kEmpty;
    if (global_index() < p.count) {
        state = peek(t, Slot{bucket_at(t, p.run, i / t.slots()), (u32)(i % t.slots())}.state_at());
    }
    bool item = state != kEmpty && state != kInsert;
    u32 items = warp.ballot(item);
    u64 position = 0;
    if (lane() == 0 && items) position = fetch_add(p.items, (u64)popc(items));
    position = warp.shfl(position, 0) + popc(items & ((1u << lane()) - 1));
    if (item) store(p.records + position, record_of(t, state));
}

// Inserts entries for the keys of records. One thread per record; no writer runs meanwhile, and no reader uses the
// index.
WK_KERNEL(gphash_build, gphash::BuildParams) {
    using namespace gphash;
    const Table& t = p.table;
    u64 i = global_index();
    if (i >= p.count) return;
    u64 record = load(p.records + i);
    Key key = key_of_record(t, record);
    U128* entry = insert_entry(t, key.hash(t.seed), key);
    if (entry) publish_entry(entry, record);
}

// Counts entries. One thread per entry; no entry changes meanwhile.
WK_KERNEL(gphash_count_entries, gphash::CountEntriesParams) {
    using namespace gphash;
    Warp warp;
    u64 i = global_index();
    u64 target = i < p.index.lines * kLineEntries ? read_entry(p.index.entries + i).hi : kVacant;
    u64 taken = popc(warp.ballot(target != kVacant)), live = popc(warp.ballot(target > kTombstone));
    if (lane() != 0) return;
    if (taken) fetch_add(p.counts, taken);
    if (live) fetch_add(p.counts + 1, live);
}

// Moves entries to an index of another size, without key columns. One thread per entry; the old index does not change
// meanwhile.
WK_KERNEL(gphash_rehash, gphash::RehashParams) {
    using namespace gphash;
    u64 i = global_index();
    if (i >= p.from.lines * kLineEntries) return;
    U128 entry = read_entry(p.from.entries + i);
    if (entry.hi <= kTombstone) return;
    U128* to = claim_entry(p.to, entry.lo, kBusy);
    if (!to) return;
    publish_entry(to, entry.hi);
    if (!p.to_frequencies) return;
    u64 number = to - p.to.entries;
    fetch_add(frequency_word(p.to_frequencies, number), frequency_of(p.from_frequencies, i) << frequency_shift(number));
}

// Applies changes made by the CPU. One thread per change.
WK_KERNEL(gphash_apply, gphash::ApplyParams) {
    using namespace gphash;
    u64 i = global_index();
    if (i < p.count) apply_change(p, i);
}
