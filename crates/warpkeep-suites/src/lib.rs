//! Tests that every index has to pass, written once.
//!
//! A [`Subject`] is an index in one of its forms. What is in [`oracle`], [`threads`] and [`adversary`] is run over all of
//! them by the tests of this crate; an index's own tests are about what only it has. Crash scenarios differ, for what can
//! go wrong half way does; how they are explored and checked is in [`crash`].

pub mod adversary;
pub mod crash;
pub mod flips;
mod items;
pub mod oracle;
mod rig;
mod subject;
pub mod threads;

pub use items::Items;
pub use rig::{get, heap, is_alone, put, remove, reopen, settled};
pub use subject::Subject;
