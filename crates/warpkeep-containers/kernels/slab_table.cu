// Batches of a slab hash.
#include "warpkeep/append.h"
#include "warpkeep/slab_hash.h"

namespace slab_table {

using namespace wk;

struct Requests {
    SlabTableRef table;
    const u32* ops;
    const u32* keys;
    const u32* values;
    u64* answers;
    u64 count;
    // For values that are gathered.
    u32* gathered;
    u64 room;
};

struct Move {
    SlabTableRef from;
    SlabTableRef to;
    // Pairs for which there was no slab.
    u64* failed;
};

struct List {
    SlabTableRef table;
    // Pairs: the key and the value.
    U128* pairs;
    u64* next;
    u64 room;
};

template <u32 Words, bool Unique, bool ReadOnly> WK_DEVICE void apply(const Requests& p) {
    SlabTable<Words, Unique> table(p.table);
    table.gathered = p.gathered;
    table.room = p.room;
    u64 i = global_index();
    bool wants = i < p.count;
    u32 op = wants ? load(p.ops + i) : 0, key = wants ? load(p.keys + i) : 0, value = wants ? load(p.values + i) : 0;
    u64 answer = table.template serve<ReadOnly>(wants, (SlabOp)op, key, value);
    if (wants) store(p.answers + i, answer);
    if (!ReadOnly) table.count();
}

template <u32 Words> WK_DEVICE SlabChain<Words> chain_of_tile(const SlabTableRef& table) {
    u64 number = global_index() / Words;
    return SlabChain<Words>{number < table.buckets() ? table.bucket<Words>((u32)number) : nullptr};
}

// Stores the pairs of each chain, in their order, in another table.
template <u32 Words, bool Unique> WK_DEVICE void move(const Move& p) {
    SlabTable<Words, Unique> to(p.to);
    SlabChain<Words> chain = chain_of_tile<Words>(p.from);
    u32 bucket = (u32)(global_index() / Words);
    while (Warp().any(chain.slab != nullptr)) {
        SlabPair pair{chain.next(p.from)};
        u64 answer = to.serve(pair.is_live(), SlabOp::Insert, p.from.key(bucket, pair.quotient()), pair.value());
        if (answer == answer_of(SlabStatus::Full)) fetch_add(p.failed, 1ull);
    }
    to.count();
}

template <u32 Words> WK_DEVICE void list(const List& p) {
    SlabChain<Words> chain = chain_of_tile<Words>(p.table);
    u32 bucket = (u32)(global_index() / Words);
    while (Warp().any(chain.slab != nullptr)) {
        SlabPair pair{chain.next(p.table)};
        u64 at = append_by_warp(p.next, pair.is_live());
        if (pair.is_live() && at < p.room) store(p.pairs + at, U128{p.table.key(bucket, pair.quotient()), pair.value()});
    }
}

template <u32 Words> WK_DEVICE void flush(const SlabTableRef& p) {
    SlabTable<Words, false> table(p);
    flush_chain(table, chain_of_tile<Words>(p).slab);
    table.count();
}

// Gives all slabs behind the first ones back, a lane for each bucket.
template <u32 Words> WK_DEVICE void release(const SlabTableRef& p) {
    SlabAllocator slabs(p.slabs);
    u64 number = global_index();
    u64 link = number < p.buckets() ? load(p.bucket<Words>((u32)number) + Words - 1) : 0;
    while (Warp().any(link != 0)) {
        u64 after = link ? load(p.following(link) + Words - 1) : 0;
        slabs.release((u32)(link - 1), link != 0);
        link = after;
    }
}

}  // namespace slab_table

WK_KERNEL(slab_table_apply_8, slab_table::Requests) { slab_table::apply<8, true, false>(p); }
WK_KERNEL(slab_table_apply_16, slab_table::Requests) { slab_table::apply<16, true, false>(p); }
WK_KERNEL(slab_table_apply_multi_8, slab_table::Requests) { slab_table::apply<8, false, false>(p); }
WK_KERNEL(slab_table_apply_multi_16, slab_table::Requests) { slab_table::apply<16, false, false>(p); }
WK_KERNEL(slab_table_read_8, slab_table::Requests) { slab_table::apply<8, true, true>(p); }
WK_KERNEL(slab_table_read_16, slab_table::Requests) { slab_table::apply<16, true, true>(p); }
WK_KERNEL(slab_table_read_multi_8, slab_table::Requests) { slab_table::apply<8, false, true>(p); }
WK_KERNEL(slab_table_read_multi_16, slab_table::Requests) { slab_table::apply<16, false, true>(p); }
WK_KERNEL(slab_table_move_8, slab_table::Move) { slab_table::move<8, true>(p); }
WK_KERNEL(slab_table_move_16, slab_table::Move) { slab_table::move<16, true>(p); }
WK_KERNEL(slab_table_move_multi_8, slab_table::Move) { slab_table::move<8, false>(p); }
WK_KERNEL(slab_table_move_multi_16, slab_table::Move) { slab_table::move<16, false>(p); }
WK_KERNEL(slab_table_list_8, slab_table::List) { slab_table::list<8>(p); }
WK_KERNEL(slab_table_list_16, slab_table::List) { slab_table::list<16>(p); }
WK_KERNEL(slab_table_flush_8, wk::SlabTableRef) { slab_table::flush<8>(p); }
WK_KERNEL(slab_table_flush_16, wk::SlabTableRef) { slab_table::flush<16>(p); }
WK_KERNEL(slab_table_release_8, wk::SlabTableRef) { slab_table::release<8>(p); }
WK_KERNEL(slab_table_release_16, wk::SlabTableRef) { slab_table::release<16>(p); }

// The host has the same: src/slab_table.rs and src/slab_request.rs.
WK_AGREE(slab_table_inserted, wk::SlabStatus::Inserted)
WK_AGREE(slab_table_counted, wk::SlabStatus::Counted)
WK_AGREE(slab_table_gather, wk::SlabOp::Gather)
WK_AGREE(slab_table_reference, sizeof(wk::SlabTableRef))
