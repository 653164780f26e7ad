//! Columns of containers that lie in the memory of their device: arrays of this package as they are; those of PyTorch and CuPy are copied
//! there, since a container takes memory of the device's own, and answers are memory of ours that those libraries use in place.

use std::ffi::c_void;
use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use warpkeep::rows::{Buffer, Stream};
use warpkeep::{Device, DeviceChoice};

use crate::array::{Array, Place};
use crate::device_array::DeviceArray;
use crate::dtype::Dtype;
use crate::errors::OrRaise;
use crate::library::Library;

/// A column of a batch in the memory of a container's device.
pub(crate) struct DeviceColumn<'py> {
    pub(crate) array: Array<'py>,
    /// The column itself, or a copy of it.
    pub(crate) buffer: Arc<Buffer>,
}

/// Whether an argument lies in the memory of a device, if there is one; arrays in host memory are not looked at any further.
pub(crate) fn is_on_device(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    if object.cast::<DeviceArray>().is_ok() {
        return Ok(true);
    }
    Ok(crate::dlpack::device_of(object)?
        .is_some_and(|(kind, _)| matches!(kind, crate::dlpack::CUDA | crate::dlpack::CUDA_MANAGED)))
}

impl<'py> DeviceColumn<'py> {
    /// The column that an argument is, in the memory of this device.
    pub(crate) fn of(
        object: &Bound<'py, PyAny>,
        what: &'static str,
        dtypes: &[Dtype],
        device: &Device,
        stream: Option<u64>,
    ) -> PyResult<DeviceColumn<'py>> {
        let array = Array::of(object, what, stream)?;
        array.column(dtypes, array.shape.first().copied().unwrap_or(0))?;
        let there = match device.choice() {
            DeviceChoice::Cuda(number) => array.place == Place::Device(number),
            DeviceChoice::Sim | DeviceChoice::Cpu => array.library == Library::Own,
        };
        if !there {
            return Err(PyValueError::new_err(format!(
                "{what}: lies in {}, and the container and other arrays in the memory of {}; give all arrays of a call in one memory",
                array.place,
                device.choice()
            )));
        }
        let buffer = match object.cast::<DeviceArray>() {
            Ok(own) => own.get().buffer(device, what)?,
            Err(_) => copy_of(&array, device)?,
        };
        Ok(DeviceColumn { array, buffer })
    }

    /// The stream that a batch with this column uses.
    pub(crate) fn stream(&self, py: Python<'_>, device: &Device) -> PyResult<Stream> {
        match (device.choice(), self.array.stream) {
            // SAFETY: the library of the array names a stream of the device's primary context, which the caller's frame keeps until the
            // call returns; the call waits for all that it puts into the stream.
            (DeviceChoice::Cuda(_), Some(raw)) => unsafe { Stream::from_raw(device, raw as *mut c_void) },
            _ => device.stream(),
        }
        .or_raise(py)
    }

    /// Numbers for the caller: an array of this package, or one of the column's library in the same memory.
    pub(crate) fn answer(&self, buffer: Buffer, dtype: Dtype) -> PyResult<Bound<'py, PyAny>> {
        answer_of(&self.array, buffer, dtype, self.array.count())
    }

    /// Which answers have one of these codes: an array of flags in the column's library; for arrays of this package in host memory, as with
    /// tables.
    pub(crate) fn flags(&self, codes: &Bound<'py, PyAny>, wanted: u8) -> PyResult<Bound<'py, PyAny>> {
        match codes.cast::<DeviceArray>() {
            Ok(own) => {
                let bytes = own.get().to_bytes(codes.py())?;
                crate::container::flags(codes.py(), bytes.iter().map(|&code| code == wanted))
            }
            Err(_) => codes.call_method1("__eq__", (wanted,)),
        }
    }

    /// The place of the first answer that has the largest code that there is.
    pub(crate) fn first(&self, codes: &Bound<'py, PyAny>, largest: u8) -> PyResult<Option<usize>> {
        if self.array.count() == 0 {
            return Ok(None);
        }
        if let Ok(own) = codes.cast::<DeviceArray>() {
            let codes = own.get().to_bytes(codes.py())?;
            return Ok(codes.iter().position(|&code| code == largest));
        }
        // Only the largest crosses to the host, unless it is there.
        if codes.call_method0("max")?.call_method0("item")?.extract::<u8>()? < largest {
            return Ok(None);
        }
        let codes = codes.call_method0("tolist")?.extract::<Vec<u16>>()?;
        Ok(codes.iter().position(|&code| code == u16::from(largest)))
    }
}

/// Numbers for a caller who gave the array `like`: an array of this package, or one of the library of `like` in the same memory.
pub(crate) fn answer_of<'py>(
    like: &Array<'py>,
    buffer: Buffer,
    dtype: Dtype,
    count: usize,
) -> PyResult<Bound<'py, PyAny>> {
    // PyTorch has no unsigned numbers of 64 bits in its older versions: they are int64 there.
    let signed = like.library == Library::Torch && dtype == Dtype::U64;
    let dtype = if signed { Dtype::I64 } else { dtype };
    let array = DeviceArray::of(Arc::new(buffer), dtype, &[count]);
    let object = Bound::new(like.object.py(), array)?.into_any();
    like.library.view_of(object, &like.object)
}

/// A copy of an array of another library in memory of the device's own, in that library's current stream.
fn copy_of(array: &Array<'_>, device: &Device) -> PyResult<Arc<Buffer>> {
    let (py, bytes) = (array.object.py(), array.nbytes());
    let buffer = Arc::new(py.detach(|| device.allocate(bytes)).or_raise(py)?);
    if array.count() > 0 {
        let own = DeviceArray::of(Arc::clone(&buffer), array.dtype, &array.shape);
        let view = array.library.view_of(Bound::new(py, own)?.into_any(), &array.object)?;
        match array.library {
            Library::Torch => view.call_method1("copy_", (&array.object,)).map(drop),
            Library::CuPy => view.set_item(py.Ellipsis(), &array.object),
            _ => Err(PyTypeError::new_err(format!(
                "{}: arrays in device memory are taken from PyTorch, CuPy and Warpkeep; give torch.from_dlpack({})",
                array.what, array.what
            ))),
        }?;
    }
    Ok(buffer)
}
