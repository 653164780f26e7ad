// Kernels that use a SlabAlloc as anyone's kernels may: those of the example slab_alloc_kernel.
#include "warpkeep/slab_alloc.h"

namespace slab_alloc_calls {

using namespace wk;

struct Lists {
    // Units of 32 bytes: the value, and the handle of the next node plus one.
    SlabAllocRef nodes;
    // The handle of the first node of each list plus one; 0 if the list is empty.
    u32* heads;
    u64 lists;
    const u64* values;
    // Values for which there was no node; of drain, the sum of each list.
    u64* results;
    u64 count;
};

WK_DEVICE u64* value_of(const Lists& p, u32 node) { return p.nodes.as<u64>(node); }
WK_DEVICE u32* next_of(const Lists& p, u32 node) { return p.nodes.as<u32>(node) + 2; }

}  // namespace slab_alloc_calls

// Puts each value in front of the list that it is congruent to.
WK_KERNEL(slab_alloc_calls_push, slab_alloc_calls::Lists) {
    using namespace slab_alloc_calls;
    SlabAllocator nodes(p.nodes);
    u64 i = global_index();
    bool wants = i < p.count;
    u32 node = nodes.allocate(wants);
    if (node != kNoUnit) {
        u64 value = load(p.values + i);
        store(value_of(p, node), value);
        // Lists are read by another kernel, so that the link may follow when the node can be found already.
        store(next_of(p, node), exchange(p.heads + value % p.lists, node + 1));
    } else if (wants) {
        fetch_add(p.results, 1ull);
    }
}

// Adds up each list, and gives its nodes back. A thread for each list; all lanes of a warp release together.
WK_KERNEL(slab_alloc_calls_drain, slab_alloc_calls::Lists) {
    using namespace slab_alloc_calls;
    SlabAllocator nodes(p.nodes);
    u64 i = global_index(), sum = 0;
    u32 at = i < p.lists ? load(p.heads + i) : 0;
    while (Warp().any(at != 0)) {
        u32 node = at - 1, next = 0;
        if (at) {
            sum += load(value_of(p, node));
            next = load(next_of(p, node));
        }
        nodes.release(node, at != 0);
        at = next;
    }
    if (i < p.lists) {
        store(p.results + i, sum);
        store(p.heads + i, 0);
    }
}
