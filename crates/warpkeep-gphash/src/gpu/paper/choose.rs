//! Which buckets have copies.

use warpkeep_core::{Seed, mix64};

use super::CachePolicy;

/// The buckets that get the places, the first ones first; `roll` draws them where any will do.
pub(super) fn choose(policy: CachePolicy, heat: &[u32], places: usize, roll: u64) -> Vec<u32> {
    let mut buckets: Vec<u32> = (0..).zip(heat).map(|(bucket, _)| bucket).collect();
    if places < buckets.len() {
        // The hottest is the largest; of those that are as hot the first ones.
        let rank = |bucket: &u32| {
            let hot = match policy {
                CachePolicy::Random => mix64(Seed(roll), u64::from(*bucket)),
                CachePolicy::Lru | CachePolicy::Lfu => u64::from(heat[*bucket as usize]),
            };
            (std::cmp::Reverse(hot), *bucket)
        };
        if places > 0 {
            buckets.select_nth_unstable_by_key(places - 1, rank);
        }
        buckets.truncate(places);
        buckets.sort_unstable();
    }
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_get_places() {
        for policy in [CachePolicy::Lfu, CachePolicy::Lru] {
            assert_eq!(choose(policy, &[5, 0, 9, 7, 1], 3, 0), [0, 2, 3]);
            assert_eq!(choose(policy, &[5, 6, 9, 7, 1], 3, 1), [1, 2, 3]);
            assert_eq!(choose(policy, &[6, 6, 6, 6], 2, 2), [0, 1]);
        }
    }

    #[test]
    fn all_and_none_are_shares_too() {
        assert!(choose(CachePolicy::Lfu, &[1, 2], 0, 0).is_empty());
        assert_eq!(choose(CachePolicy::Random, &[0; 4], 4, 0), [0, 1, 2, 3]);
        assert_eq!(choose(CachePolicy::Lru, &[0; 4], 9, 0), [0, 1, 2, 3]);
    }

    #[test]
    fn random_ones_are_others_each_time() {
        let heat = vec![0; 1000];
        let [one, other] = [1, 2].map(|roll| choose(CachePolicy::Random, &heat, 100, roll));
        let both = one.iter().filter(|bucket| other.contains(bucket)).count();
        assert!((one.len(), other.len()) == (100, 100) && both < 30, "{both}");
    }
}
