//! Answers to the meta commands of memcached.

use super::{Answer, Malformed, Parsed, is_refusal, line, number, value};

#[inline]
pub(super) fn next(bytes: &[u8]) -> Parsed<'_> {
    let Some((line, used)) = line(bytes)? else { return Ok(None) };
    if let Some(rest) = line.strip_prefix(b"VA ") {
        // The length, then flags; the flag k repeats the key.
        let mut words = rest.split(|&byte| byte == b' ');
        let len = number(words.next().ok_or(Malformed("VA is not followed by a length"))?)?;
        let key = words.find_map(|word| word.strip_prefix(b"k")).unwrap_or_default();
        return value(bytes, used, len, key);
    }
    let answer = match line.split(|&byte| byte == b' ').next().unwrap_or_default() {
        b"EN" => Answer::Miss,
        b"HD" => Answer::Stored,
        b"MN" => Answer::End,
        b"NS" | b"NF" | b"EX" => Answer::Refused(line),
        _ if is_refusal(line) => Answer::Refused(line),
        _ => return Err(Malformed("unknown answer")),
    };
    Ok(Some((answer, used)))
}
