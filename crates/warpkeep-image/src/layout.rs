//! Where things lie in an image. The one definition; `docs/format.md` explains it.

/// The unit of the header area.
pub(crate) const PAGE: u64 = 4096;
/// The format this program writes, and the newest it reads.
pub const FORMAT_VERSION: u32 = 1;

pub(crate) const STATIC_HEADER: u64 = 0;
pub(crate) const STATE_SLOTS: [u64; 2] = [PAGE, 2 * PAGE];
pub(crate) const ROOTS: u64 = 3 * PAGE;
pub(crate) const PENDING: u64 = 4 * PAGE;
/// The first part of the chunk directory, from here to the end of chunk 0.
pub(crate) const DIRECTORY: u64 = 5 * PAGE;

/// The smallest chunk: it must hold the header and a few descriptors.
pub const MIN_CHUNK: u64 = 32 << 10;
/// A huge page.
pub const DEFAULT_CHUNK: u64 = 2 << 20;
/// The largest chunk.
pub const MAX_CHUNK: u64 = 1 << 30;

/// Bits of an offset in a root word.
pub(crate) const OFFSET_BITS: u32 = 48;

/// Number of roots.
pub const ROOT_COUNT: usize = (PAGE / 8) as usize;
/// Number of batches that can be pending at once.
pub const PENDING_COUNT: usize = (PAGE / 64) as usize;
