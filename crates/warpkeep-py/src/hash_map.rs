//! The hash map of the containers, over arrays.
#![allow(clippy::needless_pass_by_value, reason = "Python's paths come by value")]

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use warpkeep::{Device, DeviceChoice, Error};
use warpkeep_containers::{HashMapOptions, MapAnswer, MapStatus};

use crate::array::{Array, Place};
use crate::batch::as_numbers_given;
use crate::cells::to_numpy;
use crate::container::{flags, upsert_of};
use crate::dtype::Dtype;
use crate::errors::{OrRaise, exception};

/// A map from 64-bit keys to 64-bit values, in the memory of the host or of a device. It is not a table of a store: it is
/// gone with the process unless it is saved.
#[pyclass(frozen, module = "warpkeep")]
pub(crate) struct HashMap {
    map: warpkeep_containers::HashMap,
    /// The process that made it, if it lies on a device.
    device_process: Option<u32>,
    device: String,
}

fn options_of(capacity: u64, seed: Option<u64>) -> HashMapOptions {
    let options = HashMapOptions::default().items(capacity);
    seed.map_or(options.clone(), |seed| options.seed(seed))
}

/// Numbers of an argument.
fn numbers<'py>(object: &Bound<'py, PyAny>, what: &'static str) -> PyResult<Array<'py>> {
    let array = Array::of(object, what, None)?;
    if array.place != Place::Host {
        return Err(PyValueError::new_err(format!(
            "{what}: lies in device memory; copy it to the host: {what}.cpu()"
        )));
    }
    let count = array.shape.first().copied().unwrap_or(0);
    array.column(&[Dtype::U64, Dtype::I64], count)?;
    Ok(array)
}

/// The numbers of an array.
fn slice<'a>(array: &'a Array<'_>) -> &'a [u64] {
    // SAFETY: `numbers` checked that it is a column of numbers in host memory; this package does not write to it.
    unsafe { as_numbers_given(array.bytes()) }
}

fn column<'py>(py: Python<'py>, numbers: &[u64]) -> PyResult<Bound<'py, PyAny>> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    to_numpy(py, Dtype::U64, &[numbers.len()], &bytes)
}

impl HashMap {
    /// Refuses a process that cannot use the device.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        match self.device_process {
            Some(pid) if pid != std::process::id() => Err(Error::Forked { pid }).or_raise(py),
            _ => Ok(()),
        }
    }

    /// Refuses answers of which one says that there was no memory.
    fn check_full(py: Python<'_>, answers: &[MapAnswer]) -> PyResult<()> {
        match answers.iter().position(|answer| answer.status == MapStatus::Full) {
            None => Ok(()),
            Some(index) => Err(exception(
                py,
                "FullError",
                &format!(
                    "key {index} was not added: the map is full and has no memory to grow; erase keys, or make it on another device"
                ),
            )),
        }
    }
}

#[pymethods]
impl HashMap {
    #[new]
    #[pyo3(signature = (capacity = 0, *, device = "cpu", seed = None))]
    fn new(py: Python<'_>, capacity: u64, device: &str, seed: Option<u64>) -> PyResult<HashMap> {
        HashMap::made(py, device, |device| match device {
            None => Ok(warpkeep_containers::HashMap::on_cpu(&options_of(capacity, seed))),
            Some(device) => warpkeep_containers::HashMap::new(device, &options_of(capacity, seed)),
        })
    }

    /// The map of a file that `save` wrote.
    #[staticmethod]
    #[pyo3(signature = (path, *, device = "cpu"))]
    fn load(py: Python<'_>, path: PathBuf, device: &str) -> PyResult<HashMap> {
        let options = HashMapOptions::default();
        HashMap::made(py, device, |device| match device {
            None => warpkeep_containers::HashMap::load_on_cpu(&path, &options),
            Some(device) => warpkeep_containers::HashMap::load(device, &path, &options),
        })
    }

