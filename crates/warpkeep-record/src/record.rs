//! Records: a key beside its value, in one block of the heap.
//!
//! Two forms. Where key and value are of fixed length, the value comes first, at a multiple of 32 bytes if it is
//! that long, so that a reader that already knows the key moves only the value:
//!
//! | value, zeros to 8 | key, zeros to 8 | version u64 | checksum u64 |
//!
//! Short keys of any length lie in [cells](KeyCells) of one size, which records then hold as keys. Where slots
//! identify keys, a record has an empty key. Records whose values are whole lines of 128 bytes lie in
//! [tiles](Tile), so that values begin at a line: the value in one place, and the rest in another.
//!
//! Otherwise: | version u64 | key length u32 | value length u32 | key, zeros to 8 | value, up to 8 | checksum u64 |
//!
//! Tables made before there were [checksums](crate::checksum) have none, and nothing in place of them. Where slots
//! identify keys, the checksum covers the key nevertheless: so a record belongs to one slot.

use crate::checksum::{Digest, checksum, checksum_of_words};
use crate::damage::Damage;
use crate::item::{ItemRef, ValueRef};
use warpkeep_core::{KeyCells, ValueSpec};
use warpkeep_image::{Block, Heap, Image, ImageError, Marker, Persist, PoolId, Tile};

const HEAD: u64 = 16;

/// How the records of a table are laid out.
#[derive(Clone, Copy, Debug)]
pub enum RecordForm {
    /// All as long as each other.
    Fixed {
        /// Bytes of a key, or of its cell.
        key: usize,
        /// The cells that keys are kept in, if they are.
        cells: Option<KeyCells>,
        /// Bytes of a value.
        value: usize,
        /// Bytes of a block.
        block: u64,
        /// The tile that records lie in, if they do.
        tile: Option<Tile>,
        /// Whether they have checksums.
        checksum: bool,
    },
    /// Each with its own lengths.
    Variable {
        /// Whether they have checksums.
        checksum: bool,
    },
}

/// The form of keys in records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKey {
    /// Keys of this many bytes each; 0 where slots identify keys.
    Fixed(usize),
    /// Cells of keys of any length.
    Cell(KeyCells),
    /// Keys of any length, as they are.
    Variable,
}

impl From<Option<usize>> for RecordKey {
    fn from(len: Option<usize>) -> RecordKey {
        len.map_or(RecordKey::Variable, RecordKey::Fixed)
    }
}

/// Whether, and how, the records of a table lie in tiles: chosen when it is made, for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tiling {
    /// Each record in one piece.
    None,
    /// In tiles, with tails of 32 bytes, or a multiple, where key and version need more than 16; and 8 more where they leave no room for a checksum.
    Roomy,
    /// In tiles, with tails of 16 bytes, where key and version need no more; and 8 more where they leave no room for a checksum.
    Close,
}

/// The bit of a header byte that marks records with checksums, beside a merge rule: a program that does not know it
/// refuses the rule.
pub const CHECKSUMS: u8 = 0x10;

impl Tiling {
    /// The bits of this in a header byte, beside a merge rule: a program that does not know them refuses the rule.
    pub const BITS: u8 = 0xc0;

    /// The tiling of a new table, given the bytes that a key takes in a record and whether records have checksums: the arguments of [`RecordForm::whole`].
    pub fn of(key: impl Into<RecordKey>, value: ValueSpec, checksum: bool) -> Tiling {
        let key = key.into();
        let suits = |tiling: &Tiling| RecordForm::of(key, value, *tiling, checksum).is_some();
        [Tiling::Close, Tiling::Roomy].into_iter().find(suits).unwrap_or(Tiling::None)
    }

    /// As headers have it.
    pub fn code(self) -> u8 {
        match self {
            Tiling::None => 0,
            Tiling::Roomy => 0x80,
            Tiling::Close => 0xc0,
        }
    }

    /// Decodes a header byte; `None` if it is unknown.
    pub fn from_code(byte: u8) -> Option<Tiling> {
        [Tiling::None, Tiling::Roomy, Tiling::Close]
            .into_iter()
            .find(|tiling| tiling.code() == byte & Tiling::BITS)
    }
}

