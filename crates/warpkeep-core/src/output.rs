//! Answers into arrays of the caller's.

use crate::results::{Answers, Span};
use crate::view::check_count;
use crate::{AnswerRows, BatchView, ColumnMut, CoreError, MemorySpace, Status};

/// Where the values of answers go.
#[derive(Debug)]
pub enum OutputValues<'a> {
    /// Nowhere: only statuses and versions are wanted.
    None,
    /// Row *i* of an array of values of one length, such as the rows of an embedding, for operation *i*.
    Rows {
        /// The length of a row in bytes: that of the table's values.
        len: usize,
        /// As many rows as operations. Rows of operations without a result are left unchanged.
        bytes: ColumnMut<'a, u8>,
    },
    /// In any order; operation *i* finds its value by span *i*.
    Spans {
        /// One an operation.
        spans: ColumnMut<'a, Span>,
        /// Any number of bytes; a value that does not fit is answered with
        /// [`OutputFull`](Status::OutputFull).
        bytes: ColumnMut<'a, u8>,
    },
}

/// The caller's arrays for the answers to a batch, in host or device memory: a lookup straight into a GPU buffer.
///
/// They need not be in the same memory as the batch, but all of them are in one memory.
#[derive(Debug)]
pub struct Output<'a> {
    statuses: ColumnMut<'a, Status>,
    versions: Option<ColumnMut<'a, u64>>,
    values: OutputValues<'a>,
}

impl<'a> Output<'a> {
    /// Arrays for the answers to `batch`.
    pub fn new(
        batch: &BatchView<'_>,
        statuses: ColumnMut<'a, Status>,
        versions: Option<ColumnMut<'a, u64>>,
        values: OutputValues<'a>,
    ) -> Result<Output<'a>, CoreError> {
        let output = Output { statuses, versions, values };
        output.check(batch)?;
        Ok(output)
    }

    /// Checks that the arrays fit the answers to `batch`, which may differ from the batch they were made for.
    pub fn check(&self, batch: &BatchView<'_>) -> Result<(), CoreError> {
        let Output { statuses, versions, values } = self;
        let expected = statuses.space();
        let same_space = |column: &'static str, found: MemorySpace| {
            if found == expected { Ok(()) } else { Err(CoreError::MixedSpaces { column, found, expected }) }
        };
        check_count("statuses", statuses.len(), batch.len())?;
        if let Some(versions) = versions {
            same_space("versions", versions.space())?;
            check_count("versions", versions.len(), batch.len())?;
        }
        match values {
            OutputValues::None => {}
            OutputValues::Rows { len, bytes } => {
                same_space("values", bytes.space())?;
                if batch.value_spec().fixed_len() != Some(*len) {
                    return Err(CoreError::ValueLength { len: *len as u64, spec: batch.value_spec() });
                }
                check_count("values", bytes.len(), len.saturating_mul(batch.len()))?;
            }
            OutputValues::Spans { spans, bytes } => {
                same_space("spans", spans.space())?;
                same_space("values", bytes.space())?;
                check_count("spans", spans.len(), batch.len())?;
            }
        }
        Ok(())
    }

    /// Which memory the arrays are in.
    pub fn space(&self) -> MemorySpace {
        self.statuses.space()
    }

    /// The arrays: statuses, versions, values.
    pub fn columns(&self) -> (&ColumnMut<'a, Status>, Option<&ColumnMut<'a, u64>>, &OutputValues<'a>) {
        (&self.statuses, self.versions.as_ref(), &self.values)
    }

    /// Answers in host memory, all pending; `None` if the arrays are in device memory.
    pub fn into_host(self) -> Option<HostOutput<'a>> {
        let ColumnMut::Host(statuses) = self.statuses else { return None };
        let versions = match self.versions {
            None => None,
            Some(ColumnMut::Host(versions)) => Some(versions),
            Some(ColumnMut::Device(_)) => return None,
        };
        let values = match self.values {
            OutputValues::None => HostValues::None,
            OutputValues::Rows { len, bytes: ColumnMut::Host(bytes) } => HostValues::Rows { len, bytes },
            OutputValues::Spans { spans: ColumnMut::Host(spans), bytes: ColumnMut::Host(bytes) } => {
                spans.fill(Span::NONE);
                HostValues::Spans { spans, bytes, used: 0 }
            }
            OutputValues::Rows { .. } | OutputValues::Spans { .. } => return None,
        };
        let mut output = HostOutput { statuses, versions, values };
        output.statuses.fill(Status::Pending);
        if let Some(versions) = &mut output.versions {
            versions.fill(0);
        }
        Some(output)
    }
}

/// An [`Output`] in host memory.
#[derive(Debug)]
pub struct HostOutput<'a> {
    statuses: &'a mut [Status],
    versions: Option<&'a mut [u64]>,
    values: HostValues<'a>,
}

#[derive(Debug)]
enum HostValues<'a> {
    None,
    Rows { len: usize, bytes: &'a mut [u8] },
    Spans { spans: &'a mut [Span], bytes: &'a mut [u8], used: usize },
}

impl Answers for HostOutput<'_> {
    #[inline]
    fn answer(&mut self, index: usize, status: Status, version: u64) {
        self.statuses[index] = status;
        if let Some(versions) = &mut self.versions {
            versions[index] = version;
        }
    }

    #[inline]
    fn answer_value(&mut self, index: usize, status: Status, version: u64, value: &[u8]) -> Status {
        let noted = match &mut self.values {
            HostValues::None => status,
            HostValues::Rows { len, .. } if value.len() != *len => Status::Corrupt,
            HostValues::Rows { len, bytes } => {
                bytes[index * *len..][..*len].copy_from_slice(value);
                status
            }
            HostValues::Spans { spans, bytes, used } => match bytes[*used..].get_mut(..value.len()) {
                Some(room) => {
                    room.copy_from_slice(value);
                    spans[index] = Span { start: *used as u64, len: value.len() as u64 };
                    *used += value.len();
                    status
                }
                None => Status::OutputFull,
            },
        };
        self.answer(index, noted, version);
        noted
    }

    fn rows_mut(&mut self) -> Option<AnswerRows<'_>> {
        let HostOutput { statuses, versions, values } = self;
        let (row, values) = match values {
            HostValues::None => (0, None),
            HostValues::Rows { len, bytes } => (*len, Some(&mut bytes[..])),
            HostValues::Spans { .. } => return None,
        };
        Some(AnswerRows { statuses, versions: versions.as_deref_mut(), values, row, zeroes: false })
    }
}
