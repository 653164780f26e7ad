//! Requests and answers, in three protocols.
//!
//! Requests are written from templates; answers are parsed in place, without a copy. [`Protocol::next`] reads the
//! bytes received so far and either returns one whole answer or asks for more, and keeps no state meanwhile: how
//! the stream was cut into reads cannot matter.

mod answers;
mod meta;
mod requests;
mod resp;
mod text;

use std::fmt;
use std::str::FromStr;

pub use self::requests::Requests;

/// The longest accepted value: a longer one is an error, and not waited for.
const MAX_VALUE: usize = 64 << 20;
/// The longest line, without a value.
const MAX_LINE: usize = 2048;

/// A language that servers speak.
///
/// ```
/// use warpkeep_bench::server::{Answer, Protocol};
///
/// let bytes = b"$3\r\nabc\r\n$-1";
/// let (answer, used) = Protocol::Resp.next(bytes).expect("good bytes").expect("one whole answer");
/// assert_eq!(answer, Answer::Value { key: b"", data: b"abc" });
/// assert_eq!(Protocol::Resp.next(&bytes[used..]), Ok(None), "the next is not complete");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The text protocol of memcached: `get`, `set`.
    Memcached,
    /// The meta commands of memcached: `mg`, `ms`.
    Meta,
    /// That of Redis, version 2: `GET`, `MGET`, `SET`.
    Resp,
}

/// One answer, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// A value.
    Value {
        /// Of which key; empty where the protocol does not repeat it.
        key: &'a [u8],
        /// The value.
        data: &'a [u8],
    },
    /// A key is not there.
    Miss,
    /// All values have been sent.
    End,
    /// A value was stored.
    Stored,
    /// The number of values and misses that follow.
    Many(usize),
    /// The server refused; its message.
    Refused(&'a [u8]),
}

/// Why bytes are no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// A whole answer and how many bytes it took; `None` as long as there are too few.
pub type Parsed<'a> = Result<Option<(Answer<'a>, usize)>, Malformed>;

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 3] = [Protocol::Memcached, Protocol::Meta, Protocol::Resp];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Memcached => "memcached",
            Protocol::Meta => "meta",
            Protocol::Resp => "resp",
        }
    }

    /// The first answer in these bytes.
    #[inline]
    pub fn next(self, bytes: &[u8]) -> Parsed<'_> {
        match self {
            Protocol::Memcached => text::next(bytes),
            Protocol::Meta => meta::next(bytes),
            Protocol::Resp => resp::next(bytes),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Protocol, String> {
        let found = Protocol::ALL.into_iter().find(|protocol| protocol.name() == text);
        found.ok_or_else(|| format!("`{text}` is no protocol; write memcached, meta or resp"))
    }
}

/// The first line without its end, and how many bytes it takes with it.
#[inline]
fn line(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, Malformed> {
    let within = &bytes[..bytes.len().min(MAX_LINE)];
    match memchr::memchr(b'\n', within) {
        Some(at) if at > 0 && within[at - 1] == b'\r' => Ok(Some((&within[..at - 1], at + 1))),
        Some(_) => Err(Malformed("a line does not end with \\r\\n")),
        None if within.len() == MAX_LINE => Err(Malformed("a line has no end")),
        None => Ok(None),
    }
}

/// The value of `len` bytes that follows a line of `used`, with its end marker.
#[inline]
fn value<'a>(bytes: &'a [u8], used: usize, len: usize, key: &'a [u8]) -> Parsed<'a> {
    let end = used + len;
    if bytes.len() < end + 2 {
        return Ok(None);
    }
    if &bytes[end..end + 2] != b"\r\n" {
        return Err(Malformed("a value is not followed by \\r\\n"));
    }
    Ok(Some((Answer::Value { key, data: &bytes[used..end] }, end + 2)))
}

/// A number of bytes or things in decimal digits.
#[inline]
fn number(digits: &[u8]) -> Result<usize, Malformed> {
    const WRONG: Malformed = Malformed("a length is no number, or too large");
    if digits.is_empty() || digits.len() > 9 {
        return Err(WRONG);
    }
    let mut number = 0;
    for digit in digits {
        match digit.wrapping_sub(b'0') {
            digit @ 0..=9 => number = number * 10 + usize::from(digit),
            _ => return Err(WRONG),
        }
    }
    if number > MAX_VALUE { Err(WRONG) } else { Ok(number) }
}

/// memcached's refusals, in either of its protocols.
fn is_refusal(line: &[u8]) -> bool {
    line == b"ERROR" || line.starts_with(b"SERVER_ERROR") || line.starts_with(b"CLIENT_ERROR")
}