    /// Adds keys; which of them are new. A key that is there keeps its value.
    fn insert<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.check(py)?;
        let (keys, values) = (numbers(keys, "keys")?, numbers(values, "values")?);
        let (keys, values) = (slice(&keys), slice(&values));
        let answers = py.detach(|| self.map.insert(keys, values)).or_raise(py)?;
        HashMap::check_full(py, &answers)?;
        flags(py, answers.iter().map(|answer| answer.status == MapStatus::Inserted))
    }

    /// Adds keys, or changes the values of those that are there; which of them are new.
    #[pyo3(signature = (keys, values, *, how = "replace"))]
    fn put<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
        how: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.check(py)?;
        let how = upsert_of(how)?;
        let (keys, values) = (numbers(keys, "keys")?, numbers(values, "values")?);
        let (keys, values) = (slice(&keys), slice(&values));
        let answers = py.detach(|| self.map.upsert(how, keys, values)).or_raise(py)?;
        HashMap::check_full(py, &answers)?;
        flags(py, answers.iter().map(|answer| answer.status == MapStatus::Inserted))
    }

    /// The values of keys, 0 where there is none, and which keys were found.
    fn find<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        self.check(py)?;
        let keys = numbers(keys, "keys")?;
        let keys = slice(&keys);
        let found = py.detach(|| self.map.find(keys)).or_raise(py)?;
        let values: Vec<u64> = found.iter().map(|value| value.unwrap_or(0)).collect();
        Ok((column(py, &values)?, flags(py, found.iter().map(Option::is_some))?))
    }

    /// Which keys are there.
    fn contains<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.check(py)?;
        let keys = numbers(keys, "keys")?;
        let keys = slice(&keys);
        let found = py.detach(|| self.map.contains(keys)).or_raise(py)?;
        flags(py, found.into_iter())
    }

    /// Removes keys; which of them were there.
    fn erase<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.check(py)?;
        let keys = numbers(keys, "keys")?;
        let keys = slice(&keys);
        let answers = py.detach(|| self.map.erase(keys)).or_raise(py)?;
        flags(py, answers.iter().map(|answer| answer.status == MapStatus::Erased))
    }

    /// All keys and their values, in no order.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        self.check(py)?;
        let pairs = py.detach(|| self.map.retrieve_all()).or_raise(py)?;
        let (keys, values): (Vec<u64>, Vec<u64>) = pairs.into_iter().unzip();
        Ok((column(py, &keys)?, column(py, &values)?))
    }

    /// Removes all keys.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.check(py)?;
        py.detach(|| self.map.clear()).or_raise(py)
    }

    /// Writes all keys and values to a file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.check(py)?;
        py.detach(|| self.map.save(&path)).or_raise(py)
    }

    /// Where it lies, as in `open`.
    #[getter]
    fn device(&self) -> &str {
        &self.device
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.check(py)?;
        Ok(py.detach(|| self.map.len()).or_raise(py)? as usize)
    }

    fn __bool__(&self) -> bool {
        true
    }

    fn __contains__(&self, py: Python<'_>, key: u64) -> PyResult<bool> {
        self.check(py)?;
        Ok(self.map.contains(&[key]).or_raise(py)? == [true])
    }

    fn __repr__(&self) -> String {
        format!("<warpkeep.HashMap on {}>", self.device)
    }
}

impl HashMap {
    fn made(
        py: Python<'_>,
        device: &str,
        make: impl FnOnce(
            Option<&Device>,
        ) -> Result<warpkeep_containers::HashMap, warpkeep_containers::ContainerError>
        + Send,
    ) -> PyResult<HashMap> {
        let choice: DeviceChoice = device.parse::<DeviceChoice>().or_raise(py)?;
        let device = match choice {
            DeviceChoice::Cpu => None,
            choice => Some(py.detach(|| Device::open(choice)).or_raise(py)?),
        };
        let map = py.detach(|| make(device.as_ref())).or_raise(py)?;
        Ok(HashMap { map, device_process: device.map(|_| std::process::id()), device: choice.to_string() })
    }
}
