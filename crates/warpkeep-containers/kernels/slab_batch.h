// Batches of a slab hash, and what is done with a whole one. For all kinds of cells.
#pragma once
#include "warpkeep/append.h"
#include "slab_verify.h"
#include "warpkeep/slab_chain.h"

namespace slab_batch {

using namespace wk;

constexpr u32 kThreads = 128;
// Of kernels that change a table as many are to be on a multiprocessor. More would leave them fewer registers than they need.
constexpr u32 kApplyBlocks = 6;

template <class Cell> struct Requests {
    SlabTableRef table;
    // A byte for each request, or null if all do the same.
    const u8* codes;
    const typename Cell::Key* keys;
    // Null for zeros.
    const typename Cell::Value* values;
    // Null if they are not wanted.
    u8* statuses;
    // Values that were there, or counts; null if they are not wanted.
    typename Cell::Value* found;
    u64 count;
    // For values that are gathered.
    typename Cell::Value* gathered;
    u64 room;
    u32 code;
    u32 reserved;
};

struct Codes {
    const u8* codes;
    u64 count;
    // How many of them store something.
    u64* puts;
};

struct Move {
    SlabTableRef from;
    // Has as many buckets, or more, and is empty.
    SlabTableRef to;
    // Cells for which there was no slab.
    u64* failed;
};

template <class Cell> struct List {
    SlabTableRef table;
    typename Cell::Key* keys;
    // Null if they are not wanted.
    typename Cell::Value* values;
    u64* next;
    u64 room;
};

template <class Cell> struct Plan {
    SlabTableRef table;
    const typename Cell::Key* keys;
    typename Cell::Key* sorted;
    u32* numbers;
    // The answers that nearly all insertions get, which the batch has in its order: others are stored where they differ.
    u8* statuses;
    // Null if they are not wanted.
    typename Cell::Value* found;
    u64 count;
};

// A sorted batch of insertions, for an empty table.
template <class Cell> struct Build {
    SlabTableRef table;
    const typename Cell::Key* sorted;
    const u32* numbers;
    // Where the runs of equal keys begin; null if every position is a run, because keys need not be unique.
    const u32* begins;
    // For each bucket the first of its runs and the one behind its last; two zeros if it has none.
    u32* bounds;
    u64 runs;
    u64 count;
    const typename Cell::Value* values;
    u8* statuses;
    typename Cell::Value* found;
};

// Codes that are none search.
WK_DEVICE SlabOp op_of(u32 code, bool gathers) { return code <= (u32)SlabOp::DeleteAll || gathers ? (SlabOp)code : SlabOp::Search; }

template <class Cell, u32 SlabBytes, bool Unique, bool ReadOnly> WK_DEVICE void apply(const Requests<Cell>& p) {
    SlabTable<Cell, SlabBytes, Unique> table(p.table);
    table.gathered = p.gathered;
    table.room = p.room;
    u64 i = global_index();
    bool wants = i < p.count;
    u32 code = wants && p.codes ? (u32)load(p.codes + i) : p.code;
    typename Cell::Key key = wants ? load(p.keys + i) : 0;
    typename Cell::Value value = wants && p.values ? load(p.values + i) : 0;
    SlabAnswer<typename Cell::Value> answer = table.template serve<ReadOnly>(wants, op_of(code, p.gathered), key, value);
    if (wants && p.statuses) store(p.statuses + i, (u8)answer.status);
    if (wants && p.found) store(p.found + i, answer.value);
    if (!ReadOnly) table.count();
}

WK_DEVICE void count_puts(const Codes& p) {
    u64 i = global_index();
    SlabOp op = i < p.count ? (SlabOp)load(p.codes + i) : SlabOp::Search;
    u32 puts = Warp().ballot(op == SlabOp::Insert || op == SlabOp::Replace);
    if (lane() == 0 && puts) fetch_add(p.puts, (u64)popc(puts));
}

// The tile's number, and the first slab of the bucket with this number; null if there is none.
template <class Cell, u32 SlabBytes> WK_DEVICE u64 tile_number() { return global_index() / (SlabBytes / sizeof(typename Cell::Word)); }
template <class Cell, u32 SlabBytes> WK_DEVICE typename Cell::Word* bucket_of_tile(const SlabTableRef& table) {
    u64 number = tile_number<Cell, SlabBytes>();
    return number < table.buckets() ? table.bucket<Cell>((u32)number, SlabBytes) : nullptr;
}

// Builds each bucket of a larger table from the one chain that has its keys, in their order.
template <class Cell, u32 SlabBytes> WK_DEVICE void rebuild(const Move& p) {
    SlabTable<Cell, SlabBytes, false> to(p.to);
    SlabFiller<Cell, SlabBytes> filler{bucket_of_tile<Cell, SlabBytes>(p.to)};
    u32 number = (u32)tile_number<Cell, SlabBytes>(), more = p.to.bits - p.from.bits;
    SlabChain<Cell, SlabBytes> chain{filler.slab ? p.from.bucket<Cell>(number & (p.from.buckets() - 1), SlabBytes) : nullptr};
    u32 failed = 0;
    while (Warp().any(chain.slab != nullptr)) {
        Cell cell = chain.next(p.from);
        // The bits of the quotient that become bits of the bucket's number.
        bool moves = cell.is_live() && ((u32)cell.quotient() & ((1u << more) - 1)) == number >> p.from.bits;
        bool stored = filler.put(to.slabs, moves, Cell::of(cell.quotient() >> more, cell.value()));
        if (stored) to.live++;
        if (moves && !stored) failed++;
    }
    to.count();
    if (failed) fetch_add(p.failed, (u64)failed);
}

template <class Cell, u32 SlabBytes> WK_DEVICE void list(const List<Cell>& p) {
    SlabChain<Cell, SlabBytes> chain{bucket_of_tile<Cell, SlabBytes>(p.table)};
    u32 bucket = (u32)tile_number<Cell, SlabBytes>();
    while (Warp().any(chain.slab != nullptr)) {
        Cell cell = chain.next(p.table);
        u64 at = append_by_warp(p.next, cell.is_live());
        if (!cell.is_live() || at >= p.room) continue;
        store(p.keys + at, p.table.key(bucket, cell.quotient()));
        if (p.values) store(p.values + at, cell.value());
    }
}

template <class Cell, u32 SlabBytes> WK_DEVICE void flush(const SlabTableRef& p) {
    SlabTable<Cell, SlabBytes, false> table(p);
    flush_chain(table, bucket_of_tile<Cell, SlabBytes>(p));
    table.count();
}

// Gives all slabs behind the first ones back, a lane for each bucket.
template <class Cell, u32 SlabBytes> WK_DEVICE void release(const SlabTableRef& p) {
    using Word = typename Cell::Word;
    constexpr u32 kCells = SlabBytes / sizeof(Word) - 1;
    SlabAllocator slabs(p.slabs);
    u64 number = global_index();
    Word last = number < p.buckets() ? load(p.bucket<Cell>((u32)number, SlabBytes) + kCells) : Word{};
    while (Warp().any(Cell::link_of(last) != 0)) {
        Word* slab = p.following<Cell>(last);
        Word after = slab ? load(slab + kCells) : Word{};
        slabs.release((u32)(Cell::link_of(last) - 1), slab != nullptr);
        last = after;
    }
}

// What a batch is sorted by: the bucket, and below it the quotient.
template <class Cell> WK_DEVICE void plan(const Plan<Cell>& p) {
    using Key = typename Cell::Key;
    constexpr u32 kBits = 8 * sizeof(Key);
    u64 i = global_index();
    if (i >= p.count) return;
    Key mixed = p.table.mixer.mix(load(p.keys + i));
    store(p.sorted + i, (Key)(mixed >> p.table.bits | mixed << (kBits - p.table.bits)));
    store(p.numbers + i, (u32)i);
    store(p.statuses + i, (u8)SlabStatus::Inserted);
    if (p.found) store(p.found + i, (typename Cell::Value)0);
}

// The position at which a run begins.
template <class Cell> WK_DEVICE u64 begin_of(const Build<Cell>& p, u64 run) { return p.begins ? load(p.begins + run) : run; }

// The bucket of a run. Its number is the upper bits of what the batch is sorted by.
template <class Cell> WK_DEVICE u32 bucket_of_run(const Build<Cell>& p, u64 run) {
    return (u32)(load(p.sorted + begin_of(p, run)) >> (8 * sizeof(typename Cell::Key) - p.table.bits));
}

// Finds the runs of each bucket, a thread for each run.
template <class Cell> WK_DEVICE void bound(const Build<Cell>& p) {
    u64 run = global_index();
    if (run >= p.runs) return;
    u32 bucket = bucket_of_run(p, run);
    u32* bounds = p.bounds + 2 * (u64)bucket;
    if (run == 0 || bucket_of_run(p, run - 1) != bucket) store(bounds, (u32)run);
    if (run + 1 == p.runs || bucket_of_run(p, run + 1) != bucket) store(bounds + 1, (u32)(run + 1));
}

// Fills each bucket with the first insertion of each of its keys, or with all of them, in the order of the batch.
template <class Cell, u32 SlabBytes> WK_DEVICE void build(const Build<Cell>& p) {
    using Key = typename Cell::Key;
    using Filler = SlabFiller<Cell, SlabBytes>;
    SlabTable<Cell, SlabBytes, false> to(p.table);
    Filler filler{bucket_of_tile<Cell, SlabBytes>(p.table)};
    u64 number = tile_number<Cell, SlabBytes>(), at = 0, end = 0;
    if (filler.slab) {
        at = load(p.bounds + 2 * number);
        end = load(p.bounds + 2 * number + 1);
    }
    u32 rank = Tile<Filler::kLanes>::rank();
    for (; Warp().any(at < end); at += Filler::kCells) {
        bool has = rank < Filler::kCells && at + rank < end;
        u64 begin = has ? begin_of(p, at + rank) : 0;
        Key quotient = has ? (Key)((Key)(load(p.sorted + begin) << p.table.bits) >> p.table.bits) : 0;
        typename Cell::Value value = has && p.values ? load(p.values + load(p.numbers + begin)) : 0;
        bool stored = filler.put(to.slabs, has, Cell::of(quotient, value));
        if (stored) to.live++;
        if (has && !stored) store(p.statuses + load(p.numbers + begin), (u8)SlabStatus::Full);
    }
    to.count();
}

// Answers the insertions of a key that another one of the batch came before, a thread for each position.
template <class Cell> WK_DEVICE void settle(const Build<Cell>& p) {
    u64 i = global_index();
    if (i >= p.count) return;
    u64 from = 0, to = p.runs;
    // The last run that does not begin behind this position.
    while (to - from > 1) {
        u64 middle = (from + to) / 2;
        if (load(p.begins + middle) <= i) from = middle;
        else to = middle;
    }
    u64 begin = load(p.begins + from);
    if (begin == i) return;
    u32 op = load(p.numbers + i), first = load(p.numbers + begin);
    bool is_there = load(p.statuses + first) == (u8)SlabStatus::Inserted;
    store(p.statuses + op, (u8)(is_there ? SlabStatus::Present : SlabStatus::Full));
    if (p.found) store(p.found + op, is_there && p.values ? load(p.values + first) : 0);
}

}  // namespace slab_batch

