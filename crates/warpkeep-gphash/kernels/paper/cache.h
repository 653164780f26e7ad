// The paper's bucket cache: copies of hot buckets in device memory, which gets read instead of the buckets in the
// image. A baseline for benchmarks; tables themselves use the device index.
//
// The copies are a snapshot of the table, taken anew after a write. They are filled while gets run: a bucket is
// assigned its frame, with release, when its copy is complete, and a frame never changes its bucket.
#pragma once
#include "read/get.h"

namespace gphash {

// The frame of a bucket without a copy.
constexpr u32 kNotCached = ~0u;

// Replacement policies.
enum Policy : u32 { kRandom = 0, kLru = 1, kLfu = 2 };

// Buckets are numbered level by level, the largest level first. A frame holds the copy of one bucket.
struct Cache {
    // The frame of each bucket; null if there is no cache.
    u32* frames;
    u64* copies;
    // Use of each bucket, as the policy counts it.
    u32* frequencies;
    // kHitCounters pairs: buckets that gets read, and those of them that had a copy.
    u64* hit_counters;
    u32 policy;
    u32 clock;
};

struct CachedGetParams {
    GetParams get;
    Cache cache;
};

// A bucket and the frame that it gets.
struct CacheFill {
    u32 frame;
    u32 bucket;
};

struct CacheFillParams {
    Table table;
    Cache cache;
    u64 count;
    const CacheFill* fills;
};

struct CacheAgeParams {
    u64 count;
    u32* frequencies;
};

// Reads slot words in the copy of a bucket.
struct CopyReader {
    // The copy's address minus the bucket's offset in the image.
    u64 base;

    WK_DEVICE u64* at(u64 offset) const { return (u64*)(base + offset); }
    WK_DEVICE u64 read(u64 offset) const { return load<Scope::Device, Order::Relaxed>(at(offset)); }
};

// The copy of a bucket in its frame.
WK_DEVICE CopyReader copy_in_frame(const Table& t, const Cache& c, u32 frame, u64 bucket) {
    return CopyReader{(u64)(c.copies + (u64)frame * t.bucket_words()) - bucket};
}

WK_DEVICE u32 bucket_number(const Table& t, const LevelBucket& bucket) {
    return (u32)(first_bucket_number(t, bucket.level) + bucket.number);
}

// The offset of a bucket in the image.
WK_DEVICE u64 bucket_by_number(const Table& t, u32 number) {
    u32 level = 0;
    while (level + 1 < t.levels && number >= first_bucket_number(t, level + 1)) level++;
    return bucket_at(t, t.level[level], number - first_bucket_number(t, level));
}

// Buckets that a warp read, and those of them that had a copy.
struct Tally {
    u32 lookups;
    u32 hits;
};

WK_DEVICE void add_tally(const Cache& c, const Tally& tally) {
    if (lane() != 0) return;
    u64* to = c.hit_counters + 2 * (global_index() / kWarp % kHitCounters);
    if (tally.lookups) fetch_add(to, (u64)tally.lookups);
    if (tally.hits) fetch_add(to + 1, (u64)tally.hits);
}

// Counts uses of a bucket, by the policy.
WK_DEVICE void count_use(const Cache& c, u32 number, u32 uses) {
    if (c.policy == kLfu) fetch_add(c.frequencies + number, uses);
    // Ordered by position in the batch, whatever the order in which its warps run.
    if (c.policy == kLru) fetch_max(c.frequencies + number, c.clock + (u32)(global_index() / kWarp));
}

// The frame of the bucket that a lane reads, or kNotCached. The first lane of each bucket loads it for the others.
WK_DEVICE u32 frame_of(const Table& t, const Cache& c, const LevelBucket& bucket, u32 uses, Tally& tally) {
    Warp warp;
    u32 frame = kNotCached;
    if (lane() % t.slots() == 0) {
        u32 number = bucket_number(t, bucket);
        frame = load<Scope::Device, Order::Acquire>(c.frames + number);
        count_use(c, number, uses);
    }
    tally.lookups += uses * (kWarp / t.slots());
    tally.hits += uses * popc(warp.ballot(frame != kNotCached));
    // Extends the acquire of the first lane to the others.
    warp.sync();
    return warp.shfl(frame, lane() / t.slots() * t.slots());
}

// Reads slot words in a copy if there is one, otherwise in the image.
struct CachedReader {
    const Table& t;
    CopyReader copy;
    bool copied;

