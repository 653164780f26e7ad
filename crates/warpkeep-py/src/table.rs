//! A table: a mapping of single keys, and batches of many.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use warpkeep::{Device, DeviceChoice, Durability, Error, MergeRule, Op};

use crate::batch::{How, Wanted, durability_of};
use crate::cells::{Single, to_python};
use crate::errors::{OrRaise, check_process};
use crate::json::to_dict;
use crate::recorder;
use crate::scan::{Items, Part, Scan};
use crate::spec::Spec;
use crate::store::Origin;
use crate::writes::Writes;

/// A table of a store. Several threads may use it.
#[pyclass(frozen, module = "warpkeep")]
pub(crate) struct Table {
    pub(crate) table: warpkeep::Table,
    pub(crate) key: crate::spec::Form,
    pub(crate) value: crate::spec::Form,
    /// For calls that say nothing about it.
    pub(crate) durability: Durability,
    /// The device of its store.
    pub(crate) device: Option<Device>,
    /// Where its store is, for processes that open it again.
    pub(crate) origin: Origin,
    /// Its writes, by all handles of this table that the store gave.
    pub(crate) writes: Arc<Writes>,
}

impl Table {
    fn durability(&self, word: Option<&str>) -> PyResult<Durability> {
        word.map_or(Ok(self.durability), durability_of)
    }

    /// The error that every call gives once the store is closed, the table dropped, or the process another one.
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        // The lookup of any key checks all of them first.
        let key = vec![0; self.table.key_spec().fixed_len().unwrap_or(0)];
        self.single(py, false, |table| table.get(&key)).map(drop)
    }

    /// Refuses another process than the one that opened the store, before anything of a call is looked at: arrays on a GPU cannot even be
    /// asked where they are there.
    pub(crate) fn check_process(&self, py: Python<'_>) -> PyResult<()> {
        check_process(py, self.origin.pid)
    }

    /// A call for a single key. The GIL is kept if that is over sooner than the GIL could be released: not if the call waits for a disk,
    /// nor if the table runs on a device, where it may wait for a batch.
    pub(crate) fn single<R: Send>(
        &self,
        py: Python<'_>,
        waits: bool,
        work: impl FnOnce(&warpkeep::Table) -> warpkeep::Result<R> + Send,
    ) -> PyResult<R> {
        let work = || {
            let done = work(&self.table);
            recorder::note_call();
            done
        };
        match waits || self.device.is_some() {
            true => py.detach(work),
            false => work(),
        }
        .or_raise(py)
    }

    /// Whether a write of a single key waits for a disk.
    pub(crate) fn waits(&self) -> bool {
        self.durability == Durability::Power
    }

    /// Removes a key; whether it was there.
    pub(crate) fn remove(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = Single::key(key, self.key)?;
        let key = key.as_ref();
        let _write = self.writes.begin();
        let durability = self.durability;
        self.single(py, self.waits(), |table| table.delete(key, durability))
    }

    pub(crate) fn value_of<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let key = Single::key(key, self.key)?;
        let key = key.as_ref();
        match self.single(py, false, |table| table.get(key))? {
            None => Ok(None),
            Some(value) => to_python(py, self.value, &value).map(Some),
        }
    }
}

