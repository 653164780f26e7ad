//! A handle to where kernels run.

use std::ptr::NonNull;
use std::sync::Arc;

use bytemuck::NoUninit;

use crate::backend::Backend;
use crate::budget::Budget;
use crate::buffer::Buffer;
use crate::choice::DeviceChoice;
use crate::compile::KernelCache;
use crate::error::{DeviceError, Result};
use crate::event::Event;
use crate::growing::GrowingBuffer;
use crate::info::DeviceInfo;
use crate::module::Module;
use crate::pinned::PinnedBuffer;
use crate::pointer::DevicePtr;
use crate::program::Program;
use crate::reached::Reached;
use crate::registered::{RegisterOptions, Registered};
use crate::sim::{Mode, RunReport, Simulator};
use crate::simulated::Machine;
use crate::stream::Stream;

/// A place that allocates, copies, launches kernels and tells the time: a GPU, or the simulator. A handle is cheap to
/// clone and can be used from any thread.
///
/// ```
/// use warpkeep_device::{Device, DeviceChoice};
///
/// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
/// let device = Device::open(DeviceChoice::Sim)?;
/// let buffer = device.upload(&[1u32, 2, 3])?;
/// assert_eq!(buffer.to_vec::<u32>()?, [1, 2, 3]);
/// # Ok::<(), warpkeep_device::DeviceError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Device {
    pub(crate) core: Arc<Core>,
    budget: Arc<Budget>,
}

/// What all handles of one device share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) info: DeviceInfo,
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) reached: Reached,
}

impl Device {
    /// Opens a device. [`DeviceChoice::Cpu`] is none.
    pub fn open(choice: DeviceChoice) -> Result<Self> {
        match choice {
            DeviceChoice::Cpu => Err(DeviceError::CpuIsNoDevice),
            DeviceChoice::Sim => Self::simulated(Mode::default()),
            DeviceChoice::Cuda(ordinal) => open_cuda(ordinal),
        }
    }

    /// Opens a simulator of its own, in this mode: for tests that need seeded schedules or crashes.
    pub fn simulated(mode: Mode) -> Result<Self> {
        let machine = Machine::new(mode)?;
        Ok(Self::new(crate::simulated::info(), Box::new(machine)))
    }

    fn new(info: DeviceInfo, backend: Box<dyn Backend>) -> Self {
        Self {
            core: Arc::new(Core { info, backend, reached: Reached::default() }),
            budget: Budget::unlimited(),
        }
    }

    /// Another handle to the same device, whose allocations may not be more than `bytes` together. They count against
    /// the budget of this handle, too. Pinned and registered host memory do not count.
    #[must_use]
    pub fn with_budget(&self, bytes: u64) -> Self {
        Self { core: self.core.clone(), budget: Budget::inside(&self.budget, bytes) }
    }

    /// Bytes that may still be allocated through this handle; `u64::MAX` if no budget was set.
    pub fn budget_left(&self) -> u64 {
        self.budget.left()
    }

    /// Bytes allocated through this handle and those made from it with a budget.
    pub fn allocated(&self) -> u64 {
        self.budget.used()
    }

    /// Bytes of device memory free and in all, as the device counts them.
    pub fn memory(&self) -> Result<(u64, u64)> {
        self.backend().memory()
    }

    /// What was opened.
    pub fn choice(&self) -> DeviceChoice {
        self.core.info.choice
    }

    /// What it is and what it can do.
    pub fn info(&self) -> &DeviceInfo {
        &self.core.info
    }

