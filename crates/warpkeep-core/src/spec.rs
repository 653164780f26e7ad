//! Which keys and values a table takes.
//!
//! A spec is fixed when its table is created and stored with it in 8 bytes:
//!
//! | offset | type | field |
//! | --- | --- | --- |
//! | 0 | u8 | kind: 1 `u64` keys, 2 fixed keys, 3 variable keys; 17 fixed values, 18 variable values |
//! | 1 | 3 bytes | zeros |
//! | 4 | u32 | length, or longest length, in bytes, little-endian |
//!
//! Any other encoding is refused, so that an older version never misreads a newer version's table.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::CoreError;

const KEY_U64: u8 = 1;
const KEY_FIXED: u8 = 2;
const KEY_VARIABLE: u8 = 3;
const VALUE_FIXED: u8 = 17;
const VALUE_VARIABLE: u8 = 18;

/// Which keys a table takes.
///
/// ```
/// use warpkeep_core::KeySpec;
/// let spec: KeySpec = "fixed:32".parse()?;
/// assert_eq!(spec, KeySpec::fixed(32)?);
/// assert!(spec.check(&[0; 31]).is_err());
/// assert_eq!(KeySpec::from_bytes(spec.to_bytes())?, spec);
/// # Ok::<(), warpkeep_core::CoreError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum KeySpec {
    /// Any 64-bit integer, as 8 bytes, little-endian. No value is reserved.
    U64,
    /// Keys of one length, kept in place; made with [`KeySpec::fixed`].
    #[non_exhaustive]
    Fixed {
        /// The length in bytes.
        len: u32,
    },
    /// Keys of any length up to a limit, the empty key included; made with [`KeySpec::variable`]. With a limit of
    /// [63 bytes](crate::KeyCells::LONGEST) or less and values of one length, a packed GPHash table stores them in
    /// [cells](crate::KeyCells) of one size, and handles them like fixed keys, on devices too.
    #[non_exhaustive]
    Variable {
        /// The longest length in bytes.
        max: u32,
    },
}

impl KeySpec {
    /// The longest fixed key.
    pub const MAX_FIXED: u32 = 128;
    /// The longest variable key.
    pub const MAX_VARIABLE: u32 = 64 * 1024 - 1;
    /// The longest key of a table declared `var` without a limit.
    pub const DEFAULT_VARIABLE: u32 = 1024;

    /// Keys of `len` bytes each, 1 to [`KeySpec::MAX_FIXED`].
    pub const fn fixed(len: u32) -> Result<KeySpec, CoreError> {
        if outside(len, Self::MAX_FIXED) {
            return Err(limit("fixed keys", len, Self::MAX_FIXED));
        }
        Ok(KeySpec::Fixed { len })
    }

    /// Keys of 0 to `max` bytes, where `max` is 1 to [`KeySpec::MAX_VARIABLE`].
    pub const fn variable(max: u32) -> Result<KeySpec, CoreError> {
        if outside(max, Self::MAX_VARIABLE) {
            return Err(limit("variable keys", max, Self::MAX_VARIABLE));
        }
        Ok(KeySpec::Variable { max })
    }

    /// The one length all keys have, if they have one.
    pub const fn fixed_len(self) -> Option<usize> {
        match self {
            KeySpec::U64 => Some(8),
            KeySpec::Fixed { len } => Some(len as usize),
            KeySpec::Variable { .. } => None,
        }
    }

    /// The longest key.
    pub const fn max_len(self) -> usize {
        match self {
            KeySpec::U64 => 8,
            KeySpec::Fixed { len } => len as usize,
            KeySpec::Variable { max } => max as usize,
        }
    }

    /// Whether a key of `len` bytes is one.
    pub const fn takes_len(self, len: usize) -> bool {
        match self.fixed_len() {
            Some(fixed) => len == fixed,
            None => len <= self.max_len(),
        }
    }

    /// Refuses a key that the table does not take.
    pub fn check(self, key: &[u8]) -> Result<(), CoreError> {
        self.check_len(key.len())
    }

    /// An error if no key can have this length.
    pub fn check_len(self, len: usize) -> Result<(), CoreError> {
        if self.takes_len(len) { Ok(()) } else { Err(CoreError::KeyLength { len: len as u64, spec: self }) }
    }

