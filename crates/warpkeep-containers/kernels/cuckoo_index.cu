// Batches of operations on a cuckoo index, displacement, and what is asked of the whole index. The host's side is src/cuckoo_index.
#include "warpkeep/append.h"
#include "warpkeep/cuckoo_index.h"

namespace cuckoo_index {

using namespace wk;

// Threads of a block.
constexpr u32 kThreads = 128;
// Words of CuckooIndexRef::control, behind the number of entries.
enum Control : u32 { kPending = kCountWords, kPlaced, kMarked, kHeld, kControlWords };
// How many entries a displacement moves, at most: 2 * 8 paths with one, 2 * 64 with two.
constexpr u32 kMostMoves = 2;

// The order in which a batch is worked: by group, and operations on one group in the batch's order.
struct Plan {
    CuckooIndexRef index;
    const u64* hashes;
    // Sorted by these: the numbers of the groups, with the bucket on top.
    u64* sorted;
    u32* numbers;
    u64 count;
};

struct Batch {
    CuckooIndexRef index;
    // Without a plan: every operation is a run of its own, and there are no other columns of a plan. Null with one.
    const u64* hashes;
    // As planned: operations on the same group make a run, which begins at each of `begins`.
    const u64* sorted;
    const u32* numbers;
    const u32* begins;
    u64 runs;
    u64 count;
    // For each operation, by number: its code (if all have the same there is no column), locations and answers.
    const u8* codes;
    const u32* locations;
    const u32* olds;
    u8* statuses;
    u8* matches;
    u64* found;
    // Runs to go on with: the number of each, and in the upper half the place of its next operation. All from their beginning if there is no list.
    const u64* list;
    u64 listed;
    // Runs that are not finished, in the same form.
    u64* pending;
    // Where the number of runs is, if the host does not know it: then `runs` is the most that there can be.
    const u32* runs_at;
    u32 code;
    // Whether to answer an operation that finds no cell; else its run waits for displacement.
    u32 refuses;

    WK_DEVICE u64 all_runs() const { return runs_at ? load(runs_at) : runs; }
};

struct Search {
    CuckooIndexRef index;
    const u64* hashes;
    u8* statuses;
    u8* matches;
    u64* found;
    u64 count;
};

struct SearchAll {
    CuckooIndexRef index;
    const u64* hashes;
    u32* counts;
    // Sixteen for each hash.
    u32* locations;
    u64 count;
};

struct Whole {
    CuckooIndexRef index;
    u64 cells;
};

// Counts the lanes of a warp for which something is so. All take part.
WK_DEVICE void count_lanes(u64* word, bool is_so) {
    u32 lanes = popc(Warp().ballot(is_so));
    if (lane() == 0 && lanes) fetch_add(word, (u64)lanes);
}

// An operation of a batch.
struct Operation {
    u32 number;
    IndexOp op;
    u32 location;

    WK_DEVICE Operation(const Batch& p, u64 place) {
        number = p.hashes ? (u32)place : load(p.numbers + place);
        op = (IndexOp)(p.codes ? load(p.codes + number) : (u8)p.code);
        location = p.locations ? load(p.locations + number) : 0;
    }

    WK_DEVICE bool inserts() const { return (op == IndexOp::Insert || op == IndexOp::Replace) && location != kNoLocation; }
    WK_DEVICE u32 old(const Batch& p) const { return p.olds ? load(p.olds + number) : kNoLocation; }

    WK_DEVICE void answer(const Batch& p, IndexStatus status, const IndexMatches& found) const {
        store(p.statuses + number, (u8)status);
        if (p.matches) store(p.matches + number, (u8)found.count);
        if (p.found) store(p.found + number, found.packed());
    }
    WK_DEVICE void answer(const Batch& p, IndexStatus status) const { answer(p, status, IndexMatches::none()); }
    WK_DEVICE void answer(const Batch& p, IndexStatus status, u32 location) const {
        IndexMatches found = IndexMatches::none();
        found.add(location);
        answer(p, status, found);
    }
};

// The run of this thread, if it has one: the operations on one group. No other thread has operations on it.
struct Run {
    bool mine;
    u32 number;
    u64 at, end;
    CuckooIndexRef::Group group;
    // What was added to the number of entries.
    u64 change;

    WK_DEVICE explicit Run(const Batch& p) : number(0), at(0), end(0), group{0, 0, 0}, change(0) {
        u64 i = global_index();
        mine = i < (p.list ? p.listed : p.all_runs());
        if (!mine) return;
        u64 entry = p.list ? load(p.list + i) : i;
        number = (u32)entry;
        if (p.hashes) {
            at = number;
            end = at + 1;
            group = p.index.group(load(p.hashes + at));
            return;
        }
        at = p.list ? entry >> 32 : load(p.begins + number);
        end = number + 1 < p.all_runs() ? load(p.begins + number + 1) : p.count;
        group = p.index.group_of_number(load(p.sorted + at));
    }

