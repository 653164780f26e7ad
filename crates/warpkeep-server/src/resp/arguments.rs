//! The arguments of a command: an array of bulks.

use crate::item::MAX_VALUE;
use crate::span::Span;

/// The most arguments.
const MAX_ARGUMENTS: i64 = 1 << 20;
/// The longest command in bytes.
pub(super) const MAX_COMMAND: usize = 64 << 20;
/// The same for a client that is not authenticated yet.
pub(super) const MAX_UNAUTHENTICATED: usize = 16 << 10;
/// The longest value that Redis takes; a longer announced length is a protocol error.
const MAX_BULK: i64 = 512 << 20;
/// The most digits of a number; all that are allowed are far smaller.
const MOST_DIGITS: usize = 18;

/// The result of parsing at a position of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found<T> {
    /// It is there; the next begins at the second.
    There(T, usize),
    /// The input ends too early; at least this many bytes are needed from the beginning of the input.
    NeedsMore(usize),
    /// A bulk that is too long to be taken: its bytes begin at the second.
    TooLong(u64, usize),
    /// It is no RESP.
    Broken(&'static str),
}

/// A line with a number after its first byte. Every `GET` has three of them, so the digits are read one by one:
/// they are too few for a search for the line end to pay.
#[inline(always)]
fn line(input: &[u8], at: usize, wrong: &'static str) -> Found<i64> {
    let mut place = at + 1;
    let negative = input.get(place) == Some(&b'-');
    place += usize::from(negative);
    let first = place;
    let mut number = 0_i64;
    loop {
        match input.get(place) {
            None => return Found::NeedsMore(input.len() + 1),
            Some(b'\r') => break,
            Some(&byte) => {
                let digit = byte.wrapping_sub(b'0');
                let leading_zero = place > first && number == 0;
                if digit > 9 || leading_zero || place - first >= MOST_DIGITS {
                    return Found::Broken(wrong);
                }
                number = number * 10 + i64::from(digit);
            }
        }
        place += 1;
    }
    if place == first {
        return Found::Broken(wrong);
    }
    match input.len() < place + 2 {
        true => Found::NeedsMore(place + 2),
        false => Found::There(if negative { -number } else { number }, place + 2),
    }
}

/// The number of arguments, behind a `*`.
#[inline]
pub(super) fn count(input: &[u8], at: usize) -> Found<usize> {
    const WRONG: &str = "-ERR Protocol error: invalid multibulk length\r\n";
    match line(input, at, WRONG) {
        Found::There(count, next) if count <= MAX_ARGUMENTS => Found::There(count.max(0) as usize, next),
        Found::There(..) => Found::Broken(WRONG),
        Found::NeedsMore(bytes) => Found::NeedsMore(bytes),
        Found::TooLong(..) | Found::Broken(_) => Found::Broken(WRONG),
    }
}

/// An argument.
#[inline]
pub(super) fn bulk(input: &[u8], at: usize) -> Found<Span> {
    const WRONG: &str = "-ERR Protocol error: invalid bulk length\r\n";
    if at >= input.len() {
        return Found::NeedsMore(at + 1);
    }
    if input[at] != b'$' {
        return Found::Broken("-ERR Protocol error: expected '$'\r\n");
    }
    let (len, start) = match line(input, at, WRONG) {
        Found::There(len, start) if (0..=MAX_BULK).contains(&len) => (len as usize, start),
        Found::NeedsMore(bytes) => return Found::NeedsMore(bytes),
        _ => return Found::Broken(WRONG),
    };
    if len > MAX_VALUE {
        return Found::TooLong(len as u64, start);
    }
    match input.len() < start + len + 2 {
        true => Found::NeedsMore(start + len + 2),
        false => Found::There(Span::between(start, start + len), start + len + 2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bulk_is_there_when_its_last_byte_is() {
        let whole = b"$3\r\nabc\r\n";
        assert_eq!(bulk(whole, 0), Found::There(Span::between(4, 7), 9));
        for end in 0..whole.len() {
            assert!(
                matches!(bulk(&whole[..end], 0), Found::NeedsMore(more) if more > end && more <= 9),
                "{end}"
            );
        }
        assert!(matches!(bulk(b"$-1\r\n", 0), Found::Broken(_)));
        assert!(matches!(bulk(b"$x\r\n", 0), Found::Broken(_)));
        assert!(matches!(bulk(b":3\r\n", 0), Found::Broken(_)));
        assert!(matches!(bulk(b"$600000000\r\n", 0), Found::Broken(_)));
        assert_eq!(bulk(b"$2000000\r\n", 0), Found::TooLong(2_000_000, 10));
        assert!(matches!(bulk(&[b'$'; 100], 0), Found::Broken(_)));
    }

    #[test]
    fn an_array_has_a_count() {
        assert_eq!(count(b"*2\r\n", 0), Found::There(2, 4));
        assert_eq!(count(b"*-1\r\n", 0), Found::There(0, 5));
        assert!(matches!(count(b"*1048577\r\n", 0), Found::Broken(_)));
        assert!(matches!(count(b"*2\r", 0), Found::NeedsMore(4)));
    }
}
