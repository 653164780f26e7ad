//! How a slab hash is laid out, and what is in it.

use warpkeep_device::DeviceError;

use super::cell::Cell;
use crate::ContainerError;

/// Two bits of a cell say what it is: those that the number of the bucket saves.
const LEAST_BITS: u32 = 2;
const MOST_BITS: u32 = 30;

/// How a [`SlabMap`](crate::SlabMap), [`SlabSet`](crate::SlabSet) or [`SlabMultiMap`](crate::SlabMultiMap) is laid
/// out, and how large it may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabHashOptions {
    /// Pairs that there is room for at first.
    pub capacity: u64,
    /// Bytes of a slab: 64 or 128; 0 for what suits the widths best, which is 128 for pairs of 64-bit keys and values, and 64 for all others.
    /// One cell of a slab is its link: 128 bytes hold 31 keys of 32 bits, 15 keys of 64 bits, 15 pairs of 32 bits or 7 pairs of 64 bits.
    pub slab_bytes: u32,
    /// Slabs behind the first ones of all buckets, at most. It does not bound a table on the CPU.
    pub most_slabs: u32,
    /// Buckets, at most; rounded down to a power of two, of which four is the least.
    pub most_buckets: u32,
    /// What keys are mixed with; a random number if none is given. Keys that are chosen to lie in one bucket need a seed that is known.
    pub seed: Option<u64>,
}

impl Default for SlabHashOptions {
    fn default() -> Self {
        Self { capacity: 0, slab_bytes: 0, most_slabs: 1 << 28, most_buckets: 1 << MOST_BITS, seed: None }
    }
}

/// What is in a [`SlabMap`](crate::SlabMap), [`SlabSet`](crate::SlabSet) or [`SlabMultiMap`](crate::SlabMultiMap).
///
/// On the CPU all but the number of pairs are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SlabHashStats {
    /// Pairs, or keys of a set.
    pub len: u64,
    /// Places of deleted pairs, which a flush frees. Unless keys may have several values, their keys take them again, too.
    pub tombstones: u64,
    /// Buckets.
    pub buckets: u64,
    /// Slabs behind the first ones of the buckets.
    pub chained_slabs: u64,
    /// Bytes of pairs, or of keys, in proportion to the bytes of all slabs.
    pub utilisation: f64,
    /// Bytes of device memory, without the columns of batches and what builds work in.
    pub bytes: u64,
}

impl SlabHashStats {
    /// The same with the utilisation that follows from the other numbers. Products have 64 bits: tables are larger than 4 GiB.
    pub(super) fn with_utilisation(self, cell: Cell, slab_bytes: u32) -> Self {
        let all_slabs = (self.buckets + self.chained_slabs) * u64::from(slab_bytes);
        Self { utilisation: (u64::from(cell.bytes()) * self.len) as f64 / all_slabs as f64, ..self }
    }
}

impl SlabHashOptions {
    /// The same with a size of slabs.
    ///
    /// # Errors
    /// If there are no slabs of the size that was asked for.
    pub(super) fn resolved(self, cell: Cell) -> Result<Self, ContainerError> {
        match self.slab_bytes {
            0 => Ok(Self { slab_bytes: cell.best_slab_bytes(), ..self }),
            64 | 128 => Ok(self),
            bytes => Err(DeviceError::Call {
                call: "a slab hash",
                code: "slab size".to_owned(),
                text: format!("slabs of {bytes} bytes"),
                advice: "ask for slabs of 64 or 128 bytes",
            }
            .into()),
        }
    }

    /// Cells of a slab without its link.
    pub(super) fn cells_each(&self, cell: Cell) -> u64 {
        u64::from(self.slab_bytes / cell.bytes() - 1)
    }

    /// The buckets for this many cells, as a power of two: at most 0.9 slabs each.
    pub(super) fn bits_for(&self, slots: u64, cell: Cell) -> u32 {
        let buckets = slots.saturating_mul(10).div_ceil(9 * self.cells_each(cell)).max(1);
        let most = self.most_buckets.max(1).ilog2().clamp(LEAST_BITS, MOST_BITS);
        let bits = buckets.checked_next_power_of_two().map_or(MOST_BITS, u64::ilog2);
        bits.clamp(LEAST_BITS, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_a_power_of_two_with_nine_tenths_of_a_slab_each() {
        let options = SlabHashOptions { slab_bytes: 64, most_buckets: 1 << 20, ..SlabHashOptions::default() };
        let bits = |slots| options.bits_for(slots, Cell::Pair32);
        assert_eq!([0, 25, 26, 50, 51].map(bits), [2, 2, 3, 3, 4]);
        assert_eq!(bits(u64::MAX), 20);
        let large = SlabHashOptions { slab_bytes: 128, ..options };
        assert_eq!(large.bits_for(100, Cell::Pair32), 3);
        assert_eq!([Cell::Key32, Cell::Key64, Cell::Pair64].map(|cell| large.cells_each(cell)), [31, 15, 7]);
    }

    #[test]
    fn trap_totals_of_large_tables_have_64_bits() {
        let (buckets, chained_slabs) = (1_u64 << 30, 1_u64 << 30);
        let stats = SlabHashStats { len: 4 << 30, buckets, chained_slabs, ..SlabHashStats::default() };
        // 2^32 pairs of 16 bytes in 2^31 slabs of 128 bytes.
        let stats = stats.with_utilisation(Cell::Pair64, 128);
        assert!((stats.utilisation - 0.25).abs() < 1e-9, "{stats:?}");
    }

    #[test]
    fn slabs_have_the_size_that_suits_their_cells() {
        let bytes = |cell| SlabHashOptions::default().resolved(cell).unwrap().slab_bytes;
        assert_eq!([Cell::Pair32, Cell::Pair64, Cell::Key32].map(bytes), [64, 128, 64]);
        let error = SlabHashOptions { slab_bytes: 96, ..SlabHashOptions::default() }.resolved(Cell::Key32);
        assert!(error.unwrap_err().to_string().contains("64 or 128"));
    }
}