    // Works the next operation; false if it needs a cell and there is none.
    WK_DEVICE bool step(const Batch& p) {
        Operation operation(p, at);
        u32 location = operation.location;
        if (operation.op == IndexOp::Delete) {
            bool gone = p.index.change(group, location, 0);
            change -= gone;
            if (gone) operation.answer(p, IndexStatus::Deleted, location);
            else operation.answer(p, IndexStatus::Absent);
        } else if (operation.op == IndexOp::Insert || operation.op == IndexOp::Replace) {
            if (location == kNoLocation) {
                operation.answer(p, IndexStatus::BadLocation);
                return true;
            }
            u32 old = operation.op == IndexOp::Replace ? operation.old(p) : kNoLocation;
            if (p.index.change(group, old, CuckooIndexRef::cell_of(group.signature, location))) {
                operation.answer(p, IndexStatus::Replaced, old);
            } else if (p.index.claim(group, location)) {
                change++;
                operation.answer(p, IndexStatus::Inserted);
            } else if (p.refuses) {
                operation.answer(p, IndexStatus::Full);
            } else {
                return false;
            }
        } else {
            IndexMatches found = p.index.search(group);
            operation.answer(p, found.status(), found);
        }
        return true;
    }

    // Puts a run that is not finished on the list. All lanes of a warp take part.
    WK_DEVICE void finish(const Batch& p) const {
        bool is_pending = at < end;
        u64 place = append_by_warp(p.index.control + kPending, is_pending);
        if (is_pending) store(p.pending + place, (u64)number | at << 32);
    }
};

// Moves entries to their other buckets until one of the new entry's has an empty cell. No other thread looks for entries meanwhile; others may displace,
// too. A cell is kept by a mark while the entry for it is on its way, so no other thread moves that entry or takes the cell; whatever happens, an entry that
// was there is there. An empty cell is found before anything moves.
struct Displacement {
    const CuckooIndexRef& index;
    const CuckooIndexRef::Group& group;
    u64 cell;

    WK_DEVICE bool run() const {
        for (u32 moves = 1; moves <= kMostMoves; moves++) {
            for (u32 path = 0; path < 2u << 3 * moves; path++) {
                if (follow(path, moves)) return true;
            }
        }
        return false;
    }

    // A cell on a path, its entry, and that entry's other bucket. The path ends before it if there is no cell.
    struct Step {
        u64* at;
        u64 cell;
        u64 other;
    };

    // A path begins in one of the two buckets, by its lowest bit; then each three bits choose the cell whose entry goes to its other bucket: the preferred
    // one first, so that threads seldom choose the same.
    WK_DEVICE Step step(u32 path, u32 number) const {
        u64 bucket = path & 1 ? group.second : group.first;
        Step step{nullptr, 0, 0};
        for (u32 i = 0; i <= number; i++, bucket = step.other) {
            u32 chosen = (path >> (1 + 3 * i)) + CuckooIndexRef::preferred(group.signature);
            step.at = index.bucket(bucket) + chosen % kIndexCells;
            step.cell = load<Scope::Device, Order::Relaxed>(step.at);
            if (!CuckooIndexRef::is_held(step.cell)) return Step{nullptr, 0, 0};
            // Of the entry in the cell and of the bucket that it is in: nothing of the new one.
            step.other = index.partner((u32)step.cell, bucket);
        }
        return step;
    }

    // Moves the entries of a path, the last one first. Each step is looked up again: others may have changed it, and a path can come back to a cell.
    WK_DEVICE bool follow(u32 path, u32 moves) const {
        Step last = step(path, moves - 1);
        u64* free = last.at ? reserve(last.other) : nullptr;
        if (!free) return false;
        for (u32 i = moves; i-- > 0;) {
            Step next = step(path, i);
            bool fits = next.at && next.other == (u64)(free - index.cells) / kIndexCells;
            if (!fits || !mark(next.at, next.cell)) {
                store<Scope::Device, Order::Relaxed>(free, 0);
                return false;
            }
            store<Scope::Device, Order::Relaxed>(free, next.cell);
            free = next.at;
        }
        store<Scope::Device, Order::Relaxed>(free, cell);
        return true;
    }

    WK_DEVICE u64* reserve(u64 number) const {
        u32 free = index.read(number).free();
        for (; free; free &= free - 1) {
            u64* at = index.bucket(number) + ffs(free) - 1;
            if (CuckooIndexRef::take(at, kIndexReserved)) return at;
        }
        return nullptr;
    }

