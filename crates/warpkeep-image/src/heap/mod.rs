//! The heap in the image: blocks of fixed sizes and whole runs of chunks.
//!
//! The heap knows no keys and keeps no persistent lists: it stores only the descriptors of how a chunk is divided.
//! Which blocks are in use follows from the roots, see [`Marker`].

mod block;
mod blocks;
mod chunk_map;
mod classes;
mod clearing;
mod cut;
mod descriptor;
mod directory;
mod growth;
mod marker;
mod no_growth;
mod pool;
mod postponed;
mod reclaim;
mod sampling;
mod slab;
mod tile;
mod usage;
mod vacating;
mod whole_slab;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

pub use block::Block;
pub use blocks::Blocks;
pub use classes::{MAX_BLOCK, MIN_BLOCK, size_class};
pub use clearing::{Clear, Clearing};
pub use marker::Marker;
pub use tile::Tile;
pub use usage::{ClassUsage, HeapUsage};
pub use vacating::{Purpose, Vacate};

use crate::{Image, ImageError, Persist};
use chunk_map::ChunkMap;
use classes::{CLASS_COUNT, class_index, slab_span};
use cut::Cut;
use descriptor::{Descriptor, MAX_EXTENT_CHUNKS};
use growth::Growth;
use no_growth::NoGrowth;
use pool::{Locator, Pool};
use postponed::Postponed;
pub use reclaim::Epochs;
use reclaim::ReclaimDomain;
use slab::Slab;
use vacating::Vacating;

/// How many different block sizes a heap can have.
const MAX_POOLS: usize = 4096;

/// How a heap behaves when its image is full.
#[derive(Clone, Debug)]
pub struct HeapOptions {
    /// The image may grow to this many bytes; by default as far as its mapping allows.
    pub max_bytes: u64,
    /// It grows by at least this share of its length: 8 means an eighth.
    pub growth_divisor: u64,
}

impl Default for HeapOptions {
    fn default() -> Self {
        HeapOptions { max_bytes: u64::MAX, growth_divisor: 8 }
    }
}

/// Allocates space in an image, for many threads at once.
///
/// # The contract of a crash
/// - A block becomes part of the store when a word that leads to it is durable. Make its bytes durable first
///   ([`Block::persist`]).
/// - Free a block only after the word that led to it is durably gone. Its space is reused at once: if readers may hold it,
///   [retire](Heap::retire) it instead. Readers [pin](Heap::pin) the heap.
pub struct Heap<P: Persist> {
    image: Arc<Image<P>>,
    options: HeapOptions,
    pools: boxcar::Vec<Pool>,
    /// Held while a pool is looked for and added, so that a block size has one pool.
    adding_pool: Mutex<()>,
    class_pools: [OnceLock<PoolId>; CLASS_COUNT],
    /// For every chunk the image could ever have, the packed [`Locator`] of its slab.
    locators: Box<[AtomicU64]>,
    chunks: Mutex<ChunkMap>,
    /// First chunk and length of each extent in use.
    extents: Mutex<BTreeMap<u64, u64>>,
    directory_chunks: AtomicU64,
    shards: usize,
    growth: Growth,
    no_growth: NoGrowth,
    postponed: Postponed,
    domain: ReclaimDomain<P>,
    vacating: Mutex<Vec<Vacating>>,
    /// The longest run of chunks that could not be allocated.
    wanted: AtomicU64,
    /// Blocks that wait for readers before they are freed, and blocks whose wait has ended, since the heap was
    /// opened.
    retired: AtomicU64,
    returned: AtomicU64,
    /// Where its sequence of random numbers stands.
    drawn: AtomicU64,
}

/// The number of postponed blocks that an allocation frees at a time.
const FREED_AT_ONCE: usize = 1 << 14;

/// A way to allocate blocks of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolId(u16);

