//! Keys and values on their way to pinned memory.

use warpkeep_core::HostCells;

use super::SHARE;
use crate::TableError;
use crate::gpu::batch::put_row;
use crate::gpu::columns::Column;

/// Some keys or values, and where they go.
pub(super) struct Filling<'f> {
    cells: HostCells<'f>,
    first: usize,
    to: &'f mut [u64],
    /// Words of each.
    words: usize,
}

impl<'f> Filling<'f> {
    /// Those from `first` on, so many, in parts for threads; they go to the host's side of a column.
    pub(super) fn parts(
        device: &warpkeep_device::Device,
        column: &'f mut Column,
        cells: HostCells<'f>,
        (first, count): (usize, usize),
        words: usize,
    ) -> Result<impl Iterator<Item = Filling<'f>>, TableError> {
        let column = column.host::<u64>(device, count * words)?;
        // Values may have no bytes at all.
        let parts = column.chunks_mut((SHARE * words).max(1)).enumerate();
        Ok(parts.map(move |(part, to)| Filling { cells, first: first + part * SHARE, to, words }))
    }

    /// Copies them.
    pub(super) fn fill(self) {
        let Filling { cells, first, to, words } = self;
        let rows: &mut [u8] = bytemuck::cast_slice_mut(to);
        match cells {
            HostCells::Fixed { len, bytes } if len == 8 * words => {
                rows.copy_from_slice(&bytes[first * len..][..rows.len()]);
            }
            _ => {
                for (index, row) in rows.chunks_exact_mut(8 * words).enumerate() {
                    put_row(row, cells.get(first + index));
                }
            }
        }
    }
}
