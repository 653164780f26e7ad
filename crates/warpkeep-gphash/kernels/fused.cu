// Fused writes: deciding and publishing without the host in between. write/fused.h describes the steps.
#include "write/decide.h"
#include "write/entries.h"
#include "write/pipeline.h"
#include "write/block_pool.h"

// Sorts effects by slot and assigns blocks in that order, so that the words of a chunk lie together. One thread per
// operation, of which the first `effects` have work.
WK_KERNEL(gphash_order_effects, gphash::FusedParams) {
    using namespace gphash;
    u64 i = global_index();
    if (i >= load(&p.summary->effects)) return;
    Effect effect = load_effect(p.unsorted + i);
    u64 position = p.partition.position(slot_of_effect(p, effect), load(p.ranks + i));
    // `word` has the bits that come from the key; the bits of the record are added.
    effect.word = effect.kind == kClear ? kEmpty : effect.word | p.table.state_of(0, load(p.blocks + position));
    store_effect(p.effects + position, effect);
}

// At most as many blocks as run at once.
WK_KERNEL(gphash_step, gphash::StepParams) {
    using namespace gphash;
    pipeline_step(p, GridStride{global_index(), global_size()}, block_index());
}

// Sends chunks, where the host publishes. A few blocks saturate the link.
WK_KERNEL_AT_ONCE(gphash_send, gphash::StepParams, gphash::kSendThreads, 1) {
    using namespace gphash;
    send_chunks(p, GridStride{global_index(), global_size()});
}

// Copies states of the open levels again. One thread per state.
WK_KERNEL(gphash_copy_levels, gphash::CopyLevelsParams) {
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

// Computes the digests of all values. `digest_lanes` threads per operation.
WK_KERNEL(gphash_digest, gphash::FusedParams) {
    using namespace gphash;
    u32 lanes = digest_lanes(p.table), own = lane() % lanes, words = p.table.value_words();
    u64 index = global_index() / lanes;
    bool inside = index < p.count;
    u64 sum = 0;
    for (u32 i = own; inside && i < words; i += lanes) {
        sum += value_term(p.table, i, load(p.values + index * words + i));
    }
    sum = sum_over_lanes(sum, lanes);
    if (inside && own == 0) store(p.digests + index, digest_of_sum(sum));
}

// Writes and publishes a batch of one chunk. One block per kWarp effects.
WK_KERNEL(gphash_write_whole, gphash::FusedParams) {
    using namespace gphash;
    write_and_publish(p, block_index());
}

// Lists the offsets of the blocks in runs. One thread per block.
WK_KERNEL(gphash_expand_runs, gphash::ExpandParams) {
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

// The host checks these values when it loads the kernels: src/gpu/kernels.rs.
WK_AGREE(gphash_dedup_bytes, sizeof(gphash::DuplicateEntry))
WK_AGREE(gphash_effect_bytes, sizeof(gphash::Effect))
WK_AGREE(gphash_summary_bytes, sizeof(gphash::WriteSummary))
WK_AGREE(gphash_block_run_bytes, sizeof(gphash::BlockRun))
WK_AGREE(gphash_most_chunks, gphash::kMaxChunks)
WK_AGREE(gphash_send_threads, gphash::kSendThreads)