impl<P: Persist> Heap<P> {
    /// The heap of an image: `mark` is called with a [`Marker`] and must mark everything reachable from the roots;
    /// all else becomes free. A new image is opened the same way, with nothing to mark.
    pub fn recover<E: From<ImageError>>(
        image: &Arc<Image<P>>,
        options: HeapOptions,
        mark: impl FnOnce(&Marker<'_, P>) -> Result<(), E>,
    ) -> Result<Heap<P>, E> {
        image.check_writable()?;
        let marker = Marker::new(image)?;
        mark(&marker)?;
        Ok(Heap::from_marks(image, options, marker)?)
    }

    /// The usage of an image's heap as if it were [recovered](Heap::recover) now. Changes nothing, so
    /// it works on an image that is open read-only.
    pub fn survey<E: From<ImageError>>(
        image: &Image<P>,
        mark: impl FnOnce(&Marker<'_, P>) -> Result<(), E>,
    ) -> Result<HeapUsage, E> {
        let marker = Marker::new(image)?;
        mark(&marker)?;
        Ok(marker.usage())
    }

    fn from_marks(
        image: &Arc<Image<P>>,
        options: HeapOptions,
        marker: Marker<'_, P>,
    ) -> Result<Heap<P>, ImageError> {
        let max_chunks = (image.max_len().min(options.max_bytes) / image.chunk_size()).max(image.chunks());
        let shards = std::thread::available_parallelism().map_or(1, usize::from).next_power_of_two().min(64);
        let heap = Heap {
            image: Arc::clone(image),
            options,
            pools: boxcar::Vec::new(),
            adding_pool: Mutex::new(()),
            class_pools: [const { OnceLock::new() }; CLASS_COUNT],
            locators: (0..max_chunks).map(|_| AtomicU64::new(0)).collect(),
            chunks: Mutex::default(),
            extents: Mutex::default(),
            directory_chunks: AtomicU64::new(0),
            shards,
            growth: Growth::default(),
            no_growth: NoGrowth::default(),
            postponed: Postponed::default(),
            domain: ReclaimDomain::new(image.owner()),
            vacating: Mutex::default(),
            wanted: AtomicU64::new(0),
            retired: AtomicU64::new(0),
            returned: AtomicU64::new(0),
            drawn: AtomicU64::new(0x5eed),
        };
        heap.add_chunks(image.chunks());
        for (turn, run) in marker.runs.into_iter().enumerate() {
            let span = run.descriptor.span();
            let used: Box<[u64]> = run.reached.iter().map(|word| word.load(Ordering::Relaxed)).collect();
            if !run.whole.into_inner() && used.iter().all(|&word| word == 0) {
                // Not reached: a crash hit between its allocation and its first use, or after its last use.
                heap.forget_run(run.first_chunk, span);
                continue;
            }
            heap.chunk_map().take(run.first_chunk, span);
            match run.descriptor {
                Descriptor::Slab { cut, span } => {
                    let pool = heap.pool_of_cut(cut)?;
                    let blocks = cut.blocks_in(u64::from(span) * image.chunk_size()) as u32;
                    let slab = Slab::with_used(run.first_chunk, span, blocks, used);
                    heap.register(pool, turn % heap.shards, slab);
                }
                Descriptor::Extent { span } => {
                    heap.extents().insert(run.first_chunk, span);
                }
                Descriptor::Free | Descriptor::Directory => unreachable!("not a run"),
            }
        }
        Ok(heap)
    }

    /// The image it allocates from.
    pub fn image(&self) -> &Arc<Image<P>> {
        &self.image
    }

    /// Gives the image back, to close it.
    pub fn into_image(self) -> Arc<Image<P>> {
        Arc::clone(&self.image)
    }

    /// The pool of blocks of exactly `block` bytes (rounded up to 8), for data of one size.
    pub fn pool(&self, block: u64) -> Result<PoolId, ImageError> {
        if block > MAX_BLOCK {
            return Err(ImageError::Invalid(format!(
                "a block of {block} bytes is not possible, the largest has {MAX_BLOCK}; use an extent"
            )));
        }
        self.pool_of_cut(Cut::plain(block.max(MIN_BLOCK).next_multiple_of(8) as u32))
    }

    /// The pool of blocks in such tiles.
    pub fn tiled_pool(&self, tile: Tile) -> Result<PoolId, ImageError> {
        self.pool_of_cut(Cut::tiled(tile))
    }

    fn pool_of_cut(&self, cut: Cut) -> Result<PoolId, ImageError> {
        let _adding = self.adding_pool.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((index, _)) = self.pools.iter().find(|(_, pool)| pool.cut == cut) {
            return Ok(PoolId(index as u16));
        }
        if self.pools.count() == MAX_POOLS {
            return Err(ImageError::Invalid(format!(
                "more than {MAX_POOLS} different block sizes in one image; use size classes"
            )));
        }
        let span = slab_span(cut.step(), self.image.chunk_size());
        Ok(PoolId(self.pools.push(Pool::new(cut, span, self.image.chunk_size(), self.shards)) as u16))
    }

    /// A block for `bytes` bytes of variable-length data: of the smallest size class that holds them.
    pub fn allocate(&self, bytes: u64) -> Result<Block<'_, P>, ImageError> {
        let class = size_class(bytes).ok_or_else(|| {
            ImageError::Invalid(format!(
                "{bytes} bytes do not fit a block, the largest has {MAX_BLOCK}; use an extent"
            ))
        })?;
        let known = &self.class_pools[class_index(class)];
        let pool = match known.get() {
            Some(&pool) => pool,
            None => {
                let pool = self.pool(class)?;
                *known.get_or_init(|| pool)
            }
        };
        self.allocate_from(pool)
    }

    /// A block from a pool.
    pub fn allocate_from(&self, pool: PoolId) -> Result<Block<'_, P>, ImageError> {
        let home = home_shard(self.shards);
        let (index, pool) = (pool.0, self.pool_of(pool.0));
        let place = |taken| self.place(pool, taken);
        if let Some(taken) = pool.shard(home).take() {
            return Ok(place(taken));
        }
        // Before the image grows, free blocks of other shards are used up, and postponed blocks are freed.
        let first_chunk = loop {
            if let Some(first_chunk) = self.take_spare_chunks(u64::from(pool.span)) {
                break first_chunk;
            }
            if let Some(taken) = self.take_leftover(PoolId(index)) {
                return Ok(taken);
            }
            if self.free_postponed(FREED_AT_ONCE)? == 0 && !self.do_ripe(1) {
                break self.take_chunks_or_empty_slabs(u64::from(pool.span))?;
            }
        };
        self.image.describe(first_chunk, Descriptor::Slab { cut: pool.cut, span: pool.span });
        self.image.flush_descriptor("heap.slab", first_chunk);
        // Another thread may publish a block of this slab, and its fence does not cover our flush.
        self.image.fence("heap.slab");
        let mut slab = Slab::empty(first_chunk, pool.span, pool.blocks);
        let number = slab.take().expect("a new slab has a free block");
        self.register(PoolId(index), home, slab);
        Ok(place((first_chunk, number)))
    }

