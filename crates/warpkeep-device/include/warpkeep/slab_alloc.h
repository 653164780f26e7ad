// SlabAlloc: units of one size, claimed and given back by kernels. The host's side is warpkeep_containers::SlabAlloc.
//
// The pool is a tree of bitmaps with 1024 children a node: 32 words that a warp reads at once. Level 0 has a bit a unit, set while the unit is taken;
// a node of it is a block. Level 1 has a bit a block, level 2 a bit for 1024 blocks (a super block), set once everything below was taken. What does
// not exist counts as taken. One node of level 2 stands for 2^30 units, so a full pool is known after one load, or four at most.
//
// A bit above level 0 is a hint that may be late, and is corrected by the thread that can make it wrong:
//  - A unit becomes free: the bit is cleared (1), and if its word had been all ones, the bit above is cleared after that (2), and so on upwards.
//  - A warp saw a node all ones: it sets the bit above (3), reads the node again (4), and clears the bit again if something is free by then.
// Both (2) and (3) change the same word, so one comes first. If it is (3), then (2) has the last word, and the bit is clear. If it is (2), then (3)
// acquires what (2) released, (4) sees the free bit, and the bit is cleared again. Of several units freed in one word, the one that found it all ones
// does (2), and the others are seen by (4) or found it all ones themselves. So no free unit stays hidden once the calls are done; while
// calls that free are still under way, a call may find nothing and say so.
#pragma once
#include "warpkeep/fault_point.h"
#include "warpkeep/hash.h"
#include "warpkeep/scan.h"

namespace wk {

// What is handed out when there is no unit left.
constexpr u32 kNoUnit = ~0u;
constexpr u32 kNodeWords = kWarp;
constexpr u32 kNodeBits = 32 * kNodeWords;
constexpr u32 kSlabLevels = 3;
// The counters are spread over this many lines, because atomic operations on one word are carried out one after the other.
constexpr u32 kCounterLines = 32;
constexpr u32 kCounterWords = 16;

// Words of a line of counters.
enum class SlabCount : u32 { InUse, Failed, Refused };

// A pool, for the parameters of kernels.
struct SlabAllocRef {
    u8* units;
    u32* levels[kSlabLevels];
    u64* counters;
    // Blocks that are mapped.
    u32 blocks;
    u32 unit_bytes;

    WK_DEVICE u32 capacity() const { return blocks * kNodeBits; }
    // Where a unit lies. All 32 bits of a handle count, so the product has 64.
    WK_DEVICE u8* address(u32 handle) const { return units + (u64)handle * unit_bytes; }
    template <class T> WK_DEVICE T* as(u32 handle) const { return (T*)address(handle); }
};

// The position of the set bit that has `rank` set bits below it; there is one.
WK_DEVICE u32 nth_bit(u32 bits, u32 rank) {
    u32 at = 0;
    for (u32 width = 16; width; width /= 2) {
        u32 below = popc(bits >> at & ((1u << width) - 1));
        if (rank >= below) {
            rank -= below;
            at += width;
        }
    }
    return at;
}

// Bits that the lanes of a warp hold together, in the order of the lanes.
struct WarpBits {
    u32 own;
    u32 before;
    u32 all;

    // All lanes of the warp take part in it, and in find.
    WK_DEVICE explicit WarpBits(u32 bits) : own(bits) {
        u32 reached = warp_inclusive_sum(popc(bits));
        before = reached - popc(bits);
        all = Warp().shfl(reached, kWarp - 1);
    }
    // The lane that holds the set bit of this rank, times 32, and the bit. Nothing in particular if there are not this many.
    WK_DEVICE u32 find(u32 rank) const {
        Warp warp;
        u32 from = 0;
        for (u32 step = kWarp / 2; step; step /= 2) {
            if (warp.shfl(before, from + step) <= rank) from += step;
        }
        u32 bits = warp.shfl(own, from), first = warp.shfl(before, from);
        return from * 32 + nth_bit(bits, rank - first);
    }
};

// A warp's view of a pool: all lanes of the warp make one, and call `allocate` and `release` together. It keeps the block that the warp had its last
// units from. Calls order what the lane itself did with its unit; if a tile worked on it, the tile syncs before it is released.
struct SlabAllocator {
    SlabAllocRef pool;
    u32 resident;
    u32 drawn;

