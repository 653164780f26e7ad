//! An address that kernels can use.

use std::fmt;

/// An address in a device's address space: what goes into the parameters of a kernel. It says nothing about how
/// long what it points to lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct DevicePtr(u64);

impl DevicePtr {
    /// The address that points to nothing.
    pub const NULL: Self = Self(0);

    /// The pointer with this address.
    pub const fn new(address: u64) -> Self {
        Self(address)
    }

    /// The address.
    pub const fn address(self) -> u64 {
        self.0
    }

    /// Whether it points to nothing.
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// The pointer `bytes` further on. Wraps around as addresses do; only a kernel that uses it can tell.
    #[must_use]
    pub const fn offset(self, bytes: u64) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl fmt::Debug for DevicePtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DevicePtr({:#x})", self.0)
    }
}
