//! The host's address space, for simulated device memory that grows in place.

use std::ffi::c_void;
use std::ptr;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use crate::error::{DeviceError, Result};
use crate::pointer::DevicePtr;

/// Reserves `bytes` bytes, a multiple of the page size, that cannot be accessed and take no memory.
pub(crate) fn reserve(bytes: u64) -> Result<DevicePtr> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: the system chooses addresses that nothing is mapped at.
    let at = unsafe { mmap_anonymous(ptr::null_mut(), bytes as usize, ProtFlags::empty(), flags) };
    at.map(|at| DevicePtr::new(at as u64)).map_err(|error| short(bytes, error))
}

/// Makes reserved bytes usable, all of them `byte`.
pub(crate) fn back(at: DevicePtr, bytes: u64, byte: u8) -> Result<()> {
    let (at, len) = (at.address() as *mut c_void, bytes as usize);
    // SAFETY: the caller has reserved the range, and nothing has used it yet.
    unsafe { mprotect(at, len, MprotectFlags::READ | MprotectFlags::WRITE) }
        .map_err(|error| short(bytes, error))?;
    // SAFETY: the range can be written from here on, and only the caller knows it.
    unsafe { ptr::write_bytes(at.cast::<u8>(), byte, len) };
    Ok(())
}

/// Gives a reservation back as a whole.
pub(crate) fn release(at: DevicePtr, bytes: u64) {
    // SAFETY: made by `reserve` with this length and released once; no launch is running. A failure leaves it reserved, which does no harm.
    let _ = unsafe { munmap(at.address() as *mut c_void, bytes as usize) };
}

fn short(bytes: u64, error: rustix::io::Errno) -> DeviceError {
    DeviceError::OutOfHostMemory { asked: bytes, cause: format!("the system gave no addresses: {error}") }
}