/// The lines of a record that are worth fetching ahead.
#[derive(Clone, Copy, Debug)]
pub struct RecordLines {
    /// Lines from its start on.
    together: usize,
    /// Bytes from its start to its key, unless that is in a tile.
    key_at: usize,
    /// The tile, whose tail is one more line, elsewhere.
    tile: Option<Tile>,
    /// Bytes from a tail's start to the last one that a get reads: a tail with a checksum may lie across two lines.
    tail_end: usize,
}

impl RecordLines {
    /// Prefetches the lines of the record at an offset, which lies in the image. It need not be a record: a
    /// prefetch may guess wrong.
    #[inline(always)]
    pub fn fetch<P: Persist>(self, image: &Image<P>, offset: u64, line: impl Fn(*const u8)) {
        let Some(tile) = self.tile else {
            let record = image.pointer(offset, 8);
            return (0..self.together).for_each(|number| line(record.wrapping_add(64 * number)));
        };
        let value = image.pointer(tile.value_at(offset), 8);
        // The key first: it is compared before anything else.
        let tail = value.wrapping_add(tile.tail_at(offset).wrapping_sub(tile.value_at(offset)) as usize);
        line(tail);
        let end = tail.wrapping_add(self.tail_end);
        if (tail as usize ^ end as usize) >= 64 {
            line(end);
        }
        (0..self.together).for_each(|number| line(value.wrapping_add(64 * number)));
    }

    /// The same for the line of its key alone: nothing else is read of a record that will be replaced.
    #[inline(always)]
    pub fn fetch_key<P: Persist>(self, image: &Image<P>, offset: u64, line: impl Fn(*const u8)) {
        let (from, key) = match self.tile {
            Some(tile) => (tile.value_at(offset), tile.tail_at(offset)),
            None => (offset, offset.wrapping_add(self.key_at as u64)),
        };
        line(image.pointer(from, 8).wrapping_add(key.wrapping_sub(from) as usize));
    }
}

/// A record in the image, its lengths known.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef {
    version: u64,
    key_at: u64,
    key_len: usize,
    cells: Option<KeyCells>,
    value_at: u64,
    value_len: usize,
}

fn padded(len: usize) -> u64 {
    len.next_multiple_of(8) as u64
}

/// Bytes of a checksum.
fn checksum_len(checksum: bool) -> u64 {
    if checksum { 8 } else { 0 }
}

/// The words of a value in the image, with zeros behind its last byte, whatever the image holds there.
fn stored_words<P: Persist>(image: &Image<P>, at: u64, len: usize) -> impl Iterator<Item = u64> {
    let whole = len as u64 / 8 * 8;
    let rest = 8 * (len as u32 % 8);
    let last = (rest > 0).then(|| image.load(at + whole) & !(u64::MAX << rest));
    (at..at + whole).step_by(8).map(|at| image.load(at)).chain(last)
}

fn too_long(key: &[u8], cells: KeyCells) -> ImageError {
    let (len, max) = (key.len(), cells.max_len());
    ImageError::Invalid(format!("a key of {len} bytes in a table of keys to {max} bytes; shorten it"))
}

/// Zeros behind a key, to the end of its last word: code that compares and hashes words relies on them. The block
/// may have held anything.
fn write_padding<P: Persist>(block: &mut Block<'_, P>, at: u64, len: usize) -> Result<(), ImageError> {
    let padding = padded(len) as usize - len;
    if padding > 0 {
        block.write(at + len as u64, &[0; 8][..padding])?;
    }
    Ok(())
}

impl RecordForm {
    /// The form of a new table's records with such keys: `None` if key lengths differ.
    ///
    /// ```
    /// use warpkeep_core::ValueSpec;
    /// use warpkeep_record::RecordForm;
    /// let form = RecordForm::new(Some(8), ValueSpec::fixed(128)?);
    /// assert_eq!((form.block_len(), form.tile().map(|tile| tile.blocks())), (152, Some(16)));
    /// assert_eq!(RecordForm::new(Some(8), ValueSpec::fixed(100)?).tile(), None);
    /// # Ok::<(), warpkeep_core::CoreError>(())
    /// ```
    pub fn new(key: impl Into<RecordKey>, value: ValueSpec) -> RecordForm {
        let key = key.into();
        let form = RecordForm::of(key, value, Tiling::of(key, value, true), true);
        form.unwrap_or_else(|| RecordForm::whole(key, value, true))
    }

