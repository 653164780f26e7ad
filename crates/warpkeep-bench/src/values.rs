//! Values that can be made again: values read back are checked byte by byte without keeping a copy.

use warpkeep_core::{Seed, mix64};

/// A seeded generator of values: the same seed, cell and generation give the same bytes.
///
/// ```
/// use warpkeep_bench::Values;
///
/// let values = Values::new(7, 100);
/// let mut value = Vec::new();
/// values.write(3, 1, &mut value);
/// assert_eq!(value.len(), 100);
/// assert!(values.matches(3, 1, &value));
/// assert!(!values.matches(3, 2, &value));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Values {
    seed: u64,
    len: usize,
}

impl Values {
    /// Values of `len` bytes.
    pub fn new(seed: u64, len: usize) -> Values {
        Values { seed, len }
    }

    /// Bytes in a value.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether values have no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn words(&self, cell: u64, generation: u64) -> impl Iterator<Item = [u8; 8]> {
        let of_value = Seed(mix64(Seed(mix64(Seed(self.seed), generation)), cell));
        (0..).map(move |at: u64| mix64(of_value, at).to_le_bytes())
    }

    /// Replaces the contents of `out` by the value of a cell.
    pub fn write(&self, cell: u64, generation: u64, out: &mut Vec<u8>) {
        out.clear();
        for word in self.words(cell, generation).take(self.len.div_ceil(8)) {
            out.extend_from_slice(&word);
        }
        out.truncate(self.len);
    }

    /// Whether these bytes are the value of that cell.
    pub fn matches(&self, cell: u64, generation: u64, bytes: &[u8]) -> bool {
        bytes.len() == self.len
            && bytes
                .chunks(8)
                .zip(self.words(cell, generation))
                .all(|(part, word)| *part == word[..part.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_byte_and_every_other_origin_shows() {
        let values = Values::new(1, 21);
        let mut value = Vec::new();
        values.write(5, 9, &mut value);
        assert!(values.matches(5, 9, &value));
        for (cell, generation) in [(5, 8), (4, 9), (9, 5)] {
            assert!(!values.matches(cell, generation, &value));
        }
        assert!(!Values::new(2, 21).matches(5, 9, &value));
        assert!(!values.matches(5, 9, &value[..20]));
        for at in 0..value.len() {
            value[at] ^= 1;
            assert!(!values.matches(5, 9, &value), "byte {at}");
            value[at] ^= 1;
        }
    }
}
