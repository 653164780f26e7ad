//! The widths of keys and values.

use std::fmt;
use std::str::FromStr;

use warpkeep_containers::{MapKey, MapValue};

/// Bytes of the keys and of the values of a map.
///
/// ```
/// use warpkeep_bench::gpu::map::Pairs;
///
/// assert_eq!("8/16".parse::<Pairs>()?.to_string(), "8/16");
/// assert!("8/3".parse::<Pairs>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pairs {
    pub(super) key_bytes: u64,
    pub(super) value_bytes: u64,
}

impl Pairs {
    /// Keys and values of eight bytes.
    pub const USUAL: Pairs = Pairs { key_bytes: 8, value_bytes: 8 };

    /// Whether values have memory of their own: a key that is found takes another read then.
    pub(super) fn are_apart(self) -> bool {
        self.value_bytes == 16
    }

    /// Bytes of the word that a slot is.
    fn word_bytes(self) -> u64 {
        match self.key_bytes + self.value_bytes % 16 {
            bytes @ (4 | 8) => bytes,
            _ => 16,
        }
    }

    /// Bytes of a slot and its value.
    pub(super) fn slot_bytes(self) -> u64 {
        self.word_bytes() + if self.are_apart() { 16 } else { 0 }
    }

    /// Slots of the smallest map, which has 64 buckets.
    pub(super) fn least_slots(self) -> u64 {
        64 * (64 / self.word_bytes())
    }

    /// What the name of a case says of it. The usual ones have the name that they always had.
    pub(super) fn in_a_name(self) -> String {
        if self == Self::USUAL { String::new() } else { format!("{self} pairs, ") }
    }
}

impl fmt::Display for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.key_bytes, self.value_bytes)
    }
}

impl FromStr for Pairs {
    type Err = String;

    fn from_str(text: &str) -> Result<Pairs, String> {
        let parsed = text.split_once('/').map(|(key, value)| (key.trim().parse(), value.trim().parse()));
        match parsed {
            Some((Ok(key_bytes @ (4 | 8)), Ok(value_bytes @ (4 | 8 | 16)))) => {
                Ok(Pairs { key_bytes, value_bytes })
            }
            _ => Err(format!("a map has no pairs of `{text}` bytes; give 8/8, 8/4, 8/16, 4/4, 4/8 or 4/16")),
        }
    }
}

/// Keys of a map that is measured.
pub(super) trait Key: MapKey {
    /// Different numbers below 2^32 have different keys. `mixed` is the same of 64 bits.
    fn of(number: u64, mixed: u64, seed: u64) -> Self;
}

impl Key for u64 {
    fn of(_number: u64, mixed: u64, _seed: u64) -> u64 {
        mixed
    }
}

impl Key for u32 {
    fn of(number: u64, _mixed: u64, seed: u64) -> u32 {
        let x = number as u32 ^ seed as u32;
        let x = (x ^ (x >> 16)).wrapping_mul(0x9E37_79B1);
        x ^ (x >> 15)
    }
}

/// Values of such a map.
pub(super) trait Value: MapValue + Ord {
    /// Whether they can be added.
    const ARE_NUMBERS: bool;

    fn of(mixed: u64) -> Self;
    /// What comes of an addition; of a replacement if they are no numbers.
    fn changed_by(self, other: Self) -> Self;
}

impl Value for u64 {
    const ARE_NUMBERS: bool = true;

    fn of(mixed: u64) -> u64 {
        mixed
    }

    fn changed_by(self, other: u64) -> u64 {
        self.wrapping_add(other)
    }
}

impl Value for u32 {
    const ARE_NUMBERS: bool = true;

    fn of(mixed: u64) -> u32 {
        mixed as u32
    }

    fn changed_by(self, other: u32) -> u32 {
        self.wrapping_add(other)
    }
}

impl Value for [u64; 2] {
    const ARE_NUMBERS: bool = false;

    fn of(mixed: u64) -> [u64; 2] {
        [mixed, !mixed]
    }

    fn changed_by(self, other: [u64; 2]) -> [u64; 2] {
        other
    }
}
