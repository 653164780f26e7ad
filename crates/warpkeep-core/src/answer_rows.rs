//! Answers as rows that several threads fill at once.

use crate::{Answers, Status};

/// The arrays behind [`Answers`], for values of one length. They can be split, so that several threads answer the
/// parts.
///
/// ```
/// use warpkeep_core::{Answers, Batch, KeySpec, Results, Status, ValueSpec};
/// let mut batch = Batch::new(KeySpec::U64, ValueSpec::U64);
/// batch.get(1)?.get(2)?.get(3)?;
///
/// let mut results = Results::new(&batch.view());
/// let (mut first, mut rest) = results.rows_mut().expect("all values have eight bytes").split_at(1);
/// std::thread::scope(|scope| {
///     scope.spawn(|| first.answer_value(0, Status::Ok, 1, &[7; 8]));
///     scope.spawn(|| (0..2).for_each(|index| rest.answer(index, Status::NotFound, 0)));
/// });
/// assert_eq!(results.statuses(), [Status::Ok, Status::NotFound, Status::NotFound]);
/// # Ok::<(), warpkeep_core::CoreError>(())
/// ```
#[derive(Debug)]
pub struct AnswerRows<'a> {
    pub(crate) statuses: &'a mut [Status],
    pub(crate) versions: Option<&'a mut [u64]>,
    /// `None` if the caller does not need values.
    pub(crate) values: Option<&'a mut [u8]>,
    /// Bytes of a value.
    pub(crate) row: usize,
    /// Whether rows of operations without a value are to be zeros, or are left as they are.
    pub(crate) zeroes: bool,
}

impl<'a> AnswerRows<'a> {
    /// How many operations there are.
    pub fn len(&self) -> usize {
        self.statuses.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.statuses.is_empty()
    }

    /// The statuses answered so far.
    pub fn statuses(&self) -> &[Status] {
        self.statuses
    }

    /// Whether the caller needs values.
    pub fn wants_values(&self) -> bool {
        self.values.is_some()
    }

    /// Whether the caller needs versions.
    pub fn wants_versions(&self) -> bool {
        self.versions.is_some()
    }

    /// The rows for the values, one after the other, if the caller needs values. An engine that fills a row
    /// directly reports it with [`answer_filled`](AnswerRows::answer_filled).
    pub fn values_mut(&mut self) -> Option<&mut [u8]> {
        self.values.as_deref_mut()
    }

    /// The answers to the first `middle` operations, and to the remaining ones, counted from 0 again.
    ///
    /// # Panics
    /// If there are fewer than `middle` operations.
    pub fn split_at(self, middle: usize) -> (AnswerRows<'a>, AnswerRows<'a>) {
        let AnswerRows { statuses, versions, values, row, zeroes } = self;
        let (statuses, other_statuses) = statuses.split_at_mut(middle);
        let (versions, other_versions) = versions.map(|versions| versions.split_at_mut(middle)).unzip();
        let (values, other_values) = values.map(|values| values.split_at_mut(row * middle)).unzip();
        (
            AnswerRows { statuses, versions, values, row, zeroes },
            AnswerRows {
                statuses: other_statuses,
                versions: other_versions,
                values: other_values,
                row,
                zeroes,
            },
        )
    }

    /// Parts of `each` operations; the last part holds the remainder.
    ///
    /// # Panics
    /// If `each` is 0.
    pub fn chunks(self, each: usize) -> Vec<AnswerRows<'a>> {
        assert!(each > 0, "parts have at least one operation");
        let mut parts = Vec::with_capacity(self.len().div_ceil(each));
        let mut rest = self;
        while rest.len() > each {
            let (part, others) = rest.split_at(each);
            parts.push(part);
            rest = others;
        }
        parts.push(rest);
        parts
    }

    /// The same, borrowed for a while.
    pub fn reborrow(&mut self) -> AnswerRows<'_> {
        AnswerRows {
            statuses: self.statuses,
            versions: self.versions.as_deref_mut(),
            values: self.values.as_deref_mut(),
            row: self.row,
            zeroes: self.zeroes,
        }
    }

    /// As [`answer_value`](Answers::answer_value), with the caller's own copy function from the value to its row of
    /// the same length.
    #[inline]
    pub fn answer_by(
        &mut self,
        index: usize,
        status: Status,
        version: u64,
        value: &[u8],
        copy: impl FnOnce(&[u8], &mut [u8]),
    ) -> Status {
        let Some(values) = self.values.as_deref_mut() else {
            self.note(index, status, version);
            return status;
        };
        if value.len() != self.row {
            self.answer(index, Status::Corrupt, version);
            return Status::Corrupt;
        }
        copy(value, &mut values[index * self.row..][..self.row]);
        self.note(index, status, version);
        status
    }

    /// An answer whose value is in its row already.
    #[inline]
    pub fn answer_filled(&mut self, index: usize, status: Status, version: u64) {
        self.note(index, status, version);
    }

    #[inline]
    fn note(&mut self, index: usize, status: Status, version: u64) {
        self.statuses[index] = status;
        if let Some(versions) = &mut self.versions {
            versions[index] = version;
        }
    }
}

impl Answers for AnswerRows<'_> {
    #[inline]
    fn answer(&mut self, index: usize, status: Status, version: u64) {
        if let Some(values) = self.values.as_deref_mut().filter(|_| self.zeroes) {
            values[index * self.row..][..self.row].fill(0);
        }
        self.note(index, status, version);
    }

    #[inline]
    fn answer_value(&mut self, index: usize, status: Status, version: u64, value: &[u8]) -> Status {
        self.answer_by(index, status, version, value, |value, row| row.copy_from_slice(value))
    }

    fn rows_mut(&mut self) -> Option<AnswerRows<'_>> {
        Some(self.reborrow())
    }
}
