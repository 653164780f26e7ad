//! CSV: a key and a value a line, or a key and the elements of a row.

use std::io::Read;

use csv::{ByteRecord, ReaderBuilder, Writer};
use warpkeep::KeySpec;

use super::csv_quotes::QuoteCheck;
use super::{Bad, OutputFile, RawValue, Record, Sink, Source};
use crate::cell::{Coding, RawKey, shown_key};
use crate::elements::Elements;
use crate::failure::Failure;

/// Names of the column that holds keys.
const KEYS: [&str; 2] = ["key", "id"];
const VALUE: &str = "value";

/// The columns of a CSV file, and their contents.
#[derive(Clone, Debug, Default)]
pub(crate) struct CsvColumns {
    /// The column of keys, by name or by number from 1.
    pub(crate) key: Option<String>,
    /// The column of values.
    pub(crate) value: Option<String>,
    /// The first line names the columns.
    pub(crate) headers: bool,
    /// All columns but that of the key are numbers of a row, whatever they are called.
    pub(crate) rows: bool,
}

/// A CSV file to read.
pub(crate) struct CsvSource<R> {
    reader: csv::Reader<QuoteCheck<R>>,
    name: String,
    names: ByteRecord,
    key: usize,
    values: Values,
    coding: Coding,
    record: ByteRecord,
    /// Columns of every line; of the first one if no line names them.
    columns: Option<usize>,
}

/// Which columns make a value.
enum Values {
    /// This one.
    One(usize),
    /// All but that of the key: a row of numbers.
    Rest,
}

impl<R: Read> CsvSource<R> {
    pub(crate) fn new(
        input: R,
        name: &str,
        wanted: &CsvColumns,
        coding: Coding,
    ) -> Result<CsvSource<R>, Failure> {
        let mut reader = ReaderBuilder::new()
            .has_headers(wanted.headers)
            .flexible(true)
            .from_reader(QuoteCheck::new(input));
        let names = match wanted.headers {
            true => reader.byte_headers().map_err(|error| unreadable(name, error))?.clone(),
            false => ByteRecord::new(),
        };
        if wanted.headers && names.is_empty() {
            return Err(Failure::error(format!(
                "{name} is empty; its first line must name the columns, or give --no-headers"
            )));
        }
        let by_name = |wanted: &str| names.iter().position(|name| name == wanted.as_bytes());
        let there = || names.iter().map(String::from_utf8_lossy).collect::<Vec<_>>().join(", ");
        let find = |wanted: &str| {
            let by_number = || wanted.parse::<usize>().ok()?.checked_sub(1);
            by_name(wanted).or_else(by_number).ok_or_else(|| {
                Failure::error(format!(
                    "{name} has no column '{wanted}', only {}; give --key-column and --value-column, or --no-headers",
                    there()
                ))
            })
        };
        let key = match (&wanted.key, wanted.headers) {
            (Some(key), _) => find(key)?,
            (None, false) => 0,
            (None, true) => match KEYS.iter().find_map(|key| by_name(key)) {
                Some(key) => key,
                None => find(KEYS[0])?,
            },
        };
        let values = match (&wanted.value, wanted.headers) {
            (Some(value), _) => Values::One(find(value)?),
            (None, _) if wanted.rows => Values::Rest,
            (None, false) => Values::One(1),
            (None, true) => match by_name(VALUE) {
                // More columns than a key and a value, and no choice between them.
                Some(_) if names.len() > 2 => {
                    return Err(Failure::error(format!(
                        "{name} has the columns {}; give --key-column and --value-column to load two of them, or --dtype \
                         to load all as rows of numbers",
                        there()
                    )));
                }
                Some(value) => Values::One(value),
                None if names.len() > 1 => Values::Rest,
                None => Values::One(find(VALUE)?),
            },
        };
        let columns = wanted.headers.then_some(names.len());
        let (name, record) = (name.to_owned(), ByteRecord::new());
        let mut source = CsvSource { reader, name, names, key, values, coding, record, columns };
        // Columns chosen explicitly exclude the others on purpose; otherwise there is a key and a value.
        if !wanted.headers && !wanted.rows && (wanted.key.is_none() && wanted.value.is_none()) {
            source.columns = Some(2);
        }
        Ok(source)
    }

