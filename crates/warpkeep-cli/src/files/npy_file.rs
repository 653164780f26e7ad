//! NumPy arrays: a row an item, under its number or under a key from another array.

use std::io::{Read, Write};
use std::os::unix::fs::FileExt;

use super::{Bad, Dtype, Header, Input, OutputFile, Record, Sink, Source};
use crate::cell::RawKey;
use crate::failure::Failure;

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
            _ => {}
        }
        Ok(Array { input, header, row_bytes: row_bytes as usize })
    }

    /// Of a file the length was checked before; of a pipe the end is known only now.
    fn check_end(&mut self) -> Result<(), Bad> {
        match (self.input.len(), self.input.read(&mut [0])) {
            (Some(_), _) | (None, Ok(0)) => Ok(()),
            _ => Err(Bad::File(Failure::error(format!(
                "{}: there are bytes after its last row, so it is damaged; copy or write it again",
                self.input.name()
            )))),
        }
    }

    fn row(&mut self, at: u64) -> Result<Vec<u8>, Bad> {
        let mut row = vec![0; self.row_bytes];
        let name = self.input.name().to_owned();
        self.input.read_exact(&mut row).map_err(|error| {
            Bad::File(Failure::error(format!(
                "{name}: row {at} of {} cannot be read: {error}",
                self.header.rows
            )))
        })?;
        Ok(row)
    }
}

impl NpySource {
    pub(crate) fn open(rows: Input, keys: Option<Input>) -> Result<NpySource, Failure> {
        let rows = Array::open(rows)?;
        let keys = keys.map(Array::open).transpose()?;
        if let Some(keys) = &keys {
            let name = keys.input.name();
            let integers = keys.header.dtype.integer().is_some_and(|(_, bytes)| matches!(bytes, 4 | 8));
            if !integers || keys.header.columns.is_some_and(|columns| columns != 1) {
                return Err(Failure::error(format!(
                    "{name}: keys must be one column of 64-bit integers; save keys.astype('<u8') instead"
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

    fn value_bytes(&self) -> Option<u64> {
        Some(self.rows.row_bytes as u64)
    }

    fn next(&mut self) -> Result<Option<Record>, Bad> {
        let at = self.at;
        if at == self.rows.header.rows {
            self.rows.check_end()?;
            return self.keys.as_mut().map_or(Ok(()), Array::check_end).map(|()| None);
        }
        self.at += 1;
        let value = self.rows.row(at)?;
        let key = match &mut self.keys {
            None => at,
            Some(keys) => {
                let signed = keys.header.dtype.integer().is_some_and(|(signed, _)| signed);
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
    row_bytes: u64,
    count: u64,
    places: Places,
}

/// Which row an item goes to.
enum Places {
    /// That of its number, which must be free.
    Numbered { taken: Vec<u64>, head_bytes: u64 },
    /// The next one, and its key goes to another array.
    Listed { keys: OutputFile },
}

impl NpySink {
    /// `count` rows of `row_bytes`; their numbers are their keys, or else `keys` gets these.
    pub(crate) fn new(
        mut rows: OutputFile,
        keys: Option<OutputFile>,
        dtype: Dtype,
        row_bytes: u64,
        items: u64,
    ) -> Result<NpySink, Failure> {
        if !row_bytes.is_multiple_of(dtype.bytes()) {
            return Err(Failure::Usage(format!(
                "values of {row_bytes} bytes are no rows of {dtype}; give another --dtype, such as u8"
            )));
        }
        // Asked now, so that a pipe is refused before anything goes into it.
        rows.file()?;
        let columns = Some(row_bytes / dtype.bytes());
        let head = Header { dtype, rows: items, columns }.to_bytes();
        put(&mut rows, &head)?;
        let places = match keys {
            None => {
                let words = usize::try_from(items.div_ceil(64)).unwrap_or(usize::MAX);
                Places::Numbered { taken: vec![0; words], head_bytes: head.len() as u64 }
            }
            Some(mut keys) => {
                put(&mut keys, &Header { dtype: Dtype::u64(), rows: items, columns: None }.to_bytes())?;
                Places::Listed { keys }
            }
        };
        Ok(NpySink { rows, row_bytes, count: items, places })
    }
}

fn put(file: &mut OutputFile, bytes: &[u8]) -> Result<(), Failure> {
    let doing = format!("write {}", file.name());
    file.write_all(bytes).map_err(Failure::io(doing))
}

impl Sink for NpySink {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        match &mut self.places {
            Places::Listed { keys } => {
                put(keys, key)?;
                put(&mut self.rows, value)
            }
            Places::Numbered { taken, head_bytes } => {
                let number = key.try_into().map_or(u64::MAX, u64::from_le_bytes);
                if number >= self.count {
                    return Err(Failure::error(format!(
                        "the keys are not the numbers 0 to {}: {number} is among them; give --keys FILE to write them, too",
                        self.count.saturating_sub(1)
                    )));
                }
                taken[(number / 64) as usize] |= 1 << (number % 64);
                let doing = format!("write {}", self.rows.name());
                let at = *head_bytes + number * self.row_bytes;
                self.rows.file()?.write_all_at(value, at).map_err(Failure::io(doing))
            }
        }
    }

    fn finish(self: Box<Self>) -> Result<(), Failure> {
        match self.places {
            Places::Listed { keys } => keys.finish()?,
            Places::Numbered { taken, .. } => {
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