    WK_DEVICE u64* at(u64 offset) const { return copied ? copy.at(offset) : ImageReader{t}.at(offset); }
    WK_DEVICE u64 read(u64 offset) const { return copied ? copy.read(offset) : ImageReader{t}.read(offset); }
};

// Finds a key in the open levels.
WK_DEVICE Item find_in_copies(const Table& t, const Cache& c, u64 expected, u64 hash, const Key& key, u32 uses,
                              Tally& tally) {
    LevelBucket bucket = open_bucket(t, hash, lane());
    Slot slot = slot_in(t, bucket, lane());
    u32 frame = frame_of(t, c, bucket, uses, tally);
    CopyReader copy = frame == kNotCached ? CopyReader{0} : copy_in_frame(t, c, frame, slot.bucket);
    return find_in_slots(t, slot, CachedReader{t, copy, frame != kNotCached}, expected, hash, key);
}

// Gets the keys of the lanes in `lanes`, one by one, with all lanes of a warp. `uses` is how often the block has the
// key.
WK_DEVICE void get_cached_keys(const CachedGetParams& p, u64 first, u64 own_hash, u32 lanes, u32 uses) {
    Warp warp;
    const GetParams& get = p.get;
    const Table& t = get.table;
    Tally tally{0, 0};
    for (u32 remaining = lanes; remaining != 0; remaining &= remaining - 1) {
        u32 i = ffs(remaining) - 1;
        u64 hash = warp.shfl(own_hash, i);
        u32 key_uses = warp.shfl(uses, i);
        Key key{get.keys + (first + i) * t.key_words(), t.key_len()};
        Item item = find_by(t, hash, key, [&](u64 expected) {
            return find_in_copies(t, p.cache, expected, hash, key, key_uses, tally);
        });
        answer_key(get, first + i, item);
    }
    add_tally(p.cache, tally);
}

}  // namespace gphash

// gphash_get through the cache.
WK_KERNEL(gphash_paper_get, gphash::CachedGetParams) {
    using namespace gphash;
    get_block<true>(p.get, [&](u64 first, u64 hash, u32 lanes, u32 uses) {
        get_cached_keys(p, first, hash, lanes, uses);
    });
}

// Copies buckets to their frames. One warp per bucket.
WK_KERNEL(gphash_paper_fill, gphash::CacheFillParams) {
    using namespace gphash;
    u64 index = global_index() / kWarp;
    if (index >= p.count) return;
    const Table& t = p.table;
    u32 frame = load(&p.fills[index].frame), number = load(&p.fills[index].bucket);
    u64 bucket = bucket_by_number(t, number);
    CopyReader copy = copy_in_frame(t, p.cache, frame, bucket);
    for (u32 i = lane(); i < t.bucket_words(); i += kWarp) {
        store<Scope::Device, Order::Relaxed>(copy.at(bucket + 8 * i), peek(t, bucket + 8 * i));
    }
    fence<Scope::Device>();
    Warp().sync();
    // Release: a reader that finds the frame finds the copy in it.
    if (lane() == 0) store<Scope::Device, Order::Release>(p.cache.frames + number, frame);
}

// Halves the counts, so that recent use weighs more. One thread per bucket.
WK_KERNEL(gphash_paper_age, gphash::CacheAgeParams) {
    using namespace gphash;
    u64 i = global_index();
    if (i >= p.count) return;
    u32 frequency = load<Scope::Device, Order::Relaxed>(p.frequencies + i);
    // Gets may increment it at the same time, so the difference is subtracted.
    if (frequency) fetch_add(p.frequencies + i, ~(frequency - frequency / 2) + 1);
}
