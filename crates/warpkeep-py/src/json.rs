//! Reports of the library as dictionaries.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;

/// A report as a dictionary.
pub(crate) fn to_dict<'py>(py: Python<'py>, report: &impl Serialize) -> PyResult<Bound<'py, PyDict>> {
    let text = serde_json::to_string(report)
        .map_err(|error| PyRuntimeError::new_err(format!("the report cannot be written: {error}")))?;
    Ok(py.import("json")?.call_method1("loads", (text,))?.cast_into::<PyDict>()?)
}
