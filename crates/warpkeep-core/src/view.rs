//! A batch as an engine sees it.

use crate::cells::HostCells;
use crate::{Cells, Column, CoreError, KeyCells, KeySpec, MemorySpace, Op, ValueSpec};

/// The most operations in a batch, so that kernels can count them in signed 32-bit numbers with room to spare.
pub const MAX_BATCH: usize = 1 << 30;

/// The operations of a batch.
#[derive(Clone, Copy, Debug)]
pub enum Ops<'a> {
    /// All the same.
    Uniform(Op),
    /// One code an operation. In device memory the codes are unchecked: an engine answers
    /// [`Malformed`](crate::Status::Malformed) where one is unknown.
    Each(Column<'a, Op>),
}

/// The arrays a [`BatchView`] is made of.
#[derive(Clone, Copy, Debug)]
pub struct Columns<'a> {
    /// The operations.
    pub ops: Ops<'a>,
    /// Their keys; the number of keys is the number of operations. In device memory, keys of any length up to a
    /// short limit are rows of their [cells](KeyCells).
    pub keys: Cells<'a>,
    /// With which values. Cells of operations that take no value are passed over.
    pub values: Cells<'a>,
    /// Expected versions, or addends; required if an operation takes an argument.
    pub arguments: Option<Column<'a, u64>>,
}

impl<'a> Columns<'a> {
    /// One operation, without values or arguments, on many keys.
    pub fn keys_only(op: Op, keys: Cells<'a>) -> Columns<'a> {
        Columns { ops: Ops::Uniform(op), keys, values: Cells::Empty, arguments: None }
    }

    /// One operation, with values but without arguments, on many keys.
    pub fn with_values(op: Op, keys: Cells<'a>, values: Cells<'a>) -> Columns<'a> {
        Columns { ops: Ops::Uniform(op), keys, values, arguments: None }
    }
}

/// Many operations on one table, as borrowed arrays in host or device memory: the form engines work on.
///
/// Made from a [`Batch`](crate::Batch), or straight from arrays that the caller has. Operations on the same key act
/// in the order of their index.
///
/// A view in host memory is fully checked: codes, lengths, offsets and arguments are validated when it is made. Of
/// a view in device memory only the shape is checked, and the engine that reads it checks the rest.
///
/// ```
/// use warpkeep_core::{BatchView, Cells, Columns, KeySpec, Op, ValueSpec};
/// let keys = [11, 22];
/// let rows = [0.5f32; 2 * 64];
/// let columns = Columns::with_values(Op::Put, Cells::u64s(&keys), Cells::f32_rows(64, &rows));
/// let view = BatchView::new(KeySpec::U64, ValueSpec::fixed(256)?, columns)?;
/// assert_eq!(view.len(), 2);
///
/// let short = Columns::with_values(Op::Put, Cells::u64s(&keys), Cells::f32_rows(64, &rows[64..]));
/// assert!(BatchView::new(KeySpec::U64, ValueSpec::fixed(256)?, short).is_err());
/// # Ok::<(), warpkeep_core::CoreError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BatchView<'a> {
    key_spec: KeySpec,
    value_spec: ValueSpec,
    len: usize,
    space: MemorySpace,
    columns: Columns<'a>,
}

impl<'a> BatchView<'a> {
    /// A batch for a table of such keys and values.
    pub fn new(key_spec: KeySpec, value_spec: ValueSpec, columns: Columns<'a>) -> Result<Self, CoreError> {
        let Columns { ops, keys, values, arguments } = &columns;
        let (Some(len), Some(space)) = (keys.count("keys")?, keys.space()) else {
            return Err(CoreError::ColumnLength { column: "keys", found: 0, expected: 1 });
        };
        if len > MAX_BATCH {
            return Err(CoreError::BatchTooLong { len: len as u64, max: MAX_BATCH as u64 });
        }
        keys.check_space("keys", space)?;
        values.check_space("values", space)?;
        if let Some(count) = values.count("values")? {
            check_count("values", count, len)?;
        }
        if let Ops::Each(column) = ops {
            check_column("operations", column, len, space)?;
        }
        if let Some(column) = arguments {
            check_column("arguments", column, len, space)?;
        }

        let view = BatchView { key_spec, value_spec, len, space, columns };
        view.check_lengths()?;
        if let Some(host) = view.host() {
            host.keys.check_offsets("keys")?;
            host.values.check_offsets("values")?;
            host.check(key_spec, value_spec)?;
        }
        Ok(view)
    }

