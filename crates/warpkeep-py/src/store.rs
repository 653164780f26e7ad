//! A store, and what can be done with one that is closed.
#![allow(clippy::needless_pass_by_value, reason = "Python's paths come by value")]

use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat};
use serde::Serialize;
use warpkeep::{
    CheckpointOptions, Device, DeviceChoice, DeviceValues, Durability, Error, HeapUsage, IndexKind,
    OpenReport, StoreOptions, StoreStatus, TableOptions,
};

use crate::batch::durability_of;
use crate::device_array::DeviceArray;
use crate::dtype::Dtype;
use crate::errors::{OrRaise, check_process, exception};
use crate::json::to_dict;
use crate::recorder;
use crate::spec::Spec;
use crate::table::{Table, merge_rule};
use crate::writes::AllWrites;

/// The attributes under which a table keeps what its keys and values are in Python.
const KEY: &str = "python.key";
const VALUE: &str = "python.value";

/// Where a store is, and how it was opened.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) path: PathBuf,
    image: Option<PathBuf>,
    pub(crate) read_only: bool,
    pub(crate) pid: u32,
}

impl Origin {
    /// Path and image, for a process that opens the store again; refused if this process writes to it.
    pub(crate) fn to_pickle(&self, _py: Python<'_>, what: &str) -> PyResult<(PathBuf, Option<PathBuf>)> {
        match self.read_only {
            true => Ok((self.path.clone(), self.image.clone())),
            false => Err(PyTypeError::new_err(format!(
                "a {what} of a store that is open for writing cannot be pickled: one process has such a store. Give the worker \
                 the path '{}' and open it there when no other process has it open; open it with read_only=True here and there, \
                 which pickles; or have one process serve it to the others (`warpkeep serve`)",
                self.path.display()
            ))),
        }
    }
}

/// A store: named tables in a directory.
#[pyclass(frozen, weakref, module = "warpkeep")]
pub(crate) struct Store {
    store: RwLock<Option<warpkeep::Store>>,
    device: Option<Device>,
    durability: Durability,
    origin: Origin,
    writes: AllWrites,
}

/// What `Store.stat` reports.
#[derive(Serialize)]
struct StoreStat<'a> {
    tables: Vec<TableStat>,
    usage: HeapUsage,
    status: StoreStatus,
    opened: &'a OpenReport,
}

#[derive(Serialize)]
struct TableStat {
    name: String,
    items: u64,
    key: String,
    value: String,
    merge: &'static str,
    index: &'static str,
}

impl Store {
    /// Does something with the store, without the GIL.
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&warpkeep::Store) -> warpkeep::Result<R> + Send,
    ) -> PyResult<R> {
        self.check_process(py)?;
        let done = py.detach(|| {
            let store = self.store.read().unwrap_or_else(PoisonError::into_inner);
            store.as_ref().map(work)
        });
        match done {
            Some(done) => done.or_raise(py),
            None => Err(exception(
                py,
                "ClosedError",
                &format!("the store {} was closed; open it again", self.origin.path.display()),
            )),
        }
    }

    fn check_process(&self, py: Python<'_>) -> PyResult<()> {
        check_process(py, self.origin.pid)
    }

    fn handle(&self, table: warpkeep::Table, key: Spec, value: Spec) -> Table {
        Table {
            writes: self.writes.of(table.id()),
            table,
            key: key.0,
            value: value.0,
            durability: self.durability,
            device: self.device.clone(),
            origin: self.origin.clone(),
        }
    }
}

/// Keys and values of a table, as it keeps them, or as the library names them.
fn specs_of(table: &warpkeep::Table) -> (Spec, Spec) {
    let kept = |name: &str| table.attribute(name).and_then(|text| Spec::from_text(&text));
    let (key, value) = (Spec::of_key(table.key_spec()), Spec::of_value(table.value_spec()));
    // An attribute is a text that any program may set: one that contradicts the table is passed over.
    let agrees =
        |spec: &Spec, own: Spec| (spec.0.len(), spec.0.fixed_len()) == (own.0.len(), own.0.fixed_len());
    (
        kept(KEY).filter(|spec| agrees(spec, key)).unwrap_or(key),
        kept(VALUE).filter(|spec| agrees(spec, value)).unwrap_or(value),
    )
}