    fn parse(&mut self) -> Result<(RawKey, RawValue), String> {
        let found = self.record.len();
        let columns = *self.columns.get_or_insert(found);
        if found != columns {
            let why = match self.names.is_empty() {
                true => format!("and {columns} are wanted"),
                false => format!("and the header names {columns}"),
            };
            return Err(format!("it has {found} columns, {why}; put a value with a comma in it in quotes"));
        }
        let field = |at: usize| {
            let bytes = self
                .record
                .get(at)
                .ok_or_else(|| format!("it has {found} columns, and column {} is wanted", at + 1))?;
            std::str::from_utf8(bytes).map_err(|_| {
                format!("column {} is no UTF-8 text; write other bytes as hex:... or base64:...", at + 1)
            })
        };
        let value = match self.values {
            Values::One(at) => RawValue::Bytes(self.coding.parse(field(at)?)?),
            Values::Rest => {
                let others = (0..found).filter(|at| *at != self.key);
                RawValue::Numbers(others.map(|at| field(at).map(str::to_owned)).collect::<Result<_, _>>()?)
            }
        };
        Ok((RawKey::Text(field(self.key)?.to_owned()), value))
    }
}

/// The reader's error, without the name of the library.
fn unreadable(name: &str, error: csv::Error) -> Failure {
    let why = match error.into_kind() {
        csv::ErrorKind::Io(error) => error.to_string(),
        other => format!("{other:?}"),
    };
    Failure::error(format!("{name}, {why}"))
}

impl<R: Read> Source for CsvSource<R> {
    fn unit(&self) -> &'static str {
        "line"
    }

    fn columns(&self) -> Option<String> {
        match self.values {
            Values::Rest if !self.names.is_empty() => {
                // That of the key first, as a dump writes it.
                let others = self.names.iter().enumerate().filter(|(at, _)| *at != self.key);
                let names = self.names.get(self.key).into_iter().chain(others.map(|(_, name)| name));
                let mut writer = Writer::from_writer(Vec::new());
                writer.write_record(names).ok()?;
                let line = String::from_utf8(writer.into_inner().ok()?).ok()?;
                Some(line.trim_end_matches('\n').to_owned())
            }
            _ => None,
        }
    }

    fn next(&mut self) -> Result<Option<Record>, Bad> {
        let read = self.reader.read_byte_record(&mut self.record);
        // Records are of any length, so only reading itself can fail, or quotes be out of order.
        let more = read.map_err(|error| Bad::File(unreadable(&self.name, error)))?;
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
    form: CsvForm,
}

/// The written form of a value.
pub(crate) enum CsvForm {
    /// One column, under the name `value`.
    Value(Coding),
    /// One column for each element, under the names of the header line if their number matches.
    Rows(Elements, Option<String>),
}

impl CsvForm {
    /// The names of the columns, that of the key first.
    fn names(&self) -> Vec<String> {
        let (count, header) = match self {
            CsvForm::Value(_) => return vec![KEYS[0].to_owned(), VALUE.to_owned()],
            CsvForm::Rows(elements, header) => (elements.count().unwrap_or(0), header),
        };
        let known = header.as_ref().and_then(|line| {
            let mut reader = ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes());
            let names = reader.records().next()?.ok()?;
            (names.len() as u64 == count + 1).then(|| names.iter().map(str::to_owned).collect())
        });
        known.unwrap_or_else(|| {
            let numbered = (0..count).map(|number| format!("f{number}"));
            std::iter::once(KEYS[1].to_owned()).chain(numbered).collect()
        })
    }
}

impl CsvSink {
    /// Begins with a line that names the columns.
    pub(crate) fn new(file: OutputFile, key_spec: KeySpec, form: CsvForm) -> Result<CsvSink, Failure> {
        let mut writer = Writer::from_writer(file);
        writer.write_record(form.names()).map_err(|error| cannot_write(&error))?;
        Ok(CsvSink { writer, key_spec, form })
    }
}

fn cannot_write(error: &csv::Error) -> Failure {
    Failure::error(format!("cannot write: {error}; check the disk, and that the place can be written"))
}

impl Sink for CsvSink {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let key = shown_key(self.key_spec, key, false).to_string();
        let cells = match &self.form {
            CsvForm::Value(coding) => vec![coding.show(value, false).map_err(Failure::error)?.to_string()],
            CsvForm::Rows(elements, _) => elements.show(value).map_err(Failure::error)?,
        };
        self.writer.write_record(std::iter::once(key).chain(cells)).map_err(|error| cannot_write(&error))
    }

    fn finish(self: Box<Self>) -> Result<(), Failure> {
        let file = self.writer.into_inner();
        file.map_err(|error| Failure::error(format!("cannot write: {}; check the disk", error.error())))?
            .finish()
    }
}
