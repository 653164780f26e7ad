//! Batches whose arrays lie in the memory of the store's device: nothing crosses to the host but what the log needs.

use std::ffi::c_void;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use warpkeep::rows::{
    BatchView, Cells, Column, ColumnMut, Columns, DeviceSlice, DeviceSliceMut, Ops, Output, OutputValues,
    Stream,
};
use warpkeep::{Device, DeviceChoice, Durability, Op, Status};

use crate::array::{Array, Place};
use crate::batch::{FIRST_ERROR, Wanted, check_apart, check_count, raise_first_error};
use crate::cells::{Given, shape_of};
use crate::device_array::DeviceArray;
use crate::dtype::Dtype;
use crate::errors::OrRaise;
use crate::library::Library;
use crate::recorder;
use crate::spec::Form;
use crate::table::Table;

/// Operation, keys, values and arguments of a batch of writes.
pub(crate) type WriteColumns<'a, 'py> = (Op, &'a Given<'py>, Option<&'a Given<'py>>, Option<&'a Array<'py>>);

impl Table {
    /// The device that the arrays of a call lie on.
    fn device_of(&self, number: u32) -> PyResult<&Device> {
        let own = match &self.device {
            None => None,
            Some(device) => match device.choice() {
                DeviceChoice::Cuda(own) => Some((device, own)),
                DeviceChoice::Sim => Some((device, 0)),
                DeviceChoice::Cpu => None,
            },
        };
        match own {
            Some((device, own)) if own == number => Ok(device),
            Some((device, _)) => Err(PyTypeError::new_err(format!(
                "the ids lie in the memory of device {number}, and the store runs on {}; move them there",
                device.choice()
            ))),
            None => Err(PyTypeError::new_err(format!(
                "the ids lie in the memory of device {number}, and the store runs on the CPU; open the store with \
                 device='cuda:{number}', or copy the ids to the host: ids.cpu()"
            ))),
        }
    }

    /// The stream that a call uses: the one that the keys were made ready for, that of the caller, or a new one of the simulator.
    fn stream_of(
        &self,
        py: Python<'_>,
        device: &Device,
        keys: &Array<'_>,
        given: Option<u64>,
    ) -> PyResult<Stream> {
        match device.choice() {
            DeviceChoice::Cuda(_) => {
                let raw = keys.stream.or(given).unwrap_or(0);
                // SAFETY: the caller, or its library, names a stream of the device's primary context; the caller's frame keeps it
                // until this call returns, and the call waits for all that it puts into the stream.
                unsafe { Stream::from_raw(device, raw as *mut c_void) }.or_raise(py)
            }
            DeviceChoice::Sim | DeviceChoice::Cpu => device.stream().or_raise(py),
        }
    }