#[pymethods]
impl Store {
    /// The table of this name: opened, or created if keys and values are given.
    #[pyo3(signature = (name, *, key = None, value = None, merge = None, capacity = 1024, index = "gphash", check_gets = false))]
    #[allow(clippy::too_many_arguments, reason = "one for each argument in Python")]
    fn table(
        &self,
        py: Python<'_>,
        name: &str,
        key: Option<Spec>,
        value: Option<Spec>,
        merge: Option<&str>,
        capacity: u64,
        index: &str,
        check_gets: bool,
    ) -> PyResult<Table> {
        let Some(value) = value else {
            if key.is_some() || merge.is_some() {
                return Err(PyTypeError::new_err("give the values, too: table(name, key=..., value=...)"));
            }
            let table = self.with(py, |store| store.table(name))?;
            let (key, value) = specs_of(&table);
            return Ok(self.handle(table, key, value));
        };
        let key = key.unwrap_or(Spec(crate::spec::Form::Scalar(Dtype::U64)));
        let options = TableOptions::new(key.key(py)?, value.value(py)?)
            .capacity(capacity)
            .check_gets(check_gets)
            .index(index.parse::<IndexKind>().or_raise(py)?)
            .merge(merge_rule(merge, value).or_raise(py)?);
        let read_only = self.origin.read_only;
        let table = self.with(py, |store| {
            let table = match read_only {
                true => {
                    let table = store.table(name)?;
                    let (table_keys, table_values) = (table.key_spec(), table.value_spec());
                    if (table_keys, table_values) != (options.key, options.value) {
                        let (keys, values) = (options.key, options.value);
                        return Err(Error::OtherTypes {
                            table: name.to_owned(),
                            table_keys,
                            table_values,
                            keys,
                            values,
                        });
                    }
                    table
                }
                false => store.table_or_create(name, options)?,
            };
            let unnamed = table.attribute(VALUE).is_none();
            if unnamed && !read_only {
                // Of a new table, or of one that another program made.
                table.set_attribute(KEY, Some(&key.text()))?;
                table.set_attribute(VALUE, Some(&value.text()))?;
            }
            Ok(table)
        })?;
        let kept = specs_of(&table);
        if kept != (key, value) && table.attribute(VALUE).is_some() {
            let message = format!(
                "the table '{name}' has keys of {} and values of {}, the program asks for {} and {}; open it with \
                 store.table('{name}') alone, or choose another name",
                kept.0.text(),
                kept.1.text(),
                key.text(),
                value.text()
            );
            return Err(exception(py, "SpecError", &message));
        }
        Ok(self.handle(table, key, value))
    }

    /// The names of all tables.
    fn tables(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.with(py, |store| Ok(store.tables()))
    }

    fn __contains__(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.with(py, |store| Ok(store.tables().iter().any(|table| table == name)))
    }

    fn __getitem__(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        self.table(py, name, None, None, None, 0, "gphash", false)
    }

    /// Drops a table and all that is in it.
    fn drop_table(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.with(py, |store| store.drop_table(name))
    }

