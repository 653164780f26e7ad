//! The hash map of the containers, over arrays.
#![allow(clippy::needless_pass_by_value, reason = "Python's paths come by value")]

use std::path::PathBuf;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use warpkeep_containers::{
    ContainerError, DeviceAnswers, DeviceOps, HashMapOptions, MapAnswer, MapOpKind, MapOpKinds, MapStatus,
    Upsert,
};

use crate::array::Array;
use crate::batch::as_numbers_given;
use crate::container::{Home, Like, host_column, key_bits, upsert_of};
use crate::device_array::DeviceArray;
use crate::device_columns::{DeviceColumn, is_on_device};
use crate::dtype::Dtype;
use crate::errors::{OrRaise, exception};
use crate::library::Library;

/// A map from 64-bit keys to 64-bit values, in the memory of the host or of a device. It is not a table of a store: it is
/// gone with the process unless it is saved.
#[pyclass(frozen, module = "warpkeep")]
pub(crate) struct HashMap {
    map: warpkeep_containers::HashMap,
    home: Home,
}

fn options_of(capacity: u64, seed: Option<u64>) -> HashMapOptions {
    let options = HashMapOptions::default().items(capacity);
    seed.map_or(options.clone(), |seed| options.seed(seed))
}

/// The elements of keys and values.
const NUMBERS: [Dtype; 2] = [Dtype::U64, Dtype::I64];

/// Numbers of an argument in host memory.
fn numbers<'py>(object: &Bound<'py, PyAny>, what: &'static str) -> PyResult<Array<'py>> {
    host_column(object, what, &NUMBERS)
}

/// Refuses signed values of which the map would compare the bits.
fn check_kind(kind: MapOpKind, values: &Array<'_>) -> PyResult<()> {
    let compares = [Upsert::Min, Upsert::Max].iter().any(|how| how.kind() == kind);
    let copy = if values.library == Library::Torch { ".numpy()" } else { "" };
    match compares && values.dtype != Dtype::U64 {
        true => Err(PyTypeError::new_err(format!(
            "values: an array of {}, and how='min' and 'max' compare unsigned integers; if none is negative, give \
             values{copy}.view('uint64')",
            values.dtype
        ))),
        false => Ok(()),
    }
}

/// The numbers of an array.
fn slice<'a>(array: &'a Array<'_>) -> &'a [u64] {
    // SAFETY: `numbers` checked that it is a column of numbers in host memory; this package does not write to it.
    unsafe { as_numbers_given(array.bytes()) }
}

impl HashMap {
    /// Refuses answers of which one says that there was no memory.
    fn check_full(py: Python<'_>, answers: &[MapAnswer]) -> PyResult<()> {
        match answers.iter().position(|answer| answer.status == MapStatus::Full) {
            None => Ok(()),
            Some(index) => Err(full(py, index)),
        }
    }

    /// A batch whose arrays lie in the memory of the map's device, if they do: the column of the keys, the statuses, and the values before if
    /// they are wanted.
    fn on_device<'py>(
        &self,
        kind: MapOpKind,
        keys: &Bound<'py, PyAny>,
        values: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Answered<'py>>> {
        let Some(device) = self.home.on_device() else { return Ok(None) };
        if !is_on_device(keys)? {
            return Ok(None);
        }
        let py = keys.py();
        let column = DeviceColumn::of(keys, "keys", &NUMBERS, device, None)?;
        let stream = column.stream(py, device)?;
        let values = values
            .map(|values| DeviceColumn::of(values, "values", &NUMBERS, device, column.array.stream))
            .transpose()?;
        let count = column.array.count();
        if let Some(values) = &values {
            values.array.column(&NUMBERS, count)?;
            // PyTorch has no others in its older versions.
            if values.array.library != Library::Torch {
                check_kind(kind, &values.array)?;
            }
        }
        let map = &self.map;
        let (keys, values) = (&column.buffer, values.as_ref().map(|values| &*values.buffer));
        let (statuses, before) = self
            .home
            .detach(py, || {
                let mut statuses = device.allocate(count)?;
                let mut before = (kind == MapOpKind::Find).then(|| device.allocate(8 * count)).transpose()?;
                if count > 0 {
                    let ops = DeviceOps { kinds: MapOpKinds::All(kind), keys, values, count };
                    let answers = DeviceAnswers { statuses: &mut statuses, before: before.as_mut() };
                    map.apply_on(ops, answers, &stream)?;
                }
                Ok::<_, ContainerError>((statuses, before))
            })
            .or_raise(py)?;
        let statuses = column.answer(statuses, Dtype::U8)?;
        if kind.inserts()
            && let Some(index) = column.first(&statuses, MapStatus::Full as u8)?
        {
            return Err(full(py, index));
        }
        let before = before.map(|before| column.answer(before, Dtype::U64)).transpose()?;
        Ok(Some(Answered { column, statuses, before }))
    }
}

/// What a batch in device memory gave.
struct Answered<'py> {
    column: DeviceColumn<'py>,
    statuses: Bound<'py, PyAny>,
    before: Option<Bound<'py, PyAny>>,
}

impl<'py> Answered<'py> {
    fn flags(&self, wanted: MapStatus) -> PyResult<Bound<'py, PyAny>> {
        self.column.flags(&self.statuses, wanted as u8)
    }
}

/// The exception for a key that found no room.
fn full(py: Python<'_>, index: usize) -> PyErr {
    exception(
        py,
        "FullError",
        &format!(
            "key {index} was not added: the map is full and has no memory to grow; erase keys, or make it on another device"
        ),
    )
}

