//! Workloads: which keys, which values, and how they are drawn. They are independent of the contestants.
//!
//! Items are numbered. A key is its number, scrambled one to one, so that no two numbers share a key and absent keys
//! are as random as existing ones. A value begins with the number and ends with a seal, so that every answer can be
//! checked at almost no cost; between them lies the generation, so that a sample can be checked byte by byte.

mod dice;
mod distribution;
mod dlrm;
#[cfg(test)]
pub(crate) mod fit;
mod mix;
mod pagerank;
mod scramble;
mod script;
mod task;
mod work;
mod zipf;

use warpkeep_core::{Seed, mix64};

pub use self::dice::Dice;
pub use self::distribution::{DEFAULT_THETA, Distribution, Picks};
pub use self::dlrm::{CARDINALITIES, Dlrm};
pub use self::mix::{Action, Mix};
pub use self::pagerank::Rmat;
pub use self::scramble::Scramble;
pub use self::script::{Part, Script};
pub use self::task::Task;
pub use self::work::{Work, WorkSet};
pub use self::zipf::Zipf;
use crate::BenchError;

/// Numbers from here on are never stored.
const ABSENT: u64 = 1 << 62;

/// Items, the form of their keys and values, and the seed.
///
/// ```
/// use warpkeep_bench::workload::Workload;
///
/// let workload = Workload { items: 1000, key_bytes: 8, value_bytes: 128, seed: 1 };
/// let mut value = [0; 128];
/// workload.write_value(7, 0, &mut value);
/// assert!(workload.is_of(7, &value) && !workload.is_of(8, &value));
/// assert!(workload.draws(0).take(100).all(|number| number < 1000));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Items that are there from the start: numbers below this.
    pub items: u64,
    /// Bytes in a key.
    pub key_bytes: usize,
    /// Bytes in a value.
    pub value_bytes: usize,
    /// Of everything random.
    pub seed: u64,
}

impl Workload {
    /// Whether there can be such keys and values.
    pub fn check(&self) -> Result<(), BenchError> {
        let wrong = |what: String| Err(BenchError::Invalid(what));
        if self.items == 0 || self.items >= 1 << 40 {
            return wrong(format!("{} items are not possible; take 1 to 2^40", self.items));
        }
        if !(8..=128).contains(&self.key_bytes) {
            return wrong(format!("keys of {} bytes are not possible; take 8 to 128", self.key_bytes));
        }
        if !(8..=1 << 20).contains(&self.value_bytes) {
            return wrong(format!("values of {} bytes are not possible; take 8 to 1 MiB", self.value_bytes));
        }
        Ok(())
    }

    /// Bytes of keys and values, all items together.
    pub fn data_bytes(&self) -> u64 {
        self.items * (self.key_bytes + self.value_bytes) as u64
    }

    /// The first eight bytes of a key, as a number: another one for every number.
    #[inline]
    pub fn key_word(&self, number: u64) -> u64 {
        mix64(Seed(self.seed), number)
    }

    /// Writes a key over `out`, which has as many bytes.
    #[inline]
    pub fn write_key(&self, number: u64, out: &mut [u8]) {
        let mut word = self.key_word(number);
        for chunk in out.chunks_mut(8) {
            chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
            word = word.rotate_left(23) ^ number;
        }
    }

    /// Appends a key.
    #[inline]
    pub fn append_key(&self, number: u64, out: &mut Vec<u8>) {
        let at = out.len();
        out.resize(at + self.key_bytes, 0);
        self.write_key(number, &mut out[at..]);
    }

    /// Writes a value over `out`, which has as many bytes.
    #[inline]
    pub fn write_value(&self, number: u64, generation: u64, out: &mut [u8]) {
        let mut word = number;
        for chunk in out.chunks_mut(8) {
            chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
            word = word.rotate_left(29) ^ generation;
        }
        if let Some(at) = out.len().checked_sub(8).filter(|&at| at >= 8) {
            out[at..].copy_from_slice(&self.seal(number).to_le_bytes());
        }
    }

