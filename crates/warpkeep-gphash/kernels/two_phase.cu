// Writes in two phases: a kernel decides and stages, the host logs, a kernel publishes. write/two_phase.h describes the
// protocol.
#include "write/two_phase.h"

// Marks operations whose key occurs several times. One thread per operation.
WK_KERNEL(gphash_plan, gphash::PlanParams) {
    using namespace gphash;
    u64 index = global_index();
    if (index >= p.count) return;
    u64 hash = planned_hash(p, index);
    for (u64 at = hash & p.hash_mask;; at = (at + 1) & p.hash_mask) {
        // Load first: a hot key has thousands of operations, and only one of them finds an empty slot.
        u32 occupant = load<Scope::Device, Order::Relaxed>(p.hash_slots + at);
        if (occupant == kNoThread) occupant = cas(p.hash_slots + at, kNoThread, (u32)index);
        if (occupant == kNoThread) return;
        if (planned_hash(p, occupant) == hash) {
            leave_to_cpu(p, index);
            leave_to_cpu(p, occupant);
            return;
        }
    }
}

// One warp per 32 operations, which it serves one by one with all its lanes.
WK_KERNEL(gphash_stage, gphash::StageParams) {
    using namespace gphash;
    Warp warp;
    u64 first = (u64)global_index() / kWarp * kWarp;
    if (first >= p.count) return;
    u64 own_index = first + lane();
    Key own{p.keys + own_index * p.table.key_words(), p.table.key_len()};
    u64 own_hash = own_index < p.count ? own.hash(p.table.seed) : 0;
    u64 rest = p.count - first;
    for (u32 i = 0; i < kWarp && i < rest; i++) {
        u64 index = first + i;
        if (p.is_fallback && load(p.is_fallback + index)) {
            if (lane() == 0) store_pending(p, index, kPendingStatus, 0, Pending{0, 0, 0, kNone, 0});
            continue;
        }
        Key key{p.keys + index * p.table.key_words(), p.table.key_len()};
        Operation operation{&p, index, load(p.ops + index), p.arguments ? load(p.arguments + index) : 0, no_item()};
        stage_one(operation, warp.shfl(own_hash, i), key);
    }
    // Records and slots before the words that refer to them, which the next kernel stores.
    fence_at(FaultPoint::StageEndFence);
}

// One thread per operation.
WK_KERNEL(gphash_publish, gphash::PublishParams) {
    using namespace gphash;
    u64 i = global_index();
    if (i < p.count) publish_one(p, i);
}

// Releases claimed slots instead of publishing. One thread per operation.
WK_KERNEL(gphash_abandon, gphash::PublishParams) {
    using namespace gphash;
    u64 i = global_index();
    if (i >= p.count) return;
    const Pending* pending = p.pending + i;
    // Nothing to undo in the index: it never had an entry for the change.
    if ((load(&pending->flags) & kKindMask) == kFill) poke(p.table, load(&pending->word_at), kEmpty);
}

// The host checks these values when it loads the kernels: src/gpu/kernels.rs.
WK_AGREE(gphash_pending_bytes, sizeof(gphash::Pending))
WK_AGREE(gphash_created, gphash::kCreated)
WK_AGREE(gphash_already_exists, gphash::kAlreadyExists)
WK_AGREE(gphash_version_mismatch, gphash::kVersionMismatch)
WK_AGREE(gphash_wrong_type, gphash::kWrongType)
WK_AGREE(gphash_table_full, gphash::kTableFull)
WK_AGREE(gphash_pending, gphash::kPendingStatus)
WK_AGREE(gphash_malformed, gphash::kMalformed)
WK_AGREE(gphash_op_get, gphash::kGet)
WK_AGREE(gphash_op_put, gphash::kPut)
WK_AGREE(gphash_op_insert, gphash::kInsertOp)
WK_AGREE(gphash_op_update, gphash::kUpdate)
WK_AGREE(gphash_op_delete, gphash::kDelete)
WK_AGREE(gphash_op_compare_and_swap, gphash::kCompareAndSwap)
WK_AGREE(gphash_op_fetch_add, gphash::kFetchAdd)
WK_AGREE(gphash_op_merge, gphash::kMerge)
WK_AGREE(gphash_merge_none, gphash::kNoRule)
WK_AGREE(gphash_merge_replace, gphash::kReplace)
WK_AGREE(gphash_merge_add_u64, gphash::kAddU64)
WK_AGREE(gphash_merge_max_u64, gphash::kMaxU64)
WK_AGREE(gphash_merge_min_u64, gphash::kMinU64)
WK_AGREE(gphash_merge_add_f32, gphash::kAddF32)
WK_AGREE(gphash_merge_add_f64, gphash::kAddF64)
WK_AGREE(gphash_merge_or, gphash::kOr)
