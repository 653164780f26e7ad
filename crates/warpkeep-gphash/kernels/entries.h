// What is done to the mirror for a batch whose words the host stores: all its entries are veiled before the first word is, and set after the last. Both
// in kernels of their own, which have few registers and many warps; and the end of each orders all that it has done.
#pragma once
#include "numbers.h"
#include "straight.h"

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

// Has the copies and the mirror show what is in the image, and notes what is gone. A thread an operation, of which those that act have one.
WK_KERNEL(gphash_settle, gphash::StraightParams) {
    using namespace gphash;
    u64 i = global_index(), acts = load(&p.came->acts);
    if (i - thread_index() >= acts) return;
    Settled settled{kNone, 0};
    if (i < acts) {
        Act act = load_act(p.acts + i);
        settled = settle_own(p, i, act, act.entry);
    }
    BlockWants<kAccounts> wants(accounts_of(settled));
    BlockPlaces<kAccounts, u64> places(wants, &p.came->created);
    if (settled.old) store(p.retired + places.begin[kRetirements] + wants.rank(kRetirements), settled.old);
}
