//! Tiles: groups of neighbouring blocks, with all values first and all tails behind them.

use super::MAX_BLOCK;

/// The alignment of values in tiles.
const LINE: u64 = 128;
/// For longer values, one line more or less does not matter to a reader.
const MAX_VALUE: u64 = 4096;

/// The layout of blocks whose first bytes, the *value*, are whole lines of 128 bytes, and whose rest, the *tail*,
/// is not. A tile has as many blocks as it takes for the tails to fill whole lines.
///
/// ```text
/// | value 0 | value 1 | value 2 | value 3 | tail 0 | tail 1 | tail 2 | tail 3 |
/// ```
///
/// So every value begins at a multiple of 128 bytes, and a read over a link that transfers whole lines fetches no
/// needless line. The *name* of such a block, which the heap uses as its offset, is the offset of its value plus
/// eight times its number in the tile: both parts are found from it without a division.
///
/// ```
/// use warpkeep_image::Tile;
/// let tile = Tile::of(128, 32).expect("a value of one line, and a tail of a quarter");
/// assert_eq!((tile.blocks(), tile.bytes()), (4, 640));
/// assert_eq!([16, 24].map(|tail| Tile::of(128, tail).map(|tile| tile.blocks())), [Some(8), Some(16)]);
/// let third = tile.name(4096, 2);
/// assert_eq!((tile.value_at(third), tile.tail_at(third)), (4096 + 2 * 128, 4096 + 4 * 128 + 2 * 32));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    value: u32,
    tail: u32,
    /// Two to this many blocks.
    bits: u32,
}

impl Tile {
    /// The tile of blocks with such a value and such a tail; `None` if they are better laid out one after the
    /// other.
    pub fn of(value: u64, tail: u64) -> Option<Tile> {
        // With a shorter tail the block's length alone determines both parts. With other lengths some values would
        // straddle two lines.
        let suits = value.is_multiple_of(LINE) && (LINE..=MAX_VALUE).contains(&value);
        // The extra eight bytes are those of a checksum that does not fit into the rest.
        let rest = tail & !8;
        let fits = rest == 16 || rest.is_multiple_of(32) && (32..LINE).contains(&rest);
        if !suits || !fits {
            return None;
        }
        let bits = LINE.trailing_zeros() - tail.trailing_zeros();
        Some(Tile { value: value as u32, tail: tail as u32, bits })
    }

    /// The tile of blocks of `block` bytes, found in an image.
    pub(crate) fn of_block(block: u64) -> Option<Tile> {
        if block > MAX_BLOCK { None } else { Tile::of(block / LINE * LINE, block % LINE) }
    }

    /// Bytes of a block, value and tail.
    pub fn block(self) -> u64 {
        self.value() + self.tail()
    }

    /// Bytes of a value.
    pub fn value(self) -> u64 {
        u64::from(self.value)
    }

    /// Bytes of a tail.
    pub fn tail(self) -> u64 {
        u64::from(self.tail)
    }

    /// Blocks in a tile: 2, 4, 8 or 16.
    pub fn blocks(self) -> u64 {
        1 << self.bits
    }

    /// Bytes of a tile.
    pub fn bytes(self) -> u64 {
        self.blocks() * self.block()
    }

    /// The name of block `number` of tiles that begin at `start`, a multiple of 128.
    #[inline]
    pub fn name(self, start: u64, number: u64) -> u64 {
        let (tile, within) = (number >> self.bits, number & (self.blocks() - 1));
        start + tile * self.bytes() + within * (self.value() + 8)
    }

    /// The number of the block of a name among tiles that begin at `start`; `None` if no block has it.
    pub(crate) fn number(self, start: u64, name: u64) -> Option<u64> {
        let number = (name - start) / self.bytes() * self.blocks() + name % LINE / 8;
        (self.name(start, number) == name).then_some(number)
    }

    /// Where the value of a block lies.
    #[inline(always)]
    pub fn value_at(self, name: u64) -> u64 {
        name & !(LINE - 1)
    }

    /// Where the tail of a block lies.
    #[inline(always)]
    pub fn tail_at(self, name: u64) -> u64 {
        let within = name % LINE / 8;
        // A tail is shorter than a value, so this is behind the value. An invalid name gives an arbitrary address,
        // which is harmless for prefetching.
        let behind = (self.blocks() * self.value()).wrapping_sub(within * (self.value() - self.tail()));
        self.value_at(name).wrapping_add(behind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = Tile> {
        let lengths = (0..=40).flat_map(|value| (0..=40).map(move |tail| (value * 64, tail * 8)));
        lengths.filter_map(|(value, tail)| Tile::of(value, tail))
    }

    #[test]
    fn parts_fill_a_tile_and_do_not_overlap() {
        let start = 3 * 32768;
        let mut tiles = 0;
        for tile in all() {
            tiles += 1;
            assert!(tile.bytes().is_multiple_of(128), "{tile:?}");
            let mut taken = vec![false; 3 * tile.bytes() as usize];
            for number in 0..3 * tile.blocks() {
                let name = tile.name(start, number);
                assert_eq!(tile.number(start, name), Some(number), "{tile:?}");
                assert!(tile.value_at(name).is_multiple_of(128));
                for (at, len) in [(tile.value_at(name), tile.value()), (tile.tail_at(name), tile.tail())] {
                    let part = &mut taken[(at - start) as usize..][..len as usize];
                    assert!(!part.contains(&true), "{tile:?}, {number}");
                    part.fill(true);
                }
            }
            assert!(!taken.contains(&false), "{tile:?}");
            assert_eq!(Tile::of_block(tile.block()), Some(tile));
        }
        assert_eq!(tiles, 20 * 8);
    }

    #[test]
    fn nothing_else_is_a_name() {
        for tile in all().filter(|tile| tile.value() <= 384) {
            let names: Vec<u64> = (0..2 * tile.blocks()).map(|number| tile.name(4096, number)).collect();
            for offset in 4096..4096 + 2 * tile.bytes() {
                let position = names.iter().position(|&name| name == offset);
                assert_eq!(tile.number(4096, offset), position.map(|at| at as u64), "{tile:?}, {offset}");
            }
        }
    }

    #[test]
    fn what_gains_nothing_is_laid_as_before() {
        for (value, tail) in [
            (0, 32),
            (64, 32),
            (192, 32),
            (128, 128),
            (128, 136),
            (128, 160),
            (128, 48),
            (128, 8),
            (128, 0),
            (8192, 32),
        ] {
            assert_eq!(Tile::of(value, tail), None, "{value}, {tail}");
        }
        assert_eq!(Tile::of_block(u64::MAX), None);
        assert_eq!(Tile::of_block(128), None);
    }
}
