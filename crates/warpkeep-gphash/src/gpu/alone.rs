//! Gets by threads that work alone, for benchmarks: what warps that work together bring shows beside them.

use warpkeep_device::{Grid, Stream};
use warpkeep_image::Persist;

use super::engine::DeviceEngine;
use super::params::{GetParams, TableParams};
use super::reading::GetRows;
use crate::{Table, TableError};

const THREADS: u32 = 256;

impl<P: Persist> DeviceEngine<P> {
    /// As [`get_rows`](Self::get_rows), with a thread a key instead of a warp, always from the image; waits for the answers.
    ///
    /// # Safety
    /// As [`get_rows`](Self::get_rows).
    pub unsafe fn get_rows_alone(
        &self,
        table: &Table<P>,
        rows: &GetRows,
        stream: &Stream,
    ) -> Result<(), TableError> {
        // What the kernel finds stays while the epoch is pinned, and where it is while it is looked for.
        let _staying = self.stay();
        let guard = crossbeam_epoch::pin();
        let params = GetParams {
            table: TableParams::new(table, table.levels(&guard), self.image.cover()?),
            count: rows.count,
            keys: rows.keys,
            statuses: rows.statuses,
            versions: rows.versions,
            values: rows.values,
        };
        let grid = Grid::covering(rows.count.max(1), THREADS);
        // SAFETY: the caller's promise; the rest is the table's, and stays until the stream has been synchronised.
        unsafe { self.kernels.get_alone.launch(grid, &params, stream)? };
        Ok(stream.synchronize()?)
    }
}
