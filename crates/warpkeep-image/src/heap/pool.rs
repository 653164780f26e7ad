//! A pool: all slabs of one block size, cut in one way, sharded so that threads rarely meet.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::cut::Cut;
use super::slab::Slab;

/// Where a slab is registered. Kept, packed, for every chunk of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Locator {
    pub(crate) pool: u16,
    pub(crate) shard: u8,
    pub(crate) slab: u32,
}

impl Locator {
    /// Nonzero, so that zero can mean "no slab here".
    pub(crate) fn pack(self) -> u64 {
        1 << 63 | u64::from(self.pool) << 40 | u64::from(self.shard) << 32 | u64::from(self.slab)
    }

    pub(crate) fn unpack(word: u64) -> Option<Locator> {
        (word != 0).then_some(Locator {
            pool: (word >> 40) as u16,
            shard: (word >> 32) as u8,
            slab: word as u32,
        })
    }
}

/// All slabs of one block size, cut in one way.
pub(crate) struct Pool {
    pub(crate) cut: Cut,
    /// Chunks in a slab.
    pub(crate) span: u16,
    /// Blocks in a slab.
    pub(crate) blocks: u32,
    shards: Box<[Mutex<Shard>]>,
}

/// The slabs that a share of the threads allocates from.
#[derive(Default)]
pub(crate) struct Shard {
    slabs: Vec<Option<Slab>>,
    unused: Vec<u32>,
    /// Slabs with free blocks.
    open: Vec<u32>,
    /// Which of them is allocated from.
    turn: usize,
    /// Free blocks of all slabs that are not closed.
    free: u64,
    /// Blocks in use.
    used: u64,
}

/// A slab as it stands at some moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlabState {
    pub(crate) index: u32,
    pub(crate) first_chunk: u64,
    pub(crate) used: u32,
    pub(crate) free: u32,
    pub(crate) closed: bool,
}

/// The result of freeing a block.
pub(crate) enum Given {
    /// The block was not in use: the caller is wrong, or the image is.
    NotInUse,
    /// Nothing more to do.
    Kept,
    /// The slab is empty and no longer registered: its chunks can go.
    Emptied { first_chunk: u64 },
}

impl Pool {
    pub(crate) fn new(cut: Cut, span: u16, chunk_size: u64, shards: usize) -> Pool {
        let blocks = cut.blocks_in(u64::from(span) * chunk_size) as u32;
        Pool { cut, span, blocks, shards: (0..shards).map(|_| Mutex::default()).collect() }
    }

    pub(crate) fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// Free blocks that can be taken.
    pub(crate) fn free_blocks(&self) -> u64 {
        (0..self.shards.len()).map(|shard| self.shard(shard).free_blocks()).sum()
    }

    pub(crate) fn shard(&self, index: usize) -> MutexGuard<'_, Shard> {
        // Nothing under this lock can panic halfway through a change, short of running out of memory.
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    /// Registers a slab and gives its index.
    pub(crate) fn add(&mut self, slab: Slab) -> u32 {
        let index = self.unused.pop().unwrap_or_else(|| {
            self.slabs.push(None);
            self.slabs.len() as u32 - 1
        });
        let has_room = slab.free() > 0;
        self.free += u64::from(slab.free());
        self.used += u64::from(slab.in_use());
        self.slabs[index as usize] = Some(slab);
        if has_room {
            self.open_slab(index);
        }
        index
    }

    /// Takes a free block: first chunk of its slab, number of the block.
    pub(crate) fn take(&mut self) -> Option<(u64, u32)> {
        let mut taken = None;
        self.take_many(1, |first_chunk, block| taken = Some((first_chunk, block)));
        taken
    }

    /// Takes up to `count` free blocks: first chunk of the slab, and number, of each.
    pub(crate) fn take_many(&mut self, mut count: usize, mut each: impl FnMut(u64, u32)) {
        while count > 0
            && let Some(index) = self.slab_in_turn()
            && let Some(slab) = self.slabs[index as usize].as_mut()
        {
            let first_chunk = slab.first_chunk;
            let taken = slab.take_many(count, |block| each(first_chunk, block));
            count -= taken;
            self.free -= taken as u64;
            self.used += taken as u64;
            if slab.free() == 0 {
                self.close_slab(index);
                // The newest of the list has taken its place there.
                self.turn += 1;
            } else if taken == 0 {
                return;
            }
        }
    }

    /// Gives a block back.
    pub(crate) fn give(&mut self, index: u32, block: u32) -> Given {
        let Some(slab) = self.slabs.get_mut(index as usize).and_then(Option::as_mut) else {
            return Given::NotInUse;
        };
        if !slab.give(block) {
            return Given::NotInUse;
        }
        let (empty, closed, first_chunk) = (slab.is_empty(), slab.closed, slab.first_chunk);
        let listed = slab.listed_at.is_some();
        self.used -= 1;
        self.free += u64::from(!closed);
        if !listed && !closed {
            self.open_slab(index);
        }
        // One empty slab is kept; otherwise a thread that repeatedly allocates and frees a single block would
        // rewrite a chunk's descriptor each time.
        if empty && (closed || self.open.len() > 1) {
            self.remove(index);
            return Given::Emptied { first_chunk };
        }
        Given::Kept
    }

