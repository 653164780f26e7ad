// Reads of one sorted array, and of the levels of a log-structured merge tree: several sorted arrays, of which newer ones come first.
#include "ordered_calls.h"

namespace bench {

constexpr u32 kMostRuns = 32;

struct SortedRuns {
    const u32* keys[kMostRuns];
    const u32* values[kMostRuns];
    u64 counts[kMostRuns];
    u64 runs;
    OrderedColumns calls;
};

WK_DEVICE u64 bound(const u32* keys, u64 count, u32 key, bool or_equal) {
    u64 low = 0, high = count;
    while (low < high) {
        u64 middle = (low + high) / 2;
        u32 its = load(keys + middle);
        if (its < key || (or_equal && its == key)) low = middle + 1;
        else high = middle;
    }
    return low;
}

// The smallest key of all runs that is not less than `key`, or more; of equal keys that of the newest run.
WK_DEVICE bool next_of(const SortedRuns& p, u32 key, bool or_equal, u32& found, u32& value) {
    bool there = false;
    for (u64 run = 0; run < p.runs; run++) {
        u64 at = bound(p.keys[run], p.counts[run], key, !or_equal);
        if (at == p.counts[run]) continue;
        u32 its = load(p.keys[run] + at);
        if (there && its >= found) continue;
        there = true;
        found = its;
        value = load(p.values[run] + at);
    }
    return there;
}

}  // namespace bench

// A thread for each operation.
WK_KERNEL_OF(bench_sorted_runs_read, bench::SortedRuns, 128) {
    using namespace bench;
    u64 i = global_index();
    const OrderedColumns& calls = p.calls;
    if (i >= calls.count) return;
    u32 key = load(calls.keys + i), value = 0, found = 0;
    OrderedOp op = calls.op(i);
    bool there = false;
    if (op == OrderedOp::Range) {
        u32 high = load(calls.ends + i), room = (u32)calls.stride, count = 0;
        bool or_equal = true;
        // Runs are merged pair by pair: one array needs one search, several a search for each pair.
        if (p.runs == 1) {
            for (u64 at = bound(p.keys[0], p.counts[0], key, false); at < p.counts[0]; at++, count++) {
                u32 its = load(p.keys[0] + at);
                if (its > high) break;
                if (count >= room) continue;
                store(calls.pair_keys + i * room + count, its);
                store(calls.pair_values + i * room + count, load(p.values[0] + at));
            }
        } else {
            for (; next_of(p, key, or_equal, found, value) && found <= high; count++, key = found, or_equal = false) {
                if (count >= room) continue;
                store(calls.pair_keys + i * room + count, found);
                store(calls.pair_values + i * room + count, value);
            }
        }
        if (calls.counts) store(calls.counts + i, count);
        OrderedStatus status = count > room ? OrderedStatus::Truncated : count ? OrderedStatus::Found : OrderedStatus::Absent;
        calls.answer(i, status, 0, 0);
        return;
    }
    if (op == OrderedOp::Successor) {
        there = next_of(p, key, false, found, value);
    } else {
        for (u64 run = 0; run < p.runs && !there; run++) {
            u64 at = bound(p.keys[run], p.counts[run], key, false);
            there = at < p.counts[run] && load(p.keys[run] + at) == key;
            if (there) value = load(p.values[run] + at);
        }
    }
    calls.answer(i, there ? OrderedStatus::Found : OrderedStatus::Absent, value, found);
}

WK_AGREE(bench_sorted_runs_most, bench::kMostRuns)
