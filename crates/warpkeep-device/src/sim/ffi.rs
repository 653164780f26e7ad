//! The simulator's C interface; `simulator/c_api.cpp` is the other side of it.

use std::ffi::{c_char, c_int, c_void};

use super::simulator::Grid;

#[repr(C)]
pub(super) struct RawOptions {
    pub(super) seed: u64,
    pub(super) step_limit: u64,
    pub(super) crash_at: u64,
    pub(super) seeded: u32,
    pub(super) workers: u32,
    pub(super) checked: u32,
    pub(super) resident: u32,
    pub(super) switch_chance: u32,
    pub(super) drain_chance: u32,
    pub(super) weak: u32,
    pub(super) trace: u32,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct RawReport {
    pub(super) steps: u64,
    pub(super) switches: u64,
    pub(super) digest: u64,
    pub(super) now: u64,
    pub(super) crashed: u32,
    pub(super) workers: u32,
}

#[repr(C)]
pub(super) struct RawFault {
    pub(super) kind: u32,
    pub(super) block: u32,
    pub(super) warp: u32,
    pub(super) lane: u32,
    pub(super) code: u32,
    pub(super) file: *const c_char,
    pub(super) line: u32,
    pub(super) unused: u32,
    pub(super) detail: [u8; 384],
}

#[repr(C)]
pub(super) struct RawRecord {
    pub(super) offset: u64,
    pub(super) bytes: [u8; 16],
    pub(super) issued: u64,
    pub(super) arrived: u64,
    pub(super) fenced: u64,
    pub(super) epoch: u64,
    pub(super) file: *const c_char,
    pub(super) line: u32,
    pub(super) region: u32,
    pub(super) size: u32,
    pub(super) block: u32,
    pub(super) thread: u32,
    pub(super) unused: u32,
}

#[repr(C)]
pub(super) struct RawEvent {
    pub(super) step: u64,
    pub(super) offset: u64,
    pub(super) value: u64,
    pub(super) region: u32,
    pub(super) block: u32,
    pub(super) thread: u32,
    pub(super) kind: u32,
}

// The same numbers stand in c_api.cpp: a field that is added on one side alone does not compile.
const _: () =
    assert!(std::mem::offset_of!(RawFault, detail) == 40 && std::mem::offset_of!(RawRecord, region) == 68);
const _: () =
    assert!(size_of::<RawOptions>() == 56 && size_of::<Grid>() == 12 && size_of::<RawReport>() == 40);
const _: () =
    assert!(size_of::<RawRecord>() == 88 && size_of::<RawEvent>() == 40 && size_of::<RawFault>() == 424);

/// A machine of the simulator, which only the simulator looks into.
#[repr(C)]
pub(super) struct RawMachine {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    pub(super) fn wk_sim_create(options: *const RawOptions) -> *mut RawMachine;
    pub(super) fn wk_sim_destroy(machine: *mut RawMachine);
    pub(super) fn wk_sim_launch(
        machine: *mut RawMachine,
        entry: unsafe extern "C" fn(*const c_void),
        grid: Grid,
        params: *const c_void,
        params_size: usize,
        report: *mut RawReport,
        fault: *mut RawFault,
    ) -> c_int;
    pub(super) fn wk_sim_add_region(
        machine: *mut RawMachine,
        base: u64,
        size: u64,
        kind: u32,
        initialised: bool,
    ) -> u32;
    pub(super) fn wk_sim_remove_region(machine: *mut RawMachine, base: u64) -> bool;
    pub(super) fn wk_sim_note_written(machine: *mut RawMachine, base: u64, size: u64) -> bool;
    pub(super) fn wk_sim_set_crash(machine: *mut RawMachine, step: u64);
    pub(super) fn wk_sim_take_log(
        machine: *mut RawMachine,
        take: unsafe extern "C" fn(*mut c_void, *const RawRecord),
        sink: *mut c_void,
    );
    pub(super) fn wk_sim_take_trace(
        machine: *mut RawMachine,
        take: unsafe extern "C" fn(*mut c_void, *const RawEvent),
        sink: *mut c_void,
    );
}
