//! Which keys and values there are.

use std::fmt::Debug;
use std::hash::Hash;

use bytemuck::Pod;

use super::op::OrderedOpKind;

/// Keys and values of an [`OrderedMap`](super::OrderedMap): unsigned integers of 4, 8 or, for keys, 16 bytes.
pub trait OrderedWord: Pod + Ord + Hash + Debug + Default + Send + Sync + sealed::Word + 'static {
    /// The largest one.
    const LARGEST: Self;

    /// The same number.
    fn to_u128(self) -> u128;

    /// The same number, modulo 2^32 or 2^64 if it has fewer bits.
    fn from_u128(number: u128) -> Self;
}

/// Keys of an [`OrderedMap`](super::OrderedMap) with values `V`: `u32` with `u32`, `u64` with `u64`, `u128` with `u64`.
pub trait OrderedKey<V>: OrderedWord + sealed::Shaped<V> {}

impl OrderedWord for u32 {
    const LARGEST: Self = u32::MAX;

    fn to_u128(self) -> u128 {
        self.into()
    }

    fn from_u128(number: u128) -> Self {
        number as u32
    }
}

impl OrderedWord for u64 {
    const LARGEST: Self = u64::MAX;

    fn to_u128(self) -> u128 {
        self.into()
    }

    fn from_u128(number: u128) -> Self {
        number as u64
    }
}

impl OrderedWord for u128 {
    const LARGEST: Self = u128::MAX;

    fn to_u128(self) -> u128 {
        self
    }

    fn from_u128(number: u128) -> Self {
        number
    }
}

impl OrderedKey<u32> for u32 {}
impl OrderedKey<u64> for u64 {}
impl OrderedKey<u64> for u128 {}

/// The value of a key that had another: `updated` of `warpkeep/ordered_map.h`.
pub(super) fn updated<V: OrderedWord>(kind: OrderedOpKind, old: V, operand: V) -> V {
    match kind {
        OrderedOpKind::Put => operand,
        OrderedOpKind::Add => V::from_u128(old.to_u128().wrapping_add(operand.to_u128())),
        OrderedOpKind::Min => old.min(operand),
        OrderedOpKind::Max => old.max(operand),
        _ => old,
    }
}

pub(super) mod sealed {
    /// The types that there are kernels for.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Shape {
        /// Keys and values of 32 bits.
        U32,
        /// Keys and values of 64 bits.
        U64,
        /// Keys of 128 bits, and values of 64.
        U128,
    }

    pub trait Word {}
    impl Word for u32 {}
    impl Word for u64 {}
    impl Word for u128 {}

    pub trait Shaped<V> {
        const SHAPE: Shape;
    }
    impl Shaped<u32> for u32 {
        const SHAPE: Shape = Shape::U32;
    }
    impl Shaped<u64> for u64 {
        const SHAPE: Shape = Shape::U64;
    }
    impl Shaped<u64> for u128 {
        const SHAPE: Shape = Shape::U128;
    }
}
