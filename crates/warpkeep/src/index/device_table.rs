//! What the planner needs of a device that runs the batches of a table.
//!
//! An index that devices support implements [`DeviceTable`], and its table names the implementation as
//! [`Planned::Device`](super::Planned). The traits are grouped by capability: [reads](DeviceReads), writes in
//! [two phases](TwoPhaseWrites), [fused](FusedWrites) writes, the [value cache](ValueCache). Code with one of them is
//! compiled for each index, so a batch is dispatched once.
//!
//! The image is the truth, and the CPU can always read and write the table. A device is an accelerator that may be lost
//! at any time; [`Execution`](crate::device::Execution) then takes the table over.
#![allow(unsafe_code, reason = "the makers of columns in device memory promise that they are valid")]

use std::sync::Arc;

use warpkeep_core::{AnswerRows, Answers, ChangeKind, Op, Operation, Status};
use warpkeep_device::{Device, DevicePtr, Stream};
use warpkeep_image::Persist;
use warpkeep_record::{Budget, Progress};

use super::{
    DeviceImage, DeviceProfile, FusedRows, GetRows, HostGets, HostRows, HostWrites, KeysFound, StepTime,
    StepWatch, ValueBudget, ValueCacheStats, WriteRows,
};
use crate::Result;

/// A device that runs the batches of a table of the type `T`.
///
/// One thread at a time writes to the table, with the device or with the CPU: the one that has the [write
/// lock](WriteLock). Items move only while a thread has the relocation lock, which excludes kernels that look for
/// items. A thread that needs both takes the write lock first.
pub(crate) trait DeviceTable<P: Persist, T>:
    DeviceReads<T> + ValueCache<T> + StepTimes + Send + Sync + Sized
{
    /// The device for a table of the image, which is not in use yet; `None` if devices do not support such a table.
    fn open(image: &Arc<DeviceImage<P>>, table: &T) -> Result<Option<Self>>;

    /// The device itself.
    fn device(&self) -> &Device;

    /// Whether the device can write to the table, and not only read it.
    fn can_write(&self, table: &T) -> bool;

    /// Whether the device can do batches of this operation as [fused writes](FusedWrites) from host memory.
    fn can_write_fused(&self, table: &T, op: Op) -> bool;

    /// Builds the index of the table in device memory; returns whether there is one. The device keeps it up to date
    /// from then on.
    fn load_index(&self, table: &T) -> Result<bool>;

    /// Builds the cuckoo index of a table that the device only reads; returns whether there is one. The device keeps it up
    /// to date from then on.
    fn load_cuckoo_index(&self, table: &T) -> Result<bool>;

    /// Bytes of device memory that the index takes.
    fn index_bytes(&self) -> u64;

    /// Starts a thread that allocates space for the next batches in the background.
    fn allocate_ahead(&self);

    /// The thresholds by which the device does batches.
    fn profile(&self) -> DeviceProfile;

    /// Replaces them, for batches that begin from now on.
    fn set_profile(&self, profile: DeviceProfile);

    /// Waits for the right to write to the table.
    #[must_use = "other threads write as soon as it is dropped"]
    fn write_lock(&self) -> impl WriteLock<T>;

    /// Excludes kernels that look for items. Its holder has the write lock, unless the device cannot write.
    #[must_use = "kernels look for items as soon as it is dropped"]
    fn relocation_lock(&self) -> impl Sized;

    /// The same, if it need not wait for kernels.
    fn try_relocation_lock(&self) -> Option<impl Sized>;

    /// Removes from the table what a lost device that wrote to it has left unfinished. The caller has the write lock.
    fn take_over(table: &T);

    /// Lets the CPU move items of a table whose device is lost. The caller excludes all that looks for items.
    fn release(table: &T);
}

/// Gets, and copies of batches between host and device memory.
pub(crate) trait DeviceReads<T> {
    /// Looks keys up. `each` gets the answers in order: the version and the value of a key that exists.
    fn get_many(
        &self,
        table: &T,
        keys: &[&[u8]],
        each: impl FnMut(usize, Option<(u64, &[u8])>),
    ) -> Result<()>;

    /// Looks up keys in device memory, after the work already in the stream. The answers are there when it returns.
    ///
    /// # Safety
    /// The columns are memory of this device, as long as [`GetRows`] says, and no other code uses them meanwhile.
    unsafe fn get_rows(&self, table: &T, rows: &GetRows, stream: &Stream) -> Result<()>;

