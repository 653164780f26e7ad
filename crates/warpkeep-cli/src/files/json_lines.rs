//! JSON lines: one object with `key` and `value` a line.

use std::io::{BufRead, BufReader, Read, Write};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use warpkeep::KeySpec;

use super::{Bad, OutputFile, Record, Sink, Source};
use crate::cell::{Coding, RawKey, Shown, scalar, shown_key};
use crate::elements::Elements;
use crate::failure::Failure;

/// The longest line: the longest value in its longest notation, with some margin. A longer line means another kind
/// of file.
const LONGEST: u64 = 32 << 20;

/// A file of JSON lines to read.
pub(crate) struct JsonSource<R> {
    reader: BufReader<R>,
    name: String,
    form: JsonValues,
    line: Vec<u8>,
    at: u64,
}

/// The accepted form of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum JsonValues {
    /// Text, or any form that the coding accepts.
    Coded(Coding),
    /// Text, or an array, which is a row of numbers.
    TextOrRow,
    /// An array, or one number.
    Row,
}

impl JsonValues {
    fn parse(self, json: &RawValue) -> Result<super::RawValue, String> {
        let first = json.get().as_bytes().first().copied().unwrap_or(b' ');
        let row = |items: &[&RawValue]| {
            items.iter().map(|item| scalar(item)).collect::<Result<_, _>>().map(super::RawValue::Numbers)
        };
        match (self, first) {
            (JsonValues::TextOrRow | JsonValues::Row, b'[') => {
                let items: Vec<&RawValue> =
                    serde_json::from_str(json.get()).map_err(|error| error.to_string())?;
                row(&items)
            }
            (JsonValues::Row, b'0'..=b'9' | b'-' | b'"' | b't' | b'f') => row(&[json]),
            (JsonValues::Coded(coding), _) => coding.parse_json(json).map(super::RawValue::Bytes),
            _ => Coding::Text.parse_json(json).map(super::RawValue::Bytes),
        }
    }
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    key: &'a RawValue,
    #[serde(borrow)]
    value: &'a RawValue,
}

#[derive(Serialize)]
struct Written {
    key: Shown,
    value: Shown,
}

impl<R: Read> JsonSource<R> {
    pub(crate) fn new(input: R, name: &str, form: JsonValues) -> JsonSource<R> {
        JsonSource { reader: BufReader::new(input), name: name.to_owned(), form, line: Vec::new(), at: 0 }
    }

    /// Reads a line; `false` at the end.
    fn read_line(&mut self) -> Result<bool, Bad> {
        self.line.clear();
        let read = self.reader.by_ref().take(LONGEST).read_until(b'\n', &mut self.line);
        let len = read.map_err(|error| {
            Bad::File(Failure::error(format!("cannot read {}: {error}; check the disk", self.name)))
        })?;
        self.at += 1;
        if len as u64 == LONGEST {
            return Err(Bad::File(Failure::error(format!(
                "{}, line {} is longer than {LONGEST} bytes; check that it is a file of JSON lines",
                self.name, self.at
            ))));
        }
        Ok(len > 0)
    }

    fn parse(&self) -> Result<(RawKey, super::RawValue), String> {
        let text = std::str::from_utf8(&self.line)
            .map_err(|_| "it is no UTF-8 text; write other bytes as hex:... or base64:...")?;
        let form = "write it like {\"key\": 1, \"value\": \"...\"}";
        if !text.trim_start().starts_with('{') {
            return Err(format!("it is no JSON object; {form}"));
        }
        let line: Line<'_> = serde_json::from_str(text).map_err(|error| format!("{error}; {form}"))?;
        Ok((parse_key(line.key)?, self.form.parse(line.value)?))
    }
}

fn parse_key(json: &RawValue) -> Result<RawKey, String> {
    let wrong =
        |_| format!("the key {} is neither a string nor an integer from 0 up; write it as one", json.get());
    match json.get().starts_with('"') {
        true => serde_json::from_str(json.get()).map(RawKey::Text).map_err(wrong),
        false => serde_json::from_str(json.get()).map(RawKey::Number).map_err(wrong),
    }
}

impl<R: Read> Source for JsonSource<R> {
    fn unit(&self) -> &'static str {
        "line"
    }

    fn next(&mut self) -> Result<Option<Record>, Bad> {
        while self.read_line()? {
            if self.line.trim_ascii().is_empty() {
                continue;
            }
            let at = self.at;
            return match self.parse() {
                Ok((key, value)) => Ok(Some(Record { key, value, at })),
                Err(why) => Err(Bad::Record { at, why }),
            };
        }
        Ok(None)
    }
}

/// A file of JSON lines to write.
pub(crate) struct JsonSink {
    file: OutputFile,
    key_spec: KeySpec,
    form: JsonForm,
}

/// The written form of a value.
pub(crate) enum JsonForm {
    Coded(Coding),
    /// An array of numbers, or one number where values are no rows.
    Rows(Elements),
}

impl JsonForm {
    fn show(&self, value: &[u8]) -> Result<Shown, String> {
        match self {
            JsonForm::Coded(coding) => coding.show(value, false),
            JsonForm::Rows(elements) => {
                let mut cells = elements.show(value)?;
                match (elements.shape.is_empty(), cells.pop()) {
                    (true, Some(cell)) => Ok(Shown::cell(cell)),
                    (_, last) => Ok(Shown::cells(cells.into_iter().chain(last).collect())),
                }
            }
        }
    }
}

impl JsonSink {
    pub(crate) fn new(file: OutputFile, key_spec: KeySpec, form: JsonForm) -> JsonSink {
        JsonSink { file, key_spec, form }
    }
}

impl Sink for JsonSink {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let key = shown_key(self.key_spec, key, false);
        let value = self.form.show(value).map_err(Failure::error)?;
        let doing = format!("write {}", self.file.name());
        serde_json::to_writer(&mut self.file, &Written { key, value })
            .map_err(std::io::Error::from)
            .and_then(|()| self.file.write_all(b"\n"))
            .map_err(Failure::io(doing))
    }

    fn finish(self: Box<Self>) -> Result<(), Failure> {
        self.file.finish()
    }
}
