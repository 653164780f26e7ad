//! The cells of an index in device memory.

use bytemuck::NoUninit;
use warpkeep_device::{Buffer, Device, DevicePtr, Result};

use super::kernels::{CELLS, CONTROL_WORDS};
use super::layout::Layout;
use crate::spread_count::{COUNT_WORDS, sum};

/// What kernels need to use an index: the struct of the same name in `warpkeep/cuckoo_index.h`, to be a part of a kernel's parameters.
///
/// It is good as long as the index lives. The header says which operations of kernels may run at the same time; none may while a call of
/// the host changes the index.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub struct CuckooIndexRef {
    pub(super) cells: DevicePtr,
    pub(super) control: DevicePtr,
    pub(super) mask: u64,
}

#[derive(Debug)]
pub(super) struct Table {
    pub(super) cells: Buffer,
    /// The number of entries, and words that kernels count in.
    pub(super) control: Buffer,
    pub(super) layout: Layout,
}

impl Table {
    pub(super) fn new(device: &Device, layout: Layout) -> Result<Table> {
        Ok(Table {
            cells: device.allocate_zeroed(8 * CELLS * layout.buckets() as usize)?,
            control: device.allocate_zeroed(8 * CONTROL_WORDS)?,
            layout,
        })
    }

    pub(super) fn reference(&self) -> CuckooIndexRef {
        CuckooIndexRef { cells: self.cells.ptr(), control: self.control.ptr(), mask: self.layout.mask }
    }

    pub(super) fn len(&self) -> Result<u64> {
        let mut words = [0_u64; COUNT_WORDS];
        self.control.read(0, &mut words)?;
        Ok(sum(&words))
    }

    pub(super) fn clear(&self) -> Result<()> {
        self.cells.fill(0)?;
        self.control.fill(0)
    }
}
