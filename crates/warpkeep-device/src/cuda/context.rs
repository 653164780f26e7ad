//! One GPU's primary context: what all its users in a process share.

use std::ptr::{self, NonNull};
use std::time::Duration;

use cudarc::driver::sys::{self, CUcontext, CUdevice, CUevent, CUresult, CUstream};

use super::driver::{self, Driver};
use super::ranges::Ranges;
use crate::backend::{Backend, Function, RawEvent, RawModule, RawStream, Reach, Reserved};
use crate::choice::DeviceChoice;
use crate::compile::KernelCache;
use crate::error::{DeviceError, NoCuda, Result};
use crate::health::Health;
use crate::info::{Abilities, DeviceInfo};
use crate::pointer::DevicePtr;
use crate::program::Program;
use crate::registered::RegisterOptions;
use crate::sim::{Grid, RunReport, Simulator};

/// A GPU, opened.
#[derive(Debug)]
pub(crate) struct Context {
    pub(super) device: CUdevice,
    raw: CUcontext,
    own_stream: RawStream,
    pub(super) abilities: Abilities,
    pub(super) health: Health,
    pub(super) registered: Ranges,
}

// SAFETY: the driver's handles may be used from any thread; this type enters the context on whichever thread calls.
unsafe impl Send for Context {}
// SAFETY: as above; the driver locks what it must.
unsafe impl Sync for Context {}

/// Opens the GPU with this number.
pub(crate) fn open(ordinal: u32) -> Result<(DeviceInfo, Context)> {
    let choice = DeviceChoice::Cuda(ordinal);
    let no_cuda = |reason: NoCuda| DeviceError::NoCuda { choice, reason };
    let driver = Driver::find().map_err(no_cuda)?;
    let info = driver.info(ordinal).map_err(no_cuda)?;
    let device = driver.device(ordinal).map_err(no_cuda)?;
    let mut raw = ptr::null_mut();
    // The primary context is the one that other libraries in the process use, so that their streams and memory can be
    // used together with this library's.
    // SAFETY: the driver is started, `device` came from it, and `raw` is a live pointer.
    let result = unsafe { sys::cuDevicePrimaryCtxRetain(&raw mut raw, device) };
    if result != CUresult::CUDA_SUCCESS {
        let (code, text) = driver::describe(result);
        return Err(no_cuda(NoCuda::Refused { call: "cuDevicePrimaryCtxRetain", code, text }));
    }
    let mut context = Context {
        device,
        raw,
        own_stream: RawStream(0),
        abilities: info.abilities,
        health: Health::default(),
        registered: Ranges::default(),
    };
    context.own_stream = context.new_stream()?;
    Ok((info, context))
}

impl Context {
    /// Makes this context the thread's current one until the guard is dropped, and then the one before again.
    pub(super) fn enter(&self) -> Result<Entered> {
        self.health.check()?;
        self.push()
    }

    fn push(&self) -> Result<Entered> {
        // SAFETY: the context is retained until this value is dropped.
        self.check("cuCtxPushCurrent", unsafe { sys::cuCtxPushCurrent_v2(self.raw) })?;
        Ok(Entered(ptr::null()))
    }

    /// Enters for a release: what a lost device still holds is released by the driver, and its errors are of no use.
    pub(super) fn release_entered(&self, release: impl FnOnce()) {
        if let Ok(_entered) = self.push() {
            release();
        }
    }

    pub(super) fn check(&self, call: &'static str, result: CUresult) -> Result<()> {
        if result == CUresult::CUDA_SUCCESS {
            return Ok(());
        }
        Err(self.failure(call, result))
    }

