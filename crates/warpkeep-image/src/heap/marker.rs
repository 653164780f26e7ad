//! Recovery of the heap: reachable blocks are in use, all others are free.
//!
//! The medium does not store whether a block is allocated. A crash between allocating a block and making it
//! reachable therefore leaks nothing: the opener marks all blocks reachable from the roots, and the rest is free by
//! definition.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::descriptor::Descriptor;
use super::tile::Tile;
use super::usage::{self, ClassUsage, HeapUsage};
use crate::{Image, ImageError, Persist};

/// A run of chunks in use before the crash.
pub(crate) struct Run {
    pub(crate) first_chunk: u64,
    pub(crate) descriptor: Descriptor,
    /// Slab: the blocks it has.
    blocks: u64,
    /// Slab: a bit a block, set when it was reached.
    pub(crate) reached: Box<[AtomicU64]>,
    /// Extent: it was reached.
    pub(crate) whole: AtomicBool,
}

/// Records the blocks reachable from the roots. Many threads may mark at once.
pub struct Marker<'a, P: Persist> {
    image: &'a Image<P>,
    pub(crate) runs: Vec<Run>,
    /// For every chunk, one more than the index of its run; 0: free or directory.
    run_of: Vec<u32>,
    pub(crate) directory_chunks: u64,
}

impl<'a, P: Persist> Marker<'a, P> {
    /// Reads the chunk directory.
    pub(crate) fn new(image: &'a Image<P>) -> Result<Marker<'a, P>, ImageError> {
        let chunks = image.chunks();
        let mut marker =
            Marker { image, runs: Vec::new(), run_of: vec![0; chunks as usize], directory_chunks: 0 };
        let mut chunk = 0;
        while chunk < chunks {
            let descriptor = image.descriptor(chunk)?;
            let span = descriptor.span();
            if span > chunks - chunk {
                return Err(
                    image.damaged(format!("the run of {span} chunks at chunk {chunk} exceeds the image"))
                );
            }
            match descriptor {
                Descriptor::Free => {}
                Descriptor::Directory => marker.directory_chunks += 1,
                Descriptor::Slab { cut, .. } => {
                    let blocks = cut.blocks_in(span * image.chunk_size());
                    if blocks == 0 {
                        let what = format!("a slab of blocks of {} bytes at chunk {chunk}", cut.block());
                        return Err(image.damaged(what));
                    }
                    let words = blocks.div_ceil(64);
                    marker.add(chunk, descriptor, blocks, (0..words).map(|_| AtomicU64::new(0)).collect());
                }
                Descriptor::Extent { .. } => marker.add(chunk, descriptor, 0, Box::default()),
            }
            chunk += span;
        }
        Ok(marker)
    }

    fn add(&mut self, first_chunk: u64, descriptor: Descriptor, blocks: u64, reached: Box<[AtomicU64]>) {
        let span = descriptor.span();
        self.runs.push(Run { first_chunk, descriptor, blocks, reached, whole: AtomicBool::new(false) });
        let index = self.runs.len() as u32;
        self.run_of[first_chunk as usize..(first_chunk + span) as usize].fill(index);
    }

    fn run(&self, offset: u64) -> Option<&Run> {
        let index = *self.run_of.get((offset / self.image.chunk_size()) as usize)?;
        self.runs.get((index as usize).checked_sub(1)?)
    }

    /// Marks the block at `offset`, in which at least `len` bytes are used. `Ok(true)` if it was reached for
    /// the first time.
    pub fn block(&self, offset: u64, len: u64) -> Result<bool, ImageError> {
        self.mark(offset, len, None)
    }

    /// Marks the block with this name in such a tile. `Ok(true)` if it was reached for the first time.
    pub fn tiled_block(&self, name: u64, tile: Tile) -> Result<bool, ImageError> {
        self.mark(name, tile.block(), Some(tile))
    }

    fn mark(&self, offset: u64, len: u64, tile: Option<Tile>) -> Result<bool, ImageError> {
        let bad = |what: &str| self.image.damaged(format!("a reference to a block at {offset}: {what}"));
        let run = self.run(offset).ok_or_else(|| bad("no slab is there"))?;
        let Descriptor::Slab { cut, .. } = run.descriptor else { return Err(bad("an extent is there")) };
        let (block, chunk_size) = (cut.block(), self.image.chunk_size());
        let number = cut.number(run.first_chunk * chunk_size, offset).filter(|&number| number < run.blocks);
        let number = number.ok_or_else(|| bad(&format!("no block of {block} bytes begins there")))?;
        if len > block {
            return Err(bad(&format!("{len} bytes do not fit its {block}")));
        }
        if cut.tile() != tile {
            let found = if cut.tile().is_some() { "in tiles" } else { "one after the other" };
            return Err(bad(&format!("its slab has blocks of {block} bytes {found}")));
        }
        let bit = 1 << (number % 64);
        Ok(run.reached[(number / 64) as usize].fetch_or(bit, Ordering::Relaxed) & bit == 0)
    }

    /// The size of the block at `offset`, if a contiguous one begins there: to read a length from it before marking
    /// it.
    pub fn block_size(&self, offset: u64) -> Option<u64> {
        let run = self.run(offset)?;
        let Descriptor::Slab { cut, .. } = run.descriptor else { return None };
        if cut.tile().is_some() {
            return None;
        }
        cut.number(run.first_chunk * self.image.chunk_size(), offset).map(|_| cut.block())
    }

    /// The blocks reached so far, as the heap would report them.
    pub(crate) fn usage(&self) -> HeapUsage {
        let chunk_size = self.image.chunk_size();
        let mut usage = HeapUsage {
            chunk_size,
            chunks: self.image.chunks(),
            directory_chunks: self.directory_chunks,
            ..HeapUsage::default()
        };
        let mut chunks_in_use = 0;
        let mut classes = Vec::new();
        for run in &self.runs {
            let span = run.descriptor.span();
            let used: u64 =
                run.reached.iter().map(|word| u64::from(word.load(Ordering::Relaxed).count_ones())).sum();
            match run.descriptor {
                Descriptor::Slab { cut, .. } if used > 0 => {
                    classes.push(ClassUsage { block: cut.block(), slabs: 1, blocks: run.blocks, used });
                }
                Descriptor::Extent { .. } if run.whole.load(Ordering::Relaxed) => {
                    usage.extents += 1;
                    usage.extent_chunks += span;
                }
                _ => continue,
            }
            chunks_in_use += span;
        }
        usage.free_chunks = usage.chunks - usage.directory_chunks - chunks_in_use;
        usage.classes = usage::by_size(classes);
        usage
    }

    /// Marks the extent at `offset`, of at least `len` bytes. `Ok(true)` if it was reached for the first time.
    pub fn extent(&self, offset: u64, len: u64) -> Result<bool, ImageError> {
        let bad = |what: &str| self.image.damaged(format!("a reference to an extent at {offset}: {what}"));
        let run = self.run(offset).ok_or_else(|| bad("none is there"))?;
        let Descriptor::Extent { span } = run.descriptor else { return Err(bad("a slab is there")) };
        if offset != run.first_chunk * self.image.chunk_size() {
            return Err(bad("it begins elsewhere"));
        }
        if len > span * self.image.chunk_size() {
            return Err(bad(&format!("{len} bytes do not fit its {span} chunks")));
        }
        Ok(!run.whole.swap(true, Ordering::Relaxed))
    }
}
