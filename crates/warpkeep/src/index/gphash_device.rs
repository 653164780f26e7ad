//! GPHash tables on a device. The only file of this crate that names the device types of GPHash.
#![allow(unsafe_code, reason = "the makers of columns in device memory promise that they are valid")]

use std::sync::Arc;

use warpkeep_core::{AnswerRows, Answers, ChangeKind, Op, Operation, Status};
use warpkeep_device::{Device, DevicePtr, Stream};
use warpkeep_gphash::gpu::{
    self, Decided, DeviceEngine, DeviceStage, FusedStage as DeviceFusedStage, PinnedRows, SentPart,
    WriteLock as DeviceWriteLock,
};
use warpkeep_gphash::{Table, TableError};
use warpkeep_image::Persist;
use warpkeep_record::{Budget, Progress};

// Plain data, the same for every index on a device.
pub(crate) use warpkeep_gphash::gpu::{
    DeviceImage, FusedRows, Gathered as KeysFound, GetRows, HostGets, HostRows, HostWrites, RowOps, StepTime,
    TimedBatch as StepWatch, ValueRoom as ValueBudget, ValuesStats as ValueCacheStats, WriteRows,
};
pub use warpkeep_gphash::gpu::{DeviceProfile, PublishBy};

use super::device_table::{
    CommitPart, DeviceReads, DeviceTable, EnqueuedGets, FusedDecisions, FusedStage, FusedWrites, PartAnswers,
    PinnedColumns, StepTimes, TwoPhaseStage, TwoPhaseWrites, ValueCache, WriteLock,
};
use crate::{Error, Result};

/// The device of a GPHash table.
pub(crate) struct GpHashDevice<P: Persist>(DeviceEngine<P>);

/// The right to write to such a table.
struct Writer<'d, P: Persist>(DeviceWriteLock<'d, P>);

/// A batch that is staged in two phases.
struct Staged<'s, 'd, P: Persist>(DeviceStage<'s, 'd, P>);

/// A fused write that is decided.
struct Fused<'s, 'd, P: Persist>(DeviceFusedStage<'s, 'd, P>);

/// Columns in pinned memory.
struct Pinned<'d, P: Persist>(PinnedRows<'d, P>);

/// Gets whose kernels are in a stream.
struct Enqueued<'r>(gpu::Reading<'r>);

impl EnqueuedGets for Enqueued<'_> {
    fn finish(self: Box<Self>) -> Result<()> {
        Ok(self.0.finish()?)
    }
}

