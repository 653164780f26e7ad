//! Whether a slab hash is sound.

use warpkeep_device::Result;

use super::body::SlabHash;
use super::cell::{CellValue, SlabKey};
use super::kernels::Verify;
use super::table::SlabTable;
use crate::ContainerError;

/// Words that the kernel counts in: `slab_batch::Verified` of `kernels/slab_verify.h`.
pub(super) const VERIFIED_WORDS: usize = 10;

impl<K: SlabKey<V>, V: CellValue> SlabHash<K, V> {
    /// An error unless the table is sound; on the CPU, unless the length is exact.
    pub(super) fn verify(&self) -> Result<(), ContainerError> {
        match self {
            Self::Device(table) => table.verify(),
            Self::Cpu(table) => {
                let (len, held) = (table.len(), table.pairs().len() as u64);
                consistent(&[(len.abs_diff(held), "is the difference between the length and the pairs")])
            }
        }
    }
}

impl SlabTable {
    /// An error unless every cell is empty or has a key of its bucket, none is there twice where keys are unique, all chains end in slabs of their
    /// own, which are all that the pool has handed out, and the counters are exact.
    fn verify(&self) -> Result<(), ContainerError> {
        let (device, slabs, stream) = (&self.device, self.slabs.stats()?, self.device.stream()?);
        let reached = device.allocate_zeroed(slabs.capacity as usize / 8)?;
        let counts = device.allocate_zeroed(8 * VERIFIED_WORDS)?;
        let params = Verify {
            table: self.reference(),
            reached: reached.ptr(),
            counts: counts.ptr(),
            unique: self.unique.into(),
            reserved: 0,
        };
        // SAFETY: the table, the pool and both columns stay until the stream is synchronised, which reading does.
        unsafe { self.kernels.verify.launch(self.all_tiles(), &params, &stream)? };
        let mut counted = [0_u64; VERIFIED_WORDS];
        counts.read_on(0, &mut counted, &stream)?;
        let stats = self.stats()?;
        let [broken, holes, twice, outside, crossing, free, live, dead, reached, taken] = counted;
        consistent(&[
            (broken, "cells are neither empty nor have a key of their bucket"),
            (holes, "cells have a key and lie behind an empty one"),
            (twice, "cells have a key that another has"),
            (outside, "links lead to no slab"),
            (crossing, "links lead to a slab that another one leads to"),
            (free, "slabs of chains are free in the pool"),
            (
                taken.abs_diff(reached),
                "is the difference between the slabs that are taken and those of chains",
            ),
            (slabs.in_use.abs_diff(reached), "is the difference between the slabs of chains and their count"),
            (stats.len.abs_diff(live), "is the difference between the length and the keys in cells"),
            (stats.tombstones.abs_diff(dead), "is the difference between the tombstones and their count"),
        ])
    }
}

/// An error with the first count that is not zero.
fn consistent(counts: &[(u64, &str)]) -> Result<(), ContainerError> {
    match counts.iter().find(|(count, _)| *count > 0) {
        Some((count, what)) => Err(ContainerError::Inconsistent { what: format!("{count} {what}") }),
        None => Ok(()),
    }
}
