//! The elements of arrays.

use std::fmt;

use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// The type of an array's elements, in NumPy's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dtype {
    /// NumPy's kind: `u`, `i`, `f`, `b` (bool), `S` or `V` (bytes).
    pub(crate) kind: u8,
    /// Bytes of an element.
    pub(crate) size: usize,
}

/// The elements that rows may have: name in a spec, NumPy's name, kind, size.
const NAMES: [(&str, &str, u8, usize); 11] = [
    ("u8", "uint8", b'u', 1),
    ("i8", "int8", b'i', 1),
    ("u16", "uint16", b'u', 2),
    ("i16", "int16", b'i', 2),
    ("u32", "uint32", b'u', 4),
    ("i32", "int32", b'i', 4),
    ("u64", "uint64", b'u', 8),
    ("i64", "int64", b'i', 8),
    ("f16", "float16", b'f', 2),
    ("f32", "float32", b'f', 4),
    ("f64", "float64", b'f', 8),
];

impl Dtype {
    pub(crate) const U8: Dtype = Dtype { kind: b'u', size: 1 };
    pub(crate) const U64: Dtype = Dtype { kind: b'u', size: 8 };
    pub(crate) const I64: Dtype = Dtype { kind: b'i', size: 8 };
    pub(crate) const BOOL: Dtype = Dtype { kind: b'b', size: 1 };

    /// The element of this name: `f32` or `float32`, or what NumPy makes a dtype of.
    pub(crate) fn named(name: &Bound<'_, PyAny>) -> PyResult<Dtype> {
        if let Ok(text) = name.extract::<String>()
            && let Some(&(_, _, kind, size)) =
                NAMES.iter().find(|(short, long, ..)| *short == text || *long == text)
        {
            return Ok(Dtype { kind, size });
        }
        let unknown = || {
            let known: Vec<&str> = NAMES.iter().map(|(short, ..)| *short).collect();
            PyValueError::new_err(format!("{name} is no element of rows; write one of {}", known.join(", ")))
        };
        let descr = PyArrayDescr::new(name.py(), name).map_err(|_| unknown())?;
        let dtype = Dtype::of(&descr)?;
        dtype.short().map(|_| dtype).ok_or_else(unknown)
    }

    /// The element of this name in a spec.
    pub(crate) fn short_named(name: &str) -> Option<Dtype> {
        let &(_, _, kind, size) = NAMES.iter().find(|(short, ..)| *short == name)?;
        Some(Dtype { kind, size })
    }

    /// The element of a NumPy array.
    pub(crate) fn of(descr: &Bound<'_, PyArrayDescr>) -> PyResult<Dtype> {
        if descr.is_native_byteorder() == Some(false) {
            return Err(PyTypeError::new_err(
                "the array has the other byte order; convert it: array.astype(array.dtype.newbyteorder('='))",
            ));
        }
        Ok(Dtype { kind: descr.kind(), size: descr.itemsize() })
    }

    /// The element of a DLPack tensor; `None` if this package has no name for it.
    pub(crate) fn of_dlpack(code: u8, bits: u8, lanes: u16) -> Option<Dtype> {
        let kind = match (code, lanes) {
            (0, 1) => b'i',
            (1, 1) => b'u',
            (2, 1) => b'f',
            (6, 1) => b'b',
            _ => return None,
        };
        Some(Dtype { kind, size: usize::from(bits) / 8 })
    }

    /// The name in a spec, if rows may have it.
    pub(crate) fn short(self) -> Option<&'static str> {
        NAMES
            .iter()
            .find(|(.., kind, size)| (*kind, *size) == (self.kind, self.size))
            .map(|(short, ..)| *short)
    }

    /// NumPy's name.
    pub(crate) fn long(self) -> String {
        match NAMES.iter().find(|(.., kind, size)| (*kind, *size) == (self.kind, self.size)) {
            Some((_, long, ..)) => (*long).to_owned(),
            None if self == Dtype::BOOL => "bool".to_owned(),
            None => format!("{}{}", self.kind as char, self.size),
        }
    }

    /// NumPy's dtype.
    pub(crate) fn descr(self, py: Python<'_>) -> PyResult<Bound<'_, PyArrayDescr>> {
        match (self.kind, self.size) {
            (b'f', 4) => Ok(PyArrayDescr::of::<f32>(py)),
            (b'f', 8) => Ok(PyArrayDescr::of::<f64>(py)),
            (b'u', 1) => Ok(PyArrayDescr::of::<u8>(py)),
            (b'u', 8) => Ok(PyArrayDescr::of::<u64>(py)),
            (b'i', 8) => Ok(PyArrayDescr::of::<i64>(py)),
            (b'b', 1) => Ok(PyArrayDescr::of::<bool>(py)),
            _ => PyArrayDescr::new(py, self.long()),
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.long())
    }
}