    /// Takes out an empty slab, if there is one, and returns its first chunk.
    pub(crate) fn take_out_empty(&mut self) -> Option<u64> {
        let is_empty =
            |slab: &Option<Slab>| slab.as_ref().is_some_and(|slab| slab.is_empty() && !slab.closed);
        let index = self.slabs.iter().position(is_empty)? as u32;
        self.remove(index).map(|slab| slab.first_chunk)
    }

    /// Takes out this slab if it is empty; returns whether it did.
    pub(crate) fn take_out_if_empty(&mut self, index: u32, first_chunk: u64) -> bool {
        let slab = self.slabs.get(index as usize).and_then(Option::as_ref);
        let goes = slab.is_some_and(|slab| slab.first_chunk == first_chunk && slab.is_empty());
        goes && self.remove(index).is_some()
    }

    fn remove(&mut self, index: u32) -> Option<Slab> {
        self.close_slab(index);
        let slab = self.slabs[index as usize].take()?;
        self.unused.push(index);
        if !slab.closed {
            self.free -= u64::from(slab.free());
        }
        Some(slab)
    }

    /// Free blocks that can be taken.
    pub(crate) fn free_blocks(&self) -> u64 {
        self.free
    }

    /// The number of slabs.
    pub(crate) fn len(&self) -> usize {
        self.slabs.len() - self.unused.len()
    }

    /// How a slab stands.
    pub(crate) fn state(&self, index: u32) -> Option<SlabState> {
        let slab = self.slabs.get(index as usize)?.as_ref()?;
        Some(SlabState {
            index,
            first_chunk: slab.first_chunk,
            used: slab.in_use(),
            free: slab.free(),
            closed: slab.closed,
        })
    }

    /// The first slab from this number on, or from the beginning.
    pub(crate) fn state_from(&self, number: u64) -> Option<SlabState> {
        let count = self.slabs.len() as u64;
        (0..count).find_map(|step| self.state(((number + step) % count) as u32))
    }

    /// The numbers of the blocks of a slab that are in use, from one on, round to it again.
    pub(crate) fn used_from(&self, index: u32, from: u32) -> impl Iterator<Item = u32> + '_ {
        self.slabs
            .get(index as usize)
            .and_then(Option::as_ref)
            .into_iter()
            .flat_map(move |slab| slab.used_from(from))
    }

    /// Index, first chunk and blocks in use of every slab.
    pub(crate) fn slabs(&self) -> impl Iterator<Item = (u32, u64, u32)> {
        let slabs = self.slabs.iter().zip(0..);
        slabs.filter_map(|(slab, index)| slab.as_ref().map(|slab| (index, slab.first_chunk, slab.in_use())))
    }

    /// Closes a slab, or opens it again; `false` if it is not there any more.
    pub(crate) fn set_closed(&mut self, index: u32, first_chunk: u64, closed: bool) -> bool {
        let slab = self.slabs.get_mut(index as usize).and_then(Option::as_mut);
        let Some(slab) = slab.filter(|slab| slab.first_chunk == first_chunk) else { return false };
        let (free, was_closed) = (u64::from(slab.free()), std::mem::replace(&mut slab.closed, closed));
        let (has_room, listed) = (free > 0, slab.listed_at.is_some());
        match (was_closed, closed) {
            (false, true) => self.free -= free,
            (true, false) => self.free += free,
            _ => {}
        }
        match closed {
            true if listed => self.close_slab(index),
            false if has_room && !listed => self.open_slab(index),
            _ => {}
        }
        true
    }

    /// First chunk of a registered slab.
    pub(crate) fn first_chunk(&self, index: u32) -> Option<u64> {
        Some(self.slabs.get(index as usize)?.as_ref()?.first_chunk)
    }

    /// Slabs and blocks in use.
    pub(crate) fn count(&self) -> (u64, u64) {
        (self.len() as u64, self.used)
    }

    /// The slab to allocate from until it is full. Slabs that have got free blocks since wait for their turn: by
    /// then they have more of them, and blocks written together lie together.
    fn slab_in_turn(&mut self) -> Option<u32> {
        if self.turn >= self.open.len() {
            self.turn = 0;
        }
        self.open.get(self.turn).copied()
    }

    fn open_slab(&mut self, index: u32) {
        if let Some(slab) = self.slabs[index as usize].as_mut() {
            slab.listed_at = Some(self.open.len());
            self.open.push(index);
        }
    }

    fn close_slab(&mut self, index: u32) {
        let Some(at) = self.slabs[index as usize].as_mut().and_then(|slab| slab.listed_at.take()) else {
            return;
        };
        self.open.swap_remove(at);
        if let Some(&moved) = self.open.get(at)
            && let Some(slab) = self.slabs[moved as usize].as_mut()
        {
            slab.listed_at = Some(at);
        }
    }
}