    /// Makes everything written so far survive the machine.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, warpkeep::Store::flush)
    }

    /// Writes all items to a checkpoint, while writers go on, and trims the log.
    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, warpkeep::Store::checkpoint)
    }

    /// Copies the store to a directory that does not exist yet, while writers go on.
    fn backup<'py>(&self, py: Python<'py>, path: PathBuf) -> PyResult<Bound<'py, PyDict>> {
        let report = self.with(py, |store| store.backup(&path, &mut |_, _| ()))?;
        to_dict(py, &report)
    }

    /// Tables, space, log and how the store was opened.
    fn stat<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let text = self.with(py, |store| {
            let mut tables = Vec::new();
            for name in store.tables() {
                let table = store.table(&name)?;
                let (key, value) = specs_of(&table);
                tables.push(TableStat {
                    items: table.len(),
                    key: key.text(),
                    value: value.text(),
                    merge: table.merge_rule().name(),
                    index: table.index().name(),
                    name,
                });
            }
            let (usage, status, opened) = (store.usage(), store.status(), store.report());
            let stat = StoreStat { tables, usage, status, opened };
            serde_json::to_value(&stat).map_err(|error| Error::Invalid(error.to_string()))
        })?;
        to_dict(py, &text)
    }

    /// The process's metrics in Prometheus' text format.
    fn metrics(&self, py: Python<'_>) -> PyResult<String> {
        self.check_process(py)?;
        Ok(recorder::metrics(py))
    }

    /// Where it is.
    #[getter]
    fn path(&self) -> PathBuf {
        self.origin.path.clone()
    }

    /// Whether it was opened to be read only.
    #[getter]
    fn read_only(&self) -> bool {
        self.origin.read_only
    }

    /// Where its tables run, as in `open`.
    #[getter]
    fn device(&self) -> String {
        self.device
            .as_ref()
            .map_or_else(|| DeviceChoice::Cpu.to_string(), |device| device.choice().to_string())
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self, py: Python<'_>) -> PyResult<bool> {
        self.check_process(py)?;
        Ok(py.detach(|| self.store.read().unwrap_or_else(PoisonError::into_inner).is_none()))
    }

    /// A copy of an array in the memory of the store's device.
    fn to_device(&self, py: Python<'_>, array: &Bound<'_, PyAny>) -> PyResult<DeviceArray> {
        self.check_process(py)?;
        match &self.device {
            Some(device) => DeviceArray::upload(py, device, array),
            None => Err(PyTypeError::new_err("the store runs on the CPU; open it with device='cuda:0'")),
        }
    }

    /// Closes the store. Its tables raise ClosedError from then on. Closing it again does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.check_process(py)?;
        py.detach(|| {
            let taken = self.store.write().unwrap_or_else(PoisonError::into_inner).take();
            taken.map_or(Ok(()), warpkeep::Store::close)
        })
        .or_raise(py)
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> PyResult<()> {
        match std::process::id() == self.origin.pid {
            true => self.close(py),
            // A child made by fork that leaves the block: the store is its parent's.
            false => Ok(()),
        }
    }

    fn __repr__(&self) -> String {
        format!("<warpkeep.Store '{}'>", self.origin.path.display())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let reopen = py.import("warpkeep._reopen")?.getattr("reopen")?;
        Ok((reopen, self.origin.to_pickle(py, "handle")?.into_pyobject(py)?.into_any()))
    }
}

/// Opens the store in a directory, or creates it.
#[pyfunction]
#[pyo3(signature = (
    path, *, device = "cpu", image = None, log = true, read_only = false, durability = "process", threads = 0,
    max_bytes = None, check_items = false, abandon_image = false, adopt_copy = false, device_values = None,
    checkpoints = "automatic"
))]
#[allow(clippy::too_many_arguments, reason = "one for each argument in Python")]
pub(crate) fn open(
    py: Python<'_>,
    path: PathBuf,
    device: &str,
    image: Option<PathBuf>,
    log: bool,
    read_only: bool,
    durability: &str,
    threads: usize,
    max_bytes: Option<u64>,
    check_items: bool,
    abandon_image: bool,
    adopt_copy: bool,
    device_values: Option<&Bound<'_, PyAny>>,
    checkpoints: &str,
) -> PyResult<Store> {
    let durability = durability_of(durability)?;
    let choice: DeviceChoice = device.parse::<DeviceChoice>().or_raise(py)?;
    let mut options = StoreOptions {
        image: image.clone(),
        without_log: !log,
        threads,
        check_items,
        abandon_image,
        device_values: device_values_of(device_values)?,
        checkpoints: checkpoints_of(checkpoints)?,
        ..StoreOptions::default()
    };
    options.open.adopt = adopt_copy;
    if let Some(bytes) = max_bytes {
        options.heap.max_bytes = bytes;
    }
    let (store, device) = py.detach(|| open_store(&path, options, choice, read_only)).or_raise(py)?;
    let path = std::path::absolute(&path).unwrap_or(path);
    let image = image.map(|image| std::path::absolute(&image).unwrap_or(image));
    let origin = Origin { path, image, read_only, pid: std::process::id() };
    Ok(Store { store: RwLock::new(Some(store)), device, durability, origin, writes: AllWrites::default() })
}

