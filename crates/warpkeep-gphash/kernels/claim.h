// Claim: reserve an empty slot for a new item.
//
// A warp reads all open slots of the key at once, chooses one by the CPU's placement rule, and changes its state from
// kEmpty to kInsert by compare-and-swap. A lost race filled one of finitely many slots, so the loop ends.
//
// Invariant: the CPU writes no slot meanwhile. The writer of the batch holds the table's write lock.
#pragma once
#include "find.h"

namespace gphash {

// The lanes that read bucket `number` of those a warp reads, one bit each.
WK_DEVICE u32 bucket_lanes(const Table& t, u32 number) {
    u32 mask = t.slots() >= kWarp ? ~0u : (1u << t.slots()) - 1;
    return mask << number * t.slots();
}

// The lane whose slot is to be claimed, given the lanes with empty slots; kWarp if there is none. In each level: the
// first bucket while it is at least half empty, otherwise the emptiest. The CPU chooses in the same way.
WK_DEVICE u32 choose_slot(const Table& t, u32 empty) {
    for (u32 level = 0; level < t.open_count; level++) {
        u32 first = level * t.hashes();
        u32 best = first, most = popc(empty & bucket_lanes(t, first));
        if (2 * most < t.slots()) {
            for (u32 location = 1; location < t.hashes(); location++) {
                u32 free = popc(empty & bucket_lanes(t, first + location));
                if (free > most) {
                    best = first + location;
                    most = free;
                }
            }
        }
        if (most > 0) return ffs(empty & bucket_lanes(t, best)) - 1;
    }
    return kWarp;
}

// Claims the slot of lane `owner`. True in all lanes if the slot was still empty.
WK_DEVICE bool claim_slot(const Table& t, const Slot& slot, u32 owner) {
    Warp warp;
    u64 before = kInsert;
    if (lane() == owner) {
        if (is_omitted(FaultPoint::AtomicClaim)) {
            before = peek(t, slot.state_at());
            poke(t, slot.state_at(), kInsert);
        } else {
            // Device scope suffices: compare-and-swap is not atomic with the CPU over the link, and the write lock
            // excludes the CPU.
            before = cas<Scope::Device, Order::AcqRel>(t.at(slot.state_at()), kEmpty, kInsert);
        }
    }
    return warp.shfl(before, owner) == kEmpty;
}

// Claims an empty slot for a key in the open levels. No slot if all are taken: then the CPU places the item.
WK_DEVICE Slot claim(const Table& t, u64 hash) {
    Warp warp;
    i32 special_slot = t.special_slot(hash);
    if (special_slot >= 0) {
        Slot slot{t.special_slots, (u32)special_slot};
        return claim_slot(t, slot, 0) ? slot : Slot{0, 0};
    }
    Slot slot = open_slot(t, hash, lane());
    for (;;) {
        u32 empty = warp.ballot(peek(t, slot.state_at()) == kEmpty);
        u32 owner = choose_slot(t, empty);
        if (owner == kWarp) return Slot{0, 0};
        // A failed claim means that another warp filled one of finitely many slots.
        if (claim_slot(t, slot, owner)) return Slot{warp.shfl(slot.bucket, owner), warp.shfl(slot.number, owner)};
    }
}

// Claims an empty slot for a key in the first overflow.
WK_DEVICE Slot claim_in_overflow(const Table& t, u64 hash) {
    Warp warp;
    for (u32 first = 0; first < kOverflowReach * t.slots(); first += kWarp) {
        Slot slot = overflow_slot(t, t.overflow[0], hash, first + lane());
        for (;;) {
            u32 empty = warp.ballot(slot.is_valid() && peek(t, slot.state_at()) == kEmpty);
            if (empty == 0) break;
            u32 owner = ffs(empty) - 1;
            if (claim_slot(t, slot, owner)) return Slot{warp.shfl(slot.bucket, owner), warp.shfl(slot.number, owner)};
        }
    }
    return Slot{0, 0};
}

}  // namespace gphash
