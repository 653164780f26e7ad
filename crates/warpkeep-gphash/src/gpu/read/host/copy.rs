//! Copies by threads of the host: keys to pinned memory, and values from the image to the answers.
//!
//! A thread prefetches the records of the next keys, because each is a cache miss. The loop over values is
//! specialised for common lengths: whatever a core executes besides waiting for memory delays the next miss.

use warpkeep_core::{AnswerRows, Answers, HostCells, KeyCells, Status};
use warpkeep_device::{Device, DevicePtr, StagedBuffer};
use warpkeep_image::Persist;
use warpkeep_record::{Streaming, Value, prefetch};

use super::{Gathered, TASK_ROWS};
use crate::gpu::batch::put_key;
use crate::gpu::engine::Workspace;
use crate::gpu::params::BUSY;
use crate::gpu::write::two_phase::words;
use crate::{Table, TableError};

/// Records that a thread prefetches ahead: as many as a core can have outstanding misses.
const PREFETCH_DISTANCE: usize = 16;
/// Bytes of a cache line, and lines of a value that are prefetched, at most: the hardware prefetches the rest once it
/// sees the pattern.
const LINE_BYTES: usize = 64;
const MOST_LINES: usize = 4;
/// Stands for a value length that is not a compile-time constant.
const ANY_LEN: usize = 0;

/// Copies a range of the caller's keys or values to the host side of a staging buffer, as rows of whole words.
pub(in crate::gpu) struct StagingTask<'t> {
    cells: HostCells<'t>,
    first: usize,
    to: &'t mut [u64],
    /// Words of a row.
    words: usize,
    /// The cells of keys, where the table stores keys in cells.
    key_cells: Option<KeyCells>,
}

impl<'t> StagingTask<'t> {
    /// Tasks for `count` keys of a table from `first` on.
    pub(in crate::gpu) fn keys<P: Persist>(
        device: &Device,
        column: &'t mut StagedBuffer,
        table: &Table<P>,
        keys: HostCells<'t>,
        (first, count): (usize, usize),
    ) -> Result<Vec<StagingTask<'t>>, TableError> {
        let key_cells = table.key_cells();
        let tasks = StagingTask::values(device, column, keys, (first, count), words(table.key_row()))?;
        Ok(tasks.into_iter().map(|task| StagingTask { key_cells, ..task }).collect())
    }

    /// Tasks for `count` values from `first` on, in rows of `words` words.
    pub(in crate::gpu) fn values(
        device: &Device,
        column: &'t mut StagedBuffer,
        cells: HostCells<'t>,
        (first, count): (usize, usize),
        words: usize,
    ) -> Result<Vec<StagingTask<'t>>, TableError> {
        let column = column.host::<u64>(device, count * words)?;
        // Values may have no bytes at all.
        let parts = column.chunks_mut((TASK_ROWS * words).max(1)).enumerate();
        let task =
            |(part, to)| StagingTask { cells, first: first + part * TASK_ROWS, to, words, key_cells: None };
        Ok(parts.map(task).collect())
    }

    /// Whether the caller's keys are rows of whole words as kernels read them.
    pub(super) fn keys_are_rows<P: Persist>(table: &Table<P>, keys: HostCells<'_>) -> bool {
        are_rows(keys, words(table.key_row())) && table.key_cells().is_none()
    }

    /// The address for the device of `count` keys from `first` on, if it reaches them in the caller's memory and
    /// kernels can read them there.
    pub(super) fn reachable_keys<P: Persist>(
        device: &Device,
        table: &Table<P>,
        keys: HostCells<'_>,
        (first, count): (usize, usize),
    ) -> Option<DevicePtr> {
        let HostCells::Fixed { len, bytes } = keys else { return None };
        let at =
            device.reach(&bytes[first * len..][..count * len]).filter(|at| at.address().is_multiple_of(8))?;
        StagingTask::keys_are_rows(table, keys).then_some(at)
    }

    /// Copies the rows.
    pub(in crate::gpu) fn run(self) {
        let StagingTask { cells, first, to, words, key_cells } = self;
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

/// Whether cells are rows of `words` words.
fn are_rows(cells: HostCells<'_>, words: usize) -> bool {
    matches!(cells, HostCells::Fixed { len, .. } if len == 8 * words)
}

/// Answers keys from `first` on by the statuses and versions that the workspace has fetched. `found` answers the keys
/// that exist; it gets their index among these answers, and the version, or 0 if the caller does not want versions.
pub(super) fn answer_from_workspace(
    workspace: &Workspace,
    first: usize,
    mut answers: AnswerRows<'_>,
    mut found: impl FnMut(&mut AnswerRows<'_>, usize, u64),
) -> Gathered {
    let end = first + answers.len();
    let statuses = &workspace.columns.statuses.fetched::<u8>(end)[first..];
    let versions: &[u64] = match answers.wants_versions() {
        true => &workspace.columns.versions.fetched::<u64>(end)[first..],
        false => &[],
    };
    let mut gathered = Gathered::default();
    for (index, &status) in statuses.iter().enumerate() {
        match status == Status::Ok as u8 {
            true => {
                found(&mut answers, index, versions.get(index).copied().unwrap_or(0));
                gathered.found += 1;
            }
            false => {
                answers.answer(index, Status::NotFound, 0);
                gathered.absent += 1;
            }
        }
    }
    gathered
}

/// Where the answers of a task go.
pub(super) trait ValueAnswers {
    fn wants_versions(&self) -> bool;

    /// Answers a key that exists; `copy` copies the value. Returns whether the answer was accepted.
    fn found(
        &mut self,
        index: usize,
        version: u64,
        value: &[u8],
        copy: impl FnOnce(&[u8], &mut [u8]),
    ) -> bool;

    /// Answers a key that does not exist.
    fn absent(&mut self, index: usize);
}

impl ValueAnswers for AnswerRows<'_> {
    #[inline(always)]
    fn wants_versions(&self) -> bool {
        AnswerRows::wants_versions(self)
    }

    #[inline(always)]
    fn found(
        &mut self,
        index: usize,
        version: u64,
        value: &[u8],
        copy: impl FnOnce(&[u8], &mut [u8]),
    ) -> bool {
        self.answer_by(index, Status::Ok, version, value, copy) == Status::Ok
    }

    #[inline(always)]
    fn absent(&mut self, index: usize) {
        self.answer(index, Status::NotFound, 0);
    }
}

/// Copies the values of a batch.
pub(super) struct ValueCopier<'c, P: Persist> {
    pub(super) table: &'c Table<P>,
    /// Whether a located record is certain to be that of its key.
    pub(super) exact: bool,
    /// Whether stores bypass the caches.
    pub(super) streamed: bool,
}

