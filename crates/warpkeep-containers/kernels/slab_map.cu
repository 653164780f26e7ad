// Batches of a SlabMap.
#include "warpkeep/append.h"
#include "warpkeep/slab_hash.h"

namespace slab_map {

using namespace wk;

struct Requests {
    SlabTableRef table;
    const u32* ops;
    const u32* keys;
    const u32* values;
    u64* answers;
    u64 count;
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

template <u32 Words> WK_DEVICE void apply(const Requests& p) {
    SlabTable<Words> table(p.table);
    u64 i = global_index();
    bool wants = i < p.count;
    u32 op = wants ? load(p.ops + i) : 0, key = wants ? load(p.keys + i) : 0, value = wants ? load(p.values + i) : 0;
    u64 answer = table.serve(wants, (SlabOp)op, key, value);
    if (wants) store(p.answers + i, answer);
    table.count();
}

template <u32 Words> WK_DEVICE SlabChain<Words> chain_of_tile(const SlabTable<Words>& table) {
    u64 number = global_index() / Words;
    return SlabChain<Words>{number < table.table.buckets() ? table.bucket((u32)number) : nullptr};
}

WK_DEVICE u32 key_of(const SlabTableRef& table, u32 bucket, SlabPair pair) {
    return table.mixer.unmix(pair.quotient() << table.bits | bucket);
}

template <u32 Words> WK_DEVICE void move(const Move& p) {
    SlabTable<Words> from(p.from), to(p.to);
    SlabChain<Words> chain = chain_of_tile(from);
    u32 bucket = (u32)(global_index() / Words);
    while (Warp().any(chain.slab != nullptr)) {
        SlabPair pair{chain.next(from)};
        u64 answer = to.serve(pair.is_live(), SlabOp::Insert, key_of(p.from, bucket, pair), pair.value());
        if (answer == answer_of(SlabStatus::Full)) fetch_add(p.failed, 1ull);
    }
    to.count();
}

template <u32 Words> WK_DEVICE void list(const List& p) {
    SlabTable<Words> table(p.table);
    SlabChain<Words> chain = chain_of_tile(table);
    u32 bucket = (u32)(global_index() / Words);
    while (Warp().any(chain.slab != nullptr)) {
        SlabPair pair{chain.next(table)};
        u64 at = append_by_warp(p.next, pair.is_live());
        if (pair.is_live() && at < p.room) store(p.pairs + at, U128{key_of(p.table, bucket, pair), pair.value()});
    }
}

// Gives all slabs behind the first ones back, a lane for each bucket.
template <u32 Words> WK_DEVICE void release(const SlabTableRef& p) {
    SlabTable<Words> table(p);
    u64 number = global_index();
    u64 link = number < p.buckets() ? load(table.bucket((u32)number) + Words - 1) : 0;
    while (Warp().any(link != 0)) {
        u64 after = link ? load(table.following(link) + Words - 1) : 0;
        table.slabs.release((u32)(link - 1), link != 0);
        link = after;
    }
}

}  // namespace slab_map

WK_KERNEL(slab_map_apply_8, slab_map::Requests) { slab_map::apply<8>(p); }
WK_KERNEL(slab_map_apply_16, slab_map::Requests) { slab_map::apply<16>(p); }
WK_KERNEL(slab_map_move_8, slab_map::Move) { slab_map::move<8>(p); }
WK_KERNEL(slab_map_move_16, slab_map::Move) { slab_map::move<16>(p); }
WK_KERNEL(slab_map_list_8, slab_map::List) { slab_map::list<8>(p); }
WK_KERNEL(slab_map_list_16, slab_map::List) { slab_map::list<16>(p); }
WK_KERNEL(slab_map_release_8, wk::SlabTableRef) { slab_map::release<8>(p); }
WK_KERNEL(slab_map_release_16, wk::SlabTableRef) { slab_map::release<16>(p); }

// The host has the same: src/slab_map.rs and src/slab_request.rs.
WK_AGREE(slab_map_inserted, wk::SlabStatus::Inserted)
WK_AGREE(slab_map_full, wk::SlabStatus::Full)
WK_AGREE(slab_map_delete, wk::SlabOp::Delete)
WK_AGREE(slab_map_reference, sizeof(wk::SlabTableRef))
