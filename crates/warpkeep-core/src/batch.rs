//! A batch under construction.

use crate::{BatchView, Cells, Column, Columns, CoreError, KeySpec, MAX_BATCH, Op, Ops, ToCell, ValueSpec};

/// Many operations on one table, owned, in host memory: the native form of every request.
///
/// Operations on the same key act in the order in which they were added. Each is checked against the table's key
/// and value specs when it is added; a refused operation leaves the batch unchanged.
///
/// ```
/// use warpkeep_core::{Batch, KeySpec, ValueSpec};
/// let mut batch = Batch::new(KeySpec::U64, ValueSpec::U64);
/// batch.put(7, 700)?.fetch_add(7, 1)?.get(7)?;
/// assert_eq!(batch.len(), 3);
///
/// let refused = batch.put(8, b"not eight bytes").unwrap_err();
/// assert!(refused.to_string().starts_with("operation 3 (put): value of 15 bytes"));
/// assert_eq!(batch.len(), 3);
/// # Ok::<(), warpkeep_core::CoreError>(())
/// ```
///
/// Callers that have their keys and values in arrays already make a [`BatchView`] of them and copy nothing.
#[derive(Clone, Debug)]
pub struct Batch {
    key_spec: KeySpec,
    value_spec: ValueSpec,
    ops: Vec<Op>,
    /// Whether two operations differ.
    mixed: bool,
    keys: Vec<u8>,
    /// Where keys begin and end; not kept if all have one length.
    key_offsets: Vec<u64>,
    values: Vec<u8>,
    /// Offsets of the values. Kept for fixed values too, because an operation without a value has an empty one.
    value_offsets: Vec<u64>,
    /// Empty until the first operation that takes one.
    arguments: Vec<u64>,
}

impl Batch {
    /// An empty batch for a table of such keys and values.
    pub fn new(keys: KeySpec, values: ValueSpec) -> Batch {
        Batch {
            key_spec: keys,
            value_spec: values,
            ops: Vec::new(),
            mixed: false,
            keys: Vec::new(),
            key_offsets: vec![0],
            values: Vec::new(),
            value_offsets: vec![0],
            arguments: Vec::new(),
        }
    }

    /// Makes room for `operations` more, with `value_bytes` of values in all.
    pub fn reserve(&mut self, operations: usize, value_bytes: usize) {
        self.ops.reserve(operations);
        self.value_offsets.reserve(operations);
        self.values.reserve(value_bytes);
        match self.key_spec.fixed_len() {
            Some(len) => self.keys.reserve(operations.saturating_mul(len)),
            None => self.key_offsets.reserve(operations),
        }
    }

    /// Forgets all operations and keeps the memory.
    pub fn clear(&mut self) {
        self.ops.clear();
        self.mixed = false;
        self.keys.clear();
        self.key_offsets.truncate(1);
        self.values.clear();
        self.value_offsets.truncate(1);
        self.arguments.clear();
    }

    /// How many operations there are.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// The keys it takes.
    pub fn key_spec(&self) -> KeySpec {
        self.key_spec
    }

    /// The values it takes.
    pub fn value_spec(&self) -> ValueSpec {
        self.value_spec
    }

    /// Adds [`Op::Get`].
    pub fn get(&mut self, key: impl ToCell) -> Result<&mut Self, CoreError> {
        self.push(Op::Get, key.to_cell().as_ref(), &[], 0)
    }

    /// Adds [`Op::Put`].
    pub fn put(&mut self, key: impl ToCell, value: impl ToCell) -> Result<&mut Self, CoreError> {
        self.push(Op::Put, key.to_cell().as_ref(), value.to_cell().as_ref(), 0)
    }

    /// Adds [`Op::Insert`].
    pub fn insert(&mut self, key: impl ToCell, value: impl ToCell) -> Result<&mut Self, CoreError> {
        self.push(Op::Insert, key.to_cell().as_ref(), value.to_cell().as_ref(), 0)
    }

    /// Adds [`Op::Update`].
    pub fn update(&mut self, key: impl ToCell, value: impl ToCell) -> Result<&mut Self, CoreError> {
        self.push(Op::Update, key.to_cell().as_ref(), value.to_cell().as_ref(), 0)
    }

    /// Adds [`Op::Delete`].
    pub fn delete(&mut self, key: impl ToCell) -> Result<&mut Self, CoreError> {
        self.push(Op::Delete, key.to_cell().as_ref(), &[], 0)
    }

    /// Adds [`Op::CompareAndSwap`].
    pub fn compare_and_swap(
        &mut self,
        key: impl ToCell,
        expected_version: u64,
        value: impl ToCell,
    ) -> Result<&mut Self, CoreError> {
        self.push(Op::CompareAndSwap, key.to_cell().as_ref(), value.to_cell().as_ref(), expected_version)
    }

    /// Adds [`Op::FetchAdd`]; to subtract, add the negative, wrapped.
    pub fn fetch_add(&mut self, key: impl ToCell, delta: u64) -> Result<&mut Self, CoreError> {
        self.push(Op::FetchAdd, key.to_cell().as_ref(), &[], delta)
    }

    /// Adds [`Op::Merge`].
    pub fn merge(&mut self, key: impl ToCell, value: impl ToCell) -> Result<&mut Self, CoreError> {
        self.push(Op::Merge, key.to_cell().as_ref(), value.to_cell().as_ref(), 0)
    }

    /// Adds any operation. A value or argument that it does not take is passed over.
    pub fn push(&mut self, op: Op, key: &[u8], value: &[u8], argument: u64) -> Result<&mut Self, CoreError> {
        let index = self.ops.len();
        if index == MAX_BATCH {
            return Err(CoreError::BatchTooLong { len: index as u64 + 1, max: MAX_BATCH as u64 });
        }
        let value = if op.takes_value() { value } else { &[] };
        self.check(op, key, value).map_err(|e| e.at(index, op))?;

        self.mixed |= self.ops.first().is_some_and(|first| *first != op);
        self.ops.push(op);
        self.keys.extend_from_slice(key);
        if self.key_spec.fixed_len().is_none() {
            self.key_offsets.push(self.keys.len() as u64);
        }
        self.values.extend_from_slice(value);
        self.value_offsets.push(self.values.len() as u64);
        if op.takes_argument() {
            self.arguments.resize(index, 0);
            self.arguments.push(argument);
        } else if !self.arguments.is_empty() {
            self.arguments.push(0);
        }
        Ok(self)
    }

    fn check(&self, op: Op, key: &[u8], value: &[u8]) -> Result<(), CoreError> {
        self.key_spec.check(key)?;
        if op.takes_value() {
            self.value_spec.check(value)?;
        }
        if op == Op::FetchAdd {
            self.value_spec.check_number()?;
        }
        Ok(())
    }

    /// The batch as an engine sees it.
    pub fn view(&self) -> BatchView<'_> {
        let ops = match self.ops.first() {
            Some(op) if !self.mixed => Ops::Uniform(*op),
            _ => Ops::Each(Column::Host(&self.ops)),
        };
        let keys = match self.key_spec.fixed_len() {
            Some(len) => Cells::fixed(len, &self.keys),
            None => Cells::variable(&self.key_offsets, &self.keys),
        };
        let arguments =
            if self.arguments.is_empty() { None } else { Some(Column::Host(&self.arguments[..])) };
        let values = Cells::variable(&self.value_offsets, &self.values);
        BatchView::trusted(
            self.key_spec,
            self.value_spec,
            self.len(),
            Columns { ops, keys, values, arguments },
        )
    }
}
