// Draining a level that a table has outgrown, and repair after a lost device.
#include "drain.h"

// A warp a bucket.
WK_KERNEL(gphash_drain, gphash::DrainParams) {
    using namespace gphash;
    const Table& t = p.table;
    u64 which = global_index() / kWarp;
    if (which >= p.count) return;
    u64 bucket = bucket_at(t, p.run, p.first + which);
    u64 moved = 0, overflowed = 0, stuck = 0;
    for (u32 number = 0; number < t.slots(); number++) {
        Slot from{bucket, number};
        u64 state = peek(t, from.state_at());
        if (state == kEmpty || state == kInsert) continue;
        u64 hash = hash_in(t, from, state);
        Slot to = claim(t, hash);
        bool in_overflow = !to.is();
        if (in_overflow) to = claim_in_overflow(t, hash);
        if (!to.is()) {
            stuck++;
            continue;
        }
        move_item(t, from, to, state);
        moved += !in_overflow;
        overflowed += in_overflow;
    }
    if (lane() == 0) {
        if (moved) fetch_add(p.moved, moved);
        if (overflowed) fetch_add(p.overflowed, overflowed);
        if (stuck) fetch_add(p.stuck, stuck);
    }
    // Old slots are empty before anybody replaces the items: a word that came back would lead to a record that is used again.
    fence_at(Step::Drained);
}

// A thread a slot.
WK_KERNEL(gphash_repair, gphash::RepairParams) {
    using namespace gphash;
    Warp warp;
    const Table& t = p.table;
    u64 which = global_index();
    u64 bucket = which / t.slots();
    bool inside = bucket < p.run.buckets;
    Slot slot{inside ? bucket_at(t, p.run, bucket) : 0, (u32)(which % t.slots())};
    u64 state = inside ? peek(t, slot.state_at()) : kEmpty;
    // No fence: one that a crash brings back is emptied by whoever opens the table.
    if (state == kInsert) poke(t, slot.state_at(), kEmpty);
    u32 filling = popc(warp.ballot(state == kInsert));
    u32 items = popc(warp.ballot(state != kEmpty && state != kInsert));
    if (lane() == 0) {
        if (items) fetch_add(p.items, (u64)items);
        if (filling) fetch_add(p.cleared, (u64)filling);
    }
}
