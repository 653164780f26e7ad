//! Tables of Rust types.

mod cell;
mod table;

pub use cell::{Key, Row, Value};
pub use table::TypedTable;
