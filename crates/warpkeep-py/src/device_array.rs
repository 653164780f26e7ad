//! Arrays in the memory of a store's device.

use std::sync::Arc;

use numpy::PyUntypedArray;
use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use warpkeep::rows::Buffer;
use warpkeep::{Device, DeviceChoice};

use crate::array::{Array, Place};
use crate::cells::to_numpy;
use crate::dtype::Dtype;
use crate::errors::{OrRaise, check_process};
use crate::library;

/// An array in the memory of a store's device: made by `Store.to_device`, read by `numpy()`.
#[pyclass(frozen, module = "warpkeep")]
pub(crate) struct DeviceArray {
    buffer: Arc<Buffer>,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    /// The process that made it; others cannot use the device.
    pid: u32,
}

impl DeviceArray {
    pub(crate) fn of(buffer: Arc<Buffer>, dtype: Dtype, shape: &[usize]) -> DeviceArray {
        DeviceArray { buffer, dtype, shape: shape.to_vec(), pid: std::process::id() }
    }

    /// A copy of an array in host memory.
    pub(crate) fn upload(py: Python<'_>, device: &Device, array: &Bound<'_, PyAny>) -> PyResult<DeviceArray> {
        let array = Array::of(array, "array", None)?;
        if array.place != Place::Host {
            return Err(PyTypeError::new_err(
                "the array lies in device memory already; give it to the table as it is",
            ));
        }
        let number = array.dtype == Dtype::BOOL || array.dtype.short().is_some();
        if !number || !matches!(array.shape.len(), 1 | 2) {
            return Err(PyTypeError::new_err(format!(
                "an array of {} of shape {:?} has no copy in device memory; give numbers of one or two dimensions, bytes and \
                 times as numbers: array.view('uint8').reshape(len(array), -1)",
                array.dtype, array.shape
            )));
        }
        array.check_contiguous()?;
        // SAFETY: it is contiguous and lies in host memory, and nothing of this package writes to it.
        let bytes = unsafe { array.bytes() };
        let buffer = Arc::new(py.detach(|| device.upload(bytes)).or_raise(py)?);
        Ok(DeviceArray::of(buffer, array.dtype, &array.shape))
    }

    /// An array of zeros.
    pub(crate) fn zeros(
        py: Python<'_>,
        device: &Device,
        dtype: Dtype,
        shape: &[usize],
    ) -> PyResult<DeviceArray> {
        let bytes = shape.iter().product::<usize>() * dtype.size;
        let buffer = Arc::new(py.detach(|| device.allocate_zeroed(bytes)).or_raise(py)?);
        Ok(DeviceArray::of(buffer, dtype, shape))
    }

    /// Its bytes.
    pub(crate) fn to_bytes(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        py.detach(|| self.buffer.to_vec::<u8>()).or_raise(py)
    }

    /// Which statuses are those of keys that were found, if it is statuses.
    pub(crate) fn found<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let found: Vec<u8> = self.to_bytes(py)?.iter().map(|code| u8::from(code >> 4 == 1)).collect();
        to_numpy(py, Dtype::BOOL, &[found.len()], &found)
    }

    /// Fills the rows with zeros that a NumPy array does not name.
    pub(crate) fn clear_rows(&self, py: Python<'_>, found: &Bound<'_, PyAny>) -> PyResult<()> {
        let found = Array::of(found, "found", None)?;
        let row = self.shape.iter().skip(1).product::<usize>() * self.dtype.size;
        // SAFETY: a contiguous array in host memory, which nothing writes to.
        let found = unsafe { found.bytes() };
        py.detach(|| {
            let mut absent = found.iter().enumerate().filter(|(_, found)| **found == 0);
            absent.try_for_each(|(index, _)| self.buffer.fill_range(index * row, row, 0))
        })
        .or_raise(py)
    }

    /// Its memory, for a call that runs on this device.
    pub(crate) fn buffer(&self, device: &Device, what: &str) -> PyResult<Arc<Buffer>> {
        match self.buffer.choice() == device.choice() {
            true => Ok(Arc::clone(&self.buffer)),
            false => Err(PyTypeError::new_err(format!(
                "{what}: lies in the memory of {}, and the call runs on {}; move it there",
                self.buffer.choice(),
                device.choice()
            ))),
        }
    }

    /// Its address, as the device sees it.
    pub(crate) fn address(&self) -> usize {
        self.buffer.ptr().address() as usize
    }

    /// The number of its device; the simulator counts as the first.
    pub(crate) fn number(&self) -> u32 {
        match self.buffer.choice() {
            DeviceChoice::Cuda(number) => number,
            DeviceChoice::Cpu | DeviceChoice::Sim => 0,
        }
    }
}

#[pymethods]
impl DeviceArray {
    /// A copy in host memory.
    pub(crate) fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyUntypedArray>> {
        check_process(py, self.pid)?;
        let array = library::empty(py, self.dtype, &self.shape)?;
        let target = Array::of(array.as_any(), "array", None)?;
        // SAFETY: the array was just made, and nothing else refers to it.
        let bytes = unsafe { target.bytes_mut() };
        py.detach(|| self.buffer.read(0, bytes)).or_raise(py)?;
        Ok(array)
    }

    /// Its shape.
    #[getter]
    fn shape(&self) -> Vec<usize> {
        self.shape.clone()
    }

    /// Its NumPy dtype.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.dtype.descr(py).map(Bound::into_any)
    }

    /// Where it lies, for libraries that use memory of CUDA in place: `torch.as_tensor(array, device="cuda")`, `cupy.asarray(array)`.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        check_process(py, self.pid)?;
        if !matches!(self.buffer.choice(), DeviceChoice::Cuda(_)) {
            return Err(PyAttributeError::new_err(
                "the array is on the simulator, not in memory of CUDA; copy it: numpy()",
            ));
        }
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", PyTuple::new(py, &self.shape)?)?;
        interface.set_item("typestr", self.dtype.descr(py)?.getattr("str")?)?;
        // Writable; an array without elements has no address.
        let address = if self.buffer.is_empty() { 0 } else { self.address() };
        interface.set_item("data", (address, false))?;
        Ok(interface)
    }

    /// Its device, as in `open`.
    #[getter]
    fn device(&self) -> String {
        self.buffer.choice().to_string()
    }

    fn __len__(&self) -> usize {
        self.shape.first().copied().unwrap_or(0)
    }

    fn __repr__(&self) -> String {
        format!("<warpkeep.DeviceArray {} {:?} on {}>", self.dtype, self.shape, self.buffer.choice())
    }
}
