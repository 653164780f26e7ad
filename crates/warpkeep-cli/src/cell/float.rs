//! 32-bit numbers as text that gives every bit back.

use serde::{Serialize, Serializer};

/// A number that prints as short as its bits allow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Float(pub(crate) f32);

impl Float {
    /// Reads the output of [`Display`](std::fmt::Display), and every other notation of a number.
    pub(crate) fn parse(text: &str) -> Result<Float, String> {
        let wrong = || format!("'{text}' is no number; write it like 0.25, 1e-3, inf or NaN");
        match text.strip_prefix("bits:") {
            Some(bits) => {
                u32::from_str_radix(bits, 16).map(|bits| Float(f32::from_bits(bits))).map_err(|_| wrong())
            }
            None => {
                let number: f32 = text.parse().map_err(|_| wrong())?;
                Ok(Float(number))
            }
        }
    }
}

impl std::fmt::Display for Float {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // There are many NaNs, and only one of them is written so.
        if self.0.is_nan() && self.0.to_bits() != f32::NAN.to_bits() {
            return write!(f, "bits:{:08x}", self.0.to_bits());
        }
        // Without an exponent the smallest ones would have fifty digits.
        let size = self.0.abs();
        let far = size.is_finite() && size != 0.0 && !(1e-5..1e16).contains(&size);
        if far { write!(f, "{:e}", self.0) } else { write!(f, "{}", self.0) }
    }
}

impl Serialize for Float {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // JSON has no infinity, and would lose it silently.
        if self.0.is_finite() { serializer.serialize_f32(self.0) } else { serializer.collect_str(self) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_comes_back() {
        let special = [0x7fc0_0000, 0x7fc0_0001, 0xff80_0000, 0x7f80_0000, 0x8000_0000, 1, 0x7f7f_ffff];
        let many = (0..20_000_u32).map(|n| n.wrapping_mul(0x9e37_79b9));
        for bits in special.into_iter().chain(many) {
            let float = Float(f32::from_bits(bits));
            let text = float.to_string();
            assert_eq!(Float::parse(&text).map(|float| float.0.to_bits()), Ok(bits), "{text}");
            let json = serde_json::to_string(&float).expect("JSON");
            let bare = json.trim_matches('"');
            assert_eq!(Float::parse(bare).map(|float| float.0.to_bits()), Ok(bits), "{json}");
        }
        assert_eq!([0.1, 1e-40, -3e30].map(|number| Float(number).to_string()), ["0.1", "1e-40", "-3e30"]);
        assert!(Float::parse("one").is_err());
        assert!(Float::parse("bits:").is_err());
        assert!(Float::parse("").is_err());
    }
}
