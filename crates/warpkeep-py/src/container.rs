//! What the classes of containers share: where a container lies, and its columns as arrays.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use warpkeep::{Device, DeviceChoice, Error};
use warpkeep_containers::{ContainerError, Upsert};

use crate::array::{Array, Place};
use crate::cells::to_numpy;
use crate::device_array::DeviceArray;
use crate::dtype::Dtype;
use crate::errors::OrRaise;
use crate::library::Library;

/// Where a container lies.
#[derive(Clone)]
pub(crate) struct Home {
    /// The process that made it, if it lies on a device.
    device_process: Option<u32>,
    device: Option<Device>,
}

impl Home {
    /// Makes a container in the memory of the host (`None`) or of a device.
    pub(crate) fn make<T: Send>(
        py: Python<'_>,
        device: &str,
        make: impl FnOnce(Option<&Device>) -> Result<T, ContainerError> + Send,
    ) -> PyResult<(T, Home)> {
        let choice: DeviceChoice = device.parse::<DeviceChoice>().or_raise(py)?;
        let device = match choice {
            DeviceChoice::Cpu => None,
            choice => Some(py.detach(|| Device::open(choice)).or_raise(py)?),
        };
        let made = py.detach(|| make(device.as_ref())).or_raise(py)?;
        let device_process = device.as_ref().map(|_| std::process::id());
        Ok((made, Home { device_process, device }))
    }

    /// Refuses a process that cannot use the device.
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        match self.device_process {
            Some(pid) if pid != std::process::id() => Err(Error::Forked { pid }).or_raise(py),
            _ => Ok(()),
        }
    }

    /// The device, as in `open`.
    pub(crate) fn device(&self) -> String {
        self.device.as_ref().map_or(DeviceChoice::Cpu, Device::choice).to_string()
    }

    /// A copy of an array in the memory of the device.
    pub(crate) fn to_device(&self, py: Python<'_>, array: &Bound<'_, PyAny>) -> PyResult<DeviceArray> {
        self.check(py)?;
        match &self.device {
            Some(device) => DeviceArray::upload(py, device, array),
            None => {
                Err(PyTypeError::new_err("it lies in the memory of the host; give it the array as it is"))
            }
        }
    }

    /// The device, unless it lies in the memory of the host.
    pub(crate) fn on_device(&self) -> Option<&Device> {
        self.device.as_ref()
    }
}

/// What an upsert does with the value of a key that is there.
pub(crate) fn upsert_of(how: &str) -> PyResult<Upsert> {
    match how {
        "replace" => Ok(Upsert::Replace),
        "add" => Ok(Upsert::Add),
        "min" => Ok(Upsert::Min),
        "max" => Ok(Upsert::Max),
        other => Err(PyValueError::new_err(format!(
            "'{other}' is no way to change values; write replace, add, min or max"
        ))),
    }
}

/// An argument in host memory.
pub(crate) fn host_array<'py>(object: &Bound<'py, PyAny>, what: &'static str) -> PyResult<Array<'py>> {
    let array = Array::of(object, what, None)?;
    match array.place {
        Place::Host => Ok(array),
        Place::Device(_) => {
            let copy = if array.library == Library::Own { "numpy" } else { "cpu" };
            Err(PyValueError::new_err(format!(
                "{what}: lies in device memory; copy it to the host: {what}.{copy}()"
            )))
        }
    }
}

/// An argument that is a column of one of these types in host memory.
pub(crate) fn host_column<'py>(
    object: &Bound<'py, PyAny>,
    what: &'static str,
    dtypes: &[Dtype],
) -> PyResult<Array<'py>> {
    let array = host_array(object, what)?;
    array.column(dtypes, array.shape.first().copied().unwrap_or(0))?;
    Ok(array)
}

/// Numbers that arrays consist of.
///
/// # Safety
/// Each pattern of its bytes is a value, and it has no padding.
pub(crate) unsafe trait Element: Copy {}

// SAFETY: a number.
unsafe impl Element for u32 {}
// SAFETY: a number.
unsafe impl Element for i32 {}
// SAFETY: a number.
unsafe impl Element for f32 {}
// SAFETY: a number.
unsafe impl Element for u64 {}
// SAFETY: a number.
unsafe impl Element for i64 {}

/// The elements of an array that [`host_column`] checked.
///
/// # Panics
/// If its elements have another size.
pub(crate) fn elements<'a, T: Element>(array: &'a Array<'_>) -> &'a [T] {
    assert_eq!(array.dtype.size, size_of::<T>(), "the size of an element of {}", array.what);
    if array.count() == 0 {
        return &[];
    }
    // SAFETY: the array is an aligned column in host memory with that many elements, of which each pattern of bytes is a value; this
    // package does not write to it.
    unsafe { std::slice::from_raw_parts(array.address as *const T, array.count()) }
}

/// A new NumPy array of these elements, which are of this type or have its size.
pub(crate) fn column<'py, T: Element>(
    py: Python<'py>,
    dtype: Dtype,
    elements: &[T],
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the elements have no padding, so that all their bytes are initialized.
    let bytes = unsafe {
        std::slice::from_raw_parts(elements.as_ptr().cast::<u8>(), std::mem::size_of_val(elements))
    };
    to_numpy(py, dtype, &[elements.len()], bytes)
}

/// A new NumPy array of flags.
pub(crate) fn flags<'py>(py: Python<'py>, flags: impl Iterator<Item = bool>) -> PyResult<Bound<'py, PyAny>> {
    let bytes: Vec<u8> = flags.map(u8::from).collect();
    to_numpy(py, Dtype::BOOL, &[bytes.len()], &bytes)
}