    /// The form in an existing table, with checksums or from before there were any; `None` if it is impossible with
    /// such keys and values.
    pub fn of(
        key: impl Into<RecordKey>,
        value: ValueSpec,
        tiling: Tiling,
        checksum: bool,
    ) -> Option<RecordForm> {
        let whole = RecordForm::whole(key, value, checksum);
        match (tiling, whole) {
            (Tiling::None, _) => Some(whole),
            (_, RecordForm::Variable { .. }) => None,
            (_, RecordForm::Fixed { key, cells, value, .. }) => {
                let tail = padded(key) + 8;
                let close = tiling == Tiling::Close;
                let room = if close { 16 } else { tail.next_multiple_of(32) };
                if tail > room {
                    return None;
                }
                // A longer tail only if there is no room: it may straddle two lines.
                let full = checksum && tail == room;
                let tile = Tile::of(value as u64, if full { room + 8 } else { room })?;
                Some(RecordForm::Fixed { key, cells, value, block: tile.block(), tile: Some(tile), checksum })
            }
        }
    }

    /// The same, with every record in one piece: as tables were made when there were no tiles.
    pub fn whole(key: impl Into<RecordKey>, value: ValueSpec, checksum: bool) -> RecordForm {
        let (key, cells) = match key.into() {
            RecordKey::Fixed(key) => (key, None),
            RecordKey::Cell(cells) => (cells.row_len(), Some(cells)),
            RecordKey::Variable => return RecordForm::Variable { checksum },
        };
        let Some(value) = value.fixed_len() else { return RecordForm::Variable { checksum } };
        let rest = padded(value) + padded(key) + 8;
        let bytes = rest + checksum_len(checksum);
        let block = match value {
            // Where the rest is whole pieces of 32 bytes already, a checksum is not to cost another.
            32.. if checksum && rest.is_multiple_of(32) => bytes.next_multiple_of(16),
            32.. => bytes.next_multiple_of(32),
            _ => bytes,
        };
        RecordForm::Fixed { key, cells, value, block, tile: None, checksum }
    }

    /// Whether records have checksums.
    #[inline(always)]
    pub fn has_checksums(self) -> bool {
        match self {
            RecordForm::Fixed { checksum, .. } | RecordForm::Variable { checksum } => checksum,
        }
    }

    /// The cells that keys are kept in, if they are.
    #[inline(always)]
    pub fn cells(self) -> Option<KeyCells> {
        match self {
            RecordForm::Fixed { cells, .. } => cells,
            RecordForm::Variable { .. } => None,
        }
    }

    /// The pool that records come from, if all have the same size.
    pub fn pool<P: Persist>(self, heap: &Heap<P>) -> Result<Option<PoolId>, ImageError> {
        match self {
            RecordForm::Fixed { tile: Some(tile), .. } => heap.tiled_pool(tile).map(Some),
            RecordForm::Fixed { block, .. } => heap.pool(block).map(Some),
            RecordForm::Variable { .. } => Ok(None),
        }
    }

    /// The tile that records lie in, if they do.
    pub fn tile(self) -> Option<Tile> {
        match self {
            RecordForm::Fixed { tile, .. } => tile,
            RecordForm::Variable { .. } => None,
        }
    }

    /// Where the value of the record at an offset lies, if all have the same length.
    pub fn value_at(self, offset: u64) -> u64 {
        self.tile().map_or(offset, |tile| tile.value_at(offset))
    }

    /// The distance between the values of two neighbours, or a divisor of it, if all records have the same length;
    /// otherwise 0. Slabs begin at a multiple of their common alignment.
    pub fn value_step(self) -> u64 {
        self.tile().map_or(self.block_len(), Tile::value)
    }

