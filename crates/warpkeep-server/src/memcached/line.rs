//! The words of a line.

use memchr::memchr;

use crate::span::Span;

/// Words that a line can have; memcached does not look at more.
const MAX: usize = 24;

/// The words of a line, by their places in the input.
pub(super) struct Words {
    spans: [Span; MAX],
    len: usize,
}

impl Words {
    /// The words of the line from `start` to `end`.
    pub(super) fn of(input: &[u8], start: usize, end: usize) -> Words {
        let mut words = Words { spans: [Span::default(); MAX], len: 0 };
        let mut at = start;
        while words.len < MAX
            && let Some(span) = next_word(input, at, end)
        {
            words.spans[words.len] = span;
            words.len += 1;
            at = span.end();
        }
        words
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The place of a word.
    pub(super) fn span(&self, index: usize) -> Option<Span> {
        self.spans[..self.len].get(index).copied()
    }

    /// A word; empty if there is none.
    pub(super) fn get<'i>(&self, input: &'i [u8], index: usize) -> &'i [u8] {
        self.span(index).map_or(&[], |span| span.of(input))
    }

    /// Whether the last word suppresses the answer.
    pub(super) fn are_quiet(&self, input: &[u8]) -> bool {
        self.len > 0 && self.get(input, self.len - 1) == b"noreply"
    }
}

/// The next word of a line that ends at `end`.
#[inline]
pub(super) fn next_word(input: &[u8], mut at: usize, end: usize) -> Option<Span> {
    while at < end && input[at] == b' ' {
        at += 1;
    }
    if at >= end {
        return None;
    }
    let len = memchr(b' ', &input[at..end]).unwrap_or(end - at);
    Some(Span::between(at, at + len))
}

/// An unsigned number, as `strtoul` takes it.
pub(super) fn unsigned(word: &[u8]) -> Option<u64> {
    let digits = word.strip_prefix(b"+").unwrap_or(word);
    decimal(digits)
}

/// A signed number, as `strtol` takes it.
pub(super) fn signed(word: &[u8]) -> Option<i64> {
    match word.strip_prefix(b"-") {
        Some(digits) => 0_i64.checked_sub_unsigned(decimal(digits)?),
        None => i64::try_from(unsigned(word)?).ok(),
    }
}

/// Digits only.
#[inline]
pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_taken_as_strtol_takes_them() {
        assert_eq!(unsigned(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(unsigned(b"18446744073709551616"), None);
        assert_eq!(unsigned(b"-1"), None);
        assert_eq!(unsigned(b""), None);
        assert_eq!(signed(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(signed(b"9223372036854775808"), None);
        assert_eq!(signed(b"+5"), Some(5));
        assert_eq!(signed(b"5x"), None);
    }

    #[test]
    fn words_are_what_spaces_leave() {
        let line = b"  set  a 0 0 5 noreply ";
        let words = Words::of(line, 0, line.len());
        assert_eq!(words.len(), 6);
        assert_eq!(words.get(line, 1), b"a");
        assert!(words.are_quiet(line));
        assert_eq!(words.get(line, 9), b"");
        assert_eq!(Words::of(line, 0, 2).len(), 0);
    }
}
