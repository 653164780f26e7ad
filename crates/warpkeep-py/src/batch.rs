//! Batches over the caller's arrays.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyList};
use warpkeep::rows::{BatchView, Cells, Column, ColumnMut, Columns, Ops, Output, OutputValues};
use warpkeep::{Durability, Error, Op, Results, Status};

use crate::array::{Array, Place};
use crate::cells::{Given, shape_of};
use crate::dtype::Dtype;
use crate::errors::{OrRaise, batch_raised};
use crate::library::{self, Library};
use crate::recorder;
use crate::spec::Form;
use crate::table::Table;

/// The first status that is an error.
pub(crate) const FIRST_ERROR: u8 = 0x30;

/// What a caller said about the durability of a call.
pub(crate) fn durability_of(word: &str) -> PyResult<Durability> {
    match word {
        "process" => Ok(Durability::Process),
        "power" => Ok(Durability::Power),
        other => Err(PyValueError::new_err(format!(
            "'{other}' is no durability; write 'process' (survives the process) or 'power' (survives the machine)"
        ))),
    }
}

/// Bytes of zeros as pending statuses.
///
/// # Safety
/// Each byte stays a status until the slice is no longer used.
pub(crate) unsafe fn as_statuses(bytes: &mut [u8]) -> &mut [Status] {
    bytes.fill(Status::Pending.code());
    // SAFETY: a status is a byte, and 0 is one.
    unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len()) }
}

/// Aligned bytes as numbers.
///
/// # Safety
/// The bytes were checked to be a column of 64-bit numbers.
unsafe fn as_numbers(bytes: &mut [u8]) -> &mut [u64] {
    if bytes.is_empty() {
        return &mut [];
    }
    // SAFETY: the address is aligned, and every byte pattern is a number.
    unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len() / 8) }
}

/// The same, to be read only.
///
/// # Safety
/// As of [`as_numbers`].
pub(crate) unsafe fn as_numbers_given(bytes: &[u8]) -> &[u64] {
    if bytes.is_empty() {
        return &[];
    }
    // SAFETY: the address is aligned, and every byte pattern is a number.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / 8) }
}

/// The answers of a batch, as the caller wants them.
pub(crate) struct Wanted<'a, 'py> {
    pub(crate) out: Option<&'a Bound<'py, PyAny>>,
    pub(crate) found: Option<&'a Bound<'py, PyAny>>,
    pub(crate) versions: Option<&'a Bound<'py, PyAny>>,
    pub(crate) fill: Option<&'a Bound<'py, PyAny>>,
}

/// An array for answers: the caller's, or a new one.
pub(crate) struct Target<'py> {
    pub(crate) array: Array<'py>,
    /// Whether the caller gave it.
    pub(crate) given: bool,
}

impl<'py> Target<'py> {
    pub(crate) fn new(
        py: Python<'py>,
        what: &'static str,
        dtype: Dtype,
        shape: &[usize],
    ) -> PyResult<Target<'py>> {
        let array = Array::of(library::empty(py, dtype, shape)?.as_any(), what, None)?;
        Ok(Target { array, given: false })
    }

    /// The answer for the caller: its own array, or a new one in its library.
    pub(crate) fn into_answer(self, library: Library) -> PyResult<Bound<'py, PyAny>> {
        match self.given {
            true => Ok(self.array.object),
            false => library.wrap(self.array.object),
        }
    }
}

/// Where versions go: nowhere, to a new array, or to the caller's.
fn versions_target<'py>(
    py: Python<'py>,
    versions: Option<&Bound<'py, PyAny>>,
    count: usize,
) -> PyResult<Option<Target<'py>>> {
    let Some(versions) = versions else { return Ok(None) };
    if let Ok(wanted) = versions.cast::<PyBool>() {
        let wanted = wanted.is_true();
        return wanted.then(|| Target::new(py, "versions", Dtype::U64, &[count])).transpose();
    }
    let array = Array::of(versions, "versions", None)?;
    array.check_host()?;
    array.column(&[Dtype::U64, Dtype::I64], count)?;
    array.check_writable()?;
    Ok(Some(Target { array, given: true }))
}

