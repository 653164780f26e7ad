//! Vacating: a run of chunks is emptied so that it can serve another size of blocks, or an extent.
//!
//! The slabs in it are closed, and the tables that refer to their blocks move or remove the records. The chunks
//! become free when the last block is freed, which may have to wait for readers; until then the run is held
//! together.

use std::sync::{MutexGuard, PoisonError};

use super::classes::slab_span;
use super::clearing::{Clearing, Closed};
use super::pool::{Pool, SlabState};
use super::{Heap, directory};
use crate::Persist;

/// Runs that are vacated at the same time.
const MOST: usize = 64;
/// A run that does not become free is given up after this many turns: one of its blocks has no owner that moves it.
const TURNS: u32 = 500;
/// Runs that are compared, of which the emptiest is taken.
const COMPARED: u64 = 16;
/// One of this many chunks is kept free where the image cannot grow, for a block size without any chunk.
const RESERVE: u64 = 128;

/// What may be done with the blocks in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vacate {
    /// Move them to other slabs: only a run is chosen whose blocks fit there.
    Move,
    /// Remove those that do not fit elsewhere.
    Remove,
}

/// The use of a run once it is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A request that is as long as the run.
    Request,
    /// Any request: the run joins the free chunks.
    Reserve,
}

/// A run that is being vacated.
pub(super) struct Vacating {
    first: u64,
    closed: Vec<Closed>,
    turns: u32,
    /// Its blocks are no longer reachable.
    vacated: bool,
}

/// A run that could be vacated.
struct Candidate {
    first: u64,
    slabs: Vec<(Closed, SlabState)>,
    /// Bytes that would have to be moved or removed.
    bytes: u64,
}

