// Making the mirror, and keeping it up with what the CPU writes.
#pragma once
#include "find.h"
#include "drain.h"
#include "values.h"

namespace gphash {

struct CollectParams {
    Table table;
    // So many slots of a run, from the first on.
    Run run;
    u64 first;
    u64 count;
    // Their records, and how many there are.
    u64* records;
    u64* items;
};

struct ReflectParams {
    Table table;
    const u64* records;
    u64 count;
};

struct CensusParams {
    Mirror mirror;
    // How many entries are not vacant, and how many of those are not gone.
    u64* counts;
};

struct RehashParams {
    Mirror from;
    Mirror to;
    // How hot the entries of each are, or null; see value_load.h.
    const u32* from_heat;
    u32* to_heat;
};

// What the CPU has given a key: a record, or 0 if the key is gone.
struct Told {
    u64 hash;
    u64 record;
};

struct TellParams {
    Table table;
    u64 count;
    // No hash twice: of keys that share one, the last that was written.
    const Told* told;
    // What entries say whose items were removed.
    u64 removed;
};

// Takes over what the CPU has given a key.
WK_DEVICE void tell_one(const TellParams& p, u64 i) {
    const Table& t = p.table;
    u64 hash = load(&p.told[i].hash), record = load(&p.told[i].record);
    U128* entry = entry_of(t.mirror, hash);
    if (!entry && record) {
        entry = claim_for_key(t, hash, key_of_record(t, record));
        if (entry) set_entry(entry, record);
        return;
    }
    if (!entry) return;
    if (t.mirror.keys) {
        // Its own key is being written at this moment, by whoever sets it afterwards: this one is another.
        if (load<Scope::Device, Order::Acquire>(&entry->hi) == kClaimed) return;
        // Which key was removed is not said; and what was told of the entry's own may have gone with what was told of another.
        bool own = record && entry_has_key(t, entry - t.mirror.entries, key_of_record(t, record));
        set_entry(entry, own ? record : kVeiled);
        return;
    }
    set_entry(entry, record ? record : p.removed);
}

}  // namespace gphash

// Lists the records of slots, which are packed. A thread a slot; nobody writes meanwhile.
WK_KERNEL(gphash_collect, gphash::CollectParams) {
    using namespace gphash;
    Warp warp;
    const Table& t = p.table;
    u64 i = p.first + global_index();
    u64 state = kEmpty;
    if (global_index() < p.count) state = peek(t, Slot{bucket_at(t, p.run, i / t.slots()), (u32)(i % t.slots())}.state_at());
    bool item = state != kEmpty && state != kInsert;
    u32 items = warp.ballot(item);
    u64 place = 0;
    if (lane() == 0 && items) place = fetch_add(p.items, (u64)popc(items));
    place = warp.shfl(place, 0) + popc(items & ((1u << lane()) - 1));
    if (item) store(p.records + place, record_of(t, state));
}

// Makes entries for the keys of records. A thread a record; nobody writes meanwhile, and nobody reads the mirror.
WK_KERNEL(gphash_reflect, gphash::ReflectParams) {
    using namespace gphash;
    const Table& t = p.table;
    u64 i = global_index();
    if (i >= p.count) return;
    u64 record = load(p.records + i);
    Key key = key_of_record(t, record);
    U128* entry = claim_for_key(t, key.hash(t.seed), key);
    if (entry) set_entry(entry, record);
}

// Counts entries. A thread an entry; nobody changes them meanwhile.
WK_KERNEL(gphash_census, gphash::CensusParams) {
    using namespace gphash;
    Warp warp;
    u64 i = global_index();
    u64 said = i < p.mirror.buckets * kMirrorEntries ? read_entry(p.mirror.entries + i).hi : kVacant;
    u64 taken = popc(warp.ballot(said != kVacant)), kept = popc(warp.ballot(said > kGone));
    if (lane() != 0) return;
    if (taken) fetch_add(p.counts, taken);
    if (kept) fetch_add(p.counts + 1, kept);
}

// Moves entries to a mirror of another size, which has no keys. A thread an entry; nobody changes the old one meanwhile.
WK_KERNEL(gphash_rehash, gphash::RehashParams) {
    using namespace gphash;
    u64 i = global_index();
    if (i >= p.from.buckets * kMirrorEntries) return;
    U128 entry = read_entry(p.from.entries + i);
    if (entry.hi <= kGone) return;
    U128* to = claim_entry(p.to, entry.lo, kVeiled);
    if (!to) return;
    set_entry(to, entry.hi);
    if (!p.to_heat) return;
    u64 number = to - p.to.entries;
    fetch_add(heat_word(p.to_heat, number), heat_of(p.from_heat, i) << heat_shift(number));
}

// Takes over what the CPU has written. A thread a key.
WK_KERNEL(gphash_tell, gphash::TellParams) {
    using namespace gphash;
    u64 i = global_index();
    if (i < p.count) tell_one(p, i);
}
