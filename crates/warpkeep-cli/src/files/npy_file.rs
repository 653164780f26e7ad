//! NumPy arrays: a row an item, under its number or under a key from another array.

use std::io::{Read, Write};
use std::os::unix::fs::FileExt;

use super::{Bad, Header, Input, OutputFile, RawValue, Record, Sink, Source};
use crate::cell::RawKey;
use crate::elements::{Dtype, Elements};
use crate::failure::Failure;

/// Bytes that are read at once of an array that lies column by column.
const BLOCK: usize = 4 << 20;

/// An array to read.
pub(crate) struct NpySource {
    rows: Array,
    keys: Option<Array>,
    at: u64,
}

/// An array file of which the header has been read.
struct Array {
    input: Input,
    header: Header,
    row_bytes: usize,
    by_columns: Option<ByColumns>,
}

/// Rows of an array that lies column by column.
struct ByColumns {
    head_bytes: u64,
    runs: Vec<u64>,
    /// Rows that have been read, as rows.
    block: Vec<u8>,
    /// The first of them, and the first that is not among them.
    rows: std::ops::Range<u64>,
}

impl Array {
    fn open(mut input: Input) -> Result<Array, Failure> {
        let name = input.name().to_owned();
        let failed = |why: String| Failure::error(format!("{name}: {why}"));
        let (header, head_bytes) = Header::read(&mut input).map_err(failed)?;
        let row_bytes = header.row_bytes().map_err(failed)?;
        let longest = u64::from(warpkeep::ValueSpec::MAX);
        if row_bytes == 0 || row_bytes > longest {
            return Err(failed(format!(
                "its rows have {row_bytes} bytes, and values have 1 to {longest}; reshape the array"
            )));
        }
        let expected = header.rows.checked_mul(row_bytes).and_then(|bytes| bytes.checked_add(head_bytes));
        let expected =
            expected.ok_or_else(|| failed("it has more rows than can be counted; write it again".into()))?;
        // Before a row of it is loaded.
        match input.len() {
            Some(len) if len < expected => {
                return Err(failed(format!(
                    "it is cut short: it has {len} bytes, and {} rows of {row_bytes} bytes make {expected}; copy or \
                     write it again",
                    header.rows
                )));
            }
            Some(len) if len > expected => {
                return Err(failed(format!(
                    "it has {} bytes after its last row, so it is damaged; copy or write it again",
                    len - expected
                )));
            }
            // Only of a file can rows be put together that lie in pieces all over it.
            None if header.elements.fortran && !header.elements.shape.is_empty() => {
                return Err(failed(
                    "it lies column by column, and such an array is read from a file only; give its name, or save \
                     numpy.ascontiguousarray(array)"
                        .into(),
                ));
            }
            _ => {}
        }
        let by_columns = (header.elements.fortran && !header.elements.shape.is_empty()).then(|| ByColumns {
            head_bytes,
            runs: header.elements.runs(),
            block: Vec::new(),
            rows: 0..0,
        });
        Ok(Array { input, header, row_bytes: row_bytes as usize, by_columns })
    }

    /// Of a file the length was checked before; of a pipe the end is known only now.
    fn check_end(&mut self) -> Result<(), Bad> {
        if self.input.len().is_some() {
            return Ok(());
        }
        match self.input.read(&mut [0]) {
            Ok(0) => Ok(()),
            _ => Err(Bad::File(Failure::error(format!(
                "{}: there are bytes after its last row, so it is damaged; copy or write it again",
                self.input.name()
            )))),
        }
    }

    /// A row, with the bytes of numbers in this machine's order. Rows are read one after the other.
    fn row(&mut self, at: u64) -> Result<Vec<u8>, Bad> {
        let mut row = vec![0; self.row_bytes];
        let read = match &mut self.by_columns {
            None => self.input.read_exact(&mut row),
            Some(columns) => columns.read(&self.input, &self.header, at, &mut row),
        };
        read.map_err(|error| {
            Bad::File(Failure::error(format!(
                "{}: row {at} of {} cannot be read: {error}; copy or write it again",
                self.input.name(),
                self.header.rows
            )))
        })?;
        self.header.elements.dtype.swap(&mut row);
        Ok(row)
    }
}