    WK_DEVICE explicit SlabAllocator(const SlabAllocRef& of) : pool(of), drawn(0) { resident = draw(of.blocks); }

    // A unit for each lane that wants one; kNoUnit if there is none. What it holds is unspecified.
    WK_DEVICE u32 allocate(bool wants) { return allocate_run<1>(wants); }

    // As allocate, and the unit is all zeros.
    WK_DEVICE u32 allocate_zeroed(bool wants) {
        u32 handle = allocate(wants);
        if (handle != kNoUnit) {
            for (u32 i = 0; i < pool.unit_bytes / sizeof(U128); i++) store(pool.as<U128>(handle) + i, U128{0, 0});
        }
        return handle;
    }

    // As allocate, for Length units that lie side by side, the first at a multiple of Length: its handle. It is looked for in every block once, so that
    // it can be missed while others claim and release.
    template <u32 Length> WK_DEVICE u32 allocate_run(bool wants) {
        static_assert(Length <= 32 && (Length & (Length - 1)) == 0, "1, 2, 4, 8, 16 or 32 units");
        Warp warp;
        u32 handle = kNoUnit, wanting = warp.ballot(wants), asked = wanting, passed = 0;
        while (wanting) {
            // Warps begin at different words of a block, so that they seldom want the same bits.
            u32* word = at<0>(resident) + rotated(lane());
            u32 seen = load<Scope::Device, Order::Relaxed>(word);
            WarpBits free(first_of_runs<Length>(~seen));
            if (free.all == 0) {
                if (Length == 1 ? !move_on() : ++passed == pool.blocks) break;
                if (Length > 1) resident = resident + 1 == pool.blocks ? 0 : resident + 1;
                continue;
            }
            u32 needed = popc(wanting), own = popc(free.own);
            u32 more = free.before < needed ? needed - free.before : 0;
            u32 mask = more >= own ? free.own : free.own & ((1u << nth_bit(free.own, more)) - 1);
            WarpBits won(mask ? claim<Length>(word, seen, mask) : 0);
            u32 rank = popc(wanting & ((1u << lane()) - 1)), found = won.find(rank);
            if (wanting >> lane() & 1 && rank < won.all) {
                handle = resident * kNodeBits + rotated(found / 32) * 32 + found % 32;
            }
            // A lane may have claimed the unit of another one.
            warp.sync();
            wanting = warp.ballot(wants && handle == kNoUnit);
        }
        count(SlabCount::InUse, (u64)popc(asked & ~wanting) * Length);
        count(SlabCount::Failed, (u64)popc(wanting) * Length);
        return handle;
    }

    // Gives a unit of each lane that wants it back; false if that was refused: no unit has this number, or it is free.
    WK_DEVICE bool release(u32 handle, bool wants) { return release_run<1>(handle, wants); }

    // The same for a run of units. It is refused as a whole.
    template <u32 Length> WK_DEVICE bool release_run(u32 handle, bool wants) {
        bool freed = wants && handle < pool.capacity() && handle % Length == 0 && open<0, Length>(handle);
        u32 asked = Warp().ballot(wants), done = Warp().ballot(freed);
        count(SlabCount::InUse, 0 - (u64)popc(done) * Length);
        count(SlabCount::Refused, (u64)popc(asked & ~done));
        return freed;
    }

private:
    // Levels are constants, or the parameters would have to lie in memory.
    template <u32 Level> WK_DEVICE u32* at(u32 node) const { return pool.levels[Level] + (u64)node * kNodeWords; }
    WK_DEVICE u32 rotated(u32 word) const { return (word + (u32)global_warp()) % kNodeWords; }

    // A number below `limit`, another one in every warp and every time.
    WK_DEVICE u32 draw(u32 limit) { return (u32)reduce(mix64(drawn++, global_warp()), limit); }

    // Length ones.
    template <u32 Length> static constexpr u32 kRun = Length == 32 ? ~0u : (1u << Length % 32) - 1;