    /// As stored with the table.
    pub const fn to_bytes(self) -> [u8; 8] {
        match self {
            KeySpec::U64 => encode(KEY_U64, 8),
            KeySpec::Fixed { len } => encode(KEY_FIXED, len),
            KeySpec::Variable { max } => encode(KEY_VARIABLE, max),
        }
    }

    /// Decodes the form stored with the table.
    pub fn from_bytes(bytes: [u8; 8]) -> Result<KeySpec, CoreError> {
        match decode(bytes) {
            Some((KEY_U64, 8)) => Ok(KeySpec::U64),
            Some((KEY_FIXED, len)) => KeySpec::fixed(len),
            Some((KEY_VARIABLE, max)) => KeySpec::variable(max),
            _ => Err(CoreError::SpecEncoding { what: "key", bytes }),
        }
        .map_err(|_| CoreError::SpecEncoding { what: "key", bytes })
    }
}

impl fmt::Display for KeySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeySpec::U64 => f.write_str("u64"),
            KeySpec::Fixed { len } => write!(f, "fixed:{len}"),
            KeySpec::Variable { max } => write!(f, "var:{max}"),
        }
    }
}

impl FromStr for KeySpec {
    type Err = CoreError;

    /// Reads `u64`, `fixed:<bytes>`, `var:<longest>`, or `var` for a limit of [`KeySpec::DEFAULT_VARIABLE`].
    fn from_str(text: &str) -> Result<KeySpec, CoreError> {
        match words(text) {
            ("u64", None) => Ok(KeySpec::U64),
            ("var", None) => KeySpec::variable(KeySpec::DEFAULT_VARIABLE),
            ("fixed", Some(Ok(len))) => KeySpec::fixed(len),
            ("var", Some(Ok(max))) => KeySpec::variable(max),
            _ => Err(CoreError::SpecSyntax {
                what: "key",
                text: text.to_owned(),
                expected: "u64, fixed:<bytes> or var:<longest in bytes>",
            }),
        }
    }
}

/// Which values a table takes.
///
/// ```
/// use warpkeep_core::ValueSpec;
/// let row: ValueSpec = "f32x64".parse()?; // an embedding row
/// assert_eq!(row, ValueSpec::fixed(256)?);
/// assert_eq!(row.to_string(), "fixed:256");
/// # Ok::<(), warpkeep_core::CoreError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ValueSpec {
    /// Values of one length: counters, embedding rows; made with [`ValueSpec::fixed`].
    #[non_exhaustive]
    Fixed {
        /// The length in bytes.
        len: u32,
    },
    /// Values of any length up to a limit, the empty value included; made with [`ValueSpec::variable`].
    #[non_exhaustive]
    Variable {
        /// The longest length in bytes.
        max: u32,
    },
}

impl ValueSpec {
    /// The longest value.
    pub const MAX: u32 = 1024 * 1024;
    /// Values of 8 bytes: counters and other integers.
    pub const U64: ValueSpec = ValueSpec::Fixed { len: 8 };

    /// Values of `len` bytes each, 1 to [`ValueSpec::MAX`].
    pub const fn fixed(len: u32) -> Result<ValueSpec, CoreError> {
        if outside(len, Self::MAX) {
            return Err(limit("fixed values", len, Self::MAX));
        }
        Ok(ValueSpec::Fixed { len })
    }

    /// Values of 0 to `max` bytes, where `max` is 1 to [`ValueSpec::MAX`].
    pub const fn variable(max: u32) -> Result<ValueSpec, CoreError> {
        if outside(max, Self::MAX) {
            return Err(limit("variable values", max, Self::MAX));
        }
        Ok(ValueSpec::Variable { max })
    }

    /// The one length all values have, if they have one.
    pub const fn fixed_len(self) -> Option<usize> {
        match self {
            ValueSpec::Fixed { len } => Some(len as usize),
            ValueSpec::Variable { .. } => None,
        }
    }

    /// The longest value.
    pub const fn max_len(self) -> usize {
        match self {
            ValueSpec::Fixed { len } => len as usize,
            ValueSpec::Variable { max } => max as usize,
        }
    }

    /// Whether a value of `len` bytes is one.
    pub const fn takes_len(self, len: usize) -> bool {
        match self.fixed_len() {
            Some(fixed) => len == fixed,
            None => len <= self.max_len(),
        }
    }

    /// Refuses a value that the table does not take.
    pub fn check(self, value: &[u8]) -> Result<(), CoreError> {
        self.check_len(value.len())
    }