impl Table {
    /// A batch in host memory. The GIL is released meanwhile.
    pub(crate) fn run_host(
        &self,
        py: Python<'_>,
        columns: Columns<'_>,
        how: How,
        answers: HostAnswers<'_>,
    ) -> PyResult<()> {
        let table = &self.table;
        let _write = (!matches!(columns.ops, Ops::Uniform(Op::Get))).then(|| self.writes.begin());
        py.detach(move || {
            let batch = BatchView::new(table.key_spec(), table.value_spec(), columns)?;
            let HostAnswers { statuses, versions, values } = answers;
            let values = match values {
                None => OutputValues::None,
                Some((len, bytes)) => OutputValues::Rows { len, bytes: ColumnMut::Host(bytes) },
            };
            let output =
                Output::new(&batch, ColumnMut::Host(statuses), versions.map(ColumnMut::Host), values)?;
            let mut output = output
                .into_host()
                .ok_or_else(|| Error::Invalid("the answers are not in host memory".into()))?;
            let done = match how.atomic {
                true => table.run_as_one(&batch, how.durability, &mut output),
                false => table.run_into(&batch, how.durability, &mut output),
            };
            recorder::note_call();
            done
        })
        .or_raise(py)
    }

    /// Gets of many keys.
    pub(crate) fn lookup_many<'py>(
        &self,
        py: Python<'py>,
        ids: &Bound<'py, PyAny>,
        wanted: &Wanted<'_, 'py>,
        durability: Durability,
        stream: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.check_process(py)?;
        let (keys, count) = Given::of(ids, "ids", self.key, stream)?;
        if let Place::Device(number) = keys.place() {
            return self.lookup_on_device(py, &keys, count, wanted, durability, number, stream);
        }
        if let Form::Bytes(_) = self.value {
            return self.lookup_bytes(py, (&keys, count), wanted, durability);
        }
        let library = keys.array().map_or(Library::NumPy, |array| array.library);
        let row = self.value.len();
        let out = self.rows_target(py, wanted.out, count)?;
        let found = match wanted.found {
            Some(found) => {
                let array = Array::of(found, "found", None)?;
                array.check_host()?;
                array.column(&[Dtype::BOOL, Dtype::U8], count)?;
                array.check_writable()?;
                Target { array, given: true }
            }
            None => Target::new(py, "found", Dtype::BOOL, &[count])?,
        };
        let versions = versions_target(py, wanted.versions, count)?;
        // Before anything is written, so that a number that is none leaves the arrays as they were.
        let pattern = fill_pattern(py, wanted.fill, self.value)?;
        let versions_array = versions.as_ref().map(|target| &target.array);
        check_apart(&all_of(&keys, &out, &found, versions_array))?;
        let done = self.get_host(py, &keys, &out, &found, versions.as_ref(), durability);

