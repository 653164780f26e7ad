//! Batches of a slab hash in device memory.

use bytemuck::checked;
use warpkeep_device::{
    Buffer, Device, DevicePtr, Event, Grid, Result, StagedBuffer, Stream, TypedKernel, Workspace,
};

use super::batch::Columns;
use super::cell::CellValue;
use super::kernels::{Codes, Requests, THREADS};
use super::request::{RawRequest, SlabAnswer, SlabOpKind, SlabStatus};
use super::table::{COUNTER_LINES, CounterLine, Counts, SlabTable};
use crate::slab_alloc::check_column;

/// Columns of a batch of slices, and what the host has to know of every batch.
#[derive(Debug, Default)]
pub(super) struct Staged {
    codes: StagedBuffer,
    keys: StagedBuffer,
    values: StagedBuffer,
    statuses: StagedBuffer,
    found: StagedBuffer,
    /// The table's counters, in memory of the host.
    counters: StagedBuffer,
    /// A number that a kernel counts in.
    counter: StagedBuffer,
}

impl Staged {
    /// The address of a counter that is zero once the stream comes there.
    pub(super) fn counter(&mut self, device: &Device, stream: &Stream) -> Result<DevicePtr> {
        self.counter.zeros(device, 8, stream)
    }

    /// What has been counted when the stream is done. Waits for it.
    pub(super) fn counted(&self, stream: &Stream) -> Result<u64> {
        Ok(self.counter.take::<u64>(1, stream)?[0])
    }

    /// What was read of the table's counters.
    fn counts(&self) -> Counts {
        Counts::of(self.counters.fetched::<CounterLine>(COUNTER_LINES))
    }
}

impl SlabTable {
    /// Runs requests, some of which may change the table, at the same time; gives the answer to each.
    pub(super) fn apply<K: bytemuck::Pod, V: CellValue>(
        &mut self,
        requests: impl ExactSizeIterator<Item = RawRequest<K, V>> + Clone,
    ) -> Result<Vec<SlabAnswer<V>>> {
        let puts = requests.clone().filter(RawRequest::is_put).count() as u64;
        if puts > 0 {
            let counts = self.known_counts().map_or_else(|| self.read_counts(), Ok)?;
            self.make_room(counts, puts)?;
        }
        // What the table holds is not known if the batch fails.
        self.counts = None;
        let (answers, counts) = self.run(true, requests, None)?;
        self.counts = counts;
        if let Some(counts) = counts
            && answers.iter().any(|answer| answer.may_tell_of_a_change())
        {
            self.tidy(counts)?;
        }
        Ok(answers)
    }

    /// Runs requests that change nothing; values are gathered in the column, if there is one.
    pub(super) fn read<K: bytemuck::Pod, V: CellValue>(
        &self,
        requests: impl ExactSizeIterator<Item = RawRequest<K, V>>,
        gathered: Option<&Buffer>,
    ) -> Result<Vec<SlabAnswer<V>>> {
        Ok(self.run(false, requests, gathered)?.0)
    }

    /// Runs a batch in device memory after what is in the stream, and waits for it.
    ///
    /// # Safety
    /// The columns are as long as the batch says, and no other code uses them meanwhile.
    pub(super) unsafe fn apply_on(&mut self, columns: &Columns, stream: &Stream) -> Result<()> {
        check_column(self.counters(), 0, 0, "a slab hash", stream)?;
        let kind = |code: u8| checked::try_cast::<u8, SlabOpKind>(code).ok();
        let is_read = columns.codes.is_null() && kind(columns.code).is_none_or(SlabOpKind::is_read);
        if is_read {
            // SAFETY: the caller's promise; the event is waited for.
            return unsafe { self.enqueue_read(columns, None, stream)?.synchronize() };
        }
        let most_puts = match (columns.codes.is_null(), kind(columns.code)) {
            (true, kind) if !kind.is_some_and(SlabOpKind::is_put) => 0,
            _ => columns.count as u64,
        };
        let mut workspace = self.workspaces.take(&self.device)?;
        let staged = &mut workspace.columns;
        // SAFETY: the caller's promise.
        let counts = unsafe { self.apply_staged(columns, most_puts, staged, stream)? };
        self.workspaces.put_back(workspace);
        self.tidy(counts)
    }

    /// Makes room for a batch, runs it and waits for it; gives what the table holds then. While there is room for the most that the batch can
    /// store, this wait is the only one.
    ///
    /// # Safety
    /// As [`apply_on`](Self::apply_on).
    unsafe fn apply_staged(
        &mut self,
        columns: &Columns,
        most_puts: u64,
        staged: &mut Staged,
        stream: &Stream,
    ) -> Result<Counts> {
        if most_puts > 0 {
            let counts = match self.known_counts() {
                Some(counts) => counts,
                None => {
                    self.enqueue_counts(staged, stream)?;
                    stream.synchronize()?;
                    staged.counts()
                }
            };
            if !self.has_room(counts, most_puts) {
                let puts = match columns.codes.is_null() {
                    true => most_puts,
                    // SAFETY: the caller's promise.
                    false => unsafe { self.count_puts(columns, staged, stream)? },
                };
                // Kernels of the caller may still be using the table, which moves if it grows.
                stream.synchronize()?;
                self.make_room(counts, puts)?;
            }
        }
        // All memory is there before the first change. What the table holds is not known if the batch fails.
        staged.counters.host::<CounterLine>(&self.device, COUNTER_LINES)?;
        self.counts = None;
        // SAFETY: the caller's promise.
        unsafe { self.launch(&self.kernels.apply, columns, None, stream)? };
        self.enqueue_counts(staged, stream)?;
        stream.synchronize()?;
        let counts = staged.counts();
        self.counts = Some(counts);
        Ok(counts)
    }

