//! The answers to a batch.

use crate::{AnswerRows, BatchView, Status};

/// The position of an answer's value in the bytes of all values. Engines answer in any order, so the values are not
/// in the order of the operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Span {
    /// The first byte; [`Span::NONE`] has the largest number.
    pub start: u64,
    /// How many bytes.
    pub len: u64,
}

impl Span {
    /// No value, as against an empty one.
    pub const NONE: Span = Span { start: u64::MAX, len: 0 };

    /// The value, if there is one.
    pub(crate) fn of(self, bytes: &[u8]) -> Option<&[u8]> {
        let start = usize::try_from(self.start).ok()?;
        bytes.get(start..)?.get(..usize::try_from(self.len).ok()?)
    }
}

/// The sink for an engine's answers.
///
/// # Panics
///
/// Both calls panic if `index` is not an operation of the batch.
pub trait Answers {
    /// Answers operation `index` without a value.
    ///
    /// `version` is the version the key has now, or had when it was deleted; 0 if the key is absent.
    fn answer(&mut self, index: usize, status: Status, version: u64);

    /// Answers operation `index` with a value, and returns the stored status: the given one;
    /// [`OutputFull`](Status::OutputFull) if there is no room for the value; [`Corrupt`](Status::Corrupt) if the
    /// table has values of one length and this value has another.
    fn answer_value(&mut self, index: usize, status: Status, version: u64, value: &[u8]) -> Status;

    /// The arrays for the answers, if values have one length: several threads can fill them. `None` if answers must
    /// be given one by one.
    fn rows_mut(&mut self) -> Option<AnswerRows<'_>> {
        None
    }

    /// Reports the totals of a batch of gets that were answered through [the arrays](Answers::rows_mut): `found`
    /// keys found and `absent` keys not found. A sink that counts answers need not read them again.
    fn tell_gets(&mut self, _found: u64, _absent: u64) {}
}

/// The answers to a batch, owned, in host memory.
///
/// ```
/// use warpkeep_core::{Answers, Batch, KeySpec, Results, Status, ValueSpec};
/// let mut batch = Batch::new(KeySpec::variable(250)?, ValueSpec::variable(1024)?);
/// batch.get("colour")?.get("shape")?;
///
/// let mut results = Results::new(&batch.view());
/// // What an engine does, in any order:
/// results.answer(1, Status::NotFound, 0);
/// results.answer_value(0, Status::Ok, 3, b"green");
///
/// assert_eq!(results.value(0), Some(&b"green"[..]));
/// assert_eq!(results.statuses(), [Status::Ok, Status::NotFound]);
/// # Ok::<(), warpkeep_core::CoreError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "operations may have been refused although the batch was done: see `first_error`"]
pub struct Results {
    statuses: Vec<Status>,
    versions: Vec<u64>,
    values: Values,
}

#[derive(Clone, Debug, Default)]
enum Values {
    /// No operation of the batch answers with a value.
    #[default]
    None,
    /// Values of one length, in the order of the operations.
    Rows { len: usize, bytes: Vec<u8> },
    /// Values in the order in which they were answered.
    Spans { spans: Vec<Span>, bytes: Vec<u8> },
}

/// The answer to one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome<'a> {
    /// Its status.
    pub status: Status,
    /// The version the key has now, or had when it was deleted; 0 if the key is not there.
    pub version: u64,
    /// The value, if the operation answers with one.
    pub value: Option<&'a [u8]>,
}

/// Extends a column to `len`. New memory is zeroed by the system, so that the thread that answers first is also the
/// first to touch a page; several threads may do so.
fn grow<T: Copy + Default>(column: &mut Vec<T>, len: usize) {
    match column.capacity() >= len {
        true => column.resize(len, T::default()),
        false => *column = vec![T::default(); len],
    }
}

impl Results {
    #[inline]
    fn note(&mut self, index: usize, status: Status, version: u64) {
        self.statuses[index] = status;
        self.versions[index] = version;
    }

    /// Room for the answers to a batch, all of them pending.
    pub fn new(batch: &BatchView<'_>) -> Results {
        let mut results = Results::default();
        results.prepare(batch);
        results
    }

