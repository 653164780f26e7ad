//! Going through all items of a table, in arrays or one by one.

use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use warpkeep::{Error, ScanPosition, Still};

use crate::cells::{shape_of, to_numpy, to_python};
use crate::errors::{OrRaise, check_process};
use crate::spec::Form;
use crate::table::Table;

/// Items that iteration over single ones takes from the table at once.
const SOME: usize = 1024;

/// Keys, or values, that a scan has met.
#[derive(Default)]
struct Column {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Column {
    fn push(&mut self, cell: &[u8]) {
        self.bytes.extend_from_slice(cell);
        self.ends.push(self.bytes.len());
    }

    fn cell(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }

    fn to_python<'py>(&self, py: Python<'py>, form: Form) -> PyResult<Bound<'py, PyAny>> {
        if let Form::Bytes(_) = form {
            let cells = (0..self.ends.len()).map(|index| PyBytes::new(py, self.cell(index)));
            return Ok(PyList::new(py, cells.collect::<Vec<_>>())?.into_any());
        }
        let (dtype, shape) = shape_of(form, self.ends.len());
        to_numpy(py, dtype, &shape, &self.bytes)
    }
}

/// A scan in progress.
struct Walk {
    position: ScanPosition,
    more: bool,
    /// So that items stay where they are.
    still: Option<Still>,
}

impl Walk {
    fn new(py: Python<'_>, table: &Table) -> PyResult<Walk> {
        table.check(py)?;
        let still = py.detach(|| {
            // Growth that is due would move items, and make the scan start over.
            while table.table.maintain()? {}
            Ok::<_, Error>(table.table.hold_still())
        });
        Ok(Walk { position: ScanPosition::default(), more: true, still: Some(still.or_raise(py)?) })
    }

    /// The next items, about `wanted` of them; none at the end.
    fn next(&mut self, table: &warpkeep::Table, wanted: usize) -> Result<(Column, Column), Error> {
        let (mut keys, mut values) = (Column::default(), Column::default());
        while self.more && keys.ends.len() < wanted {
            self.more = table.scan_some(&mut self.position, |item| {
                keys.push(item.key);
                values.push(item.value);
            })?;
        }
        if !self.more {
            self.still = None;
        }
        Ok((keys, values))
    }
}

/// All items of a table, in arrays.
#[pyclass(frozen, module = "warpkeep")]
pub(crate) struct Scan {
    table: warpkeep::Table,
    forms: (Form, Form),
    batch: usize,
    pid: u32,
    walk: Mutex<Walk>,
}

impl Scan {
    pub(crate) fn new(py: Python<'_>, table: &Table, batch: usize) -> PyResult<Scan> {
        if batch == 0 {
            return Err(PyValueError::new_err("batch is 0; give how many items an array shall have"));
        }
        let walk = Mutex::new(Walk::new(py, table)?);
        let (table, forms, pid) = (table.table.clone(), (table.key, table.value), table.origin.pid);
        Ok(Scan { table, forms, batch, pid, walk })
    }
}

#[pymethods]
impl Scan {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
        check_process(py, self.pid)?;
        let (keys, values) = py
            .detach(|| {
                let mut walk = self.walk.lock().unwrap_or_else(PoisonError::into_inner);
                walk.next(&self.table, self.batch)
            })
            .or_raise(py)?;
        if keys.ends.is_empty() {
            return Ok(None);
        }
        Ok(Some((keys.to_python(py, self.forms.0)?, values.to_python(py, self.forms.1)?)))
    }
}

/// What iteration gives.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    /// Keys.
    Keys,
    /// Values.
    Values,
    /// Pairs of both.
    Both,
}

/// All items of a table, one by one.
#[pyclass(frozen, module = "warpkeep")]
pub(crate) struct Items {
    table: warpkeep::Table,
    forms: (Form, Form),
    part: Part,
    pid: u32,
    state: Mutex<State>,
}

/// Key and value.
type Pair = (Vec<u8>, Vec<u8>);

struct State {
    walk: Walk,
    keys: Column,
    values: Column,
    next: usize,
}

impl State {
    /// The next item.
    fn next(&mut self, table: &warpkeep::Table) -> Result<Option<Pair>, Error> {
        if self.next == self.keys.ends.len() {
            (self.keys, self.values) = self.walk.next(table, SOME)?;
            self.next = 0;
        }
        if self.keys.ends.is_empty() {
            return Ok(None);
        }
        let index = self.next;
        self.next += 1;
        Ok(Some((self.keys.cell(index).to_vec(), self.values.cell(index).to_vec())))
    }
}

impl Items {
    pub(crate) fn new(py: Python<'_>, table: &Table, part: Part) -> PyResult<Items> {
        let walk = Walk::new(py, table)?;
        let state = State { walk, keys: Column::default(), values: Column::default(), next: 0 };
        let (table, forms, pid) = (table.table.clone(), (table.key, table.value), table.origin.pid);
        Ok(Items { table, forms, part, pid, state: Mutex::new(state) })
    }
}

#[pymethods]
impl Items {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        check_process(py, self.pid)?;
        let next = {
            // No Python runs while the lock is held, so no holder of it waits for the GIL.
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.next(&self.table)
        };
        let Some((key, value)) = next.or_raise(py)? else { return Ok(None) };
        let (key, value) = (|| to_python(py, self.forms.0, &key), || to_python(py, self.forms.1, &value));
        match self.part {
            Part::Keys => key().map(Some),
            Part::Values => value().map(Some),
            Part::Both => Ok(Some((key()?, value()?).into_pyobject(py)?.into_any())),
        }
    }
}
