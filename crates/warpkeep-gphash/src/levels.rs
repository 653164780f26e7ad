//! The levels of a table: which extents its buckets lie in, at this moment.
//!
//! On the medium the levels are one immutable block, and the table's header has one word that leads to it. To
//! change the levels is to write another block and swing the word, so a crash leaves the one or the other.

use std::sync::atomic::AtomicU64;

use warpkeep_core::reduce;
use warpkeep_image::{Heap, Image, ImageError, Marker, Persist};
use warpkeep_record::prefetch;

use crate::bucket::{Bucket, Shape};
use crate::geometry::Geometry;

const MAGIC: u64 = u64::from_le_bytes(*b"WKLEVEL1");
/// Magic, checksum, number of levels, how many of them are being drained and which; then the overflows, then the
/// levels.
const HEAD: u64 = 32;
/// The flag, beside the number of levels that are being drained, that these are the first levels.
const SHRINKING_BIT: u32 = 63;
/// Offset and buckets.
const ENTRY: u64 = 16;
/// A geometry has up to 8 levels, and some may be on their way out.
const MAX_LEVELS: u64 = 8 + MAX_DRAINED as u64;
/// Levels that can be on their way out at once.
pub(crate) const MAX_DRAINED: usize = 8;

/// A run of buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) offset: u64,
    pub(crate) buckets: u64,
    words: *const AtomicU64,
}

// SAFETY: the pointer is to words of an image that outlives every table in it, and is used for atomic loads only.
unsafe impl Send for Level {}
// SAFETY: as above.
unsafe impl Sync for Level {}

impl Level {
    pub(crate) fn new<P: Persist>(image: &Image<P>, shape: &Shape, offset: u64, buckets: u64) -> Level {
        let words = image.pointer(offset, buckets * shape.bytes()).cast();
        Level { offset, buckets, words }
    }

    /// No buckets at all.
    pub(crate) fn none() -> Level {
        Level { offset: 0, buckets: 0, words: std::ptr::null() }
    }

    /// A bucket, to be read.
    #[inline]
    pub(crate) fn bucket(&self, shape: &Shape, bucket: u64) -> Bucket<'_> {
        assert!(bucket < self.buckets, "bucket {bucket} of {}", self.buckets);
        // SAFETY: `new` checked that all buckets lie within the image, which is mapped while the table lives;
        // offsets are multiples of 8. Words are only ever accessed atomically.
        let words = unsafe {
            std::slice::from_raw_parts(self.words.add(bucket as usize * shape.words()), shape.words())
        };
        Bucket::new(words, self.offset + bucket * shape.bytes())
    }

    /// Which bucket and slot it is whose state lies at an offset; `None` if none of this run.
    pub(crate) fn slot_at(&self, shape: &Shape, at: u64) -> Option<(u64, usize)> {
        let within = at.checked_sub(self.offset).filter(|within| within.is_multiple_of(8))?;
        let (bucket, slot) = (within / shape.bytes(), (within % shape.bytes() / 8) as usize);
        (bucket < self.buckets && slot < shape.slots()).then_some((bucket, slot))
    }

    /// Prefetches the line of a bucket.
    #[inline]
    pub(crate) fn prefetch(&self, shape: &Shape, bucket: u64) {
        prefetch::line(self.words.wrapping_add(bucket as usize * shape.words()).cast());
    }

    /// All its buckets.
    pub(crate) fn iter<'a>(&'a self, shape: &'a Shape) -> impl Iterator<Item = Bucket<'a>> {
        (0..self.buckets).map(move |bucket| self.bucket(shape, bucket))
    }
}

/// All levels, the top first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Levels {
    pub(crate) levels: Vec<Level>,
    /// How many of the levels are being drained: nothing is put there any more. One for each growth that is
    /// not finished, which is one at most, unless keys are unlucky or hostile.
    pub(crate) drained: usize,
    /// They are the first, because the table shrinks; otherwise the last, because it grows.
    pub(crate) shrinking: bool,
    /// The overflow, for items that find no slot in the levels.
    pub(crate) overflow: Level,
    /// The overflows before those growths; drained, too.
    pub(crate) old_overflows: Vec<Level>,
    /// The offset of the block that stores all this.
    pub(crate) block: u64,
}

impl Levels {
    /// The largest level that items are put into.
    pub(crate) fn top(&self) -> &Level {
        &self.levels[if self.shrinking { self.drained } else { 0 }]
    }

    /// What the locations of a key are counted in: the buckets of the first level, drained or not.
    #[inline]
    pub(crate) fn base_buckets(&self) -> u64 {
        self.levels[0].buckets
    }

    /// The levels that items are put into, and how far each is below the first.
    #[inline]
    pub(crate) fn open(&self) -> impl Iterator<Item = (usize, &Level)> {
        let skip = if self.shrinking { self.drained } else { 0 };
        self.levels.iter().enumerate().skip(skip).take(self.levels.len() - self.drained)
    }

    /// The levels that are being drained, the lowest first, and how far each is below the first.
    pub(crate) fn drained(&self) -> impl Iterator<Item = (usize, &Level)> {
        let skip = if self.shrinking { self.levels.len() - self.drained } else { 0 };
        self.levels.iter().enumerate().rev().skip(skip).take(self.drained)
    }

