//! The libraries that arrays are of, so that answers come in the same one.

use numpy::npyffi::{NpyTypes, PY_ARRAY_API, get_type_object, npy_intp};
use numpy::{PyArrayDescrMethods, PyUntypedArray};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::dtype::Dtype;

/// The library of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    /// NumPy, and answers to arguments that are no arrays.
    NumPy,
    /// PyTorch.
    Torch,
    /// CuPy.
    CuPy,
    /// This package's arrays in device memory.
    Own,
    /// Another one that has DLPack.
    Other,
}

impl Library {
    /// That of an object.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Library> {
        let module: String = object.get_type().getattr("__module__")?.extract()?;
        Ok(match module.split('.').next() {
            Some("torch") => Library::Torch,
            Some("cupy" | "cupy_backends") => Library::CuPy,
            _ => Library::Other,
        })
    }

    /// The CUDA stream that arrays of this library on this device are used in; 0 is the default stream.
    pub(crate) fn stream(self, py: Python<'_>, device: u32, given: Option<u64>) -> PyResult<u64> {
        if let Some(given) = given {
            return Ok(given);
        }
        match self {
            Library::Torch => {
                let cuda = py.import("torch")?.getattr("cuda")?;
                cuda.call_method1("current_stream", (device,))?.getattr("cuda_stream")?.extract()
            }
            Library::CuPy => {
                let cuda = py.import("cupy")?.getattr("cuda")?;
                cuda.call_method0("get_current_stream")?.getattr("ptr")?.extract()
            }
            Library::NumPy | Library::Own | Library::Other => Ok(0),
        }
    }

    /// A NumPy array as one of this library, without a copy; of libraries without such arrays, as it is.
    pub(crate) fn wrap<'py>(self, array: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            // PyTorch has no unsigned numbers of more than one byte in its older versions: ids are int64 there.
            Library::Torch => {
                let py = array.py();
                let unsigned: bool =
                    array.getattr("dtype")?.call_method1("__eq__", (Dtype::U64.descr(py)?,))?.extract()?;
                let array =
                    if unsigned { array.call_method1("view", (Dtype::I64.descr(py)?,))? } else { array };
                py.import("torch")?.call_method1("from_numpy", (array,))
            }
            _ => Ok(array),
        }
    }

    /// An array of zeros on the device of `like`, which is of this library.
    pub(crate) fn zeros_like_device<'py>(
        self,
        like: &Bound<'py, PyAny>,
        dtype: Dtype,
        shape: &[usize],
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = like.py();
        let options = PyDict::new(py);
        match self {
            Library::Torch => {
                let torch = py.import("torch")?;
                let name = if dtype == Dtype::U64 { Dtype::I64.long() } else { dtype.long() };
                options.set_item("dtype", torch.getattr(name)?)?;
                options.set_item("device", like.getattr("device")?)?;
                torch.call_method("zeros", (shape.to_vec(),), Some(&options))
            }
            Library::CuPy => {
                options.set_item("dtype", dtype.long())?;
                py.import("cupy")?.call_method("zeros", (shape.to_vec(),), Some(&options))
            }
            _ => Err(PyTypeError::new_err(
                "arrays of this library cannot be made by Warpkeep on a device; give arrays for the answers (out=, statuses=)",
            )),
        }
    }
}

/// A new NumPy array; its contents are unspecified.
pub(crate) fn empty<'py>(
    py: Python<'py>,
    dtype: Dtype,
    shape: &[usize],
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let descr = dtype.descr(py)?;
    let mut dims = [0 as npy_intp; 2];
    let ndim = shape.len().min(2);
    for (dim, len) in dims.iter_mut().zip(shape) {
        *dim = *len as npy_intp;
    }
    // SAFETY: the GIL is held; the call takes the reference to the descriptor, and returns a new array or sets an exception.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            get_type_object(py, NpyTypes::PyArray_Type),
            descr.into_dtype_ptr(),
            ndim as i32,
            dims.as_mut_ptr(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            0,
            std::ptr::null_mut(),
        );
        Ok(Bound::from_owned_ptr_or_err(py, array)?.cast_into_unchecked())
    }
}