impl ByColumns {
    fn read(&mut self, input: &Input, header: &Header, at: u64, row: &mut [u8]) -> std::io::Result<()> {
        if !self.rows.contains(&at) {
            let fitting = (BLOCK / row.len()).max(1) as u64;
            self.rows = at..header.rows.min(at + fitting);
            self.fill(input, header, row.len())?;
        }
        let start = (at - self.rows.start) as usize * row.len();
        row.copy_from_slice(&self.block[start..start + row.len()]);
        Ok(())
    }

    /// Reads the piece of every column that belongs to these rows, and puts the rows together.
    fn fill(&mut self, input: &Input, header: &Header, row_bytes: usize) -> std::io::Result<()> {
        let count = (self.rows.end - self.rows.start) as usize;
        let size = header.elements.dtype.bytes() as usize;
        self.block.clear();
        self.block.resize(count * row_bytes, 0);
        let mut piece = vec![0; count * size];
        for (element, run) in self.runs.iter().enumerate() {
            let from = self.head_bytes + (run * header.rows + self.rows.start) * size as u64;
            let no_file = || Err(std::io::Error::other("it is no file"));
            input.read_at(&mut piece, from).unwrap_or_else(no_file)?;
            for (row, bytes) in piece.chunks_exact(size).enumerate() {
                let to = row * row_bytes + element * size;
                self.block[to..to + size].copy_from_slice(bytes);
            }
        }
        Ok(())
    }
}

impl NpySource {
    pub(crate) fn open(rows: Input, keys: Option<Input>) -> Result<NpySource, Failure> {
        let rows = Array::open(rows)?;
        let keys = keys.map(Array::open).transpose()?;
        if let Some(keys) = &keys {
            let (name, elements) = (keys.input.name(), &keys.header.elements);
            if !matches!(elements.dtype.kind(), 'i' | 'u') || elements.count() != Some(1) {
                return Err(Failure::error(format!(
                    "{name}: keys must be one column of integers; save keys.astype('<u8') instead"
                )));
            }
            if keys.header.rows != rows.header.rows {
                return Err(Failure::error(format!(
                    "{name} has {} keys for {} rows; give the keys that belong to the rows",
                    keys.header.rows, rows.header.rows
                )));
            }
        }
        Ok(NpySource { rows, keys, at: 0 })
    }
}

impl Source for NpySource {
    fn unit(&self) -> &'static str {
        "row"
    }

    fn records(&self) -> Option<u64> {
        Some(self.rows.header.rows)
    }

    fn elements(&self) -> Option<Elements> {
        Some(self.rows.header.elements.clone())
    }

    fn next(&mut self) -> Result<Option<Record>, Bad> {
        let at = self.at;
        if at == self.rows.header.rows {
            self.rows.check_end()?;
            return self.keys.as_mut().map_or(Ok(()), Array::check_end).map(|()| None);
        }
        self.at += 1;
        let value = RawValue::Bytes(self.rows.row(at)?);
        let key = match &mut self.keys {
            None => at,
            Some(keys) => {
                let signed = keys.header.elements.dtype.kind() == 'i';
                let bytes = keys.row(at)?;
                let negative = signed && bytes.last().is_some_and(|byte| byte & 0x80 != 0);
                if negative {
                    return Err(Bad::Record {
                        at,
                        why: "its key is negative; keys are integers from 0 up".into(),
                    });
                }
                bytes.iter().rev().fold(0, |key, &byte| key << 8 | u64::from(byte))
            }
        };
        Ok(Some(Record { key: RawKey::Number(key), value, at }))
    }
}

/// An array to write, of items whose number is known.
pub(crate) struct NpySink {
    rows: OutputFile,
    elements: Elements,
    /// The elements of the table's values, if they are converted.
    convert: Option<Elements>,
    row_bytes: u64,
    head_bytes: u64,
    count: u64,
    places: Places,
    by_columns: Option<WholeArray>,
}

/// The row of an item.
enum Places {
    /// That of its number, which must be free.
    Numbered { taken: Vec<u64> },
    /// The next one, and its key goes to another array.
    Listed { keys: OutputFile, next: u64 },
}

/// An array stored column by column: rows come in no order, and each is scattered over it.
struct WholeArray {
    runs: Vec<u64>,
    bytes: Vec<u8>,
}