#[pymethods]
impl HashMap {
    #[new]
    #[pyo3(signature = (capacity = 0, *, device = "cpu", seed = None))]
    fn new(py: Python<'_>, capacity: u64, device: &str, seed: Option<u64>) -> PyResult<HashMap> {
        let (map, home) = Home::make(py, device, |device| match device {
            None => Ok(warpkeep_containers::HashMap::on_cpu(&options_of(capacity, seed))),
            Some(device) => warpkeep_containers::HashMap::new(device, &options_of(capacity, seed)),
        })?;
        Ok(HashMap { map, home })
    }

    /// The map of a file that `save` wrote.
    #[staticmethod]
    #[pyo3(signature = (path, *, device = "cpu"))]
    fn load(py: Python<'_>, path: PathBuf, device: &str) -> PyResult<HashMap> {
        let options = HashMapOptions::default();
        let (map, home) = Home::make(py, device, |device| match device {
            None => warpkeep_containers::HashMap::load_on_cpu(&path, &options),
            Some(device) => warpkeep_containers::HashMap::load(device, &path, &options),
        })?;
        Ok(HashMap { map, home })
    }

    /// Adds keys; which of them are new. A key that is there keeps its value.
    fn insert<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.home.check(py)?;
        if let Some(answered) = self.on_device(MapOpKind::Insert, keys, Some(values))? {
            return answered.flags(MapStatus::Inserted);
        }
        let (keys, values) = (numbers(keys, "keys")?, numbers(values, "values")?);
        let (like, keys, values) = (Like::of(&keys), slice(&keys), slice(&values));
        let answers = self.home.detach(py, || self.map.insert(keys, values)).or_raise(py)?;
        HashMap::check_full(py, &answers)?;
        like.flags(py, answers.iter().map(|answer| answer.status == MapStatus::Inserted))
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
        self.home.check(py)?;
        let how = upsert_of(how)?;
        if let Some(answered) = self.on_device(how.kind(), keys, Some(values))? {
            return answered.flags(MapStatus::Inserted);
        }
        let (keys, values) = (numbers(keys, "keys")?, numbers(values, "values")?);
        check_kind(how.kind(), &values)?;
        let (like, keys, values) = (Like::of(&keys), slice(&keys), slice(&values));
        let answers = self.home.detach(py, || self.map.upsert(how, keys, values)).or_raise(py)?;
        HashMap::check_full(py, &answers)?;
        like.flags(py, answers.iter().map(|answer| answer.status == MapStatus::Inserted))
    }

    /// The values of keys, 0 where there is none, and which keys were found.
    fn find<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        self.home.check(py)?;
        if let Some(answered) = self.on_device(MapOpKind::Find, keys, None)? {
            let found = answered.flags(MapStatus::Found)?;
            let none = || py.None().into_bound(py);
            return Ok((answered.before.unwrap_or_else(none), found));
        }
        let keys = numbers(keys, "keys")?;
        let (like, keys) = (Like::of(&keys), slice(&keys));
        let found = self.home.detach(py, || self.map.find(keys)).or_raise(py)?;
        let values: Vec<u64> = found.iter().map(|value| value.unwrap_or(0)).collect();
        Ok((like.column(py, Dtype::U64, &values)?, like.flags(py, found.iter().map(Option::is_some))?))
    }

    /// Which keys are there.
    fn contains<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.home.check(py)?;
        if let Some(answered) = self.on_device(MapOpKind::Contains, keys, None)? {
            return answered.flags(MapStatus::Found);
        }
        let keys = numbers(keys, "keys")?;
        let (like, keys) = (Like::of(&keys), slice(&keys));
        let found = self.home.detach(py, || self.map.contains(keys)).or_raise(py)?;
        like.flags(py, found.into_iter())
    }

    /// Removes keys; which of them were there.
    fn erase<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.home.check(py)?;
        if let Some(answered) = self.on_device(MapOpKind::Erase, keys, None)? {
            return answered.flags(MapStatus::Erased);
        }
        let keys = numbers(keys, "keys")?;
        let (like, keys) = (Like::of(&keys), slice(&keys));
        let answers = self.home.detach(py, || self.map.erase(keys)).or_raise(py)?;
        like.flags(py, answers.iter().map(|answer| answer.status == MapStatus::Erased))
    }

    /// All keys and their values, in no order.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        self.home.check(py)?;
        let pairs = self.home.detach(py, || self.map.retrieve_all()).or_raise(py)?;
        let (keys, values): (Vec<u64>, Vec<u64>) = pairs.into_iter().unzip();
        Ok((Like::NUMPY.column(py, Dtype::U64, &keys)?, Like::NUMPY.column(py, Dtype::U64, &values)?))
    }

    /// Removes all keys.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.home.check(py)?;
        self.home.detach(py, || self.map.clear()).or_raise(py)
    }

    /// Writes all keys and values to a file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.home.check(py)?;
        self.home.detach(py, || self.map.save(&path)).or_raise(py)
    }

    /// Where it lies, as in `open`.
    #[getter]
    fn device(&self) -> String {
        self.home.device()
    }

    /// A copy of an array in the memory of the map's device.
    fn to_device(&self, py: Python<'_>, array: &Bound<'_, PyAny>) -> PyResult<DeviceArray> {
        self.home.to_device(py, array)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.home.check(py)?;
        Ok(self.home.detach(py, || self.map.len()).or_raise(py)? as usize)
    }

    fn __bool__(&self) -> bool {
        true
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.home.check(py)?;
        let Some(key) = key_bits(key, 8)? else { return Ok(false) };
        Ok(self.home.detach(py, || self.map.contains(&[key])).or_raise(py)? == [true])
    }

    fn __repr__(&self) -> String {
        format!("<warpkeep.HashMap on {}>", self.home.device())
    }
}
