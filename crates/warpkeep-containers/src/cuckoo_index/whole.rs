//! What is asked of a whole index: all its entries, and whether it is sound.

use warpkeep_device::{Grid, Result};

use super::device::DeviceIndex;
use super::kernels::{CELLS, CONTROL_WORDS, FIRST_VERIFIED, THREADS, Whole};
use super::layout::{entry, signature};
use super::{CuckooIndex, Kind};
use crate::ContainerError;
use crate::spread_count::{COUNT_WORDS, sum};

/// Buckets that are read at once.
const CHUNK: u64 = 1 << 16;

/// An entry, and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexEntry {
    /// The bucket that it is in.
    pub bucket: u64,
    /// The upper half of its hash.
    pub signature: u32,
    /// Its location.
    pub location: u32,
}

impl CuckooIndex {
    /// All entries, by bucket.
    pub fn entries(&self) -> Result<Vec<IndexEntry>, ContainerError> {
        let mut entries = Vec::new();
        let mut list = |first: u64, buckets: &[[u64; CELLS]]| {
            for (bucket, cells) in (first..).zip(buckets) {
                let held = cells.iter().filter_map(|cell| entry(*cell));
                entries.extend(held.map(|(signature, location)| IndexEntry { bucket, signature, location }));
            }
        };
        match &self.kind {
            Kind::Cpu(index) => list(0, &index.lock().buckets),
            Kind::Device(index) => {
                let (table, mut cells) = (index.read(), Vec::new());
                for first in (0..index.layout.buckets()).step_by(CHUNK as usize) {
                    let count = (index.layout.buckets() - first).min(CHUNK);
                    cells.resize(count as usize, [0_u64; CELLS]);
                    table.cells.read(64 * first as usize, &mut cells)?;
                    list(first, &cells);
                }
            }
        }
        Ok(entries)
    }

    /// Looks at every cell: none is kept for nothing, and the length is exact.
    ///
    /// An index has only a part of each hash, so it cannot know that an entry is in a bucket of its hash:
    /// [`verify_entries`](Self::verify_entries) compares with what should be there.
    pub fn verify(&self) -> Result<(), ContainerError> {
        let [length, marked, held] = match &self.kind {
            Kind::Device(index) => index.count_cells()?,
            Kind::Cpu(index) => {
                let cells = index.lock();
                let count = |is: fn(u64) -> bool| {
                    cells.buckets.iter().flatten().filter(|cell| is(**cell)).count() as u64
                };
                [
                    cells.len,
                    count(|cell| cell != 0 && entry(cell).is_none()),
                    count(|cell| entry(cell).is_some()),
                ]
            }
        };
        let wrong = [
            (marked, "cells are kept for nothing"),
            (length.abs_diff(held), "is the difference between the length and the entries in cells"),
        ];
        match wrong.iter().find(|(count, _)| *count > 0) {
            Some((count, what)) => Err(ContainerError::Inconsistent { what: format!("{count} {what}") }),
            None => Ok(()),
        }
    }

    /// As [`verify`](Self::verify), and these are the entries: each is in one of the two buckets of its hash, as often as it is given, and
    /// there is no other. Reads the whole index to the host.
    pub fn verify_entries(&self, hashes: &[u64], locations: &[u32]) -> Result<(), ContainerError> {
        super::check_columns(hashes, locations, "locations")?;
        self.verify()?;
        let layout = self.layout();
        let mut wanted: Vec<(u64, u32)> =
            hashes.iter().zip(locations).map(|(hash, location)| (layout.group(*hash), *location)).collect();
        let mut there: Vec<(u64, u32)> = self
            .entries()?
            .iter()
            .map(|entry| (layout.group_in(entry.signature, entry.bucket), entry.location))
            .collect();
        wanted.sort_unstable();
        there.sort_unstable();
        if wanted == there {
            return Ok(());
        }
        let same = wanted.iter().zip(&there).take_while(|(wanted, there)| wanted == there).count();
        let what = format!(
            "there are {} entries and there should be {}; the first that differs is {:x?} and should be {:x?}",
            there.len(),
            wanted.len(),
            there.get(same),
            wanted.get(same)
        );
        Err(ContainerError::Inconsistent { what })
    }

    /// The two buckets that entries of this hash can be in.
    pub fn buckets_of(&self, hash: u64) -> [u64; 2] {
        self.layout().buckets_of(hash)
    }

    /// The part of a hash that its entries have.
    pub fn signature_of(hash: u64) -> u32 {
        signature(hash)
    }
}

impl DeviceIndex {
    /// The length, and how many cells are marked and held.
    fn count_cells(&self) -> Result<[u64; 3]> {
        let workspace = self.workspaces.take(&self.device)?;
        // Exclusively, because kernels count in the control words.
        let (stream, table) = (&workspace.stream, self.write());
        let from = 8 * FIRST_VERIFIED;
        table.control.fill_on(from, 8 * CONTROL_WORDS - from, 0, stream)?;
        let params = Whole { index: table.reference(), cells: self.layout.cells() };
        // SAFETY: the table is borrowed until the stream is synchronised.
        unsafe { self.kernels.verify.launch(Grid::covering(params.cells, THREADS), &params, stream)? };
        let mut control = [0_u64; CONTROL_WORDS];
        table.control.read_on(0, &mut control, stream)?;
        drop(table);
        self.workspaces.put_back(workspace);
        Ok([sum(&control[..COUNT_WORDS]), control[FIRST_VERIFIED], control[FIRST_VERIFIED + 1]])
    }
}
