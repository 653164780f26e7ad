//! The maps and sets of the slab hash, over arrays.
#![allow(clippy::needless_pass_by_value, reason = "Python's paths come by value")]

use std::path::PathBuf;
use std::sync::Mutex;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use warpkeep_containers::{SlabAnswer, SlabMap as Map, SlabRequest, SlabSet as Set};

use crate::container::{Home, Like, elements, host_column, key_bits};
use crate::dtype::Dtype;
use crate::slab::{
    Common, Has, SlabTypes, Widths, Word, alone, bounded, check_full, each_width, full, options_of,
    with_common,
};

/// A map from keys to values of 32 or of 64 bits whose batches mix requests: the slab hash. It lies in the memory of the host or of a device, and is
/// no table of a store.
#[pyclass(frozen, module = "warpkeep")]
pub(crate) struct SlabMap {
    inner: Widths<Map<u32, u32>, Map<u64, u64>>,
    types: SlabTypes,
    home: Home,
}

/// A set of keys of 32 or of 64 bits: the slab hash without values.
#[pyclass(frozen, module = "warpkeep")]
pub(crate) struct SlabSet {
    inner: Widths<Set<u32>, Set<u64>>,
    types: SlabTypes,
    home: Home,
}

/// The number of the status that says that there was no memory.
const FULL: u8 = 7;

/// What a batch gave: statuses, and the values of its keys before, in the library of the keys.
struct Answers<'py> {
    like: Like,
    statuses: Vec<u8>,
    values: Bound<'py, PyAny>,
}

/// Runs requests of any kinds.
fn mixed<K: Word>(
    map: &mut Map<K, K>,
    kinds: &[u8],
    keys: &[K],
    values: Option<&[K]>,
) -> Result<Vec<SlabAnswer<K>>, warpkeep_containers::ContainerError> {
    let value = |index: usize| values.map_or_else(K::default, |values| values[index]);
    let requests: Vec<SlabRequest<K, K>> = keys
        .iter()
        .enumerate()
        .map(|(index, &key)| match kinds[index] {
            0 => SlabRequest::Search(key),
            1 => SlabRequest::Insert(key, value(index)),
            2 => SlabRequest::Replace(key, value(index)),
            _ => SlabRequest::Delete(key),
        })
        .collect();
    map.apply(&requests)
}

/// Answers as statuses, by the numbers of `SlabStatus`, and values.
fn columns_of<V: Word>(answers: &[SlabAnswer<V>]) -> (Vec<u8>, Vec<V>) {
    let statuses = answers.iter().map(|answer| match answer {
        SlabAnswer::Inserted => 1,
        SlabAnswer::Updated(_) => 2,
        SlabAnswer::Found(_) => 3,
        SlabAnswer::Removed(_) => 4,
        SlabAnswer::Present(_) => 5,
        SlabAnswer::Absent => 6,
        SlabAnswer::Full => FULL,
        SlabAnswer::Counted(_) => 8,
    });
    (statuses.collect(), answers.iter().map(|answer| answer.value().unwrap_or_default()).collect())
}

