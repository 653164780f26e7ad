// Whether a slab hash is sound: counts what should not be, and what there is. No other kernel uses the table meanwhile.
#pragma once
#include "warpkeep/slab_hash.h"

namespace slab_batch {

using namespace wk;

// Words that verify counts in. The host has the same: src/slab_hash/verify.rs.
enum class Verified : u32 { Broken, Holes, Twice, Outside, Crossing, Free, Live, Dead, Reached, Taken, Words };

struct Verify {
    SlabTableRef table;
    // A bit for each slab of the pool, clear at first: set once a chain has come to the slab.
    u32* reached;
    // As many as Verified has, 0 at first.
    u64* counts;
    // Whether a key may be there once only.
    u32 unique;
    u32 reserved;
};

// Adds what the lanes of a warp have counted.
WK_DEVICE void add_verified(const Verify& p, Verified which, u32 count) {
    u32 all = warp_inclusive_sum(count);
    if (lane() == kWarp - 1 && all) fetch_add(p.counts + (u32)which, (u64)all);
}

// A tile walks the chain of each bucket. It ends where a link leads to no slab, or to one that a chain has come to before; so chains that cross
// or return to themselves end, too.
template <class Cell, u32 SlabBytes> WK_DEVICE void verify(const Verify& p) {
    using Word = typename Cell::Word;
    constexpr u32 kLanes = SlabBytes / sizeof(Word), kCells = kLanes - 1, kKeyBits = 8 * sizeof(typename Cell::Key);
    Tile<kLanes> tile;
    const SlabAllocRef& pool = p.table.slabs;
    u64 number = global_index() / kLanes;
    Word* first = number < p.table.buckets() ? p.table.bucket<Cell>((u32)number, SlabBytes) : nullptr;
    u32 broken = 0, holes = 0, twice = 0, outside = 0, crossing = 0, free = 0, live = 0, dead = 0, reached = 0, taken = 0;
    // Whether the chain had an empty cell: no key lies behind one, or an insertion would store it again.
    bool had_empty = false;
    for (Word* slab = first; slab;) {
        Cell cell{load(slab + tile.rank())};
        bool is_cell = tile.rank() < kCells, filled = is_cell && !cell.is_empty();
        Word should_be = !filled ? Word{} : cell.is_live() ? Cell::of(cell.quotient(), cell.value()).word : cell.tombstone().word;
        // The quotients of a bucket have fewer bits than keys.
        bool too_large = filled && cell.quotient() >> (kKeyBits - p.table.bits) != 0;
        if (is_cell && (too_large || !same_word(cell.word, should_be))) broken++;
        u32 empty = tile.ballot(is_cell && !filled);
        if (filled && (had_empty || (empty & ((1u << tile.rank()) - 1)))) holes++;
        had_empty |= empty != 0;
        if (filled && cell.is_live()) live++;
        if (filled && !cell.is_live()) dead++;
        if (p.unique) {
            // A tombstone keeps its key, so that no other cell may have it either.
            bool again = false;
            for (Word* before = first;;) {
                Word other = load(before + tile.rank());
                for (u32 i = 0; i < kCells; i++) {
                    Cell its{word_of_lane<kLanes>(other, i)};
                    again |= filled && its.has(cell.quotient()) && (before != slab || i < tile.rank());
                }
                if (before == slab) break;
                before = p.table.following<Cell>(word_of_lane<kLanes>(other, kCells));
            }
            if (again) twice++;
        }
        Word last = word_of_lane<kLanes>(cell.word, kCells), *next = nullptr;
        u64 link = Cell::link_of(last);
        bool leads = link && link <= pool.capacity() && same_word(last, Cell::link_to((u32)(link - 1)));
        if (leads) {
            u32 unit = (u32)(link - 1), bit = 1u << unit % 32, before = 0;
            if (tile.rank() == 0) before = fetch_or(p.reached + unit / 32, bit);
            bool is_new = !(tile.shfl(before, 0) & bit);
            bool is_taken = load(pool.levels[0] + unit / 32) & bit;
            if (is_new) next = pool.as<Word>(unit);
            if (tile.rank() == 0) {
                crossing += !is_new;
                reached += is_new;
                free += is_new && !is_taken;
            }
        } else if (tile.rank() == 0 && !same_word(last, Word{})) {
            outside++;
        }
        slab = next;
    }
    for (u64 word = global_index(); word < (u64)pool.blocks * kNodeWords; word += global_size()) taken += popc(load(pool.levels[0] + word));
    add_verified(p, Verified::Broken, broken);
    add_verified(p, Verified::Holes, holes);
    add_verified(p, Verified::Twice, twice);
    add_verified(p, Verified::Outside, outside);
    add_verified(p, Verified::Crossing, crossing);
    add_verified(p, Verified::Free, free);
    add_verified(p, Verified::Live, live);
    add_verified(p, Verified::Dead, dead);
    add_verified(p, Verified::Reached, reached);
    add_verified(p, Verified::Taken, taken);
}

}  // namespace slab_batch
