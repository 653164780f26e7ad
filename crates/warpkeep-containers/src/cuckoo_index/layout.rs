//! Where entries lie: signatures, buckets and cells, as `warpkeep/cuckoo_index.h` has them.

use super::kernels::{CELLS, LEAST_BITS, MOST_BITS, SPREAD};
use crate::ContainerError;

/// Percent of the cells beyond which displacement begins to fail.
const MOST_LOAD: u64 = 90;

/// The number of buckets, a power of two, less one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) mask: u64,
}

impl Layout {
    /// The smallest with room for this many entries.
    pub(super) fn for_items(items: u64) -> Result<Layout, ContainerError> {
        let room = |bits: u32| ((CELLS as u64) << bits) * MOST_LOAD / 100;
        match (LEAST_BITS..=MOST_BITS).find(|bits| items <= room(*bits)) {
            Some(bits) => Ok(Layout { mask: (1 << bits) - 1 }),
            None => Err(ContainerError::TooLarge {
                what: "entries of an index",
                given: items,
                most: room(MOST_BITS),
            }),
        }
    }

    pub(super) fn buckets(self) -> u64 {
        self.mask + 1
    }

    pub(super) fn cells(self) -> u64 {
        CELLS as u64 * self.buckets()
    }

    pub(super) fn bits(self) -> u32 {
        self.buckets().ilog2()
    }

    pub(super) fn partner(self, signature: u32, bucket: u64) -> u64 {
        bucket ^ (((u64::from(signature).wrapping_mul(SPREAD) >> 32) | 1) & self.mask)
    }

    /// Both buckets of a hash.
    pub(super) fn buckets_of(self, hash: u64) -> [u64; 2] {
        let first = hash & self.mask;
        [first, self.partner(signature(hash), first)]
    }

    /// A number that hashes have in common if they cannot be told apart: the lower bucket, and below it the signature.
    pub(super) fn group(self, hash: u64) -> u64 {
        let [first, second] = self.buckets_of(hash);
        (first.min(second) << 32) | u64::from(signature(hash))
    }

    /// The group of an entry with this signature in this bucket.
    pub(super) fn group_in(self, signature: u32, bucket: u64) -> u64 {
        (bucket.min(self.partner(signature, bucket)) << 32) | u64::from(signature)
    }
}

pub(super) fn signature(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// The cell of an entry. An empty one is 0.
pub(super) fn cell(signature: u32, location: u32) -> u64 {
    u64::from(signature) | ((u64::from(location) + 1) << 32)
}

/// The signature and the location in a cell, unless it has none.
pub(super) fn entry(cell: u64) -> Option<(u32, u32)> {
    let location = ((cell >> 32) as u32).checked_sub(1)?;
    Some((cell as u32, location))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bucket_follows_from_the_other() {
        for bits in LEAST_BITS..=MOST_BITS {
            let layout = Layout { mask: (1 << bits) - 1 };
            for i in 0..1000_u64 {
                let hash = i.wrapping_mul(SPREAD) ^ i;
                let [first, second] = layout.buckets_of(hash);
                assert!(first != second && first <= layout.mask && second <= layout.mask);
                assert_eq!(layout.partner(signature(hash), second), first);
                for bucket in [first, second] {
                    assert_eq!(layout.group_in(signature(hash), bucket), layout.group(hash));
                }
            }
        }
    }

    #[test]
    fn every_signature_and_all_locations_but_one_are_cells() {
        for signature in [0, 1, u32::MAX] {
            for location in [0, 1, u32::MAX - 1] {
                assert_eq!(entry(cell(signature, location)), Some((signature, location)));
            }
        }
        assert_eq!((entry(0), entry(1)), (None, None));
    }

    #[test]
    fn there_is_room_for_what_was_asked_for() {
        for items in [0, 1, 14, 15, 16, 1000, 1 << 20, 1 << 32] {
            let layout = Layout::for_items(items).unwrap();
            assert!(items <= layout.cells(), "{items} in {layout:?}");
        }
        let error = Layout::for_items(u64::MAX).unwrap_err();
        assert!(error.to_string().contains("make several"), "{error}");
    }
}
