//! Answers of Redis, version 2 of its protocol.

use super::{Answer, Malformed, Parsed, line, number, value};

#[inline]
pub(super) fn next(bytes: &[u8]) -> Parsed<'_> {
    let Some((line, used)) = line(bytes)? else { return Ok(None) };
    let Some((&kind, rest)) = line.split_first() else { return Err(Malformed("an empty line")) };
    let answer = match kind {
        b'$' if rest == b"-1" => Answer::Miss,
        b'$' => return value(bytes, used, number(rest)?, b""),
        b'*' => Answer::Many(number(rest)?),
        b'+' if rest == b"OK" => Answer::Stored,
        b'-' => Answer::Refused(rest),
        _ => return Err(Malformed("unknown answer")),
    };
    Ok(Some((answer, used)))
}
