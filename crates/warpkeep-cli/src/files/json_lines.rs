//! JSON lines: one object with `key` and `value` a line.

use std::io::{BufRead, BufReader, Read, Write};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use warpkeep::KeySpec;

use super::{Bad, OutputFile, Record, Sink, Source};
use crate::cell::{Coding, RawKey, Shown, shown_key};
use crate::failure::Failure;

/// The longest line: the longest value in its most wordy form, and then some. What is longer is another kind of file.
const LONGEST: u64 = 32 << 20;

/// A file of JSON lines to read.
pub(crate) struct JsonSource<R> {
    reader: BufReader<R>,
    coding: Coding,
    line: Vec<u8>,
    at: u64,
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
    pub(crate) fn new(input: R, coding: Coding) -> JsonSource<R> {
        JsonSource { reader: BufReader::new(input), coding, line: Vec::new(), at: 0 }
    }

    /// Reads a line; `false` at the end.
    fn read_line(&mut self) -> Result<bool, Bad> {
        self.line.clear();
        let read = self.reader.by_ref().take(LONGEST).read_until(b'\n', &mut self.line);
        let len = read.map_err(|error| Bad::File(Failure::error(format!("cannot read: {error}"))))?;
        self.at += 1;
        if len as u64 == LONGEST {
            return Err(Bad::File(Failure::error(format!(
                "line {} is longer than {LONGEST} bytes; is this a file of JSON lines?",
                self.at
            ))));
        }
        Ok(len > 0)
    }

    fn parse(&self) -> Result<(RawKey, Vec<u8>), String> {
        let text = std::str::from_utf8(&self.line)
            .map_err(|_| "it is no UTF-8 text; write other bytes as hex:... or base64:...")?;
        let form = "write it like {\"key\": 1, \"value\": \"...\"}";
        if !text.trim_start().starts_with('{') {
            return Err(format!("it is no JSON object; {form}"));
        }
        let line: Line<'_> = serde_json::from_str(text).map_err(|error| format!("{error}; {form}"))?;
        Ok((parse_key(line.key)?, self.coding.parse_json(line.value)?))
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
    coding: Coding,
}

impl JsonSink {
    pub(crate) fn new(file: OutputFile, key_spec: KeySpec, coding: Coding) -> JsonSink {
        JsonSink { file, key_spec, coding }
    }
}

impl Sink for JsonSink {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let key = shown_key(self.key_spec, key, false);
        let value = self.coding.show(value, false).map_err(Failure::error)?;
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
