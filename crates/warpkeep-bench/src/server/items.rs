//! Self-describing keys and values.
//!
//! A key is its item's number in decimal, so that people can read it and every protocol can carry it. A value begins with
//! the number of the item and of the write, four bytes each; the rest is a piece of one long pattern, from a
//! position that these two determine. So every byte of every answer is checked, at the cost of comparing memory.

use warpkeep_core::{Seed, mix64};

/// Bytes of a value before the pattern.
const HEADER: usize = 8;
/// Places in the pattern where a value can begin.
const PLACES: usize = 4096;
/// Digits in a key: as many as the largest number has.
const DIGITS: usize = 10;

/// The lengths of keys and values, and their contents.
///
/// ```
/// use warpkeep_bench::server::Items;
///
/// let items = Items::new(16, 32, 1);
/// let (mut key, mut value) = ([0; 16], [0; 32]);
/// items.write_key(1234, &mut key);
/// assert_eq!(&key, b"kkkkkk0000001234");
/// items.write_value(1234, 7, &mut value);
/// assert_eq!(items.write_of(1234, &value), Some(7));
/// value[31] ^= 1;
/// assert_eq!(items.write_of(1234, &value), None);
/// ```
#[derive(Clone, Debug)]
pub struct Items {
    key_bytes: usize,
    value_bytes: usize,
    pattern: Vec<u8>,
}

impl Items {
    /// Keys of 1 to 250 bytes and values of at least 8.
    pub fn new(key_bytes: usize, value_bytes: usize, seed: u64) -> Items {
        let words = (PLACES + value_bytes).div_ceil(8) as u64;
        let pattern = (0..words).flat_map(|word| mix64(Seed(seed), word).to_le_bytes()).collect();
        Items { key_bytes, value_bytes, pattern }
    }

    /// Bytes in a key.
    pub fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    /// Bytes in a value.
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// The number of different keys of that length.
    pub fn most(key_bytes: usize) -> u64 {
        10_u64.pow(key_bytes.min(DIGITS) as u32).min(u64::from(u32::MAX))
    }

    /// Writes a key over `out`, which has as many bytes.
    #[inline]
    pub fn write_key(&self, number: u32, out: &mut [u8]) {
        let digits = out.len().saturating_sub(DIGITS);
        out[..digits].fill(b'k');
        write_digits(number, &mut out[digits..]);
    }

    /// Writes the value of an item's write over `out`, which has as many bytes.
    #[inline]
    pub fn write_value(&self, number: u32, write: u32, out: &mut [u8]) {
        let (header, body) = out.split_at_mut(HEADER);
        header.copy_from_slice(&header_of(number, write));
        body.copy_from_slice(self.body(number, write));
    }

    /// Which write of this item a value is; `None` if it is none of this item in every byte.
    #[inline]
    pub fn write_of(&self, number: u32, value: &[u8]) -> Option<u32> {
        if value.len() != self.value_bytes {
            return None;
        }
        let (&whose, rest) = value.split_first_chunk::<4>()?;
        let (&write, body) = rest.split_first_chunk::<4>()?;
        let write = u32::from_le_bytes(write);
        (u32::from_le_bytes(whose) == number && body == self.body(number, write)).then_some(write)
    }

    /// The item and the write that a value claims, by its first bytes.
    pub(super) fn claims(value: &[u8]) -> Option<(u32, u32)> {
        let word = |at: usize| Some(u32::from_le_bytes(value.get(at..at + 4)?.try_into().ok()?));
        Some((word(0)?, word(4)?))
    }

    /// A key as text.
    pub(super) fn key(&self, number: u32) -> String {
        let mut key = vec![0; self.key_bytes];
        self.write_key(number, &mut key);
        String::from_utf8_lossy(&key).into_owned()
    }

    #[inline]
    fn body(&self, number: u32, write: u32) -> &[u8] {
        let mixed = (u64::from(number) << 32 | u64::from(write)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let place = (mixed >> 52) as usize;
        debug_assert!(place < PLACES);
        &self.pattern[place..place + self.value_bytes - HEADER]
    }
}

fn header_of(number: u32, write: u32) -> [u8; HEADER] {
    (u64::from(write) << 32 | u64::from(number)).to_le_bytes()
}

/// The last digits of a number, as many as fit.
#[inline]
pub(super) fn write_digits(mut number: u32, out: &mut [u8]) {
    let mut pairs = out.rchunks_exact_mut(2);
    for pair in &mut pairs {
        let two = number % 100;
        number /= 100;
        pair.copy_from_slice(&[b'0' + (two / 10) as u8, b'0' + (two % 10) as u8]);
    }
    if let [first] = pairs.into_remainder() {
        *first = b'0' + (number % 10) as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_decimal_and_fill_their_length() {
        let key = |key_bytes: usize, number: u32| Items::new(key_bytes, 8, 1).key(number);
        assert_eq!(key(8, 12_345_678), "12345678");
        assert_eq!(key(9, 7), "000000007");
        assert_eq!(key(10, u32::MAX), "4294967295");
        assert_eq!(key(13, 99), "kkk0000000099");
        assert_eq!((Items::most(8), Items::most(250)), (100_000_000, u64::from(u32::MAX)));
    }

    #[test]
    fn every_flipped_bit_and_every_other_item_shows() {
        for value_bytes in [8, 9, 100, 5000] {
            let items = Items::new(16, value_bytes, 3);
            let mut value = vec![0; value_bytes];
            items.write_value(77, 5, &mut value);
            assert_eq!(items.write_of(77, &value), Some(5), "{value_bytes}");
            assert_eq!(Items::claims(&value), Some((77, 5)));
            assert_eq!(items.write_of(78, &value), None);
            assert_eq!(items.write_of(77, &value[..value_bytes - 1]), None);
            for at in (0..value_bytes).filter(|at| !(4..8).contains(at)) {
                value[at] ^= 1;
                assert_eq!(items.write_of(77, &value), None, "byte {at} of {value_bytes}");
                value[at] ^= 1;
            }
        }
        // Only the body shows that the number of the write is wrong.
        let items = Items::new(16, 64, 3);
        let mut value = [0; 64];
        items.write_value(77, 5, &mut value);
        value[4] ^= 3;
        assert_eq!(items.write_of(77, &value), None);
    }
}