    pub(super) fn failure(&self, call: &'static str, result: CUresult) -> DeviceError {
        let (code, text) = driver::describe(result);
        if driver::is_sticky(result) {
            return self.health.lose(call, format!("{code}, {text}"));
        }
        let advice = match result {
            CUresult::CUDA_ERROR_INVALID_IMAGE
            | CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU
            | CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION => {
                "the compiler is newer than the driver, or the GPU is unknown to it: install an NVRTC of the driver's version"
            }
            CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES => {
                "launch fewer threads in a block, or less shared memory"
            }
            CUresult::CUDA_ERROR_INVALID_VALUE | CUresult::CUDA_ERROR_INVALID_HANDLE => {
                "a range or a handle is not what the driver knows: check what was passed"
            }
            _ => "look at nvidia-smi and the system's log; if it stays, use cpu",
        };
        DeviceError::Call { call, code, text, advice }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.destroy_stream(self.own_stream);
        // SAFETY: retained once when this was opened, and released once here.
        unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// A thread inside a context. Not to be sent to another thread, which the pointer sees to.
pub(super) struct Entered(*const ());

impl Drop for Entered {
    fn drop(&mut self) {
        debug_assert!(self.0.is_null());
        let mut left = ptr::null_mut();
        // SAFETY: pairs with the push that made this value, on the same thread.
        unsafe { sys::cuCtxPopCurrent_v2(&raw mut left) };
    }
}

/// The driver's handle of a stream.
pub(super) fn stream_of(stream: RawStream) -> CUstream {
    stream.0 as CUstream
}

fn event_of(event: RawEvent) -> CUevent {
    event.0 as CUevent
}

impl Backend for Context {
    fn health(&self) -> &Health {
        &self.health
    }

    fn memory(&self) -> Result<(u64, u64)> {
        let _entered = self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: inside the context; both are live integers.
        self.check("cuMemGetInfo", unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) })?;
        Ok((free as u64, total as u64))
    }

    fn allocate(&self, bytes: u64) -> Result<DevicePtr> {
        self.allocate_device(bytes)
    }

    fn free(&self, at: DevicePtr, _bytes: u64) {
        self.free_device(at);
    }

    fn reserve(&self, bytes: u64) -> Result<Reserved> {
        self.reserve_addresses(bytes)
    }

    fn back(&self, at: DevicePtr, bytes: u64) -> Result<()> {
        self.back_addresses(at, bytes)
    }

    fn release(&self, reserved: &Reserved, backed: u64) {
        self.release_addresses(reserved, backed);
    }

    fn pin(&self, bytes: usize) -> Result<(NonNull<u8>, DevicePtr)> {
        self.allocate_pinned(bytes)
    }

    fn unpin(&self, at: NonNull<u8>, _bytes: usize) {
        self.free_pinned(at);
    }

    unsafe fn register(&self, at: NonNull<u8>, bytes: usize, options: &RegisterOptions) -> Result<Reach> {
        // SAFETY: the contract is the same.
        let device_ptr = unsafe { self.register_host(at, bytes, options)? };
        Ok(Reach { device_ptr, region: None })
    }

    fn unregister(&self, at: NonNull<u8>, bytes: usize, options: &RegisterOptions) {
        self.unregister_host(at, options.chunks(bytes));
    }

    fn own_stream(&self) -> RawStream {
        self.own_stream
    }

    fn new_stream(&self) -> Result<RawStream> {
        let _entered = self.enter()?;
        let mut stream = ptr::null_mut();
        // A stream that waits for the default stream would wait for other libraries.
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: inside the context; `stream` is a live pointer.
        self.check("cuStreamCreate", unsafe { sys::cuStreamCreate(&raw mut stream, flags) })?;
        Ok(RawStream(stream as u64))
    }

    fn destroy_stream(&self, stream: RawStream) {
        if stream.0 != 0 {
            // SAFETY: made by `new_stream` and destroyed once; the driver lets work in it end first.
            self.release_entered(|| unsafe {
                sys::cuStreamDestroy_v2(stream_of(stream));
            });
        }
    }