    /// The caller has already made the checks of [`BatchView::new`].
    pub(crate) fn trusted(
        key_spec: KeySpec,
        value_spec: ValueSpec,
        len: usize,
        columns: Columns<'a>,
    ) -> Self {
        BatchView { key_spec, value_spec, len, space: MemorySpace::Host, columns }
    }

    /// Checks lengths without reading the columns.
    fn check_lengths(&self) -> Result<(), CoreError> {
        if let Cells::Fixed { len, .. } = self.columns.keys {
            let is_cell = |cells: KeyCells| self.space != MemorySpace::Host && len == cells.row_len();
            if !KeyCells::of(self.key_spec).is_some_and(is_cell) {
                self.key_spec.check_len(len)?;
            }
        }
        let Ops::Uniform(op) = self.columns.ops else { return Ok(()) };
        if op.takes_value() {
            match self.columns.values {
                Cells::Empty => self.value_spec.check_len(0)?,
                Cells::Fixed { len, .. } => self.value_spec.check_len(len)?,
                Cells::Variable { .. } => {}
            }
        }
        check_op(op, self.value_spec, self.columns.arguments.is_some())
    }

    /// How many operations there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Which memory all its columns are in.
    pub const fn space(&self) -> MemorySpace {
        self.space
    }

    /// The keys it was made for.
    pub const fn key_spec(&self) -> KeySpec {
        self.key_spec
    }

    /// The values it was made for.
    pub const fn value_spec(&self) -> ValueSpec {
        self.value_spec
    }

    /// Its arrays.
    pub const fn columns(&self) -> &Columns<'a> {
        &self.columns
    }

    /// The operation that all of them are, if they were given as one.
    pub const fn uniform_op(&self) -> Option<Op> {
        match self.columns.ops {
            Ops::Uniform(op) => Some(op),
            Ops::Each(_) => None,
        }
    }

    /// Refuses to run on a table of other keys or values than it was made for.
    pub fn check_table(&self, keys: KeySpec, values: ValueSpec) -> Result<(), CoreError> {
        if (self.key_spec, self.value_spec) == (keys, values) {
            return Ok(());
        }
        Err(CoreError::SpecMismatch {
            batch_keys: self.key_spec,
            batch_values: self.value_spec,
            table_keys: keys,
            table_values: values,
        })
    }

    /// The batch as slices, if it is in host memory.
    pub fn host(&self) -> Option<HostBatch<'a>> {
        let ops = match &self.columns.ops {
            Ops::Uniform(op) => HostOps::Uniform(*op),
            Ops::Each(column) => HostOps::Each(column.host()?),
        };
        let arguments = match &self.columns.arguments {
            Some(column) => Some(column.host()?),
            None => None,
        };
        let (keys, values) = (self.columns.keys.host()?, self.columns.values.host()?);
        Some(HostBatch { len: self.len, ops, keys, values, arguments })
    }
}

/// The operations of a batch in host memory.
#[derive(Clone, Copy, Debug)]
enum HostOps<'a> {
    Uniform(Op),
    Each(&'a [Op]),
}

/// A checked [`BatchView`] in host memory, for CPU engines.
#[derive(Clone, Copy, Debug)]
pub struct HostBatch<'a> {
    len: usize,
    ops: HostOps<'a>,
    keys: HostCells<'a>,
    values: HostCells<'a>,
    arguments: Option<&'a [u64]>,
}

/// One operation of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation<'a> {
    /// Its index in the batch.
    pub index: usize,
    /// The operation.
    pub op: Op,
    /// To which key.
    pub key: &'a [u8],
    /// With which value; empty if the operation takes none.
    pub value: &'a [u8],
    /// The expected version, or the addend; 0 if the operation takes no argument.
    pub argument: u64,
}