impl<P: Persist> ValueCopier<'_, P> {
    /// Answers keys by their located records: an offset, 0 if the key does not exist, or `BUSY` to fall back to the
    /// image. The caller has pinned the epoch since before the records were located. `key_of` returns a key for
    /// comparison and fallback; where it returns `None` the key is not answered.
    pub(super) fn copy<'k>(
        &self,
        records: &[u64],
        key_of: impl Fn(usize) -> Option<&'k [u8]>,
        answers: &mut impl ValueAnswers,
    ) -> Gathered {
        let ValueCopier { table, exact, streamed } = *self;
        // Only the value is read: key and version are in another cache line.
        if exact && !answers.wants_versions() && table.form.value_ref(0).is_some() {
            // A copy of constant length takes half the instructions.
            return match table.value.max_len() {
                64 => self.copy_values::<64>(records, &key_of, answers),
                128 => self.copy_values::<128>(records, &key_of, answers),
                256 => self.copy_values::<256>(records, &key_of, answers),
                512 => self.copy_values::<512>(records, &key_of, answers),
                _ => self.copy_values::<ANY_LEN>(records, &key_of, answers),
            };
        }
        let (image, form) = (table.image(), table.form);
        let streaming = streamed.then(Streaming::begin);
        let copy = |from: &[u8], to: &mut [u8]| match &streaming {
            Some(streaming) => streaming.copy(from, to),
            None => to.copy_from_slice(from),
        };
        let mut gathered = Gathered::default();
        records.iter().take(PREFETCH_DISTANCE).for_each(|&record| self.prefetch_record(record));
        for (index, &record) in records.iter().enumerate() {
            records.get(index + PREFETCH_DISTANCE).into_iter().for_each(|&later| self.prefetch_record(later));
            if self.is_record(record) {
                let found = form.at(image, record);
                if exact || key_of(index).is_some_and(|key| found.has_key(image, key)) {
                    let value = Value::new(image, found.item());
                    gathered.found += u64::from(answers.found(index, value.version(), value.bytes(), copy));
                    continue;
                }
            }
            self.answer_without_record(record, index, &key_of, answers, &mut gathered);
        }
        gathered
    }

    /// As [`copy`](ValueCopier::copy) where only values are read, of `LEN` bytes each.
    fn copy_values<'k, const LEN: usize>(
        &self,
        records: &[u64],
        key_of: &impl Fn(usize) -> Option<&'k [u8]>,
        answers: &mut impl ValueAnswers,
    ) -> Gathered {
        match self.streamed {
            true => self.copy_values_by::<LEN, true>(records, key_of, answers),
            false => self.copy_values_by::<LEN, false>(records, key_of, answers),
        }
    }

    /// The loop has no branch whose outcome is known before it.
    fn copy_values_by<'k, const LEN: usize, const STREAMED: bool>(
        &self,
        records: &[u64],
        key_of: &impl Fn(usize) -> Option<&'k [u8]>,
        answers: &mut impl ValueAnswers,
    ) -> Gathered {
        let (image, tile) = (self.table.image(), self.table.form.tile());
        let len = if LEN == ANY_LEN { self.table.value.max_len() } else { LEN };
        let streaming = STREAMED.then(Streaming::begin);
        let copy = |from: &[u8], to: &mut [u8]| match &streaming {
            Some(streaming) => streaming.copy(from, to),
            None => to.copy_from_slice(from),
        };
        let value_at = |record: u64| tile.map_or(record, |tile| tile.value_at(record));
        // An address that is no record is harmless to prefetch.
        let (first_byte, lines) = (image.pointer(0, 8), len.div_ceil(LINE_BYTES).min(MOST_LINES));
        let prefetch_value = |record: u64| {
            let value = first_byte.wrapping_add(value_at(record) as usize);
            (0..lines).for_each(|line| prefetch::line(value.wrapping_add(LINE_BYTES * line)));
        };
        // The last offset at which a value can begin.
        let last = image.len().saturating_sub(len as u64);
        let mut gathered = Gathered::default();
        records.iter().take(PREFETCH_DISTANCE).for_each(|&record| prefetch_value(record));
        for (index, &record) in records.iter().enumerate() {
            records.get(index + PREFETCH_DISTANCE).into_iter().for_each(|&later| prefetch_value(later));
            let at = value_at(record);
            if record <= BUSY || !record.is_multiple_of(8) || at > last {
                self.answer_without_record(record, index, key_of, answers, &mut gathered);
                continue;
            }
            // SAFETY: a published record does not change, and is not freed while the epoch is pinned, which the
            // caller has done.
            let value = unsafe { image.bytes(at, len as u64) };
            gathered.found += u64::from(answers.found(index, 0, &value[..len], copy));
        }
        gathered
    }

    /// Answers a key that has no record to copy from: it does not exist, or the image has to be probed.
    #[cold]
    #[inline(never)]
    fn answer_without_record<'k>(
        &self,
        record: u64,
        index: usize,
        key_of: &impl Fn(usize) -> Option<&'k [u8]>,
        answers: &mut impl ValueAnswers,
        gathered: &mut Gathered,
    ) {
        let found = match (record, key_of(index)) {
            (0, _) => None,
            // The item was changing, or another key has the same hash: fall back to the image.
            (_, Some(key)) => self.table.get(key, |value| {
                let copy = |from: &[u8], to: &mut [u8]| to.copy_from_slice(from);
                answers.found(index, value.version(), value.bytes(), copy)
            }),
            (_, None) => return,
        };
        match found {
            Some(accepted) => gathered.found += u64::from(accepted),
            None => {
                answers.absent(index);
                gathered.absent += 1;
            }
        }
    }

    /// Whether a record can be at this offset.
    #[inline(always)]
    fn is_record(&self, record: u64) -> bool {
        let image = self.table.image();
        let is_within = match self.table.form.tile() {
            Some(tile) => {
                image.contains(tile.value_at(record), tile.value()) && image.contains(tile.tail_at(record), 8)
            }
            None => image.contains(record, self.table.form.block_len()),
        };
        record > BUSY && record.is_multiple_of(8) && is_within
    }

    #[inline(always)]
    fn prefetch_record(&self, record: u64) {
        if self.is_record(record) {
            self.table.record_lines.fetch(self.table.image(), record, prefetch::line);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use warpkeep_core::{KeySpec, MergeRule, Seed, ValueSpec};
    use warpkeep_image::{Coherent, Format, Heap, HeapOptions, Image, MIN_CHUNK, PlainMemory, Surroundings};

    use super::*;
    use crate::{Geometry, Layout, TableError, TableSpec};

    /// The values that were found, with their indices.
    #[derive(Default)]
    struct FoundValues(Vec<(usize, Vec<u8>)>);

    impl ValueAnswers for FoundValues {
        fn wants_versions(&self) -> bool {
            false
        }

        fn found(&mut self, index: usize, _: u64, value: &[u8], copy: impl FnOnce(&[u8], &mut [u8])) -> bool {
            let mut row = vec![0; value.len()];
            copy(value, &mut row);
            self.0.push((index, row));
            true
        }

        fn absent(&mut self, _: usize) {}
    }

    fn table(value_len: u32) -> Table<Coherent> {
        let memory = PlainMemory::new(4 * MIN_CHUNK, 60 * MIN_CHUNK);
        let format = Format { store_id: [1; 16], chunk_size: MIN_CHUNK, hash_seed: 7 };
        let surroundings = Surroundings::default();
        let image =
            Image::format(Arc::new(memory), Coherent, Path::new("memory"), &format, surroundings).unwrap();
        image.begin(1).unwrap();
        let heap = Heap::recover::<TableError>(&Arc::new(image), HeapOptions::default(), |_| Ok(())).unwrap();
        let spec = TableSpec {
            key: KeySpec::U64,
            value: ValueSpec::fixed(value_len).unwrap(),
            geometry: Geometry::default(),
            capacity: 80,
            layout: Layout::Packed,
            merge: MergeRule::None,
            seed: Seed(3),
        };
        Table::create(&Arc::new(heap), &spec).unwrap()
    }

    /// Lengths with a specialised loop and others; more records than are prefetched; and offsets that are no records.
    #[test]
    fn values_of_every_length_are_copied_and_invalid_offsets_are_not() {
        for value_len in [8, 40, 64, 72, 128, 192, 256, 320, 512, 1024] {
            let table = table(value_len);
            let (image, len) = (table.image(), u64::from(value_len));
            let end = image.len();
            // The last chunk is still free.
            let start = end - MIN_CHUNK;
            (start..end).step_by(8).for_each(|at| image.store(at, at.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            let tiled = table.form.tile().is_some();
            let blocks = (MIN_CHUNK / len.next_multiple_of(64)).min(100);
            let record = |number: u64| start + number * len.next_multiple_of(64) + if tiled { 8 } else { 0 };
            let mut records: Vec<u64> = (0..blocks).map(record).collect();
            // Absent; busy; misaligned; at the end; across the end, or behind it, since values in tiles cannot cross
            // it; the largest offset.
            let across = if tiled { end + 64 } else { end - len + 8 };
            let invalid = [0, BUSY, start + 3, end, across, !7];
            for (at, invalid) in invalid.into_iter().enumerate() {
                records.insert(3 * at, invalid);
            }
            for streamed in [false, true] {
                let mut found = FoundValues::default();
                let gathered =
                    ValueCopier { table: &table, exact: true, streamed }.copy(&records, |_| None, &mut found);
                let expected: Vec<(usize, Vec<u8>)> = records
                    .iter()
                    .enumerate()
                    .filter(|(_, record)| !invalid.contains(record))
                    .map(|(index, &record)| {
                        let at = table.form.value_at(record);
                        let words = (at..at + len).step_by(8).map(|at| image.load(at).to_le_bytes());
                        (index, words.flatten().collect())
                    })
                    .collect();
                assert!(found.0 == expected, "values of {value_len} bytes, streamed {streamed}");
                assert_eq!((gathered.found, gathered.absent), (expected.len() as u64, 1), "{value_len}");
            }
        }
    }
}