    /// Makes room for the answers to another batch, all of them pending, reusing the memory.
    pub fn prepare(&mut self, batch: &BatchView<'_>) {
        let len = batch.len();
        self.statuses.clear();
        self.statuses.resize(len, Status::Pending);
        // Versions of earlier answers are as meaningless as those of pending ones.
        self.versions.truncate(len);
        grow(&mut self.versions, len);

        let (mut bytes, mut spans) = match std::mem::take(&mut self.values) {
            Values::None => (Vec::new(), Vec::new()),
            Values::Rows { bytes, .. } => (bytes, Vec::new()),
            Values::Spans { spans, bytes } => (bytes, spans),
        };
        self.values = match (batch.uniform_op(), batch.value_spec().fixed_len()) {
            (Some(op), _) if !op.answers_value() => Values::None,
            (Some(_), Some(row)) => {
                // The new answers overwrite the old rows; clearing all rows first would cost as much as filling
                // them.
                bytes.truncate(row * len);
                grow(&mut bytes, row * len);
                Values::Rows { len: row, bytes }
            }
            _ => {
                bytes.clear();
                spans.clear();
                spans.resize(len, Span::NONE);
                Values::Spans { spans, bytes }
            }
        };
    }

    /// How many answers there are.
    pub fn len(&self) -> usize {
        self.statuses.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.statuses.is_empty()
    }

    /// All statuses, in the order of the operations.
    pub fn statuses(&self) -> &[Status] {
        &self.statuses
    }

    /// All versions, in the order of the operations; 0 where the key is not there.
    pub fn versions(&self) -> &[u64] {
        &self.versions
    }

    /// All values in one piece, row by row in the order of the operations, if every operation of the batch answers
    /// with a value and all values have one length. Rows of operations that found no key are zeros; rows of
    /// unanswered operations are undefined.
    pub fn rows(&self) -> Option<&[u8]> {
        match &self.values {
            Values::Rows { bytes, .. } => Some(bytes),
            _ => None,
        }
    }

    /// The value operation `index` answers with, if it does.
    pub fn value(&self, index: usize) -> Option<&[u8]> {
        let status = *self.statuses.get(index)?;
        match &self.values {
            Values::None => None,
            Values::Rows { len, bytes } if status.is_ok() => bytes.get(index * len..)?.get(..*len),
            Values::Rows { .. } => None,
            Values::Spans { spans, bytes } => spans.get(index)?.of(bytes),
        }
    }

    /// The value operation `index` answers with, as a number, if it has 8 bytes.
    pub fn number(&self, index: usize) -> Option<u64> {
        self.value(index)?.try_into().ok().map(u64::from_le_bytes)
    }

    /// The answer to operation `index`, if there is such an operation.
    pub fn outcome(&self, index: usize) -> Option<Outcome<'_>> {
        let (status, version) = (*self.statuses.get(index)?, *self.versions.get(index)?);
        Some(Outcome { status, version, value: self.value(index) })
    }

    /// All answers, in the order of the operations.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Outcome<'_>> {
        self.statuses.iter().zip(&self.versions).enumerate().map(|(index, (status, version))| Outcome {
            status: *status,
            version: *version,
            value: self.value(index),
        })
    }

    /// The first operation that was refused, found no room or failed.
    pub fn first_error(&self) -> Option<(usize, Status)> {
        self.statuses.iter().copied().enumerate().find(|(_, status)| status.is_error())
    }
}

impl Answers for Results {
    #[inline]
    fn answer(&mut self, index: usize, status: Status, version: u64) {
        if let Values::Rows { len, bytes } = &mut self.values {
            bytes[index * *len..][..*len].fill(0);
        }
        self.note(index, status, version);
    }

    #[inline]
    fn answer_value(&mut self, index: usize, status: Status, version: u64, value: &[u8]) -> Status {
        let noted = match &mut self.values {
            Values::None => status,
            Values::Rows { len, bytes } => {
                let row = &mut bytes[index * *len..][..*len];
                match value.len() == *len {
                    true => {
                        row.copy_from_slice(value);
                        status
                    }
                    false => {
                        row.fill(0);
                        Status::Corrupt
                    }
                }
            }
            Values::Spans { spans, bytes } => {
                spans[index] = Span { start: bytes.len() as u64, len: value.len() as u64 };
                bytes.extend_from_slice(value);
                status
            }
        };
        self.note(index, noted, version);
        noted
    }

    fn rows_mut(&mut self) -> Option<AnswerRows<'_>> {
        let Results { statuses, versions, values } = self;
        let (row, values) = match values {
            Values::None => (0, None),
            Values::Rows { len, bytes } => (*len, Some(&mut bytes[..])),
            Values::Spans { .. } => return None,
        };
        Some(AnswerRows { statuses, versions: Some(versions), values, row, zeroes: true })
    }
}
