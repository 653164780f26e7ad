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
        }
    }
}
