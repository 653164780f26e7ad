//! Keys and values of a batch in device memory, copied to pinned memory of the host once, for whoever logs them.

use warpkeep_device::{DevicePtr, Stream};
use warpkeep_image::Persist;

use super::engine::{DeviceEngine, Workplace, check_fixed};
use super::straight::StraightRows;
use crate::{Table, TableError};

/// Keys and values of a batch, on the host. Their memory is kept for the next batch when this is dropped.
pub struct PinnedRows<'e, P: Persist> {
    engine: &'e DeviceEngine<P>,
    place: Option<Workplace>,
    key_bytes: usize,
    value_bytes: usize,
}

impl<P: Persist> DeviceEngine<P> {
    /// Copies keys and values of a batch whose rows are whole words, after what is in the stream.
    ///
    /// # Safety
    /// The columns are memory of this engine's device, as long as [`StraightRows`] says, and nobody writes to them meanwhile.
    pub unsafe fn pin_rows(
        &self,
        table: &Table<P>,
        rows: &StraightRows,
        stream: &Stream,
    ) -> Result<PinnedRows<'_, P>, TableError> {
        check_fixed(table)?;
        let bytes = |at: DevicePtr, len: usize| match at.is_null() {
            true => 0,
            false => rows.count as usize * len.next_multiple_of(8),
        };
        let (key_bytes, value_bytes) =
            (bytes(rows.keys, table.key_row()), bytes(rows.values, table.value.max_len()));
        // After an error it is dropped, which waits for the device.
        let mut place = self.take_place()?;
        let columns = &mut place.columns;
        for (column, from, bytes) in
            [(&mut columns.keys, rows.keys, key_bytes), (&mut columns.values, rows.values, value_bytes)]
        {
            column.host::<u8>(self.device(), bytes)?;
            // SAFETY: the caller's promise; the host's side is the place's, and the stream is synchronised next.
            unsafe { self.device().copy_raw(column.host_ptr(), from, bytes, stream)? };
        }
        stream.synchronize()?;
        Ok(PinnedRows { engine: self, place: Some(place), key_bytes, value_bytes })
    }
}

impl<P: Persist> PinnedRows<'_, P> {
    /// All keys, one after the other; or their [cells](Table::key_cells).
    pub fn keys(&self) -> &[u8] {
        self.place.as_ref().map_or(&[], |place| place.columns.keys.fetched(self.key_bytes))
    }

    /// All values; none of deletes.
    pub fn values(&self) -> &[u8] {
        self.place.as_ref().map_or(&[], |place| place.columns.values.fetched(self.value_bytes))
    }
}

impl<P: Persist> Drop for PinnedRows<'_, P> {
    fn drop(&mut self) {
        self.place.take().into_iter().for_each(|place| self.engine.keep_place(place));
    }
}
