//! The ordered map of the containers and its snapshots, over arrays.
#![allow(clippy::needless_pass_by_value, reason = "Python's paths come by value")]

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use warpkeep_containers::{
    OrderedMap as Map, OrderedMapOptions, OrderedSnapshot as Snapshot, OrderedStatus, Upsert,
};

use crate::container::{Home, Like, elements, key_bits, upsert_of};
use crate::errors::{OrRaise, exception};
use crate::ordered_reads::{Pairs, Types};

/// The maps that there are.
enum Maps {
    Narrow(Map<u32, u32>),
    Wide(Map<u64, u64>),
}

/// A state of one of them.
#[derive(Clone)]
enum Views {
    Narrow(Snapshot<u32, u32>),
    Wide(Snapshot<u64, u64>),
}

/// The same expression for both widths.
macro_rules! each {
    ($of:expr, $widths:ident, $inner:ident => $body:expr) => {
        match $of {
            $widths::Narrow($inner) => $body,
            $widths::Wide($inner) => $body,
        }
    };
}

/// The methods of a class that has a state to read, beside its own ones.
macro_rules! with_reads {
    ($class:ident { $($own:tt)* }) => {
        #[pymethods]
        impl $class {
            $($own)*

            /// The values of keys, 0 where there is none, and which keys were found.
            fn get<'py>(
                &self,
                py: Python<'py>,
                keys: &Bound<'py, PyAny>,
            ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
                each!(self.view(py)?, Views, view => self.types.get(py, &self.home, &view, keys))
            }

            /// Which keys are there.
            fn contains<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
                each!(self.view(py)?, Views, view => self.types.contains(py, &self.home, &view, keys))
            }

            /// The keys and values of ranges, one range behind the other, and where each begins; both bounds are included.
            #[pyo3(signature = (lo, hi, *, limit = None))]
            fn range<'py>(
                &self,
                py: Python<'py>,
                lo: &Bound<'py, PyAny>,
                hi: &Bound<'py, PyAny>,
                limit: Option<usize>,
            ) -> PyResult<Pairs<'py>> {
                each!(self.view(py)?, Views, view => self.types.range(py, &self.home, &view, lo, hi, limit))
            }

            /// How many keys each range has; both bounds are included.
            fn count<'py>(
                &self,
                py: Python<'py>,
                lo: &Bound<'py, PyAny>,
                hi: &Bound<'py, PyAny>,
            ) -> PyResult<Bound<'py, PyAny>> {
                each!(self.view(py)?, Views, view => self.types.count(py, &self.home, &view, lo, hi))
            }

            /// The smallest key above each key, its value, and whether there is one.
            fn successor<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Pairs<'py>> {
                each!(self.view(py)?, Views, view => self.types.successor(py, &self.home, &view, keys))
            }

            /// The largest key below each key, its value, and whether there is one.
            fn predecessor<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Pairs<'py>> {
                each!(self.view(py)?, Views, view => self.types.predecessor(py, &self.home, &view, keys))
            }

            /// An as-of join: each key if it is there, or the nearest before it ("backward") or after it ("forward"); its value, and
            /// whether there is one.
            #[pyo3(signature = (keys, direction = "backward", tolerance = None, *, group_bits = None))]
            fn asof<'py>(
                &self,
                py: Python<'py>,
                keys: &Bound<'py, PyAny>,
                direction: &str,
                tolerance: Option<u64>,
                group_bits: Option<u32>,
            ) -> PyResult<Pairs<'py>> {
                let limits = (tolerance, group_bits);
                each!(self.view(py)?, Views, view => self.types.asof(py, &self.home, &view, keys, direction, limits))
            }

            /// The smallest key and its value; None if there are no keys.
            fn min<'py>(&self, py: Python<'py>) -> PyResult<Option<(u64, Bound<'py, PyAny>)>> {
                each!(self.view(py)?, Views, view => self.types.end(py, &self.home, || view.min()))
            }

            /// The largest key and its value; None if there are no keys.
            fn max<'py>(&self, py: Python<'py>) -> PyResult<Option<(u64, Bound<'py, PyAny>)>> {
                each!(self.view(py)?, Views, view => self.types.end(py, &self.home, || view.max()))
            }

            /// All keys in order, and their values.
            fn items<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
                each!(self.view(py)?, Views, view => self.types.items(py, &self.home, &view))
            }

            /// Writes all keys and values to a file.
            fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
                each!(self.view(py)?, Views, view => self.home.detach(py, || view.save(&path)).or_raise(py))
            }

            fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
                each!(self.view(py)?, Views, view => Ok(view.len() as usize))
            }

            fn __bool__(&self) -> bool {
                true
            }

            fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
                let view = self.view(py)?;
                // Keys are unsigned: there are none below 0.
                let below = key.lt(0)?;
                let Some(key) = key_bits(key, 8)?.filter(|_| !below) else { return Ok(false) };
                match view {
                    Views::Wide(view) => Ok(view.contains(&[key]).or_raise(py)? == [true]),
                    Views::Narrow(view) => match u32::try_from(key) {
                        Ok(key) => Ok(view.contains(&[key]).or_raise(py)? == [true]),
                        Err(_) => Ok(false),
                    },
                }
            }
        }
    };
}

