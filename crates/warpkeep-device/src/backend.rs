//! What CUDA and the simulator have in common: the calls behind every type of this crate.

use std::ptr::NonNull;
use std::time::Duration;

use crate::compile::{KernelCache, Resources};
use crate::error::Result;
use crate::health::Health;
use crate::pointer::DevicePtr;
use crate::program::{KernelEntry, Program};
use crate::registered::RegisterOptions;
use crate::sim::{Grid, RegionId, RunReport, Simulator};

/// A stream as the backend knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawStream(pub(crate) u64);

/// An event as the backend knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawEvent(pub(crate) u64);

/// Loaded code as the backend knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawModule(pub(crate) u64);

/// Addresses of a device that nothing else gets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reserved {
    pub(crate) at: DevicePtr,
    pub(crate) bytes: u64,
    /// Memory is mapped there in multiples of this.
    pub(crate) granule: u64,
}

/// How kernels reach registered memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reach {
    pub(crate) device_ptr: DevicePtr,
    /// What the simulator calls it.
    pub(crate) region: Option<RegionId>,
}

/// One kernel, ready to be launched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function {
    pub(crate) entry: KernelEntry,
    /// The driver's handle; nothing on the simulator, which calls the entry.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "the simulator has no handles"))]
    pub(crate) raw: u64,
    pub(crate) resources: Resources,
}

/// Memory, order and kernels of one device.
///
/// Handles given to a method must come from the same backend and not have been destroyed. Types of this crate hold
/// each handle together with its device, so that this is so; what the type system cannot know makes a method unsafe.
pub(crate) trait Backend: Send + Sync + std::fmt::Debug {
    fn health(&self) -> &Health;

    /// Bytes free, and bytes in all.
    fn memory(&self) -> Result<(u64, u64)>;

    /// Device memory of `bytes` > 0, its contents unspecified.
    fn allocate(&self, bytes: u64) -> Result<DevicePtr>;
    fn free(&self, at: DevicePtr, bytes: u64);

    /// Reserves addresses for at least `bytes` > 0.
    fn reserve(&self, bytes: u64) -> Result<Reserved>;
    /// Maps memory, its contents unspecified, behind what a reservation has already: `at` is where that ends, and `bytes` a
    /// multiple of the granule.
    fn back(&self, at: DevicePtr, bytes: u64) -> Result<()>;
    /// Gives a reservation back, of which the first `backed` bytes have memory.
    fn release(&self, reserved: &Reserved, backed: u64);

    /// Pinned host memory of `bytes` > 0, zeroed, and the address kernels have it at.
    fn pin(&self, bytes: usize) -> Result<(NonNull<u8>, DevicePtr)>;
    fn unpin(&self, at: NonNull<u8>, bytes: usize);

    /// # Safety
    /// The range must be mapped until it is unregistered.
    unsafe fn register(&self, at: NonNull<u8>, bytes: usize, options: &RegisterOptions) -> Result<Reach>;
    fn unregister(&self, at: NonNull<u8>, bytes: usize, options: &RegisterOptions);

    /// The stream that calls without a stream go through.
    fn own_stream(&self) -> RawStream;
    fn new_stream(&self) -> Result<RawStream>;
    fn destroy_stream(&self, stream: RawStream);
    fn synchronize(&self, stream: RawStream) -> Result<()>;
    /// Whether all that is in the stream is done.
    fn is_done(&self, stream: RawStream) -> Result<bool>;

    fn new_event(&self) -> Result<RawEvent>;
    fn destroy_event(&self, event: RawEvent);
    fn record(&self, event: RawEvent, stream: RawStream) -> Result<()>;
    /// Makes the stream wait for the event.
    fn wait(&self, stream: RawStream, event: RawEvent) -> Result<()>;
    /// Makes this thread wait for the event.
    fn wait_here(&self, event: RawEvent) -> Result<()>;
    /// Whether the event is over. Does not wait.
    fn is_over(&self, event: RawEvent) -> Result<bool>;
    /// Makes this thread wait for both, and gives the time between them.
    fn elapsed(&self, from: RawEvent, to: RawEvent) -> Result<Duration>;

    /// # Safety
    /// Both ranges must be good until the stream has come to the end of the copy.
    unsafe fn copy_in(&self, to: DevicePtr, from: *const u8, bytes: usize, stream: RawStream) -> Result<()>;
    /// # Safety
    /// As `copy_in`.
    unsafe fn copy_out(&self, to: *mut u8, from: DevicePtr, bytes: usize, stream: RawStream) -> Result<()>;
    /// # Safety
    /// As `copy_in`. The ranges do not overlap.
    unsafe fn copy(&self, to: DevicePtr, from: DevicePtr, bytes: usize, stream: RawStream) -> Result<()>;
    /// # Safety
    /// As `copy_in`.
    unsafe fn fill(&self, at: DevicePtr, byte: u8, bytes: usize, stream: RawStream) -> Result<()>;

    fn load(&self, program: &Program, cache: &KernelCache) -> Result<(RawModule, Vec<Function>)>;
    fn unload(&self, module: RawModule);
    /// How many blocks of this shape fit on the device at once.
    fn resident_blocks(&self, function: &Function, threads: u32, shared_bytes: u32) -> Result<u32>;
    /// # Safety
    /// The parameters must be those that the kernel expects, and what they point to must be good for what it does.
    unsafe fn launch(&self, function: &Function, grid: Grid, params: &[u8], stream: RawStream) -> Result<()>;

    /// The simulator, where it is one.
    fn simulator(&self) -> Option<&Simulator>;
    /// What came of the simulator's last launch.
    fn last_run(&self) -> Option<RunReport>;
}
