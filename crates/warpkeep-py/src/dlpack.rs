//! Tensors of other libraries, by the DLPack protocol.

use std::ffi::{CStr, c_void};

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyDict};

use crate::dtype::Dtype;

const NAME: &CStr = c"dltensor";
/// The memory of the process.
pub(crate) const CPU: i32 = 1;
/// The memory of a CUDA device.
pub(crate) const CUDA: i32 = 2;
/// Host memory that CUDA has pinned.
pub(crate) const CUDA_HOST: i32 = 3;
/// Memory that CUDA moves between host and device.
pub(crate) const CUDA_MANAGED: i32 = 13;

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct DlManagedTensor {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DlManagedTensor)>,
}

/// A tensor of another library. The capsule keeps its memory; it is not renamed, so that its destructor gives the memory back when the
/// capsule is dropped.
pub(crate) struct Tensor<'py> {
    capsule: Bound<'py, PyCapsule>,
    pub(crate) address: usize,
    pub(crate) dtype: Option<Dtype>,
    pub(crate) shape: Vec<usize>,
    pub(crate) contiguous: bool,
}

impl<'py> Tensor<'py> {
    /// The tensor of an object that has `__dlpack__`; on a CUDA device, ready for work in `stream`.
    pub(crate) fn of(object: &Bound<'py, PyAny>, stream: Option<u64>) -> PyResult<Tensor<'py>> {
        let capsule = match stream {
            None => object.call_method0("__dlpack__")?,
            // The protocol's number for the default stream is 1.
            Some(stream) => {
                let arguments = PyDict::new(object.py());
                arguments.set_item("stream", stream.max(1))?;
                object.call_method("__dlpack__", (), Some(&arguments))?
            }
        };
        let capsule = capsule.cast_into::<PyCapsule>().map_err(|_| {
            PyTypeError::new_err(
                "__dlpack__ did not return a capsule; convert the array with numpy.asarray first",
            )
        })?;
        let pointer = capsule.pointer_checked(Some(NAME)).map_err(|_| {
            PyBufferError::new_err(
                "the DLPack capsule was used before; call __dlpack__ again, or give the array itself",
            )
        })?;
        // SAFETY: a capsule of this name holds a `DLManagedTensor`, which lives as long as the capsule, and the capsule is kept.
        let tensor = unsafe { &pointer.cast::<DlManagedTensor>().as_ref().tensor };
        let ndim = usize::try_from(tensor.ndim).unwrap_or(0);
        // SAFETY: the protocol gives `ndim` elements of shape, and of strides unless that is null.
        let (shape, strides) = unsafe { (of_len(tensor.shape, ndim), of_len(tensor.strides, ndim)) };
        let shape: Vec<usize> = shape.iter().map(|&len| usize::try_from(len).unwrap_or(0)).collect();
        let contiguous = tensor.strides.is_null() || is_contiguous(&shape, strides);
        let address = tensor.data as usize + tensor.byte_offset as usize;
        let dtype = Dtype::of_dlpack(tensor.code, tensor.bits, tensor.lanes);
        Ok(Tensor { address, dtype, shape, contiguous, capsule })
    }

    /// What keeps the memory.
    pub(crate) fn into_owner(self) -> Bound<'py, PyAny> {
        self.capsule.into_any()
    }
}

/// # Safety
/// `pointer` is null, or leads to `len` numbers that live as long as the slice is used.
unsafe fn of_len<'a>(pointer: *const i64, len: usize) -> &'a [i64] {
    match pointer.is_null() || len == 0 {
        true => &[],
        // SAFETY: as this function's contract says.
        false => unsafe { std::slice::from_raw_parts(pointer, len) },
    }
}

/// Whether strides, in elements, are those of rows one behind the other.
pub(crate) fn is_contiguous(shape: &[usize], strides: &[i64]) -> bool {
    if shape.contains(&0) {
        return true;
    }
    let mut expected = 1_i64;
    for (&len, &stride) in shape.iter().zip(strides).rev() {
        if len != 1 && stride != expected {
            return false;
        }
        expected = expected.saturating_mul(len as i64);
    }
    true
}

/// Device and number of an object that has `__dlpack__`; `None` if it has none.
pub(crate) fn device_of(object: &Bound<'_, PyAny>) -> PyResult<Option<(i32, i32)>> {
    if !object.hasattr("__dlpack__")? {
        return Ok(None);
    }
    object.call_method0("__dlpack_device__")?.extract().map(Some)
}
