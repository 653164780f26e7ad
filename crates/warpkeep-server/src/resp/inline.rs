//! Commands that are a line of words, as they are typed.

use memchr::memchr;

use super::commands::{Asked, To};
use super::multi;
use crate::batch::Batch;
use crate::misbehaviour::is_http;
use crate::session::{Parsed, Session};
use crate::settings::Access;
use crate::span::Span;

/// The longest line.
const LONGEST: usize = 64 << 10;

const UNBALANCED: &[u8] = b"-ERR Protocol error: unbalanced quotes in request\r\n";

/// Parses a line.
#[cold]
pub(super) fn parse(session: &mut Session, input: &[u8], access: &Access, batch: &mut Batch) -> Parsed {
    let start = session.at;
    let Some(len) = memchr(b'\n', &input[start..]) else {
        return match input.len() - start > LONGEST {
            true => {
                let what = b"-ERR Protocol error: too big inline request\r\n";
                session.say_and_close(batch, input.len(), what)
            }
            false => Parsed::NeedsMore(input.len() - start + 1),
        };
    };
    let next = start + len + 1;
    let end = start + len - usize::from(len > 0 && input[start + len - 1] == b'\r');
    if is_http(&input[start..end]) {
        return session.hang_up_on_http(batch, next);
    }
    let Some(words) = split(input, start, end) else {
        return session.say_and_close(batch, input.len(), UNBALANCED);
    };
    if words.is_empty() {
        session.at = next;
        return Parsed::Some;
    }
    // Escaped words differ from the input, so they are stored separately.
    let mut bytes = Vec::new();
    let places: Option<Vec<Span>> = words.iter().map(Word::place).collect();
    let is_plain = places.is_some();
    let arguments = places
        .unwrap_or_else(|| words.iter().map(|word| Span::append(&mut bytes, word.bytes(input))).collect());
    let asked = Asked { input: if is_plain { input } else { &bytes }, arguments: &arguments, next };
    let is_open = session.transaction.as_ref().is_some_and(|transaction| transaction.open);
    if is_open || !session.authenticated {
        return multi::command(session, &asked, access, batch);
    }
    // Commands refer to the input, and a command with many keys is parsed again as bulk strings; neither works with
    // the separate copy.
    match is_plain && !(asked.len() > 2 && has_parts(&asked)) {
        true => multi::command(session, &asked, access, batch),
        false => To { session, asked: &asked, batch, access }.alone(),
    }
}

fn has_parts(asked: &Asked<'_>) -> bool {
    ["MGET", "DEL", "UNLINK", "EXISTS", "TOUCH"].iter().any(|name| asked.is(0, name))
}

/// A word of a line.
enum Word {
    /// As it stands in the line.
    Plain(Span),
    /// Unescaped: a part of it was escaped, or it has several parts.
    Meant(Vec<u8>),
}

impl Word {
    fn place(&self) -> Option<Span> {
        match self {
            Word::Plain(span) => Some(*span),
            Word::Meant(_) => None,
        }
    }

    fn bytes<'a>(&'a self, input: &'a [u8]) -> &'a [u8] {
        match self {
            Word::Plain(span) => span.of(input),
            Word::Meant(bytes) => bytes,
        }
    }
}

/// The words of a line. Quotes keep spaces; in double quotes `\n`, `\x41` and the like are escapes. `None` if a
/// quote is not closed, or is followed directly by other text.
fn split(input: &[u8], start: usize, end: usize) -> Option<Vec<Word>> {
    let mut words = Vec::new();
    let mut at = start;
    loop {
        while at < end && input[at].is_ascii_whitespace() {
            at += 1;
        }
        if at >= end {
            return Some(words);
        }
        let first = at;
        let mut meant: Option<Vec<u8>> = None;
        while at < end && !input[at].is_ascii_whitespace() {
            let quote = input[at];
            if !matches!(quote, b'"' | b'\'') {
                if let Some(meant) = &mut meant {
                    meant.push(quote);
                }
                at += 1;
                continue;
            }
            let meant = meant.get_or_insert_with(|| input[first..at].to_vec());
            at = quoted(input, at + 1, end, quote, meant)?;
            if at < end && !input[at].is_ascii_whitespace() {
                return None;
            }
        }
        words.push(match meant {
            Some(meant) => Word::Meant(meant),
            None => Word::Plain(Span::between(first, at)),
        });
    }
}

/// Reads the text between quotes; returns the position after the closing one.
fn quoted(input: &[u8], mut at: usize, end: usize, quote: u8, out: &mut Vec<u8>) -> Option<usize> {
    while at < end {
        let rest = &input[at..end];
        let (byte, len) = match rest {
            [byte, ..] if *byte == quote => return Some(at + 1),
            [b'\\', b'\'', ..] if quote == b'\'' => (b'\'', 2),
            [b'\\', b'x', high, low, ..] if quote == b'"' && hex(*high).is_some() && hex(*low).is_some() => {
                (hex(*high)? << 4 | hex(*low)?, 4)
            }
            [b'\\', escaped, ..] if quote == b'"' => {
                let byte = match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                };
                (byte, 2)
            }
            [byte, ..] => (*byte, 1),
            [] => return None,
        };
        out.push(byte);
        at += len;
    }
    None
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
        let words = split(line, 0, line.len())?;
        Some(words.iter().map(|word| word.bytes(line).to_vec()).collect())
    }

    #[test]
    fn quotes_hold_words_together() {
        let plain = words(b"  SET  a\tb ").unwrap();
        assert_eq!(plain, [&b"SET"[..], b"a", b"b"]);
        assert_eq!(
            words(br#"a "b c" '' 'it\'s' "\x41\n\"" x"y""#).unwrap(),
            [&b"a"[..], b"b c", b"", b"it's", b"A\n\"", b"xy"]
        );
        for wrong in [&br#""a"#[..], b"'a", br#""a"b"#, br#"'a'b"#, br#""a\"#] {
            assert!(words(wrong).is_none(), "{}", wrong.escape_ascii());
        }
        assert_eq!(words(b"").unwrap().len(), 0);
    }
}
