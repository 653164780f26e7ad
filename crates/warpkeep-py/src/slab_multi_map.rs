//! The multimap of the slab hash, over arrays.
#![allow(clippy::needless_pass_by_value, reason = "Python's paths come by value")]

use std::path::PathBuf;
use std::sync::Mutex;

use pyo3::prelude::*;
use warpkeep_containers::{SlabAnswer, SlabMultiMap as Map, SlabMultiRequest};

use crate::array::Array;
use crate::container::{Home, Like, elements, key_bits};
use crate::dtype::Dtype;
use crate::slab::{
    Common, Has, SlabTypes, Widths, Word, alone, bounded, check_full, each_width, options_of, with_common,
};

/// A map from each key to any number of values, of 32 or of 64 bits: the slab hash with duplicates.
#[pyclass(frozen, module = "warpkeep")]
pub(crate) struct SlabMultiMap {
    inner: Widths<Map<u32, u32>, Map<u64, u64>>,
    types: SlabTypes,
    home: Home,
}

/// Counts of answers.
fn counts<V>(answers: &[SlabAnswer<V>]) -> Vec<i64> {
    let count = |answer: &SlabAnswer<V>| match answer {
        SlabAnswer::Counted(count) => i64::from(*count),
        _ => 0,
    };
    answers.iter().map(count).collect()
}

/// A batch of one kind of requests.
fn all_of<K: Word>(
    py: Python<'_>,
    (home, map): (&Home, &Mutex<Map<K, K>>),
    keys: &Array<'_>,
    request: impl Fn(K) -> SlabMultiRequest<K, K> + Send + Sync,
) -> PyResult<Vec<SlabAnswer<K>>> {
    let keys: &[K] = elements(keys);
    alone(py, home, map, |map| {
        let requests: Vec<_> = keys.iter().map(|&key| request(key)).collect();
        map.apply(&requests)
    })
}

with_common! { SlabMultiMap {
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
    ) -> PyResult<SlabMultiMap> {
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
        Ok(SlabMultiMap { inner, types, home })
    }

    /// The multimap of a file that `save` wrote, with the types that the saved one had.
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
    ) -> PyResult<SlabMultiMap> {
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
        Ok(SlabMultiMap { inner, types, home })
    }

    /// Adds pairs. The values of a key keep the order of the batches in which they came.
    fn insert<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>, values: &Bound<'py, PyAny>) -> PyResult<()> {
        self.home.check(py)?;
        let keys = self.types.keys(keys)?;
        let values = self.types.values(values, keys.count())?;
        each_width!(&self.inner, map => {
            let (keys, values) = (elements(&keys), elements(&values));
            let answers = alone(py, &self.home, map, |map| {
                let requests: Vec<_> =
                    keys.iter().zip(values).map(|(&key, &value)| SlabMultiRequest::Insert(key, value)).collect();
                map.apply(&requests)
            })?;
            check_full(py, &answers)
        })
    }

    /// The first value of each key, 0 where there is none, and which keys were found.
    fn find<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        self.home.check(py)?;
        let keys = self.types.keys(keys)?;
        let like = Like::of(&keys);
        each_width!(&self.inner, map => {
            let keys = elements(&keys);
            let found = alone(py, &self.home, map, |map| map.search(keys))?;
            let values: Vec<_> = found.iter().map(|value| value.unwrap_or_default()).collect();
            Ok((like.column(py, self.types.value, &values)?, like.flags(py, found.iter().map(Option::is_some))?))
        })
    }

    /// All values of each key, in their order, and offsets: those of key `i` are `values[offsets[i]:offsets[i + 1]]`.
    fn find_all<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        self.home.check(py)?;
        let keys = self.types.keys(keys)?;
        let like = Like::of(&keys);
        each_width!(&self.inner, map => {
            let keys = elements(&keys);
            let found = alone(py, &self.home, map, |map| map.search_all(keys))?;
            let mut offsets = vec![0_i64];
            offsets.extend(found.iter().scan(0, |end, values| {
                *end += values.len() as i64;
                Some(*end)
            }));
            Ok((like.column(py, self.types.value, &found.concat())?, like.column(py, Dtype::I64, &offsets)?))
        })
    }

    /// How many values each key has.
    fn count<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.home.check(py)?;
        let keys = self.types.keys(keys)?;
        let like = Like::of(&keys);
        let found = each_width!(&self.inner, map => counts(&all_of(py, (&self.home, map), &keys, SlabMultiRequest::Count)?));
        like.column(py, Dtype::I64, &found)
    }

    /// Which keys are there.
    fn contains<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.find(py, keys)?.1)
    }

    /// Removes the first pair of each key; which keys had one.
    fn erase<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.home.check(py)?;
        let keys = self.types.keys(keys)?;
        let like = Like::of(&keys);
        each_width!(&self.inner, map => {
            let answers = all_of(py, (&self.home, map), &keys, SlabMultiRequest::Delete)?;
            like.flags(py, answers.iter().map(|answer| matches!(answer, SlabAnswer::Removed(_))))
        })
    }

    /// Removes all pairs of each key; how many there were.
    fn erase_all<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.home.check(py)?;
        let keys = self.types.keys(keys)?;
        let like = Like::of(&keys);
        let removed = each_width!(&self.inner, map => counts(&all_of(py, (&self.home, map), &keys, SlabMultiRequest::DeleteAll)?));
        like.column(py, Dtype::I64, &removed)
    }

    /// All keys and their values. The values of a key are in their order.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        self.home.check(py)?;
        let SlabTypes { key, value } = self.types;
        each_width!(&self.inner, map => {
            let (keys, values): (Vec<_>, Vec<_>) = alone(py, &self.home, map, |map| map.pairs())?.into_iter().unzip();
            Ok((Like::NUMPY.column(py, key, &keys)?, Like::NUMPY.column(py, value, &values)?))
        })
    }

    fn __repr__(&self) -> String {
        format!("<warpkeep.SlabMultiMap from {} to {} on {}>", self.types.key, self.types.value, self.home.device())
    }
} }
