// Kernels that use a cuckoo index as anybody's kernels may: those of the tests of warpkeep/cuckoo_index.h.
#include "warpkeep/cuckoo_index.h"

namespace cuckoo_index_calls {

using namespace wk;

struct Calls {
    CuckooIndexRef index;
    const u64* hashes;
    const u8* codes;
    const u32* locations;
    const u32* olds;
    u8* statuses;
    u8* matches;
    u64* found;
    u64 count;
};

}  // namespace cuckoo_index_calls

// A call of a thread for each operation, in whatever order the threads come.
WK_KERNEL(cuckoo_index_calls_run, cuckoo_index_calls::Calls) {
    using namespace cuckoo_index_calls;
    u64 i = global_index();
    if (i >= p.count) return;
    u64 hash = load(p.hashes + i);
    u32 location = load(p.locations + i), old = load(p.olds + i);
    IndexMatches found = IndexMatches::none();
    IndexStatus status;
    switch ((IndexOp)load(p.codes + i)) {
        case IndexOp::Insert: status = p.index.insert(hash, location); break;
        case IndexOp::Replace:
            status = p.index.replace(hash, old, location);
            if (status == IndexStatus::Replaced) found.add(old);
            break;
        case IndexOp::Delete:
            status = p.index.erase(hash, location);
            if (status == IndexStatus::Deleted) found.add(location);
            break;
        default: found = p.index.search(hash); status = found.status(); break;
    }
    store(p.statuses + i, (u8)status);
    store(p.matches + i, (u8)found.count);
    store(p.found + i, found.packed());
}

// Eight lanes for each search.
WK_KERNEL(cuckoo_index_calls_search_by_tile, cuckoo_index_calls::Calls) {
    using namespace cuckoo_index_calls;
    u64 i = global_index() / kIndexCells;
    bool mine = i < p.count;
    IndexMatches found = p.index.search_by_tile(mine ? load(p.hashes + i) : 0);
    if (!mine || lane() % kIndexCells != 0) return;
    store(p.statuses + i, (u8)found.status());
    store(p.matches + i, (u8)found.count);
    store(p.found + i, found.packed());
}

// Sixteen lanes for each hash: one of the first eight replaces its location, and the others search for it together meanwhile.
WK_KERNEL(cuckoo_index_calls_replace_and_search, cuckoo_index_calls::Calls) {
    using namespace cuckoo_index_calls;
    u64 i = global_index() / (2 * kIndexCells);
    bool mine = i < p.count, first = lane() % kIndexCells == 0;
    u64 hash = mine ? load(p.hashes + i) : 0;
    if (Tile<kIndexCells>::index() % 2 == 0) {
        if (mine && first) p.index.replace(hash, load(p.olds + i), load(p.locations + i));
        return;
    }
    IndexMatches found = p.index.search_by_tile(hash);
    if (!mine || !first) return;
    store(p.statuses + i, (u8)found.status());
    store(p.matches + i, (u8)found.count);
    store(p.found + i, found.packed());
}
