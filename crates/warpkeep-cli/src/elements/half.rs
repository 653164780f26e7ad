//! Floating-point numbers of 16 bits.

/// The number that these bits are.
pub(super) fn from_half(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let fraction = f64::from(bits & 0x3ff);
    match i32::from(bits >> 10 & 0x1f) {
        0 => sign * fraction * 2_f64.powi(-24),
        31 if fraction == 0.0 => sign * f64::INFINITY,
        31 => f64::NAN,
        exponent => sign * (1.0 + fraction / 1024.0) * 2_f64.powi(exponent - 15),
    }
}

/// The nearest number of 16 bits, ties to even; one that is too large becomes infinite.
pub(super) fn to_half(number: f64) -> u16 {
    if number.is_nan() {
        return 0x7e00;
    }
    let sign = (number.to_bits() >> 48) as u16 & 0x8000;
    let size = number.abs();
    // Half way between the largest number and the next power of two.
    if size >= 65_520.0 {
        return sign | 0x7c00;
    }
    if size < 2_f64.powi(-14) {
        // A subnormal that rounds up to the smallest normal number gets the right bits by itself.
        return sign | (size * 2_f64.powi(24)).round_ties_even() as u16;
    }
    let exponent = (size.to_bits() >> 52) as i32 - 1023;
    let units = (size * 2_f64.powi(10 - exponent)).round_ties_even() as u32;
    sign | ((((exponent + 15) as u32) << 10) + units - 1024) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_16_bits_comes_back() {
        for bits in 0..=u16::MAX {
            let number = from_half(bits);
            match number.is_nan() {
                true => assert_eq!(to_half(number), 0x7e00),
                false => assert_eq!(to_half(number), bits, "{number}"),
            }
        }
    }

    #[test]
    fn others_are_rounded_to_the_nearest() {
        let cases =
            [(1.0, 0x3c00), (-2.5, 0xc100), (65_504.0, 0x7bff), (65_519.0, 0x7bff), (65_520.0, 0x7c00)];
        for (number, bits) in cases {
            assert_eq!(to_half(number), bits, "{number}");
        }
        // Ties go to the even neighbour.
        assert_eq!(to_half(1.0 + 2_f64.powi(-11)), 0x3c00);
        assert_eq!(to_half(1.0 + 3.0 * 2_f64.powi(-11)), 0x3c02);
        assert_eq!(to_half(2_f64.powi(-25)), 0);
        assert_eq!(to_half(1.5 * 2_f64.powi(-25)), 1);
    }
}
