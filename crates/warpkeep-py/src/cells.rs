//! Keys and values of batches, and single ones, as bytes.

use numpy::PyUntypedArray;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList, PyTuple};
use warpkeep::rows::{Cells, Column, DeviceSlice};

use crate::array::{Array, Place};
use crate::dtype::Dtype;
use crate::library;
use crate::spec::Form;

/// The keys, or the values, of a batch.
pub(crate) enum Given<'py> {
    /// An array of the caller, used in place.
    Array(Array<'py>),
    /// A list of bytes, copied together.
    List { offsets: Vec<u64>, bytes: Vec<u8> },
}

impl<'py> Given<'py> {
    /// The cells of an argument, and how many there are.
    pub(crate) fn of(
        object: &Bound<'py, PyAny>,
        what: &'static str,
        form: Form,
        stream: Option<u64>,
    ) -> PyResult<(Given<'py>, usize)> {
        if matches!(form, Form::Fixed(_) | Form::Bytes(_))
            && (object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>())
        {
            return Given::of_list(object, what);
        }
        if let Form::Bytes(_) = form {
            return Err(PyTypeError::new_err(format!(
                "{what}: the table has bytes of any length here; give a list of bytes, not {}",
                object.get_type().name()?
            )));
        }
        let array = Array::of(object, what, stream)?;
        let count = array.cells(form)?;
        Ok((Given::Array(array), count))
    }

    fn of_list(object: &Bound<'py, PyAny>, what: &'static str) -> PyResult<(Given<'py>, usize)> {
        let (mut offsets, mut bytes) = (vec![0], Vec::new());
        for (index, cell) in object.try_iter()?.enumerate() {
            let cell: PyBackedBytes = cell?.extract().map_err(|_| {
                PyTypeError::new_err(format!("{what}[{index}] is not bytes; encode text: text.encode()"))
            })?;
            bytes.extend_from_slice(&cell);
            offsets.push(bytes.len() as u64);
        }
        let count = offsets.len() - 1;
        Ok((Given::List { offsets, bytes }, count))
    }

    /// The array, if it is one.
    pub(crate) fn array(&self) -> Option<&Array<'py>> {
        match self {
            Given::Array(array) => Some(array),
            Given::List { .. } => None,
        }
    }

    /// The CUDA stream that it was made ready for.
    pub(crate) fn stream(&self) -> Option<u64> {
        self.array().and_then(|array| array.stream)
    }

    /// The memory it lies in.
    pub(crate) fn place(&self) -> Place {
        self.array().map_or(Place::Host, |array| array.place)
    }

    /// As the library takes it.
    ///
    /// # Safety
    /// Nothing writes to the array while the cells are used.
    pub(crate) unsafe fn cells(&self, form: Form) -> Cells<'_> {
        match (self, form.fixed_len()) {
            (Given::List { offsets, bytes }, _) => Cells::variable(offsets, bytes),
            (Given::Array(array), len) => {
                let len = len.unwrap_or(array.dtype.size);
                let bytes = match array.place {
                    // SAFETY: it was checked to be contiguous; nothing writes to it.
                    Place::Host => Column::Host(unsafe { array.bytes() }),
                    // SAFETY: the array has that many bytes there, and is kept; nothing writes to it.
                    Place::Device(number) => Column::Device(unsafe {
                        DeviceSlice::from_raw(array.address as u64, array.nbytes(), number)
                    }),
                };
                Cells::Fixed { len, bytes }
            }
        }
    }
}

/// The bytes of one key or value.
pub(crate) enum Single {
    /// A number.
    Number([u8; 8], usize),
    /// Bytes that Python keeps.
    Backed(PyBackedBytes),
    /// Bytes that were copied.
    Owned(Vec<u8>),
}

impl AsRef<[u8]> for Single {
    fn as_ref(&self) -> &[u8] {
        match self {
            Single::Number(bytes, len) => &bytes[..*len],
            Single::Backed(bytes) => bytes,
            Single::Owned(bytes) => bytes,
        }
    }
}

impl Single {
    /// The bytes of a key.
    pub(crate) fn key(object: &Bound<'_, PyAny>, form: Form) -> PyResult<Single> {
        let number = |bytes: u64| Single::Number(bytes.to_le_bytes(), 8);
        match form {
            Form::Scalar(Dtype::I64) => object.extract::<i64>().map(|key| number(key as u64)),
            Form::Scalar(_) => object.extract::<u64>().map(number),
            _ => return Single::bytes(object, "the key"),
        }
        .map_err(|error| {
            let py = object.py();
            if error.is_instance_of::<PyOverflowError>(py) {
                return PyOverflowError::new_err(format!(
                    "{object} is no 64-bit key; keys of u64 are 0 to 2**64 - 1, those of i64 have a sign"
                ));
            }
            let kind = object.get_type().name().map_or_else(|_| "it".to_owned(), |name| name.to_string());
            PyTypeError::new_err(format!(
                "the key is a {kind}, and the table has 64-bit integers; for arrays of keys use lookup, put or delete"
            ))
        })
    }

