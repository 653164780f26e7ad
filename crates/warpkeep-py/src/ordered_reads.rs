//! What can be read of an ordered map and of its snapshots.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use warpkeep_containers::{ContainerError, Near, OrderedKey, OrderedSnapshot};

use crate::array::Array;
use crate::cells::to_python;
use crate::container::{Element, Home, Like, elements, host_array, host_column};
use crate::dtype::Dtype;
use crate::errors::OrRaise;
use crate::spec::{Form, Spec};

const U32: Dtype = Dtype { kind: b'u', size: 4 };

/// Keys, values, and offsets or which were found.
pub(crate) type Pairs<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

/// Keys of which values have the same type, for the library.
pub(crate) trait Key: OrderedKey<Self> + Element + Into<u64> {
    /// This number, or the largest key if that is less.
    fn limited(number: u64) -> Self;
}

impl Key for u32 {
    fn limited(number: u64) -> Self {
        u32::try_from(number).unwrap_or(u32::MAX)
    }
}

impl Key for u64 {
    fn limited(number: u64) -> Self {
        number
    }
}

/// The types of keys and values: keys are unsigned, and values any number of the same size.
#[derive(Clone, Copy)]
pub(crate) struct Types {
    pub(crate) key: Dtype,
    pub(crate) value: Dtype,
}

/// What to do with signed keys.
fn unsigned_fix(what: &str, key: Dtype) -> String {
    let bits = 8 * key.size;
    format!(
        "keys are ordered as uint{bits}: if none is negative, give {what}.view('uint{bits}'), otherwise ({what} ^ numpy.int{bits}(-2**{})).view('uint{bits}')",
        bits - 1
    )
}