    /// Appends a value.
    #[inline]
    pub fn append_value(&self, number: u64, generation: u64, out: &mut Vec<u8>) {
        let at = out.len();
        out.resize(at + self.value_bytes, 0);
        self.write_value(number, generation, &mut out[at..]);
    }

    /// Whether a value is one of this item, judging by its first and last bytes.
    #[inline]
    pub fn is_of(&self, number: u64, value: &[u8]) -> bool {
        let len = value.len();
        len == self.value_bytes
            && value[..8] == number.to_le_bytes()
            && (len < 16 || value[len - 8..] == self.seal(number).to_le_bytes())
    }

    /// Whether a value is that of this item and generation in every byte.
    pub fn is_exactly(&self, number: u64, generation: u64, value: &[u8]) -> bool {
        // Most are short, and checking must not cost more than the checked operation.
        let mut room = [0; 256];
        if let Some(expected) = room.get_mut(..self.value_bytes) {
            self.write_value(number, generation, expected);
            return value == expected;
        }
        let mut expected = vec![0; self.value_bytes];
        self.write_value(number, generation, &mut expected);
        value == expected
    }

    /// The generation of a value, or its lower bytes if there is no room for more; `None` if there is no room at all.
    #[inline]
    pub fn generation_of(&self, number: u64, value: &[u8]) -> Option<u64> {
        // It begins after the number, and ends where the seal begins if there is one.
        let end = if value.len() < 16 { value.len() } else { (value.len() - 8).min(16) };
        let bytes = value.get(8..end).filter(|bytes| !bytes.is_empty())?;
        let mut word = number.rotate_left(29).to_le_bytes();
        word.iter_mut().zip(bytes).for_each(|(word, byte)| *word ^= byte);
        word[bytes.len()..].fill(0);
        Some(u64::from_le_bytes(word))
    }

    /// Whether a value is that of this item and of any one generation, in every byte: not mixed from two.
    pub fn is_whole(&self, number: u64, value: &[u8]) -> bool {
        self.is_exactly(number, self.generation_of(number, value).unwrap_or(0), value)
    }

    /// Makes the next generation's value of a value.
    #[inline]
    pub fn modify(&self, number: u64, value: &mut [u8]) {
        let generation = self.generation_of(number, value).unwrap_or(0).wrapping_add(1);
        self.write_value(number, generation, value);
    }

    #[inline]
    fn seal(&self, number: u64) -> u64 {
        number.rotate_left(32) ^ self.seed ^ 0x5EA1
    }

    /// Numbers of items that are there, uniform, endless. Each stream is another sequence.
    pub fn draws(&self, stream: u64) -> Draws {
        Draws { dice: Dice::new(self.seed, stream), below: self.items }
    }

    /// A number that is never stored, for each that is.
    #[inline]
    pub fn absent(number: u64) -> u64 {
        ABSENT | number
    }

    /// Whether a number is one that is never stored.
    #[inline]
    pub fn is_absent(number: u64) -> bool {
        number >= ABSENT
    }
}

/// Uniform numbers; see [`Workload::draws`].
#[derive(Clone, Debug)]
pub struct Draws {
    dice: Dice,
    below: u64,
}

impl Iterator for Draws {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        Some(self.dice.below(self.below))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const WORKLOAD: Workload = Workload { items: 1 << 16, key_bytes: 8, value_bytes: 128, seed: 3 };

