//! Answers in the text protocol of memcached.

use super::{Answer, Malformed, Parsed, is_refusal, line, number, value};

#[inline]
pub(super) fn next(bytes: &[u8]) -> Parsed<'_> {
    let Some((line, used)) = line(bytes)? else { return Ok(None) };
    if let Some(rest) = line.strip_prefix(b"VALUE ") {
        const WRONG: Malformed = Malformed("VALUE is not followed by key, flags and length");
        // Key, flags, length and perhaps a version.
        let mut words = rest.split(|&byte| byte == b' ');
        let (key, _flags) = (words.next().ok_or(WRONG)?, words.next().ok_or(WRONG)?);
        let len = number(words.next().ok_or(WRONG)?)?;
        if key.is_empty() {
            return Err(WRONG);
        }
        return value(bytes, used, len, key);
    }
    let answer = match line {
        b"END" => Answer::End,
        b"STORED" => Answer::Stored,
        b"NOT_STORED" => Answer::Refused(line),
        _ if is_refusal(line) => Answer::Refused(line),
        _ => return Err(Malformed("unknown answer")),
    };
    Ok(Some((answer, used)))
}
