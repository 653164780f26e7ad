//! A value as a file has it, and its form in a table.

use crate::elements::Elements;

/// A value as a file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RawValue {
    /// The bytes that are stored.
    Bytes(Vec<u8>),
    /// The texts of a row's elements; their type is the table's.
    Numbers(Vec<String>),
}

impl RawValue {
    /// How much of a batch it takes, about.
    pub(crate) fn weight(&self) -> usize {
        match self {
            RawValue::Bytes(bytes) => bytes.len(),
            RawValue::Numbers(texts) => 8 * texts.len(),
        }
    }
}

/// How values are converted from a file to a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValueForm {
    /// The elements of the table's values, if known.
    pub(crate) to: Option<Elements>,
    /// The elements of the file's values, if they are converted.
    pub(crate) convert: Option<Elements>,
}

impl ValueForm {
    /// The bytes that are stored.
    pub(crate) fn bytes(&self, value: RawValue) -> Result<Vec<u8>, String> {
        match (value, &self.to, &self.convert) {
            (RawValue::Bytes(bytes), Some(to), Some(from)) => from.convert(&bytes, to),
            (RawValue::Bytes(bytes), ..) => Ok(bytes),
            (RawValue::Numbers(texts), Some(to), _) => to.parse(texts.iter().map(String::as_str)),
            (RawValue::Numbers(_), None, _) => Err(
                "the value is an array, and the table does not say of what numbers; give --dtype f32 or another type, \
                 or --as f32"
                    .into(),
            ),
        }
    }
}
