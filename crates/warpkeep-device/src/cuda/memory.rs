//! A GPU's memory, and the host's as a GPU sees it.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use cudarc::driver::sys::{self, CUresult};

use super::context::{Context, stream_of};
use crate::backend::{Backend as _, RawStream};
use crate::error::{DeviceError, Result};
use crate::pointer::DevicePtr;
use crate::registered::RegisterOptions;

/// Reachable for kernels, in every context.
const HOST_FLAGS: u32 = sys::CU_MEMHOSTALLOC_DEVICEMAP | sys::CU_MEMHOSTALLOC_PORTABLE;
const REGISTER_FLAGS: u32 = sys::CU_MEMHOSTREGISTER_DEVICEMAP | sys::CU_MEMHOSTREGISTER_PORTABLE;
/// The smallest unit that can be registered.
const PAGE_BYTES: usize = 4096;

impl Context {
    pub(super) fn allocate_device(&self, bytes: u64) -> Result<DevicePtr> {
        let _entered = self.enter()?;
        let mut at = 0;
        // SAFETY: inside the context; `at` is a live integer.
        let result = unsafe { sys::cuMemAlloc_v2(&raw mut at, bytes as usize) };
        if result == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            let (free, total) = self.memory()?;
            return Err(DeviceError::OutOfMemory { asked: bytes, free, total });
        }
        self.check("cuMemAlloc", result)?;
        Ok(DevicePtr::new(at))
    }

    pub(super) fn free_device(&self, at: DevicePtr) {
        // SAFETY: made by `allocate_device` and freed once. Work in any stream may still be using it, so that must end.
        self.release_entered(|| unsafe {
            sys::cuCtxSynchronize();
            sys::cuMemFree_v2(at.address());
        });
    }

    pub(super) fn allocate_pinned(&self, bytes: usize) -> Result<(NonNull<u8>, DevicePtr)> {
        let _entered = self.enter()?;
        let mut at: *mut c_void = ptr::null_mut();
        // SAFETY: inside the context; `at` is a live pointer.
        let result = unsafe { sys::cuMemHostAlloc(&raw mut at, bytes, HOST_FLAGS) };
        let Some(at) = NonNull::new(at.cast::<u8>()).filter(|_| result == CUresult::CUDA_SUCCESS) else {
            let failure = self.failure("cuMemHostAlloc", result);
            if result == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
                return Err(DeviceError::OutOfHostMemory { asked: bytes as u64, cause: failure.to_string() });
            }
            return Err(failure);
        };
        // SAFETY: the driver gave `bytes` bytes there, which no other code has.
        unsafe { at.write_bytes(0, bytes) };
        match self.device_ptr_of(at) {
            Ok(device_ptr) => Ok((at, device_ptr)),
            Err(error) => {
                self.free_pinned(at);
                Err(error)
            }
        }
    }

    pub(super) fn free_pinned(&self, at: NonNull<u8>) {
        // SAFETY: made by `allocate_pinned` and freed once. Copies in any stream may still be using it, so they must end.
        self.release_entered(|| unsafe {
            sys::cuCtxSynchronize();
            sys::cuMemFreeHost(at.as_ptr().cast());
        });
    }

    /// # Safety
    /// The range must be mapped until it is unregistered.
    pub(super) unsafe fn register_host(
        &self,
        at: NonNull<u8>,
        bytes: usize,
        options: &RegisterOptions,
    ) -> Result<DevicePtr> {
        let refuse = |cause: String, advice| DeviceError::CannotRegister { len: bytes as u64, cause, advice };
        if !at.addr().get().is_multiple_of(PAGE_BYTES) {
            let cause = format!("it begins at {at:p}, inside a page");
            return Err(refuse(cause, "give a range that begins where a page does"));
        }
        let _entered = self.enter()?;
        let mut done = Vec::new();
        let mut base = DevicePtr::NULL;
        for (offset, len) in options.chunks(bytes) {
            // SAFETY: the chunk lies in the range.
            let chunk = unsafe { at.add(offset) };
            // SAFETY: inside the context; the caller keeps the range mapped.
            let result = unsafe { sys::cuMemHostRegister_v2(chunk.as_ptr().cast(), len, REGISTER_FLAGS) };
            let registered = self.check("cuMemHostRegister", result);
            if registered.is_ok() {
                done.push((offset, len));
                self.registered.add(chunk.addr().get() as u64, len);
            }
            let error = match registered.and_then(|()| self.device_ptr_of(chunk)) {
                Ok(device_ptr) if offset == 0 => {
                    base = device_ptr;
                    continue;
                }
                Ok(device_ptr) if device_ptr == base.offset(offset as u64) => continue,
                Ok(device_ptr) => refuse(
                    format!("{device_ptr:?} does not follow on {base:?}"),
                    "register it in one chunk, or use a GPU and a driver with one address space",
                ),
                Err(lost) if lost.is_lost() => lost,
                Err(error) => refuse(error.to_string(), advice(result)),
            };
            self.unregister_host(at, done);
            return Err(error);
        }
        Ok(base)
    }

    pub(super) fn unregister_host(&self, at: NonNull<u8>, chunks: impl IntoIterator<Item = (usize, usize)>) {
        self.release_entered(|| {
            for (offset, _) in chunks {
                // SAFETY: the chunk was registered, so it lies in the caller's range.
                let chunk = unsafe { at.add(offset) };
                // SAFETY: registered once and unregistered once.
                unsafe { sys::cuMemHostUnregister(chunk.as_ptr().cast()) };
                self.registered.remove(chunk.addr().get() as u64);
            }
        });
    }

    fn device_ptr_of(&self, at: NonNull<u8>) -> Result<DevicePtr> {
        let mut device_ptr = 0;
        // SAFETY: the caller is inside the context; the memory was pinned or registered just now.
        let result = unsafe { sys::cuMemHostGetDevicePointer_v2(&raw mut device_ptr, at.as_ptr().cast(), 0) };
        self.check("cuMemHostGetDevicePointer", result)?;
        Ok(DevicePtr::new(device_ptr))
    }

    /// # Safety
    /// Both ranges must be good until the stream has come to the end of the copy.
    pub(super) unsafe fn start_copy_in(
        &self,
        to: DevicePtr,
        from: *const u8,
        bytes: usize,
        stream: RawStream,
    ) -> Result<()> {
        let _entered = self.enter()?;
        self.in_pieces(to.address(), from as u64, bytes, |done, piece| {
            let to = to.offset(done as u64).address();
            // SAFETY: inside the context; the piece lies in both ranges, which are the caller's promise.
            let result =
                unsafe { sys::cuMemcpyHtoDAsync_v2(to, from.add(done).cast(), piece, stream_of(stream)) };
            self.check("cuMemcpyHtoDAsync", result)
        })
    }

    /// # Safety
    /// As `start_copy_in`.
    pub(super) unsafe fn start_copy_out(
        &self,
        to: *mut u8,
        from: DevicePtr,
        bytes: usize,
        stream: RawStream,
    ) -> Result<()> {
        let _entered = self.enter()?;
        self.in_pieces(to as u64, from.address(), bytes, |done, piece| {
            let from = from.offset(done as u64).address();
            // SAFETY: as in `start_copy_in`.
            let result =
                unsafe { sys::cuMemcpyDtoHAsync_v2(to.add(done).cast(), from, piece, stream_of(stream)) };
            self.check("cuMemcpyDtoHAsync", result)
        })
    }

    /// # Safety
    /// As `start_copy_in`.
    pub(super) unsafe fn start_copy(
        &self,
        to: DevicePtr,
        from: DevicePtr,
        bytes: usize,
        stream: RawStream,
    ) -> Result<()> {
        let _entered = self.enter()?;
        self.in_pieces(to.address(), from.address(), bytes, |done, piece| {
            let (to, from) = (to.offset(done as u64).address(), from.offset(done as u64).address());
            // SAFETY: as in `start_copy_in`.
            let result = unsafe { sys::cuMemcpyAsync(to, from, piece, stream_of(stream)) };
            self.check("cuMemcpyAsync", result)
        })
    }

    /// Cuts a copy where registrations end: the driver refuses one that reaches over the border.
    fn in_pieces(
        &self,
        to: u64,
        from: u64,
        bytes: usize,
        mut copy: impl FnMut(usize, usize) -> Result<()>,
    ) -> Result<()> {
        let mut done = 0;
        while done < bytes {
            let left = self.registered.whole(to + done as u64, bytes - done);
            let piece = self.registered.whole(from + done as u64, left);
            copy(done, piece)?;
            done += piece;
        }
        Ok(())
    }
}

/// What to do about memory that the driver does not want to register.
fn advice(result: CUresult) -> &'static str {
    match result {
        CUresult::CUDA_ERROR_INVALID_VALUE => {
            "files on disk file systems (ext4, xfs) that are mapped shared cannot be registered: put the image on tmpfs \
             (/dev/shm) or hugetlbfs, or use cpu"
        }
        CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED => {
            "drop the other registration of this range first"
        }
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
            "pinned memory is short: raise the limit on locked memory, free some, or register less"
        }
        _ => "put the image on tmpfs (/dev/shm), or use cpu",
    }
}