        // SAFETY: the batch is done, and its slices are no longer used.
        let (values, statuses) = unsafe { (out.array.bytes_mut(), found.array.bytes_mut()) };
        let done = done.and_then(|()| raise_first_error(py, Op::Get, statuses));
        // Also if it failed: an array of flags must not keep statuses, which are no flags.
        py.detach(|| finish(statuses, values, row, pattern.as_deref()));
        done?;
        let rows = out.into_answer(library)?;
        let found = found.into_answer(library)?;
        answer(py, rows, found, versions, library)
    }

    /// Gets of many keys into rows of the caller: their statuses, whatever they are. Rows that are not found stay as they are.
    pub(crate) fn read_many<'py>(
        &self,
        py: Python<'py>,
        ids: &Bound<'py, PyAny>,
        out: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.check_process(py)?;
        let (keys, count) = Given::of(ids, "ids", self.key, None)?;
        if let Place::Device(number) = keys.place() {
            let out = Some(out);
            let (_, statuses) =
                self.read_on_device(py, &keys, count, out, Durability::Process, number, None)?;
            return Ok(statuses.object);
        }
        let out = self.rows_target(py, Some(out), count)?;
        let statuses = Target::new(py, "statuses", Dtype::U8, &[count])?;
        check_apart(&all_of(&keys, &out, &statuses, None))?;
        self.get_host(py, &keys, &out, &statuses, None, Durability::Process)?;
        statuses.into_answer(keys.array().map_or(Library::NumPy, |array| array.library))
    }

    /// Where the rows of a lookup go: to the caller's array, or to a new one.
    fn rows_target<'py>(
        &self,
        py: Python<'py>,
        out: Option<&Bound<'py, PyAny>>,
        count: usize,
    ) -> PyResult<Target<'py>> {
        let Some(out) = out else {
            let (dtype, shape) = shape_of(self.value, count);
            return Target::new(py, "out", dtype, &shape);
        };
        let array = Array::of(out, "out", None)?;
        array.check_host()?;
        check_count(&array, array.cells(self.value)?, count)?;
        array.check_writable()?;
        Ok(Target { array, given: true })
    }

    /// Gets in host memory; the arrays were checked to share none. `found` holds statuses when it returns, also if it fails.
    fn get_host(
        &self,
        py: Python<'_>,
        keys: &Given<'_>,
        out: &Target<'_>,
        found: &Target<'_>,
        versions: Option<&Target<'_>>,
        durability: Durability,
    ) -> PyResult<()> {
        // SAFETY: the arrays are contiguous, writable and, as the caller has checked, share no memory, so each slice is the only one of its memory; the caller reads
        // `found` as bytes.
        let (values, statuses, numbers) = unsafe {
            let numbers = versions.map(|target| as_numbers(target.array.bytes_mut()));
            (out.array.bytes_mut(), as_statuses(found.array.bytes_mut()), numbers)
        };
        let answers = HostAnswers { statuses, versions: numbers, values: Some((self.value.len(), values)) };
        // SAFETY: only the arrays for answers are written to, and they share no memory with the keys.
        let columns = Columns::keys_only(Op::Get, unsafe { keys.cells(self.key) });
        self.run_host(py, columns, How { durability, atomic: false }, answers)
    }

    /// Gets of values of any length.
    fn lookup_bytes<'py>(
        &self,
        py: Python<'py>,
        (keys, count): (&Given<'py>, usize),
        wanted: &Wanted<'_, 'py>,
        durability: Durability,
    ) -> PyResult<Bound<'py, PyAny>> {
        if wanted.out.is_some() || wanted.found.is_some() {
            return Err(PyTypeError::new_err(
                "values of any length come back as a list of bytes; leave out= and found= away",
            ));
        }
        let versions = versions_target(py, wanted.versions, count)?;
        if let (Some(target), Some(keys)) = (&versions, keys.array()) {
            check_apart(&[&target.array, keys])?;
        }
        // SAFETY: this call writes to no array of the caller before the batch is done.
        let columns = Columns::keys_only(Op::Get, unsafe { keys.cells(self.key) });
        let table = &self.table;
        let results = py
            .detach(move || {
                let batch = BatchView::new(table.key_spec(), table.value_spec(), columns)?;
                let mut results = Results::new(&batch);
                let done = table.run_into(&batch, durability, &mut results);
                recorder::note_call();
                done.map(|()| results)
            })
            .or_raise(py)?;
        let codes: Vec<u8> = results.statuses().iter().map(|status| status.code()).collect();
        raise_first_error(py, Op::Get, &codes)?;
        let values = (0..results.len())
            .map(|index| results.value(index).map(|value| PyBytes::new(py, value)))
            .collect::<Vec<_>>();
        let values = PyList::new(py, values)?.into_any();
        let found: Vec<u8> = codes.iter().map(|code| u8::from(code >> 4 == 1)).collect();
        let found = crate::cells::to_numpy(py, Dtype::BOOL, &[found.len()], &found)?;
        if let Some(target) = &versions {
            // SAFETY: a column of numbers in host memory, which nothing else of this package refers to.
            unsafe { as_numbers(target.array.bytes_mut()) }.copy_from_slice(results.versions());
        }
        answer(py, values, found, versions, Library::NumPy)
    }

    /// Writes of many keys: statuses, with versions if they are wanted.
    #[allow(clippy::too_many_arguments, reason = "one for each column of a batch")]
    pub(crate) fn write_many<'py>(
        &self,
        py: Python<'py>,
        op: Op,
        ids: &Bound<'py, PyAny>,
        values: Option<&Bound<'py, PyAny>>,
        arguments: Option<&Bound<'py, PyAny>>,
        versions: bool,
        how: How,
        stream: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.check_process(py)?;
        let (keys, count) = Given::of(ids, "ids", self.key, stream)?;
        let values = match values {
            None => None,
            Some(values) => {
                let (values, found) = Given::of(values, "values", self.value, keys.stream().or(stream))?;
                if found != count {
                    return Err(PyValueError::new_err(format!(
                        "{found} values for {count} ids; give one value for each id"
                    )));
                }
                Some(values)
            }
        };
        let arguments = match arguments {
            None => None,
            Some(arguments) => {
                let array = Array::of(arguments, "versions", keys.stream().or(stream))?;
                array.column(&[Dtype::U64, Dtype::I64], count)?;
                Some(array)
            }
        };
        if let Place::Device(number) = keys.place() {
            let columns = (op, &keys, values.as_ref(), arguments.as_ref());
            if how.atomic {
                return Err(PyTypeError::new_err(
                    "atomic=True is for arrays in host memory; copy them: ids.cpu()",
                ));
            }
            return self.write_on_device(py, columns, count, versions, how.durability, number, stream);
        }
        values.as_ref().and_then(Given::array).map_or(Ok(()), Array::check_host)?;
        arguments.as_ref().map_or(Ok(()), Array::check_host)?;
        let library = keys.array().map_or(Library::NumPy, |array| array.library);
        let statuses = Target::new(py, "statuses", Dtype::U8, &[count])?;
        let numbers = versions.then(|| Target::new(py, "versions", Dtype::U64, &[count])).transpose()?;

        // SAFETY: the arrays for answers are new, so nothing else refers to them; nothing writes to the others.
        let (answers, columns) = unsafe {
            let answers = HostAnswers {
                statuses: as_statuses(statuses.array.bytes_mut()),
                versions: numbers.as_ref().map(|target| as_numbers(target.array.bytes_mut())),
                values: None,
            };
            let columns = Columns {
                ops: Ops::Uniform(op),
                keys: keys.cells(self.key),
                values: values.as_ref().map_or(Cells::Empty, |values| values.cells(self.value)),
                arguments: arguments.as_ref().map(|array| Column::Host(as_numbers_given(array.bytes()))),
            };
            (answers, columns)
        };
        self.run_host(py, columns, how, answers)?;
        // SAFETY: the batch is done, and its slices are no longer used.
        raise_first_error(py, op, unsafe { statuses.array.bytes() })?;
        let statuses = statuses.into_answer(library)?;
        match numbers {
            None => Ok(statuses),
            Some(versions) => Ok((statuses, versions.into_answer(library)?).into_pyobject(py)?.into_any()),
        }
    }

    /// Adds to 8-byte values, and gives what was there before.
    pub(crate) fn fetch_add_many<'py>(
        &self,
        py: Python<'py>,
        ids: &Bound<'py, PyAny>,
        deltas: &Bound<'py, PyAny>,
        durability: Durability,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.check_process(py)?;
        let (keys, count) = Given::of(ids, "ids", self.key, None)?;
        let deltas = Array::of(deltas, "deltas", None)?;
        deltas.column(&[Dtype::U64, Dtype::I64], count)?;
        deltas.check_host()?;
        keys.array().map_or(Ok(()), Array::check_host)?;
        let dtype = match self.value {
            Form::Scalar(dtype @ (Dtype::U64 | Dtype::I64)) => dtype,
            Form::Fixed(8) => Dtype::U64,
            _ => {
                return Err(PyTypeError::new_err(
                    "fetch_add works on 8-byte integers: u64, i64 or fixed(8); use add for other numbers",
                ));
            }
        };
        let library = keys.array().map_or(Library::NumPy, |array| array.library);
        let before = Target::new(py, "before", dtype, &[count])?;
        let mut codes = vec![0_u8; count];
        // SAFETY: the array for answers is new, so nothing else refers to it; nothing writes to the others.
        let (answers, columns) = unsafe {
            let before = before.array.bytes_mut();
            before.fill(0);
            let answers =
                HostAnswers { statuses: as_statuses(&mut codes), versions: None, values: Some((8, before)) };
            let columns = Columns {
                ops: Ops::Uniform(Op::FetchAdd),
                keys: keys.cells(self.key),
                values: Cells::Empty,
                arguments: Some(Column::Host(as_numbers_given(deltas.bytes()))),
            };
            (answers, columns)
        };
        self.run_host(py, columns, How { durability, atomic: false }, answers)?;
        raise_first_error(py, Op::FetchAdd, &codes)?;
        before.into_answer(library)
    }
}

