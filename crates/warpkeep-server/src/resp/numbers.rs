//! Numbers as Redis takes and gives them.

/// An integer, written as Redis would write it and in no other way.
#[inline]
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [] => return None,
        [b'0'] => return (!negative).then_some(0),
        [b'0', ..] => return None,
        _ => {}
    }
    // Negative numbers reach one further.
    digits.iter().try_fold(0_i64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        let number = number.checked_mul(10)?;
        if negative { number.checked_sub(i64::from(digit)) } else { number.checked_add(i64::from(digit)) }
    })
}

/// A number with a fraction.
pub(super) fn float(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    if text.is_empty() || text.starts_with(char::is_whitespace) {
        return None;
    }
    text.parse::<f64>().ok().filter(|number| !number.is_nan())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_written_in_one_way() {
        assert_eq!(integer(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(integer(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(integer(b"0"), Some(0));
        for wrong in [&b""[..], b"-", b"+1", b"01", b"-0", b" 1", b"1 ", b"1.0", b"9223372036854775808"] {
            assert_eq!(integer(wrong), None, "{}", String::from_utf8_lossy(wrong));
        }
    }

    #[test]
    fn floats_are_numbers() {
        assert_eq!(float(b"3.0e3"), Some(3000.0));
        assert_eq!(float(b"nan"), None);
        assert_eq!(float(b" 1"), None);
        assert_eq!(float(b""), None);
    }
}
