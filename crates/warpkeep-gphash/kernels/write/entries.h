// Index updates for a batch that the host publishes: all entries are marked busy before the host stores the first word,
// and the entries of a chunk are set after the last word of the chunk.
//
// Both are kernels of their own. They take few registers, run with many warps at the same time as the transfer, and
// issue no stores to the link. The end of each launch orders all that it did: busy entries before the first word, and
// set entries after the words, because the host launches gphash_set_entries after it has stored them.
#pragma once
#include "warpkeep/append.h"
#include "write/pipeline.h"

namespace gphash {

// Counters of completed effects: the words of WriteSummary from `created` on.
enum Counter : u32 { kCreations, kRemovals, kFallbacks, kRetirements, kCounters };

WK_DEVICE u32 counters_of(const Completion& completion) {
    u32 kind = completion.kind == kFill ? 1u << kCreations : completion.kind == kClear ? 1u << kRemovals : 0;
    return kind | (completion.old_record ? 1u << kRetirements : 0);
}

}  // namespace gphash

// Marks the entries of a batch's keys busy. One thread per operation, of which the first `effects` have work.
WK_KERNEL(gphash_mark_busy, gphash::FusedParams) {
    using namespace gphash;
    u64 i = global_index();
    if (i >= load(&p.summary->effects)) return;
    Effect* effect = p.effects + i;
    store(&effect->entry, reserve_effect_entry(p, effect));
}

// Updates copies and index for a chunk whose words are in the image, and lists the records that were replaced. One
// thread per effect, for the largest number that a chunk can have.
WK_KERNEL(gphash_set_entries, gphash::StepParams) {
    using namespace gphash;
    const FusedParams& batch = p.batch;
    EffectRange range = chunk_range(p, p.step - 2);
    u64 i = global_index();
    if (i - thread_index() >= range.count) return;
    Completion completion{kNone, 0};
    if (i < range.count) {
        Effect effect = load_effect(batch.effects + range.first + i);
        completion = complete_effect(batch, range.first + i, effect, effect.entry);
    }
    BlockCounts<kCounters> counts(counters_of(completion));
    BlockPositions<kCounters, u64> positions(counts, &batch.summary->created);
    if (completion.old_record) {
        store(batch.retired + positions.begin[kRetirements] + counts.rank(kRetirements), completion.old_record);
    }
}
