//! Ways to write a value.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::ValueEnum;
use serde_json::value::RawValue;

use super::float::Float;
use super::{Shown, bytes_from_text, text_of_bytes};
use crate::output::hex;

/// How values are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Coding {
    /// As text; `hex:...` if they are none.
    #[default]
    Text,
    /// In hexadecimal.
    Hex,
    /// In base64.
    Base64,
    /// As rows of 32-bit floating-point numbers.
    F32,
    /// As one 64-bit integer.
    U64,
}

impl Coding {
    /// A value from the command line: text, or with its coding before it.
    pub(crate) fn parse_marked(text: &str) -> Result<Vec<u8>, String> {
        match text.split_once(':') {
            Some(("f32", rest)) => Coding::F32.parse(rest),
            Some(("u64", rest)) => Coding::U64.parse(rest),
            _ => bytes_from_text(text),
        }
    }

    /// The bytes that this text stands for.
    pub(crate) fn parse(self, text: &str) -> Result<Vec<u8>, String> {
        match self {
            Coding::Text => bytes_from_text(text),
            Coding::Hex => parse_hex(text),
            Coding::Base64 => STANDARD
                .decode(text)
                .map_err(|error| format!("not base64: {error}; write it with padding, such as AAE=")),
            Coding::F32 => {
                let numbers = text.split([' ', ',', ';', '\t']).filter(|part| !part.is_empty());
                let rows: Result<Vec<[u8; 4]>, String> =
                    numbers.map(|number| Ok(Float::parse(number)?.0.to_le_bytes())).collect();
                Ok(rows?.concat())
            }
            Coding::U64 => Ok(number_from_text(text)?.to_le_bytes().to_vec()),
        }
    }

    /// The bytes that a piece of JSON stands for.
    pub(crate) fn parse_json(self, json: &RawValue) -> Result<Vec<u8>, String> {
        let text = json.get();
        let first = text.as_bytes().first().copied().unwrap_or(b' ');
        match (self, first) {
            (Coding::F32, b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(text).map_err(|error| error.to_string())?;
                // As text, so that the digits are rounded once and not twice.
                let floats: Result<Vec<[u8; 4]>, String> =
                    items.iter().map(|item| Ok(Float::parse(&scalar(item)?)?.0.to_le_bytes())).collect();
                Ok(floats?.concat())
            }
            (Coding::F32 | Coding::U64, b'0'..=b'9' | b'-') => self.parse(text),
            (_, b'"') => self.parse(&scalar(json)?),
            (_, b'[') => Err("the value is an array; give --as f32 if it is a row of numbers".into()),
            (_, b'0'..=b'9' | b'-') => {
                Err("the value is a number; write it as a string, or give --as u64 or --as f32".into())
            }
            _ => Err("the value is neither a string nor a row of numbers; write it as one of them".into()),
        }
    }

    /// The value as it is shown; it has no control characters on a `line` of its own.
    pub(crate) fn show(self, bytes: &[u8], line: bool) -> Result<Shown, String> {
        let len = bytes.len();
        Ok(match self {
            Coding::Text => Shown::Text(text_of_bytes(bytes, line)),
            Coding::Hex => Shown::Text(hex(bytes)),
            Coding::Base64 => Shown::Text(STANDARD.encode(bytes)),
            Coding::F32 => match bytes.as_chunks::<4>() {
                (numbers, []) => {
                    Shown::Floats(numbers.iter().map(|bytes| Float(f32::from_le_bytes(*bytes))).collect())
                }
                _ => return Err(format!("a value of {len} bytes is no row of f32; ask for hex")),
            },
            Coding::U64 => match bytes.try_into() {
                Ok(bytes) => Shown::Number(u64::from_le_bytes(bytes)),
                Err(_) => return Err(format!("a value of {len} bytes is no u64; ask for hex")),
            },
        })
    }
}

/// A string without its quotes, or a number as it stands.
pub(crate) fn scalar(json: &RawValue) -> Result<String, String> {
    match json.get().starts_with('"') {
        true => serde_json::from_str(json.get()).map_err(|error| error.to_string()),
        false => Ok(json.get().to_owned()),
    }
}

/// Decimal digits, or hexadecimal ones after `0x`.
pub(super) fn number_from_text(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let number = match digits {
        // The standard library would take a sign.
        _ if text.contains('+') => None,
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    number.ok_or_else(|| format!("'{text}' is no 64-bit integer; write it like 42 or 0x2a"))
}

fn parse_hex(text: &str) -> Result<Vec<u8>, String> {
    let wrong = || "not hexadecimal; write two digits a byte, such as 00ff".to_owned();
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    match text.as_bytes().as_chunks::<2>() {
        (pairs, []) => pairs
            .iter()
            .map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?))
            .collect::<Option<_>>()
            .ok_or_else(wrong),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).expect("JSON")
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        let row = [0.1_f32, -0.0, f32::INFINITY, f32::NAN].map(f32::to_le_bytes).concat();
        let cases: [(Coding, &[u8]); 5] = [
            (Coding::Text, b"a\tb"),
            (Coding::Hex, &[0, 255]),
            (Coding::Base64, &[1, 2, 3, 4]),
            (Coding::F32, &row),
            (Coding::U64, &[7; 8]),
        ];
        for (coding, bytes) in cases {
            for line in [false, true] {
                let shown = coding.show(bytes, line).expect("it can be shown");
                assert_eq!(coding.parse(&shown.to_string()).as_deref(), Ok(bytes), "{coding:?}");
                let json = serde_json::to_string(&shown).expect("JSON");
                assert_eq!(coding.parse_json(&raw(&json)).as_deref(), Ok(bytes), "{json}");
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(Coding::Hex.parse("0g").is_err() && Coding::Hex.parse("\u{fc}").is_err());
        assert!(Coding::U64.parse("-1").is_err() && Coding::U64.parse("+1").is_err());
        assert!(Coding::F32.show(&[0; 5], true).is_err() && Coding::U64.show(&[0; 5], true).is_err());
        for json in ["[1]", "1", "null", "{}"] {
            assert!(Coding::Text.parse_json(&raw(json)).is_err(), "{json}");
        }
        assert!(Coding::F32.parse_json(&raw("[[1]]")).is_err());
        assert_eq!(Coding::parse_marked("u64:0x10"), Ok(16_u64.to_le_bytes().to_vec()));
        assert_eq!(Coding::parse_marked("f32:1,2").map(|row| row.len()), Ok(8));
        assert_eq!(Coding::parse_marked("http://x"), Ok(b"http://x".to_vec()));
    }
}
