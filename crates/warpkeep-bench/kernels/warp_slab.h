// The slab hash and the slab allocator as their paper has them: slabs of 128 bytes with 15 pairs and a link, a warp for each request (warp-cooperative
// work sharing), an allocator whose warps keep the bitmap of a resident block in registers and claim one unit with each atomic operation. It is
// measured beside ours.
//
// Where the published code errs, this does not:
//  - A pair is read as one word by one lane, never as two halves, and loads are not weak: what another warp has changed is seen.
//  - A deletion replaces the pair as it was read by a tombstone, by CAS, and no tombstone is taken again: a key is there once, and a deletion does
//    not remove another's pair. An insertion takes the first empty pair of the chain after it has passed all pairs before it, and replaces.
//  - Out of memory is an answer: a claim looks at each block once.
//  - Addresses have 64 bits, keys are mixed with a seed, and the two keys that mark empty and deleted pairs are refused.
#pragma once
#include "requests.h"
#include "words.h"

namespace bench {

// Units of a block, and no unit.
constexpr u32 kBlockUnits = 1024;
constexpr u32 kNoSlab = ~0u;
// Words of a slab: a pair each, and the last one leads to the next slab.
constexpr u32 kWarpSlabWords = 16;
constexpr u32 kWarpSlabPairs = kWarpSlabWords - 1;
// An empty pair or link is all ones. Keys from the first of these on cannot be stored.
constexpr u64 kEmptyPair = ~0ull;
constexpr u32 kDeletedKey = ~0u - 1;
constexpr u32 kReservedKeys = kDeletedKey;

// Units of 128 bytes, all ones while they are free.
struct WarpPoolRef {
    u64* units;
    // 32 words for each block of 1024 units; a bit is set while its unit is taken.
    u32* bitmaps;
    // A power of two.
    u64 blocks;

    WK_DEVICE u64* unit(u32 handle) const { return units + (u64)handle * kWarpSlabWords; }
};

// A warp's view of a pool. All lanes of the warp call together.
struct WarpAllocator {
    WarpPoolRef pool;
    u32 resident;
    // The lane's word of the resident block, as it was seen last.
    u32 seen;

    WK_DEVICE explicit WarpAllocator(const WarpPoolRef& of) : pool(of) { reside((u32)mix64(0, global_warp())); }

    // One unit for the warp, the same handle in all lanes; kNoSlab if no block has one.
    WK_DEVICE u32 allocate() {
        Warp warp;
        // An odd step passes each of 2^k blocks once. Warps have different ones, or those that meet would stay together.
        u32 step = (u32)mix64(1, global_warp()) | 1;
        for (u32 passed = 0;;) {
            u32 lanes = warp.ballot(seen != ~0u);
            if (!lanes) {
                if (++passed > pool.blocks) return kNoSlab;
                reside(resident + step);
                continue;
            }
            u32 turn = ffs(lanes) - 1, handle = kNoSlab;
            if (lane() == turn) {
                u32 bit = ffs(~seen) - 1, wanted = seen | 1u << bit;
                u32 there = cas<Scope::Device, Order::Acquire>(word(), seen, wanted);
                if (there == seen) handle = resident * kBlockUnits + turn * 32 + bit;
                seen = there == seen ? wanted : there;
            }
            handle = warp.shfl(handle, turn);
            warp.sync();
            if (handle != kNoSlab) return handle;
        }
    }

    // Gives the unit of one lane back, which is as it was when it was claimed; false if it was free.
    WK_DEVICE static bool release(const WarpPoolRef& pool, u32 handle) {
        u32 bit = 1u << handle % 32;
        return fetch_and<Scope::Device, Order::Release>(pool.bitmaps + handle / 32, ~bit) & bit;
    }

private:
    WK_DEVICE u32* word() const { return pool.bitmaps + (u64)resident * kWarp + lane(); }
    WK_DEVICE void reside(u32 block) {
        resident = block & (u32)(pool.blocks - 1);
        seen = load<Scope::Device, Order::Relaxed>(word());
    }
};

struct WarpSlabRef {
    // The first slab of each bucket.
    u64* first;
    WarpPoolRef pool;
    u64 seed;
    u64 buckets;
};

// A warp's view of a table.
struct WarpSlabTable {
    WarpSlabRef table;
    WarpAllocator slabs;

