//! What the classes of containers share: where a container lies, and its columns as arrays.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use warpkeep::{Device, DeviceChoice, Error};
use warpkeep_containers::{ContainerError, Upsert};

use crate::array::{Array, Place};
use crate::cells::to_numpy;
use crate::device_array::DeviceArray;
use crate::dtype::Dtype;
use crate::errors::{OrRaise, exception};
use crate::library::Library;

/// Where a container lies, and its calls.
#[derive(Clone)]
pub(crate) struct Home {
    device: Option<Device>,
    calls: Arc<Calls>,
}

/// The calls of a container and of its snapshots.
struct Calls {
    /// The process that made the container, or one made by fork that found its copy whole.
    process: AtomicU32,
    /// How many threads are in a call without the GIL, where they may hold a lock or be about to change memory.
    inside: AtomicU32,
}

/// A thread that is in a call.
struct Inside<'a>(&'a AtomicU32);

impl<'a> Inside<'a> {
    fn new(inside: &'a AtomicU32) -> Inside<'a> {
        inside.fetch_add(1, Ordering::AcqRel);
        Inside(inside)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
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
        let calls = Calls { process: AtomicU32::new(std::process::id()), inside: AtomicU32::new(0) };
        Ok((made, Home { device, calls: Arc::new(calls) }))
    }

    /// Refuses a process made by fork that cannot use the device, or whose copy of the container is not whole.
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        let (process, pid) = (self.calls.process.load(Ordering::Acquire), std::process::id());
        if process == pid {
            return Ok(());
        }
        if self.device.is_some() {
            return Err(Error::Forked { pid: process }).or_raise(py);
        }
        if self.is_torn() {
            let message = format!(
                "another thread of process {process} was in a call of this container when that process forked this one, so the \
                 copy is not whole; fork when no thread uses the container, or make it in the process that uses it"
            );
            return Err(exception(py, "ForkError", &message));
        }
        self.calls.process.store(pid, Ordering::Release);
        Ok(())
    }

    /// Whether this process was forked from one of which a thread was in a call: that thread, which does not exist here, may hold a lock.
    pub(crate) fn is_torn(&self) -> bool {
        self.calls.process.load(Ordering::Acquire) != std::process::id()
            && self.calls.inside.load(Ordering::Acquire) > 0
    }

    /// Does the part of a call that needs no GIL.
    pub(crate) fn detach<R: Send>(&self, py: Python<'_>, work: impl FnOnce() -> R + Send) -> R {
        // Counted as long as the GIL is held: a fork, which needs the GIL as well, sees each thread that is about to take a lock.
        let inside = Inside::new(&self.calls.inside);
        py.detach(move || {
            let _inside = inside;
            work()
        })
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
unsafe impl Element for f64 {}
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

/// The bits of a key of a container: an integer of 8 * `size` bits with a sign or without one, as its arrays may be. `None` if it is
/// outside, where there are no keys.
pub(crate) fn key_bits(key: &Bound<'_, PyAny>, size: usize) -> PyResult<Option<u64>> {
    let number = match key.extract::<i128>() {
        Err(error) if error.is_instance_of::<PyOverflowError>(key.py()) => return Ok(None),
        number => number?,
    };
    let bits = 8 * size as u32;
    let inside = (-(1_i128 << (bits - 1))..1_i128 << bits).contains(&number);
    // The lower bits, which are those of an array's element.
    Ok(inside.then_some((number & ((1_i128 << bits) - 1)) as u64))
}

/// The library of an argument, in which the answers of a call come if they lie in host memory.
#[derive(Clone, Copy)]
pub(crate) struct Like {
    library: Library,
    /// Whether the argument has unsigned numbers, so that the answers have them, too.
    unsigned: bool,
}

impl Like {
    /// Calls without an array are answered with NumPy's.
    pub(crate) const NUMPY: Like = Like { library: Library::NumPy, unsigned: true };

    pub(crate) fn of(array: &Array<'_>) -> Like {
        Like { library: array.library, unsigned: array.dtype.kind == b'u' }
    }

    /// A new array of these elements, which are of this type or have its size.
    pub(crate) fn column<'py, T: Element>(
        self,
        py: Python<'py>,
        dtype: Dtype,
        elements: &[T],
    ) -> PyResult<Bound<'py, PyAny>> {
        self.wrap(column(py, dtype, elements)?)
    }

    /// A new array of flags.
    pub(crate) fn flags<'py>(
        self,
        py: Python<'py>,
        flags: impl Iterator<Item = bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.wrap(self::flags(py, flags)?)
    }

    /// A new array of bytes.
    pub(crate) fn bytes<'py>(self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        self.wrap(to_numpy(py, Dtype::U8, &[bytes.len()], bytes)?)
    }

    fn wrap(self, array: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
        self.library.wrap_as(array, |_| !self.unsigned)
    }
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
