// The device index: building it, gets through it, and changes made by the CPU. The sort of the block pool uses the same
// partition.
#include "read/scatter.h"
#include "read/small.h"
#include "read/index_get.h"
#include "read/host_locate.h"
#include "index/build.h"
#include "write/block_pool.h"

// Locates keys; if values are to be fetched, lists their records and counts them by address range. One thread per key.
// It only waits for device memory, so it runs with as many warps as fit.
WK_KERNEL_AT_ONCE(gphash_locate, gphash::LookupParams, gphash::kLocateThreads, 6) {
    using namespace gphash;
    u64 index = global_index();
    bool active = index / kWarp * kWarp < p.get.count;
    if (!p.located) {
        if (active) locate_key(p, index);
        return;
    }
    u64 target = active ? locate_key(p, index) : 0;
    count_hits(p.get.table.index.value_cache, target);
    u32 source = in_row(target) ? kInRows : kInImage;
    // Keys that do not exist take no position in the lists.
    BlockCounts<kSources> counts(target ? 1u << source : 0);
    if (!counts.all) return;
    u64 rank = p.partition.rank_of_warp(target, target && source == kInImage);
    BlockPositions<kSources, u32> positions(counts, p.partition.total());
    if (!target) return;
    u32 position = source == kInRows ? positions.begin[kInRows] + counts.rank(kInRows)
                                     : positions.begin[kInImage] + counts.rank(kInImage);
    store((U128*)fetch_slot(p, source, position), U128{target, index | rank << 32});
}

// Sorts the located records by address range.
WK_KERNEL(gphash_partition, gphash::LookupParams) {
    using namespace gphash;
    u64 count = load(p.partition.total());
    for (u64 position = global_index(); position < count; position += global_size()) {
        U128 found = load((const U128*)(p.located + position));
        Fetch* to = p.fetches + p.partition.position(found.lo, found.hi >> 32);
        store((U128*)to, U128{found.lo, (u32)found.hi});
    }
}

// Copies the located values: those in rows in any order, those in the image in partition order, each range on the
// multiprocessor that owns it or by all in address order. In one launch, so that some warps copy rows while others wait
// for the link. One block per slot of all multiprocessors.
WK_KERNEL(gphash_fetch, gphash::LookupParams) {
    using namespace gphash;
    WK_SHARED(u32, slot_words, kSmSlotWords);
    if (p.get.table.index.value_cache.rows) {
        u64 count = load(p.partition.total() + kInRows);
        for (u64 position = global_index(); position / kWarp * kWarp < count; position += global_size()) {
            copy_from_rows(p, position, count);
        }
    }
    auto fetch = [&](const Fetch* from, bool active) {
        U128 own = active ? load((const U128*)from) : U128{0, 0};
        if (own.lo && !is_record_of_key(p, own.lo, own.hi)) {
            append_fallback(p, own.hi);
            own.lo = 0;
        }
        // In flight together with the value.
        bool versioned = p.get.versions && own.lo;
        u64 version = versioned ? target_version(p.get.table, own.lo) : 0;
        copy_located(p, own.lo ? p.get.table.value_at(own.lo) : 0, own.hi);
        if (versioned) store(p.get.versions + own.hi, version);
    };
    u64 found = load(p.partition.total());
    bool affine = p.affinity.capacity || found < p.affinity.below;
    if (affine) {
        SmSlot slot(p.affinity.counts, p.affinity.sms, p.affinity.slots, slot_words);
        for_each_affine(p.affinity, p.partition, slot,
                        [&](u64 position, bool active) { fetch(p.fetches + position, active); });
    }
    // Without affinity, all records; with scatter, those that did not fit into their buckets.
    u64 count = affine && !p.affinity.capacity ? 0 : found;
    const Fetch* list = affine ? p.located : p.fetches;
    for (u64 position = global_index(); position / kWarp * kWarp < count; position += global_size()) {
        fetch(list + position, position < count);
    }
}

// Looks up in the image what the index could not answer. One warp per key.
WK_KERNEL(gphash_fall_back, gphash::LookupParams) {
    using namespace gphash;
    const GetParams& get = p.get;
    const Table& t = get.table;
    u64 count = load(p.fallback_count);
    for (u64 i = global_index() / kWarp; i < count; i += global_size() / kWarp) {
        u64 index = load(p.fallbacks + i);
        Key key{get.keys + index * t.key_words(), t.key_len()};
        answer_key(get, index, find(t, key.hash(t.seed), key));
    }
    for (u64 i = global_index(); i < p.clear_count; i += global_size()) store(p.partition.total() + i, 0u);
    if (p.clear_count && global_index() == 0) store((u64*)((u64)p.fallback_count ^ sizeof(u64)), (u64)0);
}

// The host checks these values when it loads the kernels: src/gpu/kernels.rs.
WK_AGREE(gphash_index_bytes, sizeof(gphash::DeviceIndex))
WK_AGREE(gphash_change_bytes, sizeof(gphash::IndexChange))
WK_AGREE(gphash_fetch_bytes, sizeof(gphash::Fetch))
WK_AGREE(gphash_hit_counters, gphash::kHitCounters)
WK_AGREE(gphash_scanned_buckets, gphash::kScannedBuckets)
WK_AGREE(gphash_scan_threads, gphash::kScanThreads)
WK_AGREE(gphash_partition_head, gphash::kPartitionHead)
WK_AGREE(gphash_sm_words, gphash::kSmWords)
WK_AGREE(gphash_affinity_bytes, sizeof(gphash::SmAffinity))
WK_AGREE(gphash_line_entries, gphash::kLineEntries)
WK_AGREE(gphash_tombstone, gphash::kTombstone)
WK_AGREE(gphash_busy, gphash::kBusy)
WK_AGREE(gphash_unwritten, gphash::kUnwritten)
