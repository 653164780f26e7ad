//! Tables of Rust types.

mod as_cell;
mod cell;
mod table;

pub use as_cell::{AsKey, AsValue};
pub use cell::{Key, Row, Value};
pub use table::TypedTable;
