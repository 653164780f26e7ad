//! Gets of keys that a caller has as slices in host memory, answered one by one to a closure.
//!
//! Keys are copied to pinned memory and sent to the device. Tables with fixed lengths use two workspaces: while the
//! answers of one chunk of keys are passed to the closure, the device looks up the next. Tables with variable lengths
//! need two launches a chunk: the first finds the records and the lengths of the values, the second copies the values
//! one behind the other.

use crossbeam_epoch::Guard;
use warpkeep_core::Status;
use warpkeep_device::{DevicePtr, Grid, Stream};
use warpkeep_image::Persist;

use crate::gpu::batch::fill_keys;
use crate::gpu::engine::{Columns, DeviceEngine, THREADS, Workspace, is_fixed};
use crate::gpu::index::IndexSnapshot;
use crate::gpu::params::{CopyParams, GetParams, MeasureParams, TableParams};
use crate::gpu::write::two_phase::words;
use crate::{Table, TableError};

/// Keys of a chunk, at least and at most: a quarter of a batch, so that lookups and answers overlap, but enough that
/// reads in address order are near each other.
const CHUNK_KEYS: (usize, usize) = (1 << 17, 1 << 20);
/// Keys of a chunk in a table with variable lengths.
const VARIABLE_CHUNK_KEYS: usize = 1 << 17;
/// Words of values that one launch copies: 64 MiB, or a single value if that is longer.
const COPIED_WORDS: u64 = 8 << 20;

/// Keys in device memory, and where their answers go.
#[derive(Clone, Copy)]
pub(super) struct SentKeys {
    pub(super) count: usize,
    pub(super) keys: DevicePtr,
    pub(super) wants_versions: bool,
    /// Rows of whole words for the values; `None` to copy them to the host side of the workspace.
    pub(super) values: Option<DevicePtr>,
}

