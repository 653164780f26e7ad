//! Gets in tables whose values have any length, or whose keys have and lie in no cells. Writes are the CPU's, who has the turn meanwhile.

use warpkeep_core::Status;
use warpkeep_device::{Grid, Stream};
use warpkeep_image::Persist;

use super::columns::Columns;
use super::engine::{DeviceEngine, THREADS, Workplace};
use super::params::{CopyParams, MeasureParams, TableParams};
use super::stage::words;
use crate::{Table, TableError};

/// Keys that are looked up by one launch.
const AT_ONCE: usize = 1 << 17;
/// Words of values that are copied by one launch: 64 MiB, or as many as a single value has.
const COPIED: u64 = 8 << 20;

impl<P: Persist> DeviceEngine<P> {
    /// As [`DeviceEngine::get_many`], for keys that have been checked.
    pub(super) fn get_variable(
        &self,
        table: &Table<P>,
        keys: &[&[u8]],
        mut each: impl FnMut(usize, Option<(u64, &[u8])>),
    ) -> Result<(), TableError> {
        let mut place = self.take_place()?;
        let staying = self.stay();
        // What kernels find stays while the epoch is pinned, so values can be copied after they have been measured.
        let guard = &table.heap.pin();
        for (number, keys) in keys.chunks(AT_ONCE).enumerate() {
            let params = self.table_params(table, guard)?;
            self.get_some(&mut place, params, keys, |index, found| each(number * AT_ONCE + index, found))?;
        }
        drop(staying);
        self.keep_place(place);
        Ok(())
    }

    fn get_some(
        &self,
        place: &mut Workplace,
        table: TableParams,
        keys: &[&[u8]],
        mut each: impl FnMut(usize, Option<(u64, &[u8])>),
    ) -> Result<(), TableError> {
        let count = keys.len();
        let Workplace { columns, stream, .. } = place;
        self.measure(columns, table, keys, stream)?;
        let statuses: Vec<u8> = columns.statuses.fetched(count).to_vec();
        let versions: Vec<u64> = columns.versions.fetched(count).to_vec();
        let lengths: Vec<u64> = columns.lengths.fetched(count).to_vec();
        let mut first = 0;
        while first < count {
            // As many values as fit, each behind the other; at least one.
            let mut begins = Vec::new();
            let mut total = 0;
            for &length in &lengths[first..] {
                let more = length.div_ceil(8);
                if total > 0 && total + more > COPIED {
                    break;
                }
                begins.push(total);
                total += more;
            }
            self.copy(columns, table, first, &begins, total as usize, stream)?;
            let values: &[u8] = bytemuck::cast_slice(columns.values.fetched::<u64>(total as usize));
            for (index, begin) in (first..).zip(&begins) {
                let value = &values[8 * *begin as usize..][..lengths[index] as usize];
                each(index, (statuses[index] == Status::Ok as u8).then_some((versions[index], value)));
            }
            first += begins.len();
        }
        Ok(())
    }

    /// Finds keys; statuses, versions and lengths of values are fetched.
    fn measure(
        &self,
        columns: &mut Columns,
        table: TableParams,
        keys: &[&[u8]],
        stream: &Stream,
    ) -> Result<(), TableError> {
        let (device, count) = (self.device(), keys.len());
        let total: usize = keys.iter().map(|key| words(key.len())).sum();
        let rows: &mut [u8] = bytemuck::cast_slice_mut(columns.keys.host::<u64>(device, total)?);
        let begins = columns.begins.host::<u64>(device, count)?;
        let lengths = columns.ranks.host::<u32>(device, count)?;
        let mut begin = 0;
        for (key, (to_begin, to_length)) in keys.iter().zip(begins.iter_mut().zip(lengths)) {
            let row = &mut rows[8 * begin..][..8 * words(key.len())];
            row[..key.len()].copy_from_slice(key);
            row[key.len()..].fill(0);
            (*to_begin, *to_length) = (begin as u64, key.len() as u32);
            begin += words(key.len());
        }
        // SAFETY: the columns are as long as the kernel takes them to be; the stream is synchronised before they are used again.
        unsafe {
            let params = MeasureParams {
                table,
                count: count as u64,
                keys: columns.keys.send::<u64>(device, total, stream)?,
                begins: columns.begins.send::<u64>(device, count, stream)?,
                lengths: columns.ranks.send::<u32>(device, count, stream)?,
                statuses: columns.statuses.room(device, count)?,
                versions: columns.versions.room(device, 8 * count)?,
                values_at: columns.records.room(device, 8 * count)?,
                value_lengths: columns.lengths.room(device, 8 * count)?,
            };
            self.kernels.variable()?.measure.launch(
                Grid::covering(count.max(1) as u64, THREADS),
                &params,
                stream,
            )?;
            columns.statuses.fetch::<u8>(device, count, stream)?;
            columns.versions.fetch::<u64>(device, count, stream)?;
            columns.lengths.fetch::<u64>(device, count, stream)?;
        }
        Ok(stream.synchronize()?)
    }

    /// Copies the values of keys from `first` on to where each is to begin, `total` words together; they are fetched.
    fn copy(
        &self,
        columns: &mut Columns,
        table: TableParams,
        first: usize,
        begins: &[u64],
        total: usize,
        stream: &Stream,
    ) -> Result<(), TableError> {
        if total == 0 {
            return Ok(());
        }
        let (device, count) = (self.device(), begins.len());
        columns.begins.host::<u64>(device, count)?.copy_from_slice(begins);
        // SAFETY: as for the lookup; the records are kept by the caller's epoch.
        unsafe {
            let params = CopyParams {
                table,
                count: count as u64,
                values_at: columns.records.at().offset(8 * first as u64),
                value_lengths: columns.lengths.at().offset(8 * first as u64),
                to: columns.begins.send::<u64>(device, count, stream)?,
                values: columns.values.room(device, 8 * total)?,
            };
            self.kernels.variable()?.copy.launch(
                Grid::covering(32 * count as u64, THREADS),
                &params,
                stream,
            )?;
            columns.values.fetch::<u64>(device, total, stream)?;
        }
        Ok(stream.synchronize()?)
    }
}