    /// Starts to read the counters; once the stream is synchronised the workspace has them.
    fn enqueue_counts(&self, staged: &mut Staged, stream: &Stream) -> Result<()> {
        let to = staged.counters.host::<CounterLine>(&self.device, COUNTER_LINES)?;
        // SAFETY: the memory is pinned and stays; the callers in this file synchronise the stream before they look at it.
        unsafe { self.counters().read_behind(0, to, stream) }
    }

    /// Starts a batch that changes nothing; gives the event of its end.
    ///
    /// # Safety
    /// As [`apply_on`](Self::apply_on), and until the event the table is neither changed nor dropped.
    pub(super) unsafe fn enqueue_read(
        &self,
        columns: &Columns,
        gathered: Option<&Buffer>,
        stream: &Stream,
    ) -> Result<Event> {
        // SAFETY: the caller's promise.
        unsafe { self.launch(&self.kernels.read, columns, gathered, stream)? };
        stream.record()
    }

    /// How many requests of a batch may store something.
    ///
    /// # Safety
    /// As [`apply_on`](Self::apply_on).
    unsafe fn count_puts(&self, columns: &Columns, staged: &mut Staged, stream: &Stream) -> Result<u64> {
        let puts = staged.counter(&self.device, stream)?;
        let params = Codes { codes: columns.codes, count: columns.count as u64, puts };
        // SAFETY: the caller's promise; the counter stays until it is read.
        unsafe { self.kernels.count_puts.launch(Grid::covering(params.count, THREADS), &params, stream)? };
        staged.counted(stream)
    }

    /// # Safety
    /// The columns are as long as the batch says, and no other code uses them, nor changes the table, until the stream is synchronised.
    unsafe fn launch(
        &self,
        kernel: &TypedKernel<Requests>,
        columns: &Columns,
        gathered: Option<&Buffer>,
        stream: &Stream,
    ) -> Result<()> {
        if columns.count == 0 {
            return Ok(());
        }
        let element = self.cell.value_bytes().max(1);
        let requests = Requests {
            table: self.reference(),
            codes: columns.codes,
            keys: columns.keys,
            values: columns.values,
            statuses: columns.statuses,
            found: columns.found,
            count: columns.count as u64,
            gathered: gathered.map_or(DevicePtr::NULL, Buffer::ptr),
            room: gathered.map_or(0, |column| (column.len() / element) as u64),
            code: columns.code.into(),
            reserved: 0,
        };
        // SAFETY: the caller's promise.
        unsafe { kernel.launch(Grid::covering(requests.count, THREADS), &requests, stream) }
    }

    /// Runs a batch of slices; gives the answers, and what the table holds then, if the batch changes it.
    fn run<K: bytemuck::Pod, V: CellValue>(
        &self,
        changes: bool,
        requests: impl ExactSizeIterator<Item = RawRequest<K, V>>,
        gathered: Option<&Buffer>,
    ) -> Result<(Vec<SlabAnswer<V>>, Option<Counts>)> {
        let (device, count, has_values) = (&self.device, requests.len(), size_of::<V>() > 0);
        if count == 0 {
            return Ok((Vec::new(), None));
        }
        let mut workspace = self.workspaces.take(device)?;
        let Workspace { columns, stream, .. } = &mut workspace;
        let codes = columns.codes.host::<u8>(device, count)?;
        let keys = columns.keys.host::<K>(device, count)?;
        let values = if has_values { columns.values.host::<V>(device, count)? } else { &mut [] };
        for (at, request) in requests.enumerate() {
            (codes[at], keys[at]) = (request.code, request.key);
            if let Some(value) = values.get_mut(at) {
                *value = request.value;
            }
        }
        // All memory is there before the first change.
        columns.statuses.host::<u8>(device, count)?;
        if has_values {
            columns.found.host::<V>(device, count)?;
        }
        if changes {
            columns.counters.host::<CounterLine>(device, COUNTER_LINES)?;
        }
        let kernel = if changes { &self.kernels.apply } else { &self.kernels.read };
        // SAFETY: the stream is synchronised before the columns are used again, and before the workspace is put back.
        unsafe {
            let batch = Columns {
                codes: columns.codes.send::<u8>(device, count, stream)?,
                code: 0,
                keys: columns.keys.send::<K>(device, count, stream)?,
                values: match has_values {
                    true => columns.values.send::<V>(device, count, stream)?,
                    false => DevicePtr::NULL,
                },
                statuses: columns.statuses.reserve(device, count)?,
                found: match has_values {
                    true => columns.found.reserve(device, size_of::<V>() * count)?,
                    false => DevicePtr::NULL,
                },
                count,
            };
            self.launch(kernel, &batch, gathered, stream)?;
            columns.statuses.fetch::<u8>(device, count, stream)?;
            if has_values {
                columns.found.fetch::<V>(device, count, stream)?;
            }
        }
        if changes {
            self.enqueue_counts(columns, stream)?;
        }
        stream.synchronize()?;
        let counts = changes.then(|| columns.counts());
        let statuses: &[SlabStatus] = checked::cast_slice(columns.statuses.fetched::<u8>(count));
        let found = if has_values { columns.found.fetched::<V>(count) } else { &[] };
        let answer = |(at, status): (usize, &SlabStatus)| {
            SlabAnswer::of(*status, found.get(at).copied().unwrap_or_default())
        };
        let answers = statuses.iter().enumerate().map(answer).collect();
        self.workspaces.put_back(workspace);
        Ok((answers, counts))
    }
}