/// A map from unsigned keys in their order to numbers of the same size, in the memory of the host or of a device. It is not a table of a
/// store: it is gone with the process unless it is saved.
#[pyclass(frozen, module = "warpkeep")]
pub(crate) struct OrderedMap {
    map: Maps,
    types: Types,
    home: Home,
}

/// The state of an ordered map at one time; changes that come later are not in it.
#[pyclass(frozen, module = "warpkeep")]
pub(crate) struct OrderedSnapshot {
    /// `None` when it is closed.
    view: Mutex<Option<Views>>,
    types: Types,
    home: Home,
}

impl OrderedMap {
    /// The state now.
    fn view(&self, py: Python<'_>) -> PyResult<Views> {
        self.home.check(py)?;
        Ok(match &self.map {
            Maps::Narrow(map) => Views::Narrow(map.snapshot()),
            Maps::Wide(map) => Views::Wide(map.snapshot()),
        })
    }

    /// Refuses values that `how` would compare or add as other numbers than they are.
    fn check_how(&self, how: Upsert) -> PyResult<()> {
        let value = self.types.value;
        let fix = match how {
            Upsert::Add if value.kind == b'f' => "adds integers; read the values, add, and replace them",
            Upsert::Min | Upsert::Max if value.kind != b'u' => {
                "compares unsigned integers; make the map with values of uint64 or uint32"
            }
            _ => return Ok(()),
        };
        Err(PyValueError::new_err(format!("the values are {value}, and how='add', 'min' or 'max' {fix}")))
    }
}

impl Drop for OrderedSnapshot {
    fn drop(&mut self) {
        self.release();
    }
}

impl OrderedSnapshot {
    /// Frees the state. It takes locks of the map, so that it stays where a thread of the parent may hold one.
    fn release(&self) {
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner).take();
        if self.home.is_torn() {
            std::mem::forget(view);
        }
    }

    fn view(&self, py: Python<'_>) -> PyResult<Views> {
        self.home.check(py)?;
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner).clone();
        view.ok_or_else(|| {
            exception(py, "ClosedError", "the snapshot is closed; take another one: map.snapshot()")
        })
    }
}