    // Takes an entry out of its cell, if it is still there, and keeps the cell.
    WK_DEVICE static bool mark(u64* at, u64 cell) {
        if (WK_FAULT_POINT("cuckoo_index.mark")) {
            store<Scope::Device, Order::Relaxed>(at, kIndexReserved);
            return true;
        }
        return cas<Scope::Device, Order::Relaxed>(at, cell, kIndexReserved) == cell;
    }
};

// The buckets of each lane's group: both are read at once, four lanes read a bucket together. All lanes of a warp take part.
struct OwnBuckets {
    Lines first, second;

    WK_DEVICE OwnBuckets(const CuckooIndexRef& index, const CuckooIndexRef::Group& group)
        : first(Lines::at((const U128*)index.cells, (u32)group.first, kLineParts, kLineParts)),
          second(Lines::at((const U128*)index.cells, (u32)group.second, kLineParts, kLineParts)) {}

    WK_DEVICE IndexMatches matches(u32 signature) const {
        IndexMatches found = IndexMatches::none();
        add_matches(first, signature, found);
        add_matches(second, signature, found);
        return found;
    }

    static WK_DEVICE void add_matches(const Lines& lines, u32 signature, IndexMatches& found) {
        Line line = lines.own();
        CuckooIndexRef::Bucket bucket;
        for (u32 part = 0; part < kLineParts; part++) bucket.parts[part] = line.parts[part];
        bucket.add_matches(signature, found);
    }
};

}  // namespace cuckoo_index

// What a batch is sorted by, and the numbers of its operations.
WK_KERNEL_OF(cuckoo_index_plan, cuckoo_index::Plan, cuckoo_index::kThreads) {
    using namespace cuckoo_index;
    u64 i = global_index();
    if (i >= p.count) return;
    store(p.sorted + i, p.index.number(p.index.group(load(p.hashes + i))));
    store(p.numbers + i, (u32)i);
}

// A thread for each run, up to the first operation that finds no cell. Threads compete for empty cells only.
WK_KERNEL_OF(cuckoo_index_apply, cuckoo_index::Batch, cuckoo_index::kThreads) {
    using namespace cuckoo_index;
    Run run(p);
    while (run.at < run.end && run.step(p)) run.at++;
    run.finish(p);
    p.index.length().add_sum_by_warp(run.change);
}

// A thread for each operation of a batch without a plan: all of them insert. Threads compete for empty cells only.
WK_KERNEL_OF(cuckoo_index_insert, cuckoo_index::Batch, cuckoo_index::kThreads) {
    using namespace cuckoo_index;
    Run run(p);
    OwnBuckets buckets(p.index, run.group);
    u32 first = buckets.first.words_equal(0), second = buckets.second.words_equal(0);
    bool added = false;
    if (run.mine) {
        Operation operation(p, run.at);
        bool has_location = operation.location != kNoLocation;
        if (!has_location) operation.answer(p, IndexStatus::BadLocation);
        added = has_location && p.index.claim_of(run.group, operation.location, first, second);
        if (added) operation.answer(p, IndexStatus::Inserted);
        run.at += added || !has_location;
    }
    run.finish(p);
    p.index.length().add_by_warp(added, false);
}

// A thread for each operation of a batch without a plan: all of them delete. Of several that delete the same entry one does. At least half of the entries
// are in the first of their buckets, so the second one is read only for those that are not.
WK_KERNEL_OF(cuckoo_index_erase, cuckoo_index::Batch, cuckoo_index::kThreads) {
    using namespace cuckoo_index;
    Run run(p);
    u32 location = run.mine && p.locations ? load(p.locations + run.number) : 0;
    u64 wanted = CuckooIndexRef::cell_of(run.group.signature, location);
    bool gone = false;
    for (u32 second = 0; second < 2; second++) {
        bool goes_on = run.mine && !gone;
        if (!Warp().any(goes_on)) break;
        u64 bucket = second ? run.group.second : run.group.first;
        Lines lines = Lines::wanted((const U128*)p.index.cells, goes_on ? (u32)bucket : kNoLine);
        u32 had = lines.words_equal(wanted);
        if (goes_on) gone = p.index.change_of(run.group, location, 0, second ? 0 : had, second ? had : 0);
    }
    if (run.mine) {
        Operation operation(p, run.at);
        if (gone) operation.answer(p, IndexStatus::Deleted, location);
        else operation.answer(p, IndexStatus::Absent);
    }
    p.index.length().add_by_warp(false, gone);
}

