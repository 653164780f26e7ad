// What is done to the mirror for a batch whose words the host stores: all its entries are veiled before the first word is stored, and those of each
// part set after the last of its words. Both in kernels of their own, which have few registers and many warps, and beside what crosses the link;
// the end of each orders all that it has done.
#pragma once
#include "numbers.h"
#include "parts.h"

namespace gphash {

// What acts are counted for when they are settled: words of Came, from `created` on.
enum Account : u32 { kCreations, kRemovals, kAsks, kRetirements, kAccounts };

WK_DEVICE u32 accounts_of(const Settled& settled) {
    u32 kind = settled.kind == kFill ? 1u << kCreations : settled.kind == kClear ? 1u << kRemovals : 0;
    return kind | (settled.old ? 1u << kRetirements : 0);
}

}  // namespace gphash

// Sends readers of a batch's keys to the image. A thread an operation, of which those that act have one.
WK_KERNEL(gphash_veil, gphash::StraightParams) {
    using namespace gphash;
    u64 i = global_index();
    if (i >= load(&p.came->acts)) return;
    Act* act = p.acts + i;
    store(&act->entry, veil_act(p, act));
}

// Has the copies and the mirror show what is in the image of a part, and notes what is gone. A thread an act, of as many as a part can have.
WK_KERNEL(gphash_settle, gphash::BeatParams) {
    using namespace gphash;
    const StraightParams& s = p.straight;
    Span span = part_of(p, p.beat - 2);
    u64 i = global_index();
    if (i - thread_index() >= span.count) return;
    Settled settled{kNone, 0};
    if (i < span.count) {
        Act act = load_act(s.acts + span.first + i);
        settled = settle_own(s, span.first + i, act, act.entry);
    }
    BlockWants<kAccounts> wants(accounts_of(settled));
    BlockPlaces<kAccounts, u64> places(wants, &s.came->created);
    if (settled.old) store(s.retired + places.begin[kRetirements] + wants.rank(kRetirements), settled.old);
}
