// Batches of units of a SlabAlloc.
#include "warpkeep/slab_alloc.h"

namespace slab_alloc {

using namespace wk;

struct Params {
    SlabAllocRef pool;
    // The handles, and how many.
    u32* handles;
    u64 count;
    // How many were refused, or could not be had; of a self-test, how many mistakes were seen. Null if it is not wanted.
    u64* refused;
    // Units of a run.
    u32 run;
    // Whether units are zeroed; of a self-test, its rounds.
    u32 rounds;
};

// Runs of a length that is a parameter.
WK_DEVICE u32 allocate_runs(SlabAllocator& units, u32 length, bool wants) {
    switch (length) {
    case 2: return units.allocate_run<2>(wants);
    case 4: return units.allocate_run<4>(wants);
    case 8: return units.allocate_run<8>(wants);
    case 16: return units.allocate_run<16>(wants);
    case 32: return units.allocate_run<32>(wants);
    default: return units.allocate(wants);
    }
}

WK_DEVICE bool release_runs(SlabAllocator& units, u32 length, u32 handle, bool wants) {
    switch (length) {
    case 2: return units.release_run<2>(handle, wants);
    case 4: return units.release_run<4>(handle, wants);
    case 8: return units.release_run<8>(handle, wants);
    case 16: return units.release_run<16>(handle, wants);
    case 32: return units.release_run<32>(handle, wants);
    default: return units.release(handle, wants);
    }
}

}  // namespace slab_alloc

// Fills a column with handles of new units, or runs.
WK_KERNEL(slab_alloc_allocate, slab_alloc::Params) {
    using namespace slab_alloc;
    SlabAllocator units(p.pool);
    u64 i = global_index();
    bool wants = i < p.count;
    u32 handle = p.rounds ? units.allocate_zeroed(wants) : allocate_runs(units, p.run, wants);
    if (wants) store(p.handles + i, handle);
    u32 missing = Warp().ballot(wants && handle == kNoUnit);
    if (lane() == 0 && missing && p.refused) fetch_add(p.refused, (u64)popc(missing));
}

// Gives the units or runs of a column back.
WK_KERNEL(slab_alloc_release, slab_alloc::Params) {
    using namespace slab_alloc;
    SlabAllocator units(p.pool);
    u64 i = global_index();
    bool wants = i < p.count;
    u32 handle = wants ? load(p.handles + i) : kNoUnit;
    bool freed = release_runs(units, p.run, handle, wants);
    u32 refused = Warp().ballot(wants && !freed);
    if (lane() == 0 && refused && p.refused) fetch_add(p.refused, (u64)popc(refused));
}

// Both at once: gives back what is a handle, and claims a unit where there is none. A handle stays where it was refused.
WK_KERNEL(slab_alloc_exchange, slab_alloc::Params) {
    using namespace slab_alloc;
    SlabAllocator units(p.pool);
    u64 i = global_index();
    bool takes_part = i < p.count;
    u32 handle = takes_part ? load(p.handles + i) : kNoUnit;
    bool gives = takes_part && handle != kNoUnit;
    bool freed = units.release(handle, gives);
    u32 claimed = units.allocate(takes_part && !gives);
    if (takes_part) store(p.handles + i, gives && !freed ? handle : claimed);
}

// Claims units, writes to them, looks whether another thread did, and gives them back, again and again.
WK_KERNEL(slab_alloc_self_test, slab_alloc::Params) {
    using namespace slab_alloc;
    SlabAllocator units(p.pool);
    u64 i = global_index();
    u32 held = kNoUnit, mistakes = 0;
    for (u32 round = 0; round <= p.rounds; round++) {
        // Every other lane keeps its unit for a round; all give up theirs in the end.
        bool gives = held != kNoUnit && ((i + round) % 2 == 0 || round == p.rounds);
        u32 mark = (u32)i * 2 + 1;
        if (held != kNoUnit && load<Scope::Device, Order::Relaxed>(p.pool.as<u32>(held)) != mark) mistakes++;
        if (!units.release(held, gives) && gives) mistakes++;
        if (gives) held = kNoUnit;
        u32 unit = units.allocate(held == kNoUnit && round < p.rounds && i < p.count);
        if (unit != kNoUnit) {
            held = unit;
            store<Scope::Device, Order::Relaxed>(p.pool.as<u32>(held), mark);
        }
    }
    if (mistakes) fetch_add(p.refused, (u64)mistakes);
}

// The host has the same: src/slab_alloc.rs.
WK_AGREE(slab_alloc_block, wk::kNodeBits)
WK_AGREE(slab_alloc_levels, wk::kSlabLevels)
WK_AGREE(slab_alloc_counter_lines, wk::kCounterLines)
WK_AGREE(slab_alloc_counter_words, wk::kCounterWords)
WK_AGREE(slab_alloc_no_unit, wk::kNoUnit)
WK_AGREE(slab_alloc_reference, sizeof(wk::SlabAllocRef))