    /// As [`get_rows`](DeviceReads::get_rows), but returns when the kernels are in the stream. `None`, with nothing enqueued, if
    /// keys or values are rows that must be copied first.
    ///
    /// # Safety
    /// As [`get_rows`](DeviceReads::get_rows), until the gets are finished or dropped.
    unsafe fn enqueue_rows<'r>(
        &'r self,
        table: &'r T,
        rows: &GetRows,
        stream: &'r Stream,
    ) -> Result<Option<Box<dyn EnqueuedGets + 'r>>>;

    /// Whether the device knows where records lie, so that [`gather`](DeviceReads::gather) is possible.
    fn can_gather(&self, table: &T) -> bool;

    /// Looks up keys in host memory: the device locates the records, and threads of the host copy the values. `None`,
    /// with nothing answered, if that is not possible.
    fn gather(&self, table: &T, gets: HostGets<'_>) -> Result<Option<KeysFound>>;

    /// Whether the device can write values to the memory of these answers, so that [`split`](DeviceReads::split) is
    /// possible.
    fn can_split(&self, table: &T, answers: &mut AnswerRows<'_>) -> bool;

    /// As [`gather`](DeviceReads::gather), and the device copies a share of the values itself.
    fn split(&self, table: &T, gets: HostGets<'_>) -> Result<Option<KeysFound>>;

    /// Copies a batch to host memory, after the work already in the stream.
    ///
    /// # Safety
    /// The columns are memory of this device and as long as [`WriteRows`] says.
    unsafe fn copy_rows(&self, table: &T, rows: &WriteRows, stream: &Stream) -> Result<HostRows>;

    /// Copies keys and values of a batch to pinned host memory, after the work already in the stream.
    ///
    /// # Safety
    /// The columns are memory of this device, as long as [`FusedRows`] says, and no other code writes to them
    /// meanwhile.
    unsafe fn pin_rows(&self, table: &T, rows: &FusedRows, stream: &Stream) -> Result<impl PinnedColumns>;

    /// Copies bytes to device memory, after the work already in the stream. They are there when it returns.
    ///
    /// # Safety
    /// There is memory of this device for as many bytes, and no other code uses it meanwhile.
    unsafe fn copy_bytes(&self, to: DevicePtr, bytes: &[u8], stream: &Stream) -> Result<()>;
}

/// Gets whose kernels are in a stream. Until they are finished or dropped, both of which wait for them, the table keeps everything
/// that the kernels read.
pub(crate) trait EnqueuedGets {
    /// Waits for the answers.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// Keys and values of a batch in pinned host memory.
pub(crate) trait PinnedColumns {
    /// All keys, each in a row of whole words.
    fn keys(&self) -> &[u8];
    /// All values; none of deletes.
    fn values(&self) -> &[u8];
}

/// Values of the most requested keys in device memory.
pub(crate) trait ValueCache<T> {
    /// Its counters; all zeros if there is no cache.
    fn value_cache_stats(&self) -> Result<ValueCacheStats>;

    /// Begins to count which keys are requested; `false` if there is no memory for that, or no index in device memory.
    fn count_requests(&self, table: &T) -> Result<bool>;

    /// Loads the values of the most requested keys; `false` if there is no memory for any.
    fn load_values(&self, table: &T, budget: ValueBudget) -> Result<bool>;
}

/// How long the steps of batches take, for measurements of the library itself.
pub(crate) trait StepTimes {
    /// Begins, or ceases, to note it.
    fn time_steps(&self, wanted: bool);
    /// The times since the last call, batch by batch.
    fn take_step_times(&self) -> Vec<Vec<StepTime>>;
    /// Begins to time the steps of a batch, if that is wanted.
    fn watch_steps(&self) -> StepWatch<'_>;
}

/// The right to write to a table that has a device, with the device or with the CPU.
pub(crate) trait WriteLock<T>: TwoPhaseWrites<T> + FusedWrites<T> {
    /// A slice of the table's growth, with the device moving the items.
    fn maintain(&mut self, table: &T, budget: Budget) -> Result<Progress>;
}

/// Batches of any operations, in two phases: the device decides them and writes what is not reachable yet; once that is
/// logged, it publishes them. In between the host knows all decisions.
pub(crate) trait TwoPhaseWrites<T> {
    /// Stages operations in host memory. Operation `i` that writes gives its item the version `first_version + i`.
    fn stage<'s>(
        &'s mut self,
        table: &'s T,
        operations: &[Operation<'_>],
        first_version: u64,
    ) -> Result<impl TwoPhaseStage>;

    /// Stages operations in device memory, after the work already in the stream.
    ///
    /// # Safety
    /// The columns are memory of this device and as long as [`WriteRows`] says, and stay until the stage has been
    /// published or dropped.
    unsafe fn stage_rows<'s>(
        &'s mut self,
        table: &'s T,
        rows: &WriteRows,
        first_version: u64,
        stream: &Stream,
    ) -> Result<impl TwoPhaseStage>;
}

/// A batch that a device has decided and staged: no other thread sees any of it. Dropped, it leaves nothing behind.
pub(crate) trait TwoPhaseStage {
    /// The number of operations.
    fn count(&self) -> usize;

    /// Whether the device has done nothing about operation `index`, and leaves it to the CPU: its key occurs more than
    /// once in the batch, or found no place.
    fn is_for_cpu(&self, index: usize) -> bool;

    /// The status of operation `index`.
    fn status(&self, index: usize) -> Status;

    /// The version that operation `index` is answered with.
    fn version(&self, index: usize) -> u64;

    /// The value that operation `index`, a get or a fetch-add, is answered with.
    fn answer(&self, index: usize) -> &[u8];

    /// What operation `index` does to its key, if it changes it.
    fn change(&self, index: usize) -> Option<ChangeKind>;

    /// The value that operation `index` writes: the result of a merge or a fetch-add.
    fn written(&self, index: usize) -> Vec<u8>;

    /// Copies the values that operations are answered with to device memory.
    ///
    /// # Safety
    /// There are as many rows as operations, and no other code uses them meanwhile.
    unsafe fn answer_rows(&self, to: DevicePtr) -> Result<()>;

    /// Makes all of it visible. An error says that the device is lost; the CPU has published the batch then.
    fn publish(&mut self) -> Result<()>;
}

/// Large batches of one operation, in one pass. Without a log nothing returns to the host between deciding and
/// publishing; with one, only which operations take effect.
pub(crate) trait FusedWrites<T> {
    /// Writes a batch in device memory, after the work already in the stream, and answers there. Nothing is logged.
    /// `false`, with nothing done, if a fused write is not possible at the moment. After an error some of it may be
    /// done.
    ///
    /// # Safety
    /// The columns are memory of this device, as long as [`FusedRows`] says, and no other code uses them meanwhile.
    unsafe fn write_rows(
        &mut self,
        table: &T,
        rows: &FusedRows,
        first_version: u64,
        stream: &Stream,
    ) -> Result<bool>;

    /// Decides a batch in device memory, after the work already in the stream, and answers there. `None` if a fused
    /// write is not possible at the moment.
    ///
    /// # Safety
    /// As for [`write_rows`](FusedWrites::write_rows), until the stage has been published or dropped.
    unsafe fn decide_rows<'s>(
        &'s mut self,
        table: &'s T,
        rows: &FusedRows,
        first_version: u64,
        stream: &Stream,
    ) -> Result<Option<impl FusedStage>>;

    /// Writes a batch in host memory, part by part, and answers. Nothing is logged. Counts in `done` how many
    /// operations are done, from the first on: all of them, unless a fused write became impossible. After an error some
    /// of the others may be done.
    fn write_from_host(
        &mut self,
        table: &T,
        writes: &HostWrites<'_>,
        first_version: u64,
        answers: &mut dyn Answers,
        done: &mut usize,
    ) -> Result<()>;

    /// The same, with each part committed by the caller. After an error the parts that are not counted are not done.
    fn commit_from_host(
        &mut self,
        table: &T,
        writes: &HostWrites<'_>,
        first_version: u64,
        answers: &mut dyn Answers,
        done: &mut usize,
        commit: &impl CommitPart,
    ) -> Result<()>;
}

/// Commits the parts of a fused write from host memory.
pub(crate) trait CommitPart {
    /// Waits until the log takes another part. The thread has the write lock.
    fn admit(&self) -> Result<()>;

    /// Logs and publishes a part. `first` is the number of its first operation in the batch, which writes the version
    /// `first_version`. `None`, with nothing of the part done, ends the fused write.
    fn commit(&self, first: usize, first_version: u64, stage: impl FusedStage)
    -> Result<Option<PartAnswers>>;
}

/// The answers of a part of a fused write.
pub(crate) struct PartAnswers {
    /// The device's, a status code for each operation.
    pub(crate) statuses: Vec<u8>,
    /// The CPU's, which replace those: number in the batch, status and version, in the order of the batch.
    pub(crate) by_cpu: Vec<(usize, Status, u64)>,
}

/// A fused write that the device has decided, and of which nothing is in the image. Dropped, it leaves nothing behind.
pub(crate) trait FusedStage {
    /// Waits until the batch is decided. After an error the stage can only be dropped.
    fn decided(&mut self) -> Result<FusedDecisions>;

    /// Writes it: when this returns, all effects are in the image. Calls `meanwhile` while the device writes. After an
    /// error some effects may be in the image, and the device must not be used again.
    fn publish(&mut self, meanwhile: impl FnOnce()) -> Result<()>;
}

/// The decisions of a fused write.
pub(crate) struct FusedDecisions {
    /// For each operation 1 if it takes effect, or 0. At most one of the operations on a key does.
    pub(crate) effects: Vec<u8>,
    /// For each operation the code of its status, unless it is left to the CPU.
    pub(crate) statuses: Vec<u8>,
    /// The numbers of the operations that the device leaves to the CPU, in order. None of them has an effect.
    pub(crate) for_cpu: Vec<u32>,
}

/// Why a device could not do a batch: [`Error::device_failure`](crate::Error).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceFailure {
    /// It has no memory for it. It can be used for other batches.
    OutOfMemory,
    /// It cannot be used any more.
    Lost,
}
