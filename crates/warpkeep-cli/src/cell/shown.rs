//! A key or a value as it is given out.

use std::fmt;

use serde::Serialize;

use super::float::Float;

/// A key or a value: text for people; in JSON a string, a number or an array of numbers.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Shown {
    Text(String),
    Number(u64),
    Floats(Vec<Float>),
    Cell(Cell),
    Cells(Vec<Cell>),
}

/// An element of a row as text; in JSON a number if it is one there, too.
#[derive(Clone, Debug)]
pub(crate) struct Cell(String);

impl Serialize for Cell {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serde_json::from_str::<serde_json::Value>(&self.0) {
            Ok(number @ (serde_json::Value::Number(_) | serde_json::Value::Bool(_))) => {
                number.serialize(serializer)
            }
            _ => serializer.serialize_str(&self.0),
        }
    }
}

impl Shown {
    /// One element.
    pub(crate) fn cell(text: String) -> Shown {
        Shown::Cell(Cell(text))
    }

    /// The elements of a row.
    pub(crate) fn cells(texts: Vec<String>) -> Shown {
        Shown::Cells(texts.into_iter().map(Cell).collect())
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shown::Text(text) => f.write_str(text),
            Shown::Number(number) => write!(f, "{number}"),
            Shown::Floats(floats) => floats.iter().enumerate().try_for_each(|(at, float)| {
                let space = if at == 0 { "" } else { " " };
                write!(f, "{space}{float}")
            }),
            Shown::Cell(Cell(text)) => f.write_str(text),
            Shown::Cells(cells) => cells.iter().enumerate().try_for_each(|(at, Cell(text))| {
                let space = if at == 0 { "" } else { " " };
                write!(f, "{space}{text}")
            }),
        }
    }
}
