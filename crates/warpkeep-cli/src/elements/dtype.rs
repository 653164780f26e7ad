//! The type of an element, as NumPy names it.

use std::fmt;
use std::str::FromStr;

/// The type of an element, as NumPy writes it: `<f4`, `>i2`, `|b1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dtype {
    kind: char,
    bytes: u64,
    /// Files have the most significant byte first.
    big: bool,
}

impl Dtype {
    /// Bytes in an element.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// `b`ool, `i`nteger, `u`nsigned, `f`loat, `c`omplex, `S` bytes, `V` anything.
    pub(crate) fn kind(&self) -> char {
        self.kind
    }

    /// Whether arithmetic is possible: types of 16 bytes a number are only stored.
    pub(crate) fn is_number(&self) -> bool {
        match self.kind {
            'b' | 'i' | 'u' => true,
            'f' => self.bytes <= 8,
            'c' => self.bytes <= 16,
            _ => false,
        }
    }

    /// Whether both mean the same numbers, whatever the order of their bytes in files.
    pub(crate) fn same_numbers(&self, other: &Dtype) -> bool {
        (self.kind, self.bytes) == (other.kind, other.bytes)
    }

    /// Of keys that are integers.
    pub(crate) fn u64() -> Dtype {
        Dtype { kind: 'u', bytes: 8, big: false }
    }

    /// The most common element of rows.
    pub(crate) fn f32() -> Dtype {
        Dtype { kind: 'f', bytes: 4, big: false }
    }

    /// The most likely type of rows of this many bytes.
    pub(crate) fn guess(row: u64) -> Dtype {
        match row.is_multiple_of(4) {
            true => Dtype::f32(),
            false => Dtype { kind: 'u', bytes: 1, big: false },
        }
    }

    /// Brings the bytes of elements from the order of a file to that of this machine, or back.
    pub(crate) fn swap(&self, elements: &mut [u8]) {
        if !self.big {
            return;
        }
        // A complex number is two numbers.
        let number = if self.kind == 'c' { self.bytes / 2 } else { self.bytes };
        elements.chunks_exact_mut(number as usize).for_each(<[u8]>::reverse);
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = match self.bytes == 1 || matches!(self.kind, 'S' | 'V') {
            true => '|',
            false if self.big => '>',
            false => '<',
        };
        write!(f, "{order}{}{}", self.kind, self.bytes)
    }
}

impl FromStr for Dtype {
    type Err = String;

    /// Reads `<f4`, and the words `f32`, `f16`, `i8`, `complex64`, `bool` and their like, where the number counts bits.
    fn from_str(text: &str) -> Result<Dtype, String> {
        let wrong = || {
            format!(
                "elements of type '{text}' cannot be kept; convert the array, such as with .astype('<f4')"
            )
        };
        let (order, rest) = match text.chars().next() {
            Some(order @ ('<' | '>' | '|' | '=')) => (Some(order), &text[1..]),
            _ => (None, text),
        };
        let rest = match (order, rest) {
            (None, "bool") => return Ok(Dtype { kind: 'b', bytes: 1, big: false }),
            (None, rest) => {
                rest.strip_prefix("complex").map_or_else(|| rest.to_owned(), |bits| format!("c{bits}"))
            }
            (Some(_), rest) => rest.to_owned(),
        };
        let kind = rest.chars().next().filter(|kind| "biufcSV".contains(*kind)).ok_or_else(wrong)?;
        let number: u64 = rest[1..].parse().map_err(|_| wrong())?;
        let bytes = match (order, kind, number) {
            // `i8` means eight bits to people, and eight bytes to NumPy, which always writes the byte order before
            // it.
            (None, 'i' | 'u', 8 | 16 | 32 | 64) | (None, 'f', 16 | 32 | 64) | (None, 'c', 64 | 128) => {
                number / 8
            }
            (None, ..) => return Err(wrong()),
            (Some(_), ..) => number,
        };
        let known = match kind {
            'b' => bytes == 1,
            'i' | 'u' => matches!(bytes, 1 | 2 | 4 | 8),
            'f' => matches!(bytes, 2 | 4 | 8 | 16),
            'c' => matches!(bytes, 8 | 16 | 32),
            _ => bytes > 0,
        };
        let big = order == Some('>') && bytes > 1 && !matches!(kind, 'S' | 'V');
        known.then_some(Dtype { kind, bytes, big }).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_in_words() {
        let dtype = |text: &str| text.parse::<Dtype>().map(|dtype| dtype.to_string());
        for (word, written) in [
            ("f32", "<f4"),
            ("i8", "|i1"),
            ("<i8", "<i8"),
            (">f4", ">f4"),
            (">i1", "|i1"),
            ("|S5", "|S5"),
            ("bool", "|b1"),
            ("|b1", "|b1"),
            ("complex64", "<c8"),
            (">c16", ">c16"),
        ] {
            assert_eq!(dtype(word).as_deref(), Ok(written), "{word}");
        }
        for wrong in ["", "f", "f4", "f12", "<f3", "x8", "<V0", "|O", "<M8[ns]", "<U3", "complex", "\u{e9}"] {
            assert!(dtype(wrong).is_err(), "{wrong}");
        }
        assert_eq!([Dtype::guess(128), Dtype::guess(5)].map(|dtype| dtype.to_string()), ["<f4", "|u1"]);
    }

    #[test]
    fn bytes_are_turned_number_by_number() {
        let swapped = |dtype: &str, mut bytes: Vec<u8>| {
            dtype.parse::<Dtype>().expect("a type").swap(&mut bytes);
            bytes
        };
        let bytes: Vec<u8> = (0..16).collect();
        assert_eq!(swapped("<f4", bytes.clone()), bytes);
        assert_eq!(swapped(">i8", bytes.clone())[..8], [7, 6, 5, 4, 3, 2, 1, 0]);
        assert_eq!(swapped(">c8", bytes.clone())[..8], [3, 2, 1, 0, 7, 6, 5, 4]);
        assert_eq!(swapped("|u1", bytes.clone()), bytes);
    }
}
