//! The device of tables that no device supports: there is none.
#![allow(unsafe_code, reason = "the traits have functions for columns in device memory")]

use std::sync::Arc;

use warpkeep_core::{AnswerRows, Answers, ChangeKind, Op, Operation, Status};
use warpkeep_device::{Device, DevicePtr, Stream};
use warpkeep_image::Persist;
use warpkeep_record::{Budget, Progress};

use super::device_table::{
    CommitPart, DeviceReads, DeviceTable, EnqueuedGets, FusedDecisions, FusedStage, FusedWrites,
    PinnedColumns, StepTimes, TwoPhaseStage, TwoPhaseWrites, ValueCache, WriteLock,
};
use super::{
    DeviceImage, DeviceProfile, FusedRows, GetRows, HostGets, HostRows, HostWrites, KeysFound, StepTime,
    StepWatch, ValueBudget, ValueCacheStats, WriteRows,
};
use crate::Result;

/// A device that does not exist. It has no values, so none of its methods is ever called.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NoDevice {}

impl<P: Persist, T> DeviceTable<P, T> for NoDevice {
    fn open(_: &Arc<DeviceImage<P>>, _: &T) -> Result<Option<Self>> {
        Ok(None)
    }

    fn device(&self) -> &Device {
        match *self {}
    }

    fn can_write(&self, _: &T) -> bool {
        match *self {}
    }

    fn can_write_fused(&self, _: &T, _: Op) -> bool {
        match *self {}
    }

    fn load_index(&self, _: &T) -> Result<bool> {
        match *self {}
    }

    fn load_cuckoo_index(&self, _: &T) -> Result<bool> {
        match *self {}
    }

    fn index_bytes(&self) -> u64 {
        match *self {}
    }

    fn allocate_ahead(&self) {
        match *self {}
    }

    fn profile(&self) -> DeviceProfile {
        match *self {}
    }

    fn set_profile(&self, _: DeviceProfile) {
        match *self {}
    }

    fn write_lock(&self) -> impl WriteLock<T> {
        *self
    }

    fn relocation_lock(&self) -> impl Sized {
        *self
    }

    fn try_relocation_lock(&self) -> Option<impl Sized> {
        Some(*self)
    }

    fn take_over(_: &T) {}

    fn release(_: &T) {}
}

impl<T> DeviceReads<T> for NoDevice {
    fn get_many(&self, _: &T, _: &[&[u8]], _: impl FnMut(usize, Option<(u64, &[u8])>)) -> Result<()> {
        match *self {}
    }

    unsafe fn get_rows(&self, _: &T, _: &GetRows, _: &Stream) -> Result<()> {
        match *self {}
    }

    fn can_gather(&self, _: &T) -> bool {
        match *self {}
    }

    fn gather(&self, _: &T, _: HostGets<'_>) -> Result<Option<KeysFound>> {
        match *self {}
    }

    fn can_split(&self, _: &T, _: &mut AnswerRows<'_>) -> bool {
        match *self {}
    }

    fn split(&self, _: &T, _: HostGets<'_>) -> Result<Option<KeysFound>> {
        match *self {}
    }

    unsafe fn enqueue_rows<'r>(
        &'r self,
        _: &'r T,
        _: &GetRows,
        _: &'r Stream,
    ) -> Result<Option<Box<dyn EnqueuedGets + 'r>>> {
        match *self {}
    }

    unsafe fn copy_rows(&self, _: &T, _: &WriteRows, _: &Stream) -> Result<HostRows> {
        match *self {}
    }

    unsafe fn pin_rows(&self, _: &T, _: &FusedRows, _: &Stream) -> Result<impl PinnedColumns> {
        Ok(*self)
    }

    unsafe fn copy_bytes(&self, _: DevicePtr, _: &[u8], _: &Stream) -> Result<()> {
        match *self {}
    }
}

impl PinnedColumns for NoDevice {
    fn keys(&self) -> &[u8] {
        match *self {}
    }

    fn values(&self) -> &[u8] {
        match *self {}
    }
}

impl<T> ValueCache<T> for NoDevice {
    fn value_cache_stats(&self) -> Result<ValueCacheStats> {
        match *self {}
    }

    fn count_requests(&self, _: &T) -> Result<bool> {
        match *self {}
    }

    fn load_values(&self, _: &T, _: ValueBudget) -> Result<bool> {
        match *self {}
    }
}

impl StepTimes for NoDevice {
    fn time_steps(&self, _: bool) {
        match *self {}
    }

    fn take_step_times(&self) -> Vec<Vec<StepTime>> {
        match *self {}
    }

    fn watch_steps(&self) -> StepWatch<'_> {
        match *self {}
    }
}

impl<T> WriteLock<T> for NoDevice {
    fn maintain(&mut self, _: &T, _: Budget) -> Result<Progress> {
        match *self {}
    }
}

impl<T> TwoPhaseWrites<T> for NoDevice {
    fn stage<'s>(&'s mut self, _: &'s T, _: &[Operation<'_>], _: u64) -> Result<impl TwoPhaseStage> {
        Ok(*self)
    }

    unsafe fn stage_rows<'s>(
        &'s mut self,
        _: &'s T,
        _: &WriteRows,
        _: u64,
        _: &Stream,
    ) -> Result<impl TwoPhaseStage> {
        Ok(*self)
    }
}

impl TwoPhaseStage for NoDevice {
    fn count(&self) -> usize {
        match *self {}
    }

    fn is_for_cpu(&self, _: usize) -> bool {
        match *self {}
    }

    fn status(&self, _: usize) -> Status {
        match *self {}
    }

    fn version(&self, _: usize) -> u64 {
        match *self {}
    }

    fn answer(&self, _: usize) -> &[u8] {
        match *self {}
    }

    fn change(&self, _: usize) -> Option<ChangeKind> {
        match *self {}
    }

    fn written(&self, _: usize) -> Vec<u8> {
        match *self {}
    }

    unsafe fn answer_rows(&self, _: DevicePtr) -> Result<()> {
        match *self {}
    }

    fn publish(&mut self) -> Result<()> {
        match *self {}
    }
}

impl<T> FusedWrites<T> for NoDevice {
    unsafe fn write_rows(&mut self, _: &T, _: &FusedRows, _: u64, _: &Stream) -> Result<bool> {
        match *self {}
    }

    unsafe fn decide_rows<'s>(
        &'s mut self,
        _: &'s T,
        _: &FusedRows,
        _: u64,
        _: &Stream,
    ) -> Result<Option<impl FusedStage>> {
        Ok(Some(*self))
    }

    fn write_from_host(
        &mut self,
        _: &T,
        _: &HostWrites<'_>,
        _: u64,
        _: &mut dyn Answers,
        _: &mut usize,
    ) -> Result<()> {
        match *self {}
    }

    fn commit_from_host(
        &mut self,
        _: &T,
        _: &HostWrites<'_>,
        _: u64,
        _: &mut dyn Answers,
        _: &mut usize,
        _: &impl CommitPart,
    ) -> Result<()> {
        match *self {}
    }
}

impl FusedStage for NoDevice {
    fn decided(&mut self) -> Result<FusedDecisions> {
        match *self {}
    }

    fn publish(&mut self, _: impl FnOnce()) -> Result<()> {
        match *self {}
    }
}
