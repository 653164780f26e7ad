// Kernels that use warpkeep/ordered_map.h as the kernels of others may: for tests.
#include "warpkeep/ordered_map.h"

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
