//! Values that change keep their rows: a batch that is written straight through puts them into other rows, and those that they had are used
//! again when nobody can be reading them.

use crossbeam_epoch::Guard;
use warpkeep_device::DevicePtr;
use warpkeep_image::Persist;

use super::Rows;
use super::load::Release;
use crate::TableError;
use crate::gpu::engine::{DeviceEngine, Workplace};
use crate::gpu::params::{GetParams, TableParams};
use crate::gpu::straight::params::{FollowParams, StraightParams};

impl<P: Persist> DeviceEngine<P> {
    /// Has spare rows, if there are some that nobody reads. The caller has the turn.
    pub(in crate::gpu) fn find_spares(
        &self,
        place: &mut Workplace,
        params: TableParams,
        rows: &Rows,
        guard: &Guard,
    ) -> Result<(), TableError> {
        if let Some(list) = rows.wants_spares() {
            let count = self.release(place, params, rows, &Release::NONE, list)?;
            rows.await_spares(count, guard);
        }
        Ok(())
    }

    /// Puts the values of a batch that replace what is in rows into spare rows, as far as there are some; `batch.rows` has a word for
    /// each operation that acts, and `batch.came` is told how many rows it took.
    ///
    /// # Safety
    /// As for the kernels of the batch, between which this comes; it has the mirror that the rows belong to.
    pub(in crate::gpu) unsafe fn follow(
        &self,
        place: &Workplace,
        batch: &StraightParams,
        rows: &Rows,
    ) -> Result<(), TableError> {
        let (spares, spare_count) = rows.spare();
        let params = FollowParams {
            batch: *batch,
            rows: GetParams {
                table: batch.table,
                count: spare_count,
                keys: DevicePtr::NULL,
                statuses: DevicePtr::NULL,
                versions: DevicePtr::NULL,
                values: rows.params().rows,
            },
            spares,
            spare_count,
        };
        // SAFETY: the caller's promise; spare rows are read by nobody.
        unsafe { place.launch(&self.kernels.values()?.follow, batch.count, &params) }
    }
}
