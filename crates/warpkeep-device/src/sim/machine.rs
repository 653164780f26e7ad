//! The C++ side, with safe calls.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::NonNull;

use super::error::{Fault, FaultKind, Place, SimError};
use super::ffi::{self, RawEvent, RawFault, RawMachine, RawOptions, RawRecord, RawReport};
use super::log::{RegionId, StoreRecord, TraceEvent, TraceKind};
use super::mode::{Fast, Mode, Seeded};
use super::simulator::{Grid, Memory, RunReport};

const NEVER: u64 = u64::MAX;

/// A machine of the C++ side. It locks for itself, so calls may come from any thread.
#[derive(Debug)]
pub(super) struct Machine(NonNull<RawMachine>);

// SAFETY: the machine holds no thread's own state between calls, and guards its data with mutexes.
unsafe impl Send for Machine {}
// SAFETY: as above.
unsafe impl Sync for Machine {}

impl Drop for Machine {
    fn drop(&mut self) {
        // SAFETY: made by `wk_sim_create`, and destroyed once.
        unsafe { ffi::wk_sim_destroy(self.0.as_ptr()) };
    }
}

impl Machine {
    pub(super) fn new(mode: &Mode) -> Result<Self, SimError> {
        let options = raw_options(mode);
        // SAFETY: the options live through the call, which copies them.
        let machine = unsafe { ffi::wk_sim_create(&options) };
        NonNull::new(machine).map(Self).ok_or(SimError::OutOfMemory { kernel: String::new() })
    }

    /// # Safety
    /// As [`Simulator::launch`](super::Simulator::launch).
    pub(super) unsafe fn launch(
        &self,
        kernel: &str,
        entry: unsafe extern "C" fn(*const c_void),
        grid: Grid,
        params: &[u8],
    ) -> Result<RunReport, SimError> {
        let mut report = RawReport::default();
        let mut fault = RawFault {
            kind: 0,
            block: 0,
            warp: 0,
            lane: 0,
            code: 0,
            file: std::ptr::null(),
            line: 0,
            unused: 0,
            detail: [0; 384],
        };
        // SAFETY: the parameters are copied by the call; the rest is what the caller promises.
        let result = unsafe {
            let bytes = params.as_ptr().cast();
            ffi::wk_sim_launch(self.0.as_ptr(), entry, grid, bytes, params.len(), &mut report, &mut fault)
        };
        match result {
            0 => Ok(RunReport {
                steps: report.steps,
                switches: report.switches,
                digest: report.digest,
                now: report.now,
                crashed: report.crashed != 0,
                workers: report.workers,
            }),
            1 => Err(SimError::Kernel(Box::new(fault_of(kernel, &fault)))),
            _ => Err(SimError::OutOfMemory { kernel: kernel.to_owned() }),
        }
    }

    pub(super) fn add_region(
        &self,
        base: u64,
        size: u64,
        kind: Memory,
        initialised: bool,
    ) -> Option<RegionId> {
        // SAFETY: the machine is alive.
        let id = unsafe { ffi::wk_sim_add_region(self.0.as_ptr(), base, size, kind as u32, initialised) };
        (id != 0).then_some(RegionId(id))
    }

    pub(super) fn remove_region(&self, base: u64) -> bool {
        // SAFETY: the machine is alive.
        unsafe { ffi::wk_sim_remove_region(self.0.as_ptr(), base) }
    }

    pub(super) fn note_written(&self, base: u64, size: u64) -> bool {
        // SAFETY: the machine is alive; only the notes about the memory are touched.
        unsafe { ffi::wk_sim_note_written(self.0.as_ptr(), base, size) }
    }

    pub(super) fn set_crash(&self, step: Option<u64>) {
        // SAFETY: the machine is alive.
        unsafe { ffi::wk_sim_set_crash(self.0.as_ptr(), step.unwrap_or(NEVER)) };
    }

    pub(super) fn take_log(&self) -> Vec<StoreRecord> {
        unsafe extern "C" fn take(sink: *mut c_void, record: *const RawRecord) {
            // SAFETY: the sink is the vector below, and the record lives through this call.
            let (sink, record) = unsafe { (&mut *sink.cast::<Vec<StoreRecord>>(), &*record) };
            sink.push(record_of(record));
        }
        let mut log = Vec::new();
        // SAFETY: the sink outlives the call, and no other code has it.
        unsafe { ffi::wk_sim_take_log(self.0.as_ptr(), take, (&raw mut log).cast()) };
        log
    }

