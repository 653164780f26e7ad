//! What the classes of slab hashes share: the types of keys and values, and calls that one thread at a time makes.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use warpkeep_containers::{
    ContainerError, SlabAnswer, SlabHashOptions, SlabKey, SlabMap, SlabMultiMap, SlabSet, SlabValue,
};

use crate::array::Array;
use crate::container::{Element, Home, host_column};
use crate::dtype::Dtype;
use crate::errors::{OrRaise, exception};
use crate::spec::{Form, Spec};

const U32: Dtype = Dtype { kind: b'u', size: 4 };
const I32: Dtype = Dtype { kind: b'i', size: 4 };

/// Keys of which values have the same size.
pub(crate) trait Word: SlabKey<Self> + SlabKey<()> + SlabValue + Element + TryFrom<u64> {}

impl Word for u32 {}
impl Word for u64 {}

/// A container of each width.
pub(crate) enum Widths<N, W> {
    Narrow(Mutex<N>),
    Wide(Mutex<W>),
}

/// The same expression for both widths.
macro_rules! each_width {
    ($of:expr, $inner:ident => $body:expr) => {
        match $of {
            crate::slab::Widths::Narrow($inner) => $body,
            crate::slab::Widths::Wide($inner) => $body,
        }
    };
}
pub(crate) use each_width;

/// Does something with a container, without the GIL and without other threads.
pub(crate) fn alone<T: Send, R: Send>(
    py: Python<'_>,
    home: &Home,
    container: &Mutex<T>,
    work: impl FnOnce(&mut T) -> Result<R, ContainerError> + Send,
) -> PyResult<R> {
    home.detach(py, || work(&mut container.lock().unwrap_or_else(PoisonError::into_inner))).or_raise(py)
}

/// What all slab hashes do alike.
pub(crate) trait Common {
    fn count(&self) -> Result<u64, ContainerError>;
    fn room(&mut self, items: u64) -> Result<(), ContainerError>;
    fn pack(&mut self) -> Result<(), ContainerError>;
    fn empty(&mut self) -> Result<(), ContainerError>;
    fn write(&self, path: PathBuf) -> Result<(), ContainerError>;
}

macro_rules! common {
    ($type:ty, $($bounds:tt)*) => {
        impl<$($bounds)*> Common for $type {
            fn count(&self) -> Result<u64, ContainerError> {
                self.len()
            }

            fn room(&mut self, items: u64) -> Result<(), ContainerError> {
                self.reserve(items)
            }

            fn pack(&mut self) -> Result<(), ContainerError> {
                self.flush()
            }

            fn empty(&mut self) -> Result<(), ContainerError> {
                self.clear()
            }

            fn write(&self, path: PathBuf) -> Result<(), ContainerError> {
                self.save(path)
            }
        }
    };
}

common!(SlabMap<K, V>, K: SlabKey<V>, V: SlabValue);
common!(SlabMultiMap<K, V>, K: SlabKey<V>, V: SlabValue);
common!(SlabSet<K>, K: SlabKey<()>);

/// The methods of a class of slab hashes, beside its own ones. The class has the fields `inner`, `types` and `home`.
macro_rules! with_common {
    ($class:ident { $($own:tt)* }) => {
        #[pymethods]
        impl $class {
            $($own)*

            /// Makes room for `items` items in all, so that no batch grows the table before.
            fn reserve(&self, py: Python<'_>, items: u64) -> PyResult<()> {
                self.home.check(py)?;
                each_width!(&self.inner, inner => alone(py, &self.home, inner, |inner| inner.room(items)))
            }

            /// Packs all chains, which removes the places of erased keys. Needs no memory.
            fn flush(&self, py: Python<'_>) -> PyResult<()> {
                self.home.check(py)?;
                each_width!(&self.inner, inner => alone(py, &self.home, inner, Common::pack))
            }

            /// Removes everything.
            fn clear(&self, py: Python<'_>) -> PyResult<()> {
                self.home.check(py)?;
                each_width!(&self.inner, inner => alone(py, &self.home, inner, Common::empty))
            }

            /// Writes everything to a file.
            fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
                self.home.check(py)?;
                each_width!(&self.inner, inner => alone(py, &self.home, inner, |inner| inner.write(path)))
            }

            /// Where it lies, as in `open`.
            #[getter]
            fn device(&self) -> String {
                self.home.device()
            }

            fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
                self.home.check(py)?;
                each_width!(&self.inner, inner => alone(py, &self.home, inner, |inner| Ok(inner.count()? as usize)))
            }

            fn __bool__(&self) -> bool {
                true
            }

            fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
                self.home.check(py)?;
                let Some(key) = key_bits(key, self.types.key.size)? else { return Ok(false) };
                each_width!(&self.inner, inner => match key.try_into() {
                    Ok(key) => alone(py, &self.home, inner, |inner| inner.search_one(key)),
                    Err(_) => Ok(false),
                })
            }
        }
    };
}
pub(crate) use with_common;