    fn synchronize(&self, stream: RawStream) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: inside the context; the stream is live.
        self.check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(stream_of(stream)) })?;
        self.health.ended_well(stream);
        Ok(())
    }

    fn is_done(&self, stream: RawStream) -> Result<bool> {
        let _entered = self.enter()?;
        // SAFETY: inside the context; the stream is live.
        let result = unsafe { sys::cuStreamQuery(stream_of(stream)) };
        if result == CUresult::CUDA_ERROR_NOT_READY {
            return Ok(false);
        }
        self.check("cuStreamQuery", result)?;
        self.health.ended_well(stream);
        Ok(true)
    }

    fn new_event(&self) -> Result<RawEvent> {
        let _entered = self.enter()?;
        let mut event = ptr::null_mut();
        let flags = sys::CUevent_flags::CU_EVENT_DEFAULT as u32;
        // SAFETY: inside the context; `event` is a live pointer.
        self.check("cuEventCreate", unsafe { sys::cuEventCreate(&raw mut event, flags) })?;
        Ok(RawEvent(event as u64))
    }

    fn destroy_event(&self, event: RawEvent) {
        // SAFETY: made by `new_event` and destroyed once.
        self.release_entered(|| unsafe {
            sys::cuEventDestroy_v2(event_of(event));
        });
    }

    fn record(&self, event: RawEvent, stream: RawStream) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: inside the context; both are live.
        self.check("cuEventRecord", unsafe { sys::cuEventRecord(event_of(event), stream_of(stream)) })
    }

    fn wait(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: inside the context; both are live.
        self.check("cuStreamWaitEvent", unsafe {
            sys::cuStreamWaitEvent(stream_of(stream), event_of(event), 0)
        })
    }

    fn wait_here(&self, event: RawEvent) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: inside the context; the event is live.
        self.check("cuEventSynchronize", unsafe { sys::cuEventSynchronize(event_of(event)) })
    }

    fn is_over(&self, event: RawEvent) -> Result<bool> {
        let _entered = self.enter()?;
        // SAFETY: inside the context; the event is live.
        match unsafe { sys::cuEventQuery(event_of(event)) } {
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            result => self.check("cuEventQuery", result).map(|()| true),
        }
    }

    fn elapsed(&self, from: RawEvent, to: RawEvent) -> Result<Duration> {
        let _entered = self.enter()?;
        for event in [from, to] {
            // SAFETY: inside the context; the event is live.
            self.check("cuEventSynchronize", unsafe { sys::cuEventSynchronize(event_of(event)) })?;
        }
        let mut milliseconds = 0.0f32;
        // SAFETY: as above; `milliseconds` is a live number.
        let result =
            unsafe { sys::cuEventElapsedTime_v2(&raw mut milliseconds, event_of(from), event_of(to)) };
        if result == CUresult::CUDA_ERROR_INVALID_HANDLE {
            return Err(DeviceError::NotRecorded);
        }
        self.check("cuEventElapsedTime", result)?;
        // Events in the wrong order give a negative time, which a duration cannot be.
        Ok(Duration::from_secs_f64(f64::from(milliseconds).max(0.0) / 1e3))
    }

    unsafe fn copy_in(&self, to: DevicePtr, from: *const u8, bytes: usize, stream: RawStream) -> Result<()> {
        // SAFETY: the contract is the same.
        unsafe { self.start_copy_in(to, from, bytes, stream) }
    }

    unsafe fn copy_out(&self, to: *mut u8, from: DevicePtr, bytes: usize, stream: RawStream) -> Result<()> {
        // SAFETY: the contract is the same.
        unsafe { self.start_copy_out(to, from, bytes, stream) }
    }

    unsafe fn copy(&self, to: DevicePtr, from: DevicePtr, bytes: usize, stream: RawStream) -> Result<()> {
        // SAFETY: the contract is the same.
        unsafe { self.start_copy(to, from, bytes, stream) }
    }

    unsafe fn fill(&self, at: DevicePtr, byte: u8, bytes: usize, stream: RawStream) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: inside the context; the range is the caller's promise.
        let result = unsafe { sys::cuMemsetD8Async(at.address(), byte, bytes, stream_of(stream)) };
        self.check("cuMemsetD8Async", result)
    }

    fn load(&self, program: &Program, cache: &KernelCache) -> Result<(RawModule, Vec<Function>)> {
        self.load_program(program, cache)
    }

    fn unload(&self, module: RawModule) {
        self.unload_module(module);
    }

    fn resident_blocks(&self, function: &Function, threads: u32, shared_bytes: u32) -> Result<u32> {
        self.count_resident_blocks(function, threads, shared_bytes)
    }

    unsafe fn launch(&self, function: &Function, grid: Grid, params: &[u8], stream: RawStream) -> Result<()> {
        // SAFETY: the contract is the same.
        unsafe { self.launch_kernel(function, grid, params, stream) }
    }

    fn simulator(&self) -> Option<&Simulator> {
        None
    }

    fn last_run(&self) -> Option<RunReport> {
        None
    }
}