    /// Bytes of a block, if all have the same; otherwise 0.
    pub fn block_len(self) -> u64 {
        match self {
            RecordForm::Fixed { block, .. } => block,
            RecordForm::Variable { .. } => 0,
        }
    }

    /// Lines of memory that are worth fetching ahead.
    pub fn lines(self) -> RecordLines {
        /// More are fetched by the machine itself once it sees the pattern.
        const MOST: usize = 4;
        let together = match self {
            RecordForm::Fixed { value, tile: Some(_), .. } => value / 64,
            // It may begin in the middle of a line.
            RecordForm::Fixed { block, .. } => (block as usize + 32).div_ceil(64),
            // Head, a short key and a value of a hundred bytes.
            RecordForm::Variable { .. } => 3,
        };
        let key_at = match self {
            RecordForm::Fixed { value, .. } => padded(value) as usize,
            RecordForm::Variable { .. } => 0,
        };
        let tail_end = match self {
            // The key and the version.
            RecordForm::Fixed { key, .. } => padded(key) as usize + 7,
            RecordForm::Variable { .. } => 0,
        };
        RecordLines { together: together.min(MOST), key_at, tile: self.tile(), tail_end }
    }

    /// The bytes that a record takes.
    pub fn len(self, key: usize, value: usize) -> u64 {
        match self {
            RecordForm::Fixed { key, value, checksum, .. } => {
                padded(value) + padded(key) + 8 + checksum_len(checksum)
            }
            RecordForm::Variable { checksum: false } => HEAD + padded(key) + value as u64,
            RecordForm::Variable { checksum: true } => HEAD + padded(key) + padded(value) + 8,
        }
    }