impl<'a> HostBatch<'a> {
    /// How many operations there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All keys.
    pub const fn keys(&self) -> HostCells<'a> {
        self.keys
    }

    /// The code of operation `index`.
    ///
    /// # Panics
    ///
    /// If there is no such operation and they are not all the same.
    #[inline]
    pub fn op(&self, index: usize) -> Op {
        match self.ops {
            HostOps::Uniform(op) => op,
            HostOps::Each(ops) => ops[index],
        }
    }

    /// Whether all operations are this one; true for an empty batch.
    pub fn is_all(&self, op: Op) -> bool {
        match self.ops {
            HostOps::Uniform(all) => self.len == 0 || all == op,
            HostOps::Each(ops) => ops.iter().all(|each| *each == op),
        }
    }

    /// Whether any operation may write.
    pub fn writes(&self) -> bool {
        match self.ops {
            HostOps::Uniform(op) => self.len > 0 && op.writes(),
            HostOps::Each(ops) => ops.iter().any(|op| op.writes()),
        }
    }

    /// The operation, if all are the same.
    pub fn uniform_op(&self) -> Option<Op> {
        match self.ops {
            HostOps::Uniform(op) => Some(op),
            HostOps::Each(ops) => ops.first().copied().filter(|first| self.is_all(*first)),
        }
    }

    /// The values; undefined for operations that take none.
    pub const fn values(&self) -> HostCells<'a> {
        self.values
    }

    /// Operation `index`.
    ///
    /// # Panics
    ///
    /// If there is no such operation.
    #[inline]
    pub fn operation(&self, index: usize) -> Operation<'a> {
        let op = self.op(index);
        Operation {
            index,
            op,
            key: self.keys.get(index),
            value: if op.takes_value() { self.values.get(index) } else { &[] },
            argument: match self.arguments {
                Some(arguments) if op.takes_argument() => arguments[index],
                _ => 0,
            },
        }
    }

    /// All operations, in the order of their index.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Operation<'a>> + use<'a> {
        let batch = *self;
        (0..self.len).map(move |index| batch.operation(index))
    }

    /// Checks every operation against the specs, except for what [`BatchView::check_lengths`] has checked, so that
    /// a uniform batch of fixed cells costs nothing.
    fn check(&self, key_spec: KeySpec, value_spec: ValueSpec) -> Result<(), CoreError> {
        if let HostCells::Variable { offsets, .. } = self.keys {
            for (index, pair) in offsets.windows(2).enumerate() {
                let len = (pair[1] - pair[0]) as usize;
                key_spec.check_len(len).map_err(|e| e.at(index, self.op(index)))?;
            }
        }
        let seen =
            matches!(self.ops, HostOps::Uniform(_)) && !matches!(self.values, HostCells::Variable { .. });
        if seen {
            return Ok(());
        }
        for index in 0..self.len {
            let op = self.op(index);
            check_op(op, value_spec, self.arguments.is_some()).map_err(|e| e.at(index, op))?;
            if op.takes_value() {
                value_spec.check(self.values.get(index)).map_err(|e| e.at(index, op))?;
            }
        }
        Ok(())
    }
}

/// Refuses an operation that cannot work on such values, or lacks its argument.
fn check_op(op: Op, values: ValueSpec, arguments: bool) -> Result<(), CoreError> {
    if op == Op::FetchAdd {
        values.check_number()?;
    }
    if op.takes_argument() && !arguments {
        return Err(CoreError::NoArguments { op });
    }
    Ok(())
}

pub(crate) fn check_count(column: &'static str, found: usize, expected: usize) -> Result<(), CoreError> {
    if found == expected {
        return Ok(());
    }
    Err(CoreError::ColumnLength { column, found: found as u64, expected: expected as u64 })
}

fn check_column<T>(
    name: &'static str,
    column: &Column<'_, T>,
    len: usize,
    space: MemorySpace,
) -> Result<(), CoreError> {
    if column.space() != space {
        return Err(CoreError::MixedSpaces { column: name, found: column.space(), expected: space });
    }
    check_count(name, column.len(), len)
}
