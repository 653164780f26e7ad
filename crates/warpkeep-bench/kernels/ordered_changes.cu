// Inserts and lookups of an ordered map by the threads of one kernel, each for itself, as kernels of others call them.
#include "warpkeep/ordered_writer.h"

namespace bench {

using namespace wk;

template <class K, class V> struct OrderedCalls {
    OrderedWriterRef<K, V> map;
    const K* keys;
    // To insert, or that were found.
    V* values;
    u8* statuses;
    u64 count;
};

template <class K, class V> WK_DEVICE void insert(const OrderedCalls<K, V>& p) {
    u64 i = global_index();
    if (i >= p.count) return;
    V before;
    store(p.statuses + i, (u8)p.map.insert(load(p.keys + i), load(p.values + i), before));
}

template <class K, class V> WK_DEVICE void find(const OrderedCalls<K, V>& p) {
    u64 i = global_index();
    if (i >= p.count) return;
    V value = 0;
    bool there = p.map.find(load(p.keys + i), value);
    store(p.statuses + i, (u8)(there ? OrderedStatus::Found : OrderedStatus::Absent));
    store(p.values + i, value);
}

using Calls4 = OrderedCalls<u32, u32>;
using Calls8 = OrderedCalls<u64, u64>;

}  // namespace bench

WK_KERNEL_OF(bench_ordered_insert_4, bench::Calls4, 128) { bench::insert(p); }
WK_KERNEL_OF(bench_ordered_insert_8, bench::Calls8, 128) { bench::insert(p); }
WK_KERNEL_OF(bench_ordered_find_4, bench::Calls4, 128) { bench::find(p); }
WK_KERNEL_OF(bench_ordered_find_8, bench::Calls8, 128) { bench::find(p); }
