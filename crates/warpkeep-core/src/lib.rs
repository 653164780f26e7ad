//! The words Warpkeep is written in. No I/O happens here.

mod change;
mod durability;
mod lsn;

pub use change::{Change, ChangeKind};
pub use durability::Durability;
pub use lsn::Lsn;
