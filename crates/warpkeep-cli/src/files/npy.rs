//! The header of a NumPy array file: magic, version, and a Python dictionary of three entries.

use std::fmt;
use std::io::Read;
use std::str::FromStr;

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// No array of numbers has a header near this long.
const LONGEST: usize = 1 << 16;
/// Data begins at a multiple of this.
const ALIGN: usize = 64;

/// The type of an element, as NumPy writes it: `<f4`, `|i1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dtype {
    kind: char,
    bytes: u64,
}

impl Dtype {
    /// Bytes in an element.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Integers, signed or not, and how many bytes they have.
    pub(crate) fn integer(&self) -> Option<(bool, u64)> {
        matches!(self.kind, 'i' | 'u').then_some((self.kind == 'i', self.bytes))
    }

    /// Of keys that are integers.
    pub(crate) fn u64() -> Dtype {
        Dtype { kind: 'u', bytes: 8 }
    }

    /// What rows of so many bytes most likely are.
    pub(crate) fn guess(row: u64) -> Dtype {
        match row.is_multiple_of(4) {
            true => Dtype { kind: 'f', bytes: 4 },
            false => Dtype { kind: 'u', bytes: 1 },
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = self.bytes == 1 || matches!(self.kind, 'S' | 'V');
        write!(f, "{}{}{}", if plain { '|' } else { '<' }, self.kind, self.bytes)
    }
}

impl FromStr for Dtype {
    type Err = String;

    /// Reads `<f4` and `f4`, and the words `f32`, `f16`, `i8` and their like, where the number counts bits.
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
        let kind = rest.chars().next().filter(|kind| "biufcSV".contains(*kind)).ok_or_else(wrong)?;
        let number: u64 = rest[1..].parse().map_err(|_| wrong())?;
        let bytes = match (order, kind, number) {
            // `i8` is eight bits to people, and eight bytes to NumPy, which always writes the order before it.
            (None, 'i' | 'u', 8 | 16 | 32 | 64) | (None, 'f', 16 | 32 | 64) => number / 8,
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
        match known && (order != Some('>') || bytes == 1 || matches!(kind, 'S' | 'V')) {
            true => Ok(Dtype { kind, bytes }),
            false => Err(wrong()),
        }
    }
}

/// What a header says: rows of elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) dtype: Dtype,
    pub(crate) rows: u64,
    /// Elements in a row; `None` if the array has one dimension, and so one element a row.
    pub(crate) columns: Option<u64>,
}

impl Header {
    /// Bytes in a row.
    pub(crate) fn row_bytes(&self) -> Result<u64, String> {
        let bytes = self.columns.unwrap_or(1).checked_mul(self.dtype.bytes);
        bytes.ok_or_else(|| "its rows are longer than can be counted".to_owned())
    }

    /// Reads a header, and nothing after it; says how long it was.
    pub(crate) fn read(source: &mut impl Read) -> Result<(Header, u64), String> {
        let mut fill = |len: usize| {
            let mut bytes = vec![0; len];
            match source.read_exact(&mut bytes) {
                Ok(()) => Ok(bytes),
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                    Err("it ends within its header: it is cut short, or no NumPy array; write it again"
                        .to_owned())
                }
                Err(error) => Err(format!("it cannot be read: {error}")),
            }
        };
        let start = fill(8)?;
        if !start.starts_with(MAGIC) {
            return Err(
                "it is no NumPy array: it does not begin like one; check the file, or give --format".into()
            );
        }
        let (width, len) = match start[6] {
            1 => (2, fill(2)?.iter().rev().fold(0, |len, &byte| len << 8 | usize::from(byte))),
            2 | 3 => (4, fill(4)?.iter().rev().fold(0, |len, &byte| len << 8 | usize::from(byte))),
            version => {
                return Err(format!(
                    "its format version {version} is not known; save it with an older NumPy"
                ));
            }
        };
        if len > LONGEST {
            return Err(format!("its header is {len} bytes long, so it is damaged; write it again"));
        }
        let text =
            String::from_utf8(fill(len)?).map_err(|_| "its header is no text; write it again".to_owned())?;
        let header = Parser { rest: text.trim_end() }.header()?;
        Ok((header, (8 + width + len) as u64))
    }

    /// As it stands at the beginning of a file.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let shape = match self.columns {
            Some(columns) => format!("({}, {columns})", self.rows),
            None => format!("({},)", self.rows),
        };
        let text = format!("{{'descr': '{}', 'fortran_order': False, 'shape': {shape}, }}", self.dtype);
        // Magic, version, length and a line feed at the end take 11.
        let len = (text.len() + 11).next_multiple_of(ALIGN) - 10;
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&[1, 0]);
        bytes.extend_from_slice(&(len as u16).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
        bytes.resize(9 + len, b' ');
        bytes.push(b'\n');
        bytes
    }
}

