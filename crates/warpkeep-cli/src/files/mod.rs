//! Files of items: CSV, JSON lines and NumPy arrays, read and written record by record.

mod csv_file;
mod csv_quotes;
mod input;
mod json_lines;
mod npy;
mod npy_file;
mod output_file;
mod raw_value;

pub(crate) use csv_file::{CsvColumns, CsvForm, CsvSink, CsvSource};
pub(crate) use input::Input;
pub(crate) use json_lines::{JsonForm, JsonSink, JsonSource, JsonValues};
pub(crate) use npy::Header;
pub(crate) use npy_file::{NpySink, NpySource};
pub(crate) use output_file::OutputFile;
pub(crate) use raw_value::{RawValue, ValueForm};

use std::path::Path;

use clap::ValueEnum;

use crate::cell::RawKey;
use crate::elements::Elements;
use crate::failure::Failure;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileFormat {
    /// Comma-separated values, one item a line.
    Csv,
    /// One JSON object a line, with `key` and `value`.
    Jsonl,
    /// A NumPy array, one row an item.
    Npy,
}

impl FileFormat {
    /// As requested, or else from the name of the file.
    pub(crate) fn of(asked: Option<FileFormat>, path: &Path) -> Result<FileFormat, Failure> {
        if let Some(format) = asked {
            return Ok(format);
        }
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        match extension.to_ascii_lowercase().as_str() {
            "csv" => Ok(FileFormat::Csv),
            "jsonl" | "ndjson" => Ok(FileFormat::Jsonl),
            "npy" => Ok(FileFormat::Npy),
            _ => Err(Failure::Usage(format!(
                "the name {} does not say what kind of file it is; give --format csv, jsonl or npy",
                path.display()
            ))),
        }
    }
}

/// An item as a file has it.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) key: RawKey,
    pub(crate) value: RawValue,
    /// Where it is: a line, or a row.
    pub(crate) at: u64,
}

/// An error in a file.
#[derive(Debug)]
pub(crate) enum Bad {
    /// One record is invalid; later ones may be valid.
    Record { at: u64, why: String },
    /// The rest of the file cannot be read.
    File(Failure),
}

/// A file that gives its items out.
pub(crate) trait Source {
    /// The unit of its records: `line` or `row`.
    fn unit(&self) -> &'static str;

    /// The number of records, if known.
    fn records(&self) -> Option<u64> {
        None
    }

    /// The elements of its values, if the file records them.
    fn elements(&self) -> Option<Elements> {
        None
    }

    /// The header line, if the values are rows of numbers under names.
    fn columns(&self) -> Option<String> {
        None
    }

    /// The next record; `None` at the end.
    fn next(&mut self) -> Result<Option<Record>, Bad>;
}

/// A file that items are written to.
pub(crate) trait Sink {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure>;

    /// Puts the file in its place.
    fn finish(self: Box<Self>) -> Result<(), Failure>;
}