    /// Up to `count` blocks from a pool: together they cost less than one by one. Fewer if there are no more; the
    /// next single allocation then returns the reason.
    pub fn allocate_at_hand(&self, pool: PoolId, count: usize) -> Vec<Block<'_, P>> {
        let mut offsets = Vec::with_capacity(count);
        // The next allocation returns the reason for a shortage.
        let _ = self.take_many(pool, count, 1, &mut offsets);
        let cut = self.pool_of(pool.0).cut;
        offsets.into_iter().map(|offset| Block::new(self, offset, cut)).collect()
    }

    /// The block of a slab.
    fn place(&self, pool: &Pool, (first_chunk, number): (u64, u32)) -> Block<'_, P> {
        let offset = pool.cut.name(first_chunk * self.image.chunk_size(), u64::from(number));
        Block::new(self, offset, pool.cut)
    }

    /// A block from any slab that has one left.
    fn take_leftover(&self, pool: PoolId) -> Option<Block<'_, P>> {
        let pool = self.pool_of(pool.0);
        let taken = (0..pool.shard_count()).find_map(|shard| pool.shard(shard).take())?;
        Some(self.place(pool, taken))
    }

    /// The pool of the blocks where `offset` is.
    fn pool_at(&self, offset: u64) -> Result<PoolId, ImageError> {
        let locator = self.locator(offset);
        let locator = locator.ok_or_else(|| ImageError::Invalid(format!("no block is at {offset}")))?;
        Ok(PoolId(locator.pool))
    }

    /// The slab of a block.
    fn locator(&self, offset: u64) -> Option<Locator> {
        let chunk = (offset / self.image.chunk_size()) as usize;
        Locator::unpack(self.locators.get(chunk)?.load(Ordering::Acquire))
    }

    /// Gives the chunks of a slab back that is no longer registered.
    fn forget_slab(&self, first_chunk: u64, span: u64) {
        for chunk in first_chunk..first_chunk + span {
            self.locators[chunk as usize].store(0, Ordering::Release);
        }
        self.give_chunks(first_chunk, span);
    }

    /// A run of whole chunks, at least `bytes` long: for data larger than a block, such as a table's buckets. It
    /// keeps its old contents. That the chunks belong to it is durable after the next fence of this thread, which
    /// is needed before the extent is published in any case.
    pub fn allocate_extent(&self, bytes: u64) -> Result<u64, ImageError> {
        let span = bytes.max(1).div_ceil(self.image.chunk_size());
        if span > MAX_EXTENT_CHUNKS {
            return Err(ImageError::Invalid(format!(
                "an extent of {bytes} bytes is larger than an image can be"
            )));
        }
        let first_chunk = self.take_chunks_or_empty_slabs(span).inspect_err(|_| {
            self.wanted.fetch_max(span, Ordering::Relaxed);
        })?;
        self.image.describe(first_chunk, Descriptor::Extent { span });
        self.image.flush_descriptor("heap.extent", first_chunk);
        self.extents().insert(first_chunk, span);
        Ok(first_chunk * self.image.chunk_size())
    }

    /// Frees the extent at `offset`. See the contract above.
    pub fn free_extent(&self, offset: u64) -> Result<(), ImageError> {
        let chunk = offset / self.image.chunk_size();
        let begins = offset.is_multiple_of(self.image.chunk_size());
        let span = self.extents().remove(&chunk).filter(|_| begins).ok_or_else(|| {
            ImageError::Invalid(format!("no extent can be freed at {offset}: none begins there"))
        })?;
        self.give_chunks(chunk, span);
        Ok(())
    }

    /// The use of the space.
    pub fn usage(&self) -> HeapUsage {
        let classes = usage::by_size(self.pools.iter().map(|(_, pool)| class_usage(pool)));
        let (extents, extent_chunks) = {
            let extents = self.extents();
            (extents.len() as u64, extents.values().sum())
        };
        let chunks = self.chunk_map();
        HeapUsage {
            chunk_size: self.image.chunk_size(),
            chunks: chunks.chunks(),
            free_chunks: chunks.free() + chunks.free_in_held(),
            directory_chunks: self.directory_chunks.load(Ordering::Relaxed),
            extents,
            extent_chunks,
            classes,
        }
    }

    fn pool_of(&self, index: u16) -> &Pool {
        &self.pools[usize::from(index)]
    }

    fn extents(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.extents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn chunk_map(&self) -> MutexGuard<'_, ChunkMap> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the chunks by which the image has grown to `ready` chunks.
    fn add_chunks(&self, ready: u64) {
        let mut map = self.chunk_map();
        let (known, grown) = (map.chunks(), ready.min(self.locators.len() as u64));
        if known < grown {
            map.extend(grown);
        }
        for chunk in (known..grown).filter(|&chunk| directory::is_directory(self.image.chunk_size(), chunk)) {
            map.take(chunk, 1);
            self.directory_chunks.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn register(&self, pool: PoolId, shard: usize, slab: Slab) {
        let (first_chunk, span) = (slab.first_chunk, u64::from(slab.span));
        let mut guard = self.pool_of(pool.0).shard(shard);
        let slab = guard.add(slab);
        let word = Locator { pool: pool.0, shard: shard as u8, slab }.pack();
        // Under the lock: from here on another thread can allocate a block of it, and free that block.
        for chunk in first_chunk..first_chunk + span {
            self.locators[chunk as usize].store(word, Ordering::Release);
        }
    }

    /// A run of free chunks beyond the reserve, which is for block sizes without any free block.
    fn take_spare_chunks(&self, span: u64) -> Option<u64> {
        let mut map = self.chunk_map();
        let at_limit = map.chunks() >= self.locators.len() as u64;
        if at_limit && map.free() < span + self.reserve() {
            return None;
        }
        map.take_run(span)
    }

    /// A run of free chunks, growing the image if allowed and necessary.
    fn take_chunks(&self, span: u64, may_grow: bool) -> Result<u64, ImageError> {
        if let Some(first) = self.chunk_map().take_run(span) {
            return Ok(first);
        }
        let chunk_size = self.image.chunk_size();
        let full = |why: String| ImageError::OutOfSpace { wanted: span * chunk_size, why };
        if !may_grow {
            return Err(full("the image is full".into()));
        }
        loop {
            let (chunks, free_at_end) = {
                let mut map = self.chunk_map();
                if let Some(first) = map.take_run(span) {
                    return Ok(first);
                }
                (map.chunks(), map.free_at_end())
            };
            let limit = self.locators.len() as u64;
            // If a directory chunk comes to lie in the run, the next turn adds the missing chunks.
            let least = chunks + (span - free_at_end.min(span)).max(1);
            if least > limit {
                return Err(full(format!(
                    "the image has {} bytes and may grow to {}; raise its limit or delete data",
                    chunks * chunk_size,
                    limit * chunk_size
                )));
            }
            self.no_growth.check(least, span * chunk_size)?;
            self.grow_by(chunks, least - chunks, span)?;
        }
    }

    /// Makes the image grow from `chunks` chunks by at least `more`, and by about an eighth if there is space,
    /// because `span` chunks in a row are needed.
    fn grow_by(&self, chunks: u64, more: u64, span: u64) -> Result<(), ImageError> {
        let (least, limit) = (chunks + more, self.locators.len() as u64);
        let mut asked = (chunks + chunks / self.options.growth_divisor.max(1)).clamp(least, limit.max(least));
        let grown = loop {
            match self.image.grow(asked) {
                // Halves each time: where space is short, the steps shrink, but not at once to the smallest.
                Err(ImageError::OutOfSpace { .. }) if asked > least => {
                    asked = (chunks + (asked - chunks) / 2).max(least);
                }
                Err(_) if asked > least => asked = least,
                done => break done,
            }
        };
        self.no_growth.note(span, least, &grown);
        grown?;
        // Chunks that other threads add meanwhile are prepared by those threads.
        let grown = self.image.chunks();
        self.growth.prepare();
        self.add_chunks(grown);
        Ok(())
    }

    /// A run of free chunks, by all means: each block size keeps an empty slab, which is given up before an
    /// allocation fails.
    fn take_chunks_or_empty_slabs(&self, span: u64) -> Result<u64, ImageError> {
        let full = match self.take_chunks(span, true) {
            Err(full @ ImageError::OutOfSpace { .. }) => full,
            taken => return taken,
        };
        for (_, pool) in self.pools.iter() {
            for shard in 0..pool.shard_count() {
                // The lock of the shard is not held while its chunks are given back, as elsewhere.
                let empty = || pool.shard(shard).take_out_empty();
                std::iter::from_fn(empty).for_each(|first| self.forget_slab(first, u64::from(pool.span)));
            }
        }
        self.take_chunks(span, true).map_err(|_| full)
    }

    fn give_chunks(&self, first: u64, span: u64) {
        self.forget_run(first, span);
        self.chunk_map().give(first, span);
    }

    /// Clears the descriptor of an unreachable run.
    fn forget_run(&self, first: u64, span: u64) {
        self.image.describe(first, Descriptor::Free);
        // If a crash brings the descriptor of a single chunk back, the next opening finds it unreachable and clears
        // it again. That of a longer run would hide the descriptors of chunks that were allocated since behind its
        // first chunk, so it must be durably cleared before the chunks are used again.
        if span > 1 {
            self.image.flush_descriptor("heap.release", first);
            self.image.fence("heap.release");
        }
    }
}

fn class_usage(pool: &Pool) -> ClassUsage {
    let (slabs, used) = (0..pool.shard_count())
        .map(|shard| pool.shard(shard).count())
        .fold((0, 0), |(slabs, used), (s, u)| (slabs + s, used + u));
    ClassUsage { block: pool.cut.block(), slabs, blocks: slabs * u64::from(pool.blocks), used }
}

/// Which shard this thread allocates from.
fn home_shard(shards: usize) -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static HOME: usize = NEXT.fetch_add(1, Ordering::Relaxed));
    HOME.with(|home| home & (shards - 1))
}
