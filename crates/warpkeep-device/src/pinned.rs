//! Host memory that a device reaches.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytemuck::Pod;

use crate::device::Core;
use crate::error::{DeviceError, Result};
use crate::pointer::DevicePtr;

/// Host memory, zeroed at first, that stays in place so that a device can reach it; freed when this is dropped.
///
/// The launch of a kernel that is given its address promises that the program does not look at it meanwhile, but by
/// [words that both share](Self::shared_words), and at what these say is no longer the kernel's, or not yet.
///
/// ```
/// # use warpkeep_device::{Device, DeviceChoice};
/// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
/// # let device = Device::open(DeviceChoice::Sim)?;
/// let mut keys = device.pin(1024 * 8)?;
/// keys.elements_mut::<u64>()?.fill(7);
/// let stream = device.stream()?;
/// let buffer = device.allocate(keys.len())?;
/// buffer.write_on(0, keys.as_slice(), &stream)?;
/// # Ok::<(), warpkeep_device::DeviceError>(())
/// ```
#[derive(Debug)]
pub struct PinnedBuffer {
    core: Arc<Core>,
    at: NonNull<u8>,
    device_ptr: DevicePtr,
    bytes: usize,
}

// SAFETY: the memory belongs to this value alone, and can be used and freed from any thread.
unsafe impl Send for PinnedBuffer {}
// SAFETY: through a shared reference it can only be read.
unsafe impl Sync for PinnedBuffer {}

impl PinnedBuffer {
    pub(crate) fn new(core: Arc<Core>, bytes: usize) -> Result<Self> {
        // Aligned for every type, as what the driver allocates is.
        const NOWHERE: NonNull<u8> = NonNull::<u128>::dangling().cast();
        let (at, device_ptr) =
            if bytes == 0 { (NOWHERE, DevicePtr::NULL) } else { core.backend.pin(bytes)? };
        core.reached.add(at, bytes, device_ptr);
        Ok(Self { core, at, device_ptr, bytes })
    }

    /// Where kernels have it.
    pub fn ptr(&self) -> DevicePtr {
        self.device_ptr
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the memory is this value's, was zeroed when it was made, and is `bytes` long.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.bytes) }
    }

    /// The bytes, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as `as_slice`; the exclusive borrow makes it the only one.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.bytes) }
    }

    /// The bytes as elements of one type.
    pub fn elements<T: Pod>(&self) -> Result<&[T]> {
        bytemuck::try_cast_slice(self.as_slice()).map_err(|_| self.not_whole::<T>())
    }

    /// The bytes as elements of one type, to be changed.
    pub fn elements_mut<T: Pod>(&mut self) -> Result<&mut [T]> {
        let error = self.not_whole::<T>();
        bytemuck::try_cast_slice_mut(self.as_mut_slice()).map_err(|_| error)
    }

    /// The bytes as words that kernels may be writing to: those that are under way hold anything.
    pub fn shared_words(&self) -> &[AtomicU64] {
        // SAFETY: the memory is this value's, aligned for words, and as long as that; another owner of a shared reference only
        // reads, and looks at what kernels write only when they are done.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr().cast(), self.bytes / 8) }
    }

    fn not_whole<T>(&self) -> DeviceError {
        DeviceError::NotWholeElements { size: self.bytes as u64, element: size_of::<T>() as u64 }
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.core.reached.remove(self.at);
            self.core.backend.unpin(self.at, self.bytes);
        }
    }
}
