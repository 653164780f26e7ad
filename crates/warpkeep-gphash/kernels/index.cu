// The device index: building it, gets through it, and changes of it.
#include "deal.h"
#include "few.h"
#include "line_up.h"
#include "lookup.h"
#include "point.h"
#include "reflect.h"
#include "supply.h"

// Locates keys; if values are to be fetched, lists their records and counts them by region. A thread a key. As many warps as there can be: it does
// nothing but wait for memory that is near.
WK_KERNEL_AT_ONCE(gphash_locate, gphash::LookupParams, gphash::kLocateThreads, 6) {
    using namespace gphash;
    u64 index = global_index();
    bool some = index / kWarp * kWarp < p.get.count;
    if (!p.located) {
        if (some) locate_key(p, index);
        return;
    }
    u64 said = some ? locate_key(p, index) : 0;
    tally_rows(p.get.table.mirror.values, said);
    u32 find = in_row(said) ? kInRows : kInImage;
    // How many the block has found: keys that are not there leave no trace in the lists.
    BlockWants<kFinds> wants(said ? 1u << find : 0);
    if (!wants.all) return;
    u64 rank = p.regions.take_together(said, said && find == kInImage);
    BlockPlaces<kFinds, u32> places(wants, p.regions.all());
    if (!said) return;
    u32 place = find == kInRows ? places.begin[kInRows] + wants.rank(kInRows) : places.begin[kInImage] + wants.rank(kInImage);
    store((U128*)found_at(p, find, place), U128{said, index | rank << 32});
}

// Puts what was found in order. As many threads as there are, for as many as were found.
WK_KERNEL(gphash_order, gphash::LookupParams) {
    using namespace gphash;
    u64 count = load(p.regions.all());
    for (u64 place = global_index(); place < count; place += global_size()) {
        U128 one = load((const U128*)(p.located + place));
        Fetching* to = p.fetchings + p.regions.place(one.lo, one.hi >> 32);
        store((U128*)to, U128{one.lo, (u32)one.hi});
    }
}

// Copies values in that order, or those of each home, and those that are in rows as they come: while some warps wait for the link, others have something to
// do. A block for each room of all homes.
WK_KERNEL(gphash_fetch, gphash::LookupParams) {
    using namespace gphash;
    WK_SHARED(u32, told, kRoomWords);
    if (p.get.table.mirror.values.rows) {
        u64 count = load(p.regions.all() + kInRows);
        for (u64 place = global_index(); place / kWarp * kWarp < count; place += global_size()) copy_from_rows(p, place, count);
    }
    auto fetch = [&](const Fetching* from, bool some) {
        U128 mine = some ? load((const U128*)from) : U128{0, 0};
        if (mine.lo && !is_its_own(p, mine.lo, mine.hi)) {
            ask(p, mine.hi);
            mine.lo = 0;
        }
        // Under way while the value is.
        bool versioned = p.get.versions && mine.lo;
        u64 version = versioned ? version_behind(p.get.table, mine.lo) : 0;
        copy_located(p, mine.lo ? p.get.table.value_at(mine.lo) : 0, mine.hi);
        if (versioned) store(p.get.versions + mine.hi, version);
    };
    u64 found = load(p.regions.all());
    bool homes = p.homes.hand || found < p.homes.below;
    if (homes) at_home(p.homes, p.regions, Room(p.homes.counts, p.homes.count, p.homes.rooms, told), [&](u64 place, bool some) { fetch(p.fetchings + place, some); });
    // What is fetched by everybody, or found no place in a hand.
    u64 count = homes && !p.homes.hand ? 0 : found;
    const Fetching* list = homes ? p.located : p.fetchings;
    for (u64 place = global_index(); place / kWarp * kWarp < count; place += global_size()) fetch(list + place, place < count);
}

// Asks the image for what the mirror could not tell. A warp a key, as many as there are.
WK_KERNEL(gphash_ask, gphash::LookupParams) {
    using namespace gphash;
    const GetParams& get = p.get;
    const Table& t = get.table;
    u64 asked = load(p.asked);
    for (u64 i = global_index() / kWarp; i < asked; i += global_size() / kWarp) {
        u64 index = load(p.asks + i);
        Key key{get.keys + index * t.key_words(), t.key_len()};
        answer_key(get, index, find(t, key.hash(t.seed), key));
    }
    for (u64 i = global_index(); i < p.cleans; i += global_size()) store(p.regions.all() + i, 0u);
    if (p.cleans && global_index() == 0) store((u64*)((u64)p.asked ^ sizeof(u64)), (u64)0);
}

// The host has the same: src/gpu/kernels.rs.
WK_AGREE(gphash_mirror_bytes, sizeof(gphash::Mirror))
WK_AGREE(gphash_told_bytes, sizeof(gphash::Told))
WK_AGREE(gphash_fetching_bytes, sizeof(gphash::Fetching))
WK_AGREE(gphash_tallies, gphash::kTallies)
WK_AGREE(gphash_lined_up, gphash::kLinedUp)
WK_AGREE(gphash_scan_threads, gphash::kScanThreads)
WK_AGREE(gphash_head, gphash::kHead)
WK_AGREE(gphash_home_words, gphash::kHomeWords)
WK_AGREE(gphash_homes_bytes, sizeof(gphash::Homes))
WK_AGREE(gphash_mirror_entries, gphash::kMirrorEntries)
WK_AGREE(gphash_gone, gphash::kGone)
WK_AGREE(gphash_veiled, gphash::kVeiled)
WK_AGREE(gphash_unwritten, gphash::kUnwritten)