// A thread for each listed run, whose next operation found no cell: displaces others for it, and for the insertions that follow it. Nothing is looked up,
// because entries are on their way.
WK_KERNEL_AT_ONCE(cuckoo_index_place, cuckoo_index::Batch, cuckoo_index::kThreads, 4) {
    using namespace cuckoo_index;
    Run run(p);
    u64 begin = run.at;
    while (run.at < run.end) {
        Operation operation(p, run.at);
        if (!operation.inserts() || (run.at > begin && operation.op != IndexOp::Insert)) break;
        IndexStatus status = IndexStatus::Inserted;
        if (!p.index.claim(run.group, operation.location)) {
            u64 cell = CuckooIndexRef::cell_of(run.group.signature, operation.location);
            if (!Displacement{p.index, run.group, cell}.run()) break;
            status = IndexStatus::Displaced;
        }
        operation.answer(p, status);
        run.change++;
        run.at++;
    }
    run.finish(p);
    p.index.length().add_sum_by_warp(run.change);
    count_lanes(p.index.control + kPlaced, run.change > 0);
}

// A thread for each hash. Four of them read a bucket together.
WK_KERNEL_OF(cuckoo_index_search, cuckoo_index::Search, cuckoo_index::kThreads) {
    using namespace cuckoo_index;
    u64 i = global_index();
    CuckooIndexRef::Group group = p.index.group(i < p.count ? load(p.hashes + i) : 0);
    IndexMatches found = OwnBuckets(p.index, group).matches(group.signature);
    if (i >= p.count) return;
    store(p.statuses + i, (u8)found.status());
    if (p.matches) store(p.matches + i, (u8)found.count);
    if (p.found) store(p.found + i, found.packed());
}

// Eight lanes for each hash: lists the locations of all entries that match, in no order.
WK_KERNEL_OF(cuckoo_index_search_all, cuckoo_index::SearchAll, cuckoo_index::kThreads) {
    using namespace cuckoo_index;
    Tile<kIndexCells> tile;
    u64 i = global_index() / kIndexCells;
    bool mine = i < p.count;
    CuckooIndexRef::Group group = p.index.group(mine ? load(p.hashes + i) : 0);
    u32 count = 0;
    for (u32 second = 0; second < 2; second++) {
        u64 cell = load<Scope::Device, Order::Relaxed>(p.index.bucket(second ? group.second : group.first) + tile.rank());
        bool matches = CuckooIndexRef::matches(cell, group.signature);
        u32 matching = tile.ballot(matches);
        u32 before = count + popc(matching & ((1u << tile.rank()) - 1));
        if (mine && matches) store(p.locations + 2 * kIndexCells * i + before, CuckooIndexRef::location_in(cell));
        count += popc(matching);
    }
    if (mine && tile.rank() == 0) store(p.counts + i, count);
}

// A thread for each cell: counts what should not be, and what there is.
WK_KERNEL_OF(cuckoo_index_verify, cuckoo_index::Whole, cuckoo_index::kThreads) {
    using namespace cuckoo_index;
    u64 i = global_index();
    u64 cell = i < p.cells ? load(p.index.cells + i) : 0;
    bool held = CuckooIndexRef::is_held(cell);
    count_lanes(p.index.control + kMarked, cell != 0 && !held);
    count_lanes(p.index.control + kHeld, held);
}

// The host has the same: src/cuckoo_index.
WK_AGREE(cuckoo_index_ref_bytes, sizeof(wk::CuckooIndexRef))
WK_AGREE(cuckoo_index_cells, wk::kIndexCells)
WK_AGREE(cuckoo_index_least_bits, wk::kIndexLeastBits)
WK_AGREE(cuckoo_index_most_bits, wk::kIndexMostBits)
WK_AGREE(cuckoo_index_no_location, wk::kNoLocation)
WK_AGREE(cuckoo_index_spread, wk::kIndexSpread)
WK_AGREE(cuckoo_index_control_words, cuckoo_index::kControlWords)
WK_AGREE(cuckoo_index_count_words, wk::kCountWords)
WK_AGREE(cuckoo_index_inserted, wk::IndexStatus::Inserted)
WK_AGREE(cuckoo_index_replaced, wk::IndexStatus::Replaced)
WK_AGREE(cuckoo_index_found, wk::IndexStatus::Found)
WK_AGREE(cuckoo_index_absent, wk::IndexStatus::Absent)
WK_AGREE(cuckoo_index_deleted, wk::IndexStatus::Deleted)
WK_AGREE(cuckoo_index_full, wk::IndexStatus::Full)
WK_AGREE(cuckoo_index_displaced, wk::IndexStatus::Displaced)
WK_AGREE(cuckoo_index_truncated, wk::IndexStatus::Truncated)
WK_AGREE(cuckoo_index_bad_location, wk::IndexStatus::BadLocation)
WK_AGREE(cuckoo_index_insert, wk::IndexOp::Insert)
WK_AGREE(cuckoo_index_replace, wk::IndexOp::Replace)
WK_AGREE(cuckoo_index_delete, wk::IndexOp::Delete)
WK_AGREE(cuckoo_index_search_op, wk::IndexOp::Search)