// Defines the kernels for one kind of cells. The host has the same: src/slab_hash/kernels.rs.

#define WK_SLAB_KERNELS_OF_SIZE(prefix, Cell, bytes)                                                               \
    WK_KERNEL_AT_ONCE(prefix##_apply_##bytes, slab_batch::Requests<Cell>, slab_batch::kThreads, slab_batch::kApplyBlocks) {                      \
        slab_batch::apply<Cell, bytes, true, false>(p);                                                                                           \
    }                                                                                                                                             \
    WK_KERNEL_OF(prefix##_read_##bytes, slab_batch::Requests<Cell>, slab_batch::kThreads) { slab_batch::apply<Cell, bytes, true, true>(p); }   \
    WK_KERNEL_OF(prefix##_rebuild_##bytes, slab_batch::Move, slab_batch::kThreads) { slab_batch::rebuild<Cell, bytes>(p); }       \
    WK_KERNEL_OF(prefix##_build_##bytes, slab_batch::Build<Cell>, slab_batch::kThreads) { slab_batch::build<Cell, bytes>(p); }    \
    WK_KERNEL_OF(prefix##_list_##bytes, slab_batch::List<Cell>, slab_batch::kThreads) { slab_batch::list<Cell, bytes>(p); }       \
    WK_KERNEL_OF(prefix##_flush_##bytes, wk::SlabTableRef, slab_batch::kThreads) { slab_batch::flush<Cell, bytes>(p); }           \
    WK_KERNEL_OF(prefix##_release_##bytes, wk::SlabTableRef, slab_batch::kThreads) { slab_batch::release<Cell, bytes>(p); }       \
    WK_KERNEL_OF(prefix##_verify_##bytes, slab_batch::Verify, slab_batch::kThreads) { slab_batch::verify<Cell, bytes>(p); }

#define WK_SLAB_KERNELS(prefix, Cell)                                                                              \
    WK_SLAB_KERNELS_OF_SIZE(prefix, Cell, 64)                                                                      \
    WK_SLAB_KERNELS_OF_SIZE(prefix, Cell, 128)                                                                     \
    WK_KERNEL_OF(prefix##_count_puts, slab_batch::Codes, slab_batch::kThreads) { slab_batch::count_puts(p); }      \
    WK_KERNEL_OF(prefix##_plan, slab_batch::Plan<Cell>, slab_batch::kThreads) { slab_batch::plan(p); }             \
    WK_KERNEL_OF(prefix##_bound, slab_batch::Build<Cell>, slab_batch::kThreads) { slab_batch::bound(p); }           \
    WK_KERNEL_OF(prefix##_settle, slab_batch::Build<Cell>, slab_batch::kThreads) { slab_batch::settle(p); }        \
    WK_AGREE(prefix##_reference, sizeof(wk::SlabTableRef))                                                         \
    WK_AGREE(prefix##_cell, sizeof(Cell))                                                                          \
    WK_AGREE(prefix##_key, sizeof(Cell::Key))                                                                      \
    WK_AGREE(prefix##_inserted, wk::SlabStatus::Inserted)                                                          \
    WK_AGREE(prefix##_counted, wk::SlabStatus::Counted)                                                            \
    WK_AGREE(prefix##_delete_all, wk::SlabOp::DeleteAll)                                                           \
    WK_AGREE(prefix##_gather, wk::SlabOp::Gather)                                                                  \
    WK_AGREE(prefix##_verified, slab_batch::Verified::Words)

// Batches of tables whose keys need not be unique.
#define WK_SLAB_MULTI_KERNELS_OF_SIZE(prefix, Cell, bytes)                                                         \
    WK_KERNEL_AT_ONCE(prefix##_apply_##bytes, slab_batch::Requests<Cell>, slab_batch::kThreads, slab_batch::kApplyBlocks) {                      \
        slab_batch::apply<Cell, bytes, false, false>(p);                                                                                          \
    }                                                                                                                                             \
    WK_KERNEL_OF(prefix##_read_##bytes, slab_batch::Requests<Cell>, slab_batch::kThreads) { slab_batch::apply<Cell, bytes, false, true>(p); }

#define WK_SLAB_MULTI_KERNELS(prefix, Cell)        \
    WK_SLAB_MULTI_KERNELS_OF_SIZE(prefix, Cell, 64) \
    WK_SLAB_MULTI_KERNELS_OF_SIZE(prefix, Cell, 128)
