//! Arrays tagged with the memory they are in.
//!
//! The one promise of this crate that the compiler cannot check is made here: that an address in device memory is
//! valid. The caller makes it where the address enters, so that all later code is ordinary safe code.
#![allow(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;

/// The memory that data is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemorySpace {
    /// The process's own memory.
    Host,
    /// The memory of the device with this ordinal, or host memory at an address that device uses.
    Device(u32),
}

impl fmt::Display for MemorySpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemorySpace::Host => f.write_str("host"),
            MemorySpace::Device(ordinal) => write!(f, "device {ordinal}"),
        }
    }
}

/// A borrowed array in device memory: an address that the host does not follow.
pub struct DeviceSlice<'a, T> {
    address: u64,
    len: usize,
    device: u32,
    borrow: PhantomData<&'a [T]>,
}

impl<T> DeviceSlice<'_, T> {
    /// The array of `len` elements at `address` on device `device`.
    ///
    /// # Safety
    ///
    /// For as long as the slice is borrowed, `address` must be aligned for `T` and good for reading `len` elements
    /// from kernels on that device, and nothing may write there.
    pub unsafe fn from_raw(address: u64, len: usize, device: u32) -> Self {
        DeviceSlice { address, len, device, borrow: PhantomData }
    }

    /// Where it starts.
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// How many elements it has.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The ordinal of the device.
    pub const fn device(&self) -> u32 {
        self.device
    }
}

impl<T> Clone for DeviceSlice<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DeviceSlice<'_, T> {}

impl<T> fmt::Debug for DeviceSlice<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device {} {:#x}[{}]", self.device, self.address, self.len)
    }
}

/// A mutably borrowed array in device memory.
pub struct DeviceSliceMut<'a, T> {
    address: u64,
    len: usize,
    device: u32,
    borrow: PhantomData<&'a mut [T]>,
}

impl<T> DeviceSliceMut<'_, T> {
    /// The array of `len` elements at `address` on device `device`.
    ///
    /// # Safety
    ///
    /// For as long as the slice is borrowed, `address` must be aligned for `T` and good for reading and writing
    /// `len` elements from kernels on that device, and nothing else may read or write there.
    pub unsafe fn from_raw(address: u64, len: usize, device: u32) -> Self {
        DeviceSliceMut { address, len, device, borrow: PhantomData }
    }

    /// Where it starts.
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// How many elements it has.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The ordinal of the device.
    pub const fn device(&self) -> u32 {
        self.device
    }
}

impl<T> fmt::Debug for DeviceSliceMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device {} {:#x}[{}] mut", self.device, self.address, self.len)
    }
}

/// A borrowed array in either memory.
#[derive(Debug)]
pub enum Column<'a, T> {
    /// In host memory.
    Host(&'a [T]),
    /// In device memory.
    Device(DeviceSlice<'a, T>),
}

impl<'a, T> Column<'a, T> {
    /// How many elements it has.
    pub const fn len(&self) -> usize {
        match self {
            Column::Host(slice) => slice.len(),
            Column::Device(slice) => slice.len(),
        }
    }

    /// Whether it has none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where it is.
    pub const fn space(&self) -> MemorySpace {
        match self {
            Column::Host(_) => MemorySpace::Host,
            Column::Device(slice) => MemorySpace::Device(slice.device()),
        }
    }

    /// Its elements, if the host can read them.
    pub const fn host(&self) -> Option<&'a [T]> {
        match self {
            Column::Host(slice) => Some(slice),
            Column::Device(_) => None,
        }
    }
}

impl<T> Clone for Column<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Column<'_, T> {}

impl<'a, T> From<&'a [T]> for Column<'a, T> {
    fn from(slice: &'a [T]) -> Self {
        Column::Host(slice)
    }
}

/// A mutably borrowed array in either memory.
#[derive(Debug)]
pub enum ColumnMut<'a, T> {
    /// In host memory.
    Host(&'a mut [T]),
    /// In device memory.
    Device(DeviceSliceMut<'a, T>),
}

impl<T> ColumnMut<'_, T> {
    /// How many elements it has.
    pub const fn len(&self) -> usize {
        match self {
            ColumnMut::Host(slice) => slice.len(),
            ColumnMut::Device(slice) => slice.len(),
        }
    }

    /// Whether it has none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where it is.
    pub const fn space(&self) -> MemorySpace {
        match self {
            ColumnMut::Host(_) => MemorySpace::Host,
            ColumnMut::Device(slice) => MemorySpace::Device(slice.device()),
        }
    }
}

impl<'a, T> From<&'a mut [T]> for ColumnMut<'a, T> {
    fn from(slice: &'a mut [T]) -> Self {
        ColumnMut::Host(slice)
    }
}