    /// Everything that is being drained.
    pub(crate) fn outgoing(&self) -> impl Iterator<Item = &Level> {
        self.old_overflows.iter().chain(self.drained().map(|(_, level)| level))
    }

    /// Slots that items can be put into, without the overflow.
    pub(crate) fn capacity(&self, geometry: Geometry) -> u64 {
        self.open().map(|(_, level)| level.buckets * geometry.slots() as u64).sum()
    }

    /// The overflows, the new one first.
    pub(crate) fn overflows(&self) -> impl Iterator<Item = &Level> {
        std::iter::once(&self.overflow).chain(&self.old_overflows)
    }

    fn runs(&self) -> impl Iterator<Item = &Level> {
        self.overflows().chain(&self.levels)
    }

    /// Writes the block, flushed and fenced, and returns its offset.
    pub(crate) fn write<P: Persist>(&self, heap: &Heap<P>) -> Result<u64, ImageError> {
        let mut bytes = vec![0; (HEAD + ENTRY * self.runs().count() as u64) as usize];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[16..24].copy_from_slice(&(self.levels.len() as u64).to_le_bytes());
        let drained = self.drained as u64 | u64::from(self.shrinking) << SHRINKING_BIT;
        bytes[24..32].copy_from_slice(&drained.to_le_bytes());
        for (level, entry) in self.runs().zip(bytes[HEAD as usize..].chunks_mut(ENTRY as usize)) {
            entry[..8].copy_from_slice(&level.offset.to_le_bytes());
            entry[8..].copy_from_slice(&level.buckets.to_le_bytes());
        }
        let crc = u64::from(crc32c::crc32c(&bytes[16..]));
        bytes[8..16].copy_from_slice(&crc.to_le_bytes());
        let mut block = heap.allocate(bytes.len() as u64)?;
        block.write(0, &bytes)?;
        Ok(block.persist("gphash.levels", bytes.len() as u64))
    }

    /// Reads the block at an offset found in an image.
    pub(crate) fn read<P: Persist>(
        image: &Image<P>,
        geometry: Geometry,
        shape: &Shape,
        block: u64,
    ) -> Result<Levels, ImageError> {
        let damaged = |what: &str| ImageError::Damaged {
            path: image.path().to_path_buf(),
            what: format!("the levels at {block}: {what}"),
        };
        if block == 0
            || !block.is_multiple_of(8)
            || !image.contains(block, HEAD)
            || image.load(block) != MAGIC
        {
            return Err(damaged("they are not there"));
        }
        let count = image.load(block + 16);
        let drained = image.load(block + 24);
        let shrinking = drained >> SHRINKING_BIT & 1 == 1;
        let drained = (drained & !(1 << SHRINKING_BIT)).min(MAX_DRAINED as u64);
        let runs_before = 1 + drained;
        let len = HEAD + ENTRY * (runs_before + count.min(MAX_LEVELS));
        if count == 0 || count > MAX_LEVELS || !image.contains(block, len) {
            return Err(damaged("their number makes no sense"));
        }
        let mut bytes = vec![0; len as usize];
        image.read(block, &mut bytes);
        if u64::from(crc32c::crc32c(&bytes[16..])) != image.load(block + 8) {
            return Err(damaged("wrong checksum"));
        }
        let mut runs = Vec::new();
        for entry in 0..runs_before + count {
            let at = block + HEAD + ENTRY * entry;
            let (offset, buckets) = (image.load(at), image.load(at + 8));
            let fits = buckets.checked_mul(shape.bytes()).is_some_and(|len| image.contains(offset, len));
            if !fits || buckets == 0 || !offset.is_multiple_of(64) {
                return Err(damaged("a level lies outside the image"));
            }
            runs.push(Level::new(image, shape, offset, buckets));
        }
        let overflow = runs.remove(0);
        let drained = drained as usize;
        let old_overflows: Vec<Level> = runs.drain(..drained.min(runs.len())).collect();
        let halved = runs.windows(2).all(|pair| pair[0].buckets == 2 * pair[1].buckets);
        if !halved || runs.len() != geometry.levels() + drained {
            return Err(damaged("their sizes do not go together"));
        }
        Ok(Levels { levels: runs, drained, shrinking, overflow, old_overflows, block })
    }

    /// Marks the block and the extents.
    pub(crate) fn mark<P: Persist>(&self, shape: &Shape, marker: &Marker<'_, P>) -> Result<(), ImageError> {
        marker.block(self.block, HEAD + ENTRY * self.runs().count() as u64)?;
        for level in self.runs() {
            marker.extent(level.offset, level.buckets * shape.bytes())?;
        }
        Ok(())
    }
}

/// How many buckets of an overflow a key may be in.
const OVERFLOW_REACH: u64 = 4;

/// Where a key may be in an overflow: a few buckets in a row.
#[inline]
pub(crate) fn overflow_buckets(overflow: &Level, hash: u64) -> impl Iterator<Item = u64> + use<> {
    let buckets = overflow.buckets;
    let first = reduce(hash.rotate_left(32), buckets);
    (0..OVERFLOW_REACH.min(buckets)).map(move |step| (first + step) % buckets)
}
