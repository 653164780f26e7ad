// Kernels that use warpkeep/ordered_map.h and warpkeep/ordered_writer.h as the kernels of others may: for tests.
#include "warpkeep/ordered_writer.h"

namespace ordered_map_calls {

using namespace wk;

struct Params {
    OrderedMapRef<u64, u64> map;
    const u64* keys;
    // For each key: its value, the pairs at and above it, below it, and how many keys are in the next 100.
    u64* values;
    u64* above;
    u64* below;
    u32* counts;
    // The sum of the values of the keys in the next 100.
    u64* sums;
    u64 count;
};

}  // namespace ordered_map_calls

WK_KERNEL(ordered_map_calls_read, ordered_map_calls::Params) {
    using namespace ordered_map_calls;
    u64 i = global_index();
    if (i >= p.count) return;
    u64 key = load(p.keys + i), value = ~0ull, end = key + 100 < key ? ~0ull : key + 100;
    p.map.find(key, value);
    store(p.values + i, value);
    auto above = p.map.first_at_least(key), below = p.map.last_below(key);
    store(p.above + i, above.is_valid() ? above.key() : ~0ull);
    store(p.below + i, below.is_valid() ? below.key() : ~0ull);
    store(p.counts + i, p.map.count(key, end));
    u64 sum = 0;
    for (; above.is_valid() && above.key() <= end; above.next()) sum += above.value();
    store(p.sums + i, sum);
}

namespace ordered_map_calls {

// A byte for each operation: what it does.
template <class K, class V> struct Changes {
    OrderedWriterRef<K, V> map;
    const u8* codes;
    const K* keys;
    const V* operands;
    u8* statuses;
    V* before;
    // When each operation began and ended: numbers that rise.
    u64* times;
    u64* clock;
    u64 count;
    // Operations that a thread works one after the other.
    u64 each;
};

template <class K, class V> WK_DEVICE void change(const Changes<K, V>& p) {
    for (u64 i = global_index() * p.each, end = i + p.each; i < end && i < p.count; i++) {
        V before = 0;
        if (p.times) store(p.times + 2 * i, fetch_add<Scope::Device, Order::AcqRel>(p.clock, 1ull));
        OrderedStatus status = p.map.run((OrderedOp)load(p.codes + i), load(p.keys + i), load(p.operands + i), before);
        if (p.times) store(p.times + 2 * i + 1, fetch_add<Scope::Device, Order::AcqRel>(p.clock, 1ull));
        store(p.statuses + i, (u8)status);
        store(p.before + i, before);
    }
}

using ChangesU32 = Changes<u32, u32>;
using ChangesU64 = Changes<u64, u64>;
using ChangesU128 = Changes<U128, u64>;

}  // namespace ordered_map_calls

WK_KERNEL_OF(ordered_map_calls_change_u32, ordered_map_calls::ChangesU32, 128) { ordered_map_calls::change(p); }
WK_KERNEL_OF(ordered_map_calls_change_u64, ordered_map_calls::ChangesU64, 128) { ordered_map_calls::change(p); }
WK_KERNEL_OF(ordered_map_calls_change_u128, ordered_map_calls::ChangesU128, 128) { ordered_map_calls::change(p); }

namespace ordered_map_calls {

struct Events {
    OrderedWriterRef<u64, u64> map;
    const u64* events;
    u8* statuses;
    u64 count;
};

}  // namespace ordered_map_calls

// Counts events: a thread for each.
WK_KERNEL_OF(ordered_map_calls_count_events, ordered_map_calls::Events, 128) {
    using namespace ordered_map_calls;
    u64 i = global_index(), before;
    if (i < p.count) store(p.statuses + i, (u8)p.map.upsert(OrderedOp::Add, load(p.events + i), 1, before));
}

namespace ordered_map_calls {

struct Both {
    OrderedWriterRef<u64, u64> writer;
    OrderedMapRef<u64, u64> before;
    const u64* keys;
    // Of each key with an even number: how many keys are in the next 100 before the changes, the sum of their values, and the key below.
    u32* counts;
    u64* sums;
    u64* below;
    // Of each key with an odd number: the answer to its change.
    u8* statuses;
    u64 count;
};

}  // namespace ordered_map_calls

// Every second thread changes the map, and the others read the state before.
WK_KERNEL(ordered_map_calls_both, ordered_map_calls::Both) {
    using namespace ordered_map_calls;
    u64 i = global_index(), its;
    if (i >= p.count) return;
    u64 key = load(p.keys + i), end = key + 100;
    if (i % 2) {
        OrderedOp op = i % 4 == 1 ? OrderedOp::Erase : OrderedOp::Add;
        store(p.statuses + i, (u8)p.writer.run(op, key, 1, its));
        return;
    }
    u64 sum = 0;
    for (auto at = p.before.first_at_least(key); at.is_valid() && at.key() <= end; at.next()) sum += at.value();
    auto below = p.before.last_below(key);
    store(p.counts + i, p.before.count(key, end));
    store(p.sums + i, sum);
    store(p.below + i, below.is_valid() ? below.key() : ~0ull);
    store(p.statuses + i, (u8)0);
}
