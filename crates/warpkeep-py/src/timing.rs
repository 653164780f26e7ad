//! How long the library itself takes, for benchmarks that tell what the way through Python adds.

use std::time::Instant;

use pyo3::prelude::*;
use warpkeep::rows::{BatchView, ColumnMut, Columns, Output, OutputValues};
use warpkeep::{Durability, Op, Status};

use crate::array::Array;
use crate::batch::check_apart;
use crate::cells::Given;
use crate::errors::OrRaise;
use crate::recorder;
use crate::table::Table;

/// The seconds that each of `rounds` lookups takes in the library: the batch that `Table.lookup` makes of these arrays, without Python. The
/// rows end in `out`.
#[pyfunction]
pub(crate) fn time_lookups(
    py: Python<'_>,
    table: &Bound<'_, Table>,
    ids: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
    rounds: usize,
) -> PyResult<Vec<f64>> {
    let table = table.get();
    table.check(py)?;
    let (keys, count) = Given::of(ids, "ids", table.key, None)?;
    let out = Array::of(out, "out", None)?;
    out.check_host()?;
    crate::batch::check_count(&out, out.cells(table.value)?, count)?;
    out.check_writable()?;
    keys.array().map_or(Ok(()), |array| array.check_host().and_then(|()| check_apart(&[&out, array])))?;
    let mut statuses = vec![Status::Pending; count];
    // SAFETY: the arrays are contiguous, in host memory, and share none; only the rows are written to.
    let (values, cells) = unsafe { (out.bytes_mut(), keys.cells(table.key)) };
    let (own, row) = (&table.table, table.value.len());
    py.detach(move || {
        (0..rounds)
            .map(|_| {
                let begun = Instant::now();
                let columns = Columns::keys_only(Op::Get, cells);
                let batch = BatchView::new(own.key_spec(), own.value_spec(), columns)?;
                let rows = OutputValues::Rows { len: row, bytes: ColumnMut::Host(&mut *values) };
                let output = Output::new(&batch, ColumnMut::Host(&mut statuses), None, rows)?;
                if let Some(mut output) = output.into_host() {
                    own.run_into(&batch, Durability::Process, &mut output)?;
                    recorder::note_call();
                }
                Ok(begun.elapsed().as_secs_f64())
            })
            .collect::<warpkeep::Result<Vec<f64>>>()
    })
    .or_raise(py)
}
