// Kernels that use each header of the runtime once, for the tests in tests/device_body/runtime.rs.
#include "warpkeep/append.h"
#include "warpkeep/coop_read.h"
#include "warpkeep/duplicates.h"
#include "warpkeep/fault_point.h"
#include "warpkeep/hash.h"
#include "warpkeep/sm_affinity.h"

namespace runtime {

using namespace wk;

// What a kernel reads and writes is said where it is.
struct Params {
    const u64* in;
    u64* out;
    u64* more;
    u64 count;
    u64 extra;
    Partition partition;
    SmAffinity affinity;
    DuplicateTable duplicates;
};

}  // namespace runtime

// Hashes of `count` keys of `extra` bytes.
WK_KERNEL(runtime_hash, runtime::Params) {
    using namespace wk;
    u64 i = global_index();
    if (i >= p.count) return;
    Key key{p.in + i * ((p.extra + 7) / 8), (u32)p.extra};
    u64 hash = key.hash(7);
    store(p.out + i, WK_FAULT_POINT("runtime.second_hash") ? hash : second_hash(hash));
}

// Appends the numbers of inputs with bit 0 to one list and of those with bit 1 to another, by blocks; and of those with bit 2 to a third, by warps.
// out: the lists, `count` words each; more: their lengths.
WK_KERNEL(runtime_append, runtime::Params) {
    using namespace wk;
    u64 i = global_index();
    u64 in = i < p.count ? load(p.in + i) : 0;
    BlockCounts<2> counts((u32)in & 3);
    BlockPositions<2, u64> positions(counts, p.more);
    for (u32 list = 0; list < 2; list++) {
        if (in >> list & 1) store(p.out + list * p.count + positions.begin[list] + counts.rank(list), i);
    }
    u64 at = append_by_warp(p.more + 2, in & 4);
    if (in & 4) store(p.out + 2 * p.count + at, i);
}

// Counts the addresses in their buckets. out: ranks.
WK_KERNEL(runtime_count, runtime::Params) {
    using namespace wk;
    u64 i = global_index();
    bool inside = i < p.count;
    u64 address = inside ? load(p.in + i) : 0;
    u32 rank = p.partition.rank_of_warp(address, inside);
    if (inside) store(p.out + i, (u64)rank);
    if (i == 0) store(p.partition.total(), (u32)p.count);
}

WK_KERNEL_OF(runtime_scan, wk::Partition, wk::kScanThreads) { wk::scan_buckets(p); }

// Puts addresses in order. out: ranks; more: the addresses, sorted by bucket.
WK_KERNEL(runtime_place, runtime::Params) {
    using namespace wk;
    u64 i = global_index();
    if (i >= p.count) return;
    u64 address = load(p.in + i);
    store(p.more + p.partition.position(address, load(p.out + i)), address);
}

// Visits sorted items, each once. out: how often each was visited.
WK_KERNEL(runtime_visit, runtime::Params) {
    using namespace wk;
    WK_SHARED(u32, agreed, kSmSlotWords);
    SmSlot slot(p.affinity.counts, p.affinity.sms, p.affinity.slots, agreed);
    for_each_affine(p.affinity, p.partition, slot, [&](u32 position, bool is) {
        if (is) fetch_add(p.out + position, (u64)1);
    });
}

// Reads a line for each of `count` numbers of lines, `extra` words apart from each other. out: the eight words of each; more: which of them are 5.
WK_KERNEL(runtime_lines, runtime::Params) {
    using namespace wk;
    u64 i = global_index();
    const u64* lines = p.in + p.count;
    u32 number = i < p.count ? (u32)load(p.in + i) : 0;
    Lines read = Lines::at((const U128*)lines, number, (u32)p.extra / 2, kLineParts);
    Line line = read.own();
    u32 fives = read.words_equal(5);
    if (i >= p.count) return;
    for (u32 part = 0; part < kLineParts; part++) {
        store(p.out + 8 * i + 2 * Line::number(part), line.parts[part].lo);
        store(p.out + 8 * i + 2 * Line::number(part) + 1, line.parts[part].hi);
    }
    store(p.more + i, (u64)fives);
}

// Duplicates of a block. out: the global number of the first thread with the same key; more: how many have it, in the first.
WK_KERNEL(runtime_block_duplicates, runtime::Params) {
    using namespace wk;
    u64 i = global_index(), block = (u64)block_index() * block_size();
    bool inside = i < p.count;
    u64 key = inside ? load(p.in + i) : 0;
    // Few hashes, so that different keys share one.
    Duplicate duplicate = find_duplicate(key % 5 << 32, inside, [&](u32 other) { return load(p.in + block + other) == key; });
    if (!inside) return;
    store(p.out + i, block + duplicate.first);
    store(p.more + i, duplicate.is_first() ? (u64)duplicate.uses : 0);
}

WK_KERNEL(runtime_insert_duplicates, runtime::Params) {
    using namespace wk;
    u64 i = global_index();
    if (i < p.count) p.duplicates.insert(load(p.in + i), i, i);
}

// out: the first operation on the key, and above it the last.
WK_KERNEL(runtime_find_duplicates, runtime::Params) {
    using namespace wk;
    u64 i = global_index();
    if (i >= p.count) return;
    u64 hash = load(p.in + i);
    Occurrences found = p.duplicates.find(hash, load((const U128*)p.duplicates.first_entry(hash)));
    store(p.out + i, found.first | (u64)found.last << 32);
}

// The sum of `extra` words of shared memory that the launch gives. out: one for each block.
WK_KERNEL(runtime_shared, runtime::Params) {
    using namespace wk;
    Shared<u64> words = dynamic_shared<u64>();
    for (u32 i = thread_index(); i < p.extra; i += block_size()) words.store(i, i);
    sync_block();
    u64 sum = 0;
    for (u32 i = thread_index(); i < p.extra; i += block_size()) sum += words.load((u32)p.extra - 1 - i);
    fetch_add(p.out + block_index(), sum);
}

WK_AGREE(runtime_scanned_buckets, wk::kScannedBuckets)
WK_AGREE(runtime_scan_threads, wk::kScanThreads)
WK_AGREE(runtime_head_words, wk::kPartitionHead)
WK_AGREE(runtime_sm_words, wk::kSmWords)
WK_AGREE(runtime_entry_bytes, sizeof(wk::DuplicateEntry))
