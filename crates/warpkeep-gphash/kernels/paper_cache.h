// The paper's bucket cache: copies of hot buckets in device memory, which gets read instead of the buckets in the image. A baseline for
// benchmarks; tables themselves use the index of mirror.h.
//
// The copies are a snapshot of the table. They are filled while gets go on: a bucket has a place once its copy is complete, and no place ever
// changes hands. After a write the snapshot is taken anew.
#pragma once
#include "get.h"

namespace gphash {

// The place of a bucket that has no copy.
constexpr u32 kNotCached = ~0u;

// What makes a bucket hot.
enum Policy : u32 { kRandom = 0, kLru = 1, kLfu = 2 };

// Buckets are numbered: those of the first level, then those of the next. A copy lies in a place.
struct Cache {
    // For each bucket the place of its copy; null if there is no cache.
    u32* places;
    u64* copies;
    // For each bucket how hot it is, as the policy has it.
    u32* heat;
    // Buckets that gets asked for and those found here, in kTallies pairs.
    u64* tallies;
    u32 policy;
    u32 clock;
};

struct CachedGetParams {
    GetParams get;
    Cache cache;
};

// A bucket that gets a place.
struct Filling {
    u32 place;
    u32 bucket;
};

struct CacheFillParams {
    Table table;
    Cache cache;
    u64 count;
    const Filling* fillings;
};

struct CacheAgeParams {
    u64 count;
    u32* heat;
};

// Where the words of a slot are read if its bucket has a copy.
struct InCopy {
    // What is added to offsets in the image.
    u64 base;

    WK_DEVICE u64* at(u64 offset) const { return (u64*)(base + offset); }
    WK_DEVICE u64 read(u64 offset) const { return load<Scope::Device, Order::Relaxed>(at(offset)); }
};

// The copy in a place, of the bucket at an offset.
WK_DEVICE InCopy in_place(const Table& t, const Cache& c, u32 place, u64 bucket) {
    return InCopy{(u64)(c.copies + (u64)place * t.bucket_words()) - bucket};
}

WK_DEVICE u32 number_of(const Table& t, const Seat& seat) { return (u32)(first_number(t, seat.level) + seat.bucket); }

// The bucket with a number.
WK_DEVICE u64 bucket_numbered(const Table& t, u32 number) {
    u32 level = 0;
    while (level + 1 < t.levels && number >= first_number(t, level + 1)) level++;
    return bucket_at(t, t.level[level], number - first_number(t, level));
}

// Buckets that one warp asked for, and how many of them have copies.
struct Tally {
    u32 asked;
    u32 hits;
};

WK_DEVICE void add_tally(const Cache& c, const Tally& tally) {
    if (lane() != 0) return;
    u64* to = c.tallies + 2 * (global_index() / kWarp % kTallies);
    if (tally.asked) fetch_add(to, (u64)tally.asked);
    if (tally.hits) fetch_add(to + 1, (u64)tally.hits);
}

// Notes that a bucket is used.
WK_DEVICE void warm(const Cache& c, u32 number, u32 uses) {
    if (c.policy == kLfu) fetch_add(c.heat + number, uses);
    // Later by the order of the batch, in whichever order its warps run.
    if (c.policy == kLru) fetch_max(c.heat + number, c.clock + (u32)(global_index() / kWarp));
}

// The place of the bucket that a lane looks at, or kNotCached. The first lane of each bucket asks for the others.
WK_DEVICE u32 place_of(const Table& t, const Cache& c, const Seat& seat, u32 uses, Tally& tally) {
    Warp warp;
    u32 place = kNotCached;
    if (lane() % t.slots() == 0) {
        u32 number = number_of(t, seat);
        place = load<Scope::Device, Order::Acquire>(c.places + number);
        warm(c, number, uses);
    }
    tally.asked += uses * (kWarp / t.slots());
    tally.hits += uses * popc(warp.ballot(place != kNotCached));
    // What the first lane has acquired holds for the others, too.
    warp.sync();
    return warp.shfl(place, lane() / t.slots() * t.slots());
}

// Where a lane reads: in a copy, or in the image.
struct InEither {
    const Table& t;
    InCopy copy;
    bool copied;

    WK_DEVICE u64* at(u64 offset) const { return copied ? copy.at(offset) : InImage{t}.at(offset); }
    WK_DEVICE u64 read(u64 offset) const { return copied ? copy.read(offset) : InImage{t}.read(offset); }
};

// What the levels that items are put into have for a key.
WK_DEVICE Found look_in_copies(const Table& t, const Cache& c, u64 wanted, u64 hash, const Key& key, u32 uses, Tally& tally) {
    Seat seat = open_seat(t, hash, lane());
    Slot slot = slot_of(t, seat, lane());
    u32 place = place_of(t, c, seat, uses, tally);
    InCopy copy = place == kNotCached ? InCopy{0} : in_place(t, c, place, slot.bucket);
    return look(t, slot, InEither{t, copy, place != kNotCached}, wanted, hash, key);
}

// Serves those of 32 keys that `which` names, one by one and with all lanes of a warp. `uses` says for each how often the batch has it.
WK_DEVICE void get_cached_keys(const CachedGetParams& p, u64 first, u64 own_hash, u32 which, u32 uses) {
    Warp warp;
    const GetParams& get = p.get;
    const Table& t = get.table;
    Tally tally{0, 0};
    for (u32 left = which; left != 0; left &= left - 1) {
        u32 i = ffs(left) - 1;
        u64 hash = warp.shfl(own_hash, i);
        u32 its_uses = warp.shfl(uses, i);
        Key key{get.keys + (first + i) * t.key_words(), t.key_len()};
        Found found = find_by(t, hash, key, [&](u64 wanted) { return look_in_copies(t, p.cache, wanted, hash, key, its_uses, tally); });
        answer_key(get, first + i, found);
    }
    add_tally(p.cache, tally);
}

}  // namespace gphash

// As gphash_get, through the cache.
WK_KERNEL(gphash_paper_get, gphash::CachedGetParams) {
    using namespace gphash;
    get_block<true>(p.get, [&](u64 first, u64 hash, u32 which, u32 uses) { get_cached_keys(p, first, hash, which, uses); });
}

// Copies buckets to their places. A warp a bucket.
WK_KERNEL(gphash_paper_fill, gphash::CacheFillParams) {
    using namespace gphash;
    u64 which = global_index() / kWarp;
    if (which >= p.count) return;
    const Table& t = p.table;
    u32 place = load(&p.fillings[which].place), number = load(&p.fillings[which].bucket);
    u64 bucket = bucket_numbered(t, number);
    InCopy copy = in_place(t, p.cache, place, bucket);
    for (u32 i = lane(); i < t.bucket_words(); i += kWarp) {
        store<Scope::Device, Order::Relaxed>(copy.at(bucket + 8 * i), peek(t, bucket + 8 * i));
    }
    fence<Scope::Device>();
    Warp().sync();
    // Whoever finds the place finds the copy in it.
    if (lane() == 0) store<Scope::Device, Order::Release>(p.cache.places + number, place);
}

// What was hot long ago counts half. A thread a bucket.
WK_KERNEL(gphash_paper_age, gphash::CacheAgeParams) {
    using namespace gphash;
    u64 i = global_index();
    if (i >= p.count) return;
    u32 heat = load<Scope::Device, Order::Relaxed>(p.heat + i);
    // Others may be adding to it.
    if (heat) fetch_add(p.heat + i, ~(heat - heat / 2) + 1);
}
