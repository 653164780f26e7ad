//! A GPU's address space, reserved in advance and backed by memory piece by piece.

use cudarc::driver::sys::{
    self, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationGranularity_flags as Granularity,
    CUmemAllocationHandleType, CUmemAllocationProp, CUmemAllocationProp_st__bindgen_ty_1 as AllocationFlags,
    CUmemAllocationType, CUmemLocation, CUmemLocationType, CUresult,
};

use super::context::Context;
use crate::backend::{Backend as _, Reserved};
use crate::error::{DeviceError, Result};
use crate::pointer::DevicePtr;

impl Context {
    fn location(&self) -> CUmemLocation {
        CUmemLocation { type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: self.device }
    }

    /// Ordinary memory of this GPU.
    fn allocation(&self) -> CUmemAllocationProp {
        CUmemAllocationProp {
            type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            // No handle that other processes could use.
            requestedHandleTypes: CUmemAllocationHandleType(0),
            location: self.location(),
            win32HandleMetaData: std::ptr::null_mut(),
            allocFlags: AllocationFlags {
                compressionType: 0,
                gpuDirectRDMACapable: 0,
                usage: 0,
                reserved: [0; 4],
            },
        }
    }

    pub(super) fn reserve_addresses(&self, bytes: u64) -> Result<Reserved> {
        let _entered = self.enter()?;
        let (allocation, mut granule) = (self.allocation(), 0);
        let option = Granularity::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
        // SAFETY: inside the context; both are live.
        let result =
            unsafe { sys::cuMemGetAllocationGranularity(&raw mut granule, &raw const allocation, option) };
        self.check("cuMemGetAllocationGranularity", result)?;
        let granule = granule.max(1) as u64;
        let bytes = bytes.checked_next_multiple_of(granule).unwrap_or(bytes);
        let mut at = 0;
        // SAFETY: inside the context; `at` is a live integer. Any address will do.
        let result = unsafe { sys::cuMemAddressReserve(&raw mut at, bytes as usize, 0, 0, 0) };
        self.check("cuMemAddressReserve", result)?;
        Ok(Reserved { at: DevicePtr::new(at), bytes, granule })
    }

    pub(super) fn back_addresses(&self, at: DevicePtr, bytes: u64) -> Result<()> {
        let _entered = self.enter()?;
        let (allocation, mut handle) = (self.allocation(), 0);
        let (address, size) = (at.address(), bytes as usize);
        // SAFETY: inside the context; both are live, and the size is a multiple of the granule.
        let result = unsafe { sys::cuMemCreate(&raw mut handle, size, &raw const allocation, 0) };
        if result == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            let (free, total) = self.memory()?;
            return Err(DeviceError::OutOfMemory { asked: bytes, free, total });
        }
        self.check("cuMemCreate", result)?;
        // SAFETY: the range is reserved and nothing is mapped there; the memory was created just now.
        let mapped = self.check("cuMemMap", unsafe { sys::cuMemMap(address, size, 0, handle, 0) });
        // The mapping keeps the memory; without one it goes now.
        // SAFETY: created above and released once.
        let released = self.check("cuMemRelease", unsafe { sys::cuMemRelease(handle) });
        mapped?;
        let access = CUmemAccessDesc {
            location: self.location(),
            flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        let usable = released.and_then(|()| {
            // SAFETY: the range was mapped just now; the descriptor is live.
            self.check("cuMemSetAccess", unsafe { sys::cuMemSetAccess(address, size, &raw const access, 1) })
        });
        if usable.is_err() {
            // SAFETY: mapped above, and unmapped once.
            unsafe { sys::cuMemUnmap(address, size) };
        }
        usable
    }

    pub(super) fn release_addresses(&self, reserved: &Reserved, backed: u64) {
        let (at, bytes) = (reserved.at.address(), reserved.bytes as usize);
        // SAFETY: reserved once and released once; the range that was backed is unmapped as a whole. Work in any stream may still be
        // using it, so that must end.
        self.release_entered(|| unsafe {
            sys::cuCtxSynchronize();
            if backed > 0 {
                sys::cuMemUnmap(at, backed as usize);
            }
            sys::cuMemAddressFree(at, bytes);
        });
    }
}