impl<P: Persist> DeviceTable<P, Table<P>> for GpHashDevice<P> {
    fn open(image: &Arc<DeviceImage<P>>, table: &Table<P>) -> Result<Option<Self>> {
        match DeviceEngine::new(image, table) {
            Ok(engine) => Ok(Some(GpHashDevice(engine))),
            Err(TableError::NotForDevices { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn device(&self) -> &Device {
        self.0.device()
    }

    fn can_write(&self, table: &Table<P>) -> bool {
        self.0.writes(table)
    }

    fn can_write_fused(&self, table: &Table<P>, op: Op) -> bool {
        self.0.writes_fused(table, op)
    }

    fn load_index(&self, table: &Table<P>) -> Result<bool> {
        Ok(self.0.build_index(table)?.bytes > 0)
    }

    fn load_cuckoo_index(&self, table: &Table<P>) -> Result<bool> {
        Ok(self.0.build_cuckoo_index(table)?)
    }

    fn index_bytes(&self) -> u64 {
        self.0.index_bytes()
    }

    fn allocate_ahead(&self) {
        self.0.refill_ahead();
    }

    fn profile(&self) -> DeviceProfile {
        self.0.profile()
    }

    fn set_profile(&self, profile: DeviceProfile) {
        self.0.adjust(|current| *current = profile);
    }

    fn write_lock(&self) -> impl WriteLock<Table<P>> {
        Writer(self.0.write_lock())
    }

    fn relocation_lock(&self) -> impl Sized {
        self.0.relocation_write()
    }

    fn try_relocation_lock(&self) -> Option<impl Sized> {
        self.0.try_relocation_write()
    }

    fn take_over(table: &Table<P>) {
        table.take_over();
    }

    fn release(table: &Table<P>) {
        table.release_from_device();
    }
}

impl<P: Persist> DeviceReads<Table<P>> for GpHashDevice<P> {
    fn get_many(
        &self,
        table: &Table<P>,
        keys: &[&[u8]],
        each: impl FnMut(usize, Option<(u64, &[u8])>),
    ) -> Result<()> {
        Ok(self.0.get_many(table, keys.iter().copied(), each)?)
    }

    unsafe fn get_rows(&self, table: &Table<P>, rows: &GetRows, stream: &Stream) -> Result<()> {
        // SAFETY: as this function's contract says.
        unsafe { self.0.get_bytes(table, rows, stream) }.map_err(Error::from)
    }

    unsafe fn enqueue_rows<'r>(
        &'r self,
        table: &'r Table<P>,
        rows: &GetRows,
        stream: &'r Stream,
    ) -> Result<Option<Box<dyn EnqueuedGets + 'r>>> {
        if !self.0.takes_rows(table, rows) {
            return Ok(None);
        }
        // SAFETY: as this function's contract says.
        let reading = unsafe { self.0.get_rows(table, rows, stream)? };
        Ok(Some(Box::new(Enqueued(reading))))
    }

    fn can_gather(&self, table: &Table<P>) -> bool {
        self.0.locates_for_host(table)
    }

    fn gather(&self, table: &Table<P>, gets: HostGets<'_>) -> Result<Option<KeysFound>> {
        Ok(self.0.gather_rows(table, gets)?)
    }

    fn can_split(&self, table: &Table<P>, answers: &mut AnswerRows<'_>) -> bool {
        self.0.can_split(table, answers)
    }

    fn split(&self, table: &Table<P>, gets: HostGets<'_>) -> Result<Option<KeysFound>> {
        Ok(self.0.split_rows(table, gets)?)
    }

    unsafe fn copy_rows(&self, table: &Table<P>, rows: &WriteRows, stream: &Stream) -> Result<HostRows> {
        // SAFETY: as this function's contract says.
        Ok(unsafe { self.0.copy_rows(table, rows, stream)? })
    }

    unsafe fn pin_rows(
        &self,
        table: &Table<P>,
        rows: &FusedRows,
        stream: &Stream,
    ) -> Result<impl PinnedColumns> {
        // SAFETY: as this function's contract says.
        Ok(Pinned(unsafe { self.0.pin_rows(table, rows, stream)? }))
    }

    unsafe fn copy_bytes(&self, to: DevicePtr, bytes: &[u8], stream: &Stream) -> Result<()> {
        // SAFETY: as this function's contract says.
        unsafe { self.0.copy_bytes(to, bytes, stream) }.map_err(Error::from)
    }
}

impl<P: Persist> PinnedColumns for Pinned<'_, P> {
    fn keys(&self) -> &[u8] {
        self.0.keys()
    }

    fn values(&self) -> &[u8] {
        self.0.values()
    }
}

impl<P: Persist> ValueCache<Table<P>> for GpHashDevice<P> {
    fn value_cache_stats(&self) -> Result<ValueCacheStats> {
        Ok(self.0.values_stats()?)
    }

    fn count_requests(&self, table: &Table<P>) -> Result<bool> {
        Ok(self.0.learn_values(table)?)
    }

    fn load_values(&self, table: &Table<P>, budget: ValueBudget) -> Result<bool> {
        Ok(self.0.load_values(table, budget)?.rows > 0)
    }
}

impl<P: Persist> StepTimes for GpHashDevice<P> {
    fn time_steps(&self, wanted: bool) {
        self.0.time_steps(wanted);
    }

    fn take_step_times(&self) -> Vec<Vec<StepTime>> {
        self.0.take_step_times()
    }

    fn watch_steps(&self) -> StepWatch<'_> {
        self.0.watch_steps()
    }
}

impl<P: Persist> WriteLock<Table<P>> for Writer<'_, P> {
    fn maintain(&mut self, table: &Table<P>, budget: Budget) -> Result<Progress> {
        Ok(self.0.maintain(table, budget.pieces_of(table.bucket_items()))?)
    }
}

