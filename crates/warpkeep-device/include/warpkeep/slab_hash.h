// Slab hash: a hash table of chains of slabs, whose keys are unique or not. The host's side is SlabMap, SlabSet and SlabMultiMap of
// warpkeep_containers.
//
// A slab is 64 or 128 bytes of cells (warpkeep/slab_cell.h), the last of which leads to the next slab. Each lane of a warp may have a request, and all
// walk their chains at the same time: four lanes read each of their slabs together, and each lane changes the cell of its own request. What is left
// needs a new slab, or lost its cell to another request, or goes through the whole chain. Tiles with a lane for each cell of a slab serve that, one
// request after the other; the tiles of a warp take steps together, so that they ask for slabs together.
//
// What keeps keys unique while everything runs at the same time:
//  - An insertion takes the first empty cell of the chain, by CAS. No cell becomes empty again, so cells fill in the order of the chain, a key that is
//    there is before the first empty cell, and of two insertions of a key one loses the CAS and finds the other's cell. So it does not matter that
//    the cells of a slab are not read at one moment: those before the one that was seen empty have other keys, for ever.
//  - A deleted cell keeps its key: a tombstone is taken by its own key only. So a key has one place, until the table is built anew.
//  - Every change is a CAS on the whole cell as it was read. A change that comes between is noticed.
// Where keys need not be unique, an insertion does the same without looking for its key, and a tombstone stays until the table is built anew. Cells
// of a key are in the order in which they came.
//
// In both kinds a slab is complete before it is linked, with the new cell in it, and links do not change. A tile that loses the CAS on the link gives
// its slab back.
#pragma once
#include "warpkeep/coop_read.h"
#include "warpkeep/slab_alloc.h"
#include "warpkeep/slab_cell.h"

// Before a loop whose array has to lie in registers.
#if WK_ON_GPU
#define WK_SLAB_UNROLLED _Pragma("unroll")
#else
#define WK_SLAB_UNROLLED
#endif

namespace wk {

// Those from Count on go through the whole chain: they count the cells of a key, delete them, or write their values to a list.
enum class SlabOp : u32 { Search, Insert, Replace, Delete, Count, DeleteAll, Gather };

// What a request came to; 0 while it is not done.
enum class SlabStatus : u32 { Pending, Inserted, Updated, Found, Removed, Present, Absent, Full, Counted };

// The answer to a request: what it came to, and the value that was there, or a count.
template <class Value> struct SlabAnswer {
    SlabStatus status = SlabStatus::Pending;
    Value value = 0;
};

// A table, for the parameters of kernels.
struct SlabTableRef {
    // The first slab of each bucket.
    u8* first;
    SlabAllocRef slabs;
    // Lines of counters: keys, and tombstones.
    u64* counters;
    KeyMixer mixer;
    // There are 2^bits buckets, four at least.
    u32 bits;
    u32 reserved;

