// Every function of the seam once, in every form: what compiles here for a GPU compiles for the simulator too.
#pragma once
#include "warpkeep/simt.h"

namespace every {

using namespace wk;

struct Params {
    u8* bytes;
    u16* halves;
    u32* words;
    u64* longs;
    U128* wides;
    u64* sums;
    const U128* fixed;
};

template <Scope S, class T> WK_DEVICE void ordered_access(T* p) {
    T v = load<S, Order::Relaxed>(p);
    store<S, Order::Relaxed>(p, v);
    v = load<S, Order::Acquire>(p);
    store<S, Order::Release>(p, v);
    v = load<S, Order::Weak>(p);
    store<S, Order::Weak>(p, v);
}

template <Scope S, Order O, class T> WK_DEVICE u64 changes(T* p) {
    u64 sum = fetch_add<S, O>(p, 3);
    sum += fetch_or<S, O>(p, 5);
    sum += fetch_and<S, O>(p, ~T{2});
    sum += fetch_max<S, O>(p, 7);
    sum += fetch_min<S, O>(p, 6);
    sum += exchange<S, O>(p, 9);
    sum += cas<S, O>(p, 9, 10);
    return sum;
}

template <Scope S, class T> WK_DEVICE u64 changes_ordered(T* p) {
    return changes<S, Order::Relaxed>(p) + changes<S, Order::Acquire>(p) + changes<S, Order::Release>(p) +
           changes<S, Order::AcqRel>(p);
}

template <Scope S> WK_DEVICE u64 wide_changes(U128* p) {
    U128 old = exchange<S, Order::AcqRel>(p, U128{1, 2});
    U128 seen = cas<S, Order::AcqRel>(p, U128{1, 2}, U128{3, 4});
    U128 relaxed = cas<S, Order::Relaxed>(p, U128{3, 4}, U128{5, 6});
    return old.lo + seen.hi + relaxed.lo;
}

template <u32 N> WK_DEVICE u64 collectives(u32 x, u64 y) {
    Tile<N> tile;
    u64 sum = tile.ballot(x & 1) + tile.any(x & 2) + tile.all(x & 4);
    sum += tile.shfl(x, 1) + tile.shfl(y, x % N) + tile.template shfl_among<4>(x, 3);
    sum += tile.shfl_xor(x, 1) + tile.shfl_xor(y, 2);
    sum += tile.match_any(x & 3) + tile.match_any(y & 3);
    sum += tile.elect(x & 8);
    sum += tile.rank() + tile.index() + tile.base() + tile.mask();
    tile.sync();
    return sum;
}

}  // namespace every

// One block of one warp, with 512 bytes of shared memory; every array has an element a lane.
WK_KERNEL(every_function, every::Params) {
    using namespace wk;
    u32 t = (u32)global_index();
    u64 sum = thread_index() + block_index() + block_size() + grid_size() + lane() + warp_in_block();
    sum += warps_per_block() + global_warp() + global_size();

    u8 b = load(p.bytes + t);
    store(p.bytes + t, b);
    u16* half = p.halves + t;
    every::ordered_access<Scope::Block>(half);
    every::ordered_access<Scope::Device>(half);
    every::ordered_access<Scope::System>(half);
    u32* word = p.words + t;
    every::ordered_access<Scope::Block>(word);
    every::ordered_access<Scope::Device>(word);
    every::ordered_access<Scope::System>(word);
    u64* longer = p.longs + t;
    every::ordered_access<Scope::Block>(longer);
    every::ordered_access<Scope::Device>(longer);
    every::ordered_access<Scope::System>(longer);
    U128* wide = p.wides + t;
    every::ordered_access<Scope::Block>(wide);
    every::ordered_access<Scope::Device>(wide);
    every::ordered_access<Scope::System>(wide);

    sum += every::changes_ordered<Scope::Block>(word) + every::changes_ordered<Scope::Block>(longer);
    sum += every::changes_ordered<Scope::Device>(word) + every::changes_ordered<Scope::Device>(longer);
    sum += every::changes_ordered<Scope::System>(word) + every::changes_ordered<Scope::System>(longer);
    sum += every::wide_changes<Scope::Block>(wide) + every::wide_changes<Scope::Device>(wide);
    sum += every::wide_changes<Scope::System>(wide);

    prefetch(longer);
    sum += load_l2(word) + load_l2(longer) + load_l2(wide).lo;
    sum += load_once((const u32*)p.fixed) + load_once((const u64*)p.fixed) + load_once(p.fixed + t).hi;
    store_streaming(word, 1);
    store_streaming(longer, 2);
    store_streaming(wide, U128{3, 4});
    i32 negative = load((i32*)word);
    i64 large = load<Scope::Device, Order::Acquire>((i64*)longer);
    store<Scope::Device, Order::Release>((i32*)word, negative);
    sum += (u64)large;

    fence<Scope::Block>();
    fence<Scope::Device>();
    fence<Scope::System>();
    persist_fence();

    sum += every::collectives<4>(t, sum) + every::collectives<8>(t, sum);
    sum += every::collectives<16>(t, sum) + every::collectives<32>(t, sum);
    sum += Tile<8>{}.read(p.longs, 4, 11);
    sum += Warp{}.read<Scope::Device, Order::Acquire>(p.words, 32, 0);
    sync_warp();

    WK_SHARED(u32, counts, 32);
    WK_SHARED(u64, totals, 32);
    counts.store(lane(), 1);
    totals.store_relaxed(lane(), 2);
    sync_block();
    sum += counts.load(lane()) + totals.load_relaxed(lane());
    sum += counts.fetch_add(0, 1) + counts.fetch_or(1, 2) + counts.fetch_and(2, 3) + counts.fetch_max(3, 4);
    sum += totals.fetch_add(0, 1) + totals.fetch_or(1, 2) + totals.fetch_and(2, 3) + totals.fetch_max(3, 4);
    sum += counts.fetch_min(4, 1) + counts.exchange(5, 6) + counts.cas(6, 1, 7);
    sum += totals.fetch_min(4, 1) + totals.exchange(5, 6) + totals.cas(6, 1, 7);
    Shared<u64> spare = dynamic_shared<u64>();
    spare.store(lane(), sum);
    Shared<u32> later = dynamic_shared<u32>(256);
    later.store(lane(), lane());
    sync_block();
    sum += spare.load((lane() + 1) % 32) + later.load(lane());

    u64 before = ticks();
    backoff(20);
    WK_ASSERT(ticks() - before < 1ull << 40, 1);
    sum += popc(t) + popc(sum) + ffs(t) + ffs(sum) + clz(t) + clz(sum);
    store(p.sums + t, sum);
}
