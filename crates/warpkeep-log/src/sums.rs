//! The checksum of a whole from the checksums of its pieces.
//!
//! A CRC is a polynomial over GF(2), modulo another: appending bytes multiplies it by a power of *x*. So the
//! checksum of a whole is that of its first piece times the power for the length of the second, plus that of the
//! second.

/// CRC-32C, a coefficient a bit, the lowest power in the highest bit.
const MODULUS: u32 = 0x82f6_3b78;
/// x⁰ and x⁸.
const ONE: u32 = 1 << 31;
const BYTE: u32 = 1 << 23;

/// The product of two polynomials.
fn product(one: u32, mut other: u32) -> u32 {
    let mut sum = 0;
    for power in 0..32 {
        if one & (ONE >> power) != 0 {
            sum ^= other;
        }
        other = (other >> 1) ^ ((other & 1) * MODULUS);
    }
    sum
}

/// Combines checksums of pieces. Most pieces have the same length, so the last power is cached.
#[derive(Debug)]
pub(crate) struct Sums {
    len: usize,
    power: u32,
}

impl Sums {
    pub(crate) fn new() -> Sums {
        Sums { len: 0, power: ONE }
    }

    /// The checksum of two pieces, of which the second has `len` bytes.
    pub(crate) fn combine(&mut self, first: u32, second: u32, len: usize) -> u32 {
        if len != self.len {
            *self = Sums { len, power: power_of(len) };
        }
        product(self.power, first) ^ second
    }
}

/// The power of *x* for this many bytes.
fn power_of(mut bytes: usize) -> u32 {
    let (mut power, mut square) = (ONE, BYTE);
    while bytes > 0 {
        if bytes & 1 == 1 {
            power = product(power, square);
        }
        square = product(square, square);
        bytes >>= 1;
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_pieces_is_that_of_the_whole() {
        let bytes: Vec<u8> = (0..10_000_u32).map(|number| ((number * number) >> 7) as u8).collect();
        let mut sums = Sums::new();
        for middle in [0, 1, 7, 8, 9_000, 9_000, 9_999, 10_000] {
            let (first, second) = bytes.split_at(middle);
            let (first, second) = (crc32c::crc32c(first), (crc32c::crc32c(second), second.len()));
            assert_eq!(sums.combine(first, second.0, second.1), crc32c::crc32c(&bytes), "{middle}");
        }
    }

    #[test]
    fn lengths_of_any_size_are_what_the_library_makes_of_them() {
        for len in [0, 1, 2, 3, 255, 4096, 327_680, 1 << 20, (1 << 33) + 5, usize::MAX >> 8] {
            let known = crc32c::crc32c_combine(0x1234_5678, 0x9abc_def0, len);
            // The library ignores the checksum of an empty piece.
            let expected = if len == 0 { 0x1234_5678 ^ 0x9abc_def0 } else { known };
            assert_eq!(Sums::new().combine(0x1234_5678, 0x9abc_def0, len), expected, "{len}");
        }
    }
}
