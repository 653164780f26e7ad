// Steps of the protocol that everything hangs on, by number: on the simulator a test can leave one out, and see that it is missed.
#pragma once
#include "hash.h"

namespace gphash {

enum class Step : u32 {
    // Between two stores of one kernel. What is beside the state of a moved item, before the state: the fence, and the meeting of
    // the lanes. Its new state, before the old one goes.
    Copied = 1,
    Gathered = 2,
    Moved = 3,
    // At the end of a kernel. The end of a launch orders as much, and the host waits for it; but what CUDA promises of it is that
    // the host sees the stores, and what is needed is that they are in the image before those of the next kernel.
    Staged = 4,
    Published = 5,
    Drained = 6,
    // A slot is claimed in one step; without it, by a look and a store.
    Claimed = 7,
    // Nothing of a batch counts before it is published; without it, words are stored when they are staged.
    Apart = 8,
    // What is published reaches the copy of its bucket, too.
    Mirrored = 9,
    // A copy is referred to before it is read; without it, afterwards.
    Referenced = 10,
    // A copy shows nothing of an item that is changing, before it changes in the image.
    Veiled = 11,
    // Records, before the words that lead to them.
    Written = 12,
    // After a device that was lost while it moved items: what it left half done is finished. By the CPU, in src/gpu/settle.rs.
    Settled = 13,
    // The words of a part of a batch, a launch after its records; without it, in the same.
    Behind = 14,
    // What a launch of a batch in parts has stored, before what the next one does: at the end of a kernel.
    Beaten = 15,
    // Of a batch that is logged with `Power`, by the host, in warpkeep's keeper.rs: its record is durable before the first word is stored;
    // and the image says that it is under way until the last one is.
    Logged = 16,
    Named = 17,
    // A row of the value cache is filled, before an entry leads to it.
    Filled = 20,
    // The key of an entry stands beside it, before the entry says anything of it; without it, never.
    Keyed = 21,
    // An entry whose key does not stand beside it yet says so, to writers of other keys with its hash.
    Reserved = 22,
    // Tails of records that the host stores, in src/gpu/straight/share.rs: before the words that lead to them; with a fence between; and
    // at all.
    Tailed = 23,
    TailsFenced = 24,
    Tails = 25,
    // Values that the host stores, there: before the words that lead to them.
    Valued = 26,
    // What a small batch came to is told when its words are in the image; without it, before.
    Told = 27,
    // A record has its checksum; without it, whatever was there. By kernels; and by the host, in src/gpu/straight/share.rs, where that stores the tails.
    Summed = 28,
    SummedByHost = 29,
};

#if WK_ON_GPU
WK_DEVICE constexpr bool left_out(Step) { return false; }
#else
extern "C" u32 gphash_left_out;
WK_DEVICE bool left_out(Step step) { return gphash_left_out == (u32)step; }
#endif

WK_DEVICE void fence_at(Step step) {
    if (!left_out(step)) persist_fence();
}

}  // namespace gphash
