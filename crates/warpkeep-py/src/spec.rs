//! What a table's keys and values are, in Python's terms.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use warpkeep::{KeySpec, ValueSpec};

use crate::dtype::Dtype;
use crate::errors::OrRaise;

/// The form of keys or values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// One number.
    Scalar(Dtype),
    /// Numbers of one kind, always as many.
    Row(Dtype, usize),
    /// Bytes of one length.
    Fixed(usize),
    /// Bytes of any length up to a limit.
    Bytes(usize),
}

/// What a table's keys or values are. Made by `u64`, `row`, `fixed`, `var` and the other names of the package.
#[pyclass(frozen, eq, from_py_object, module = "warpkeep")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spec(pub(crate) Form);

#[pymethods]
impl Spec {
    fn __repr__(&self) -> String {
        self.text()
    }

    fn __hash__(&self) -> u64 {
        // Few specs exist in a program, so a plain sum of their bytes will do.
        self.text().bytes().fold(17_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((py.import("warpkeep._native")?.getattr("spec_from_text")?, (self.text(),)))
    }

    /// Bytes of a key or value; the longest if they differ.
    #[getter]
    fn nbytes(&self) -> usize {
        self.0.len()
    }

    /// The NumPy dtype of the elements, or None for bytes.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.0 {
            Form::Scalar(dtype) | Form::Row(dtype, _) => Ok(Some(dtype.descr(py)?.into_any())),
            Form::Fixed(_) | Form::Bytes(_) => Ok(None),
        }
    }

    /// How many elements a row has; None if it is no row.
    #[getter]
    fn width(&self) -> Option<usize> {
        match self.0 {
            Form::Row(_, width) => Some(width),
            _ => None,
        }
    }
}

impl Spec {
    /// As it is kept with a table.
    pub(crate) fn text(self) -> String {
        match self.0 {
            Form::Scalar(dtype) => dtype.short().unwrap_or("?").to_owned(),
            Form::Row(dtype, width) => format!("{}x{width}", dtype.short().unwrap_or("?")),
            Form::Fixed(len) => format!("fixed:{len}"),
            Form::Bytes(max) => format!("var:{max}"),
        }
    }

    fn parse(text: &str) -> Option<Form> {
        if let Some(len) = text.strip_prefix("fixed:") {
            return len.parse().ok().map(Form::Fixed);
        }
        if let Some(max) = text.strip_prefix("var:") {
            return max.parse().ok().map(Form::Bytes);
        }
        let (name, width) = match text.split_once('x') {
            Some((name, width)) => (name, Some(width.parse().ok()?)),
            None => (text, None),
        };
        let dtype = Dtype::short_named(name)?;
        Some(width.map_or(Form::Scalar(dtype), |width| Form::Row(dtype, width)))
    }

    /// The spec of a text, if it is one.
    pub(crate) fn from_text(text: &str) -> Option<Spec> {
        Spec::parse(text).map(Spec)
    }

    /// As a key of the library.
    pub(crate) fn key(self, py: Python<'_>) -> PyResult<KeySpec> {
        let bytes = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        match self.0 {
            Form::Scalar(Dtype::U64 | Dtype::I64) => Ok(KeySpec::U64),
            Form::Fixed(len) => KeySpec::fixed(bytes(len)).map_err(warpkeep::Error::Core).or_raise(py),
            Form::Bytes(max) => KeySpec::variable(bytes(max)).map_err(warpkeep::Error::Core).or_raise(py),
            _ => Err(PyTypeError::new_err(format!(
                "{} cannot be keys; use u64, i64, fixed(n) or var(max)",
                self.text()
            ))),
        }
    }

    /// As a value of the library.
    pub(crate) fn value(self, py: Python<'_>) -> PyResult<ValueSpec> {
        let bytes = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let spec = match self.0 {
            Form::Bytes(max) => ValueSpec::variable(bytes(max)),
            form => ValueSpec::fixed(bytes(form.len())),
        };
        spec.map_err(warpkeep::Error::Core).or_raise(py)
    }

    /// The keys of a table that was not made by this package.
    pub(crate) fn of_key(spec: KeySpec) -> Spec {
        Spec(match spec {
            KeySpec::U64 => Form::Scalar(Dtype::U64),
            spec => spec.fixed_len().map_or(Form::Bytes(spec.max_len()), Form::Fixed),
        })
    }

    /// The values of a table that was not made by this package.
    pub(crate) fn of_value(spec: ValueSpec) -> Spec {
        Spec(spec.fixed_len().map_or(Form::Bytes(spec.max_len()), Form::Fixed))
    }
}

impl Form {
    /// Bytes; the most, if they differ.
    pub(crate) fn len(self) -> usize {
        match self {
            Form::Scalar(dtype) => dtype.size,
            Form::Row(dtype, width) => dtype.size.saturating_mul(width),
            Form::Fixed(len) | Form::Bytes(len) => len,
        }
    }

    /// Bytes of each, if all have one length.
    pub(crate) fn fixed_len(self) -> Option<usize> {
        match self {
            Form::Bytes(_) => None,
            form => Some(form.len()),
        }
    }
}

/// Rows of `width` numbers.
#[pyfunction]
pub(crate) fn row(dtype: &Bound<'_, PyAny>, width: usize) -> PyResult<Spec> {
    let dtype = Dtype::named(dtype)?;
    if width == 0 || width.saturating_mul(dtype.size) > ValueSpec::MAX as usize {
        return Err(PyValueError::new_err(format!(
            "a row of {width} {dtype} is outside the limits; values have 1 to {} bytes",
            ValueSpec::MAX
        )));
    }
    Ok(Spec(Form::Row(dtype, width)))
}

/// One number.
#[pyfunction]
pub(crate) fn scalar(dtype: &Bound<'_, PyAny>) -> PyResult<Spec> {
    Dtype::named(dtype).map(|dtype| Spec(Form::Scalar(dtype)))
}

/// Bytes of one length.
#[pyfunction]
pub(crate) fn fixed(nbytes: usize) -> Spec {
    Spec(Form::Fixed(nbytes))
}

/// Bytes of any length up to a limit.
#[pyfunction]
#[pyo3(signature = (max = 1024))]
pub(crate) fn var(max: usize) -> Spec {
    Spec(Form::Bytes(max))
}

/// The spec of its text, for pickle.
#[pyfunction]
pub(crate) fn spec_from_text(text: &str) -> PyResult<Spec> {
    Spec::from_text(text).ok_or_else(|| PyValueError::new_err(format!("'{text}' is no spec")))
}