/// When checkpoints are taken.
fn checkpoints_of(word: &str) -> PyResult<CheckpointOptions> {
    match word {
        "automatic" => Ok(CheckpointOptions::default()),
        "manual" => Ok(CheckpointOptions { automatic: false, ..CheckpointOptions::default() }),
        other => Err(PyValueError::new_err(format!(
            "'{other}' is no way to take checkpoints; write 'automatic', or 'manual' for those alone that checkpoint() takes"
        ))),
    }
}

/// Which values the device keeps: a float is a share of all, an integer is bytes for each table.
fn device_values_of(given: Option<&Bound<'_, PyAny>>) -> PyResult<DeviceValues> {
    match given {
        None => Ok(DeviceValues::Off),
        Some(given) if given.is_instance_of::<PyFloat>() => Ok(DeviceValues::Share(given.extract()?)),
        Some(given) => given.extract().map(DeviceValues::Bytes).map_err(|_| {
            PyTypeError::new_err(format!(
                "device_values={given}: give a share of the values as a float, or bytes for each table as an integer"
            ))
        }),
    }
}

fn open_store(
    path: &Path,
    mut options: StoreOptions,
    choice: DeviceChoice,
    read_only: bool,
) -> warpkeep::Result<(warpkeep::Store, Option<Device>)> {
    recorder::install();
    match (read_only, choice) {
        (true, choice) => {
            options.device = choice;
            Ok((warpkeep::Store::open_read_only(path, options)?, None))
        }
        (false, DeviceChoice::Cpu) => Ok((warpkeep::Store::open_with(path, options)?, None)),
        (false, choice) => {
            let device = Device::open(choice)?;
            Ok((warpkeep::Store::open_on(path, options, &device)?, Some(device)))
        }
    }
}

/// Checks a store that is not in use, and changes nothing.
#[pyfunction]
#[pyo3(signature = (path, *, image = None))]
pub(crate) fn verify<'py>(
    py: Python<'py>,
    path: PathBuf,
    image: Option<PathBuf>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = StoreOptions { image, ..StoreOptions::default() };
    let report = py.detach(|| warpkeep::verify(&path, &options)).or_raise(py)?;
    to_dict(py, &report)
}

/// Makes a store of a backup.
#[pyfunction]
#[pyo3(signature = (backup, path, *, image = None))]
pub(crate) fn restore<'py>(
    py: Python<'py>,
    backup: PathBuf,
    path: PathBuf,
    image: Option<PathBuf>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = StoreOptions { image, ..StoreOptions::default() };
    let report = py.detach(|| warpkeep::restore(&backup, &path, options, &mut |_, _| ())).or_raise(py)?;
    to_dict(py, &report)
}

/// The devices of this machine, and why one cannot be used.
#[pyfunction]
pub(crate) fn devices(py: Python<'_>) -> Vec<(String, Option<String>)> {
    py.detach(|| {
        let devices = warpkeep::devices();
        devices
            .iter()
            .map(|device| (device.choice.to_string(), device.unavailable.as_ref().map(ToString::to_string)))
            .collect()
    })
}