    /// An array on the device, in the library of the keys: of zeros, or with contents that are unspecified.
    #[allow(clippy::too_many_arguments, reason = "one for each part of an array")]
    fn made<'py>(
        &self,
        device: &Device,
        keys: &Array<'py>,
        what: &'static str,
        zeros: bool,
        dtype: Dtype,
        shape: &[usize],
        stream: u64,
    ) -> PyResult<Array<'py>> {
        let py = keys.object.py();
        let object = match keys.library {
            Library::Own => Bound::new(py, DeviceArray::zeros(py, device, dtype, shape)?)?.into_any(),
            library => library.new_like_device(&keys.object, zeros, dtype, shape)?,
        };
        Array::of(&object, what, Some(stream))
    }

    /// Gets of keys in device memory: rows there, and the statuses as they are.
    #[allow(clippy::too_many_arguments, reason = "one for each part of a call")]
    pub(crate) fn read_on_device<'py>(
        &self,
        py: Python<'py>,
        keys: &Given<'py>,
        count: usize,
        out: Option<&Bound<'py, PyAny>>,
        durability: Durability,
        number: u32,
        stream: Option<u64>,
    ) -> PyResult<(Array<'py>, Array<'py>)> {
        let device = self.device_of(number)?;
        let ids = on_device(keys)?;
        let own_stream = self.stream_of(py, device, ids, stream)?;
        let raw = own_stream.as_raw() as u64;
        let (dtype, shape) = shape_of(self.value, count);
        let out = match out {
            None => self.made(device, ids, "out", true, dtype, &shape, raw)?,
            Some(out) => {
                let array = Array::of(out, "out", Some(raw))?;
                check_count(&array, array.cells(self.value)?, count)?;
                check_place(&array, number)?;
                array.check_writable()?;
                array
            }
        };
        // A batch that succeeds writes each status.
        let statuses = self.made(device, ids, "statuses", false, Dtype::U8, &[count], raw)?;
        check_apart(&[&out, &statuses, ids])?;
        let values = OutputValues::Rows { len: self.value.len(), bytes: column_mut(&out, number) };
        let columns = Columns::keys_only(Op::Get, keys_of(keys, self.key));
        self.run_on_device(py, columns, durability, column_mut(&statuses, number), values, &own_stream)?;
        Ok((out, statuses))
    }

    /// Gets of keys in device memory, with answers there.
    #[allow(clippy::too_many_arguments, reason = "one for each part of a call")]
    pub(crate) fn lookup_on_device<'py>(
        &self,
        py: Python<'py>,
        keys: &Given<'py>,
        count: usize,
        wanted: &Wanted<'_, 'py>,
        durability: Durability,
        number: u32,
        stream: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // First, because these are what most callers have to change.
        self.device_of(number)?;
        if let Form::Bytes(_) = self.value {
            return Err(PyTypeError::new_err(
                "values of any length are looked up with ids in host memory; copy them: ids.cpu()",
            ));
        }
        if wanted.found.is_some() {
            return Err(PyTypeError::new_err(
                "found= is not taken with ids in device memory; use the array that lookup returns",
            ));
        }
        if wanted.versions.is_some_and(|versions| !versions.extract::<bool>().is_ok_and(|wanted| !wanted)) {
            return Err(PyTypeError::new_err(
                "versions of ids in device memory are not given; copy the ids to the host: ids.cpu()",
            ));
        }
        let (out, statuses) = self.read_on_device(py, keys, count, wanted.out, durability, number, stream)?;
        let largest = raise_device_error(py, Op::Get, &statuses, count)?;
        let found = match statuses.object.cast::<DeviceArray>() {
            // This package's own arrays have no operators; the answer is short.
            Ok(own) => own.get().found(py)?,
            Err(_) => statuses.object.call_method1("__lt__", (Status::NotFound.code(),))?,
        };
        let fill = wanted.fill.filter(|_| largest >= Status::NotFound.code());
        let Some(fill) = fill else { return Ok((out.object, found).into_pyobject(py)?.into_any()) };
        let zeros = fill.extract::<f64>().is_ok_and(|fill| fill == 0.0);
        match (out.object.cast::<DeviceArray>(), wanted.out.is_some()) {
            // New arrays are zeros.
            (_, false) if zeros => {}
            (Ok(own), _) if zeros => own.get().clear_rows(py, &found)?,
            (Ok(_), _) => {
                return Err(PyTypeError::new_err(
                    "rows in a DeviceArray can be filled with 0, or left as they are with fill=None",
                ));
            }
            (Err(_), _) => out.object.set_item(found.call_method0("__invert__")?, fill)?,
        }
        Ok((out.object, found).into_pyobject(py)?.into_any())
    }

    /// Writes of keys and values in device memory.
    #[allow(clippy::too_many_arguments, reason = "one for each part of a call")]
    pub(crate) fn write_on_device<'py>(
        &self,
        py: Python<'py>,
        (op, keys, values, arguments): WriteColumns<'_, 'py>,
        count: usize,
        versions: bool,
        durability: Durability,
        number: u32,
        stream: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let device = self.device_of(number)?;
        let ids = on_device(keys)?;
        let values = values.map(on_device).transpose()?;
        for array in values.iter().copied().chain(arguments) {
            check_place(array, number)?;
        }
        let own_stream = self.stream_of(py, device, ids, stream)?;
        let raw = own_stream.as_raw() as u64;
        let statuses = self.made(device, ids, "statuses", false, Dtype::U8, &[count], raw)?;
        let numbers = versions
            .then(|| self.made(device, ids, "versions", true, Dtype::U64, &[count], raw))
            .transpose()?;
        let columns = Columns {
            ops: Ops::Uniform(op),
            keys: keys_of(keys, self.key),
            values: values.map_or(Cells::Empty, |array| Cells::Fixed {
                len: self.value.len(),
                bytes: column(array, array.nbytes(), number),
            }),
            arguments: arguments.map(|array| column(array, array.count(), number)),
        };
        let table = &self.table;
        let (codes, numbers_column) =
            (column_mut(&statuses, number), numbers.as_ref().map(|a| column_mut_of(a, number)));
        let stream = &own_stream;
        let _write = self.writes.begin();
        py.detach(move || {
            let batch = BatchView::new(table.key_spec(), table.value_spec(), columns)?;
            let output = Output::new(&batch, codes, numbers_column, OutputValues::None)?;
            let done = table.run_on(&batch, durability, output, stream);
            recorder::note_call();
            done
        })
        .or_raise(py)?;
        raise_device_error(py, op, &statuses, count)?;
        match numbers {
            None => Ok(statuses.object),
            Some(numbers) => Ok((statuses.object, numbers.object).into_pyobject(py)?.into_any()),
        }
    }

    fn run_on_device(
        &self,
        py: Python<'_>,
        columns: Columns<'_>,
        durability: Durability,
        statuses: ColumnMut<'_, warpkeep::Status>,
        values: OutputValues<'_>,
        stream: &Stream,
    ) -> PyResult<()> {
        let table = &self.table;
        py.detach(move || {
            let batch = BatchView::new(table.key_spec(), table.value_spec(), columns)?;
            let output = Output::new(&batch, statuses, None, values)?;
            let done = table.run_on(&batch, durability, output, stream);
            recorder::note_call();
            done
        })
        .or_raise(py)
    }
}

