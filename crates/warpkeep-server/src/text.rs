//! Numbers as text.

/// Adds a number in decimal digits.
#[inline]
pub(crate) fn number(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}