    // The first bits of runs that are all ones.
    template <u32 Length> WK_DEVICE static u32 first_of_runs(u32 bits) {
        for (u32 reach = 1; reach < Length; reach *= 2) bits &= bits >> reach;
        return bits & (~0u / kRun<Length>);
    }

    // Takes the units or the runs whose first bits are in `first`; gives those that were won. Of units it may win some; of runs all or, if the word
    // is no longer as seen, none. The first access to a unit comes after the last one of its former owner.
    template <u32 Length> WK_DEVICE static u32 claim(u32* word, u32 seen, u32 first) {
        if (WK_FAULT_POINT("slab_alloc.atomic_claim")) {
            u32 there = load<Scope::Device, Order::Relaxed>(word);
            store<Scope::Device, Order::Relaxed>(word, there | first * kRun<Length>);
            return first & ~there;
        }
        if constexpr (Length == 1) return first & ~fetch_or<Scope::Device, Order::Acquire>(word, first);
        return cas<Scope::Device, Order::Acquire>(word, seen, seen | first * kRun<Length>) == seen ? first : 0;
    }

    // Clears a bit of a level, or a run of bits, then the bit above if the word was all ones; false if it was clear before.
    template <u32 Level, u32 Length = 1> WK_DEVICE bool open(u32 child) const {
        u32* word = pool.levels[Level] + child / 32;
        u32 mask = kRun<Length> << child % 32, old;
        if constexpr (Length == 1) {
            old = fetch_and<Scope::Device, Order::Release>(word, ~mask);
        } else {
            // A run of which something is free stays as it is: the rest may be another's.
            u32 seen;
            old = load<Scope::Device, Order::Relaxed>(word);
            do {
                seen = old;
                if ((seen & mask) != mask) return false;
                old = cas<Scope::Device, Order::Release>(word, seen, seen & ~mask);
            } while (old != seen);
        }
        if constexpr (Level + 1 < kSlabLevels) {
            if (old == ~0u && !WK_FAULT_POINT("slab_alloc.summary_opened")) open<Level + 1>(child / kNodeBits);
        }
        return (old & mask) == mask;
    }

    // Sets the bit above a node that this warp has seen all ones.
    template <u32 Level> WK_DEVICE void close(u32 node) const {
        if (lane() == 0) fetch_or<Scope::Device, Order::Acquire>(pool.levels[Level + 1] + node / 32, 1u << node % 32);
        // The node is read after that, by all lanes.
        sync_warp();
        if (WK_FAULT_POINT("slab_alloc.closed_then_read")) return;
        u32 word = load<Scope::Device, Order::Relaxed>(at<Level>(node) + lane());
        if (Warp().any(word != ~0u) && lane() == 0) open<Level + 1>(node);
    }

    // A random child of a node whose bit is clear; kNoUnit if none is.
    template <u32 Level> WK_DEVICE u32 pick(u32 node) {
        WarpBits free(~load<Scope::Device, Order::Relaxed>(at<Level>(node) + lane()));
        u32 found = free.find(draw(free.all));
        return free.all ? node * kNodeBits + found : kNoUnit;
    }

    // Makes another block resident, because that one is full; false if all are. Each round finds a free unit's block, or closes a node.
    WK_DEVICE bool move_on() {
        close<0>(resident);
        u32 supers = (pool.blocks + kNodeBits - 1) / kNodeBits, roots = (supers + kNodeBits - 1) / kNodeBits;
        u32 root = draw(roots);
        for (u32 left = roots; left;) {
            u32 super_block = pick<2>(root);
            if (super_block == kNoUnit) {
                root = root + 1 == roots ? 0 : root + 1;
                left--;
                continue;
            }
            u32 block = pick<1>(super_block);
            if (block != kNoUnit) {
                resident = block;
                return true;
            }
            close<1>(super_block);
        }
        return false;
    }

    // Changes a counter; every lane gives the same number.
    WK_DEVICE void count(SlabCount which, u64 change) const {
        if (change == 0 || lane() != 0) return;
        fetch_add(pool.counters + global_warp() % kCounterLines * kCounterWords + (u32)which, change);
    }
};

}  // namespace wk