impl<P: Persist> DeviceEngine<P> {
    /// Looks keys up. Passes each answer to `each`, in order, while the device looks up the next keys.
    pub fn get_many<'k>(
        &self,
        table: &Table<P>,
        keys: impl ExactSizeIterator<Item = &'k [u8]>,
        mut each: impl FnMut(usize, Option<(u64, &[u8])>),
    ) -> Result<(), TableError> {
        let keys: Vec<&[u8]> = keys.collect();
        keys.iter().try_for_each(|key| table.key.check(key))?;
        if !is_fixed(table) {
            let done = self.get_by_signatures(table, &keys, &mut each)?;
            let keys = &keys[done..];
            return match keys.is_empty() {
                true => Ok(()),
                false => self.get_variable(table, keys, |index, found| each(done + index, found)),
            };
        }
        let chunk_keys = (keys.len() / 4).clamp(CHUNK_KEYS.0, CHUNK_KEYS.1);
        let chunks: Vec<&[&[u8]]> = keys.chunks(chunk_keys).collect();
        let mut workspaces = Vec::new();
        while workspaces.len() < chunks.len().min(2) {
            workspaces.push(self.take_workspace()?);
        }
        let relocation = self.relocation_read();
        // Records that kernels find stay while the epoch is pinned.
        let guard = &table.heap.pin();
        let mut snapshots = [None, None];
        let mut work = || {
            for number in 0..chunks.len() + workspaces.len() {
                let which = number % workspaces.len();
                if let Some(answered) = number.checked_sub(workspaces.len()) {
                    let first = answered * chunk_keys;
                    answer(table, &workspaces[which], chunks[answered].len(), |index, found| {
                        each(first + index, found);
                    })?;
                }
                if let Some(keys) = chunks.get(number) {
                    snapshots[which] = self.send_and_get(table, &mut workspaces[which], keys, guard)?;
                }
            }
            Ok(())
        };
        let done = work();
        self.return_workspaces(workspaces, (relocation, snapshots), done)
    }

    /// Sends keys to the device and enqueues their lookup. Returns the snapshot to keep until the stream is
    /// synchronised.
    fn send_and_get(
        &self,
        table: &Table<P>,
        workspace: &mut Workspace,
        keys: &[&[u8]],
        guard: &Guard,
    ) -> Result<Option<IndexSnapshot>, TableError> {
        let (count, key_words) = (keys.len(), words(table.key_row()));
        fill_keys(table, keys, workspace.columns.keys.host(self.device(), count * key_words)?);
        let Workspace { columns, stream, .. } = workspace;
        // SAFETY: the stream is synchronised before the columns are used again.
        let keys = unsafe { columns.keys.send::<u64>(self.device(), count * key_words, stream)? };
        let sent = SentKeys { count, keys, wants_versions: true, values: None };
        // SAFETY: `count` keys have just been sent, and values go to the workspace.
        unsafe { self.get_sent(table, workspace, sent, guard) }
    }

    /// Enqueues the lookup of keys that the workspace's stream sends to the device. Returns the snapshot to keep
    /// until the stream is synchronised.
    ///
    /// # Safety
    /// There are `count` keys, in the stream of the workspace, and memory for as many values, which nothing else uses
    /// until the stream is synchronised.
    pub(super) unsafe fn get_sent(
        &self,
        table: &Table<P>,
        workspace: &mut Workspace,
        sent: SentKeys,
        guard: &Guard,
    ) -> Result<Option<IndexSnapshot>, TableError> {
        let SentKeys { count, keys, wants_versions, values } = sent;
        let (device, columns) = (self.device(), &mut workspace.columns);
        let value_words = words(table.value.max_len());
        let params = GetParams {
            table: self.table_params(table, guard)?,
            count: count as u64,
            keys,
            statuses: columns.statuses.reserve(device, count)?,
            versions: match wants_versions {
                true => columns.versions.reserve(device, 8 * count)?,
                false => DevicePtr::NULL,
            },
            values: match values {
                Some(values) => values,
                None => columns.answers.reserve(device, 8 * count * value_words)?,
            },
        };
        // Chunks of a batch overlap, so they are no steps of it.
        let mut timed = self.fused.timer.begin_untimed();
        // SAFETY: the columns hold `count` answers and are not used until the stream is synchronised; the rest is the
        // caller's promise.
        unsafe {
            let shares_link = values.is_some();
            let snapshot =
                self.launch_gets(table, params, columns, &workspace.stream, shares_link, &mut timed)?;
            let (columns, stream) = (&mut workspace.columns, &workspace.stream);
            columns.statuses.fetch::<u8>(device, count, stream)?;
            if wants_versions {
                columns.versions.fetch::<u64>(device, count, stream)?;
            }
            if values.is_none() {
                columns.answers.fetch::<u64>(device, count * value_words, stream)?;
            }
            Ok(snapshot)
        }
    }

    /// As [`DeviceEngine::get_many`], for variable lengths. The keys have been checked.
    fn get_variable(
        &self,
        table: &Table<P>,
        keys: &[&[u8]],
        mut each: impl FnMut(usize, Option<(u64, &[u8])>),
    ) -> Result<(), TableError> {
        let mut workspace = self.take_workspace()?;
        let relocation = self.relocation_read();
        // Records stay while the epoch is pinned, so values can be copied after they have been measured.
        let guard = &table.heap.pin();
        for (number, keys) in keys.chunks(VARIABLE_CHUNK_KEYS).enumerate() {
            let params = self.table_params(table, guard)?;
            self.get_variable_chunk(&mut workspace, params, keys, |index, found| {
                each(number * VARIABLE_CHUNK_KEYS + index, found);
            })?;
        }
        drop(relocation);
        self.keep_workspace(workspace);
        Ok(())
    }

    fn get_variable_chunk(
        &self,
        workspace: &mut Workspace,
        table: TableParams,
        keys: &[&[u8]],
        mut each: impl FnMut(usize, Option<(u64, &[u8])>),
    ) -> Result<(), TableError> {
        let count = keys.len();
        let Workspace { columns, stream, .. } = workspace;
        self.measure(columns, table, keys, stream)?;
        let statuses: Vec<u8> = columns.statuses.fetched(count).to_vec();
        let versions: Vec<u64> = columns.versions.fetched(count).to_vec();
        let lengths: Vec<u64> = columns.lengths.fetched(count).to_vec();
        let mut first = 0;
        while first < count {
            // As many values as fit, one behind the other; at least one.
            let mut begins = Vec::new();
            let mut total = 0;
            for &length in &lengths[first..] {
                let more = length.div_ceil(8);
                if total > 0 && total + more > COPIED_WORDS {
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

    /// Finds keys, and fetches statuses, versions and lengths of values.
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
        // SAFETY: the columns hold `count` items each, and the keys `total` words; the stream is synchronised before
        // they are used again.
        unsafe {
            let params = MeasureParams {
                table,
                count: count as u64,
                keys: columns.keys.send::<u64>(device, total, stream)?,
                begins: columns.begins.send::<u64>(device, count, stream)?,
                lengths: columns.ranks.send::<u32>(device, count, stream)?,
                statuses: columns.statuses.reserve(device, count)?,
                versions: columns.versions.reserve(device, 8 * count)?,
                values_at: columns.records.reserve(device, 8 * count)?,
                value_lengths: columns.lengths.reserve(device, 8 * count)?,
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

    /// Copies the values of keys from `first` on, each to the word where it begins, `total` words in all, and fetches
    /// them.
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
        // SAFETY: the columns hold `count` items each, and the values `total` words; the caller's epoch keeps the
        // records, and the stream is synchronised before the columns are used again.
        unsafe {
            let params = CopyParams {
                table,
                count: count as u64,
                values_at: columns.records.ptr().offset(8 * first as u64),
                value_lengths: columns.lengths.ptr().offset(8 * first as u64),
                to: columns.begins.send::<u64>(device, count, stream)?,
                values: columns.values.reserve(device, 8 * total)?,
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

/// Waits for the answers of a chunk, and passes them on.
fn answer<P: Persist>(
    table: &Table<P>,
    workspace: &Workspace,
    count: usize,
    mut each: impl FnMut(usize, Option<(u64, &[u8])>),
) -> Result<(), TableError> {
    workspace.stream.synchronize()?;
    let (value_len, row) = (table.value.max_len(), 8 * words(table.value.max_len()));
    let statuses: &[u8] = workspace.columns.statuses.fetched(count);
    let versions: &[u64] = workspace.columns.versions.fetched(count);
    let values: &[u8] = bytemuck::cast_slice(workspace.columns.answers.fetched::<u64>(count * row / 8));
    for (index, (&status, &version)) in statuses.iter().zip(versions).enumerate() {
        let value = &values[row * index..][..value_len];
        each(index, (status == Status::Ok as u8).then_some((version, value)));
    }
    Ok(())
}