    WK_DEVICE explicit WarpSlabTable(const WarpSlabRef& of) : table(of), slabs(of.pool) {}

    // The answer to the request of this lane, if it has one: Search, Replace or Delete. The warp works the requests of its lanes one after the other.
    WK_DEVICE u64 serve(bool wants, Request op, u32 key, u32 value) {
        Warp warp;
        u64 answer = wants ? answer_of(Outcome::Full) : 0;
        // Keys that mark pairs are refused.
        u32 queue = warp.ballot(wants && key < kReservedKeys);
        u64* slab = nullptr;
        while (queue) {
            u32 turn = ffs(queue) - 1;
            u32 its = warp.shfl(key, turn);
            Request what = (Request)warp.shfl((u32)op, turn);
            u64 pair = (u64)warp.shfl(value, turn) << 32 | its;
            if (!slab) slab = table.first + reduce(mix64(table.seed, its), table.buckets) * kWarpSlabWords;
            u64 done = step(slab, what, its, pair);
            if (done) {
                if (lane() == turn) answer = done;
                queue &= queue - 1;
                slab = nullptr;
            }
        }
        return answer;
    }

private:
    // One look at a slab. Gives the answer, or moves on to another slab, or is to be called again.
    WK_DEVICE u64 step(u64*& slab, Request what, u32 key, u64 pair) {
        Warp warp;
        // The upper half of the warp reads what the lower half reads, in the same access.
        u64 word = load<Scope::Device, Order::Relaxed>(slab + lane() % kWarpSlabWords);
        bool is_pair = lane() < kWarpSlabPairs;
        u32 hits = warp.ballot(is_pair && (u32)word == key), empty = warp.ballot(is_pair && word == kEmptyPair);
        u64 link = warp.shfl(word, kWarpSlabPairs);
        if (hits) {
            u32 at = ffs(hits) - 1;
            u64 seen = warp.shfl(word, at);
            u32 old = (u32)(seen >> 32);
            if (what == Request::Search) return answer_of(Outcome::Found, old);
            bool deletes = what == Request::Delete;
            if (!swap(slab + at, seen, deletes ? (u64)kDeletedKey : pair)) return 0;
            return answer_of(deletes ? Outcome::Removed : Outcome::Updated, old);
        }
        if (empty || link == kEmptyPair) {
            if (what != Request::Replace) return answer_of(Outcome::Absent);
            if (empty) return swap(slab + ffs(empty) - 1, kEmptyPair, pair) ? answer_of(Outcome::Inserted) : 0;
            u32 fresh = slabs.allocate();
            if (fresh == kNoSlab) return answer_of(Outcome::Full);
            u64 there = kEmptyPair;
            if (lane() == 0) there = cas<Scope::Device, Order::AcqRel>(slab + kWarpSlabPairs, kEmptyPair, (u64)fresh);
            there = warp.shfl(there, 0);
            // Another warp linked a slab first: this one was not written to.
            if (there != kEmptyPair && lane() == 0) WarpAllocator::release(table.pool, fresh);
            link = there == kEmptyPair ? (u64)fresh : there;
        }
        slab = table.pool.unit((u32)link);
        // The lane that read the link orders what the others read behind it.
        fence();
        warp.sync();
        return 0;
    }

    WK_DEVICE static bool swap(u64* at, u64 seen, u64 wanted) {
        u64 there = 0;
        if (lane() == 0) there = cas<Scope::Device, Order::Relaxed>(at, seen, wanted);
        return Warp().shfl(there, 0) == seen;
    }
};

}  // namespace bench
