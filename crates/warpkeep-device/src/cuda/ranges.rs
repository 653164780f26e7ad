//! Which host memory is registered, and where it was cut.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

/// Registered host ranges, by address. A copy must not reach from one registration into another, although the memory
/// goes on: this says where to cut it.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// Start of each range, and its end.
    ranges: RwLock<BTreeMap<u64, u64>>,
}

impl Ranges {
    pub(super) fn add(&self, at: u64, bytes: usize) {
        let mut ranges = self.ranges.write().unwrap_or_else(PoisonError::into_inner);
        ranges.insert(at, at.saturating_add(bytes as u64));
    }

    pub(super) fn remove(&self, at: u64) {
        self.ranges.write().unwrap_or_else(PoisonError::into_inner).remove(&at);
    }

    /// How many of `bytes` bytes from `at` on lie in one registration, or in none.
    pub(super) fn whole(&self, at: u64, bytes: usize) -> usize {
        let ranges = self.ranges.read().unwrap_or_else(PoisonError::into_inner);
        let inside = ranges.range(..=at).next_back().map(|(_, end)| *end).filter(|end| *end > at);
        let border = inside.or_else(|| ranges.range(at..).next().map(|(start, _)| *start));
        match border {
            Some(border) => bytes.min(usize::try_from(border - at).unwrap_or(usize::MAX)),
            None => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_cut_where_registrations_meet() {
        let ranges = Ranges::default();
        assert_eq!(ranges.whole(5, 1000), 1000);
        ranges.add(100, 50);
        ranges.add(150, 50);
        assert_eq!(ranges.whole(0, 1000), 100);
        assert_eq!(ranges.whole(100, 1000), 50);
        assert_eq!(ranges.whole(149, 1000), 1);
        assert_eq!(ranges.whole(150, 20), 20);
        assert_eq!(ranges.whole(200, 1000), 1000);
        ranges.remove(100);
        assert_eq!(ranges.whole(100, 1000), 50);
        assert_eq!(ranges.whole(149, 1000), 1);
    }
}