#[pymethods]
impl Table {
    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.table.name()
    }

    /// What its keys are.
    #[getter]
    fn key(&self) -> Spec {
        Spec(self.key)
    }

    /// What its values are.
    #[getter]
    fn value(&self) -> Spec {
        Spec(self.value)
    }

    /// Its merge rule, by the library's name.
    #[getter]
    fn merge_rule(&self) -> &'static str {
        self.table.merge_rule().name()
    }

    /// Its index: "gphash" or "turbohash".
    #[getter]
    fn index(&self) -> &'static str {
        self.table.index().name()
    }

    /// Where it runs, as in `open`.
    #[getter]
    fn device(&self) -> String {
        self.device.as_ref().map_or(DeviceChoice::Cpu, Device::choice).to_string()
    }

    /// Where its store is.
    #[getter]
    fn store_path(&self) -> PathBuf {
        self.origin.path.clone()
    }

    /// Whether its store was opened to be read only.
    #[getter]
    fn read_only(&self) -> bool {
        self.origin.read_only
    }

    /// How many writes this process has done to the table; None while one is under way. As long as the number stays the same, so do the rows.
    #[getter]
    fn write_count(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        self.check_process(py)?;
        Ok(self.writes.mark())
    }

    /// The lock of those who read rows, change and put them: the steps of `warpkeep.torch`. All handles of the table have the same one.
    #[getter]
    fn _step_lock<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.check_process(py)?;
        self.writes.steps(py)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        match self.single(py, false, |table| Ok(table.len()))? {
            // It may be that there is no table any more.
            0 => self.check(py).map(|()| 0),
            len => Ok(len as usize),
        }
    }

    fn __bool__(&self) -> bool {
        true
    }

    fn __repr__(&self) -> String {
        format!(
            "<warpkeep.Table '{}': {} to {}, {} items>",
            self.table.name(),
            Spec(self.key).text(),
            Spec(self.value).text(),
            self.table.len()
        )
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.value_of(py, key)?.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    fn __contains__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<bool> {
        let key = Single::key(key, self.key)?;
        let key = key.as_ref();
        Ok(self.single(py, false, |table| table.get(key))?.is_some())
    }

    fn __setitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        let (key, value) = (Single::key(key, self.key)?, Single::value(value, self.value)?);
        let (key, value) = (key.as_ref(), value.as_ref());
        let _write = self.writes.begin();
        let durability = self.durability;
        self.single(py, self.waits(), |table| table.put(key, value, durability)).map(drop)
    }

    fn __delitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<()> {
        match self.remove(py, key)? {
            true => Ok(()),
            false => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Items> {
        self.keys(py)
    }

    /// The value of a key, or the default.
    #[pyo3(signature = (key, default = None, /))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.value_of(py, key)?.or(default))
    }

    /// Removes a key and gives its value, or the default if it is not there.
    #[pyo3(signature = (key, /, *default))]
    fn pop<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.take(py, key, default)
    }

    /// Removes some key and gives it with its value.
    fn popitem<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        loop {
            let items = Bound::new(py, self.items(py)?)?;
            let Some(pair) = items.try_iter()?.next() else {
                return Err(PyKeyError::new_err("the table is empty"));
            };
            let (key, value) = pair?.extract()?;
            if self.remove(py, &key)? {
                return Ok((key, value));
            }
        }
    }

    /// Stores the value of a key that is not there, and gives the value that the key has then.
    #[pyo3(signature = (key, default, /))]
    fn setdefault<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.value_or_insert(py, key, default)
    }

    /// Removes all keys that are there when it is called.
    fn clear(this: &Bound<'_, Self>) -> PyResult<()> {
        for batch in this.call_method0("scan")?.try_iter()? {
            this.call_method1("delete", (batch?.get_item(0)?,))?;
        }
        Ok(())
    }

    /// Version and value of a key, or None.
    #[pyo3(signature = (key, /))]
    fn get_versioned<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<(u64, Bound<'py, PyAny>)>> {
        let key = Single::key(key, self.key)?;
        let key = key.as_ref();
        match self.single(py, false, |table| table.get_versioned(key))? {
            None => Ok(None),
            Some((version, value)) => Ok(Some((version, to_python(py, self.value, &value)?))),
        }
    }

    /// All keys, in no order.
    fn keys(&self, py: Python<'_>) -> PyResult<Items> {
        Items::new(py, self, Part::Keys)
    }

    /// All values, in no order.
    fn values(&self, py: Python<'_>) -> PyResult<Items> {
        Items::new(py, self, Part::Values)
    }

    /// All keys and values, in no order.
    fn items(&self, py: Python<'_>) -> PyResult<Items> {
        Items::new(py, self, Part::Both)
    }

    /// All keys and values in arrays of about `batch` items.
    #[pyo3(signature = (batch = 65_536))]
    fn scan(&self, py: Python<'_>, batch: usize) -> PyResult<Scan> {
        Scan::new(py, self, batch)
    }

    /// The rows of many keys, and which of them were found.
    #[pyo3(signature = (ids, *, out = None, found = None, versions = None, fill = Fill::Zero, durability = None, stream = None))]
    #[allow(clippy::too_many_arguments, reason = "one for each argument in Python")]
    fn lookup<'py>(
        &self,
        py: Python<'py>,
        ids: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
        found: Option<&Bound<'py, PyAny>>,
        versions: Option<&Bound<'py, PyAny>>,
        fill: Fill<'py>,
        durability: Option<&str>,
        stream: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // A lookup waits for a disk only if that was asked for.
        let durability = durability.map_or(Ok(Durability::Process), durability_of)?;
        let fill = match fill {
            Fill::Zero => Some(0_u64.into_pyobject(py)?.into_any()),
            Fill::With(fill) if fill.is_none() => None,
            Fill::With(fill) => Some(fill),
        };
        let wanted = Wanted { out, found, versions, fill: fill.as_ref() };
        self.lookup_many(py, ids, &wanted, durability, stream)
    }

    /// Reads rows into an array, for `warpkeep.torch`: the statuses, of which none is refused. Rows that are not found stay as they are.
    fn _read<'py>(
        &self,
        py: Python<'py>,
        ids: &Bound<'py, PyAny>,
        out: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.read_many(py, ids, out)
    }

    /// Stores many values, whether the keys are there or not.
    #[pyo3(signature = (ids, values, *, versions = false, durability = None, atomic = false, stream = None))]
    #[allow(clippy::too_many_arguments, reason = "one for each argument in Python")]
    fn put<'py>(
        &self,
        py: Python<'py>,
        ids: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
        versions: bool,
        durability: Option<&str>,
        atomic: bool,
        stream: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let how = How { durability: self.durability(durability)?, atomic };
        self.write_many(py, Op::Put, ids, Some(values), None, versions, how, stream)
    }

    /// Stores the values of keys that are not there.
    #[pyo3(signature = (ids, values, *, versions = false, durability = None, atomic = false, stream = None))]
    #[allow(clippy::too_many_arguments, reason = "one for each argument in Python")]
    fn insert<'py>(
        &self,
        py: Python<'py>,
        ids: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
        versions: bool,
        durability: Option<&str>,
        atomic: bool,
        stream: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let how = How { durability: self.durability(durability)?, atomic };
        self.write_many(py, Op::Insert, ids, Some(values), None, versions, how, stream)
    }

    /// Stores the values of keys that are there. With a mapping, or with pairs, alone: stores all of them, as the update of a dict does.
    #[pyo3(signature = (ids, values = None, *, versions = false, durability = None, atomic = false, stream = None))]
    #[allow(clippy::too_many_arguments, reason = "one for each argument in Python")]
    fn update<'py>(
        &self,
        py: Python<'py>,
        ids: &Bound<'py, PyAny>,
        values: Option<&Bound<'py, PyAny>>,
        versions: bool,
        durability: Option<&str>,
        atomic: bool,
        stream: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let how = How { durability: self.durability(durability)?, atomic };
        if values.is_none() {
            if versions || stream.is_some() {
                return Err(PyTypeError::new_err("versions and stream are for update(ids, values)"));
            }
            self.put_pairs(py, ids, how)?;
            return Ok(py.None().into_bound(py));
        }
        self.write_many(py, Op::Update, ids, values, None, versions, how, stream)
    }

    /// Combines values with the stored ones by the table's merge rule.
    #[pyo3(signature = (ids, values, *, versions = false, durability = None, atomic = false, stream = None))]
    #[allow(clippy::too_many_arguments, reason = "one for each argument in Python")]
    fn merge<'py>(
        &self,
        py: Python<'py>,
        ids: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
        versions: bool,
        durability: Option<&str>,
        atomic: bool,
        stream: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let how = How { durability: self.durability(durability)?, atomic };
        if self.table.merge_rule() == MergeRule::None {
            return Err(PyTypeError::new_err(format!(
                "the table '{}' has no merge rule; create it with one: merge='add'",
                self.table.name()
            )));
        }
        self.write_many(py, Op::Merge, ids, Some(values), None, versions, how, stream)
    }

    /// Adds to the stored values; absent keys start from 0.
    #[pyo3(signature = (ids, values, *, versions = false, durability = None, atomic = false, stream = None))]
    #[allow(clippy::too_many_arguments, reason = "one for each argument in Python")]
    fn add<'py>(
        &self,
        py: Python<'py>,
        ids: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
        versions: bool,
        durability: Option<&str>,
        atomic: bool,
        stream: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self.table.merge_rule() {
            MergeRule::AddF32 | MergeRule::AddF64 | MergeRule::AddU64 => {
                self.merge(py, ids, values, versions, durability, atomic, stream)
            }
            rule => Err(PyTypeError::new_err(format!(
                "the table '{}' has the merge rule {}, which does not add; create it with merge='add'",
                self.table.name(),
                rule.name()
            ))),
        }
    }

    /// Removes keys.
    #[pyo3(signature = (ids, *, versions = false, durability = None, atomic = false, stream = None))]
    #[allow(clippy::too_many_arguments, reason = "one for each argument in Python")]
    fn delete<'py>(
        &self,
        py: Python<'py>,
        ids: &Bound<'py, PyAny>,
        versions: bool,
        durability: Option<&str>,
        atomic: bool,
        stream: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let how = How { durability: self.durability(durability)?, atomic };
        self.write_many(py, Op::Delete, ids, None, None, versions, how, stream)
    }

    /// Stores the values of keys that have these versions: statuses and the versions they have now.
    #[pyo3(signature = (ids, versions, values, *, durability = None, stream = None))]
    fn swap<'py>(
        &self,
        py: Python<'py>,
        ids: &Bound<'py, PyAny>,
        versions: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
        durability: Option<&str>,
        stream: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let how = How { durability: self.durability(durability)?, atomic: false };
        self.write_many(py, Op::CompareAndSwap, ids, Some(values), Some(versions), true, how, stream)
    }

    /// Adds to 8-byte integers, and gives what was there before.
    #[pyo3(signature = (ids, deltas, *, durability = None))]
    fn fetch_add<'py>(
        &self,
        py: Python<'py>,
        ids: &Bound<'py, PyAny>,
        deltas: &Bound<'py, PyAny>,
        durability: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let durability = self.durability(durability)?;
        self.fetch_add_many(py, ids, deltas, durability)
    }

    /// How full it is, in the terms of its index.
    fn stat<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = py.detach(|| self.table.stats()).or_raise(py)?;
        to_dict(py, &stats)
    }

    /// Short texts that programs keep with the table.
    #[getter]
    fn attributes(&self, py: Python<'_>) -> PyResult<std::collections::BTreeMap<String, String>> {
        self.check_process(py)?;
        Ok(py.detach(|| self.table.attributes()))
    }

    /// Sets an attribute, or removes it with None.
    fn set_attribute(&self, py: Python<'_>, name: &str, value: Option<&str>) -> PyResult<()> {
        self.check_process(py)?;
        py.detach(|| self.table.set_attribute(name, value)).or_raise(py)
    }

    /// All items as a `pyarrow.RecordBatchReader` with the columns key and value.
    #[pyo3(signature = (batch = 65_536))]
    fn to_arrow<'py>(this: &Bound<'py, Self>, batch: usize) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("warpkeep.arrow")?.call_method1("to_arrow", (this, batch))
    }

    /// Stores the items of an Arrow table, reader or batch; how many there were.
    #[pyo3(signature = (source, *, key = "key", value = "value", durability = None))]
    fn read_arrow(
        this: &Bound<'_, Self>,
        source: &Bound<'_, PyAny>,
        key: &str,
        value: &str,
        durability: Option<&str>,
    ) -> PyResult<usize> {
        let arguments = (this, source, key, value, durability);
        this.py().import("warpkeep.arrow")?.call_method1("read_arrow", arguments)?.extract()
    }

    /// All items, for libraries that take Arrow's streams.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        this: &Bound<'py, Self>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Table::to_arrow(this, 65_536)?.call_method1("__arrow_c_stream__", (requested_schema,))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let reopen = py.import("warpkeep._reopen")?.getattr("reopen_table")?;
        let (path, image) = self.origin.to_pickle(py, "table")?;
        Ok((reopen, (path, image, self.table.name()).into_pyobject(py)?.into_any()))
    }
}