with_common! { SlabMap {
    #[new]
    #[pyo3(signature = (key = None, value = None, *, device = "cpu", capacity = 0, slab_bytes = 0, seed = None, most_slabs = None, most_buckets = None))]
    #[allow(clippy::too_many_arguments, reason = "one for each argument in Python")]
    fn new(
        py: Python<'_>,
        key: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        device: &str,
        capacity: u64,
        slab_bytes: u32,
        seed: Option<u64>,
        most_slabs: Option<u32>,
        most_buckets: Option<u32>,
    ) -> PyResult<SlabMap> {
        let types = SlabTypes::new(key, value)?;
        let options = bounded(options_of(capacity, slab_bytes, seed), most_slabs, most_buckets);
        let (inner, home) = Home::make(py, device, |device| {
            Ok(match (device, types.is_narrow()) {
                (None, true) => Widths::Narrow(Mutex::new(Map::on_cpu(options))),
                (None, false) => Widths::Wide(Mutex::new(Map::on_cpu(options))),
                (Some(device), true) => Widths::Narrow(Mutex::new(Map::new(device, options)?)),
                (Some(device), false) => Widths::Wide(Mutex::new(Map::new(device, options)?)),
            })
        })?;
        Ok(SlabMap { inner, types, home })
    }

    /// The map of a file that `save` wrote, with the types that the saved map had.
    #[staticmethod]
    #[pyo3(signature = (path, key = None, value = None, *, device = "cpu", slab_bytes = 0, seed = None))]
    fn load(
        py: Python<'_>,
        path: PathBuf,
        key: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        device: &str,
        slab_bytes: u32,
        seed: Option<u64>,
    ) -> PyResult<SlabMap> {
        let types = SlabTypes::new(key, value)?;
        let options = options_of(0, slab_bytes, seed);
        let (inner, home) = Home::make(py, device, |device| {
            Ok(match (device, types.is_narrow()) {
                (None, true) => Widths::Narrow(Mutex::new(Map::load_on_cpu(path, options)?)),
                (None, false) => Widths::Wide(Mutex::new(Map::load_on_cpu(path, options)?)),
                (Some(device), true) => Widths::Narrow(Mutex::new(Map::load(device, path, options)?)),
                (Some(device), false) => Widths::Wide(Mutex::new(Map::load(device, path, options)?)),
            })
        })?;
        Ok(SlabMap { inner, types, home })
    }

    /// Adds keys; which of them are new. A key that is there keeps its value.
    fn insert<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>, values: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let Answers { like, statuses, .. } = self.all_of(py, 1, keys, Some(values))?;
        like.flags(py, statuses.iter().map(|&status| status == 1))
    }

    /// Adds keys, or replaces the values of those that are there; which of them are new.
    fn put<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>, values: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let Answers { like, statuses, .. } = self.all_of(py, 2, keys, Some(values))?;
        like.flags(py, statuses.iter().map(|&status| status == 1))
    }

    /// Removes keys; which of them were there.
    fn erase<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let Answers { like, statuses, .. } = self.all_of(py, 3, keys, None)?;
        like.flags(py, statuses.iter().map(|&status| status == 4))
    }

    /// The values of keys, 0 where there is none, and which keys were found.
    fn find<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let Answers { like, statuses, values } = self.all_of(py, 0, keys, None)?;
        Ok((values, like.flags(py, statuses.iter().map(|&status| status == 3))?))
    }

    /// Which keys are there.
    fn contains<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let Answers { like, statuses, .. } = self.all_of(py, 0, keys, None)?;
        like.flags(py, statuses.iter().map(|&status| status == 3))
    }

    /// Runs requests of any kinds, named by `SlabOp`, at the same time: a `SlabStatus` for each, and the value that its key
    /// had before, or 0. A request that found no memory has the status FULL.
    #[pyo3(signature = (kinds, keys, values = None))]
    fn apply<'py>(
        &self,
        py: Python<'py>,
        kinds: &Bound<'py, PyAny>,
        keys: &Bound<'py, PyAny>,
        values: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let kinds = host_column(kinds, "kinds", &[Dtype::U8])?;
        // SAFETY: a contiguous column in host memory, which this package does not write to.
        let kinds = unsafe { kinds.bytes() };
        let Answers { like, statuses, values } = self.answers(py, Some(kinds), 0, keys, values)?;
        Ok((like.bytes(py, &statuses)?, values))
    }

    /// All keys and their values, in no order.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        self.home.check(py)?;
        let SlabTypes { key, value } = self.types;
        each_width!(&self.inner, map => {
            let (keys, values): (Vec<_>, Vec<_>) = alone(py, &self.home, map, |map| map.pairs())?.into_iter().unzip();
            Ok((Like::NUMPY.column(py, key, &keys)?, Like::NUMPY.column(py, value, &values)?))
        })
    }

    fn __repr__(&self) -> String {
        format!("<warpkeep.SlabMap from {} to {} on {}>", self.types.key, self.types.value, self.home.device())
    }
} }

impl SlabMap {
    /// A batch of one kind: statuses, and the values of keys before.
    fn all_of<'py>(
        &self,
        py: Python<'py>,
        kind: u8,
        keys: &Bound<'py, PyAny>,
        values: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Answers<'py>> {
        let answers = self.answers(py, None, kind, keys, values)?;
        match answers.statuses.iter().position(|&status| status == FULL) {
            None => Ok(answers),
            Some(index) => Err(full(py, index)),
        }
    }

    fn answers<'py>(
        &self,
        py: Python<'py>,
        kinds: Option<&[u8]>,
        kind: u8,
        keys: &Bound<'py, PyAny>,
        values: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Answers<'py>> {
        self.home.check(py)?;
        let keys = self.types.keys(keys)?;
        let (like, count) = (Like::of(&keys), keys.count());
        let values = values.map(|values| self.types.values(values, count)).transpose()?;
        let all;
        let kinds = match kinds {
            Some(kinds) => kinds,
            None => {
                all = vec![kind; count];
                &all
            }
        };
        check_kinds(kinds, count, values.is_some())?;
        each_width!(&self.inner, map => {
            let (keys, values) = (elements(&keys), values.as_ref().map(elements));
            let answers = alone(py, &self.home, map, |map| mixed(map, kinds, keys, values))?;
            let (statuses, values) = columns_of(&answers);
            Ok(Answers { like, statuses, values: like.column(py, self.types.value, &values)? })
        })
    }
}