/// How a batch is done.
#[derive(Clone, Copy)]
pub(crate) struct How {
    pub(crate) durability: Durability,
    /// Whether none of it is done if an operation finds no space.
    pub(crate) atomic: bool,
}

/// Host arrays for the answers of a batch.
pub(crate) struct HostAnswers<'a> {
    pub(crate) statuses: &'a mut [Status],
    pub(crate) versions: Option<&'a mut [u64]>,
    /// Bytes of a value, and the rows.
    pub(crate) values: Option<(usize, &'a mut [u8])>,
}

/// Refuses another number of rows than of keys.
pub(crate) fn check_count(array: &Array<'_>, found: usize, count: usize) -> PyResult<()> {
    match found == count {
        true => Ok(()),
        false => Err(PyValueError::new_err(format!(
            "{}: {found} rows for {count} ids; give as many rows as ids",
            array.what
        ))),
    }
}

/// The arrays of a lookup.
fn all_of<'a, 'py>(
    keys: &'a Given<'py>,
    out: &'a Target<'py>,
    found: &'a Target<'py>,
    versions: Option<&'a Array<'py>>,
) -> Vec<&'a Array<'py>> {
    [Some(&out.array), Some(&found.array), keys.array(), versions].into_iter().flatten().collect()
}

/// Refuses arrays of which two share memory; the first is written to, and so are all but the keys.
pub(crate) fn check_apart(all: &[&Array<'_>]) -> PyResult<()> {
    for (index, one) in all.iter().enumerate() {
        for other in &all[index + 1..] {
            one.check_apart(other)?;
        }
    }
    Ok(())
}

/// Raises BatchError if there is an error among the statuses of gets.
#[pyfunction]
pub(crate) fn check_statuses(statuses: &Bound<'_, PyAny>) -> PyResult<()> {
    let array = Array::of(statuses, "statuses", None)?;
    array.check_host()?;
    array.column(&[Dtype::U8], array.count())?;
    // SAFETY: a contiguous array in host memory; the GIL is held.
    raise_first_error(statuses.py(), Op::Get, unsafe { array.bytes() })
}

/// The exception for the first status that is an error, if there is one.
pub(crate) fn raise_first_error(py: Python<'_>, op: Op, codes: &[u8]) -> PyResult<()> {
    // Most batches have none, and a maximum over bytes is many times as fast as a search.
    if codes.iter().copied().max().unwrap_or(0) < FIRST_ERROR {
        return Ok(());
    }
    let Some(index) = codes.iter().position(|&code| code >= FIRST_ERROR) else { return Ok(()) };
    let status = Status::try_from(codes[index]).unwrap_or(Status::Indeterminate);
    let all = crate::cells::to_numpy(py, Dtype::U8, &[codes.len()], codes)?;
    Err(batch_raised(py, &op.to_string(), index, status, &all))
}

/// The bytes of a row that was not found; `None` if such rows are left as they are.
fn fill_pattern(py: Python<'_>, fill: Option<&Bound<'_, PyAny>>, form: Form) -> PyResult<Option<Vec<u8>>> {
    let Some(fill) = fill else { return Ok(None) };
    let (dtype, _) = shape_of(form, 1);
    if let Ok(0) = fill.extract::<i64>() {
        return Ok(Some(vec![0; dtype.size]));
    }
    let one = py.import("numpy")?.call_method1("full", ((1,), fill, dtype.descr(py)?))?;
    let array = Array::of(&one, "fill", None)?;
    // SAFETY: NumPy has just made it contiguous in host memory; the GIL is held.
    Ok(Some(unsafe { array.bytes() }.to_vec()))
}

/// Turns statuses into 0 and 1, and fills the rows of keys that were not found.
fn finish(statuses: &mut [u8], values: &mut [u8], row: usize, pattern: Option<&[u8]>) {
    for (index, status) in statuses.iter_mut().enumerate() {
        let found = *status >> 4 == 1;
        *status = u8::from(found);
        if let (false, Some(pattern)) = (found, pattern) {
            let row = &mut values[index * row..][..row];
            match pattern.iter().all(|&byte| byte == 0) {
                true => row.fill(0),
                false => {
                    row.chunks_exact_mut(pattern.len()).for_each(|element| element.copy_from_slice(pattern));
                }
            }
        }
    }
}

/// What a lookup returns.
fn answer<'py>(
    py: Python<'py>,
    rows: Bound<'py, PyAny>,
    found: Bound<'py, PyAny>,
    versions: Option<Target<'py>>,
    library: Library,
) -> PyResult<Bound<'py, PyAny>> {
    match versions {
        None => Ok((rows, found).into_pyobject(py)?.into_any()),
        Some(versions) => Ok((rows, found, versions.into_answer(library)?).into_pyobject(py)?.into_any()),
    }
}
