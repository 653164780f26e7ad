// The fault points of the kernels: steps of the protocol that crash safety and readers depend on. On the simulator, a test has one left out
// and checks that it is missed. The host's steps are fault points, too: `host.*` in src/gpu/straight/share.rs, `recover.*` in src/gpu/settle.rs,
// `log.*` in the keeper of warpkeep.
#pragma once
#include "hash.h"
#include "warpkeep/fault_point.h"

namespace gphash {

enum class Step : u64 {
    // Draining a level, between two stores of one kernel. What belongs to a moved item is stored before its state: the fence, and the
    // synchronisation of the lanes. Its new state is stored before the old one is cleared.
    Copied = fault_id("drain.copy_fence"),
    Gathered = fault_id("drain.lane_sync"),
    Moved = fault_id("drain.new_before_old"),
    // At the end of a kernel. The end of a launch orders as much, and the host waits for it. But CUDA only promises that the host sees the
    // stores, and here they must be in the image before those of the next kernel.
    Staged = fault_id("two_phase.stage_end_fence"),
    Published = fault_id("two_phase.publish_end_fence"),
    Drained = fault_id("drain.end_fence"),
    Beaten = fault_id("write.step_end_fence"),
    // A slot is claimed by compare-and-swap; without it, by a load and a store.
    Claimed = fault_id("slot.atomic_claim"),
    // The words of a batch are stored when it is published; without it, when it is staged.
    Apart = fault_id("batch.publish_after_stage"),
    // Publishing updates the device index.
    Mirrored = fault_id("index.update"),
    // An entry of the device index is invalidated before its item changes in the image.
    Veiled = fault_id("index.invalidate_before_change"),
    // A fence between records and the words that lead to them.
    Written = fault_id("write.record_fence"),
    // The words of a chunk are stored a launch after its records; without it, in the same launch.
    Behind = fault_id("write.words_a_step_later"),
    // A row of the value cache is filled before an entry leads to it.
    Filled = fault_id("value_cache.fill_before_entry"),
    // The key of an entry is stored beside it before the entry is published; without it, never.
    Keyed = fault_id("index.key_stored"),
    // An entry whose key is not stored yet says so to writers of other keys with the same hash.
    Reserved = fault_id("index.reserved_until_keyed"),
    // The result of a small batch is reported when its words are in the image; without it, before.
    Told = fault_id("write.result_after_words"),
    // A record gets its checksum; without it, it has the bytes that were there.
    Summed = fault_id("record.checksum"),
};

WK_DEVICE bool left_out(Step step) { return is_fault_active((u64)step); }

WK_DEVICE void fence_at(Step step) {
    if (!left_out(step)) persist_fence();
}

}  // namespace gphash
