// Claiming: an empty slot becomes this warp's.
#pragma once
#include "find.h"

namespace gphash {

// The slots of bucket `which` among those a warp looks at, a bit each.
WK_DEVICE u32 bucket_lanes(const Table& t, u32 which) {
    u32 one = t.slots() >= kWarp ? ~0u : (1u << t.slots()) - 1;
    return one << which * t.slots();
}

// The lane whose slot is to be claimed, by which slots are empty: in the first bucket of a level while that is half empty, then in
// the emptiest, else in the next level. The same choice as on the CPU; kWarp if there is none.
WK_DEVICE u32 choose(const Table& t, u32 empty) {
    for (u32 level = 0; level < t.open_count; level++) {
        u32 first = level * t.hashes();
        u32 best = first, most = popc(empty & bucket_lanes(t, first));
        if (2 * most < t.slots()) {
            for (u32 location = 1; location < t.hashes(); location++) {
                u32 room = popc(empty & bucket_lanes(t, first + location));
                if (room > most) {
                    best = first + location;
                    most = room;
                }
            }
        }
        if (most > 0) return ffs(empty & bucket_lanes(t, best)) - 1;
    }
    return kWarp;
}

// Claims the slot of one lane; whether it was still empty. The same answer in all lanes.
WK_DEVICE bool claim_slot(const Table& t, const Slot& slot, u32 who) {
    Warp warp;
    u64 before = kInsert;
    if (lane() == who) {
        if (left_out(Step::Claimed)) {
            before = peek(t, slot.state_at());
            poke(t, slot.state_at(), kInsert);
        } else {
            // Among lanes of the device: with the CPU there is no agreement over the link, and it has no turn meanwhile.
            before = cas<Scope::Device, Order::AcqRel>(t.at(slot.state_at()), kEmpty, kInsert);
        }
    }
    return warp.shfl(before, who) == kEmpty;
}

// Claims an empty slot for a key, in the levels that items are put into. No slot if there is none: then the host finds a place.
WK_DEVICE Slot claim(const Table& t, u64 hash) {
    Warp warp;
    i32 special = t.special(hash);
    if (special >= 0) {
        Slot slot{t.specials, (u32)special};
        return claim_slot(t, slot, 0) ? slot : Slot{0, 0};
    }
    Slot slot = open_slot(t, hash, lane());
    for (;;) {
        u32 empty = warp.ballot(peek(t, slot.state_at()) == kEmpty);
        u32 who = choose(t, empty);
        if (who == kWarp) return Slot{0, 0};
        // Whoever was faster has filled one of finitely many.
        if (claim_slot(t, slot, who)) return Slot{warp.shfl(slot.bucket, who), warp.shfl(slot.number, who)};
    }
}

// Claims an empty slot for a key in the overflow.
WK_DEVICE Slot claim_in_overflow(const Table& t, u64 hash) {
    Warp warp;
    for (u32 first = 0; first < kOverflowReach * t.slots(); first += kWarp) {
        Slot slot = overflow_slot(t, t.overflow[0], hash, first + lane());
        for (;;) {
            u32 empty = warp.ballot(slot.is() && peek(t, slot.state_at()) == kEmpty);
            if (empty == 0) break;
            u32 who = ffs(empty) - 1;
            if (claim_slot(t, slot, who)) return Slot{warp.shfl(slot.bucket, who), warp.shfl(slot.number, who)};
        }
    }
    return Slot{0, 0};
}

}  // namespace gphash
