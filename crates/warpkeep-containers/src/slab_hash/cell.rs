//! Which keys and values a slab hash can have.

use std::fmt::Debug;
use std::hash::Hash;

use bytemuck::Pod;

/// Keys of slab hashes whose values are `V`: `u32` with `u32` and `u64` with `u64`; those of sets, whose values are `()`, are `u32` or `u64`.
pub trait SlabKey<V>: Pod + Ord + Hash + Debug + Send + Sync + sealed::Celled<V> {}

/// Values of slab hashes: `u32`, `u64`, or `()` in sets.
pub trait SlabValue: Pod + Eq + Debug + Default + Send + Sync + sealed::Counts {}

impl SlabKey<u32> for u32 {}
impl SlabKey<u64> for u64 {}
impl SlabKey<()> for u32 {}
impl SlabKey<()> for u64 {}

impl SlabValue for u32 {}
impl SlabValue for u64 {}
impl SlabValue for () {}

mod sealed {
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

    /// Values that kernels count in.
    pub trait Counts: Sized {
        /// The largest count that such a value holds.
        const MOST: u64;
        fn of_count(count: u64) -> Self;
        fn count(self) -> u64;
    }

    impl Counts for u32 {
        const MOST: u64 = u32::MAX as u64;
        fn of_count(count: u64) -> Self {
            count as u32
        }
        fn count(self) -> u64 {
            self.into()
        }
    }

    impl Counts for u64 {
        const MOST: u64 = u64::MAX;
        fn of_count(count: u64) -> Self {
            count
        }
        fn count(self) -> u64 {
            self
        }
    }

    impl Counts for () {
        const MOST: u64 = 0;
        fn of_count(_: u64) -> Self {}
        fn count(self) -> u64 {
            0
        }
    }
}

pub(super) use sealed::Cell;

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
}
