//! The header of a NumPy array file: magic, version, and a Python dictionary of three entries.

use std::io::Read;

use crate::elements::{Dtype, Elements};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// No array of numbers has a header near this long.
const LONGEST: usize = 1 << 16;
/// Data begins at a multiple of this.
const ALIGN: usize = 64;
/// NumPy knows at most 32 in all, and the first one counts the rows.
const MAX_ROW_DIMENSIONS: usize = 31;

/// The contents of a header: rows of elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) rows: u64,
    pub(crate) elements: Elements,
}

impl Header {
    /// Bytes in a row.
    pub(crate) fn row_bytes(&self) -> Result<u64, String> {
        self.elements
            .row_bytes()
            .ok_or_else(|| "its rows are longer than can be counted; reshape the array".to_owned())
    }

    /// Reads a header, and nothing after it; returns its length.
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
        let Elements { dtype, shape, fortran } = &self.elements;
        let lengths: Vec<String> = std::iter::once(&self.rows).chain(shape).map(u64::to_string).collect();
        // A tuple of one has a comma.
        let comma = if shape.is_empty() { "," } else { "" };
        let order = if *fortran { "True" } else { "False" };
        let text = format!(
            "{{'descr': '{dtype}', 'fortran_order': {order}, 'shape': ({}{comma}), }}",
            lengths.join(", ")
        );
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

/// Parses the dictionary, exactly as NumPy writes it.
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
        match shape.split_first() {
            None => Err("it has no dimensions; reshape it to rows, such as with .reshape(1)".into()),
            Some((_, rest)) if rest.len() > MAX_ROW_DIMENSIONS => {
                Err(format!("it has {} dimensions, and arrays have at most 32; write it again", shape.len()))
            }
            Some((&rows, rest)) => {
                Ok(Header { rows, elements: Elements { dtype, shape: rest.to_vec(), fortran } })
            }
        }
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
        let cases =
            [("<f4[32]", 1000), ("|i1[3]", 0), ("<u8", u64::MAX), (">c16[2,3] fortran", 7), ("|b1[1]", 1)];
        for (elements, rows) in cases {
            let header = Header { rows, elements: elements.parse().expect("elements") };
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
        assert_eq!(
            (header.rows, header.elements.to_string().as_str(), header.row_bytes()),
            (3, "<f2[4]", Ok(8))
        );
        let one = read("{\"shape\":(7,),\"fortran_order\":True,\"descr\":\"|S5\"}").expect("good");
        assert_eq!((one.rows, one.row_bytes()), (7, Ok(5)));
        let big = read("{'descr': '>f4', 'fortran_order': True, 'shape': (2, 3, 4)}").expect("good");
        assert_eq!(big.elements.to_string(), ">f4[3,4] fortran");
    }

    #[test]
    fn what_cannot_be_kept_is_refused_with_a_way_out() {
        let with = |descr: &str, fortran: &str, shape: &str| {
            read(&format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}}}"))
                .expect_err("refused")
        };
        assert!(with("'|O'", "False", "(1, 1)").contains("astype"));
        assert!(with("'<U3'", "False", "(1, 1)").contains("astype"));
        assert!(with("[('a', '<f4')]", "False", "(1,)").contains("named fields"));
        assert!(with("'<f4'", "False", "()").contains("reshape"));
        let many = "1, ".repeat(33);
        assert!(with("'<f4'", "False", &format!("({many})")).contains("33 dimensions"));
        for text in
            ["", "{", "{}", "{'descr': '<f4'}", "{'descr' '<f4'}", "{'shape': (-1, 2)}", "{'x': 1}", "\u{e9}"]
        {
            assert!(read(text).is_err(), "{text}");
        }
        let long = Header { rows: 1, elements: Elements::row(Dtype::u64(), u64::MAX) };
        assert!(long.row_bytes().is_err());
    }
}
