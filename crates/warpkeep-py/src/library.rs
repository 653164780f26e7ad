//! The libraries that arrays are of, so that answers come in the same one.

use numpy::npyffi::{NpyTypes, PY_ARRAY_API, get_type_object, npy_intp};
use numpy::{PyArrayDescrMethods, PyUntypedArray};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use crate::dtype::Dtype;

// Modules are looked up once: an import of one that is there costs as much as a lookup of some keys.
static TORCH: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
static TORCH_CUDA: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
static CUPY: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

fn module<'py>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyModule>>,
    name: &str,
) -> PyResult<&'py Bound<'py, PyModule>> {
    Ok(cell.get_or_try_init(py, || py.import(name).map(Bound::unbind))?.bind(py))
}

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
    /// JAX or TensorFlow, whose arrays never change.
    Immutable,
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
            Some("jax" | "jaxlib" | "tensorflow") => Library::Immutable,
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
                let cuda = module(py, &TORCH_CUDA, "torch.cuda")?;
                cuda.call_method1("current_stream", (device,))?.getattr("cuda_stream")?.extract()
            }
            Library::CuPy => {
                let cuda = module(py, &CUPY, "cupy")?.getattr("cuda")?;
                cuda.call_method0("get_current_stream")?.getattr("ptr")?.extract()
            }
            Library::NumPy | Library::Own | Library::Immutable | Library::Other => Ok(0),
        }
    }

    /// A NumPy array as one of this library, without a copy; of libraries without such arrays, as it is. PyTorch's ids are signed, so that
    /// 64-bit numbers are `int64` there.
    pub(crate) fn wrap<'py>(self, array: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.wrap_as(array, |dtype| dtype == Dtype::U64)
    }

    /// The same. `signed` says which unsigned numbers become signed ones of the same bits.
    pub(crate) fn wrap_as<'py>(
        self,
        array: Bound<'py, PyAny>,
        signed: impl Fn(Dtype) -> bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        if self != Library::Torch {
            return Ok(array);
        }
        let py = array.py();
        let torch = module(py, &TORCH, "torch")?;
        let dtype = Dtype::of(&array.getattr("dtype")?.cast_into()?)?;
        // Older versions have no unsigned numbers of more than one byte.
        let as_signed =
            dtype.kind == b'u' && dtype.size > 1 && (signed(dtype) || !torch.hasattr(dtype.long())?);
        let array = match as_signed {
            true => {
                let signed = Dtype { kind: b'i', size: dtype.size };
                array.call_method1("view", (signed.descr(py)?,))?
            }
            false => array,
        };
        torch.call_method1("from_numpy", (array,))
    }

    /// An array of this package as one of this library, in the same memory, on the device of `like`; of libraries without such arrays, as
    /// it is.
    pub(crate) fn view_of<'py>(
        self,
        array: Bound<'py, PyAny>,
        like: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = array.py();
        match self {
            Library::Torch => {
                let options = PyDict::new(py);
                options.set_item("device", like.getattr("device")?)?;
                module(py, &TORCH, "torch")?.call_method("as_tensor", (array,), Some(&options))
            }
            Library::CuPy => module(py, &CUPY, "cupy")?.call_method1("asarray", (array,)),
            _ => Ok(array),
        }
    }

    /// An array on the device of `like`, which is of this library: of zeros, or with contents that are unspecified.
    pub(crate) fn new_like_device<'py>(
        self,
        like: &Bound<'py, PyAny>,
        zeros: bool,
        dtype: Dtype,
        shape: &[usize],
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = like.py();
        let (options, make) = (PyDict::new(py), if zeros { "zeros" } else { "empty" });
        match self {
            Library::Torch => {
                let torch = module(py, &TORCH, "torch")?;
                let name = if dtype == Dtype::U64 { Dtype::I64.long() } else { dtype.long() };
                options.set_item("dtype", torch.getattr(name)?)?;
                options.set_item("device", like.getattr("device")?)?;
                torch.call_method(make, (shape.to_vec(),), Some(&options))
            }
            Library::CuPy => {
                options.set_item("dtype", dtype.long())?;
                module(py, &CUPY, "cupy")?.call_method(make, (shape.to_vec(),), Some(&options))
            }
            _ => Err(PyTypeError::new_err(
                "Warpkeep makes arrays for answers on a GPU with PyTorch and CuPy alone; give the ids as one of theirs, which copies \
                 nothing: torch.from_dlpack(ids)",
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
    if shape.len() > 2 {
        return Err(PyValueError::new_err(format!(
            "an array of shape {shape:?}; there are at most two dimensions"
        )));
    }
    let descr = dtype.descr(py)?;
    let mut dims = [0 as npy_intp; 2];
    let ndim = shape.len();
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
