//! The paper's gets with keys and answers in device memory: through the bucket cache, and by threads that work alone.

use std::sync::Arc;

use warpkeep_device::{Grid, Stream};
use warpkeep_image::Persist;

use super::Paper;
use super::copies::Copies;
use super::params::CachedGetParams;
use crate::gpu::engine::{DeviceEngine, THREADS, check_count};
use crate::gpu::params::{GetParams, TableParams};
use crate::gpu::reading::GetRows;
use crate::gpu::staying::Staying;
use crate::{Table, TableError};

/// A batch of gets under way.
pub struct PaperReading<'r> {
    stream: &'r Stream,
    // All of these stay until the kernel is done: the copies, the places of items, and records.
    _copies: Option<Arc<Copies>>,
    _staying: Staying<'r>,
    _guard: crossbeam_epoch::Guard,
}

impl PaperReading<'_> {
    /// Waits for the answers.
    pub fn finish(self) -> Result<(), TableError> {
        Ok(self.stream.synchronize()?)
    }
}

impl Drop for PaperReading<'_> {
    fn drop(&mut self) {
        // Before the table may free what the kernel looks at. An error is the stream's, and the next use of it returns the error.
        let _ = self.stream.synchronize();
    }
}

impl Paper {
    /// As [`get_rows`](DeviceEngine::get_rows), from the copies of buckets, where there are some, and otherwise from the image.
    ///
    /// # Safety
    /// As [`get_rows`](DeviceEngine::get_rows).
    pub unsafe fn get_cached<'r, P: Persist>(
        &self,
        engine: &'r DeviceEngine<P>,
        table: &Table<P>,
        rows: &GetRows,
        stream: &'r Stream,
    ) -> Result<PaperReading<'r>, TableError> {
        let (mut reading, get) = begin(engine, table, rows, stream)?;
        let grid = Grid::covering(rows.count.max(1), THREADS);
        let begun = self.state().begin(table, rows.count);
        // SAFETY: the caller's promise; the rest is the table's, and stays while the reading lasts.
        unsafe {
            match begun {
                None => engine.kernels.read()?.get.launch(grid, &get, stream)?,
                Some((copies, clock)) => {
                    let params = CachedGetParams { get, cache: copies.params(clock) };
                    reading._copies = Some(copies);
                    self.kernels.get.launch(grid, &params, stream)?;
                }
            }
        }
        Ok(reading)
    }

    /// The same with a thread a key instead of a warp, always from the image: what warps that work together are compared with.
    ///
    /// # Safety
    /// As [`get_rows`](DeviceEngine::get_rows).
    pub unsafe fn get_alone<'r, P: Persist>(
        &self,
        engine: &'r DeviceEngine<P>,
        table: &Table<P>,
        rows: &GetRows,
        stream: &'r Stream,
    ) -> Result<PaperReading<'r>, TableError> {
        let (reading, get) = begin(engine, table, rows, stream)?;
        let grid = Grid::covering(rows.count.max(1), THREADS);
        // SAFETY: the caller's promise; the rest is the table's, and stays while the reading lasts.
        unsafe { self.kernels.get_alone.launch(grid, &get, stream)? };
        Ok(reading)
    }
}

/// What a batch needs before its kernel is launched.
fn begin<'r, P: Persist>(
    engine: &'r DeviceEngine<P>,
    table: &Table<P>,
    rows: &GetRows,
    stream: &'r Stream,
) -> Result<(PaperReading<'r>, GetParams), TableError> {
    check_count(rows.count)?;
    let (staying, guard) = (engine.stay(), table.heap.pin());
    let get = GetParams {
        table: TableParams::new(table, table.levels(&guard), engine.image.cover()?),
        count: rows.count,
        keys: rows.keys,
        statuses: rows.statuses,
        versions: rows.versions,
        values: rows.values,
    };
    Ok((PaperReading { stream, _copies: None, _staying: staying, _guard: guard }, get))
}
