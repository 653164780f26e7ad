// Fault points of the kernels: steps of the protocols that crash safety and concurrent readers depend on.
//
// On the simulator a test omits one of them and checks that a crash or a schedule reveals the omission. The host's
// steps are fault points as well: `host.*` where host threads publish a batch, `recover.*` where the CPU takes over
// after a lost device, `log.*` in the commit path of warpkeep.
#pragma once
#include "warpkeep/fault_point.h"
#include "warpkeep/hash.h"

namespace gphash {

using namespace wk;

enum class FaultPoint : u64 {
    // Drain, between two stores of one kernel: key and payload of a moved item are stored before its state (the fence,
    // and the synchronisation of the lanes), and its new state before the old one is cleared.
    DrainCopyFence = fault_id("drain.copy_fence"),
    DrainLaneSync = fault_id("drain.lane_sync"),
    DrainNewBeforeOld = fault_id("drain.new_before_old"),
    // At the end of a kernel. The end of a launch orders as much, and the host waits for it. But CUDA only promises
    // that the host sees the stores; here they must reach the image before those of the next kernel.
    StageEndFence = fault_id("two_phase.stage_end_fence"),
    PublishEndFence = fault_id("two_phase.publish_end_fence"),
    DrainEndFence = fault_id("drain.end_fence"),
    StepEndFence = fault_id("write.step_end_fence"),
    // A slot is claimed by compare-and-swap; omitted, by a load and a store.
    AtomicClaim = fault_id("slot.atomic_claim"),
    // The words of a batch are stored when it is published; omitted, when it is staged.
    PublishAfterStage = fault_id("batch.publish_after_stage"),
    // Publishing updates the device index.
    IndexUpdate = fault_id("index.update"),
    // An entry of the device index is marked busy before its item changes in the image.
    InvalidateBeforeChange = fault_id("index.invalidate_before_change"),
    // A fence between records and the words that refer to them.
    RecordFence = fault_id("write.record_fence"),
    // The words of a chunk are stored one pipeline step after its records; omitted, in the same step.
    WordsAStepLater = fault_id("write.words_a_step_later"),
    // A row of the value cache is filled before an entry refers to it.
    FillBeforeEntry = fault_id("value_cache.fill_before_entry"),
    // The key of an entry is stored in the key column before the entry is published; omitted, never.
    KeyStored = fault_id("index.key_stored"),
    // An entry whose key is not stored yet is marked as reserved, for writers of other keys with the same hash.
    ReservedUntilKeyed = fault_id("index.reserved_until_keyed"),
    // The result of a small batch is reported when its words are in the image; omitted, before.
    ResultAfterWords = fault_id("write.result_after_words"),
    // A record gets its checksum; omitted, it keeps the bytes that were in the block.
    RecordChecksum = fault_id("record.checksum"),
};

// True while a test omits this step; constant false in production.
WK_DEVICE bool is_omitted(FaultPoint point) { return is_fault_active((u64)point); }

WK_DEVICE void fence_at(FaultPoint point) {
    if (!is_omitted(point)) persist_fence();
}

}  // namespace gphash