impl Types {
    /// The types that a caller named: a spec, or what NumPy makes a dtype of; 64-bit integers by default.
    pub(crate) fn new(key: Option<&Bound<'_, PyAny>>, value: Option<&Bound<'_, PyAny>>) -> PyResult<Types> {
        let named = |name: &Bound<'_, PyAny>| match name.cast::<Spec>() {
            Ok(spec) => match spec.get().0 {
                Form::Scalar(dtype) => Ok(dtype),
                _ => Err(PyValueError::new_err(
                    "keys and values of an OrderedMap are numbers; write u64, u32 or, for values, another number of that size",
                )),
            },
            Err(_) => Dtype::named(name),
        };
        let key = key.map_or(Ok(Dtype::U64), named)?;
        let value = match value {
            Some(value) => named(value)?,
            None => key,
        };
        if key == Dtype::I64 || (key.kind, key.size) == (b'i', 4) {
            return Err(PyValueError::new_err(format!(
                "keys of {key}: {}, and make the map with keys of uint{}",
                unsigned_fix("keys", key),
                8 * key.size
            )));
        }
        if key != Dtype::U64 && key != U32 {
            return Err(PyValueError::new_err(format!("keys of {key}: keys are u64 or u32")));
        }
        if value.size != key.size {
            return Err(PyValueError::new_err(format!(
                "keys of {key} and values of {value}: values have the size of keys; write one of u{bits}, i{bits}, f{bits} for the values",
                bits = 8 * key.size
            )));
        }
        Ok(Types { key, value })
    }

    /// Keys of an argument.
    pub(crate) fn keys<'py>(self, object: &Bound<'py, PyAny>, what: &'static str) -> PyResult<Array<'py>> {
        let array = host_array(object, what)?;
        if array.dtype.kind == b'i' && array.dtype.size == self.key.size {
            let fix = unsigned_fix(what, self.key);
            return Err(PyTypeError::new_err(format!("{what}: an array of {}; {fix}", array.dtype)));
        }
        host_column(object, what, &[self.key])
    }

    /// Values of an argument.
    pub(crate) fn values<'py>(self, object: &Bound<'py, PyAny>) -> PyResult<Array<'py>> {
        host_column(object, "values", &[self.value])
    }

    pub(crate) fn get<'py, K: Key>(
        self,
        py: Python<'py>,
        home: &Home,
        view: &OrderedSnapshot<K, K>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let keys = self.keys(keys, "keys")?;
        let like = Like::of(&keys);
        let keys: &[K] = elements(&keys);
        let (values, found) = home
            .detach(py, || {
                let found = view.find(keys)?;
                let values: Vec<K> = found.iter().map(|value| value.unwrap_or_default()).collect();
                Ok::<_, ContainerError>((values, found))
            })
            .or_raise(py)?;
        Ok((like.column(py, self.value, &values)?, like.flags(py, found.iter().map(Option::is_some))?))
    }

    pub(crate) fn contains<'py, K: Key>(
        self,
        py: Python<'py>,
        home: &Home,
        view: &OrderedSnapshot<K, K>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let keys = self.keys(keys, "keys")?;
        let like = Like::of(&keys);
        let keys: &[K] = elements(&keys);
        like.flags(py, home.detach(py, || view.contains(keys)).or_raise(py)?.into_iter())
    }

    pub(crate) fn range<'py, K: Key>(
        self,
        py: Python<'py>,
        home: &Home,
        view: &OrderedSnapshot<K, K>,
        lo: &Bound<'py, PyAny>,
        hi: &Bound<'py, PyAny>,
        limit: Option<usize>,
    ) -> PyResult<Pairs<'py>> {
        let (lo, hi) = (self.keys(lo, "lo")?, self.keys(hi, "hi")?);
        let like = Like::of(&lo);
        let (lo, hi): (&[K], &[K]) = (elements(&lo), elements(&hi));
        let ranges = home.detach(py, || view.range(lo, hi, limit)).or_raise(py)?;
        let offsets: Vec<i64> = ranges.offsets.iter().map(|offset| *offset as i64).collect();
        Ok((
            like.column(py, self.key, &ranges.keys)?,
            like.column(py, self.value, &ranges.values)?,
            like.column(py, Dtype::I64, &offsets)?,
        ))
    }

    pub(crate) fn count<'py, K: Key>(
        self,
        py: Python<'py>,
        home: &Home,
        view: &OrderedSnapshot<K, K>,
        lo: &Bound<'py, PyAny>,
        hi: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (lo, hi) = (self.keys(lo, "lo")?, self.keys(hi, "hi")?);
        let like = Like::of(&lo);
        let (lo, hi): (&[K], &[K]) = (elements(&lo), elements(&hi));
        let counts = home.detach(py, || view.count(lo, hi)).or_raise(py)?;
        like.column(py, Dtype::I64, &counts)
    }

    pub(crate) fn successor<'py, K: Key>(
        self,
        py: Python<'py>,
        home: &Home,
        view: &OrderedSnapshot<K, K>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Pairs<'py>> {
        self.nearest(py, home, keys, |keys| view.successor(keys, Near::strict()))
    }

    pub(crate) fn predecessor<'py, K: Key>(
        self,
        py: Python<'py>,
        home: &Home,
        view: &OrderedSnapshot<K, K>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Pairs<'py>> {
        self.nearest(py, home, keys, |keys| view.predecessor(keys, Near::strict()))
    }

    pub(crate) fn asof<'py, K: Key>(
        self,
        py: Python<'py>,
        home: &Home,
        view: &OrderedSnapshot<K, K>,
        keys: &Bound<'py, PyAny>,
        direction: &str,
        (tolerance, group_bits): (Option<u64>, Option<u32>),
    ) -> PyResult<Pairs<'py>> {
        let mut near = Near::or_equal();
        if let Some(tolerance) = tolerance {
            near = near.within(K::limited(tolerance));
        }
        if let Some(bits) = group_bits {
            near = near.in_group(bits);
        }
        match direction {
            "backward" => self.nearest(py, home, keys, |keys| view.predecessor(keys, near)),
            "forward" => self.nearest(py, home, keys, |keys| view.successor(keys, near)),
            other => Err(PyValueError::new_err(format!(
                "'{other}' is no direction; write 'backward' (the key or the nearest before it) or 'forward' (or after it)"
            ))),
        }
    }

    /// Neighbours of keys, 0 where there is none, and which keys have one.
    fn nearest<'py, K: Key>(
        self,
        py: Python<'py>,
        home: &Home,
        keys: &Bound<'py, PyAny>,
        find: impl FnOnce(&[K]) -> Result<Vec<Option<(K, K)>>, ContainerError> + Send,
    ) -> PyResult<Pairs<'py>> {
        let keys = self.keys(keys, "keys")?;
        let like = Like::of(&keys);
        let keys: &[K] = elements(&keys);
        let found = home.detach(py, || find(keys)).or_raise(py)?;
        let (near, values): (Vec<K>, Vec<K>) = found.iter().map(|pair| pair.unwrap_or_default()).unzip();
        Ok((
            like.column(py, self.key, &near)?,
            like.column(py, self.value, &values)?,
            like.flags(py, found.iter().map(Option::is_some))?,
        ))
    }

    /// The first or the last pair.
    pub(crate) fn end<'py, K: Key>(
        self,
        py: Python<'py>,
        home: &Home,
        find: impl FnOnce() -> Result<Option<(K, K)>, ContainerError> + Send,
    ) -> PyResult<Option<(u64, Bound<'py, PyAny>)>> {
        let Some((key, value)) = home.detach(py, find).or_raise(py)? else { return Ok(None) };
        let bytes = value.into().to_le_bytes();
        let value = to_python(py, Form::Scalar(self.value), &bytes[..self.value.size])?;
        Ok(Some((key.into(), value)))
    }

    pub(crate) fn items<'py, K: Key>(
        self,
        py: Python<'py>,
        home: &Home,
        view: &OrderedSnapshot<K, K>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let pairs = home.detach(py, || view.retrieve_all()).or_raise(py)?;
        let (keys, values): (Vec<K>, Vec<K>) = pairs.into_iter().unzip();
        Ok((Like::NUMPY.column(py, self.key, &keys)?, Like::NUMPY.column(py, self.value, &values)?))
    }
}
