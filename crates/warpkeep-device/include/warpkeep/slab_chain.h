// Whole chains of a slab hash, each worked by one tile that owns it: read, filled and packed without CAS. No other kernel uses the table meanwhile.
#pragma once
#include "warpkeep/slab_hash.h"

namespace wk {

// The slabs of a bucket, one after the other, by a tile: the cells of each.
template <class Cell, u32 SlabBytes> struct SlabChain {
    using Word = typename Cell::Word;
    static constexpr u32 kLanes = SlabBytes / sizeof(Word);

    // Null beyond the end.
    Word* slab;

    // The cell of this lane, empty beyond the end; then the next slab is the chain's first.
    WK_DEVICE Cell next(const SlabTableRef& table) {
        if (!slab) return Cell{Word{}};
        Tile<kLanes> tile;
        Word word = load(slab + tile.rank());
        slab = table.following<Cell>(word_of_lane<kLanes>(word, kLanes - 1));
        return Cell{tile.rank() < kLanes - 1 ? word : Word{}};
    }
};

// Fills an empty bucket, by a tile. All lanes of a warp call its function together.
template <class Cell, u32 SlabBytes> struct SlabFiller {
    using Word = typename Cell::Word;
    static constexpr u32 kLanes = SlabBytes / sizeof(Word), kCells = kLanes - 1;

    // The last slab of the chain; null if the tile has no bucket.
    Word* slab;
    u32 filled = 0;
    // No slab was left: nothing more is stored.
    bool failed = false;

    // Appends the cells of the lanes that have one, in the order of the lanes: one less than there are lanes, at most. True in the lanes whose cell
    // was stored.
    WK_DEVICE bool put(SlabAllocator& slabs, bool has, Cell cell) {
        Tile<kLanes> tile;
        u32 having = tile.ballot(has), at = filled + popc(having & ((1u << tile.rank()) - 1));
        filled += popc(having);
        bool grows = !failed && filled > kCells;
        u32 unit = slabs.allocate(grows && tile.rank() == 0);
        bool stored = has && !failed && at < kCells;
        if (stored) store(slab + at, cell.word);
        if (grows) {
            unit = tile.shfl(unit, 0);
            failed = unit == kNoUnit;
        }
        if (grows && !failed) {
            Word* next = slabs.pool.as<Word>(unit);
            if (!WK_FAULT_POINT("slab_chain.slab_cleared")) store(next + tile.rank(), Word{});
            // A lane may store its cell where another cleared.
            tile.sync();
            if (has && at >= kCells) {
                store(next + (at - kCells), cell.word);
                stored = true;
            }
            if (tile.rank() == 0) store(slab + kCells, Cell::link_to(unit));
            slab = next;
            filled -= kCells;
        }
        return stored;
    }
};

// Packs the cells of a bucket at the beginning of its chain, in their order, and gives the slabs behind them back. All lanes of a warp take part, a
// tile for each bucket; a tile that has none gives null. Needs no memory.
template <class Cell, u32 SlabBytes, bool Unique>
WK_DEVICE void flush_chain(SlabTable<Cell, SlabBytes, Unique>& table, typename Cell::Word* first) {
    using Word = typename Cell::Word;
    constexpr u32 kLanes = SlabBytes / sizeof(Word), kCells = kLanes - 1;
    Tile<kLanes> tile;
    Word *from = first, *to = first, rest{};
    u32 filled = 0;
    while (from) {
        Word word = load(from + tile.rank()), last = word_of_lane<kLanes>(word, kCells);
        Cell cell{tile.rank() < kCells ? word : Word{}};
        u32 live = tile.ballot(cell.is_live()), dead = tile.ballot(!cell.is_empty() && !cell.is_live());
        // What is written never lies behind what was read: the slab itself at most, which all lanes have read then.
        tile.sync();
        Word* after = table.table.template following<Cell>(load(to + kCells));
        u32 at = filled + popc(live & ((1u << tile.rank()) - 1));
        if (cell.is_live()) store(at < kCells ? to + at : after + (at - kCells), word);
        filled += popc(live);
        if (filled > kCells) {
            to = after;
            filled -= kCells;
        }
        if (tile.rank() == 0) table.dead -= popc(dead);
        from = table.table.template following<Cell>(last);
    }
    if (first) {
        rest = load(to + kCells);
        tile.sync();
        // A lane each for the places that are left, and for the link.
        if (tile.rank() >= filled) store(to + tile.rank(), Word{});
    }
    while (Warp().any(Cell::link_of(rest) != 0)) {
        Word* slab = table.table.template following<Cell>(rest);
        Word next = slab ? load(slab + kCells) : Word{};
        tile.sync();
        table.slabs.release((u32)(Cell::link_of(rest) - 1), slab && tile.rank() == 0);
        rest = next;
    }
}

}  // namespace wk
