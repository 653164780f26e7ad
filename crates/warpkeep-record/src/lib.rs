//! What the indexes share: records of a key beside its value in the heap of an image, values as readers see them, lines fetched ahead,
//! and walks over a whole table by all cores.
//!
//! An index decides where a record is found; what it looks like is the same for all of them.

mod item;
mod parallel;
pub mod prefetch;
mod record;

pub use item::{ItemRef, Value, ValueRef};
pub use parallel::in_parallel;
pub use record::{RecordForm, RecordRef};
