//! The driver itself: whether it is here, which GPUs it sees, what its codes mean.

use std::ffi::{CStr, c_char};
use std::ptr;
use std::sync::OnceLock;

use cudarc::driver::sys::{self, CUdevice, CUdevice_attribute as Attribute, CUresult};

use crate::arch::Arch;
use crate::choice::DeviceChoice;
use crate::error::{CudaVersion, NoCuda};
use crate::info::{Abilities, DeviceInfo};

/// The oldest driver that has every call made here.
const OLDEST_DRIVER: CudaVersion = CudaVersion { major: 12, minor: 8 };

/// The driver, once it is known to be there, new enough and started.
#[derive(Debug, Clone, Copy)]
pub(super) struct Driver(());

impl Driver {
    pub(super) fn find() -> Result<Self, NoCuda> {
        static FOUND: OnceLock<Result<(), NoCuda>> = OnceLock::new();
        FOUND.get_or_init(start).clone().map(|()| Self(()))
    }

    /// How many GPUs it sees: at least one.
    pub(super) fn count(self) -> Result<u32, NoCuda> {
        let mut count = 0;
        // SAFETY: the driver is started and `count` is a live integer.
        refused("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&raw mut count) })?;
        match u32::try_from(count) {
            Ok(count) if count > 0 => Ok(count),
            _ => Err(NoCuda::NoGpu),
        }
    }

    pub(super) fn device(self, ordinal: u32) -> Result<CUdevice, NoCuda> {
        let count = self.count()?;
        let mut device = 0;
        let number = i32::try_from(ordinal).map_err(|_| NoCuda::NoSuchGpu { count })?;
        if ordinal >= count {
            return Err(NoCuda::NoSuchGpu { count });
        }
        // SAFETY: the driver is started and `device` is a live integer.
        refused("cuDeviceGet", unsafe { sys::cuDeviceGet(&raw mut device, number) })?;
        Ok(device)
    }

    pub(super) fn info(self, ordinal: u32) -> Result<DeviceInfo, NoCuda> {
        let device = self.device(ordinal)?;
        let get = |attribute| self.attribute(device, attribute);
        let abilities = Abilities {
            arch: Some(Arch::new(
                get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            )),
            memory_bytes: self.memory(device)?,
            multiprocessors: get(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            l2_bytes: u64::from(get(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?),
            threads_per_block: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            shared_bytes_per_block: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            registers_host_memory: get(Attribute::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED)? != 0,
            host_atomics: get(Attribute::CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED)? != 0,
        };
        let choice = DeviceChoice::Cuda(ordinal);
        Ok(DeviceInfo { choice, name: self.name(device)?, unavailable: None, abilities })
    }

    fn attribute(self, device: CUdevice, attribute: Attribute) -> Result<u32, NoCuda> {
        let mut value = 0;
        // SAFETY: the driver is started, `device` came from it, and `value` is a live integer.
        let result = unsafe { sys::cuDeviceGetAttribute(&raw mut value, attribute, device) };
        refused("cuDeviceGetAttribute", result)?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    fn memory(self, device: CUdevice) -> Result<u64, NoCuda> {
        let mut bytes = 0;
        // SAFETY: as `attribute`.
        refused("cuDeviceTotalMem", unsafe { sys::cuDeviceTotalMem_v2(&raw mut bytes, device) })?;
        Ok(bytes as u64)
    }

    fn name(self, device: CUdevice) -> Result<String, NoCuda> {
        let mut name = [0u8; 256];
        // SAFETY: as `attribute`; the driver writes at most as many bytes as the given length.
        let result =
            unsafe { sys::cuDeviceGetName(name.as_mut_ptr().cast::<c_char>(), name.len() as i32, device) };
        refused("cuDeviceGetName", result)?;
        let text = CStr::from_bytes_until_nul(&name).unwrap_or(c"a GPU without a name");
        Ok(text.to_string_lossy().into_owned())
    }
}

/// Every GPU, or one entry that says why there is none.
pub(crate) fn devices() -> Vec<DeviceInfo> {
    let all = || {
        let driver = Driver::find()?;
        (0..driver.count()?).map(|ordinal| driver.info(ordinal)).collect::<Result<Vec<_>, NoCuda>>()
    };
    all().unwrap_or_else(|reason| vec![crate::info::without_cuda(&reason)])
}

fn start() -> Result<(), NoCuda> {
    // The bindings panic at their first call where there is no library, so this comes before all others.
    // SAFETY: loading the driver runs its initialisers, which ask nothing of this program.
    if !unsafe { sys::is_culib_present() } {
        return Err(NoCuda::NoDriver);
    }
    let mut version = 0;
    // SAFETY: the library is there; `version` is a live integer. This call works before `cuInit`.
    refused("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&raw mut version) })?;
    let version = u32::try_from(version).unwrap_or(0);
    let found = CudaVersion { major: version / 1000, minor: version % 1000 / 10 };
    if found < OLDEST_DRIVER {
        return Err(NoCuda::DriverTooOld { found, needed: OLDEST_DRIVER });
    }
    // SAFETY: the library is there.
    match unsafe { sys::cuInit(0) } {
        CUresult::CUDA_ERROR_NO_DEVICE => Err(NoCuda::NoGpu),
        result => refused("cuInit", result),
    }
}

fn refused(call: &'static str, result: CUresult) -> Result<(), NoCuda> {
    if result == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let (code, text) = describe(result);
    Err(NoCuda::Refused { call, code, text })
}

/// The driver's name for a code, and its words.
pub(super) fn describe(code: CUresult) -> (String, String) {
    type Ask = unsafe fn(CUresult, *mut *const c_char) -> CUresult;
    let ask = |ask: Ask, otherwise: String| {
        let mut text = ptr::null();
        // SAFETY: a code exists, so the library is there; `text` is a live pointer, which the driver sets to a static string.
        let result = unsafe { ask(code, &raw mut text) };
        if result != CUresult::CUDA_SUCCESS || text.is_null() {
            return otherwise;
        }
        // SAFETY: the driver set it to a NUL-terminated string that is never freed.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    };
    (ask(sys::cuGetErrorName, format!("{code:?}")), ask(sys::cuGetErrorString, "no more is known".to_owned()))
}

/// Whether after this code no call in this process can succeed on the device.
pub(super) fn is_sticky(code: CUresult) -> bool {
    use CUresult as C;
    matches!(
        code,
        C::CUDA_ERROR_DEINITIALIZED
            | C::CUDA_ERROR_DEVICE_UNAVAILABLE
            | C::CUDA_ERROR_ECC_UNCORRECTABLE
            | C::CUDA_ERROR_NVLINK_UNCORRECTABLE
            | C::CUDA_ERROR_CONTAINED
            | C::CUDA_ERROR_ILLEGAL_ADDRESS
            | C::CUDA_ERROR_LAUNCH_TIMEOUT
            | C::CUDA_ERROR_CONTEXT_IS_DESTROYED
            | C::CUDA_ERROR_ASSERT
            | C::CUDA_ERROR_HARDWARE_STACK_ERROR
            | C::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | C::CUDA_ERROR_MISALIGNED_ADDRESS
            | C::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | C::CUDA_ERROR_INVALID_PC
            | C::CUDA_ERROR_LAUNCH_FAILED
            | C::CUDA_ERROR_MPS_RPC_FAILURE
            | C::CUDA_ERROR_MPS_CLIENT_TERMINATED
            | C::CUDA_ERROR_TENSOR_MEMORY_LEAK
            | C::CUDA_ERROR_EXTERNAL_DEVICE
            | C::CUDA_ERROR_UNKNOWN
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_caller_did_wrong_does_not_lose_the_device() {
        assert!(is_sticky(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS));
        assert!(is_sticky(CUresult::CUDA_ERROR_LAUNCH_FAILED));
        assert!(!is_sticky(CUresult::CUDA_ERROR_OUT_OF_MEMORY));
        assert!(!is_sticky(CUresult::CUDA_ERROR_INVALID_VALUE));
        assert!(!is_sticky(CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES));
    }
}