    WK_DEVICE u32 buckets() const { return 1u << bits; }
    // The first slab of a bucket. All bits of the number count, so the product has 64.
    template <class Cell> WK_DEVICE typename Cell::Word* bucket(u32 number, u32 slab_bytes) const {
        return (typename Cell::Word*)(first + (u64)number * slab_bytes);
    }
    // The slab that a last cell leads to; null if to none.
    template <class Cell> WK_DEVICE typename Cell::Word* following(typename Cell::Word last) const {
        u64 link = Cell::link_of(last);
        return link ? slabs.as<typename Cell::Word>((u32)(link - 1)) : nullptr;
    }
    // The key of a cell in a bucket.
    template <class Key> WK_DEVICE Key key(u32 bucket, Key quotient) const {
        return mixer.unmix((Key)(quotient << bits | bucket));
    }
};

// A warp's view of a table with these cells and slabs of 64 or 128 bytes. All lanes of a warp make one and call its functions together. Replace is
// for unique keys.
template <class Cell, u32 SlabBytes, bool Unique> struct SlabTable {
    using Word = typename Cell::Word;
    using Key = typename Cell::Key;
    using Value = typename Cell::Value;
    using Answer = SlabAnswer<Value>;
    static constexpr u32 kLanes = SlabBytes / sizeof(Word);
    // Cells of a slab without its link.
    static constexpr u32 kCells = kLanes - 1;

    SlabTableRef table;
    SlabAllocator slabs;
    // What this lane changed.
    u32 live = 0;
    u32 dead = 0;
    // Where Gather writes, from the position on that is the request's value, and how many values fit.
    Value* gathered = nullptr;
    u64 room = 0;

    WK_DEVICE explicit SlabTable(const SlabTableRef& of) : table(of), slabs(of.slabs) {}

    // The answer to the request of this lane, if it has one. Where all requests only read, less is compiled.
    template <bool ReadOnly = false> WK_DEVICE Answer serve(bool wants, SlabOp op, Key key, Value value) {
        Key mixed = table.mixer.mix(key), quotient = mixed >> table.bits;
        Word* slab = table.bucket<Cell>((u32)mixed & (table.buckets() - 1), SlabBytes);
        Answer answer = walk<ReadOnly>(wants && op < SlabOp::Count, op, quotient, value, slab);
        bool is_left = wants && answer.status == SlabStatus::Pending;
        Answer rest = take_turns<ReadOnly>(is_left, op, quotient, value, slab);
        return is_left ? rest : answer;
    }

    // The same for requests that all search.
    WK_DEVICE Answer search(bool wants, Key key) {
        Key mixed = table.mixer.mix(key);
        Word* slab = table.bucket<Cell>((u32)mixed & (table.buckets() - 1), SlabBytes);
        return walk<true>(wants, SlabOp::Search, mixed >> table.bits, 0, slab);
    }

    // Adds what the warp changed to the counters. Once, in the end.
    WK_DEVICE void count() const {
        u32 more_live = warp_inclusive_sum(live), more_dead = warp_inclusive_sum(dead);
        if (lane() != kWarp - 1) return;
        u64* line = table.counters + global_warp() % kCounterLines * kCounterWords;
        if (more_live) fetch_add(line, (u64)(i64)(i32)more_live);
        if (more_dead) fetch_add(line + 1, (u64)(i64)(i32)more_dead);
    }

private:
    // What a lane sees of a slab: the ranks of the first cell that has its key and of the first empty one, kCells if there is none, the cell that has
    // the key, and the link.
    struct View {
        u32 hit = kCells;
        u32 empty = kCells;
        Cell found{};
        Word last{};
    };

    // Each lane looks at a slab of its own; four lanes read each of their slabs together. All lanes of the warp take part.
    template <bool ReadOnly> WK_DEVICE static View view(const Word* slab, Key quotient) {
        constexpr u32 kLines = SlabBytes / (kLineParts * sizeof(U128)), kPartWords = sizeof(U128) / sizeof(Word);
        Lines lines[kLines];
        for (u32 i = 0; i < kLines; i++) lines[i] = Lines::of((const U128*)slab + i * kLineParts);
        View seen;
        WK_SLAB_UNROLLED
        for (u32 i = 0; i < kLines; i++) {
            Line line = lines[i].own();
            for (u32 j = 0; j < kLineParts * kPartWords; j++) {
                u32 rank = (i * kLineParts + Line::number(j / kPartWords)) * kPartWords + j % kPartWords;
                Cell cell{word_in<Word>(line.parts[j / kPartWords], j % kPartWords)};
                if (rank == kCells) {
                    seen.last = cell.word;
                    continue;
                }
                // Requests that only read ask whether there is an empty cell, and not which is the first.
                if (cell.is_empty() && (ReadOnly || rank < seen.empty || WK_FAULT_POINT("slab_hash.first_empty"))) seen.empty = rank;
                // Of several cells with the key the first one counts.
                if (rank < seen.hit && cell.has(quotient) && (Unique || cell.is_live())) {
                    seen.hit = rank;
                    seen.found = cell;
                }
            }
        }
        return seen;
    }

    // Each lane walks the chain of its own request, so that every lane's slab is in flight at once. A request that stays pending is left to a tile, which
    // goes on at `slab`: a new slab is needed behind it, or another request changed the cell first. Keys of the slabs before stay what they are.
    template <bool ReadOnly> WK_DEVICE Answer walk(bool wants, SlabOp what, Key quotient, Value value, Word*& slab) {
        Warp warp;
        bool puts = is_put<ReadOnly>(what);
        Cell fresh = Cell::of(quotient, value);
        Answer answer;
        u32 walking = warp.ballot(wants);
        while (walking) {
            // Lanes without a request read along with one that has one.
            const Word* its = (const Word*)warp.shfl((u64)slab, ffs(walking) - 1);
            View seen = view<ReadOnly>(wants ? slab : its, quotient);
            Word* next = table.following<Cell>(seen.last);
            bool goes_on = false;
            if (!wants) {
                // It has its answer, or takes turns.
            } else if (seen.hit < kCells && (Unique || !puts)) {
                Outcome now = outcome<ReadOnly>(what, seen.found, fresh);
                if (ReadOnly || same_word(now.word, seen.found.word) || put(slab + seen.hit, seen.found.word, now.word)) {
                    answer = now.answer;
                    live += now.more_live;
                    dead += now.more_dead;
                }
            } else if (puts && seen.empty < kCells) {
                if (put(slab + seen.empty, Word{}, fresh.word)) {
                    answer = {SlabStatus::Inserted};
                    live++;
                }
            } else if (seen.empty == kCells && next) {
                slab = next;
                goes_on = true;
            } else if (!puts) {
                answer = {SlabStatus::Absent};
            }
            wants = goes_on;
            walking = warp.ballot(wants);
            if (walking) {
                // The lane that read the link orders the reads of the others, who see what was there before it was linked.
                fence();
                warp.sync();
            }
        }
        return answer;
    }

    // Tiles serve the requests of their lanes, one after the other, each from its slab on.
    template <bool ReadOnly> WK_DEVICE Answer take_turns(bool wants, SlabOp op, Key quotient, Value value, Word* from) {
        Tile<kLanes> tile;
        Warp warp;
        u32 waiting = tile.ballot(wants);
        Answer answer;
        Word* slab = nullptr;
        // What the tile's request has counted so far.
        u32 passed = 0;
        while (warp.any(waiting != 0)) {
            u32 turn = waiting ? ffs(waiting) - 1 : 0;
            Answer done;
            Key its = 0;
            Value its_value = 0;
            bool grows = false;
            if (waiting) {
                its = tile.shfl(quotient, turn);
                SlabOp what = (SlabOp)tile.shfl((u32)op, turn);
                its_value = tile.shfl(value, turn);
                u64 begin = tile.shfl((u64)from, turn);
                if (!slab) slab = (Word*)begin;
                done = step<ReadOnly>(slab, what, its, its_value, grows, passed);
            }
            if constexpr (!ReadOnly) {
                if (warp.any(grows)) append(slab, Cell::of(its, its_value), grows, done);
            }
            if (done.status != SlabStatus::Pending) {
                if (tile.rank() == turn) answer = done;
                waiting &= waiting - 1;
                slab = nullptr;
                passed = 0;
            }
        }
        return answer;
    }

    template <bool ReadOnly> WK_DEVICE static bool is_put(SlabOp what) { return !ReadOnly && (what == SlabOp::Insert || what == SlabOp::Replace); }

    // What a request makes of the cell that has its key, and its answer if the cell is still as it was seen.
    struct Outcome {
        Word word;
        Answer answer;
        u32 more_live = 0;
        u32 more_dead = 0;
    };

    template <bool ReadOnly> WK_DEVICE static Outcome outcome(SlabOp what, Cell seen, Cell fresh) {
        bool was = seen.is_live();
        if (is_put<ReadOnly>(what)) {
            if (!was) return {fresh.word, {SlabStatus::Inserted}, 1, 0u - 1};
            if (what == SlabOp::Insert) return {seen.word, {SlabStatus::Present, seen.value()}};
            return {fresh.word, {SlabStatus::Updated, seen.value()}};
        }
        if (!was) return {seen.word, {SlabStatus::Absent}};
        if (!ReadOnly && what == SlabOp::Delete) return {seen.tombstone().word, {SlabStatus::Removed, seen.value()}, 0u - 1, 1};
        return {seen.word, {SlabStatus::Found, seen.value()}};
    }

    // One look at a slab, by a tile. Gives the answer, moves on to the next slab, asks for one, or is to be called again.
    template <bool ReadOnly>
    WK_DEVICE Answer step(Word*& slab, SlabOp what, Key quotient, Value value, bool& grows, u32& passed) {
        Tile<kLanes> tile;
        bool puts = is_put<ReadOnly>(what);
        // Not weak: what another tile has changed is to be seen when this one comes again.
        Cell cell{load<Scope::Device, Order::Relaxed>(slab + tile.rank())};
        bool is_cell = tile.rank() < kCells;
        u32 hits = tile.ballot(is_cell && cell.has(quotient) && (Unique || cell.is_live()));
        u32 empty = tile.ballot(is_cell && cell.is_empty());
        Word last = word_of_lane<kLanes>(cell.word, kCells);
        if (what >= SlabOp::Count) {
            sweep<ReadOnly>(slab, what, hits >> tile.rank() & 1, cell, value, passed);
            if (empty || !Cell::link_of(last)) return {SlabStatus::Counted, (Value)passed};
        } else if (hits && (Unique || !puts)) {
            return change<ReadOnly>(slab, what, hits, cell.word, Cell::of(quotient, value));
        }
        if (empty && what < SlabOp::Count) {
            if (!puts) return {SlabStatus::Absent};
            if (!swap(slab + ffs(empty) - 1, Word{}, Cell::of(quotient, value).word)) return {};
            tally(1, 0);
            return {SlabStatus::Inserted};
        }
        if (Cell::link_of(last)) {
            slab = table.following<Cell>(last);
            // The lane that read the link orders the reads of the others, who see what was there before it was linked.
            fence();
            tile.sync();
            return {};
        }
        grows = puts;
        return puts ? Answer{} : Answer{SlabStatus::Absent};
    }

    // What is to be done with the cell that has the key.
    template <bool ReadOnly> WK_DEVICE Answer change(Word* slab, SlabOp what, u32 hits, Word word, Cell fresh) {
        u32 slot = ffs(hits) - 1;
        Cell seen{word_of_lane<kLanes>(word, slot)};
        Outcome now = outcome<ReadOnly>(what, seen, fresh);
        if (!ReadOnly && !same_word(now.word, seen.word) && !swap(slab + slot, seen.word, now.word)) return {};
        tally(now.more_live, now.more_dead);
        return now.answer;
    }

    // What is to be done with the cells of a slab that have the key, one a lane.
    template <bool ReadOnly> WK_DEVICE void sweep(Word* slab, SlabOp what, bool hit, Cell cell, Value value, u32& passed) {
        Tile<kLanes> tile;
        bool counts = hit && cell.is_live();
        Value* to = nullptr;
        if (what == SlabOp::Gather) {
            u64 begin = (u64)value, rank = passed + (u64)popc(tile.ballot(counts) & ((1u << tile.rank()) - 1));
            // Without a sum that could wrap around: the caller chose where values begin.
            if (counts && begin < room && rank < room - begin) to = gathered + begin + rank;
        }
        if (to) store(to, cell.value());
        bool deletes = !ReadOnly && what == SlabOp::DeleteAll;
        // A CAS fails because of a replacement, and the key is there still, or because of another deletion, which counts the cell. The key of a cell stays.
        for (Cell seen = cell; deletes && counts;) {
            Word was = cas<Scope::Device, Order::Relaxed>(slab + tile.rank(), seen.word, seen.tombstone().word);
            if (same_word(was, seen.word)) break;
            seen = Cell{was};
            counts = seen.is_live();
        }
        u32 counted = popc(tile.ballot(counts));
        passed += counted;
        if (deletes) tally(0u - counted, counted);
    }

    // A new slab with the cell, behind a slab that is full and the last one, for each tile that grows.
    WK_DEVICE void append(Word*& slab, Cell fresh, bool grows, Answer& done) {
        Tile<kLanes> tile;
        u32 unit = slabs.allocate(grows && tile.rank() == 0);
        bool lost = false;
        if (grows) {
            unit = tile.shfl(unit, 0);
            if (unit == kNoUnit) {
                done = Answer{SlabStatus::Full};
            } else {
                store(table.slabs.as<Word>(unit) + tile.rank(), tile.rank() == 0 ? fresh.word : Word{});
                // The link releases the words of all lanes.
                if (!WK_FAULT_POINT("slab_hash.slab_before_link")) tile.sync();
                Word there{};
                if (tile.rank() == 0) there = cas<Scope::Device, Order::AcqRel>(slab + kCells, Word{}, Cell::link_to(unit));
                there = word_of_lane<kLanes>(there, 0);
                tile.sync();
                lost = Cell::link_of(there) != 0;
                if (lost) {
                    slab = table.following<Cell>(there);
                } else {
                    done = Answer{SlabStatus::Inserted};
                    tally(1, 0);
                }
            }
        }
        slabs.release(unit, lost && tile.rank() == 0 && !WK_FAULT_POINT("slab_hash.loser_releases"));
    }

    // Changes a cell that is as it was seen, by one lane; false if it no longer is.
    WK_DEVICE static bool put(Word* cell, Word seen, Word wanted) {
        if (WK_FAULT_POINT("slab_hash.pair_as_seen")) {
            store<Scope::Device, Order::Relaxed>(cell, wanted);
            return true;
        }
        return same_word(cas<Scope::Device, Order::Relaxed>(cell, seen, wanted), seen);
    }

    // The same by the first lane of a tile, for all.
    WK_DEVICE bool swap(Word* cell, Word seen, Word wanted) const {
        Tile<kLanes> tile;
        bool changed = tile.rank() == 0 && put(cell, seen, wanted);
        return tile.shfl((u32)changed, 0);
    }

    WK_DEVICE void tally(u32 more_live, u32 more_dead) {
        if (Tile<kLanes>().rank() != 0) return;
        live += more_live;
        dead += more_dead;
    }
};

}  // namespace wk
