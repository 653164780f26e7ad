// Drain: moving items out of runs that a table has outgrown; and repair: emptying claimed slots after a lost device.
//
// A moved item is written in four steps: (1) claim a slot, (2) copy key and payload, (3) store the new state, (4) clear
// the old state. A fence separates (2) from (3) and (3) from (4). So a crash leaves the item in its old slot, in its
// new slot, or in both, and never half copied.
#pragma once
#include "claim.h"

namespace gphash {

struct DrainParams {
    Table table;
    // Buckets `first` to `first + count` of a run that is being drained.
    Run run;
    u64 first;
    u64 count;
    // Items that moved to the open levels, that moved to the overflow, and for which no slot was free.
    u64* moved;
    u64* overflowed;
    u64* unplaced;
};

struct RepairParams {
    Table table;
    Run run;
    // Slots with an item, and claimed slots that were emptied.
    u64* items;
    u64* cleared;
};

// The hash of the key in a packed table's record.
WK_DEVICE u64 hash_of_record(const Table& t, u64 record) {
    return Key{t.at(t.tail_at(record)), t.key_len()}.hash(t.seed);
}

// The hash of the key of the item in a slot. All lanes give the same slot.
WK_DEVICE u64 hash_of_item(const Table& t, const Slot& slot, u64 state) {
    if (t.fingerprint_is_key()) return state;
    if (t.body() == kPacked) return hash_of_record(t, record_of(t, state));
    return Key{t.at(slot.key_at(t)), t.key_len()}.hash(t.seed);
}

// Moves an item to a slot that was claimed for it. The new slot is valid before the old one is cleared.
WK_DEVICE void move_item(const Table& t, const Slot& from, const Slot& to, u64 state) {
    Warp warp;
    for (u32 i = lane(); i < t.slot_key_words(); i += kWarp) {
        poke(t, to.key_at(t) + 8 * i, peek(t, from.key_at(t) + 8 * i));
    }
    for (u32 i = lane(); i < t.slot_payload_words(); i += kWarp) {
        poke(t, to.payload_at(t) + 8 * i, peek(t, from.payload_at(t) + 8 * i));
    }
    if (t.body() != kPacked) {
        // Key and payload before the state: each lane fences its own stores, and all lanes synchronise.
        fence_at(FaultPoint::DrainCopyFence);
        if (!is_omitted(FaultPoint::DrainLaneSync)) warp.sync();
    }
    if (lane() == 0) {
        poke(t, to.state_at(), state);
        fence_at(FaultPoint::DrainNewBeforeOld);
        // No other warp reads or claims the old slot during this kernel, so one fence at its end covers all of them.
        poke(t, from.state_at(), kEmpty);
    }
    warp.sync();
}

}  // namespace gphash