impl<P: Persist> Heap<P> {
    /// Closes the slabs in a run of chunks for this many bytes, one of several picked at random; `None` if there is
    /// no such run, or no gain.
    pub fn begin_vacating(&self, bytes: u64, vacate: Vacate, purpose: Purpose) -> Option<Clearing<'_, P>> {
        let span = bytes.max(1).div_ceil(self.image.chunk_size());
        self.age_vacating();
        if self.vacating().len() >= MOST {
            return None;
        }
        let chosen = match vacate {
            Vacate::Move => self.movable(span)?,
            Vacate::Remove => self.any_run(span)?,
        };
        let mut clearing = Clearing::new(self, Some(chosen.first));
        for &(slab, state) in &chosen.slabs {
            clearing.close(slab, state.used);
        }
        let closed = clearing.closed().to_vec();
        self.chunk_map().hold(chosen.first, span, purpose == Purpose::Request);
        // An empty one has no last block to be freed.
        for slab in &closed {
            let pool = self.pool_of(slab.pool);
            let empty = pool.shard(slab.shard).take_out_if_empty(slab.slab, slab.first_chunk);
            if empty {
                self.forget_slab(slab.first_chunk, u64::from(pool.span));
            }
        }
        self.vacating().push(Vacating { first: chosen.first, closed, turns: 0, vacated: false });
        Some(clearing)
    }

    /// Gives runs up that do not become free. To be called from time to time.
    pub fn age_vacating(&self) {
        let mut over = Vec::new();
        self.vacating().retain_mut(|run| {
            run.turns += 1;
            let goes = run.turns > TURNS || !self.chunk_map().is_held(run.first);
            if goes {
                over.push((run.first, std::mem::take(&mut run.closed)));
            }
            !goes
        });
        for (first, closed) in over {
            self.chunk_map().release(first);
            self.open_again(&closed);
        }
    }

    /// Whether a run is about to become free: only readers are waited for.
    pub fn is_space_coming(&self) -> bool {
        let vacating = self.vacating();
        vacating.iter().any(|run| run.vacated && self.chunk_map().is_held(run.first))
    }

    /// Whether the image cannot grow and has fewer free chunks than the reserve for block sizes without any.
    pub fn wants_reserve(&self) -> bool {
        let map = self.chunk_map();
        map.chunks() >= self.locators.len() as u64 && map.free() + map.free_in_held() < self.reserve()
    }

    /// The bytes of the largest run that could not be allocated since the last call; 0 if there was none.
    pub fn take_wanted(&self) -> u64 {
        self.wanted.swap(0, std::sync::atomic::Ordering::Relaxed) * self.image.chunk_size()
    }

    /// The block size for this many bytes of variable-length data.
    pub fn slab_bytes(&self, bytes: u64) -> u64 {
        let class = super::size_class(bytes).unwrap_or(bytes);
        u64::from(slab_span(class, self.image.chunk_size())) * self.image.chunk_size()
    }

    /// Bytes that can serve any block size: free chunks, chunks by which the image may grow, and chunks that become
    /// free by moving blocks together.
    pub fn spare_bytes(&self) -> u64 {
        let chunks = {
            let map = self.chunk_map();
            map.free() + map.free_in_held() + (self.locators.len() as u64).saturating_sub(map.chunks())
        };
        let surplus = |pool: &Pool| pool.free_blocks() / u64::from(pool.blocks) * u64::from(pool.span);
        let movable: u64 = self.pools.iter().map(|(_, pool)| surplus(pool)).sum();
        (chunks + movable) * self.image.chunk_size()
    }

    /// Chunks that are kept free where the image cannot grow.
    pub(super) fn reserve(&self) -> u64 {
        (self.locators.len() as u64 / RESERVE).min(64)
    }

    pub(super) fn note_vacated(&self, first: u64) {
        self.vacating().iter_mut().filter(|run| run.first == first).for_each(|run| run.vacated = true);
    }

    pub(super) fn open_again(&self, slabs: &[Closed]) {
        for closed in slabs {
            let pool = self.pool_of(closed.pool);
            pool.shard(closed.shard).set_closed(closed.slab, closed.first_chunk, false);
        }
    }

    fn vacating(&self) -> MutexGuard<'_, Vec<Vacating>> {
        self.vacating.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The emptiest of some runs whose blocks fit elsewhere.
    fn movable(&self, span: u64) -> Option<Candidate> {
        // A slab can be emptied into the others of its size if they have as many free blocks as it has used ones.
        let surplus = self.pools.iter().filter(|(_, pool)| pool.free_blocks() >= u64::from(pool.blocks));
        let (_, pool) = surplus.max_by_key(|(_, pool)| pool.free_blocks() * pool.cut.block())?;
        let runs = (0..COMPARED).filter_map(|_| {
            let shards = pool.shard_count() as u64;
            let from = self.draw() % shards;
            let state = (0..shards).find_map(|step| {
                let shard = pool.shard(((from + step) % shards) as usize);
                shard.state_from(self.draw())
            })?;
            // Any run that the slab has a part in.
            let spare = span + u64::from(pool.span) - 1;
            let first = (state.first_chunk + u64::from(pool.span)).checked_sub(1 + self.draw() % spare)?;
            self.candidate(first, span).filter(|run| self.finds_room(run))
        });
        runs.min_by_key(|run| run.bytes)
    }

    /// The emptiest of some runs.
    fn any_run(&self, span: u64) -> Option<Candidate> {
        let chunks = self.chunk_map().chunks().checked_sub(span)? + 1;
        // Many runs have an extent in them; these are not counted.
        let runs = (0..8 * COMPARED).filter_map(|_| self.candidate(self.draw() % chunks, span));
        runs.take(COMPARED as usize).min_by_key(|run| run.bytes)
    }

    /// A run, if it consists only of slabs and free chunks.
    fn candidate(&self, first: u64, span: u64) -> Option<Candidate> {
        let is_free: Vec<bool> = {
            let map = self.chunk_map();
            if first + span > map.chunks() {
                return None;
            }
            (first..first + span).map(|chunk| !map.is_used(chunk)).collect()
        };
        let (mut slabs, mut bytes): (Vec<(Closed, SlabState)>, u64) = (Vec::new(), 0);
        for chunk in (first..first + span).filter(|chunk| !is_free[(chunk - first) as usize]) {
            if directory::is_directory(self.image.chunk_size(), chunk) {
                return None;
            }
            let locator = self.locator(chunk * self.image.chunk_size())?;
            let pool = self.pool_of(locator.pool);
            let state = pool.shard(usize::from(locator.shard)).state(locator.slab)?;
            if state.closed || !(state.first_chunk..state.first_chunk + u64::from(pool.span)).contains(&chunk)
            {
                return None;
            }
            if slabs.last().is_some_and(|(last, _)| last.first_chunk == state.first_chunk) {
                continue;
            }
            bytes += u64::from(state.used) * pool.cut.block();
            let closed = Closed {
                pool: locator.pool,
                shard: usize::from(locator.shard),
                slab: state.index,
                first_chunk: state.first_chunk,
            };
            slabs.push((closed, state));
        }
        // If all of it is free, no work is needed.
        (!slabs.is_empty()).then_some(Candidate { first, slabs, bytes })
    }

    /// Whether the blocks of a run fit into the other slabs of their sizes.
    fn finds_room(&self, run: &Candidate) -> bool {
        run.slabs.iter().all(|(slab, _)| {
            let same = run.slabs.iter().filter(|(other, _)| other.pool == slab.pool);
            let blocks: u64 = same.map(|(_, state)| u64::from(state.used) + u64::from(state.free)).sum();
            self.pool_of(slab.pool).free_blocks() >= blocks
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::{
        Block, Coherent, Format, HeapOptions, Image, ImageError, MIN_CHUNK, PlainMemory, PoolId, Surroundings,
    };

    fn heap(chunks: u64) -> Heap<Coherent> {
        let memory = PlainMemory::new(chunks * MIN_CHUNK, chunks * MIN_CHUNK);
        let format = Format { store_id: [1; 16], chunk_size: MIN_CHUNK, hash_seed: 7 };
        let surroundings = Surroundings::default();
        let image = Image::format(Arc::new(memory), Coherent, Path::new("memory"), &format, surroundings);
        let image = image.expect("it is new");
        image.begin(1).expect("it is new");
        Heap::recover::<ImageError>(&Arc::new(image), HeapOptions::default(), |_| Ok(()))
            .expect("it is empty")
    }

    fn fill(heap: &Heap<Coherent>, pool: PoolId) -> Vec<u64> {
        std::iter::from_fn(|| heap.allocate_from(pool).ok().map(Block::into_offset)).collect()
    }

    /// Moves every block out of a run, as a table does.
    fn move_out(heap: &Heap<Coherent>, clearing: &Clearing<'_, Coherent>, taken: &mut [u64]) {
        for (old, _) in clearing.blocks_in_use() {
            // SAFETY: the test alone has the block.
            let new = unsafe { clearing.copy_of(old) }.expect("others have room").into_offset();
            assert!(clearing.contains(old) && !clearing.contains(new));
            *taken.iter_mut().find(|offset| **offset == old).expect("it was taken") = new;
            heap.free(old).expect("it was taken");
        }
        clearing.is_vacated();
    }

    #[test]
    fn sparse_slabs_make_room_for_other_sizes_and_for_extents() {
        let heap = heap(64);
        let (small, large) = (heap.pool(64).expect("a size"), heap.pool(160).expect("a size"));
        let mut taken = fill(&heap, small);
        assert!(heap.allocate_from(large).is_err(), "it is full of the others");
        let vacate = |bytes| heap.begin_vacating(bytes, Vacate::Move, Purpose::Request);
        assert!(vacate(1).is_none(), "nothing can move");
        // Nine of ten go, from all slabs.
        for at in (0..taken.len()).rev().filter(|at| at % 10 != 0) {
            heap.free(taken.swap_remove(at)).expect("it was taken");
        }
        assert!(heap.allocate_from(large).is_err(), "every slab has something left");
        let clearing = vacate(1).expect("all slabs are sparse");
        move_out(&heap, &clearing, &mut taken);
        drop(clearing);
        assert!(heap.allocate_from(large).is_ok());
        // A run of chunks, from which nothing is allocated while it becomes free.
        let clearing = vacate(8 * MIN_CHUNK).expect("all slabs are sparse");
        move_out(&heap, &clearing, &mut taken);
        drop(clearing);
        assert!(heap.is_space_coming() && heap.allocate_extent(8 * MIN_CHUNK).is_ok());
        assert!(!heap.is_space_coming());
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(heap.usage().classes[0].used, taken.len() as u64);
    }

    #[test]
    fn a_run_that_does_not_become_free_is_given_up() {
        let heap = heap(16);
        let pool = heap.pool(64).expect("a size");
        let taken = fill(&heap, pool);
        let freed: Vec<u64> = taken.iter().copied().step_by(2).collect();
        heap.free_many(&freed).expect("they were taken");
        let free_blocks = || heap.pool_of(pool.0).free_blocks();
        let free = free_blocks();
        let clearing = heap.begin_vacating(1, Vacate::Move, Purpose::Request).expect("there is room");
        assert!(!clearing.blocks_in_use().is_empty());
        drop(clearing);
        assert!(free_blocks() < free);
        (0..=TURNS).for_each(|_| heap.age_vacating());
        assert_eq!(free_blocks(), free);
        assert_eq!(fill(&heap, pool).len(), freed.len());
    }

    #[test]
    fn what_is_removed_makes_room_where_nothing_can_move() {
        let heap = heap(16);
        let (small, large) = (heap.pool(64).expect("a size"), heap.pool(160).expect("a size"));
        fill(&heap, small);
        let clearing = heap.begin_vacating(1, Vacate::Remove, Purpose::Request).expect("there is something");
        for (offset, _) in clearing.blocks_in_use() {
            heap.free(offset).expect("it was taken");
        }
        drop(clearing);
        let _taken = heap.allocate_from(large).expect("a chunk is free");
        assert!(heap.allocate_from(small).is_err(), "the run was for one request");
    }
}
