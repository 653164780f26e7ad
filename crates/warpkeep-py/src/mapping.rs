//! What a table has of Python's mappings beside single keys.

use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use warpkeep::rows::{Cells, Column, Columns, Ops};
use warpkeep::{Inserted, Op};

use crate::batch::{How, as_statuses, raise_first_error};
use crate::cells::{Single, to_python};
use crate::spec::Form;
use crate::table::Table;

/// Keys, or values, of a batch, one behind the other.
struct Gathered {
    form: Form,
    offsets: Vec<u64>,
    bytes: Vec<u8>,
}

impl Gathered {
    fn new(form: Form) -> Gathered {
        Gathered { form, offsets: vec![0], bytes: Vec::new() }
    }

    fn push(&mut self, cell: &Single) {
        self.bytes.extend_from_slice(cell.as_ref());
        self.offsets.push(self.bytes.len() as u64);
    }

    fn cells(&self) -> Cells<'_> {
        match self.form {
            // Bytes of one length may have another one here, which the batch refuses.
            Form::Bytes(_) | Form::Fixed(_) => Cells::variable(&self.offsets, &self.bytes),
            form => Cells::Fixed { len: form.len(), bytes: Column::Host(&self.bytes) },
        }
    }
}

/// The pairs of a mapping, or of an iterable of pairs.
fn pairs_of<'py>(object: &Bound<'py, PyAny>) -> PyResult<Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
    let refused =
        || PyTypeError::new_err("give update(ids, values), a mapping, or pairs of a key and a value");
    if object.hasattr("keys")? {
        let keys = object.call_method0("keys")?;
        return keys
            .try_iter()?
            .map(|key| {
                let key = key?;
                let value = object.get_item(&key)?;
                Ok((key, value))
            })
            .collect();
    }
    object
        .try_iter()
        .map_err(|_| refused())?
        .map(|pair| {
            let parts = pair?.try_iter().map_err(|_| refused())?.collect::<PyResult<Vec<_>>>()?;
            <[_; 2]>::try_from(parts).map(Into::into).map_err(|_| refused())
        })
        .collect()
}

impl Table {
    /// Stores pairs as single keys are stored, in one batch.
    pub(crate) fn put_pairs(&self, py: Python<'_>, object: &Bound<'_, PyAny>, how: How) -> PyResult<()> {
        self.check_process(py)?;
        let (mut keys, mut values) = (Gathered::new(self.key), Gathered::new(self.value));
        for (key, value) in pairs_of(object)? {
            keys.push(&Single::key(&key, self.key)?);
            values.push(&Single::value(&value, self.value)?);
        }
        let mut codes = vec![0_u8; keys.offsets.len() - 1];
        // SAFETY: the codes are statuses until the batch is done.
        let statuses = unsafe { as_statuses(&mut codes) };
        let columns = Columns {
            ops: Ops::Uniform(Op::Put),
            keys: keys.cells(),
            values: values.cells(),
            arguments: None,
        };
        let answers = crate::batch::HostAnswers { statuses, versions: None, values: None };
        self.run_host(py, columns, how, answers)?;
        raise_first_error(py, Op::Put, &codes)
    }

    /// Removes a key: its value, or the default.
    pub(crate) fn take<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if default.len() > 1 {
            return Err(PyTypeError::new_err("pop takes a key and at most one default"));
        }
        while let Some(value) = self.value_of(py, key)? {
            // If another thread has removed the key meanwhile, the value is that thread's.
            if self.remove(py, key)? {
                return Ok(value);
            }
        }
        match default.is_empty() {
            true => Err(PyKeyError::new_err(key.clone().unbind())),
            false => default.get_item(0),
        }
    }

    /// Stores the value of a key that is not there: the value that the key has then.
    pub(crate) fn value_or_insert<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (cell, own) = (Single::key(key, self.key)?, Single::value(value, self.value)?);
        let (cell, own) = (cell.as_ref(), own.as_ref());
        loop {
            if let Some(value) = self.value_of(py, key)? {
                return Ok(value);
            }
            let durability = self.durability;
            let _write = self.writes.begin();
            let inserted = self.single(py, self.waits(), |table| table.insert(cell, own, durability))?;
            if let Inserted::New(_) = inserted {
                return to_python(py, self.value, own);
            }
        }
    }
}
