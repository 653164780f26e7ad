//! Which types columns may have.

use bytemuck::Pod;

/// Keys that can be sorted: unsigned integers of 4 or 8 bytes.
pub trait SortKey: Pod + Ord + sealed::Sealed {}

/// Payloads that move with their keys: any plain data of 4 or 8 bytes, or [`()`](unit) for none.
pub trait SortValue: Copy + sealed::Sealed {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
    impl Sealed for i32 {}
    impl Sealed for i64 {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
    impl Sealed for () {}
}

impl SortKey for u32 {}
impl SortKey for u64 {}

impl SortValue for u32 {}
impl SortValue for u64 {}
impl SortValue for i32 {}
impl SortValue for i64 {}
impl SortValue for f32 {}
impl SortValue for f64 {}
impl SortValue for () {}
