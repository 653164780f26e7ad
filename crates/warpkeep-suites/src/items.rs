//! Kinds of items that tables are tried with.

use warpkeep_core::{KeySpec, ValueSpec};

/// The kind of keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Items {
    /// Keys and values of 8 bytes.
    Words,
    /// Keys of 8 bytes, values of 16.
    Rows,
    /// Keys of 20 bytes, values of 8.
    KeyedWords,
    /// Keys of 20 bytes, values of 16.
    KeyedRows,
    /// Keys of any length up to 30, values of 16.
    NamedRows,
    /// Keys and values of any length.
    Variable,
}

impl Items {
    /// All of them.
    pub const ALL: [Items; 6] =
        [Items::Words, Items::Rows, Items::KeyedWords, Items::KeyedRows, Items::NamedRows, Items::Variable];

    /// The specs of a table for them.
    pub fn specs(self) -> (KeySpec, ValueSpec) {
        let key = |len| KeySpec::fixed(len).expect("a length");
        let value = |len| ValueSpec::fixed(len).expect("a length");
        match self {
            Items::Words => (KeySpec::U64, value(8)),
            Items::Rows => (KeySpec::U64, value(16)),
            Items::KeyedWords => (key(20), value(8)),
            Items::KeyedRows => (key(20), value(16)),
            Items::NamedRows => (KeySpec::variable(30).expect("a length"), value(16)),
            Items::Variable => {
                (KeySpec::variable(40).expect("a length"), ValueSpec::variable(200).expect("a length"))
            }
        }
    }

    /// The key of a number.
    pub fn key(self, number: u64) -> Vec<u8> {
        match self {
            Items::Words | Items::Rows => number.to_le_bytes().to_vec(),
            Items::KeyedWords | Items::KeyedRows => format!("{number:020}").into_bytes(),
            Items::NamedRows | Items::Variable => {
                format!("{number:0width$}", width = 1 + number as usize % 30).into_bytes()
            }
        }
    }

    /// A value that identifies its key.
    pub fn value(self, key: u64, version: u64) -> Vec<u8> {
        match self {
            Items::Words | Items::KeyedWords => (key << 32 | version).to_le_bytes().to_vec(),
            Items::Rows | Items::KeyedRows | Items::NamedRows => {
                [key.to_le_bytes(), version.to_le_bytes()].concat()
            }
            Items::Variable => {
                let repeated = 1 + (key + version) as usize % 5;
                [key.to_le_bytes(), version.to_le_bytes()].concat().repeat(repeated)
            }
        }
    }
}
