// One lane hands data to another; one keeps data in the image. With the right fences, with none, and with too small ones.
#pragma once
#include "warpkeep/simt.h"

namespace publish {

using namespace wk;

// What stands between the data and the flag.
enum Between : u32 { Nothing = 0, BlockFence = 1, DeviceFence = 2, SystemFence = 3, BlockRelease = 4, DeviceRelease = 5, BallotOnly = 6, RelaxedReader = 7 };

struct Params {
    u64* data;
    u64* flags;
    u64* seen;
    u32 between;
    u32 rounds;
};

WK_DEVICE void raise(const Params& p, u64* flag, u64 value) {
    switch (p.between) {
    case BlockRelease: store<Scope::Block, Order::Release>(flag, value); return;
    case DeviceRelease: store<Scope::Device, Order::Release>(flag, value); return;
    case BlockFence: fence<Scope::Block>(); break;
    case DeviceFence:
    case RelaxedReader: fence<Scope::Device>(); break;
    case SystemFence: persist_fence(); break;
    default: break;
    }
    store<Scope::Device, Order::Relaxed>(flag, value);
}

}  // namespace publish

// Thread 0 of block 0 publishes; thread 0 of the last block, which may be the same one's lane 1, waits and looks.
WK_KERNEL(publish_across, publish::Params) {
    using namespace wk;
    bool one_block = grid_size() == 1;
    bool writes = block_index() == 0 && thread_index() == 0;
    bool reads = one_block ? thread_index() == 1 : block_index() == 1 && thread_index() == 0;
    if (writes) {
        store(p.data, 17);
        publish::raise(p, p.flags, 1);
    }
    if (reads) {
        if (p.between == publish::RelaxedReader) {
            while (load<Scope::Device, Order::Relaxed>(p.flags) == 0) backoff(100);
        } else {
            while (load<Scope::Device, Order::Acquire>(p.flags) == 0) backoff(100);
        }
        store(p.seen, load(p.data));
    }
}

// Every lane stores its part, and lane 0 speaks for all of them.
WK_KERNEL(publish_for_warp, publish::Params) {
    using namespace wk;
    Warp warp;
    if (block_index() == 0) {
        store(p.data + lane(), 100 + lane());
        if (p.between == publish::BallotOnly) {
            warp.ballot(true);
        } else {
            warp.sync();
        }
        if (lane() == 0) {
            fence<Scope::Device>();
            store<Scope::Device, Order::Relaxed>(p.flags, 1);
        }
    } else {
        while (!warp.any(lane() == 0 && load<Scope::Device, Order::Acquire>(p.flags) != 0)) {
        }
        store(p.seen + lane(), load(p.data + lane()));
    }
}

// Block-scope counting by lanes of two blocks.
WK_KERNEL(publish_count, publish::Params) {
    using namespace wk;
    for (u32 i = 0; i < p.rounds; i++) {
        if (p.between == publish::Nothing) {
            u64 x = load<Scope::Device, Order::Relaxed>(p.data);
            store<Scope::Device, Order::Relaxed>(p.data, x + 1);
        } else if (p.between == publish::BlockFence) {
            fetch_add<Scope::Block>(p.data, 1);
        } else {
            fetch_add<Scope::Device>(p.data, 1);
        }
    }
}

// Each thread keeps a record of two words in the image and then raises its flag there, again and again.
WK_KERNEL(publish_records, publish::Params) {
    using namespace wk;
    u64 t = global_index();
    for (u32 round = 1; round <= p.rounds; round++) {
        u64* record = p.data + (t * p.rounds + round - 1) * 2;
        store_streaming(record, round * 1000 + t);
        store_streaming(record + 1, round * 2000 + t);
        publish::raise(p, p.flags + t, round);
    }
}

// Data and flag are kept by different blocks: the second waits for the first, fences and raises the flag.
WK_KERNEL(publish_relay, publish::Params) {
    using namespace wk;
    if (thread_index() != 0) return;
    if (block_index() == 0) {
        store(p.data, 17);
        publish::raise(p, p.seen, 1);
    } else {
        while (load<Scope::Device, Order::Acquire>(p.seen) == 0) backoff(100);
        persist_fence();
        store(p.flags, 1);
    }
}

// 16 bytes stored weakly or as one, read by another block.
WK_KERNEL(publish_wide, publish::Params) {
    using namespace wk;
    if (thread_index() != 0) return;
    U128* wide = (U128*)p.data;
    if (block_index() == 0) {
        if (p.between == publish::Nothing) {
            store(wide, U128{1, 1});
        } else {
            store<Scope::Device, Order::Relaxed>(wide, U128{1, 1});
        }
    } else {
        U128 x{0, 0};
        while (x.lo == 0 && x.hi == 0) x = load<Scope::Device, Order::Relaxed>(wide);
        store(p.seen, x.lo != x.hi);
    }
}

// All blocks wait for all others, so they must be there at the same time.
WK_KERNEL(publish_grid_barrier, publish::Params) {
    using namespace wk;
    if (thread_index() == 0) {
        store(p.data + block_index(), 1 + block_index());
        fetch_add<Scope::Device, Order::Release>(p.flags, 1);
        while (load<Scope::Device, Order::Acquire>(p.flags) < grid_size()) backoff(100);
    }
    sync_block();
    if (thread_index() == 0) {
        u64 sum = 0;
        for (u32 i = 0; i < grid_size(); i++) sum += load(p.data + i);
        store(p.seen + block_index(), sum);
    }
}
