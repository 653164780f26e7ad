// Epochs, after DEBRA, for nodes that are replaced while others still read them. A block announces the epoch that it saw before it works a group of operations,
// and takes the announcement back after the group. The epoch advances when every block that works has announced it. A node that a block retires in epoch e is
// free in epoch e + 2: every block that worked then has come to an end.
//
// A block keeps the nodes that it retired in a ring of its own in global memory, the oldest first, and takes the free ones from there. The ring has room for a
// group from the start of the group on. A block that has too little waits between two groups, where it hinders no other block, and not for ever: after that an
// operation that gets no node is answered Full.
//
// A block announces, then reads the epoch by an atomic operation; one that advances it reads the epoch, then the announcements. So one advance at most can
// overlook an announcement: the epoch that a working block read rises by one at most until it is done.
#pragma once
#include "link_tree.h"

namespace bench {

// Operations of a group, which is as many as a block has threads: each retires one node at most.
constexpr u32 kGroup = 128;
// Nodes of a block's ring; a power of two.
constexpr u32 kRing = 1024;
// How often a block tries to advance the epoch before it goes on without free nodes.
constexpr u32 kMostTries = 1u << 12;
// Epochs whose numbers of nodes are kept for a report.
constexpr u32 kTracedEpochs = 4096;

// A block's ring between launches: numbers of nodes since the beginning. Those before `taken` are in use again, those before `free` can be taken, those before
// `older` were retired before epoch `epoch`, and those before `retired` in it.
struct EpochRing {
    u32 taken;
    u32 free;
    u32 older;
    u32 retired;
    u32 epoch;
    u32 reserved[3];
};

struct EpochsRef {
    u32* epoch;
    // For each block 0, or the epoch that it announced plus one.
    u32* announced;
    EpochRing* rings;
    u32* nodes;
    // Nodes that were retired, and those of them that became free.
    u64* counts;
    // Both for each epoch that ended.
    u64* trace;
    // Blocks that there is room for; a launch has no more.
    u32 blocks;
    u32 reserved;
};

// A block's view. All its threads call enter and leave, lanes of their own choice the others in between.
struct NodeEpochs {
    const EpochsRef& of;
    const LinkTree& tree;
    // The ring, and what the group does.
    Shared<u32> words;

    enum Word : u32 { Taken, Free, Older, Retired, Epoch, Fresh, Takes, Retires, Seen, Hindered, Words };

    WK_DEVICE void load_ring() const {
        if (thread_index() != 0) return;
        const EpochRing* ring = of.rings + block_index();
        words.store(Taken, load(&ring->taken));
        words.store(Free, load(&ring->free));
        words.store(Older, load(&ring->older));
        words.store(Retired, load(&ring->retired));
        words.store(Epoch, load(&ring->epoch));
    }
    WK_DEVICE void store_ring() const {
        if (thread_index() != 0) return;
        EpochRing* ring = of.rings + block_index();
        store(&ring->taken, words.load(Taken));
        store(&ring->free, words.load(Free));
        store(&ring->older, words.load(Older));
        store(&ring->retired, words.load(Retired));
        store(&ring->epoch, words.load(Epoch));
    }

    // Before a group of operations.
    WK_DEVICE void enter() const {
        for (u32 tries = 0; tries < kMostTries; tries++) {
            if (thread_index() == 0) {
                observe(fetch_add<Scope::Device, Order::AcqRel>(of.epoch, 0u));
                bool has_memory = load<Scope::Device, Order::Relaxed>(tree.next) < tree.capacity;
                words.store(Fresh, has_memory ? kRing - kGroup - (words.load(Retired) - words.load(Taken)) : 0);
            }
            sync_block();
            u32 ready = words.load(Free) - words.load(Taken) + words.load(Fresh);
            if (ready >= kGroup || words.load(Free) == words.load(Retired)) break;
            advance();
            backoff(1000);
        }
        if (thread_index() == 0) {
            u32 epoch = load<Scope::Device, Order::Relaxed>(of.epoch);
            store<Scope::Device, Order::Release>(of.announced + block_index(), epoch + 1);
            fetch_add<Scope::Device, Order::AcqRel>(of.epoch, 0u);
            words.store(Takes, 0);
            words.store(Retires, 0);
        }
        sync_block();
    }

    // After a group of operations.
    WK_DEVICE void leave() const {
        sync_block();
        if (thread_index() == 0) {
            store<Scope::Device, Order::Release>(of.announced + block_index(), 0);
            u32 ready = words.load(Free) - words.load(Taken), takes = words.load(Takes), retires = words.load(Retires);
            words.store(Taken, words.load(Taken) + (takes < ready ? takes : ready));
            observe(fetch_add<Scope::Device, Order::AcqRel>(of.epoch, 0u));
            words.store(Retired, words.load(Retired) + retires);
            if (retires) fetch_add(of.counts, (u64)retires);
        }
        advance();
    }

    // A node for a copy, or kNoRight. Of one lane.
    WK_DEVICE u32 take() const {
        u32 number = words.fetch_add(Takes, 1), free = words.load(Free) - words.load(Taken);
        if (number < free) return load(slot(words.load(Taken) + number));
        if (number - free >= words.load(Fresh)) return kNoRight;
        u32 node = fetch_add(tree.next, 1);
        if (node < tree.capacity) return node;
        fetch_add(tree.next, ~0u);
        return kNoRight;
    }
    // Gives away a node that `take` gave to the same group, and that operations which begin later do not read. Of one lane.
    WK_DEVICE void retire(u32 node) const { store(slot(words.load(Retired) + words.fetch_add(Retires, 1)), node); }

private:
    WK_DEVICE u32* slot(u32 number) const { return of.nodes + (u64)block_index() * kRing + number % kRing; }

    // Nodes that are free now. Of the first thread.
    WK_DEVICE void observe(u32 epoch) const {
        u32 since = epoch - words.load(Epoch), free = words.load(Free);
        if (since == 0) return;
        u32 now_free = since == 1 ? words.load(Older) : words.load(Retired);
        words.store(Free, now_free);
        words.store(Older, words.load(Retired));
        words.store(Epoch, epoch);
        if (now_free != free) fetch_add(of.counts + 1, (u64)(now_free - free));
    }

    // Advances the epoch if no block hinders it.
    WK_DEVICE void advance() const {
        if (thread_index() == 0) {
            words.store(Seen, load<Scope::Device, Order::Acquire>(of.epoch));
            words.store(Hindered, 0);
        }
        sync_block();
        u32 epoch = words.load(Seen);
        bool hinders = false;
        for (u32 block = thread_index(); block < of.blocks; block += block_size()) {
            u32 announced = load<Scope::Device, Order::Acquire>(of.announced + block);
            hinders |= announced != 0 && announced != epoch + 1;
        }
        if (hinders) words.fetch_or(Hindered, 1);
        sync_block();
        if (thread_index() != 0 || words.load(Hindered)) return;
        if (cas<Scope::Device, Order::AcqRel>(of.epoch, epoch, epoch + 1) != epoch || epoch >= kTracedEpochs) return;
        store(of.trace + 2 * epoch, load<Scope::Device, Order::Relaxed>(of.counts));
        store(of.trace + 2 * epoch + 1, load<Scope::Device, Order::Relaxed>(of.counts + 1));
    }
};

}  // namespace bench