/// Reads the dictionary, and only what NumPy writes there.
struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn header(mut self) -> Result<Header, String> {
        let (mut dtype, mut fortran, mut shape) = (None, None, None);
        self.expect("{")?;
        while !self.accept("}") {
            let key = self.string()?;
            self.expect(":")?;
            match key {
                "descr" if self.peek("[") => {
                    return Err(
                        "its rows have named fields; save one field, or a plain array of numbers".into()
                    );
                }
                "descr" => dtype = Some(self.string()?.parse::<Dtype>()?),
                "fortran_order" => fortran = Some(self.truth()?),
                "shape" => shape = Some(self.shape()?),
                _ => return Err(bad()),
            }
            if !self.accept(",") && !self.peek("}") {
                return Err(bad());
            }
        }
        let (Some(dtype), Some(fortran), Some(shape)) = (dtype, fortran, shape) else {
            return Err(bad());
        };
        let (rows, columns) = match shape[..] {
            [rows] => (rows, None),
            [rows, columns] => (rows, Some(columns)),
            _ => {
                return Err(format!(
                    "it has {} dimensions; reshape it to rows: two dimensions, or one",
                    shape.len()
                ));
            }
        };
        if fortran && columns.is_some() {
            return Err("it lies column by column; save numpy.ascontiguousarray(array) instead".into());
        }
        Ok(Header { dtype, rows, columns })
    }

    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn peek(&mut self, word: &str) -> bool {
        self.skip();
        self.rest.starts_with(word)
    }

    fn accept(&mut self, word: &str) -> bool {
        self.skip();
        match self.rest.strip_prefix(word) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, word: &str) -> Result<(), String> {
        if self.accept(word) { Ok(()) } else { Err(bad()) }
    }

    fn string(&mut self) -> Result<&'a str, String> {
        self.skip();
        let quote = self.rest.chars().next().filter(|quote| matches!(quote, '\'' | '"')).ok_or_else(bad)?;
        let (text, rest) = self.rest[1..].split_once(quote).ok_or_else(bad)?;
        self.rest = rest;
        Ok(text)
    }

    fn truth(&mut self) -> Result<bool, String> {
        match (self.accept("True"), self.accept("False")) {
            (true, false) => Ok(true),
            (false, true) => Ok(false),
            _ => Err(bad()),
        }
    }

    fn shape(&mut self) -> Result<Vec<u64>, String> {
        self.expect("(")?;
        let mut shape = Vec::new();
        while !self.accept(")") {
            self.skip();
            let digits = self.rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
            let (number, rest) = self.rest.split_at(digits);
            shape.push(number.parse().map_err(|_| bad())?);
            self.rest = rest;
            if !self.accept(",") && !self.peek(")") {
                return Err(bad());
            }
        }
        Ok(shape)
    }
}

fn bad() -> String {
    "its header makes no sense, so it is damaged; write it again with numpy.save".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Header, String> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
        Header::read(&mut &bytes[..]).map(|(header, len)| {
            assert_eq!(len, bytes.len() as u64);
            header
        })
    }

    #[test]
    fn what_is_written_can_be_read() {
        for (dtype, rows, columns) in [("<f4", 1000, Some(32)), ("|i1", 0, Some(3)), ("<u8", u64::MAX, None)]
        {
            let header = Header { dtype: dtype.parse().expect("a type"), rows, columns };
            let bytes = header.to_bytes();
            assert!(bytes.len().is_multiple_of(ALIGN) && bytes.ends_with(b"\n"));
            assert_eq!(Header::read(&mut &bytes[..]), Ok((header, bytes.len() as u64)));
            for len in 0..bytes.len() {
                assert!(Header::read(&mut &bytes[..len]).is_err(), "cut at {len}");
            }
        }
    }

    #[test]
    fn what_numpy_writes() {
        let header = read("{'descr': '<f2', 'fortran_order': False, 'shape': (3, 4), }   \n").expect("good");
        assert_eq!((header.rows, header.columns, header.row_bytes()), (3, Some(4), Ok(8)));
        let one = read("{\"shape\":(7,),\"fortran_order\":True,\"descr\":\"|S5\"}").expect("good");
        assert_eq!((one.rows, one.row_bytes()), (7, Ok(5)));
    }

    #[test]
    fn what_cannot_be_kept_is_refused_with_a_way_out() {
        let with = |descr: &str, fortran: &str, shape: &str| {
            read(&format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}}}"))
                .expect_err("refused")
        };
        assert!(with("'>f4'", "False", "(1, 1)").contains("astype"));
        assert!(with("'|O'", "False", "(1, 1)").contains("astype"));
        assert!(with("[('a', '<f4')]", "False", "(1,)").contains("named fields"));
        assert!(with("'<f4'", "True", "(2, 2)").contains("ascontiguousarray"));
        assert!(with("'<f4'", "False", "(2, 2, 2)").contains("reshape"));
        assert!(with("'<f4'", "False", "()").contains("reshape"));
        for text in
            ["", "{", "{}", "{'descr': '<f4'}", "{'descr' '<f4'}", "{'shape': (-1, 2)}", "{'x': 1}", "\u{e9}"]
        {
            assert!(read(text).is_err(), "{text}");
        }
        let long = Header { dtype: Dtype::u64(), rows: 1, columns: Some(u64::MAX) };
        assert!(long.row_bytes().is_err());
    }

    #[test]
    fn types_in_words() {
        let dtype = |text: &str| text.parse::<Dtype>().map(|dtype| dtype.to_string());
        assert_eq!(dtype("f32").as_deref(), Ok("<f4"));
        assert_eq!(dtype("i8").as_deref(), Ok("|i1"));
        assert_eq!(dtype("<i8").as_deref(), Ok("<i8"));
        for wrong in ["", "f", "f4", "f12", "<f3", "x8", "<V0", "\u{e9}"] {
            assert!(dtype(wrong).is_err(), "{wrong}");
        }
        assert_eq!([Dtype::guess(128), Dtype::guess(5)].map(|dtype| dtype.to_string()), ["<f4", "|u1"]);
    }
}
