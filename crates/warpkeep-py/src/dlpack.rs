//! Tensors of other libraries, by the DLPack protocol.

use std::ffi::{CStr, c_void};

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyDict};

use crate::dtype::Dtype;

const NAME: &CStr = c"dltensor";
/// The name of capsules that have a version, and say whether the tensor may be written to.
const NAME_VERSIONED: &CStr = c"dltensor_versioned";
/// The version that is asked for; later ones of the same first number differ in nothing that is used here.
const VERSION: (u32, u32) = (1, 0);
/// The flag of tensors that must not be written to.
const READ_ONLY: u64 = 1;
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

#[repr(C)]
struct DlManagedTensorVersioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DlManagedTensorVersioned)>,
    flags: u64,
    tensor: DlTensor,
}

/// A tensor of another library. The capsule keeps its memory; it is not renamed, so that its destructor gives the memory back when the
/// capsule is dropped.
pub(crate) struct Tensor<'py> {
    capsule: Bound<'py, PyCapsule>,
    pub(crate) address: usize,
    pub(crate) dtype: Option<Dtype>,
    pub(crate) shape: Vec<usize>,
    pub(crate) contiguous: bool,
    /// Whether its library says that it must not be written to.
    pub(crate) read_only: bool,
}

impl<'py> Tensor<'py> {
    /// The tensor of an object that has `__dlpack__`; on a CUDA device, ready for work in `stream`. `versioned` asks for the form that says
    /// whether it may be written to, which older libraries do not have.
    pub(crate) fn of(
        object: &Bound<'py, PyAny>,
        stream: Option<u64>,
        versioned: bool,
    ) -> PyResult<Tensor<'py>> {
        let ask = |versioned: bool| {
            let arguments = PyDict::new(object.py());
            if let Some(stream) = stream {
                // The protocol's number for the default stream is 1.
                arguments.set_item("stream", stream.max(1))?;
            }
            if versioned {
                arguments.set_item("max_version", VERSION)?;
            }
            object.call_method("__dlpack__", (), (!arguments.is_empty()).then_some(&arguments))
        };
        let capsule = match versioned.then(|| ask(true)) {
            Some(Err(error)) if error.is_instance_of::<PyTypeError>(object.py()) => ask(false),
            Some(answer) => answer,
            None => ask(false),
        }?;
        let capsule = capsule.cast_into::<PyCapsule>().map_err(|_| {
            PyTypeError::new_err(
                "__dlpack__ did not return a capsule; convert the array with numpy.asarray first",
            )
        })?;
        let (tensor, read_only) = match capsule.pointer_checked(Some(NAME_VERSIONED)) {
            Ok(pointer) => {
                // SAFETY: a capsule of this name holds a `DLManagedTensorVersioned`, whose first numbers are those of its version in all
                // versions; it lives as long as the capsule, and the capsule is kept.
                let managed = unsafe { pointer.cast::<DlManagedTensorVersioned>().as_ref() };
                if managed.major != VERSION.0 {
                    return Err(PyBufferError::new_err(format!(
                        "the DLPack capsule has version {}.{}, and 1 was asked for; convert the array with numpy.asarray first",
                        managed.major, managed.minor
                    )));
                }
                (&managed.tensor, managed.flags & READ_ONLY != 0)
            }
            Err(_) => {
                let pointer = capsule.pointer_checked(Some(NAME)).map_err(|_| {
                    PyBufferError::new_err(
                        "the DLPack capsule was used before; call __dlpack__ again, or give the array itself",
                    )
                })?;
                // SAFETY: a capsule of this name holds a `DLManagedTensor`, which lives as long as the capsule, and the capsule is kept.
                (unsafe { &pointer.cast::<DlManagedTensor>().as_ref().tensor }, false)
            }
        };
        let ndim = usize::try_from(tensor.ndim).unwrap_or(0);
        // SAFETY: the protocol gives `ndim` elements of shape, and of strides unless that is null.
        let (shape, strides) = unsafe { (of_len(tensor.shape, ndim), of_len(tensor.strides, ndim)) };
        let shape: Vec<usize> = shape.iter().map(|&len| usize::try_from(len).unwrap_or(0)).collect();
        let contiguous = tensor.strides.is_null() || is_contiguous(&shape, strides);
        let address = tensor.data as usize + tensor.byte_offset as usize;
        let dtype = Dtype::of_dlpack(tensor.code, tensor.bits, tensor.lanes);
        Ok(Tensor { address, dtype, shape, contiguous, read_only, capsule })
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
