//! Which keys and values a slab hash can have.

use std::fmt::Debug;
use std::hash::Hash;

use bytemuck::Pod;
use warpkeep_device::{Arch, DeviceError};

/// Keys of slab hashes whose values are `V`: `u32` with `u32` and `u64` with `u64`; those of sets, whose values are `()`, are `u32` or `u64`.
pub trait SlabKey<V>: Pod + Ord + Hash + Debug + Send + Sync + sealed::Celled<V> {}

/// Values of maps and multimaps: `u32` or `u64`. Keys without values are in sets.
///
/// ```compile_fail
/// use warpkeep_containers::{SlabHashOptions, SlabMap};
///
/// let map = SlabMap::<u32, ()>::on_cpu(SlabHashOptions::default());
/// ```
///
/// ```compile_fail
/// use warpkeep_containers::{SlabHashOptions, SlabMultiMap};
///
/// let map = SlabMultiMap::<u64, ()>::on_cpu(SlabHashOptions::default());
/// ```
pub trait SlabValue: Pod + Eq + Debug + Default + Send + Sync + sealed::CellValue {}

impl SlabKey<u32> for u32 {}
impl SlabKey<u64> for u64 {}
impl SlabKey<()> for u32 {}
impl SlabKey<()> for u64 {}

impl SlabValue for u32 {}
impl SlabValue for u64 {}

mod sealed {
    use std::fmt::Debug;

    use bytemuck::Pod;

    /// The cells of slabs.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Cell {
        Pair32,
        Pair64,
        Key32,
        Key64,
    }

    pub trait Celled<V> {
        const CELL: Cell;
    }

    impl Celled<u32> for u32 {
        const CELL: Cell = Cell::Pair32;
    }

    impl Celled<u64> for u64 {
        const CELL: Cell = Cell::Pair64;
    }

    impl Celled<()> for u32 {
        const CELL: Cell = Cell::Key32;
    }

    impl Celled<()> for u64 {
        const CELL: Cell = Cell::Key64;
    }

    /// What cells have beside a key: a value that kernels count in, or nothing.
    pub trait CellValue: Pod + Eq + Debug + Default + Send + Sync {
        /// The largest count that such a value holds.
        const MOST: u64;
        fn of_count(count: u64) -> Self;
        fn count(self) -> u64;
    }

    impl CellValue for u32 {
        const MOST: u64 = u32::MAX as u64;
        fn of_count(count: u64) -> Self {
            count as u32
        }
        fn count(self) -> u64 {
            self.into()
        }
    }

    impl CellValue for u64 {
        const MOST: u64 = u64::MAX;
        fn of_count(count: u64) -> Self {
            count
        }
        fn count(self) -> u64 {
            self
        }
    }

    impl CellValue for () {
        const MOST: u64 = 0;
        fn of_count(_: u64) -> Self {}
        fn count(self) -> u64 {
            0
        }
    }
}

pub(super) use sealed::{Cell, CellValue};

impl Cell {
    /// Bytes of a cell, and of the link behind the cells of a slab.
    pub(super) const fn bytes(self) -> u32 {
        match self {
            Self::Key32 => 4,
            Self::Pair32 | Self::Key64 => 8,
            Self::Pair64 => 16,
        }
    }

    pub(super) const fn key_bytes(self) -> usize {
        match self {
            Self::Pair32 | Self::Key32 => 4,
            Self::Pair64 | Self::Key64 => 8,
        }
    }

    /// 0 if cells have no values.
    pub(super) const fn value_bytes(self) -> usize {
        match self {
            Self::Pair32 => 4,
            Self::Pair64 => 8,
            Self::Key32 | Self::Key64 => 0,
        }
    }

    /// The size of slabs that suits these cells best: 64 bytes cost no more to read than 8, but hold only three of the largest.
    pub(super) const fn best_slab_bytes(self) -> u32 {
        match self {
            Self::Pair64 => 128,
            _ => 64,
        }
    }

    /// An error if a GPU of this architecture cannot change such cells as a whole.
    pub(super) fn check_arch(self, arch: Option<Arch>) -> Result<(), DeviceError> {
        match arch {
            Some(arch) if self.bytes() == 16 && arch < WIDE_CAS => Err(DeviceError::Call {
                call: "a slab hash of 64-bit keys and values",
                code: "compute capability".to_owned(),
                text: format!("{arch} has no compare-and-swap of 16 bytes"),
                advice: "use a HashMap with values of 16 bytes, keys and values of 32 bits, or a GPU of compute capability 9.0 or later",
            }),
            _ => Ok(()),
        }
    }
}

/// The first architecture with a compare-and-swap of 16 bytes.
const WIDE_CAS: Arch = Arch::new(9, 0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_pairs_need_a_gpu_that_swaps_sixteen_bytes() {
        let error = Cell::Pair64.check_arch(Some(Arch::new(8, 9))).unwrap_err();
        assert!(error.to_string().contains("use a HashMap"), "{error}");
        for arch in [None, Some(Arch::new(9, 0)), Some(Arch::new(10, 0))] {
            Cell::Pair64.check_arch(arch).unwrap();
        }
        Cell::Pair32.check_arch(Some(Arch::new(7, 0))).unwrap();
    }
}
