// Kernels that use a slab hash as anyone's kernels may: those of the example slab_hash_kernel, and of tests.
#include "warpkeep/slab_hash.h"

namespace slab_hash_calls {

using namespace wk;

struct Firsts {
    // A SlabSet<u64> with slabs of 64 bytes.
    SlabTableRef seen;
    const u64* words;
    u8* statuses;
    u64 count;
};

struct Addresses {
    SlabTableRef table;
    // Numbers of buckets, and of slabs.
    const u32* numbers;
    u64* of_buckets;
    u64* of_slabs;
    u64 count;
};

}  // namespace slab_hash_calls

// Which words were not seen before: Inserted. Those that are answered Full have no place: the host inserts them, which makes room.
WK_KERNEL(slab_hash_calls_first, slab_hash_calls::Firsts) {
    using namespace slab_hash_calls;
    // All lanes of a warp call together, also those that have no word.
    SlabTable<SlabKey64, 64, true> seen(p.seen);
    u64 i = global_index();
    bool wants = i < p.count;
    auto answer = seen.serve(wants, SlabOp::Insert, wants ? load(p.words + i) : 0, 0);
    if (wants) store(p.statuses + i, (u8)answer.status);
    seen.count();
}

// How many bytes behind the first one a bucket, or a slab, lies.
WK_KERNEL(slab_hash_calls_addresses, slab_hash_calls::Addresses) {
    using namespace slab_hash_calls;
    u64 i = global_index();
    if (i >= p.count) return;
    u32 number = load(p.numbers + i);
    store(p.of_buckets + i, (u64)((u8*)p.table.bucket<SlabPair32>(number, 128) - p.table.first));
    store(p.of_slabs + i, (u64)((u8*)p.table.following<SlabPair32>(SlabPair32::link_to(number)) - p.table.slabs.units));
}