    fn bytes(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Single> {
        object.extract().map(Single::Backed).map_err(|_| {
            let kind = object.get_type().name().map_or_else(|_| "it".to_owned(), |name| name.to_string());
            PyTypeError::new_err(format!("{what} is a {kind}, not bytes; encode text: text.encode()"))
        })
    }

    /// The bytes of a value.
    pub(crate) fn value(object: &Bound<'_, PyAny>, form: Form) -> PyResult<Single> {
        match form {
            Form::Fixed(_) | Form::Bytes(_) => Single::bytes(object, "the value"),
            Form::Scalar(Dtype { kind: b'f', size: 8 }) => {
                Ok(Single::Number(object.extract::<f64>()?.to_le_bytes(), 8))
            }
            Form::Scalar(Dtype::U64) => Ok(Single::Number(object.extract::<u64>()?.to_le_bytes(), 8)),
            Form::Scalar(Dtype::I64) => Ok(Single::Number(object.extract::<i64>()?.to_le_bytes(), 8)),
            Form::Scalar(dtype) => Single::converted(object, dtype, &[]),
            Form::Row(dtype, width) => {
                if let Ok(array) = object.cast::<PyUntypedArray>()
                    && let Ok(array) = Array::of(array.as_any(), "the value", None)
                    && array.dtype == dtype
                    && array.shape == [width]
                    && array.check_contiguous().is_ok()
                {
                    // SAFETY: it is contiguous and lies in host memory; the GIL is held.
                    return Ok(Single::Owned(unsafe { array.bytes() }.to_vec()));
                }
                Single::converted(object, dtype, &[width])
            }
        }
    }

    /// What NumPy makes of an object.
    fn converted(object: &Bound<'_, PyAny>, dtype: Dtype, shape: &[usize]) -> PyResult<Single> {
        let py = object.py();
        let array = py.import("numpy")?.call_method1("ascontiguousarray", (object, dtype.descr(py)?))?;
        let array = Array::of(&array, "the value", None)?;
        let is_scalar = shape.is_empty() && array.count() == 1;
        if array.shape != shape && !is_scalar {
            return Err(PyValueError::new_err(format!(
                "the value has shape {:?}, and the table takes {shape:?}",
                array.shape
            )));
        }
        // SAFETY: NumPy has just made it contiguous in host memory; the GIL is held.
        Ok(Single::Owned(unsafe { array.bytes() }.to_vec()))
    }
}

/// Dtype and shape of `count` cells.
pub(crate) fn shape_of(form: Form, count: usize) -> (Dtype, Vec<usize>) {
    match form {
        Form::Scalar(dtype) => (dtype, vec![count]),
        Form::Row(dtype, width) => (dtype, vec![count, width]),
        Form::Fixed(len) | Form::Bytes(len) => (Dtype::U8, vec![count, len]),
    }
}

/// One key or value as Python has it.
pub(crate) fn to_python<'py>(py: Python<'py>, form: Form, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let eight = || <[u8; 8]>::try_from(bytes).unwrap_or_default();
    match form {
        Form::Fixed(_) | Form::Bytes(_) => Ok(PyBytes::new(py, bytes).into_any()),
        Form::Scalar(Dtype::U64) => Ok(u64::from_le_bytes(eight()).into_pyobject(py)?.into_any()),
        Form::Scalar(Dtype::I64) => Ok(i64::from_le_bytes(eight()).into_pyobject(py)?.into_any()),
        Form::Scalar(Dtype { kind: b'f', size: 8 }) => {
            Ok(f64::from_le_bytes(eight()).into_pyobject(py)?.into_any())
        }
        Form::Scalar(dtype) => to_numpy(py, dtype, &[1], bytes)?.call_method0("item"),
        Form::Row(dtype, width) => to_numpy(py, dtype, &[width], bytes),
    }
}

/// Bytes as a new NumPy array.
pub(crate) fn to_numpy<'py>(
    py: Python<'py>,
    dtype: Dtype,
    shape: &[usize],
    bytes: &[u8],
) -> PyResult<Bound<'py, PyAny>> {
    let array = library::empty(py, dtype, shape)?.into_any();
    let target = Array::of(&array, "array", None)?;
    // SAFETY: the array was just made, and nothing else refers to it.
    let room = unsafe { target.bytes_mut() };
    if room.len() != bytes.len() {
        return Err(PyValueError::new_err(format!("{} bytes for an array of {}", bytes.len(), room.len())));
    }
    room.copy_from_slice(bytes);
    Ok(array)
}
