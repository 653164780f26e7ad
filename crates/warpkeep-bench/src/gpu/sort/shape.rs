//! The columns that are sorted.

use std::fmt;
use std::str::FromStr;

/// Bytes of a key, and of the value that moves with it.
///
/// ```
/// use warpkeep_bench::gpu::sort::Shape;
///
/// assert_eq!("8+4".parse::<Shape>()?.to_string(), "pairs of 8 + 4 bytes");
/// assert_eq!("4".parse::<Shape>()?.to_string(), "keys of 4 bytes");
/// assert!("3+4".parse::<Shape>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub(super) key_bytes: u32,
    pub(super) value_bytes: u32,
}

impl Shape {
    /// Keys alone, and pairs of all sizes that occur most.
    pub const USUAL: [Shape; 5] =
        [Shape::of(4, 0), Shape::of(8, 0), Shape::of(4, 4), Shape::of(8, 4), Shape::of(8, 8)];

    const fn of(key_bytes: u32, value_bytes: u32) -> Shape {
        Shape { key_bytes, value_bytes }
    }

    /// Bytes of an item.
    pub(super) fn item_bytes(self) -> u64 {
        u64::from(self.key_bytes + self.value_bytes)
    }

    /// Bytes of keys and values that a sort reads and writes for each item. There is a pass for each byte of a key: it reads the keys
    /// to count their digits, reads keys and values, and writes both.
    pub(super) fn moved_bytes(self) -> u64 {
        u64::from(self.key_bytes) * (u64::from(self.key_bytes) + 2 * self.item_bytes())
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value_bytes {
            0 => write!(f, "keys of {} bytes", self.key_bytes),
            bytes => write!(f, "pairs of {} + {bytes} bytes", self.key_bytes),
        }
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let (key, value) = text.split_once('+').unwrap_or((text, "0"));
        match (key.trim().parse(), value.trim().parse()) {
            (Ok(key @ (4 | 8)), Ok(value @ (0 | 4 | 8))) => Ok(Shape::of(key, value)),
            _ => {
                Err(format!("`{text}` cannot be sorted; give 4 or 8 for keys alone, or 4+4, 4+8, 8+4 or 8+8"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_all_passes() {
        let moved = Shape::USUAL.map(Shape::moved_bytes);
        assert_eq!(moved, [48, 192, 80, 256, 320]);
    }
}
