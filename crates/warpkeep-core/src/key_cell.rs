//! Short keys of any length in cells of one size, the form in which tables store them and devices take them.
//!
//! A cell holds the bytes of the key, zeros, and the length of the key in its last byte. Its size is that of the
//! longest key plus one byte, rounded up to whole words. Each key has exactly one cell and no two keys share one:
//! keys that differ only in trailing zeros differ in their lengths.

use crate::KeySpec;

/// Bytes of the largest cell.
const LARGEST: usize = 64;

/// The cells of a table whose keys have any length up to a short limit.
///
/// ```
/// use warpkeep_core::{KeyCells, KeySpec};
/// let cells = KeyCells::of(KeySpec::variable(24)?).expect("short enough");
/// assert_eq!(cells.row_len(), 32);
///
/// // Rows for a batch in device memory, one cell behind the other.
/// let mut rows = Vec::new();
/// for key in ["weft", "warp and weft"] {
///     rows.extend_from_slice(cells.cell(key.as_bytes()).expect("not too long").as_bytes());
/// }
/// assert_eq!(cells.key_in(&rows[32..]), Some(&b"warp and weft"[..]));
/// assert_eq!(cells.cell(&[b'w'; 25]), None);
/// # Ok::<(), warpkeep_core::CoreError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyCells {
    /// The longest key.
    max: u8,
}

/// The cell of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyCell {
    bytes: [u8; LARGEST],
    len: u8,
}

impl KeyCells {
    /// The longest key that a cell can be of.
    pub const LONGEST: usize = LARGEST - 1;

    /// The cells for such keys; `None` if all keys have one length and need no cells, or if keys may be too long
    /// for cells.
    pub const fn of(spec: KeySpec) -> Option<KeyCells> {
        match spec {
            KeySpec::Variable { max } if max as usize <= KeyCells::LONGEST => {
                Some(KeyCells { max: max as u8 })
            }
            _ => None,
        }
    }

    /// Bytes of a cell: a multiple of 8.
    #[inline]
    pub const fn row_len(self) -> usize {
        (self.max as usize + 1).next_multiple_of(8)
    }

    /// The longest key.
    #[inline]
    pub const fn max_len(self) -> usize {
        self.max as usize
    }

    /// The cell of a key; `None` if it is too long.
    #[inline]
    pub fn cell(self, key: &[u8]) -> Option<KeyCell> {
        if key.len() > self.max_len() {
            return None;
        }
        let (mut bytes, len) = ([0; LARGEST], self.row_len());
        bytes[..key.len()].copy_from_slice(key);
        bytes[len - 1] = key.len() as u8;
        Some(KeyCell { bytes, len: len as u8 })
    }

    /// The key in the cell that these bytes begin with; `None` if they are not a valid cell of such keys.
    #[inline]
    pub fn key_in(self, bytes: &[u8]) -> Option<&[u8]> {
        let (&len, rest) = bytes.get(..self.row_len())?.split_last()?;
        if len > self.max {
            return None;
        }
        let (key, zeros) = rest.split_at(usize::from(len));
        zeros.iter().all(|&byte| byte == 0).then_some(key)
    }

    /// The key; or, if the bytes are a [damaged cell](Self::key_in), the recoverable part of the key.
    pub fn remains_in(self, bytes: &[u8]) -> &[u8] {
        match bytes.get(..self.row_len()).and_then(<[u8]>::split_last) {
            Some((&len, rest)) => &rest[..usize::from(len.min(self.max))],
            None => &[],
        }
    }
}

impl KeyCell {
    /// Its bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(max: u32) -> KeyCells {
        KeyCells::of(KeySpec::variable(max).unwrap()).unwrap()
    }

    #[test]
    fn lengths() {
        for (max, row) in [(1, 8), (7, 8), (8, 16), (15, 16), (16, 24), (24, 32), (63, 64)] {
            assert_eq!(cells(max).row_len(), row, "{max}");
        }
        for spec in [KeySpec::U64, KeySpec::fixed(20).unwrap(), KeySpec::variable(64).unwrap()] {
            assert_eq!(KeyCells::of(spec), None, "{spec}");
        }
    }

    #[test]
    fn bytes() {
        let cell = cells(15).cell(b"weft").unwrap();
        assert_eq!(cell.as_bytes(), b"weft\0\0\0\0\0\0\0\0\0\0\0\x04");
        let longest = cells(15).cell(b"0123456789abcde").unwrap();
        assert_eq!(longest.as_bytes(), b"0123456789abcde\x0f");
        assert_eq!(cells(7).cell(b"").unwrap().as_bytes(), [0; 8]);
    }

    #[test]
    fn each_key_has_a_cell_of_its_own() {
        for max in [3, 7, 12, 24, 63] {
            let cells = cells(max);
            let mut seen = std::collections::BTreeSet::new();
            for len in 0..=max as usize {
                // Prefixes of each other; and keys that differ in zeros at their ends.
                for byte in [0, 1, 0xff] {
                    let key = vec![byte; len];
                    let cell = cells.cell(&key).unwrap();
                    assert_eq!(cells.key_in(cell.as_bytes()), Some(&key[..]));
                    assert_eq!(cells.remains_in(cell.as_bytes()), key);
                    assert!(seen.insert(cell.as_bytes().to_vec()) || len == 0, "{max}, {len}, {byte}");
                }
            }
            assert_eq!(cells.cell(&vec![1; max as usize + 1]), None);
        }
    }

    #[test]
    fn what_is_no_cell_is_told() {
        let cells = cells(12);
        let good = cells.cell(b"weft").unwrap().as_bytes().to_vec();
        let changed = |at: usize, to: u8| {
            let mut bytes = good.clone();
            bytes[at] = to;
            bytes
        };
        // Longer than the longest key, longer than the cell, bytes behind the key, a truncated key.
        for bytes in [changed(15, 13), changed(15, 255), changed(4, 1), changed(14, 1), changed(15, 3)] {
            assert_eq!(cells.key_in(&bytes), None, "{bytes:?}");
            assert!(cells.remains_in(&bytes).len() <= 12);
        }
        assert_eq!(cells.key_in(&good[..15]), None);
        assert_eq!(cells.remains_in(&good[..15]), b"");
    }
}
