// Units of a SlabAlloc, one for each thread: claimed, given back, and exchanged again and again.
#include "warpkeep/slab_alloc.h"
#include "words.h"

namespace bench {

struct AllocParams {
    SlabAllocRef pool;
    // A handle for each thread.
    u32* handles;
    u64 count;
    // Sums of what went wrong: handles that were refused, units that another thread wrote to.
    u64* mistakes;
    // How often each thread exchanges its unit.
    u64 rounds;
};

// Pools of units of all sizes, from 32 to 512 bytes.
constexpr u32 kUnitSizes = 5;

struct MixedParams {
    SlabAllocRef pools[kUnitSizes];
    u32* handles;
    u64 count;
    u64* mistakes;
    u64 seed;
    // Whether units are given back, and not claimed.
    u64 gives_back;
};

WK_DEVICE u32 size_class(const MixedParams& p, u64 number) { return (u32)(scatter(p.seed, number) >> 32) % kUnitSizes; }

// One size of a mixed batch. Templates, so that the pools stay in the parameters.
template <u32 Size> WK_DEVICE void claim_mixed(const MixedParams& p, u32 wanted, u32& handle) {
    SlabAllocator units(p.pools[Size]);
    u32 claimed = units.allocate(wanted == Size);
    if (wanted == Size) handle = claimed;
    if constexpr (Size + 1 < kUnitSizes) claim_mixed<Size + 1>(p, wanted, handle);
}

template <u32 Size> WK_DEVICE bool release_mixed(const MixedParams& p, u32 wanted, u32 handle) {
    SlabAllocator units(p.pools[Size]);
    bool freed = units.release(handle, wanted == Size);
    if constexpr (Size + 1 < kUnitSizes) freed |= release_mixed<Size + 1>(p, wanted, handle);
    return freed;
}

template <u32 Length> WK_DEVICE void claim(const AllocParams& p) {
    SlabAllocator units(p.pool);
    u64 i = global_index();
    bool wants = i < p.count;
    u32 handle = units.allocate_run<Length>(wants);
    if (wants) store(p.handles + i, handle);
}

template <u32 Length> WK_DEVICE void release(const AllocParams& p) {
    SlabAllocator units(p.pool);
    u64 i = global_index();
    bool wants = i < p.count;
    u32 handle = wants ? load(p.handles + i) : kNoUnit;
    bool freed = units.release_run<Length>(handle, wants);
    add_up(p.mistakes, wants && !freed ? 1 : 0);
}

}  // namespace bench

WK_KERNEL(bench_alloc_claim, bench::AllocParams) { bench::claim<1>(p); }
WK_KERNEL(bench_alloc_claim_2, bench::AllocParams) { bench::claim<2>(p); }
WK_KERNEL(bench_alloc_claim_8, bench::AllocParams) { bench::claim<8>(p); }
WK_KERNEL(bench_alloc_claim_32, bench::AllocParams) { bench::claim<32>(p); }
WK_KERNEL(bench_alloc_release, bench::AllocParams) { bench::release<1>(p); }
WK_KERNEL(bench_alloc_release_2, bench::AllocParams) { bench::release<2>(p); }
WK_KERNEL(bench_alloc_release_8, bench::AllocParams) { bench::release<8>(p); }
WK_KERNEL(bench_alloc_release_32, bench::AllocParams) { bench::release<32>(p); }

// Each thread gives its unit back and claims another one, as often as the rounds say. It writes to each unit, and reads it before it gives it back.
WK_KERNEL(bench_alloc_churn, bench::AllocParams) {
    using namespace bench;
    SlabAllocator units(p.pool);
    u64 i = global_index(), mistakes = 0;
    u32 held = i < p.count ? load(p.handles + i) : kNoUnit, mark = (u32)i;
    if (held != kNoUnit) store<Scope::Device, Order::Relaxed>(p.pool.as<u32>(held), mark);
    for (u64 round = 0; round < p.rounds; round++) {
        bool holds = held != kNoUnit;
        if (holds && load<Scope::Device, Order::Relaxed>(p.pool.as<u32>(held)) != mark) mistakes++;
        if (!units.release(held, holds) && holds) mistakes++;
        held = units.allocate(holds);
        if (held != kNoUnit) store<Scope::Device, Order::Relaxed>(p.pool.as<u32>(held), mark);
        else if (holds) mistakes++;
    }
    if (i < p.count) store(p.handles + i, held);
    add_up(p.mistakes, mistakes);
}

// Each thread claims a unit of some size, or gives it back.
WK_KERNEL(bench_alloc_mixed, bench::MixedParams) {
    using namespace bench;
    u64 i = global_index();
    u32 wanted = i < p.count ? size_class(p, i) : kUnitSizes;
    u32 handle = i < p.count && p.gives_back ? load(p.handles + i) : kNoUnit;
    if (p.gives_back) {
        bool freed = release_mixed<0>(p, wanted, handle);
        add_up(p.mistakes, i < p.count && !freed ? 1 : 0);
    } else {
        claim_mixed<0>(p, wanted, handle);
        if (i < p.count) store(p.handles + i, handle);
    }
}

WK_AGREE(bench_alloc_sums, bench::kSums)
WK_AGREE(bench_alloc_sizes, bench::kUnitSizes)
