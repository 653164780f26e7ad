//! Tests that every index has to pass, written once.
//!
//! A [`Subject`] is an index in one of its forms. The tests of this crate run [`oracle`], [`threads`] and
//! [`adversary`] over all of them; an index's own tests cover only its own features. Crash scenarios differ by
//! index, because intermediate states do; how they are explored and checked is in [`crash`].
//!
//! Containers whose operations run as kernels have the tests in [`device`].

pub mod adversary;
pub mod crash;
pub mod device;
pub mod flips;
mod items;
pub mod oracle;
mod rig;
mod subject;
pub mod threads;

pub use items::Items;
pub use rig::{get, heap, put, remove, reopen, settled};
pub use subject::Subject;