/// Refuses kinds that are none, and puts without values.
fn check_kinds(kinds: &[u8], count: usize, has_values: bool) -> PyResult<()> {
    if kinds.len() != count {
        return Err(PyValueError::new_err(format!(
            "{} kinds for {count} keys; give one for each key",
            kinds.len()
        )));
    }
    if let Some(other) = kinds.iter().find(|&&kind| kind > 3) {
        return Err(PyValueError::new_err(format!(
            "{other} is no kind of a request; write SlabOp.SEARCH, INSERT, REPLACE or DELETE"
        )));
    }
    match !has_values && kinds.iter().any(|&kind| kind == 1 || kind == 2) {
        true => Err(PyValueError::new_err("INSERT and REPLACE need values; give one for each key")),
        false => Ok(()),
    }
}

with_common! { SlabSet {
    #[new]
    #[pyo3(signature = (key = None, *, device = "cpu", capacity = 0, slab_bytes = 0, seed = None, most_slabs = None, most_buckets = None))]
    #[allow(clippy::too_many_arguments, reason = "one for each argument in Python")]
    fn new(
        py: Python<'_>,
        key: Option<&Bound<'_, PyAny>>,
        device: &str,
        capacity: u64,
        slab_bytes: u32,
        seed: Option<u64>,
        most_slabs: Option<u32>,
        most_buckets: Option<u32>,
    ) -> PyResult<SlabSet> {
        let types = SlabTypes::new(key, None)?;
        let options = bounded(options_of(capacity, slab_bytes, seed), most_slabs, most_buckets);
        let (inner, home) = Home::make(py, device, |device| {
            Ok(match (device, types.is_narrow()) {
                (None, true) => Widths::Narrow(Mutex::new(Set::on_cpu(options))),
                (None, false) => Widths::Wide(Mutex::new(Set::on_cpu(options))),
                (Some(device), true) => Widths::Narrow(Mutex::new(Set::new(device, options)?)),
                (Some(device), false) => Widths::Wide(Mutex::new(Set::new(device, options)?)),
            })
        })?;
        Ok(SlabSet { inner, types, home })
    }

    /// The set of a file that `save` wrote, with the type that the saved set had.
    #[staticmethod]
    #[pyo3(signature = (path, key = None, *, device = "cpu", slab_bytes = 0, seed = None))]
    fn load(
        py: Python<'_>,
        path: PathBuf,
        key: Option<&Bound<'_, PyAny>>,
        device: &str,
        slab_bytes: u32,
        seed: Option<u64>,
    ) -> PyResult<SlabSet> {
        let types = SlabTypes::new(key, None)?;
        let options = options_of(0, slab_bytes, seed);
        let (inner, home) = Home::make(py, device, |device| {
            Ok(match (device, types.is_narrow()) {
                (None, true) => Widths::Narrow(Mutex::new(Set::load_on_cpu(path, options)?)),
                (None, false) => Widths::Wide(Mutex::new(Set::load_on_cpu(path, options)?)),
                (Some(device), true) => Widths::Narrow(Mutex::new(Set::load(device, path, options)?)),
                (Some(device), false) => Widths::Wide(Mutex::new(Set::load(device, path, options)?)),
            })
        })?;
        Ok(SlabSet { inner, types, home })
    }

    /// Adds keys; which of them are new.
    fn insert<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.home.check(py)?;
        let keys = self.types.keys(keys)?;
        let like = Like::of(&keys);
        let answers = each_width!(&self.inner, set => {
            let keys = elements(&keys);
            alone(py, &self.home, set, |set| set.insert(keys))?
        });
        check_full(py, &answers)?;
        like.flags(py, answers.iter().map(|answer| *answer == SlabAnswer::Inserted))
    }

    /// Removes keys; which of them were there.
    fn erase<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.home.check(py)?;
        let keys = self.types.keys(keys)?;
        let like = Like::of(&keys);
        each_width!(&self.inner, set => {
            let keys = elements(&keys);
            like.flags(py, alone(py, &self.home, set, |set| set.remove(keys))?.into_iter())
        })
    }

    /// Which keys are there.
    fn contains<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.home.check(py)?;
        let keys = self.types.keys(keys)?;
        let like = Like::of(&keys);
        each_width!(&self.inner, set => {
            let keys = elements(&keys);
            like.flags(py, alone(py, &self.home, set, |set| set.contains(keys))?.into_iter())
        })
    }

    /// All keys, in no order.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.home.check(py)?;
        each_width!(&self.inner, set => Like::NUMPY.column(py, self.types.key, &alone(py, &self.home, set, |set| set.keys())?))
    }

    fn __repr__(&self) -> String {
        format!("<warpkeep.SlabSet of {} on {}>", self.types.key, self.home.device())
    }
} }
