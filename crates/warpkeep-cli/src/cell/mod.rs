//! Keys and values as people and files write them.

mod coding;
mod float;
mod key;
mod shown;

pub(crate) use coding::{Coding, scalar};
pub(crate) use key::{RawKey, key_from_text, key_prefix, shown_key};
pub(crate) use shown::Shown;

/// The bytes that text stands for: its own, or those after `hex:` or `base64:`; `text:` precedes text that begins
/// like one of these and is meant literally.
pub(crate) fn bytes_from_text(text: &str) -> Result<Vec<u8>, String> {
    match text.split_once(':') {
        Some(("text", rest)) => Ok(rest.as_bytes().to_vec()),
        Some(("hex", rest)) => Coding::Hex.parse(rest),
        Some(("base64", rest)) => Coding::Base64.parse(rest),
        _ => Ok(text.as_bytes().to_vec()),
    }
}

/// The text for some bytes; [`bytes_from_text`] reverses it. With `line` it has no control characters.
pub(crate) fn text_of_bytes(bytes: &[u8], line: bool) -> String {
    const MARKS: [&str; 5] = ["text:", "hex:", "base64:", "u64:", "f32:"];
    match std::str::from_utf8(bytes) {
        Ok(text) if line && text.contains(char::is_control) => format!("hex:{}", crate::output::hex(bytes)),
        Ok(text) if MARKS.iter().any(|mark| text.starts_with(mark)) => format!("text:{text}"),
        Ok(text) => text.to_owned(),
        Err(_) => format!("hex:{}", crate::output::hex(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_gives_its_bytes_back() {
        let cases: [&[u8]; 9] = [
            b"",
            b"plain",
            "gr\u{fc}n".as_bytes(),
            b"hex:00",
            b"text:",
            b"base64",
            b"two\nlines",
            &[0, 255, 254],
            b"u64:7",
        ];
        for bytes in cases {
            for line in [false, true] {
                let text = text_of_bytes(bytes, line);
                assert_eq!(bytes_from_text(&text).as_deref(), Ok(bytes), "{text}");
                assert!(!line || !text.contains(char::is_control), "{text:?}");
            }
        }
        assert_eq!(bytes_from_text("base64:AAE=").as_deref(), Ok(&[0, 1][..]));
        assert!(bytes_from_text("hex:0").is_err());
        assert!(bytes_from_text("base64:?").is_err());
    }
}
