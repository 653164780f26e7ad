// Reading a batch through the mirror. A small one in one launch: see few.h. A large one in steps,
// because reads over the link are ten times as fast in the order of their addresses: keys are located and their records counted by
// region of the image; the batch is ordered by region; then values are copied in that order. One between them is dealt: see deal.h.
#pragma once
#include "get.h"
#include "homes.h"
#include "numbers.h"
#include "regions.h"
#include "values.h"

namespace gphash {

// Threads of a block that locates keys, at the most.
constexpr u32 kLocateThreads = 256;

// A value to copy. Before they are in order, the upper half of the index has the place among those of the same region.
struct Fetching {
    u64 record;
    u64 index;
};

struct LookupParams {
    GetParams get;
    // Keys that the image has to be asked for: how many, and which.
    u64* asked;
    u32* asks;
    // Records that were found, as they were found; null if nothing is to be fetched in order.
    Fetching* located;
    // Regions of the image. How many there are in all is behind each other for the image and for rows.
    Regions regions;
    // The batch in order.
    Fetching* fetchings;
    // Whether rows of values and records are aligned to 16 bytes.
    u64 wide;
    // Who fetches what.
    Homes homes;
    // Counts that the last kernel leaves as they were found, zero: so many, from how many there are of each find on; and how many are asked for next time.
    u64 cleans;
};

// Where a value was found. Those in rows are listed from the end, and need no order.
enum Find : u32 { kInImage, kInRows, kFinds };

WK_DEVICE Fetching* found_at(const LookupParams& p, u32 find, u64 place) {
    return p.located + (find == kInImage ? place : p.get.count - 1 - place);
}

// Has the image asked for a key.
WK_DEVICE void ask(const LookupParams& p, u64 index) { store(p.asks + fetch_add(p.asked, (u64)1), (u32)index); }

// The record or the row of the lane's key, or 0 if it has none or the image is asked; the answer is given but for the value.
WK_DEVICE u64 locate_key(const LookupParams& p, u64 index) {
    const GetParams& get = p.get;
    const Table& t = get.table;
    bool wanted = index < get.count;
    Key key{get.keys + index * t.key_words(), t.key_len()};
    u64 record = locate_own(t, wanted ? key.hash(t.seed) : 0, key, wanted);
    if (!wanted) return 0;
    bool there = record > kVeiled;
    // Other keys can have the same hash. Where records are read in the order of their addresses, their keys are, too: see gphash_fetch.
    bool doubtful = there && !tells_keys_apart(t) && (!p.located || in_row(record));
    if (doubtful && !record_has_key(t, key_behind(t, record), key)) {
        record = kVeiled;
        there = false;
    }
    if (record == kVeiled) {
        ask(p, index);
        return 0;
    }
    store(get.statuses + index, (u8)(there ? kOk : kNotFound));
    // Where values are fetched in order, so are versions, but for those that are here.
    bool now = !there || !p.fetchings || in_row(record);
    if (get.versions && now) store(get.versions + index, there ? version_behind(t, record) : 0);
    return there ? record : 0;
}

// Copies values of up to 32 rows, one in the hands of each lane, which has its distance from `base`; 0 is none. `Part` is what a lane
// moves at once.
template <class Part> WK_DEVICE void copy_rows(const GetParams& get, const u64* base, u64 record, u64 index) {
    Warp warp;
    const Table& t = get.table;
    constexpr u32 kInFlight = 8;
    u32 parts = t.value_words() * 8 / sizeof(Part);
    // Lanes that a row takes: a power of two.
    u32 lanes = parts >= kWarp ? kWarp : parts <= 1 ? 1 : 1u << (32 - clz(parts - 1));
    u32 rows = kWarp / lanes;
    for (u32 part = lane() % lanes; part - lane() % lanes < parts; part += lanes) {
        for (u32 first = 0; first < kWarp; first += rows * kInFlight) {
            Part some[kInFlight];
            u64 to[kInFlight];
            for (u32 i = 0; i < kInFlight; i++) {
                u32 row = first + i * rows + lane() / lanes;
                u64 from = warp.shfl(record, row % kWarp);
                u64 where = warp.shfl(index, row % kWarp);
                bool mine = row < kWarp && from != 0 && part < parts;
                to[i] = mine ? (u64)(get.values + where * t.value_words()) + sizeof(Part) * part : 0;
                if (mine) some[i] = load_l2((const Part*)((u64)base + from) + part);
            }
            for (u32 i = 0; i < kInFlight; i++) {
                if (to[i]) store((Part*)to[i], some[i]);
            }
        }
    }
}

// The same, but equal keys of a warp cross the link once: what one has fetched the others copy.
template <class Part> WK_DEVICE void copy_different_rows(const GetParams& get, u64 record, u64 index) {
    Warp warp;
    u32 leader = ffs(warp.match_any(record)) - 1;
    bool leads = leader == lane();
    copy_rows<Part>(get, get.table.at(0), leads ? record : 0, index);
    bool follows = record != 0 && !leads;
    if (!warp.any(follows)) return;
    warp.sync();
    u64 from = warp.shfl(index, leader) * get.table.value_words() * 8;
    // An offset of 0 is none, so the base is one word before.
    copy_rows<Part>(get, get.values - 1, follows ? from + 8 : 0, index);
}

WK_DEVICE void copy_located(const LookupParams& p, u64 record, u64 index) {
    if (p.wide) copy_different_rows<U128>(p.get, record, index);
    else copy_different_rows<u64>(p.get, record, index);
}

// Whether a record is that of the key which was located.
WK_DEVICE bool is_its_own(const LookupParams& p, u64 record, u64 index) {
    const Table& t = p.get.table;
    return tells_keys_apart(t) || record_has_key(t, t.tail_at(record), Key{p.get.keys + index * t.key_words(), t.key_len()});
}

// Copies 32 values that were found in rows.
WK_DEVICE void copy_from_rows(const LookupParams& p, u64 place, u64 count) {
    const GetParams& get = p.get;
    U128 mine = place < count ? load((const U128*)found_at(p, kInRows, place)) : U128{0, 0};
    u64 from = mine.lo ? value_behind(get.table, mine.lo) : 0;
    if (p.wide) copy_rows<U128>(get, get.table.at(0), from, (u32)mine.hi);
    else copy_rows<u64>(get, get.table.at(0), from, (u32)mine.hi);
}

// Answers for the keys of a warp, asking the image at once: for tests on the simulator, with keys whose hashes differ, or that the mirror tells apart.
WK_DEVICE void look_up_or_ask(const GetParams& get, u64 first) {
    if (first >= get.count) return;
    const Table& t = get.table;
    u64 mine = first + lane();
    Key own{get.keys + mine * t.key_words(), t.key_len()};
    u64 record = locate_own(t, mine < get.count ? own.hash(t.seed) : 0, own, mine < get.count);
    for (u32 i = 0; i < kWarp && first + i < get.count; i++) {
        Key key{get.keys + (first + i) * t.key_words(), t.key_len()};
        u64 its = Warp().shfl(record, i);
        Found found = nothing();
        if (its == kVeiled) {
            found = find(t, key.hash(t.seed), key);
        } else if (its != kVacant) {
            found.there = true;
            found.value_at = value_behind(t, its);
            found.version = version_behind(t, its);
        }
        answer_key(get, first + i, found);
    }
}

}  // namespace gphash