    /// Fills a block, allocated unless one is given. Its [`RecordForm::len`] bytes are not flushed yet. The key is
    /// given even if records hold none, because their checksums cover it.
    pub fn write<'a, P: Persist>(
        self,
        heap: &'a Heap<P>,
        pool: Option<PoolId>,
        at_hand: Option<Block<'a, P>>,
        version: u64,
        key: &[u8],
        value: &[u8],
    ) -> Result<Block<'a, P>, ImageError> {
        let len = self.len(key.len(), value.len());
        let mut block = match (at_hand, pool) {
            (Some(block), _) => block,
            (None, Some(pool)) => heap.allocate_from(pool)?,
            (None, None) => heap.allocate(len)?,
        };
        match self {
            RecordForm::Fixed { key: key_len, cells, value: value_len, checksum: has_checksum, .. } => {
                block.write(0, value)?;
                let cell =
                    cells.map(|cells| cells.cell(key).ok_or_else(|| too_long(key, cells))).transpose()?;
                let key = cell.as_ref().map_or(key, |cell| cell.as_bytes());
                if key_len > 0 {
                    block.write(padded(value_len), key)?;
                    write_padding(&mut block, padded(value_len), key_len)?;
                }
                let version_at = padded(value_len) + padded(key_len);
                block.write(version_at, &version.to_le_bytes())?;
                if has_checksum {
                    let sum = checksum(Digest::of(value), key, value.len(), version);
                    block.write(version_at + 8, &sum.to_le_bytes())?;
                }
            }
            RecordForm::Variable { .. } => {
                let mut head = [0; HEAD as usize];
                head[..8].copy_from_slice(&version.to_le_bytes());
                head[8..12].copy_from_slice(&(key.len() as u32).to_le_bytes());
                head[12..].copy_from_slice(&(value.len() as u32).to_le_bytes());
                block.write(0, &head)?;
                block.write(HEAD, key)?;
                write_padding(&mut block, HEAD, key.len())?;
                block.write(HEAD + padded(key.len()), value)?;
                if self.has_checksums() {
                    let sum = checksum(Digest::of(value), key, value.len(), version);
                    block.write(len - 8, &sum.to_le_bytes())?;
                }
            }
        }
        Ok(block)
    }

    /// The record at an offset that is known to be good.
    #[inline(always)]
    pub fn at<P: Persist>(self, image: &Image<P>, offset: u64) -> RecordRef {
        match self {
            RecordForm::Fixed { key, cells, value, tile, .. } => {
                let (value_at, key_at) = match tile {
                    None => (offset, offset + padded(value)),
                    Some(tile) => (tile.value_at(offset), tile.tail_at(offset)),
                };
                let version = image.load(key_at + padded(key));
                RecordRef { version, key_at, key_len: key, cells, value_at, value_len: value }
            }
            RecordForm::Variable { .. } => {
                let lengths = image.load(offset + 8);
                let (key_len, value_len) = ((lengths & 0xffff_ffff) as usize, (lengths >> 32) as usize);
                let key_at = offset + HEAD;
                let version = image.load(offset);
                let value_at = key_at + padded(key_len);
                RecordRef { version, key_at, key_len, cells: None, value_at, value_len }
            }
        }
    }

    /// Whether records have keys: where slots identify keys, they have none.
    pub fn has_keys(self) -> bool {
        !matches!(self, RecordForm::Fixed { key: 0, .. })
    }

    /// The record in a block of `block` bytes that may hold anything: free, half written, or another table's.
    /// `None` if it cannot be a record; otherwise its key, once read, is only a guess, to be looked up before it is
    /// trusted.
    pub fn guess<P: Persist>(self, image: &Image<P>, offset: u64, block: u64) -> Option<RecordRef> {
        match self {
            RecordForm::Fixed { block: own, .. } => (own == block).then(|| self.at(image, offset)),
            RecordForm::Variable { .. } if block < HEAD => None,
            RecordForm::Variable { .. } => {
                let record = self.at(image, offset);
                (self.len(record.key_len, record.value_len) <= block).then_some(record)
            }
        }
    }

    /// The value of the record at an offset that is known to be valid, without its version. `None` if lengths
    /// differ.
    #[inline(always)]
    pub fn value_ref(self, offset: u64) -> Option<ValueRef> {
        match self {
            RecordForm::Fixed { value, .. } => {
                Some(ValueRef::Record { at: self.value_at(offset), len: value })
            }
            RecordForm::Variable { .. } => None,
        }
    }

    /// Whether the record at an offset is the written one, as far as its bytes show: for any offset and any
    /// contents. `key` is that of its slot, where slots identify keys; otherwise the record's own counts.
    ///
    /// Of a record without a checksum only the lengths are checked.
    pub fn check<P: Persist>(self, image: &Image<P>, offset: u64, key: &[u8]) -> Result<(), Damage> {
        let record = self.find(image, offset)?;
        if let Some(cells) = record.cells {
            let mut cell = Vec::new();
            record.append_stored(image, &mut cell);
            if cells.key_in(&cell).is_none() {
                return Err(Damage::NoKey);
            }
        }
        if !self.has_checksums() {
            return Ok(());
        }
        let sum_at = match self {
            RecordForm::Fixed { key, .. } => record.key_at + padded(key) + 8,
            RecordForm::Variable { .. } => record.value_at + padded(record.value_len),
        };
        let digest = Digest::of_words(stored_words(image, record.value_at, record.value_len));
        let computed = match self {
            RecordForm::Fixed { key: 0, .. } => checksum(digest, key, record.value_len, record.version),
            // Whole words: kernels compare the bytes behind a key, too.
            _ => {
                let words = (record.key_at..record.key_at + padded(record.key_len)).step_by(8);
                let words = words.map(|at| image.load(at));
                checksum_of_words(digest, words, record.key_len, record.value_len, record.version)
            }
        };
        let stored = image.load(sum_at);
        if stored == computed { Ok(()) } else { Err(Damage::Checksum { stored, computed }) }
    }

    /// The record at an offset that may be any, if all its bytes lie in the image.
    pub fn find<P: Persist>(self, image: &Image<P>, offset: u64) -> Result<RecordRef, Damage> {
        let within = |at: u64, len: u64| image.contains(at, len);
        if offset == 0 || !offset.is_multiple_of(8) || !within(offset, HEAD) {
            return Err(Damage::NoRecord);
        }
        match self {
            RecordForm::Fixed { tile: None, .. } if !within(offset, self.len(0, 0)) => Err(Damage::NoRecord),
            RecordForm::Fixed { tile: Some(tile), .. } => {
                let is_name = offset % 128 / 8 < tile.blocks();
                let (value_at, tail_at) = (tile.value_at(offset), tile.tail_at(offset));
                match is_name && within(value_at, tile.value()) && within(tail_at, tile.tail()) {
                    true => Ok(self.at(image, offset)),
                    false => Err(Damage::NoRecord),
                }
            }
            RecordForm::Fixed { .. } => Ok(self.at(image, offset)),
            RecordForm::Variable { .. } => {
                let record = self.at(image, offset);
                let (key, value) = (record.key_len, record.value_len);
                match within(offset, self.len(key, value)) {
                    true => Ok(record),
                    false => Err(Damage::Lengths { key: key as u64, value: value as u64 }),
                }
            }
        }
    }

    /// The record at an offset found in an image, checked against the heap before it is trusted. `Ok(false)` if
    /// it has been marked before.
    pub fn mark<P: Persist>(
        self,
        image: &Image<P>,
        marker: &Marker<'_, P>,
        offset: u64,
    ) -> Result<bool, ImageError> {
        let damaged = |what: &str| ImageError::Damaged {
            path: image.path().to_path_buf(),
            what: format!("the record at {offset}: {what}"),
        };
        if let RecordForm::Fixed { tile, .. } = self {
            // It does not hold its length, so it need not be read.
            return match tile {
                None => marker.block(offset, self.len(0, 0)),
                Some(tile) => marker.tiled_block(offset, tile),
            };
        }
        let room = marker.block_size(offset).ok_or_else(|| damaged("no block begins there"))?;
        let record = self.at(image, offset);
        let len = self.len(record.key_len, record.value_len);
        if len > room {
            return Err(damaged("its lengths exceed its block"));
        }
        marker.block(offset, len)
    }
}

