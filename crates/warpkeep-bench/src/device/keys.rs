//! Keys of a workload as tables that a device works take them: of one length, or of any.

use std::ops::Range;

use warpkeep_core::{Cells, KeyCells, KeySpec};

use crate::BenchError;
use crate::workload::Workload;

/// Bytes of the shortest key of any length: fewer could not distinguish all items.
const SHORTEST: usize = 8;

/// The keys of a workload's items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    workload: Workload,
    /// The cells that tables store them in, if they have any length.
    cells: Option<KeyCells>,
}

impl From<Workload> for Keys {
    fn from(workload: Workload) -> Keys {
        Keys { workload, cells: None }
    }
}

impl Keys {
    /// Keys of any length, from 8 bytes to the workload's key length, chosen by the item's number.
    pub(crate) fn of_any_length(workload: Workload) -> Result<Keys, BenchError> {
        let spec = KeySpec::variable(u32::try_from(workload.key_bytes).unwrap_or(u32::MAX));
        match spec.ok().and_then(KeyCells::of).filter(|cells| cells.max_len() >= SHORTEST) {
            Some(cells) => Ok(Keys { workload, cells: Some(cells) }),
            None => Err(BenchError::Invalid(format!(
                "keys of any length to {} bytes are nothing that a device writes; give --key-bytes var:{SHORTEST} to var:{}",
                workload.key_bytes,
                KeyCells::LONGEST
            ))),
        }
    }

    /// The items.
    pub(crate) fn workload(&self) -> &Workload {
        &self.workload
    }

    /// The key spec of tables.
    pub(crate) fn spec(&self) -> Result<KeySpec, BenchError> {
        let bytes = u32::try_from(self.workload.key_bytes).unwrap_or(u32::MAX);
        let spec = match (self.cells, bytes) {
            (Some(_), max) => KeySpec::variable(max),
            (None, 8) => Ok(KeySpec::U64),
            (None, len) => KeySpec::fixed(len),
        };
        Ok(spec.map_err(warpkeep::Error::from)?)
    }

    /// Bytes of a row for kernels.
    pub(crate) fn row_bytes(&self) -> usize {
        self.cells.map_or(self.workload.key_bytes.next_multiple_of(8), KeyCells::row_len)
    }

    /// A workload whose keys take as many bytes as these do in records.
    pub(crate) fn in_rows(&self, workload: Workload) -> Workload {
        Workload { key_bytes: self.row_bytes(), ..workload }
    }

    fn len_of(&self, number: u64) -> usize {
        match self.cells {
            None => self.workload.key_bytes,
            Some(cells) => {
                SHORTEST + (self.workload.key_word(number) % (cells.max_len() - SHORTEST + 1) as u64) as usize
            }
        }
    }

    /// Appends the key of an item.
    pub(crate) fn append(&self, number: u64, out: &mut Vec<u8>) {
        let at = out.len();
        out.resize(at + self.len_of(number), 0);
        self.workload.write_key(number, &mut out[at..]);
    }

    /// Writes it over a row for kernels; `key` is room for it.
    pub(crate) fn write_row(&self, number: u64, key: &mut Vec<u8>, row: &mut [u8]) {
        key.clear();
        self.append(number, key);
        match self.cells.and_then(|cells| cells.cell(key)) {
            Some(cell) => row.copy_from_slice(cell.as_bytes()),
            None => {
                row[..key.len()].copy_from_slice(key);
                row[key.len()..].fill(0);
            }
        }
    }

    /// Rows of items.
    pub(crate) fn rows(&self, numbers: &[u64]) -> Vec<u8> {
        let (row, mut key) = (self.row_bytes(), Vec::new());
        let mut rows = vec![0; numbers.len() * row];
        for (&number, row) in numbers.iter().zip(rows.chunks_exact_mut(row)) {
            self.write_row(number, &mut key, row);
        }
        rows
    }
}

/// Keys in host memory, as programs have them.
pub(crate) struct KeyColumn {
    key_bytes: usize,
    /// Where each begins, and the last ends, if they have any length.
    offsets: Option<Vec<u64>>,
    bytes: Vec<u8>,
}

impl KeyColumn {
    /// The keys of these items.
    pub(crate) fn of(keys: &Keys, numbers: &[u64]) -> KeyColumn {
        let key_bytes = keys.workload.key_bytes;
        let (mut bytes, mut offsets) = (Vec::with_capacity(numbers.len() * key_bytes), vec![0]);
        for &number in numbers {
            keys.append(number, &mut bytes);
            if keys.cells.is_some() {
                offsets.push(bytes.len() as u64);
            }
        }
        KeyColumn { key_bytes, offsets: keys.cells.map(|_| offsets), bytes }
    }

    /// Some of them, for a batch.
    pub(crate) fn cells(&self, part: &Range<usize>) -> Cells<'_> {
        match &self.offsets {
            Some(offsets) => Cells::variable(&offsets[part.start..=part.end], &self.bytes),
            None => {
                let bytes = &self.bytes[part.start * self.key_bytes..part.end * self.key_bytes];
                Cells::fixed(self.key_bytes, bytes)
            }
        }
    }

    /// One of them.
    pub(crate) fn get(&self, index: usize) -> &[u8] {
        match &self.offsets {
            Some(offsets) => &self.bytes[offsets[index] as usize..offsets[index + 1] as usize],
            None => &self.bytes[index * self.key_bytes..][..self.key_bytes],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const WORKLOAD: Workload = Workload { items: 5000, key_bytes: 24, value_bytes: 8, seed: 3 };

    #[test]
    fn keys_of_any_length_are_all_different_and_of_every_length() {
        let keys = Keys::of_any_length(WORKLOAD).expect("short enough");
        let column = KeyColumn::of(&keys, &(0..5000).collect::<Vec<_>>());
        let all: BTreeSet<&[u8]> = (0..5000).map(|index| column.get(index)).collect();
        let lengths: BTreeSet<usize> = all.iter().map(|key| key.len()).collect();
        assert_eq!((all.len(), lengths), (5000, (8..=24).collect()));
        let (cells, rows) = (KeyCells::of(keys.spec().expect("a spec")).expect("cells"), keys.rows(&[7, 8]));
        assert_eq!(rows.len(), 2 * keys.row_bytes());
        assert_eq!(cells.key_in(&rows[keys.row_bytes()..]), Some(column.get(8)));
        let host = column.cells(&(3..9)).host().expect("host memory");
        assert_eq!(host.get(5), column.get(8));
    }

    #[test]
    fn keys_of_one_length_are_those_of_the_workload() {
        let keys = Keys::from(Workload { key_bytes: 12, ..WORKLOAD });
        let mut key = Vec::new();
        keys.workload().append_key(8, &mut key);
        let column = KeyColumn::of(&keys, &[7, 8]);
        assert_eq!((column.get(1), keys.row_bytes()), (&key[..], 16));
        key.resize(16, 0);
        assert_eq!(keys.rows(&[7, 8])[16..], key);
    }

    #[test]
    fn what_devices_do_not_write_is_refused() {
        for key_bytes in [7, 64] {
            assert!(Keys::of_any_length(Workload { key_bytes, ..WORKLOAD }).is_err());
        }
    }
}