/// The array, which lies on a device.
fn on_device<'a, 'py>(given: &'a Given<'py>) -> PyResult<&'a Array<'py>> {
    given.array().ok_or_else(|| {
        PyTypeError::new_err(
            "ids lie in device memory and values in host memory; give all arrays of a call in one memory",
        )
    })
}

/// Refuses an array in another memory than the ids.
fn check_place(array: &Array<'_>, number: u32) -> PyResult<()> {
    match array.place == Place::Device(number) {
        true => Ok(()),
        false => Err(PyTypeError::new_err(format!(
            "{}: lies in {}, and the ids in the memory of device {number}; give all arrays of a call in one memory",
            array.what, array.place
        ))),
    }
}

fn keys_of<'a>(keys: &'a Given<'_>, form: Form) -> Cells<'a> {
    // SAFETY: the batch writes to arrays that share no memory with the keys.
    unsafe { keys.cells(form) }
}

/// The array as a column of `len` elements.
fn column<'a, T>(array: &'a Array<'_>, len: usize, number: u32) -> Column<'a, T> {
    // SAFETY: the array, which was checked to be contiguous, has them there and is kept; nothing writes to it while the batch runs.
    Column::Device(unsafe { DeviceSlice::from_raw(array.address as u64, len, number) })
}

/// The array as a column of bytes, or of statuses, that a batch writes to.
fn column_mut<'a, T>(array: &'a Array<'_>, number: u32) -> ColumnMut<'a, T> {
    // SAFETY: as `column`; the arrays of a call share no memory. An element has one byte.
    ColumnMut::Device(unsafe { DeviceSliceMut::from_raw(array.address as u64, array.nbytes(), number) })
}

/// The array as a column of numbers that a batch writes to.
fn column_mut_of<'a>(array: &'a Array<'_>, number: u32) -> ColumnMut<'a, u64> {
    // SAFETY: as `column_mut`; the array was made for this, and device memory is aligned.
    ColumnMut::Device(unsafe { DeviceSliceMut::from_raw(array.address as u64, array.count(), number) })
}

/// The exception for the first status that is an error, if there is one; else the largest status. It decides, so that only it crosses to the host.
fn raise_device_error(py: Python<'_>, op: Op, statuses: &Array<'_>, count: usize) -> PyResult<u8> {
    if count == 0 {
        return Ok(Status::Pending.code());
    }
    let codes: Vec<u8> = match statuses.object.cast::<DeviceArray>() {
        Ok(own) => own.get().to_bytes(py)?,
        Err(_) => {
            let largest: u8 = statuses.object.call_method0("max")?.call_method0("item")?.extract()?;
            if largest < FIRST_ERROR {
                return Ok(largest);
            }
            // A list of numbers, not of bytes.
            statuses
                .object
                .call_method0("tolist")?
                .extract::<Vec<u16>>()?
                .iter()
                .map(|&code| code as u8)
                .collect()
        }
    };
    raise_first_error(py, op, &codes)?;
    Ok(codes.iter().copied().max().unwrap_or(0))
}
