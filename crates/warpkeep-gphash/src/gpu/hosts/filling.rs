//! Keys and values on their way to pinned memory.

use warpkeep_core::{HostCells, KeyCells};
use warpkeep_device::{Device, DevicePtr};
use warpkeep_image::Persist;

use super::SHARE;
use crate::gpu::batch::put_key;
use crate::gpu::columns::Column;
use crate::gpu::stage::words;
use crate::{Table, TableError};

/// Some keys or values, and where they go.
pub(super) struct Filling<'f> {
    cells: HostCells<'f>,
    first: usize,
    to: &'f mut [u64],
    /// Words of each.
    words: usize,
    /// What keys go to, where the table keeps them so.
    key_cells: Option<KeyCells>,
}

impl<'f> Filling<'f> {
    /// Keys of a table from `first` on, so many, in parts for threads; they go to the host's side of a column.
    pub(super) fn keys<P: Persist>(
        device: &Device,
        column: &'f mut Column,
        table: &Table<P>,
        keys: HostCells<'f>,
        range: (usize, usize),
    ) -> Result<Vec<Filling<'f>>, TableError> {
        let key_cells = table.key_cells();
        let parts = Filling::values(device, column, keys, range, words(table.key_row()))?;
        Ok(parts.into_iter().map(|part| Filling { key_cells, ..part }).collect())
    }

    /// Whether such keys are copied as they are, all at once.
    pub(super) fn copies_keys<P: Persist>(table: &Table<P>, keys: HostCells<'_>) -> bool {
        are_rows(keys, words(table.key_row())) && table.key_cells().is_none()
    }

    /// Where the device has keys of a table from `first` on, so many, if it reaches them where they are, as rows that kernels read.
    pub(super) fn reached<P: Persist>(
        device: &Device,
        table: &Table<P>,
        keys: HostCells<'_>,
        (first, count): (usize, usize),
    ) -> Option<DevicePtr> {
        let HostCells::Fixed { len, bytes } = keys else { return None };
        let at =
            device.reach(&bytes[first * len..][..count * len]).filter(|at| at.address().is_multiple_of(8))?;
        Filling::copies_keys(table, keys).then_some(at)
    }

    /// The same with values of so many words.
    pub(super) fn values(
        device: &Device,
        column: &'f mut Column,
        cells: HostCells<'f>,
        (first, count): (usize, usize),
        words: usize,
    ) -> Result<Vec<Filling<'f>>, TableError> {
        let column = column.host::<u64>(device, count * words)?;
        // Values may have no bytes at all.
        let parts = column.chunks_mut((SHARE * words).max(1)).enumerate();
        let filling = |(part, to)| Filling { cells, first: first + part * SHARE, to, words, key_cells: None };
        Ok(parts.map(filling).collect())
    }

    /// Copies them.
    pub(super) fn fill(self) {
        let Filling { cells, first, to, words, key_cells } = self;
        let rows: &mut [u8] = bytemuck::cast_slice_mut(to);
        match cells {
            HostCells::Fixed { len, bytes } if are_rows(cells, words) && key_cells.is_none() => {
                rows.copy_from_slice(&bytes[first * len..][..rows.len()]);
            }
            _ => {
                for (index, row) in rows.chunks_exact_mut(8 * words).enumerate() {
                    put_key(row, cells.get(first + index), key_cells);
                }
            }
        }
    }
}

/// Whether cells are rows of so many words already.
fn are_rows(cells: HostCells<'_>, words: usize) -> bool {
    matches!(cells, HostCells::Fixed { len, .. } if len == 8 * words)
}
