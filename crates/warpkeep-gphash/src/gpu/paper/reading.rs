//! The paper's gets with keys and answers in device memory: through the bucket cache, and with one thread per key.

use std::sync::Arc;

use warpkeep_device::{Grid, Stream};
use warpkeep_image::Persist;

use super::cache::Cache;
use super::{CachedGetParams, Paper};
use crate::gpu::engine::{DeviceEngine, RelocationRead, THREADS, check_count};
use crate::gpu::params::{GetParams, TableParams};
use crate::gpu::read::GetRows;
use crate::{Table, TableError};

/// A batch of gets that is running.
pub struct PaperReading<'r> {
    stream: &'r Stream,
    // Held until the kernel has finished: the cache, the positions of items, and their records.
    _cache: Option<Arc<Cache>>,
    _relocation: RelocationRead<'r>,
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
        // The table may free what the kernel reads as soon as the fields are dropped. A failure belongs to the stream:
        // its next use returns the error.
        let _ = self.stream.synchronize();
    }
}

impl Paper {
    /// As [`get_rows`](DeviceEngine::get_rows), from the bucket cache, and from the image for buckets that it does not
    /// hold.
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
        let cache = self.state().begin(table, rows.count);
        // SAFETY: the caller promises the columns; `reading` holds the table's memory until the kernel has finished.
        unsafe {
            match cache {
                None => engine.kernels.read()?.get.launch(grid, &get, stream)?,
                Some((cache, clock)) => {
                    let params = CachedGetParams { get, cache: cache.params(clock) };
                    reading._cache = Some(cache);
                    self.kernels.get.launch(grid, &params, stream)?;
                }
            }
        }
        Ok(reading)
    }

    /// As [`get_rows`](DeviceEngine::get_rows), from the image, with one thread per key instead of a warp: the baseline
    /// for warps that cooperate.
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
        // SAFETY: the caller promises the columns; `reading` holds the table's memory until the kernel has finished.
        unsafe { self.kernels.get_alone.launch(grid, &get, stream)? };
        Ok(reading)
    }
}

/// Takes what a batch holds while its kernel runs, and makes the kernel's parameters.
fn begin<'r, P: Persist>(
    engine: &'r DeviceEngine<P>,
    table: &Table<P>,
    rows: &GetRows,
    stream: &'r Stream,
) -> Result<(PaperReading<'r>, GetParams), TableError> {
    check_count(rows.count)?;
    let (relocation, guard) = (engine.relocation_read(), table.heap.pin());
    let get = GetParams {
        table: TableParams::new(table, table.levels(&guard), engine.image.cover()?),
        count: rows.count,
        keys: rows.keys,
        statuses: rows.statuses,
        versions: rows.versions,
        values: rows.values,
    };
    Ok((PaperReading { stream, _cache: None, _relocation: relocation, _guard: guard }, get))
}
