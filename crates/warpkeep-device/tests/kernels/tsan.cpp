// Kernels with and without races, for ThreadSanitizer. Built and run by tests/tsan.sh, once for each name below.
#include <cstdio>
#include <vector>

#include "../../simulator/machine.h"
#include "table.h"

struct TsanParams {
    wk::u64* data;
    wk::u64* flag;
    wk::u64* seen;
};

// Block 0 publishes with a release, block 1 waits with an acquire.
WK_KERNEL(clean_release, TsanParams) {
    using namespace wk;
    if (thread_index() != 0) return;
    if (block_index() == 0) {
        store(p.data, 17);
        store<Scope::Device, Order::Release>(p.flag, 1);
    } else {
        while (load<Scope::Device, Order::Acquire>(p.flag) == 0) backoff(100);
        store(p.seen, load(p.data));
    }
}

// The same with fences.
WK_KERNEL(clean_fence, TsanParams) {
    using namespace wk;
    if (thread_index() != 0) return;
    if (block_index() == 0) {
        store(p.data, 17);
        fence();
        store<Scope::Device, Order::Relaxed>(p.flag, 1);
    } else {
        while (load<Scope::Device, Order::Relaxed>(p.flag) == 0) backoff(100);
        fence();
        store(p.seen, load(p.data));
    }
}

// Lanes and warps that hand data over at sync and at the barrier.
WK_KERNEL(clean_sync, TsanParams) {
    using namespace wk;
    WK_SHARED(u64, parts, 64);
    u64* mine = p.data + block_index() * 64;
    u32 t = thread_index();
    store(mine + t, t);
    sync_warp();
    u64 neighbour = load(mine + (t ^ 1));
    parts.store(t, neighbour);
    sync_block();
    store(p.seen + block_index() * 64 + t, parts.load((t + 32) % 64));
}

// Two blocks write the same word.
WK_KERNEL(race_stores, TsanParams) {
    if (wk::thread_index() == 0) wk::store(p.data, wk::block_index());
}

// A flag without a fence.
WK_KERNEL(race_no_fence, TsanParams) {
    using namespace wk;
    if (thread_index() != 0) return;
    if (block_index() == 0) {
        store(p.data, 17);
        store<Scope::Device, Order::Relaxed>(p.flag, 1);
    } else {
        while (load<Scope::Device, Order::Relaxed>(p.flag) == 0) backoff(100);
        fence();
        store(p.seen, load(p.data));
    }
}

// Lanes of one warp, which run on one thread: a ballot orders no memory.
WK_KERNEL(race_in_warp, TsanParams) {
    using namespace wk;
    if (block_index() != 0 || warp_in_block() != 0) return;
    if (lane() == 0) store(p.data, 17);
    Warp{}.ballot(true);
    if (lane() == 1) store(p.seen, load(p.data));
}

// Shared memory with no barrier between.
WK_KERNEL(race_shared, TsanParams) {
    using namespace wk;
    WK_SHARED(u64, parts, 64);
    u32 t = thread_index();
    parts.store(t, t);
    if (t < 32) sync_warp();
    store(p.seen + block_index() * 64 + t, parts.load((t + 32) % 64));
}

namespace {

using namespace wk::sim;

bool run(Machine& machine, Entry entry, Grid grid, const void* params, std::size_t size) {
    Report report{};
    Fault fault;
    if (machine.launch(entry, grid, params, size, report, fault)) return true;
    std::fprintf(stderr, "fault %u: %s\n", (unsigned)fault.kind, fault.detail);
    return false;
}

int run_table(Machine& machine) {
    constexpr wk::u64 count = 512, buckets = 60;
    std::vector<wk::u64> slots(buckets * 32), keys(count), values(count), found(count);
    for (wk::u64 i = 0; i < count; i++) keys[i] = table::mix(i / 2 + 1) | 1, values[i] = i / 2 + 1;
    table::Params insert{slots.data(), keys.data(), values.data(), buckets, count};
    table::Params find{slots.data(), keys.data(), found.data(), buckets, count};
    Grid grid{count / 64, 64, 0};
    if (!run(machine, wk_sim_table_insert, grid, &insert, sizeof insert)) return 2;
    if (!run(machine, wk_sim_table_find, grid, &find, sizeof find)) return 2;
    return found == values ? 0 : 3;
}

}  // namespace

int main(int count, char** names) {
    struct Named {
        const char* name;
        Entry entry;
    };
    const Named kernels[] = {
        {"clean_release", wk_sim_clean_release}, {"clean_fence", wk_sim_clean_fence},     {"clean_sync", wk_sim_clean_sync},
        {"race_stores", wk_sim_race_stores},     {"race_no_fence", wk_sim_race_no_fence}, {"race_in_warp", wk_sim_race_in_warp},
        {"race_shared", wk_sim_race_shared},
    };
    Options options{};
    options.step_limit = 1 << 24;
    options.crash_at = kNever;
    options.workers = 2;
    options.resident = 2;
    Machine machine(options);
    for (int i = 1; i < count; i++) {
        if (std::strcmp(names[i], "clean_table") == 0) return run_table(machine);
        for (const Named& kernel : kernels) {
            if (std::strcmp(names[i], kernel.name) != 0) continue;
            std::vector<wk::u64> data(128), flag(1), seen(128);
            TsanParams params{data.data(), flag.data(), seen.data()};
            return run(machine, kernel.entry, Grid{2, 64, 0}, &params, sizeof params) ? 0 : 2;
        }
    }
    return 4;
}