    /// Whether both are handles to the same device.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.core, &other.core)
    }

    /// An error if the device has been lost. Kernels still running may yet lose it: [`Stream::synchronize`] tells.
    pub fn check(&self) -> Result<()> {
        self.backend().health().check()
    }

    /// Device memory with unspecified contents. The simulator reports kernels that read it before it is written.
    pub fn allocate(&self, bytes: usize) -> Result<Buffer> {
        let charge = self.budget.charge(bytes as u64)?;
        Buffer::new(self.core.clone(), bytes, charge)
    }

    /// Device memory that can grow to `most_bytes` without moving. It is empty at first, and takes no memory.
    pub fn reserve(&self, most_bytes: usize) -> Result<GrowingBuffer> {
        GrowingBuffer::new(self.core.clone(), most_bytes, self.budget.clone())
    }

    /// Device memory full of zeros.
    pub fn allocate_zeroed(&self, bytes: usize) -> Result<Buffer> {
        let buffer = self.allocate(bytes)?;
        buffer.fill(0)?;
        Ok(buffer)
    }

    /// Device memory for what is written before anybody reads it, but by kernels that run at the same time and do not wait for each other to see
    /// it: what they see sooner is these bytes. The simulator has no such haste, and reports kernels that read it before it is written.
    pub fn allocate_unwritten(&self, bytes: usize, byte: u8) -> Result<Buffer> {
        let buffer = self.allocate(bytes)?;
        if self.choice() != DeviceChoice::Sim {
            buffer.fill(byte)?;
        }
        Ok(buffer)
    }

    /// Device memory with these elements.
    pub fn upload<T: NoUninit>(&self, elements: &[T]) -> Result<Buffer> {
        let buffer = self.allocate(size_of_val(elements))?;
        buffer.write(0, elements)?;
        Ok(buffer)
    }

    /// Host memory that the device reaches, zeroed: the fastest to copy from and to. It is cached, so the CPU reads
    /// it as fast as any other.
    pub fn pin(&self, bytes: usize) -> Result<PinnedBuffer> {
        PinnedBuffer::new(self.core.clone(), bytes)
    }

    /// Makes memory that is already mapped, such as an image on tmpfs, reachable for kernels.
    ///
    /// # Safety
    /// The range must be mapped, readable and writable until the registration is dropped. While kernels that use it run, the
    /// program must not look at it through references.
    pub unsafe fn register(
        &self,
        at: NonNull<u8>,
        bytes: usize,
        options: RegisterOptions,
    ) -> Result<Registered> {
        // SAFETY: this function's contract is that of `Registered::new`.
        unsafe { Registered::new(self.core.clone(), at, bytes, options) }
    }

    /// Where kernels have bytes of the host; `None` unless all of them lie in one [pinned buffer](Self::pin) of this device, or in memory that was
    /// [registered](Self::register) with it.
    ///
    /// ```
    /// # use warpkeep_device::{Device, DeviceChoice};
    /// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
    /// # let device = Device::open(DeviceChoice::Sim)?;
    /// let rows = device.pin(64)?;
    /// assert_eq!(device.reach(&rows.as_slice()[16..]), Some(rows.ptr().offset(16)));
    /// assert_eq!(device.reach(&[0; 64]), None);
    /// # Ok::<(), warpkeep_device::DeviceError>(())
    /// ```
    pub fn reach(&self, bytes: &[u8]) -> Option<DevicePtr> {
        self.core.reached.find(bytes)
    }

    /// A stream: work in it runs in order, beside the work in other streams.
    pub fn stream(&self) -> Result<Stream> {
        Stream::new(self.core.clone())
    }

    /// An event, to be recorded on a stream.
    pub fn event(&self) -> Result<Event> {
        Event::new(self.core.clone())
    }

    /// Compiles a program for this device, or takes it from the user's cache, and loads it.
    pub fn load(&self, program: &Program) -> Result<Module> {
        self.load_with(program, &KernelCache::from_environment())
    }

    /// As [`load`](Self::load), with a cache of the caller's choice.
    pub fn load_with(&self, program: &Program, cache: &KernelCache) -> Result<Module> {
        Module::new(self.core.clone(), program, cache)
    }

    /// Copies between any two addresses that the device reaches, after what is in the stream.
    ///
    /// # Safety
    /// Both ranges must belong to live buffers, pinned buffers or registrations of this device until the stream has
    /// come to the end of the copy, and must not overlap.
    pub unsafe fn copy_raw(
        &self,
        to: DevicePtr,
        from: DevicePtr,
        bytes: usize,
        stream: &Stream,
    ) -> Result<()> {
        stream.belongs_to(&self.core)?;
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: as this function's contract says.
        unsafe { self.backend().copy(to, from, bytes, stream.raw) }
    }

    /// Sets bytes at any address that the device reaches, after what is in the stream.
    ///
    /// # Safety
    /// The range must belong to a live buffer, pinned buffer or registration of this device until the stream
    /// has come to the end of the fill.
    pub unsafe fn fill_raw(&self, to: DevicePtr, bytes: usize, byte: u8, stream: &Stream) -> Result<()> {
        stream.belongs_to(&self.core)?;
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: as this function's contract says.
        unsafe { self.backend().fill(to, byte, bytes, stream.raw) }
    }

    /// The simulator, if this is one: for its reports, its store log and its crashes.
    pub fn simulator(&self) -> Option<&Simulator> {
        self.backend().simulator()
    }

    /// What came of the simulator's last launch, if this is one and there was one that ended well.
    pub fn last_run(&self) -> Option<RunReport> {
        self.backend().last_run()
    }

    fn backend(&self) -> &dyn Backend {
        &*self.core.backend
    }
}

impl Core {
    /// An error unless both are the same device.
    pub(crate) fn same(self: &Arc<Self>, other: &Arc<Self>, what: &'static str) -> Result<()> {
        if Arc::ptr_eq(self, other) {
            return Ok(());
        }
        Err(DeviceError::OtherDevice { what, theirs: other.info.choice, ours: self.info.choice })
    }
}

#[cfg(feature = "cuda")]
fn open_cuda(ordinal: u32) -> Result<Device> {
    let (info, context) = crate::cuda::open(ordinal)?;
    Ok(Device::new(info, Box::new(context)))
}

#[cfg(not(feature = "cuda"))]
fn open_cuda(ordinal: u32) -> Result<Device> {
    let choice = DeviceChoice::Cuda(ordinal);
    Err(DeviceError::NoCuda { choice, reason: crate::error::NoCuda::BuiltWithout })
}
