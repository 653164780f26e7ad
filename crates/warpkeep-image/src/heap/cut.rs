//! How a slab is cut into blocks: one after the other, or in tiles.

use std::ops::Range;

use super::tile::Tile;

/// The blocks of a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    block: u32,
    tile: Option<Tile>,
}

impl Cut {
    /// Blocks of `block` bytes, one after the other.
    pub(crate) fn plain(block: u32) -> Cut {
        Cut { block, tile: None }
    }

    /// Blocks in tiles.
    pub(crate) fn tiled(tile: Tile) -> Cut {
        Cut { block: tile.block() as u32, tile: Some(tile) }
    }

    /// Bytes of a block.
    pub(crate) fn block(self) -> u64 {
        u64::from(self.block)
    }

    /// The tile that the blocks lie in, if they do.
    pub(crate) fn tile(self) -> Option<Tile> {
        self.tile
    }

    /// The distance between blocks.
    pub(crate) fn step(self) -> u64 {
        self.tile.map_or(self.block(), Tile::bytes)
    }

    /// The number of blocks in a slab of `bytes` bytes; only whole tiles count.
    pub(crate) fn blocks_in(self, bytes: u64) -> u64 {
        bytes / self.step() * self.tile.map_or(1, Tile::blocks)
    }

    /// The name of a block of the slab that begins at `start`: its offset, or its name in a tile.
    #[inline]
    pub(crate) fn name(self, start: u64, number: u64) -> u64 {
        match self.tile {
            None => start + number * self.block(),
            Some(tile) => tile.name(start, number),
        }
    }

    /// The number of the block with this name; `None` if there is none, as far as can be determined without the
    /// length of the slab.
    pub(crate) fn number(self, start: u64, name: u64) -> Option<u64> {
        match self.tile {
            None => (name - start).is_multiple_of(self.block()).then(|| (name - start) / self.block()),
            Some(tile) => tile.number(start, name),
        }
    }

    /// Where `len` bytes of a block lie, `at` bytes from its start: the part in the value, and the part in the
    /// tail; either may be empty. A block outside tiles has no tail.
    #[inline(always)]
    pub(crate) fn parts(self, name: u64, at: u64, len: u64) -> [(u64, Range<u64>); 2] {
        let Some(tile) = self.tile else { return [(name + at, 0..len), (name, len..len)] };
        let before = tile.value().saturating_sub(at).min(len);
        let in_tail = (at + before).saturating_sub(tile.value());
        [(tile.value_at(name) + at, 0..before), (tile.tail_at(name) + in_tail, before..len)]
    }
}
