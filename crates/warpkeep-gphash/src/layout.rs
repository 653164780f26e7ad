//! What a slot holds.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use warpkeep_core::{KeySpec, ValueSpec};

use crate::TableError;

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Layout {
    /// One word: a tag and a reference to a record with key and value.
    Packed = 1,
    /// A fingerprint that is the slot's state, the key, and the value or a reference to it.
    InPlace = 2,
}

impl Layout {
    /// The default for such keys and values: in place where both fit into the slot, packed otherwise.
    pub fn for_items(key: KeySpec, value: ValueSpec) -> Layout {
        match (key.fixed_len(), value.fixed_len()) {
            (Some(8), Some(1..=8)) => Layout::InPlace,
            _ => Layout::Packed,
        }
    }

    /// The code stored with a table.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The layout of a stored code; `None` if this version does not know the code.
    pub fn from_code(code: u8) -> Option<Layout> {
        [Layout::Packed, Layout::InPlace].into_iter().find(|layout| layout.code() == code)
    }

    /// Its name as people write it.
    pub const fn name(self) -> &'static str {
        match self {
            Layout::Packed => "packed",
            Layout::InPlace => "in-place",
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Layout {
    type Err = TableError;

    fn from_str(text: &str) -> Result<Layout, TableError> {
        let layout = [Layout::Packed, Layout::InPlace].into_iter().find(|layout| layout.name() == text);
        layout.ok_or_else(|| TableError::LayoutText { text: text.to_owned() })
    }
}