impl NpySink {
    /// `items` rows of these elements; the keys are the row numbers, or are written to `keys`. Values are converted
    /// from `convert`, if given.
    pub(crate) fn new(
        mut rows: OutputFile,
        keys: Option<OutputFile>,
        elements: Elements,
        convert: Option<Elements>,
        items: u64,
    ) -> Result<NpySink, Failure> {
        // Queried now, so that a pipe is refused before anything is written to it.
        rows.file()?;
        let row_bytes = elements.row_bytes().unwrap_or(u64::MAX);
        let header = Header { rows: items, elements };
        let head = header.to_bytes();
        put(&mut rows, &head)?;
        let elements = header.elements;
        let by_columns = match elements.fortran && !elements.shape.is_empty() {
            false => None,
            true => Some(WholeArray::new(&elements, items)?),
        };
        let places = match keys {
            None => {
                let words = usize::try_from(items.div_ceil(64)).unwrap_or(usize::MAX);
                Places::Numbered { taken: vec![0; words] }
            }
            Some(mut keys) => {
                let elements = Elements { dtype: Dtype::u64(), shape: Vec::new(), fortran: false };
                put(&mut keys, &Header { rows: items, elements }.to_bytes())?;
                Places::Listed { keys, next: 0 }
            }
        };
        let head_bytes = head.len() as u64;
        Ok(NpySink { rows, elements, convert, row_bytes, head_bytes, count: items, places, by_columns })
    }
}

impl WholeArray {
    fn new(elements: &Elements, items: u64) -> Result<WholeArray, Failure> {
        let len = elements.row_bytes().and_then(|row| row.checked_mul(items));
        let len = len.and_then(|len| usize::try_from(len).ok()).unwrap_or(usize::MAX);
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| {
            Failure::error(format!(
                "there is no memory for the {len} bytes of an array that lies column by column; give --c-order to write it \
                 row by row"
            ))
        })?;
        bytes.resize(len, 0);
        Ok(WholeArray { runs: elements.runs(), bytes })
    }

    fn place(&mut self, row: u64, rows: u64, value: &[u8]) {
        let size = value.len() / self.runs.len().max(1);
        for (run, element) in self.runs.iter().zip(value.chunks_exact(size.max(1))) {
            let at = (run * rows + row) as usize * size;
            self.bytes[at..at + size].copy_from_slice(element);
        }
    }
}

fn put(file: &mut OutputFile, bytes: &[u8]) -> Result<(), Failure> {
    let doing = format!("write {}", file.name());
    file.write_all(bytes).map_err(Failure::io(doing))
}

impl Sink for NpySink {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let mut value = match &self.convert {
            None => value.to_vec(),
            Some(from) => from.convert(value, &self.elements).map_err(|why| {
                let key = key.try_into().map_or(0, u64::from_le_bytes);
                Failure::error(format!("key {key}: {why}"))
            })?,
        };
        self.elements.dtype.swap(&mut value);
        let row = match &mut self.places {
            Places::Listed { keys, next } => {
                put(keys, key)?;
                *next += 1;
                *next - 1
            }
            Places::Numbered { taken } => {
                let number = key.try_into().map_or(u64::MAX, u64::from_le_bytes);
                if number >= self.count {
                    return Err(Failure::error(format!(
                        "the keys are not the numbers 0 to {}: {number} is among them; give --keys FILE to write them, too",
                        self.count.saturating_sub(1)
                    )));
                }
                taken[(number / 64) as usize] |= 1 << (number % 64);
                number
            }
        };
        match &mut self.by_columns {
            Some(whole) if row < self.count => {
                whole.place(row, self.count, &value);
                Ok(())
            }
            // Rows are written one after the other.
            _ if matches!(self.places, Places::Listed { .. }) => put(&mut self.rows, &value),
            _ => {
                let doing = format!("write {}", self.rows.name());
                let at = self.head_bytes + row * self.row_bytes;
                self.rows.file()?.write_all_at(&value, at).map_err(Failure::io(doing))
            }
        }
    }

    fn finish(mut self: Box<Self>) -> Result<(), Failure> {
        if let Some(whole) = self.by_columns.take() {
            put(&mut self.rows, &whole.bytes)?;
        }
        match self.places {
            Places::Listed { keys, .. } => keys.finish()?,
            Places::Numbered { taken } => {
                let filled: u64 = taken.iter().map(|word| u64::from(word.count_ones())).sum();
                if filled != self.count {
                    return Err(Failure::error(format!(
                        "only {filled} of {} rows were there; dump the table again",
                        self.count
                    )));
                }
            }
        }
        self.rows.finish()
    }
}
