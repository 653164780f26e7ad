// Gets through the device index.
//
// Reads over the link are ten times as fast in address order as in random order. So a large batch takes several
// launches:
//   1. gphash_locate finds the record of each key in the index, and counts records by address range.
//   2. gphash_scan turns the counts into positions, gphash_partition sorts the records by address range.
//   3. gphash_fetch copies values in that order, each range on the multiprocessor that owns it, or in address order by
//      all.
//   4. gphash_fall_back looks up in the image what the index could not answer.
// A small batch is one launch (small.h). A batch between the two is scattered to buckets instead of sorted (scatter.h).
#pragma once
#include "read/get.h"
#include "warpkeep/sm_affinity.h"
#include "warpkeep/append.h"
#include "warpkeep/partition.h"
#include "value_cache/value_cache.h"

namespace gphash {

// Threads of a block of gphash_locate, at most.
constexpr u32 kLocateThreads = 256;

// A value to copy. Before the sort, the upper half of `index` is the rank in its bucket of the partition.
struct Fetch {
    u64 record;
    u64 index;
};

struct LookupParams {
    GetParams get;
    // Keys that fall back to the image: their number, and the list.
    u64* fallback_count;
    u32* fallbacks;
    // Records in the order in which they were found; null if no values are to be fetched.
    Fetch* located;
    // Partition of the image. Its total is the number of records in the image; the next word is the number of values in
    // rows.
    Partition partition;
    // The same in partition order.
    Fetch* fetches;
    // Whether values and records are aligned to 16 bytes, so that they move in units of 16 and not of 8.
    u64 wide;
    // Assignment of address ranges to multiprocessors.
    SmAffinity affinity;
    // Words that gphash_fall_back clears for the next batch, from the partition's total on; 0 if it clears none. It
    // then clears the next batch's fallback count as well.
    u64 clear_count;
};

// Where a value was found. Values in rows are listed from the end of `located`, and need no order.
enum Source : u32 { kInImage, kInRows, kSources };

WK_DEVICE Fetch* fetch_slot(const LookupParams& p, u32 source, u64 position) {
    return p.located + (source == kInImage ? position : p.get.count - 1 - position);
}

WK_DEVICE void append_fallback(const LookupParams& p, u64 index) {
    store(p.fallbacks + fetch_add(p.fallback_count, (u64)1), (u32)index);
}

// Finds the key of each lane: its record or its row, or 0 if it does not exist or falls back to the image. Stores the
// result except for the value.
WK_DEVICE u64 locate_key(const LookupParams& p, u64 index) {
    const GetParams& get = p.get;
    const Table& t = get.table;
    bool active = index < get.count;
    Key key{get.keys + index * t.key_words(), t.key_len()};
    u64 target = find_target(t, active ? key.hash(t.seed) : 0, key, active);
    if (!active) return 0;
    bool exists = target > kBusy;
    // Other keys can have the same hash. Records that are fetched in address order have their keys compared then: see
    // gphash_fetch.
    bool unverified = exists && !is_exact(t) && (!p.located || in_row(target));
    if (unverified && !record_has_key(t, target_key_at(t, target), key)) {
        target = kBusy;
        exists = false;
    }
    if (target == kBusy) {
        append_fallback(p, index);
        return 0;
    }
    store(get.statuses + index, (u8)(exists ? kOk : kNotFound));
    // Versions of records that are fetched later are read with the values.
    bool version_now = !exists || !p.fetches || in_row(target);
    if (get.versions && version_now) store(get.versions + index, exists ? target_version(t, target) : 0);
    return exists ? target : 0;
}

// Copies the values of up to 32 rows, one per lane. `record` is the distance of the lane's row from `base`; 0 means
// none. `Unit` is what a lane moves in one access.
template <class Unit> WK_DEVICE void copy_rows(const GetParams& get, const u64* base, u64 record, u64 index) {
    Warp warp;
    const Table& t = get.table;
    constexpr u32 kInFlight = 8;
    u32 units = t.value_words() * 8 / sizeof(Unit);
    // Lanes per row: a power of two.
    u32 lanes = units >= kWarp ? kWarp : units <= 1 ? 1 : 1u << (32 - clz(units - 1));
    u32 rows = kWarp / lanes;
    for (u32 unit = lane() % lanes; unit - lane() % lanes < units; unit += lanes) {
        for (u32 first = 0; first < kWarp; first += rows * kInFlight) {
            Unit buffer[kInFlight];
            u64 to[kInFlight];
            for (u32 i = 0; i < kInFlight; i++) {
                u32 row = first + i * rows + lane() / lanes;
                u64 from = warp.shfl(record, row % kWarp);
                u64 to_index = warp.shfl(index, row % kWarp);
                bool active = row < kWarp && from != 0 && unit < units;
                to[i] = active ? (u64)(get.values + to_index * t.value_words()) + sizeof(Unit) * unit : 0;
                if (active) buffer[i] = load_l2((const Unit*)((u64)base + from) + unit);
            }
            for (u32 i = 0; i < kInFlight; i++) {
                if (to[i]) store((Unit*)to[i], buffer[i]);
            }
        }
    }
}

// copy_rows, but values that several lanes of a warp need cross the link once: the first of these lanes fetches the
// value, and the others copy it from the output.
template <class Unit> WK_DEVICE void copy_distinct_rows(const GetParams& get, u64 record, u64 index) {
    Warp warp;
    u32 leader = ffs(warp.match_any(record)) - 1;
    bool is_leader = leader == lane();
    copy_rows<Unit>(get, get.table.at(0), is_leader ? record : 0, index);
    bool is_follower = record != 0 && !is_leader;
    if (!warp.any(is_follower)) return;
    warp.sync();
    u64 from = warp.shfl(index, leader) * get.table.value_words() * 8;
    // An offset of 0 means none, so the base is one word before the values.
    copy_rows<Unit>(get, get.values - 1, is_follower ? from + 8 : 0, index);
}

WK_DEVICE void copy_located(const LookupParams& p, u64 record, u64 index) {
    if (p.wide) copy_distinct_rows<U128>(p.get, record, index);
    else copy_distinct_rows<u64>(p.get, record, index);
}

// Whether a record has the key for which it was located.
WK_DEVICE bool is_record_of_key(const LookupParams& p, u64 record, u64 index) {
    const Table& t = p.get.table;
    return is_exact(t) || record_has_key(t, t.tail_at(record), Key{p.get.keys + index * t.key_words(), t.key_len()});
}

// Copies 32 values from rows of the value cache.
WK_DEVICE void copy_from_rows(const LookupParams& p, u64 position, u64 count) {
    const GetParams& get = p.get;
    U128 own = position < count ? load((const U128*)fetch_slot(p, kInRows, position)) : U128{0, 0};
    u64 from = own.lo ? target_value_at(get.table, own.lo) : 0;
    if (p.wide) copy_rows<U128>(get, get.table.at(0), from, (u32)own.hi);
    else copy_rows<u64>(get, get.table.at(0), from, (u32)own.hi);
}

// Gets the keys of a warp, with fallback in the same launch. For tests on the simulator, of tables in which a match in
// the index is exact.
WK_DEVICE void get_or_fall_back(const GetParams& get, u64 first) {
    if (first >= get.count) return;
    const Table& t = get.table;
    u64 own_index = first + lane();
    Key own{get.keys + own_index * t.key_words(), t.key_len()};
    u64 own_target = find_target(t, own_index < get.count ? own.hash(t.seed) : 0, own, own_index < get.count);
    for (u32 i = 0; i < kWarp && first + i < get.count; i++) {
        Key key{get.keys + (first + i) * t.key_words(), t.key_len()};
        u64 target = Warp().shfl(own_target, i);
        Item item = no_item();
        if (target == kBusy) {
            item = find(t, key.hash(t.seed), key);
        } else if (target != kVacant) {
            item.exists = true;
            item.value_at = target_value_at(t, target);
            item.version = target_version(t, target);
        }
        answer_key(get, first + i, item);
    }
}

}  // namespace gphash