impl RecordRef {
    /// Whether it is the record of this key.
    #[inline(always)]
    pub fn has_key<P: Persist>(&self, image: &Image<P>, key: &[u8]) -> bool {
        match self.cells {
            None => self.has_stored(image, key),
            Some(cells) => cells.cell(key).is_some_and(|cell| self.has_stored(image, cell.as_bytes())),
        }
    }

    /// Whether it has these bytes for a key.
    #[inline(always)]
    fn has_stored<P: Persist>(&self, image: &Image<P>, key: &[u8]) -> bool {
        if self.key_len != key.len() {
            return false;
        }
        let mut at = self.key_at;
        let mut words = key.chunks_exact(8);
        for word in &mut words {
            if image.load(at) != u64::from_le_bytes(word.try_into().expect("eight bytes")) {
                return false;
            }
            at += 8;
        }
        let rest = words.remainder();
        if rest.is_empty() {
            return true;
        }
        // The image ends on a word, and so does the padded key.
        image.load(at).to_le_bytes()[..rest.len()] == *rest
    }

    /// Appends its key to a buffer; of a damaged cell the readable part.
    pub fn append_key<P: Persist>(&self, image: &Image<P>, to: &mut Vec<u8>) {
        let start = to.len();
        self.append_stored(image, to);
        if let Some(cells) = self.cells {
            let len = cells.remains_in(&to[start..]).len();
            to.truncate(start + len);
        }
    }

    /// Appends its stored key to a buffer: the key, or its cell.
    pub fn append_stored<P: Persist>(&self, image: &Image<P>, to: &mut Vec<u8>) {
        let start = to.len();
        to.resize(start + self.key_len, 0);
        image.read(self.key_at, &mut to[start..]);
    }

    /// Bytes of its key, or of its cell, and of its value.
    pub fn lengths(&self) -> (usize, usize) {
        (self.key_len, self.value_len)
    }

    /// Its version and value.
    #[inline]
    pub fn item(&self) -> ItemRef {
        let value = ValueRef::Record { at: self.value_at, len: self.value_len };
        ItemRef { version: self.version, value }
    }
}