with_reads! { OrderedMap {
    #[new]
    #[pyo3(signature = (key = None, value = None, *, device = "cpu"))]
    fn new(
        py: Python<'_>,
        key: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        device: &str,
    ) -> PyResult<OrderedMap> {
        let types = Types::new(key, value)?;
        let (options, is_narrow) = (OrderedMapOptions::default(), types.key.size == 4);
        let (map, home) = Home::make(py, device, |device| {
            Ok(match (device, is_narrow) {
                (None, true) => Maps::Narrow(Map::on_cpu(&options)),
                (None, false) => Maps::Wide(Map::on_cpu(&options)),
                (Some(device), true) => Maps::Narrow(Map::new(device, &options)?),
                (Some(device), false) => Maps::Wide(Map::new(device, &options)?),
            })
        })?;
        Ok(OrderedMap { map, types, home })
    }

    /// The map of a file that `save` wrote, with the types that the saved map had.
    #[staticmethod]
    #[pyo3(signature = (path, key = None, value = None, *, device = "cpu"))]
    fn load(
        py: Python<'_>,
        path: PathBuf,
        key: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        device: &str,
    ) -> PyResult<OrderedMap> {
        let types = Types::new(key, value)?;
        let (options, is_narrow) = (OrderedMapOptions::default(), types.key.size == 4);
        let (map, home) = Home::make(py, device, |device| {
            Ok(match (device, is_narrow) {
                (None, true) => Maps::Narrow(Map::load_on_cpu(&path, &options)?),
                (None, false) => Maps::Wide(Map::load_on_cpu(&path, &options)?),
                (Some(device), true) => Maps::Narrow(Map::load(device, &path, &options)?),
                (Some(device), false) => Maps::Wide(Map::load(device, &path, &options)?),
            })
        })?;
        Ok(OrderedMap { map, types, home })
    }

    /// Adds keys; which of them are new. A key that is there keeps its value.
    fn insert<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.home.check(py)?;
        let (keys, values) = (self.types.keys(keys, "keys")?, self.types.values(values)?);
        let like = Like::of(&keys);
        let answers = each!(&self.map, Maps, map => {
            let (keys, values) = (elements(&keys), elements(&values));
            self.home.detach(py, || Ok(map.insert(keys, values)?.iter().map(|change| change.status).collect()))
        });
        is_status(py, like, answers, OrderedStatus::Inserted)
    }

    /// Adds keys, or changes the values of those that are there; which of them are new.
    #[pyo3(signature = (keys, values, *, how = "replace"))]
    fn upsert<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
        how: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.home.check(py)?;
        let how = upsert_of(how)?;
        self.check_how(how)?;
        let (keys, values) = (self.types.keys(keys, "keys")?, self.types.values(values)?);
        let like = Like::of(&keys);
        let answers = each!(&self.map, Maps, map => {
            let (keys, values) = (elements(&keys), elements(&values));
            self.home.detach(py, || Ok(map.upsert(how, keys, values)?.iter().map(|change| change.status).collect()))
        });
        is_status(py, like, answers, OrderedStatus::Inserted)
    }

    /// Removes keys; which of them were there.
    fn erase<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.home.check(py)?;
        let keys = self.types.keys(keys, "keys")?;
        let like = Like::of(&keys);
        let answers = each!(&self.map, Maps, map => {
            let keys = elements(&keys);
            self.home.detach(py, || Ok(map.erase(keys)?.iter().map(|change| change.status).collect()))
        });
        is_status(py, like, answers, OrderedStatus::Erased)
    }

    /// The state now, which later changes leave as it is. It keeps memory until it is closed.
    fn snapshot(&self, py: Python<'_>) -> PyResult<OrderedSnapshot> {
        let view = Mutex::new(Some(self.view(py)?));
        Ok(OrderedSnapshot { view, types: self.types, home: self.home.clone() })
    }

    /// Where it lies, as in `open`.
    #[getter]
    fn device(&self) -> String {
        self.home.device()
    }

    fn __repr__(&self) -> String {
        let Types { key, value } = self.types;
        format!("<warpkeep.OrderedMap from {key} to {value} on {}>", self.home.device())
    }
} }

with_reads! { OrderedSnapshot {
    /// Frees what only this snapshot needs.
    fn close(&self) {
        self.release();
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, pyo3::types::PyTuple>) {
        self.close();
    }

    fn __repr__(&self) -> String {
        format!("<warpkeep.OrderedSnapshot on {}>", self.home.device())
    }
} }

/// Which answers are this one.
fn is_status<'py>(
    py: Python<'py>,
    like: Like,
    answers: Result<Vec<OrderedStatus>, warpkeep_containers::ContainerError>,
    status: OrderedStatus,
) -> PyResult<Bound<'py, PyAny>> {
    like.flags(py, answers.or_raise(py)?.into_iter().map(|answer| answer == status))
}
