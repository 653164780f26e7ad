//! The index on the CPU: the same buckets and cells, worked by one thread.

use std::sync::{Mutex, MutexGuard, PoisonError};

use warpkeep_device::{DeviceError, Result};

use super::NO_LOCATION;
use super::columns::HostBatch;
use super::kernels::CELLS;
use super::layout::{Layout, cell, entry, signature};
use super::op::{IndexAnswer, IndexOp, IndexOpKind, IndexStatus};

#[derive(Debug)]
pub(super) struct CpuIndex {
    pub(super) layout: Layout,
    cells: Mutex<CpuCells>,
}

#[derive(Debug)]
pub(super) struct CpuCells {
    layout: Layout,
    pub(super) buckets: Vec<[u64; CELLS]>,
    pub(super) len: u64,
}

impl CpuIndex {
    pub(super) fn new(layout: Layout) -> Result<CpuIndex> {
        let count = layout.buckets() as usize;
        // Asked for first, because zeroed memory that cannot be had is no error but the end of the program.
        Vec::<[u64; CELLS]>::new().try_reserve_exact(count).map_err(|error| {
            DeviceError::OutOfHostMemory { asked: 8 * layout.cells(), cause: error.to_string() }
        })?;
        let cells = CpuCells { layout, buckets: vec![[0; CELLS]; count], len: 0 };
        Ok(CpuIndex { layout, cells: Mutex::new(cells) })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, CpuCells> {
        self.cells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn run(&self, batch: &HostBatch<'_>, mut answer: impl FnMut(IndexAnswer)) {
        let mut cells = self.lock();
        for at in 0..batch.len() {
            answer(cells.apply(batch.op(at)));
        }
    }
}

impl CpuCells {
    pub(super) fn clear(&mut self) {
        self.buckets.fill([0; CELLS]);
        self.len = 0;
    }

    /// The locations of the entries that match, the lowest first.
    pub(super) fn search(&self, hash: u64) -> Vec<u32> {
        let cells = self.layout.buckets_of(hash).into_iter().flat_map(|bucket| self.bucket(bucket));
        let mut found: Vec<u32> = cells
            .filter_map(|cell| entry(*cell))
            .filter(|it| it.0 == signature(hash))
            .map(|it| it.1)
            .collect();
        found.sort_unstable();
        found
    }

    fn apply(&mut self, op: IndexOp) -> IndexAnswer {
        match op.kind {
            IndexOpKind::Search => {
                let found = self.search(op.hash);
                let status = match found.len() {
                    0 => IndexStatus::Absent,
                    1 | 2 => IndexStatus::Found,
                    _ => IndexStatus::Truncated,
                };
                let location = |at: usize| found.get(at).copied().unwrap_or(NO_LOCATION);
                IndexAnswer { status, matches: found.len() as u8, found: [location(0), location(1)] }
            }
            IndexOpKind::Delete if self.change(op.hash, op.location, 0) => {
                self.len -= 1;
                IndexAnswer::of_one(IndexStatus::Deleted, op.location)
            }
            IndexOpKind::Delete => IndexAnswer::new(IndexStatus::Absent),
            IndexOpKind::Insert | IndexOpKind::Replace if op.location == NO_LOCATION => {
                IndexAnswer::new(IndexStatus::BadLocation)
            }
            kind => {
                let new = cell(signature(op.hash), op.location);
                if kind == IndexOpKind::Replace && self.change(op.hash, op.old, new) {
                    return IndexAnswer::of_one(IndexStatus::Replaced, op.old);
                }
                let status = self.add(op.hash, new);
                self.len += u64::from(status.is_added());
                IndexAnswer::new(status)
            }
        }
    }

    fn bucket(&self, number: u64) -> &[u64; CELLS] {
        &self.buckets[number as usize]
    }

    fn is_full(&self, number: u64) -> bool {
        self.bucket(number).iter().all(|cell| *cell != 0)
    }

    /// Writes to the cell of one entry, if it is there.
    fn change(&mut self, hash: u64, location: u32, next: u64) -> bool {
        if location == NO_LOCATION {
            return false;
        }
        let wanted = cell(signature(hash), location);
        for bucket in self.layout.buckets_of(hash) {
            if let Some(at) = self.buckets[bucket as usize].iter_mut().find(|at| **at == wanted) {
                *at = next;
                return true;
            }
        }
        false
    }

    fn add(&mut self, hash: u64, new: u64) -> IndexStatus {
        let [first, second] = self.layout.buckets_of(hash);
        let free = |number| self.bucket(number).iter().filter(|cell| **cell == 0).count();
        let emptier = if free(second) > free(first) { second } else { first };
        if self.put(emptier, new) {
            return IndexStatus::Inserted;
        }
        // As many moves as a kernel makes.
        for moves in 1..=2 {
            for bucket in [first, second] {
                if self.make_room(bucket, moves) && self.put(bucket, new) {
                    return IndexStatus::Displaced;
                }
            }
        }
        IndexStatus::Full
    }

    /// Takes the empty cell nearest to the left of the preferred one.
    fn put(&mut self, number: u64, new: u64) -> bool {
        let (preferred, bucket) = ((new as u32 >> 29) as usize, &mut self.buckets[number as usize]);
        let nearest = (0..CELLS).map(|i| (preferred + CELLS - i) % CELLS).find(|at| bucket[*at] == 0);
        nearest.map(|at| bucket[at] = new).is_some()
    }

    /// Moves an entry of this bucket to its other one, and before that as many as it takes to have room there.
    fn make_room(&mut self, number: u64, moves: u32) -> bool {
        for at in 0..CELLS {
            let moved = self.bucket(number)[at];
            let other = self.layout.partner(moved as u32, number);
            if moves > 1 && self.is_full(other) {
                self.make_room(other, moves - 1);
            }
            // This bucket is full, so that nothing came to it meanwhile.
            if self.put(other, moved) {
                self.buckets[number as usize][at] = 0;
                return true;
            }
        }
        false
    }
}
