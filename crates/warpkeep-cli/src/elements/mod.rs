//! Values as rows of numbers: their elements in arrays, text and bytes.

mod dtype;
mod half;
mod number;
mod rows;
mod text;

pub(crate) use dtype::Dtype;
pub(crate) use rows::{Elements, elements_of, remember};

/// The table attribute with the element type of its values.
pub(crate) const ELEMENTS: &str = "elements";
/// The table attribute with the header line of the CSV file its rows came from.
pub(crate) const COLUMNS: &str = "columns";
