//! Size classes: the block sizes that variable-length data is rounded up to.

/// The largest block. A value of 1 MiB with its key and record header fits.
pub const MAX_BLOCK: u64 = (1 << 20) + (1 << 18);
/// The smallest block.
pub const MIN_BLOCK: u64 = 16;

/// Sizes in a doubling: 8, so that rounding up wastes at most a ninth of a block.
const STEPS: u64 = 8;

/// The block size for `bytes` bytes: the smallest class that holds them, `None` beyond [`MAX_BLOCK`].
///
/// ```
/// use warpkeep_image::size_class;
/// assert_eq!(size_class(1), Some(16));
/// assert_eq!(size_class(257), Some(288));
/// assert_eq!(size_class(1 << 20), Some(1 << 20));
/// assert_eq!(size_class((1 << 20) + 24), Some((1 << 20) + (1 << 17)));
/// assert_eq!(size_class(2 << 20), None);
/// ```
pub fn size_class(bytes: u64) -> Option<u64> {
    if bytes > MAX_BLOCK {
        return None;
    }
    // Up to 128 bytes the step is 16, which keeps every block aligned to 16.
    if bytes <= STEPS * MIN_BLOCK {
        return Some(bytes.max(1).next_multiple_of(MIN_BLOCK));
    }
    let step = (bytes.next_power_of_two() / 2) / STEPS;
    Some(bytes.next_multiple_of(step))
}

/// Number of size classes.
pub(crate) const CLASS_COUNT: usize = 128;

/// The place of a size class in the order of all.
pub(crate) fn class_index(class: u64) -> usize {
    let linear = STEPS * MIN_BLOCK;
    if class <= linear {
        return (class / MIN_BLOCK) as usize - 1;
    }
    let base = class.next_power_of_two() / 2;
    let doublings = (base / linear).trailing_zeros() as usize;
    STEPS as usize + doublings * STEPS as usize + ((class - base) / (base / STEPS)) as usize - 1
}

/// How many chunks a slab of such blocks should span: the fewest that waste at most an eighth.
pub(crate) fn slab_span(block: u64, chunk_size: u64) -> u16 {
    let least = block.div_ceil(chunk_size);
    // Eight blocks and the rest of a chunk always do, so the search ends.
    (least..=9 * least).find(|&span| (span * chunk_size) % block <= span * chunk_size / 8).unwrap_or(least)
        as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{DEFAULT_CHUNK, MIN_CHUNK};

    #[test]
    fn classes_are_tight_and_stable() {
        for bytes in 1..=MAX_BLOCK {
            let class = size_class(bytes).unwrap();
            assert!(class >= bytes && class.is_multiple_of(16));
            assert!(class - bytes < 16.max(class / 9 + 1), "{bytes} in {class}");
            if bytes % 1021 == 0 {
                assert_eq!(size_class(class), Some(class));
            }
        }
        assert_eq!(size_class(MAX_BLOCK + 1), None);
        assert_eq!(size_class(0), Some(16));
    }

    #[test]
    fn every_class_has_its_own_index() {
        let (mut block, mut index) = (0, 0);
        while let Some(class) = size_class(block + 1) {
            assert_eq!(class_index(class), index, "{class}");
            (block, index) = (class, index + 1);
        }
        assert!(index <= CLASS_COUNT);
    }

    #[test]
    fn slabs_waste_at_most_an_eighth() {
        for chunk in [MIN_CHUNK, DEFAULT_CHUNK] {
            let mut block = 0;
            while let Some(class) = size_class(block + 1) {
                block = class;
                let bytes = u64::from(slab_span(block, chunk)) * chunk;
                assert!(bytes % block <= bytes / 8, "{block}");
            }
        }
    }
}