/// The types of keys and values: keys are integers of 32 or 64 bits, and values any number of the same size.
#[derive(Clone, Copy)]
pub(crate) struct SlabTypes {
    pub(crate) key: Dtype,
    pub(crate) value: Dtype,
}

impl SlabTypes {
    /// The types that a caller named: a spec, or what NumPy makes a dtype of; by default keys of 64 bits, and values as keys.
    pub(crate) fn new(
        key: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<SlabTypes> {
        let named = |name: &Bound<'_, PyAny>| match name.cast::<Spec>() {
            Ok(spec) => match spec.get().0 {
                Form::Scalar(dtype) => Ok(dtype),
                _ => Err(PyValueError::new_err(
                    "keys and values of a slab hash are numbers; write u64, u32 or, for values, another number of that size",
                )),
            },
            Err(_) => Dtype::named(name),
        };
        let key = key.map_or(Ok(Dtype::U64), named)?;
        if ![Dtype::U64, Dtype::I64, U32, I32].contains(&key) {
            return Err(PyValueError::new_err(format!("keys of {key}: keys are u64, u32, i64 or i32")));
        }
        let value = value.map_or(Ok(key), named)?;
        if value.size != key.size {
            return Err(PyValueError::new_err(format!(
                "keys of {key} and values of {value}: values have the size of keys; write one of u{bits}, i{bits}, f{bits} for the values",
                bits = 8 * key.size
            )));
        }
        Ok(SlabTypes { key, value })
    }

    pub(crate) fn is_narrow(self) -> bool {
        self.key.size == 4
    }

    /// Keys of an argument. Signed and unsigned ones are the same bits.
    pub(crate) fn keys<'py>(self, object: &Bound<'py, PyAny>) -> PyResult<Array<'py>> {
        let size = self.key.size;
        let other = Dtype { kind: if self.key.kind == b'u' { b'i' } else { b'u' }, size };
        host_column(object, "keys", &[self.key, other])
    }

    /// Values of an argument, one for each of `count` keys.
    pub(crate) fn values<'py>(self, object: &Bound<'py, PyAny>, count: usize) -> PyResult<Array<'py>> {
        let values = host_column(object, "values", &[self.value])?;
        match values.count() == count {
            true => Ok(values),
            false => Err(PyValueError::new_err(format!(
                "{} values for {count} keys; give one value for each key",
                values.count()
            ))),
        }
    }
}

/// The options that a caller gave.
pub(crate) fn options_of(capacity: u64, slab_bytes: u32, seed: Option<u64>) -> SlabHashOptions {
    SlabHashOptions { capacity, slab_bytes, seed, ..SlabHashOptions::default() }
}

/// The same with bounds: slabs behind the first ones of all buckets, and buckets.
pub(crate) fn bounded(
    options: SlabHashOptions,
    most_slabs: Option<u32>,
    most_buckets: Option<u32>,
) -> SlabHashOptions {
    SlabHashOptions {
        most_slabs: most_slabs.unwrap_or(options.most_slabs),
        most_buckets: most_buckets.unwrap_or(options.most_buckets),
        ..options
    }
}

/// Refuses answers of which one says that there was no memory.
pub(crate) fn check_full<V>(py: Python<'_>, answers: &[SlabAnswer<V>]) -> PyResult<()> {
    match answers.iter().position(|answer| matches!(answer, SlabAnswer::Full)) {
        None => Ok(()),
        Some(index) => Err(full(py, index)),
    }
}

/// The exception for a key that was not added.
pub(crate) fn full(py: Python<'_>, index: usize) -> PyErr {
    let message = format!(
        "key {index} was not added, others were if there was room: there is no memory for more slabs; erase keys and flush"
    );
    exception(py, "FullError", &message)
}

/// Whether one key is there.
pub(crate) trait Has<K> {
    fn search_one(&self, key: K) -> Result<bool, ContainerError>;
}

impl<K: SlabKey<V>, V: SlabValue> Has<K> for SlabMap<K, V> {
    fn search_one(&self, key: K) -> Result<bool, ContainerError> {
        Ok(self.search(&[key])?.iter().all(Option::is_some))
    }
}

impl<K: SlabKey<V>, V: SlabValue> Has<K> for SlabMultiMap<K, V> {
    fn search_one(&self, key: K) -> Result<bool, ContainerError> {
        Ok(self.search(&[key])?.iter().all(Option::is_some))
    }
}

impl<K: SlabKey<()>> Has<K> for SlabSet<K> {
    fn search_one(&self, key: K) -> Result<bool, ContainerError> {
        Ok(self.contains(&[key])? == [true])
    }
}
