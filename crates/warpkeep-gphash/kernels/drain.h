// Resizing and recovery: items leave runs that are being drained; slots that were being filled are emptied.
#pragma once
#include "claim.h"

namespace gphash {

struct DrainParams {
    Table table;
    // Buckets of a run that is being drained.
    Run run;
    u64 first;
    u64 count;
    // Items that moved to the levels, that moved to the overflow, and that found no place.
    u64* moved;
    u64* overflowed;
    u64* stuck;
};

struct RepairParams {
    Table table;
    Run run;
    // Slots with an item, and slots that were being filled.
    u64* items;
    u64* cleared;
};

// The hash of the key of a packed table's record.
WK_DEVICE u64 hash_of_record(const Table& t, u64 record) { return Key{t.at(t.tail_at(record)), t.key_len()}.hash(t.seed); }

// The hash of the key in a slot. All lanes ask for the same slot.
WK_DEVICE u64 hash_in(const Table& t, const Slot& slot, u64 state) {
    if (t.fingerprint_is_key()) return state;
    if (t.body() == kPacked) return hash_of_record(t, record_of(t, state));
    return Key{t.at(slot.key_at(t)), t.key_len()}.hash(t.seed);
}

// Moves an item to a slot that was claimed for it. It is in its new place before it leaves the old one.
WK_DEVICE void move_item(const Table& t, const Slot& from, const Slot& to, u64 state) {
    Warp warp;
    for (u32 i = lane(); i < t.slot_key_words(); i += kWarp) poke(t, to.key_at(t) + 8 * i, peek(t, from.key_at(t) + 8 * i));
    for (u32 i = lane(); i < t.slot_payload_words(); i += kWarp) {
        poke(t, to.payload_at(t) + 8 * i, peek(t, from.payload_at(t) + 8 * i));
    }
    if (t.body() != kPacked) {
        // What is beside the state before the state: each lane orders what it stored, and all wait for each other.
        fence_at(Step::Copied);
        if (!left_out(Step::Gathered)) warp.sync();
    }
    if (lane() == 0) {
        poke(t, to.state_at(), state);
        fence_at(Step::Moved);
        // Nobody looks at the old slot or takes it while this kernel runs, so one fence at its end does for all of them.
        poke(t, from.state_at(), kEmpty);
    }
    warp.sync();
}

}  // namespace gphash
