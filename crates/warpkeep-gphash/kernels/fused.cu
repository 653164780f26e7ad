// Fused writes: deciding and publishing without the host in between.
#include "decide.h"
#include "entries.h"
#include "line_up.h"
#include "parts.h"
#include "supply.h"

// Puts acts in the order of their slots, and hands blocks out in that order: words of a part are near each other then. A thread an
// operation, of which those that act have one.
WK_KERNEL(gphash_arrange, gphash::StraightParams) {
    using namespace gphash;
    u64 i = global_index();
    if (i >= load(&p.came->acts)) return;
    Act act = load_act(p.decided + i);
    u64 place = p.regions.place(slot_of_act(p, act), load(p.ranks + i));
    // It has what of its word comes from the key.
    act.word = act.kind == kClear ? kEmpty : act.word | p.table.state_of(0, load(p.blocks + place));
    store_act(p.acts + place, act);
}

// As many blocks as run at the same time, or fewer.
WK_KERNEL(gphash_beat, gphash::BeatParams) {
    using namespace gphash;
    beat(p, Hand{global_index(), global_size()}, block_index());
}

// What crosses the link, where the host stores the words. A few blocks.
WK_KERNEL_AT_ONCE(gphash_send, gphash::BeatParams, gphash::kSendThreads, 1) {
    using namespace gphash;
    send(p, Hand{global_index(), global_size()});
}

// Copies states again. A thread each.
WK_KERNEL(gphash_recopy, gphash::RecopyParams) {
    using namespace gphash;
    const Table& t = p.table;
    u64 i = global_index();
    if (i >= p.count) return;
    u64 at = p.offsets ? load(p.offsets + i) : 0;
    u64* to = p.copies;
    for (u32 level = t.open_first; level < t.open_first + t.open_count; level++) {
        u64 slots = t.level[level].buckets * t.slots();
        u64 slot = p.offsets ? (at - t.level[level].offset) / 8 : i;
        bool here = p.offsets ? at >= t.level[level].offset && slot < slots : i < slots;
        if (here) {
            store<Scope::Device, Order::Relaxed>(to + slot, peek(t, t.level[level].offset + 8 * slot));
            return;
        }
        to += slots;
        if (!p.offsets) i -= slots;
    }
}

// Makes the digests of all values. `digest_lanes` threads an operation.
WK_KERNEL(gphash_digest, gphash::StraightParams) {
    using namespace gphash;
    u32 lanes = digest_lanes(p.table), own = lane() % lanes, words = p.table.value_words();
    u64 index = global_index() / lanes;
    bool inside = index < p.count;
    u64 sum = 0;
    for (u32 i = own; inside && i < words; i += lanes) sum += value_share(p.table, i, load(p.values + index * words + i));
    sum = sum_of_lanes(sum, lanes);
    if (inside && own == 0) store(p.digests + index, digest_of_sum(sum));
}

// Writes records and makes them count, of a small batch. A block for as many acts as a warp has lanes.
WK_KERNEL(gphash_finish, gphash::StraightParams) {
    using namespace gphash;
    finish(p, block_index());
}

// A thread a block.
WK_KERNEL(gphash_spell, gphash::SpellParams) {
    using namespace gphash;
    u64 i = global_index();
    if (i >= p.count) return;
    u64 low = 0, high = p.run_count;
    while (high - low > 1) {
        u64 middle = (low + high) / 2;
        if (load(&p.runs[middle].before) <= i) low = middle;
        else high = middle;
    }
    u64 number = i - load(&p.runs[low].before), within = number % p.tile_blocks;
    u64 block = load(&p.runs[low].offset) + (number - within) * p.block_len + within * (p.value_len + 8);
    store(p.blocks + i, block);
}

// The host has the same: src/gpu/kernels.rs.
WK_AGREE(gphash_enrolled_bytes, sizeof(gphash::Enrolled))
WK_AGREE(gphash_act_bytes, sizeof(gphash::Act))
WK_AGREE(gphash_came_bytes, sizeof(gphash::Came))
WK_AGREE(gphash_block_run_bytes, sizeof(gphash::BlockRun))
WK_AGREE(gphash_most_parts, gphash::kMostParts)
WK_AGREE(gphash_send_threads, gphash::kSendThreads)
