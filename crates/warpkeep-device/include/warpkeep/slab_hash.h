// Slab hash: a hash table of chains of slabs, whose keys are unique or not. The host's side is SlabMap, SlabSet and SlabMultiMap of
// warpkeep_containers.
//
// A slab is 64 or 128 bytes of cells (warpkeep/slab_cell.h), the last of which leads to the next slab. A tile with a lane for each cell reads it at
// once. Each lane of a tile may have a request; the tile serves them one after the other, and the tiles of a warp take steps together, so that they
// ask for slabs together.
//
// What keeps keys unique while everything runs at the same time:
//  - An insertion takes the first empty cell of the chain, by CAS. No cell becomes empty again, so cells fill in the order of the chain, a key that is
//    there is before the first empty cell, and of two insertions of a key one loses the CAS and finds the other's cell.
//  - A deleted cell keeps its key: a tombstone is taken by its own key only. So a key has one place, until the table is built anew.
//  - Every change is a CAS on the whole cell as it was read. A change that comes between is noticed.
// Where keys need not be unique, an insertion does the same without looking for its key, and a tombstone stays until the table is built anew. Cells
// of a key are in the order in which they came.
//
// In both kinds a slab is complete before it is linked, with the new cell in it, and links do not change. A tile that loses the CAS on the link gives
// its slab back.
#pragma once
#include "warpkeep/slab_alloc.h"
#include "warpkeep/slab_cell.h"

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
        Tile<kLanes> tile;
        Warp warp;
        Key mixed = table.mixer.mix(key);
        u32 waiting = tile.ballot(wants);
        Answer answer;
        Word* slab = nullptr;
        // What the tile's request has counted so far.
        u32 passed = 0;
        while (warp.any(waiting != 0)) {
            u32 turn = waiting ? ffs(waiting) - 1 : 0;
            Answer done;
            Key quotient = 0;
            Value its_value = 0;
            bool grows = false;
            if (waiting) {
                Key its = tile.shfl(mixed, turn);
                SlabOp what = (SlabOp)tile.shfl((u32)op, turn);
                its_value = tile.shfl(value, turn);
                quotient = its >> table.bits;
                if (!slab) slab = table.bucket<Cell>((u32)its & (table.buckets() - 1), SlabBytes);
                done = step<ReadOnly>(slab, what, quotient, its_value, grows, passed);
            }
            if constexpr (!ReadOnly) {
                if (warp.any(grows)) append(slab, Cell::of(quotient, its_value), grows, done);
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

    // Adds what the warp changed to the counters. Once, in the end.
    WK_DEVICE void count() const {
        u32 more_live = warp_inclusive_sum(live), more_dead = warp_inclusive_sum(dead);
        if (lane() != kWarp - 1) return;
        u64* line = table.counters + global_warp() % kCounterLines * kCounterWords;
        if (more_live) fetch_add(line, (u64)(i64)(i32)more_live);
        if (more_dead) fetch_add(line + 1, (u64)(i64)(i32)more_dead);
    }

private:
    // One look at a slab, by a tile. Gives the answer, moves on to the next slab, asks for one, or is to be called again.
    template <bool ReadOnly>
    WK_DEVICE Answer step(Word*& slab, SlabOp what, Key quotient, Value value, bool& grows, u32& passed) {
        Tile<kLanes> tile;
        bool puts = !ReadOnly && (what == SlabOp::Insert || what == SlabOp::Replace);
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
        if (ReadOnly) return seen.is_live() ? Answer{SlabStatus::Found, seen.value()} : Answer{SlabStatus::Absent};
        bool was = seen.is_live(), stays = was;
        Word wanted = seen.word;
        if (what == SlabOp::Delete && was) {
            wanted = seen.tombstone().word;
            stays = false;
        }
        if (what == SlabOp::Replace || (what == SlabOp::Insert && !was)) {
            wanted = fresh.word;
            stays = true;
        }
        if (!same_word(wanted, seen.word) && !swap(slab + slot, seen.word, wanted)) return {};
        if (stays && !was) tally(1, 0u - 1);
        if (was && !stays) tally(0u - 1, 1);
        if (what == SlabOp::Insert || what == SlabOp::Replace) {
            if (!was) return {SlabStatus::Inserted};
            return {what == SlabOp::Insert ? SlabStatus::Present : SlabStatus::Updated, seen.value()};
        }
        if (!was) return {SlabStatus::Absent};
        return {what == SlabOp::Delete ? SlabStatus::Removed : SlabStatus::Found, seen.value()};
    }

    // What is to be done with the cells of a slab that have the key, one a lane.
    template <bool ReadOnly> WK_DEVICE void sweep(Word* slab, SlabOp what, bool hit, Cell cell, Value value, u32& passed) {
        Tile<kLanes> tile;
        bool counts = hit && cell.is_live();
        Value* to = nullptr;
        if (what == SlabOp::Gather) {
            u64 at = (u64)value + passed + popc(tile.ballot(counts) & ((1u << tile.rank()) - 1));
            if (counts && at < room) to = gathered + at;
        }
        if (to) store(to, cell.value());
        bool deletes = !ReadOnly && what == SlabOp::DeleteAll;
        // Whose CAS fails has lost its cell to another deletion, which counts it.
        if (deletes && counts) {
            counts = same_word(cas<Scope::Device, Order::Relaxed>(slab + tile.rank(), cell.word, cell.tombstone().word), cell.word);
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

    // Changes a cell that is as it was seen; false if it no longer is.
    WK_DEVICE bool swap(Word* cell, Word seen, Word wanted) const {
        Tile<kLanes> tile;
        bool changed = false;
        if (tile.rank() == 0) {
            if (WK_FAULT_POINT("slab_hash.pair_as_seen")) {
                store<Scope::Device, Order::Relaxed>(cell, wanted);
                changed = true;
            } else {
                changed = same_word(cas<Scope::Device, Order::Relaxed>(cell, seen, wanted), seen);
            }
        }
        return tile.shfl((u32)changed, 0);
    }

    WK_DEVICE void tally(u32 more_live, u32 more_dead) {
        if (Tile<kLanes>().rank() != 0) return;
        live += more_live;
        dead += more_dead;
    }
};

}  // namespace wk
