//! CSV: a key and a value a line.

use std::io::Read;

use csv::{ByteRecord, ReaderBuilder, Writer};
use warpkeep::KeySpec;

use super::{Bad, OutputFile, Record, Sink, Source};
use crate::cell::{Coding, RawKey, shown_key};
use crate::failure::Failure;

/// A CSV file to read.
pub(crate) struct CsvSource<R> {
    reader: csv::Reader<R>,
    key: usize,
    value: usize,
    coding: Coding,
    record: ByteRecord,
}

impl<R: Read> CsvSource<R> {
    /// With `headers`, the first line names the columns.
    pub(crate) fn new(
        input: R,
        name: &str,
        columns: [&str; 2],
        headers: bool,
        coding: Coding,
    ) -> Result<CsvSource<R>, Failure> {
        let mut reader = ReaderBuilder::new().has_headers(headers).flexible(true).from_reader(input);
        let names = match headers {
            true => {
                reader.byte_headers().map_err(|error| Failure::error(format!("{name}: {error}")))?.clone()
            }
            false => ByteRecord::new(),
        };
        if headers && names.is_empty() {
            return Err(Failure::error(format!(
                "{name} is empty; its first line must name the columns, or give --no-headers"
            )));
        }
        let find = |wanted: &str| {
            let by_name = names.iter().position(|name| name == wanted.as_bytes());
            let by_number = || wanted.parse::<usize>().ok()?.checked_sub(1);
            by_name.or_else(by_number).ok_or_else(|| {
                let there: Vec<_> = names.iter().map(String::from_utf8_lossy).collect();
                Failure::error(format!(
                    "{name} has no column '{wanted}', only {}; give --key-column and --value-column, or --no-headers",
                    there.join(", ")
                ))
            })
        };
        let [key, value] = columns;
        let (key, value) = (find(key)?, find(value)?);
        Ok(CsvSource { reader, key, value, coding, record: ByteRecord::new() })
    }

    fn parse(&self) -> Result<(RawKey, Vec<u8>), String> {
        let field = |at: usize| {
            let bytes = self.record.get(at).ok_or_else(|| {
                format!("it has {} columns, and column {} is wanted", self.record.len(), at + 1)
            })?;
            std::str::from_utf8(bytes).map_err(|_| {
                format!("column {} is no UTF-8 text; write other bytes as hex:... or base64:...", at + 1)
            })
        };
        Ok((RawKey::Text(field(self.key)?.to_owned()), self.coding.parse(field(self.value)?)?))
    }
}

impl<R: Read> Source for CsvSource<R> {
    fn unit(&self) -> &'static str {
        "line"
    }

    fn next(&mut self) -> Result<Option<Record>, Bad> {
        let read = self.reader.read_byte_record(&mut self.record);
        // Records are of any length, so only reading itself can fail.
        let more = read.map_err(|error| Bad::File(Failure::error(format!("cannot read: {error}"))))?;
        let at = self.record.position().map_or(0, csv::Position::line);
        match more {
            false => Ok(None),
            true => match self.parse() {
                Ok((key, value)) => Ok(Some(Record { key, value, at })),
                Err(why) => Err(Bad::Record { at, why }),
            },
        }
    }
}

/// A CSV file to write.
pub(crate) struct CsvSink {
    writer: Writer<OutputFile>,
    key_spec: KeySpec,
    coding: Coding,
}

impl CsvSink {
    /// Begins with a line that names the columns.
    pub(crate) fn new(file: OutputFile, key_spec: KeySpec, coding: Coding) -> Result<CsvSink, Failure> {
        let mut writer = Writer::from_writer(file);
        writer.write_record(["key", "value"]).map_err(|error| cannot_write(&error))?;
        Ok(CsvSink { writer, key_spec, coding })
    }
}

fn cannot_write(error: &csv::Error) -> Failure {
    Failure::error(format!("cannot write: {error}"))
}

impl Sink for CsvSink {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let key = shown_key(self.key_spec, key, false).to_string();
        let value = self.coding.show(value, false).map_err(Failure::error)?.to_string();
        self.writer.write_record([key, value]).map_err(|error| cannot_write(&error))
    }

    fn finish(self: Box<Self>) -> Result<(), Failure> {
        let file = self.writer.into_inner();
        file.map_err(|error| Failure::error(format!("cannot write: {}", error.error())))?.finish()
    }
}
