//! The keys, or the values, of a batch.

use crate::{Column, CoreError, MemorySpace};

/// A type that can be a key or a value: bytes, or an integer as its 8 bytes, little-endian.
pub trait ToCell {
    /// The bytes, owned or borrowed.
    type Bytes: AsRef<[u8]>;

    /// The bytes that are stored.
    fn to_cell(self) -> Self::Bytes;
}

impl ToCell for u64 {
    type Bytes = [u8; 8];

    fn to_cell(self) -> [u8; 8] {
        self.to_le_bytes()
    }
}

impl<'a, T: AsRef<[u8]> + ?Sized> ToCell for &'a T {
    type Bytes = &'a T;

    fn to_cell(self) -> &'a T {
        self
    }
}

/// The keys, or the values, of a batch: one cell of bytes an operation.
#[derive(Clone, Copy, Debug)]
pub enum Cells<'a> {
    /// Every cell is empty: a batch without values.
    Empty,
    /// Cells of one length, one after the other.
    Fixed {
        /// The length of a cell in bytes.
        len: usize,
        /// All cells.
        bytes: Column<'a, u8>,
    },
    /// Cells of any length: cell *i* is `bytes[offsets[i]..offsets[i + 1]]`.
    Variable {
        /// The offsets of the cells, and the end of the last: one more than there are cells.
        offsets: Column<'a, u64>,
        /// All cells.
        bytes: Column<'a, u8>,
    },
}

impl<'a> Cells<'a> {
    /// Integers as cells of 8 bytes, without copying them.
    pub fn u64s(numbers: &'a [u64]) -> Cells<'a> {
        Cells::Fixed { len: 8, bytes: Column::Host(bytemuck::cast_slice(numbers)) }
    }

    /// Rows of `width` floats as cells of `4 * width` bytes, without copying them.
    pub fn f32_rows(width: usize, floats: &'a [f32]) -> Cells<'a> {
        Cells::Fixed { len: width.saturating_mul(4), bytes: Column::Host(bytemuck::cast_slice(floats)) }
    }

    /// Cells of `len` bytes each.
    pub fn fixed(len: usize, bytes: &'a [u8]) -> Cells<'a> {
        Cells::Fixed { len, bytes: Column::Host(bytes) }
    }

    /// Cells of any length; see [`Cells::Variable`].
    pub fn variable(offsets: &'a [u64], bytes: &'a [u8]) -> Cells<'a> {
        Cells::Variable { offsets: Column::Host(offsets), bytes: Column::Host(bytes) }
    }

    /// The number of cells; `None` for [`Cells::Empty`], which has any number. Refuses an invalid shape.
    pub(crate) fn count(&self, column: &'static str) -> Result<Option<usize>, CoreError> {
        match self {
            Cells::Empty => Ok(None),
            Cells::Fixed { len, bytes } => {
                match (bytes.len().checked_rem(*len), bytes.len().checked_div(*len)) {
                    (Some(0), Some(count)) => Ok(Some(count)),
                    (Some(rest), _) => {
                        let found = bytes.len() as u64;
                        Err(CoreError::ColumnLength { column, found, expected: found - rest as u64 })
                    }
                    _ => Err(CoreError::ColumnLength { column, found: 0, expected: 1 }),
                }
            }
            Cells::Variable { offsets, .. } => match offsets.len().checked_sub(1) {
                Some(count) => Ok(Some(count)),
                None => Err(CoreError::ColumnLength { column, found: 0, expected: 1 }),
            },
        }
    }

    /// Refuses a column that is not in `expected` memory.
    pub(crate) fn check_space(&self, column: &'static str, expected: MemorySpace) -> Result<(), CoreError> {
        let (first, second) = match self {
            Cells::Empty => return Ok(()),
            Cells::Fixed { bytes, .. } => (bytes.space(), bytes.space()),
            Cells::Variable { offsets, bytes } => (offsets.space(), bytes.space()),
        };
        for found in [first, second] {
            if found != expected {
                return Err(CoreError::MixedSpaces { column, found, expected });
            }
        }
        Ok(())
    }

    /// The memory the cells are in; `None` if there are no bytes.
    pub(crate) fn space(&self) -> Option<MemorySpace> {
        match self {
            Cells::Empty => None,
            Cells::Fixed { bytes, .. } | Cells::Variable { bytes, .. } => Some(bytes.space()),
        }
    }

    /// The cells, if the host can read them.
    pub fn host(&self) -> Option<HostCells<'a>> {
        match self {
            Cells::Empty => Some(HostCells::Empty),
            Cells::Fixed { len, bytes } => Some(HostCells::Fixed { len: *len, bytes: bytes.host()? }),
            Cells::Variable { offsets, bytes } => {
                Some(HostCells::Variable { offsets: offsets.host()?, bytes: bytes.host()? })
            }
        }
    }
}

/// [`Cells`] in host memory.
#[derive(Clone, Copy, Debug)]
pub enum HostCells<'a> {
    /// Every cell is empty.
    Empty,
    /// Cells of one length.
    Fixed {
        /// The length of a cell in bytes.
        len: usize,
        /// All cells.
        bytes: &'a [u8],
    },
    /// Cells of any length.
    Variable {
        /// Where cells begin and end.
        offsets: &'a [u64],
        /// All cells.
        bytes: &'a [u8],
    },
}

impl<'a> HostCells<'a> {
    /// The bytes of cell `index`.
    ///
    /// # Panics
    ///
    /// If there is no such cell. The cells of a [`BatchView`](crate::BatchView) were checked when it was made.
    #[inline]
    pub fn get(&self, index: usize) -> &'a [u8] {
        match self {
            HostCells::Empty => &[],
            HostCells::Fixed { len, bytes } => &bytes[index * len..][..*len],
            HostCells::Variable { offsets, bytes } => {
                &bytes[offsets[index] as usize..offsets[index + 1] as usize]
            }
        }
    }

    /// Refuses offsets that run backwards or out of the bytes.
    pub(crate) fn check_offsets(&self, column: &'static str) -> Result<(), CoreError> {
        let HostCells::Variable { offsets, bytes } = self else { return Ok(()) };
        let len = bytes.len() as u64;
        for (index, pair) in offsets.windows(2).enumerate() {
            let (start, end) = (pair[0], pair[1]);
            if start > end || end > len {
                return Err(CoreError::Offsets { column, index, start, end, len });
            }
        }
        Ok(())
    }
}