    /// An error if no value can have this length.
    pub fn check_len(self, len: usize) -> Result<(), CoreError> {
        if self.takes_len(len) { Ok(()) } else { Err(CoreError::ValueLength { len: len as u64, spec: self }) }
    }

    /// Refuses fetch-add where no value can have 8 bytes.
    pub(crate) fn check_number(self) -> Result<(), CoreError> {
        if self.takes_len(8) { Ok(()) } else { Err(CoreError::NotANumber { spec: self }) }
    }

    /// As stored with the table.
    pub const fn to_bytes(self) -> [u8; 8] {
        match self {
            ValueSpec::Fixed { len } => encode(VALUE_FIXED, len),
            ValueSpec::Variable { max } => encode(VALUE_VARIABLE, max),
        }
    }

    /// Decodes the form stored with the table.
    pub fn from_bytes(bytes: [u8; 8]) -> Result<ValueSpec, CoreError> {
        match decode(bytes) {
            Some((VALUE_FIXED, len)) => ValueSpec::fixed(len),
            Some((VALUE_VARIABLE, max)) => ValueSpec::variable(max),
            _ => Err(CoreError::SpecEncoding { what: "value", bytes }),
        }
        .map_err(|_| CoreError::SpecEncoding { what: "value", bytes })
    }
}

impl fmt::Display for ValueSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueSpec::Fixed { len } => write!(f, "fixed:{len}"),
            ValueSpec::Variable { max } => write!(f, "var:{max}"),
        }
    }
}

impl FromStr for ValueSpec {
    type Err = CoreError;

    /// Reads `fixed:<bytes>`, `var:<longest>`, `var` for the largest limit, and two short forms: `u64` for
    /// `fixed:8` and `f32x<n>`, rows of n floats, for `fixed:<4n>`.
    fn from_str(text: &str) -> Result<ValueSpec, CoreError> {
        match words(text) {
            ("u64", None) => Ok(ValueSpec::U64),
            ("var", None) => ValueSpec::variable(ValueSpec::MAX),
            ("fixed", Some(Ok(len))) => ValueSpec::fixed(len),
            ("var", Some(Ok(max))) => ValueSpec::variable(max),
            (word, None) => match word.strip_prefix("f32x").map(number) {
                // Saturation is far above the limit, so a row that overflows is refused like any long one.
                Some(Ok(floats)) => ValueSpec::fixed(floats.saturating_mul(4)),
                _ => Err(Self::syntax(text)),
            },
            _ => Err(Self::syntax(text)),
        }
    }
}

impl ValueSpec {
    fn syntax(text: &str) -> CoreError {
        CoreError::SpecSyntax {
            what: "value",
            text: text.to_owned(),
            expected: "u64, f32x<floats>, fixed:<bytes> or var:<longest in bytes>",
        }
    }
}

/// `word` or `word:number`.
fn words(text: &str) -> (&str, Option<Result<u32, ()>>) {
    match text.split_once(':') {
        None => (text, None),
        Some((word, rest)) => (word, Some(number(rest))),
    }
}

/// Plain decimal digits; `u32::from_str` alone would also take a plus sign.
fn number(text: &str) -> Result<u32, ()> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().map_err(drop) } else { Err(()) }
}

const fn outside(len: u32, max: u32) -> bool {
    len == 0 || len > max
}

const fn limit(what: &'static str, len: u32, max: u32) -> CoreError {
    CoreError::SpecLimit { what, len, min: 1, max }
}

const fn encode(kind: u8, len: u32) -> [u8; 8] {
    let [a, b, c, d] = len.to_le_bytes();
    [kind, 0, 0, 0, a, b, c, d]
}

const fn decode(bytes: [u8; 8]) -> Option<(u8, u32)> {
    match bytes {
        [kind, 0, 0, 0, a, b, c, d] => Some((kind, u32::from_le_bytes([a, b, c, d]))),
        _ => None,
    }
}

macro_rules! serde_as_text {
    ($spec:ty) => {
        impl TryFrom<String> for $spec {
            type Error = CoreError;

            fn try_from(text: String) -> Result<Self, CoreError> {
                text.parse()
            }
        }

        impl From<$spec> for String {
            fn from(spec: $spec) -> String {
                spec.to_string()
            }
        }
    };
}

serde_as_text!(KeySpec);
serde_as_text!(ValueSpec);
