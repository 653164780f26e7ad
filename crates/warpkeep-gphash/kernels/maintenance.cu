// Draining runs that a table has outgrown, and repair after a lost device.
#include "drain.h"

// Moves the items of buckets to the open levels or the overflow. One warp per bucket.
WK_KERNEL(gphash_drain, gphash::DrainParams) {
    using namespace gphash;
    const Table& t = p.table;
    u64 position = global_index() / kWarp;
    if (position >= p.count) return;
    u64 bucket = bucket_at(t, p.run, p.first + position);
    u64 moved = 0, overflowed = 0, unplaced = 0;
    for (u32 number = 0; number < t.slots(); number++) {
        Slot from{bucket, number};
        u64 state = peek(t, from.state_at());
        if (state == kEmpty || state == kInsert) continue;
        u64 hash = hash_of_item(t, from, state);
        Slot to = claim(t, hash);
        bool in_overflow = !to.is_valid();
        if (in_overflow) to = claim_in_overflow(t, hash);
        if (!to.is_valid()) {
            unplaced++;
            continue;
        }
        move_item(t, from, to, state);
        moved += !in_overflow;
        overflowed += in_overflow;
    }
    if (lane() == 0) {
        if (moved) fetch_add(p.moved, moved);
        if (overflowed) fetch_add(p.overflowed, overflowed);
        if (unplaced) fetch_add(p.unplaced, unplaced);
    }
    // Old slots are empty before a later batch replaces the items: an old word that a crash brought back would refer to
    // a reused record.
    fence_at(FaultPoint::DrainEndFence);
}

// Empties claimed slots and counts items. One thread per slot.
WK_KERNEL(gphash_repair, gphash::RepairParams) {
    using namespace gphash;
    Warp warp;
    const Table& t = p.table;
    u64 slot_number = global_index();
    u64 bucket = slot_number / t.slots();
    bool inside = bucket < p.run.buckets;
    Slot slot{inside ? bucket_at(t, p.run, bucket) : 0, (u32)(slot_number % t.slots())};
    u64 state = inside ? peek(t, slot.state_at()) : kEmpty;
    // No fence: the next opening empties a claimed slot that a crash brings back.
    if (state == kInsert) poke(t, slot.state_at(), kEmpty);
    u32 claimed = popc(warp.ballot(state == kInsert));
    u32 items = popc(warp.ballot(state != kEmpty && state != kInsert));
    if (lane() == 0) {
        if (items) fetch_add(p.items, (u64)items);
        if (claimed) fetch_add(p.cleared, (u64)claimed);
    }
}