    pub(super) fn take_trace(&self) -> Vec<TraceEvent> {
        unsafe extern "C" fn take(sink: *mut c_void, event: *const RawEvent) {
            // SAFETY: the sink is the vector below, and the event lives through this call.
            let (sink, event) = unsafe { (&mut *sink.cast::<Vec<TraceEvent>>(), &*event) };
            sink.push(event_of(event));
        }
        let mut trace = Vec::new();
        // SAFETY: the sink outlives the call, and no other code has it.
        unsafe { ffi::wk_sim_take_trace(self.0.as_ptr(), take, (&raw mut trace).cast()) };
        trace
    }
}

fn raw_options(mode: &Mode) -> RawOptions {
    match mode {
        Mode::Fast(Fast { workers, check_memory, resident_blocks, step_limit }) => RawOptions {
            seed: 0,
            step_limit: *step_limit,
            crash_at: NEVER,
            seeded: 0,
            workers: match workers {
                0 => std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
                asked => *asked,
            },
            checked: u32::from(*check_memory),
            resident: (*resident_blocks).max(1),
            switch_chance: 0,
            drain_chance: 0,
            weak: 0,
            trace: 0,
        },
        Mode::Seeded(Seeded {
            seed,
            switch_chance,
            drain_chance,
            delay_stores,
            stale_loads,
            crash_at,
            resident_blocks,
            step_limit,
            trace,
        }) => RawOptions {
            seed: *seed,
            step_limit: *step_limit,
            crash_at: crash_at.unwrap_or(NEVER),
            seeded: 1,
            workers: 1,
            checked: 1,
            resident: (*resident_blocks).max(1),
            switch_chance: *switch_chance,
            // A store that always moves on at once would never stop moving; this is as near as it gets.
            drain_chance: (*drain_chance).min(1023),
            weak: u32::from(*delay_stores) | u32::from(*stale_loads) << 1,
            trace: u32::from(*trace),
        },
    }
}

/// A position that the C++ side tells; its file name is a literal of the kernel's source.
fn place_of(file: *const c_char, line: u32) -> Place {
    if file.is_null() {
        return Place { file: String::new(), line };
    }
    // SAFETY: a literal of kernel code, which is linked into this program.
    let file = unsafe { CStr::from_ptr(file) };
    Place { file: file.to_string_lossy().into_owned(), line }
}

fn fault_of(kernel: &str, raw: &RawFault) -> Fault {
    let detail = raw.detail.split(|byte| *byte == 0).next().unwrap_or_default();
    Fault {
        kind: FaultKind::from_raw(raw.kind, raw.code),
        kernel: kernel.to_owned(),
        block: raw.block,
        warp: raw.warp,
        lane: raw.lane,
        place: place_of(raw.file, raw.line),
        detail: String::from_utf8_lossy(detail).into_owned(),
    }
}

fn record_of(raw: &RawRecord) -> StoreRecord {
    let reached = |step: u64| (step != NEVER).then_some(step);
    StoreRecord {
        region: RegionId(raw.region),
        offset: raw.offset,
        bytes: raw.bytes[..(raw.size as usize).min(raw.bytes.len())].to_vec(),
        issued: raw.issued,
        arrived: reached(raw.arrived),
        fenced: reached(raw.fenced),
        epoch: raw.epoch,
        block: raw.block,
        thread: raw.thread,
        place: place_of(raw.file, raw.line),
    }
}

fn event_of(raw: &RawEvent) -> TraceEvent {
    TraceEvent {
        step: raw.step,
        block: raw.block,
        thread: raw.thread,
        kind: match raw.kind {
            0 => TraceKind::Load,
            1 => TraceKind::Store,
            2 => TraceKind::Change,
            _ => TraceKind::Fence,
        },
        region: (raw.region != 0).then_some(RegionId(raw.region)),
        offset: raw.offset,
        value: raw.value,
    }
}
