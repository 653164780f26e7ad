//! Arrays that callers give: NumPy arrays, tensors by DLPack, and arrays of this package in device memory.

use std::fmt;

use numpy::npyffi::{NPY_ARRAY_ALIGNED, NPY_ARRAY_WRITEABLE};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::device_array::DeviceArray;
use crate::dlpack::{self, Tensor};
use crate::dtype::Dtype;
use crate::library::Library;
use crate::spec::Form;

/// The memory of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The process's own.
    Host,
    /// That of the device with this number.
    Device(u32),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Host => f.write_str("host memory"),
            Place::Device(number) => write!(f, "the memory of device {number}"),
        }
    }
}

/// An array of a caller, kept alive as long as this value lives.
pub(crate) struct Array<'py> {
    /// The name of the argument, for messages.
    pub(crate) what: &'static str,
    pub(crate) address: usize,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    pub(crate) place: Place,
    pub(crate) library: Library,
    contiguous: bool,
    writable: bool,
    aligned: bool,
    /// The object itself.
    pub(crate) object: Bound<'py, PyAny>,
    /// The CUDA stream that it was made ready for.
    pub(crate) stream: Option<u64>,
    /// What keeps the memory, if that is not the object.
    _owner: Option<Bound<'py, PyAny>>,
}

impl<'py> Array<'py> {
    /// The array that an argument is. `stream` is the CUDA stream that will use it, if the caller named one.
    pub(crate) fn of(
        object: &Bound<'py, PyAny>,
        what: &'static str,
        stream: Option<u64>,
    ) -> PyResult<Array<'py>> {
        if let Ok(array) = object.cast::<PyUntypedArray>() {
            return Array::of_numpy(array, what);
        }
        if let Ok(array) = object.cast::<DeviceArray>() {
            return Ok(Array::of_device_array(array, what));
        }
        match dlpack::device_of(object)? {
            Some((kind, number)) => Array::of_dlpack(object, what, (kind, number), stream),
            None => Err(PyTypeError::new_err(format!(
                "{what}: {} is no array; give a NumPy array or a tensor with __dlpack__: numpy.asarray({what})",
                object.get_type().name()?
            ))),
        }
    }

    fn of_numpy(array: &Bound<'py, PyUntypedArray>, what: &'static str) -> PyResult<Array<'py>> {
        let dtype = Dtype::of(&array.dtype())?;
        let raw = array.as_array_ptr();
        // SAFETY: it is an array, and the GIL is held.
        let (data, flags) = unsafe { ((*raw).fields.data, (*raw).fields.flags) };
        Ok(Array {
            what,
            address: data as usize,
            dtype,
            shape: array.shape().to_vec(),
            place: Place::Host,
            library: Library::NumPy,
            contiguous: array.is_c_contiguous(),
            writable: flags & NPY_ARRAY_WRITEABLE != 0,
            aligned: flags & NPY_ARRAY_ALIGNED != 0,
            object: array.clone().into_any(),
            stream: None,
            _owner: None,
        })
    }

    fn of_device_array(array: &Bound<'py, DeviceArray>, what: &'static str) -> Array<'py> {
        let own = array.get();
        Array {
            what,
            address: own.address(),
            dtype: own.dtype,
            shape: own.shape.clone(),
            place: Place::Device(own.number()),
            library: Library::Own,
            contiguous: true,
            writable: true,
            aligned: true,
            object: array.clone().into_any(),
            stream: None,
            _owner: None,
        }
    }

    fn of_dlpack(
        object: &Bound<'py, PyAny>,
        what: &'static str,
        (kind, number): (i32, i32),
        stream: Option<u64>,
    ) -> PyResult<Array<'py>> {
        let library = Library::of(object)?;
        let place = match (kind, u32::try_from(number)) {
            (dlpack::CPU | dlpack::CUDA_HOST, _) => Place::Host,
            (dlpack::CUDA | dlpack::CUDA_MANAGED, Ok(number)) => Place::Device(number),
            _ => {
                return Err(PyTypeError::new_err(format!(
                    "{what}: lies on a device of DLPack's kind {kind}, which Warpkeep cannot use; move it to the CPU or to a CUDA device"
                )));
            }
        };
        let stream = match place {
            Place::Host => None,
            Place::Device(number) => Some(library.stream(object.py(), number, stream)?),
        };
        // PyTorch and CuPy have no read-only arrays, so that the question is not worth its time.
        let tensor = Tensor::of(object, stream, library == Library::Other)?;
        let Some(dtype) = tensor.dtype else {
            return Err(PyTypeError::new_err(format!(
                "{what}: elements of this type are not known; convert it to float32, float64, float16 or integers"
            )));
        };
        let aligned = tensor.address.is_multiple_of(dtype.size.max(1));
        Ok(Array {
            what,
            address: tensor.address,
            dtype,
            shape: tensor.shape.clone(),
            place,
            library,
            contiguous: tensor.contiguous,
            writable: !tensor.read_only && library != Library::Immutable,
            aligned,
            object: object.clone(),
            stream,
            _owner: Some(tensor.into_owner()),
        })
    }

    /// Refuses an array in device memory, of a call whose keys lie in host memory.
    pub(crate) fn check_host(&self) -> PyResult<()> {
        match self.place {
            Place::Host => Ok(()),
            place => Err(PyTypeError::new_err(format!(
                "{}: lies in {place}, and the keys in host memory; give all arrays of a call in one memory",
                self.what
            ))),
        }
    }

    /// How many elements.
    pub(crate) fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// How many bytes.
    pub(crate) fn nbytes(&self) -> usize {
        self.count() * self.dtype.size
    }

    /// Refuses gaps between elements.
    pub(crate) fn check_contiguous(&self) -> PyResult<()> {
        if self.contiguous {
            return Ok(());
        }
        let fix = match self.library {
            Library::Torch => "tensor.contiguous()",
            _ => "numpy.ascontiguousarray(array)",
        };
        Err(PyValueError::new_err(format!(
            "{}: its elements do not lie one behind the other; give {fix}",
            self.what
        )))
    }

    /// Refuses an array that cannot be written to.
    pub(crate) fn check_writable(&self) -> PyResult<()> {
        if self.writable {
            return Ok(());
        }
        let (what, of) = (self.what, self.object.get_type().name()?);
        Err(PyValueError::new_err(match self.library {
            Library::Immutable => {
                format!("{what}: a {of} never changes; give a NumPy array, or leave {what}= away")
            }
            _ => format!("{what}: is read-only; give a copy of it"),
        }))
    }

    /// Refuses an array that is not cells of this form, and says how many there are.
    pub(crate) fn cells(&self, form: Form) -> PyResult<usize> {
        let (what, dtype, shape) = (self.what, self.dtype, &self.shape[..]);
        let wrong = |expected: String| {
            let found = format!("{what}: an array of {dtype} of shape {shape:?}");
            PyTypeError::new_err(format!("{found}; the table takes {expected}"))
        };
        let count = match (form, shape) {
            (Form::Scalar(Dtype::U64 | Dtype::I64), &[count]) if matches!(dtype, Dtype::U64 | Dtype::I64) => {
                count
            }
            (Form::Scalar(element), &[count]) if dtype == element => count,
            (Form::Scalar(element), _) => {
                let fix =
                    if shape.len() == 1 { format!(": array.astype('{element}')") } else { String::new() };
                return Err(wrong(format!("one-dimensional arrays of {element}{fix}")));
            }
            (Form::Row(element, width), &[count, found]) if dtype == element && found == width => count,
            (Form::Row(element, width), _) => {
                let fix = match shape {
                    &[_, found] if found == width => format!(": array.astype('{element}')"),
                    _ => String::new(),
                };
                return Err(wrong(format!("arrays of {element} of shape (n, {width}){fix}")));
            }
            (Form::Fixed(len), &[count]) if matches!(dtype.kind, b'S' | b'V') && dtype.size == len => count,
            (Form::Fixed(len), &[count, found]) if dtype == Dtype::U8 && found == len => count,
            (Form::Fixed(len), _) => {
                return Err(wrong(format!(
                    "arrays of 'V{len}' or 'S{len}', or of uint8 of shape (n, {len})"
                )));
            }
            (Form::Bytes(_), _) => return Err(wrong("a list of bytes".to_owned())),
        };
        self.check_contiguous()?;
        Ok(count)
    }

    /// Refuses an array that is not `count` elements of one of these types in one dimension.
    pub(crate) fn column(&self, dtypes: &[Dtype], count: usize) -> PyResult<()> {
        if !dtypes.contains(&self.dtype) || self.shape != [count] {
            return Err(PyTypeError::new_err(format!(
                "{}: an array of {} of shape {:?}; {} of shape [{count}] is needed",
                self.what,
                self.dtype,
                self.shape,
                dtypes.first().map_or_else(String::new, |dtype| dtype.long())
            )));
        }
        self.check_contiguous()?;
        if !self.aligned {
            return Err(PyValueError::new_err(format!("{}: is not aligned; give a copy of it", self.what)));
        }
        Ok(())
    }

    /// Its bytes, if it lies in host memory.
    ///
    /// # Safety
    /// It is contiguous, lies in host memory, and this package writes to none of it while the slice is used. (Other threads of the program may,
    /// as with every function that takes arrays; the values are unspecified then.)
    pub(crate) unsafe fn bytes(&self) -> &[u8] {
        match self.nbytes() {
            0 => &[],
            // SAFETY: the array has that many bytes at that address, and the object keeps them.
            len => unsafe { std::slice::from_raw_parts(self.address as *const u8, len) },
        }
    }

    /// The same, to be written to.
    ///
    /// # Safety
    /// As [`bytes`](Self::bytes); it is writable, and nothing else of this package refers to the memory while the slice is used.
    #[allow(clippy::mut_from_ref, reason = "the memory is Python's, not this value's")]
    pub(crate) unsafe fn bytes_mut(&self) -> &mut [u8] {
        match self.nbytes() {
            0 => &mut [],
            // SAFETY: as this function's contract says.
            len => unsafe { std::slice::from_raw_parts_mut(self.address as *mut u8, len) },
        }
    }

    /// Refuses arrays that share memory, of which one is written to.
    pub(crate) fn check_apart(&self, other: &Array<'_>) -> PyResult<()> {
        let (mine, its) =
            (self.address..self.address + self.nbytes(), other.address..other.address + other.nbytes());
        match self.place == other.place && mine.start < its.end && its.start < mine.end {
            true => Err(PyValueError::new_err(format!(
                "{} and {} share memory; give a copy of one of them",
                self.what, other.what
            ))),
            false => Ok(()),
        }
    }
}
