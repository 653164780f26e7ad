//! What stands in for the C++ side where there was no compiler for it: a machine that does not exist.

use std::convert::Infallible;
use std::ffi::c_void;

use super::error::SimError;
use super::log::{RegionId, StoreRecord, TraceEvent};
use super::mode::Mode;
use super::simulator::{Grid, Memory, RunReport};

#[derive(Debug)]
pub(super) struct Machine(Infallible);

impl Machine {
    pub(super) fn new(_mode: &Mode) -> Result<Self, SimError> {
        Err(SimError::Unavailable)
    }

    /// # Safety
    /// Cannot be called.
    pub(super) unsafe fn launch(
        &self,
        _kernel: &str,
        _entry: unsafe extern "C" fn(*const c_void),
        _grid: Grid,
        _params: &[u8],
    ) -> Result<RunReport, SimError> {
        match self.0 {}
    }

    pub(super) fn add_region(
        &self,
        _base: u64,
        _size: u64,
        _kind: Memory,
        _initialised: bool,
    ) -> Option<RegionId> {
        match self.0 {}
    }

    pub(super) fn remove_region(&self, _base: u64) -> bool {
        match self.0 {}
    }

    pub(super) fn note_written(&self, _base: u64, _size: u64) -> bool {
        match self.0 {}
    }

    pub(super) fn set_crash(&self, _step: Option<u64>) {
        match self.0 {}
    }

    pub(super) fn take_log(&self) -> Vec<StoreRecord> {
        match self.0 {}
    }

    pub(super) fn take_trace(&self) -> Vec<TraceEvent> {
        match self.0 {}
    }
}
