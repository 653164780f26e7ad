//! Batches in device memory.

use warpkeep_device::{Buffer, DevicePtr, Stream};

use super::cell::Cell;
use super::request::SlabOpKind;
use crate::ContainerError;
use crate::slab_alloc::check_column;

/// The kinds of the requests of a batch in device memory.
#[derive(Debug, Clone, Copy)]
pub enum SlabOpKinds<'a> {
    /// All are the same. Batches of [`SlabOpKind::Search`] and [`SlabOpKind::Count`] alone are fastest.
    All(SlabOpKind),
    /// A byte for each request: a [`SlabOpKind`]. Other bytes are answered as [`SlabOpKind::Search`].
    Each(&'a Buffer),
}

/// A batch of requests to a slab hash in device memory.
#[derive(Debug, Clone, Copy)]
pub struct DeviceSlabOps<'a> {
    /// What the requests do.
    pub kinds: SlabOpKinds<'a>,
    /// Their keys.
    pub keys: &'a Buffer,
    /// Their values; 0 if there are none. Sets have none.
    pub values: Option<&'a Buffer>,
    /// How many there are.
    pub count: usize,
}

/// Where the answers to a [batch](DeviceSlabOps) in device memory go. What the buffers have before does not matter.
#[derive(Debug)]
pub struct DeviceSlabAnswers<'a> {
    /// A byte for each request: a [`SlabStatus`](super::SlabStatus).
    pub statuses: &'a mut Buffer,
    /// The value that each key had before, or the count; 0 where there is none. Sets have none.
    pub values: Option<&'a mut Buffer>,
}

/// The columns of a batch whose lengths and devices were checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    /// Null if all requests have the code `code`.
    pub(super) codes: DevicePtr,
    pub(super) code: u8,
    pub(super) keys: DevicePtr,
    pub(super) values: DevicePtr,
    pub(super) statuses: DevicePtr,
    pub(super) found: DevicePtr,
    pub(super) count: usize,
}

impl Columns {
    pub(super) fn of(
        cell: Cell,
        ops: &DeviceSlabOps<'_>,
        answers: DeviceSlabAnswers<'_>,
        stream: &Stream,
    ) -> Result<Self, ContainerError> {
        let (count, DeviceSlabAnswers { statuses, values }) = (ops.count, answers);
        let column = |buffer: Option<&Buffer>, element, what| match buffer {
            Some(buffer) if element > 0 => {
                check_column(buffer, element, count, what, stream).map(|()| buffer.ptr())
            }
            _ => Ok(DevicePtr::NULL),
        };
        let (codes, code) = match ops.kinds {
            SlabOpKinds::All(kind) => (None, kind as u8),
            SlabOpKinds::Each(codes) => (Some(codes), 0),
        };
        Ok(Self {
            codes: column(codes, 1, "kinds of requests")?,
            code,
            keys: column(Some(ops.keys), cell.key_bytes(), "keys")?,
            values: column(ops.values, cell.value_bytes(), "values")?,
            statuses: column(Some(&*statuses), 1, "statuses")?,
            found: column(values.as_deref(), cell.value_bytes(), "values before")?,
            count,
        })
    }
}