    #[test]
    fn draws_are_uniform_and_streams_differ() {
        let mut counts = [0_u64; 256];
        let draws: Vec<u64> = WORKLOAD.draws(1).take(1 << 18).collect();
        draws.iter().for_each(|&number| counts[(number >> 8) as usize] += 1);
        let off = fit::chi_square(&counts, &[1.0; 256]);
        assert!(off.abs() < 4.0, "{off}");
        // With 2^18 draws of 2^16 numbers, a share of e^-4 of them is missed.
        let seen: HashSet<u64> = draws.iter().copied().collect();
        let missed = 1.0 - seen.len() as f64 / 65536.0;
        assert!((missed - (-4.0_f64).exp()).abs() < 0.003, "{missed}");
        assert!(draws.iter().zip(WORKLOAD.draws(2)).filter(|(a, b)| **a == *b).count() < 30);
        assert!(WORKLOAD.draws(1).zip(&draws).all(|(again, &first)| again == first));
    }

    #[test]
    fn keys_are_uniform_and_all_different() {
        let mut counts = [0_u64; 256];
        let mut seen = HashSet::new();
        for number in (0..1 << 16).chain((0..1 << 16).map(Workload::absent)) {
            let mut key = [0; 8];
            WORKLOAD.write_key(number, &mut key);
            counts[usize::from(key[7])] += 1;
            assert!(seen.insert(key), "{number}");
        }
        let off = fit::chi_square(&counts, &[1.0; 256]);
        assert!(off.abs() < 4.0, "{off}");
        let (mut long, mut other) = ([0; 32], [0; 32]);
        WORKLOAD.write_key(1, &mut long);
        WORKLOAD.write_key(2, &mut other);
        assert!((0..4).all(|word| long[8 * word..][..8] != other[8 * word..][..8]));
    }

    #[test]
    fn values_tell_whose_they_are() {
        for value_bytes in [8, 12, 16, 24, 100, 128] {
            let workload = Workload { value_bytes, ..WORKLOAD };
            let mut value = vec![0; value_bytes];
            workload.write_value(5, 9, &mut value);
            assert!(workload.is_of(5, &value) && workload.is_exactly(5, 9, &value), "{value_bytes}");
            assert!(!workload.is_of(6, &value) && !workload.is_of(5, &value[1..]));
            // No room for the generation in the shortest.
            assert_eq!(workload.is_exactly(5, 8, &value), [8, 16].contains(&value_bytes), "{value_bytes}");
            value[value_bytes - 1] ^= 1;
            assert!(!workload.is_exactly(5, 9, &value));
            assert_eq!(workload.is_of(5, &value), value_bytes == 12, "{value_bytes}");
        }
    }

    #[test]
    fn modified_values_count_on_and_torn_ones_are_noticed() {
        let mut value = vec![0; 128];
        WORKLOAD.write_value(5, 40, &mut value);
        WORKLOAD.modify(5, &mut value);
        assert_eq!(WORKLOAD.generation_of(5, &value), Some(41));
        assert!(WORKLOAD.is_exactly(5, 41, &value) && WORKLOAD.is_whole(5, &value));
        let mut other = vec![0; 128];
        WORKLOAD.write_value(5, 42, &mut other);
        let torn = [&value[..64], &other[64..]].concat();
        assert!(WORKLOAD.is_of(5, &torn) && !WORKLOAD.is_whole(5, &torn));
        for value_bytes in [8, 9, 15, 16, 17, 23, 24, 25, 1024] {
            let workload = Workload { value_bytes, ..WORKLOAD };
            let mut value = vec![0; value_bytes];
            workload.write_value(5, 6, &mut value);
            workload.modify(5, &mut value);
            assert!(workload.is_exactly(5, 7, &value) && workload.is_whole(5, &value), "{value_bytes}");
            let has_room = value_bytes != 8 && value_bytes != 16;
            assert_eq!(workload.generation_of(5, &value), has_room.then_some(7), "{value_bytes}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(WORKLOAD.check().is_ok());
        assert!(Workload { items: 0, ..WORKLOAD }.check().is_err());
        assert!(Workload { key_bytes: 7, ..WORKLOAD }.check().is_err());
        assert!(Workload { value_bytes: 7, ..WORKLOAD }.check().is_err());
    }
}