/// The rows of keys that are not there: zeros, or what the caller says.
pub(crate) enum Fill<'py> {
    /// Zeros.
    Zero,
    /// This number, or None to leave such rows as they are.
    With(Bound<'py, PyAny>),
}

impl<'py> FromPyObject<'_, 'py> for Fill<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Fill<'py>> {
        Ok(Fill::With(object.to_owned()))
    }
}

/// The merge rule of a word; `add`, `max` and `min` are those of the values' elements.
pub(crate) fn merge_rule(word: Option<&str>, value: Spec) -> Result<MergeRule, Error> {
    use crate::dtype::Dtype;
    use crate::spec::Form;
    let element = match value.0 {
        Form::Scalar(dtype) | Form::Row(dtype, _) => dtype,
        Form::Fixed(_) | Form::Bytes(_) => Dtype::U8,
    };
    let refused = |word: &str| {
        Error::Invalid(format!(
            "values of {} have no merge rule '{word}'; add is for f32, f64, u64 and i64, max and min are for u64",
            value.text()
        ))
    };
    match (word, element) {
        (None, _) => Ok(MergeRule::None),
        (Some("add"), Dtype { kind: b'f', size: 4 }) => Ok(MergeRule::AddF32),
        (Some("add"), Dtype { kind: b'f', size: 8 }) => Ok(MergeRule::AddF64),
        (Some("add"), Dtype::U64 | Dtype::I64) => Ok(MergeRule::AddU64),
        (Some("max"), Dtype::U64) => Ok(MergeRule::MaxU64),
        (Some("min"), Dtype::U64) => Ok(MergeRule::MinU64),
        (Some(word @ ("add" | "max" | "min")), _) => Err(refused(word)),
        (Some(word), _) => word.parse().map_err(Error::Core),
    }
}