impl<P: Persist> TwoPhaseWrites<Table<P>> for Writer<'_, P> {
    fn stage<'s>(
        &'s mut self,
        table: &'s Table<P>,
        operations: &[Operation<'_>],
        first_version: u64,
    ) -> Result<impl TwoPhaseStage> {
        Ok(Staged(self.0.stage(table, operations, first_version)?))
    }

    unsafe fn stage_rows<'s>(
        &'s mut self,
        table: &'s Table<P>,
        rows: &WriteRows,
        first_version: u64,
        stream: &Stream,
    ) -> Result<impl TwoPhaseStage> {
        // SAFETY: as this function's contract says.
        Ok(Staged(unsafe { self.0.stage_rows(table, rows, first_version, stream)? }))
    }
}

impl<P: Persist> TwoPhaseStage for Staged<'_, '_, P> {
    fn count(&self) -> usize {
        self.0.count()
    }

    fn is_for_cpu(&self, index: usize) -> bool {
        self.0.is_fallback(index)
    }

    fn status(&self, index: usize) -> Status {
        self.0.status(index)
    }

    fn version(&self, index: usize) -> u64 {
        self.0.versions()[index]
    }

    fn answer(&self, index: usize) -> &[u8] {
        self.0.answer(index)
    }

    fn change(&self, index: usize) -> Option<ChangeKind> {
        let kind = |removes| if removes { ChangeKind::Delete } else { ChangeKind::Put };
        self.0.change(index).map(kind)
    }

    fn written(&self, index: usize) -> Vec<u8> {
        self.0.written(index)
    }

    unsafe fn answer_rows(&self, to: DevicePtr) -> Result<()> {
        // SAFETY: as this function's contract says.
        unsafe { self.0.answer_rows(to) }.map_err(Error::from)
    }

    fn publish(&mut self) -> Result<()> {
        Ok(self.0.publish()?)
    }
}

impl<P: Persist> FusedWrites<Table<P>> for Writer<'_, P> {
    unsafe fn write_rows(
        &mut self,
        table: &Table<P>,
        rows: &FusedRows,
        first_version: u64,
        stream: &Stream,
    ) -> Result<bool> {
        // SAFETY: as this function's contract says.
        Ok(unsafe { self.0.write_fused(table, rows, first_version, stream)? }.is_some())
    }

    unsafe fn decide_rows<'s>(
        &'s mut self,
        table: &'s Table<P>,
        rows: &FusedRows,
        first_version: u64,
        stream: &Stream,
    ) -> Result<Option<impl FusedStage>> {
        // SAFETY: as this function's contract says.
        Ok(unsafe { self.0.decide_fused(table, rows, first_version, stream)? }.map(Fused))
    }

    fn write_from_host(
        &mut self,
        table: &Table<P>,
        writes: &HostWrites<'_>,
        first_version: u64,
        answers: &mut dyn Answers,
        done: &mut usize,
    ) -> Result<()> {
        Ok(self.0.write_from_host(table, writes, first_version, answers, done)?)
    }

    fn commit_from_host(
        &mut self,
        table: &Table<P>,
        writes: &HostWrites<'_>,
        first_version: u64,
        answers: &mut dyn Answers,
        done: &mut usize,
        commit: &impl CommitPart,
    ) -> Result<()> {
        let each = |turn: &mut DeviceWriteLock<'_, P>,
                    part: &SentPart<'_, P>|
         -> Result<Option<gpu::PartAnswers>> {
            commit.admit()?;
            let Some(stage) = part.decide(turn)? else { return Ok(None) };
            let answered = commit.commit(part.first, part.version, Fused(stage))?;
            let here = |PartAnswers { statuses, by_cpu }| gpu::PartAnswers::Here { statuses, apart: by_cpu };
            Ok(answered.map(here))
        };
        self.0.write_from_host_by(table, writes, first_version, answers, done, each)
    }
}

impl<P: Persist> FusedStage for Fused<'_, '_, P> {
    fn decided(&mut self) -> Result<FusedDecisions> {
        let Decided { effective, statuses, fallbacks } = self.0.learn()?;
        Ok(FusedDecisions { effects: effective, statuses, for_cpu: fallbacks })
    }

    fn publish(&mut self, meanwhile: impl FnOnce()) -> Result<()> {
        self.0.publish(meanwhile)?;
        Ok(())
    }
}
