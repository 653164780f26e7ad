//! Keys in base64, which may have any bytes.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::command::{Command, bits};
use crate::memcached::MAX_KEY;
use crate::session::Session;
use crate::span::Span;

/// With padding; unused trailing bits may have any value, as in memcached.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// A key that was decoded.
pub(super) struct Key {
    bytes: [u8; MAX_KEY],
    len: usize,
}

impl Key {
    /// Decodes up to [`MAX_KEY`] letters of base64. `None` if it is invalid or empty.
    pub(super) fn decode(letters: &[u8]) -> Option<Key> {
        let mut bytes = [0; MAX_KEY];
        let len = BASE64.decode_slice(letters, &mut bytes).ok()?;
        (len > 0).then_some(Key { bytes, len })
    }

    /// Makes it the key of a command.
    pub(super) fn keep(&self, session: &mut Session, command: &mut Command) {
        command.key = Span::append(&mut session.decoded, &self.bytes[..self.len]);
        command.bits |= bits::DECODED;
    }
}

/// Adds a key to an answer, in the encoding of the request.
pub(super) fn answer(out: &mut Vec<u8>, command: &Command, key: &[u8]) {
    match command.is(bits::DECODED) {
        false => out.extend_from_slice(key),
        true => {
            let start = out.len();
            out.resize(start + key.len().div_ceil(3) * 4, 0);
            let written = BASE64.encode_slice(key, &mut out[start..]);
            debug_assert!(written.is_ok(), "there is room for four letters for three bytes");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_what_base64_says() {
        let decoded = |letters: &[u8]| Key::decode(letters).map(|key| key.bytes[..key.len].to_vec());
        assert_eq!(decoded(b"Zm9v"), Some(b"foo".to_vec()));
        assert_eq!(decoded(b"Zh=="), Some(b"f".to_vec()));
        assert_eq!(decoded(b"AP8="), Some(vec![0, 255]));
        for wrong in [&b"Zm9"[..], b"Zg", b"=", b"Zm9v!", b""] {
            assert_eq!(decoded(wrong), None, "{wrong:?}");
        }
        assert_eq!(decoded(&[b'A'; 248]).map(|key| key.len()), Some(186));
    }
}
