// Making the mirror, and keeping it up with what the CPU writes.
#pragma once
#include "find.h"
#include "drain.h"

namespace gphash {

struct ReflectParams {
    Table table;
    // The slots of a run.
    Run run;
    // Items seen.
    u64* items;
};

struct RehashParams {
    Mirror from;
    Mirror to;
};

// What the CPU has given a key: a record, or 0 if the key is gone.
struct Told {
    u64 hash;
    u64 record;
};

struct TellParams {
    Mirror mirror;
    u64 count;
    // No key twice.
    const Told* told;
};

}  // namespace gphash

// Makes entries for the items of a run, which are packed. A thread a slot; nobody writes meanwhile, and nobody reads the mirror.
WK_KERNEL(gphash_reflect, gphash::ReflectParams) {
    using namespace gphash;
    Warp warp;
    const Table& t = p.table;
    u64 i = global_index();
    bool item = i < p.run.buckets * t.slots();
    Slot slot{0, 0};
    u64 state = kEmpty;
    if (item) {
        slot = Slot{bucket_at(t, p.run, i / t.slots()), (u32)(i % t.slots())};
        state = peek(t, slot.state_at());
        item = state != kEmpty && state != kInsert;
    }
    u32 items = popc(warp.ballot(item));
    if (lane() == 0 && items) fetch_add(p.items, (u64)items);
    if (!item) return;
    U128* entry = claim_entry(t.mirror, hash_in(t, slot, state));
    if (entry) set_entry(entry, record_of(t, state));
}

// Moves entries to a mirror of another size. A thread an entry; nobody changes the old one meanwhile.
WK_KERNEL(gphash_rehash, gphash::RehashParams) {
    using namespace gphash;
    u64 i = global_index();
    if (i >= p.from.buckets * kMirrorEntries) return;
    U128 entry = read_entry(p.from.entries + i);
    if (entry.hi <= kGone) return;
    U128* to = claim_entry(p.to, entry.lo);
    if (to) set_entry(to, entry.hi);
}

// Takes over what the CPU has written. A thread a key.
WK_KERNEL(gphash_tell, gphash::TellParams) {
    using namespace gphash;
    u64 i = global_index();
    if (i >= p.count) return;
    u64 hash = load(&p.told[i].hash), record = load(&p.told[i].record);
    U128* entry = entry_of(p.mirror, hash);
    if (!entry && record) entry = claim_entry(p.mirror, hash);
    if (entry) set_entry(entry, record ? record : kGone);
}
