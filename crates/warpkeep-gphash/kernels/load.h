// Loading the cache, and keeping it up with what the CPU writes.
#pragma once
#include "parts.h"
#include "reflect.h"
#include "value_load.h"

namespace gphash {

// A bucket that gets a place.
struct Fetch {
    u32 place;
    u32 bucket;
};

struct LoadParams {
    Table table;
    u64 count;
    const Fetch* fetches;
    // Places that somebody went on reading for too long; they are left without a bucket.
    u64* stuck;
    // How often a warp looks whether a place is free.
    u64 patience;
};

struct RefreshParams {
    Table table;
    u64 count;
    // Words of the image that were changed; null for all slots that have copies.
    const u64* offsets;
};

struct AgeParams {
    u64 count;
    u32* heat;
};

struct RaceParams {
    GetParams plain;
    GetParams get;
    LoadParams load;
    PublishParams publish;
    FillParams fill;
    // What the CPU has written; or null.
    const TellParams* tell;
    // A beat of a batch that is written straight through, or all of it if it has one part; or null.
    const BeatParams* beat;
    // Readers that have looked without the cache, which those of a beat wait for; or null, if they do not wait.
    u64* arrived;
    // Answers to the same without the cache, once more; or null.
    u8* statuses_again;
    u64* versions_again;
    u64* values_again;
    // The first so many blocks, of a warp each, read, without the cache and then with it; the next so many publish; the next fill rows; the
    // next do a beat; the next tell; the others fetch one bucket after the other.
    u64 readers;
    u64 publishers;
    u64 fillers;
    u64 beaters;
    u64 tellers;
    u64 loaders;
};

// How often a small batch pauses, if nobody waits for anybody: until readers have looked at what there is.
constexpr u32 kPauses = 2000;

// Looks 32 keys up, of those that there are.
WK_DEVICE void read_all(const GetParams& p, u64 first) {
    u64 mine = first + lane();
    get_keys(p, first, hash_of_row(p, mine), Warp().ballot(mine < p.count), 1);
}

// Waits until nobody reads a place any more; whether that came.
WK_DEVICE bool wait_for_readers(const LoadParams& p, u32 place) {
    for (u64 look = 0; look < p.patience; look++) {
        // A change that changes nothing: see refer.
        if (fetch_or<Scope::Device, Order::AcqRel>(p.table.cache.references + place, 0u) == 0) return true;
        backoff(kPauseNanoseconds);
    }
    return false;
}

// Gives a place to another bucket, all lanes together.
WK_DEVICE void fetch_bucket(const LoadParams& p, u64 which) {
    Warp warp;
    if (which >= p.count) return;
    const Table& t = p.table;
    const Cache& c = t.cache;
    u32 place = load(&p.fetches[which].place), number = load(&p.fetches[which].bucket);
    bool is_free = true;
    if (lane() == 0) {
        u32 before = load<Scope::Device, Order::Relaxed>(c.buckets + place);
        if (before != kNotCached) exchange<Scope::Device, Order::AcqRel>(c.places + before, kNotCached);
        is_free = wait_for_readers(p, place);
        if (!is_free) {
            store<Scope::Device, Order::Relaxed>(c.buckets + place, kNotCached);
            fetch_add(p.stuck, (u64)1);
        }
    }
    warp.sync();
    if (warp.ballot(!is_free)) return;
    u64 bucket = bucket_numbered(t, number);
    Source copy = in_place(t, place, bucket);
    for (u32 i = lane(); i < t.bucket_words(); i += kWarp) {
        store<Scope::Device, Order::Relaxed>(copy.at(bucket + 8 * i), peek(t, bucket + 8 * i));
    }
    fence<Scope::Device>();
    warp.sync();
    if (lane() == 0) {
        store<Scope::Device, Order::Relaxed>(c.buckets + place, number);
        // Whoever finds the place finds the copy in it.
        store<Scope::Device, Order::Release>(c.places + number, place);
    }
}

}  // namespace gphash

// A warp a bucket.
WK_KERNEL(gphash_cache_load, gphash::LoadParams) {
    using namespace gphash;
    fetch_bucket(p, global_index() / kWarp);
}

// Copies slots again. A thread each.
WK_KERNEL(gphash_cache_refresh, gphash::RefreshParams) {
    using namespace gphash;
    const Table& t = p.table;
    u64 i = global_index();
    if (i >= p.count) return;
    Copy copy{Slot{0, 0}, Source{0}};
    if (p.offsets) {
        copy = copy_of(t, load(p.offsets + i));
    } else {
        u32 place = (u32)(i / t.slots());
        u32 number = load(t.cache.buckets + place);
        if (number != kNotCached) {
            u64 bucket = bucket_numbered(t, number);
            copy = Copy{Slot{bucket, (u32)(i % t.slots())}, in_place(t, place, bucket)};
        }
    }
    if (!copy.is()) return;
    veil(copy);
    fence<Scope::Device>();
    renew(t, copy);
}

// What was hot long ago counts half. A thread a bucket.
WK_KERNEL(gphash_cache_age, gphash::AgeParams) {
    using namespace gphash;
    u64 i = global_index();
    if (i >= p.count) return;
    u32 heat = load<Scope::Device, Order::Relaxed>(p.heat + i);
    // Others may be adding to it.
    if (heat) fetch_add(p.heat + i, ~(heat - heat / 2) + 1);
}

// Readers, publishers and loaders in one launch, for tests on the simulator: there, two launches never run at the same time.
WK_KERNEL(gphash_cache_race, gphash::RaceParams) {
    using namespace gphash;
    u64 warp = block_index();
    if (warp < p.readers) {
        read_all(p.plain, warp * kWarp);
        if (p.arrived && lane() == 0) fetch_add(p.arrived, (u64)1);
        if (p.get.table.mirror.entries) look_up_or_ask(p.get, warp * kWarp);
        else read_all(p.get, warp * kWarp);
        if (p.statuses_again) {
            GetParams again = p.plain;
            again.statuses = p.statuses_again;
            again.versions = p.versions_again;
            again.values = p.values_again;
            read_all(again, warp * kWarp);
        }
    } else if (warp < p.readers + p.publishers) {
        u64 i = (warp - p.readers) * kWarp + lane();
        if (i < p.publish.count) publish_one(p.publish, i);
    } else if (warp < p.readers + p.publishers + p.fillers) {
        fill_rows(p.fill, (warp - p.readers - p.publishers) * kWarp + lane());
    } else if (warp < p.readers + p.publishers + p.fillers + p.beaters) {
        u64 block = warp - p.readers - p.publishers - p.fillers;
        // Somebody has seen in the image what there is, and not yet looked into the mirror.
        while (p.arrived && load<Scope::Device, Order::Acquire>(p.arrived) == 0) backoff(kPauseNanoseconds);
        Warp().sync();
        if (p.beat->parts == 1 && !p.beat->straight.words) finish(p.beat->straight, block, p.arrived ? 0 : kPauses);
        else beat(*p.beat, Hand{block * kWarp + lane(), p.beaters * kWarp}, block);
    } else if (warp < p.readers + p.publishers + p.fillers + p.beaters + p.tellers) {
        u64 i = (warp - p.readers - p.publishers - p.fillers - p.beaters) * kWarp + lane();
        if (i < p.tell->count) tell_one(*p.tell, i);
    } else {
        u64 first = warp - p.readers - p.publishers - p.fillers - p.beaters - p.tellers;
        for (u64 i = first; i < p.load.count; i += p.loaders) fetch_bucket(p.load, i);
    }
}
