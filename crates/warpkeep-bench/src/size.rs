//! Numbers of bytes, for people: `64M`, `1.5 GiB`.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

const UNITS: [(&str, u32); 4] = [("K", 10), ("M", 20), ("G", 30), ("T", 40)];

/// A number of bytes that reads and prints in powers of 1024.
///
/// ```
/// use warpkeep_bench::size::Size;
///
/// assert_eq!("64M".parse(), Ok(Size(64 << 20)));
/// assert_eq!("8GiB".parse(), Ok(Size(8 << 30)));
/// assert_eq!(Size(3 << 29).to_string(), "1.5 GiB");
/// assert!("much".parse::<Size>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let unit = unit.trim().to_ascii_uppercase();
        let unit = unit.strip_suffix("IB").or(unit.strip_suffix('B')).unwrap_or(&unit);
        let shift = match unit {
            "" => Some(0),
            unit => UNITS.iter().find(|(name, _)| *name == unit).map(|&(_, shift)| shift),
        };
        let wrong =
            || format!("`{text}` is no size; write bytes, or a number with K, M, G or T, such as 64M");
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let shift = shift.ok_or_else(wrong)?;
        number
            .checked_mul(1 << shift)
            .map(Size)
            .ok_or_else(|| format!("`{text}` is more bytes than can be counted"))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((unit, shift)) = UNITS.iter().rev().find(|(_, shift)| self.0 >> shift > 0) else {
            return write!(f, "{} bytes", self.0);
        };
        let amount = self.0 as f64 / (1_u64 << shift) as f64;
        let digits = usize::from(amount.fract() != 0.0);
        write!(f, "{amount:.digits$} {unit}iB")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for (text, bytes) in [("0", 0), ("17", 17), ("4k", 4096), ("1 MiB", 1 << 20), ("2TB", 2 << 40)] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for text in ["", "M", "-1", "1.5G", "1X", "99999999999T"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
        let shown = [0, 1023, 1024, 1 << 30, (1 << 40) + (1 << 39)].map(|bytes| Size(bytes).to_string());
        assert_eq!(shown, ["0 bytes", "1023 bytes", "1 KiB", "1 GiB", "1.5 TiB"]);
    }
}
