// Duplicate keys: in a block, so that each key is looked up once; and in a batch, so that the operations on one key find the first and the last of them.
#pragma once
#include "warpkeep/simt.h"

namespace wk {

// Threads of a block that looks for duplicates, at most; and places of its table.
constexpr u32 kDuplicateThreads = 256;
constexpr u32 kDuplicatePlaces = 2 * kDuplicateThreads;
constexpr u32 kNoThread = ~0u;

// What the key of a thread has in common with those of its block.
struct Duplicate {
    // The thread that has the same key and is looked up for all that have it, and how many they are.
    u32 first;
    u32 uses;
    // Whether any key of the block occurs more than once.
    bool repeats;

    WK_DEVICE bool is_first() const { return first == thread_index(); }
};

// All threads of the block ask, once in a kernel. Threads that are not `inside` have no key. `same(other)` says whether the thread `other`, whose
// hash is equal, has the same key; different keys with one hash are treated as keys without duplicates. `uses` is counted only if `Counts` says so.
template <bool Counts = true, class Same> WK_DEVICE Duplicate find_duplicate(u64 hash, bool inside, Same same) {
    WK_SHARED(u64, hashes, kDuplicateThreads);
    WK_SHARED(u32, threads, kDuplicatePlaces);
    WK_SHARED(u32, uses, Counts ? kDuplicateThreads : 1);
    WK_SHARED(u32, repeats, 1);
    u32 me = thread_index();
    for (u32 i = me; i < kDuplicatePlaces; i += block_size()) threads.store(i, kNoThread);
    hashes.store(me, hash);
    if (Counts) uses.store(me, 1);
    if (me == 0) repeats.store(0, 0);
    sync_block();
    Duplicate duplicate{me, 1, false};
    // There are twice as many places as keys, so there is always a free one.
    for (u32 at = (u32)(hash >> 32) % kDuplicatePlaces; inside; at = (at + 1) % kDuplicatePlaces) {
        u32 there = threads.cas(at, kNoThread, me);
        if (there == kNoThread) break;
        if (hashes.load(there) != hash) continue;
        if (same(there)) {
            duplicate.first = there;
            if (Counts) uses.fetch_add(there, 1u);
            repeats.store_relaxed(0, 1u);
        }
        break;
    }
    sync_block();
    if (Counts) duplicate.uses = uses.load(me);
    duplicate.repeats = repeats.load(0) != 0;
    return duplicate;
}

// The first and the last operation of a batch on one key.
struct Occurrences {
    u32 first;
    u32 last;
};

// An entry of a DuplicateTable: a hash; the count less its first operation; its last operation, and one more. All zero if it is free.
struct alignas(16) DuplicateEntry {
    u64 hash;
    u32 first;
    u32 last;
};

// The operations of a batch by the hash of their key. Zero before the batch; all operations insert themselves in one kernel, and look in a later one. Keys
// with equal hashes are one key to it.
struct DuplicateTable {
    // A power of two of entries, more than there are operations, and one more: the key whose hash is 0 has it, because elsewhere that says free.
    DuplicateEntry* entries;
    u64 capacity;
    // Operations of the batch.
    u64 count;

    WK_DEVICE DuplicateEntry* first_entry(u64 hash) const {
        return entries + (hash == 0 ? capacity : hash & (capacity - 1));
    }
    WK_DEVICE DuplicateEntry* next_entry(const DuplicateEntry* at) const {
        return entries + ((u64)(at + 1 - entries) & (capacity - 1));
    }

    // Inserts the operations on a key from one to another. Most keys have one, which takes one atomic operation on the whole entry.
    WK_DEVICE void insert(u64 hash, u64 from, u64 to) const {
        u32 first = (u32)(count - from), last = (u32)(to + 1);
        DuplicateEntry* at = first_entry(hash);
        U128 had{0, 0};
        // The key whose hash is 0 has an entry to itself.
        while (hash != 0) {
            had = load<Scope::Device, Order::Relaxed>((const U128*)at);
            if (had.lo == 0) had = cas<Scope::Device, Order::Relaxed>((U128*)at, U128{0, 0}, U128{hash, first | (u64)last << 32});
            if (had.lo == 0) return;
            if (had.lo == hash) break;
            at = next_entry(at);
        }
        // Both only grow, so most operations on a hot key can see that they change nothing.
        if (first > (u32)had.hi) fetch_max(&at->first, first);
        if (last > (u32)(had.hi >> 32)) fetch_max(&at->last, last);
    }

    // The operations on a key, given its first entry, which the caller has loaded earlier. Nothing is inserted any more.
    WK_DEVICE Occurrences find(u64 hash, U128 entry) const {
        const DuplicateEntry* at = first_entry(hash);
        while (entry.lo != hash) {
            at = next_entry(at);
            entry = load((const U128*)at);
        }
        return Occurrences{(u32)count - (u32)entry.hi, (u32)(entry.hi >> 32) - 1};
    }
};

}  // namespace wk
