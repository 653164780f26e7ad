//! Values as rows of numbers: what their elements are, as arrays, text and bytes.

mod dtype;
mod half;
mod number;
mod rows;
mod text;

pub(crate) use dtype::Dtype;
pub(crate) use rows::{Elements, elements_of, remember};

/// The attribute of a table that says what its values are rows of.
pub(crate) const ELEMENTS: &str = "elements";
/// The attribute that has the header line of the CSV file its rows came from.
pub(crate) const COLUMNS: &str = "columns";
