//! Which buckets have copies, and in which places.

use warpkeep_core::{Seed, mix64};

use super::CachePolicy;
use crate::gpu::params::{Fetch, NOT_CACHED};

/// Gives places to the hottest buckets: what is to be fetched, with `held`, the bucket of each place, as it will be then. Buckets that
/// are to have a copy and have one keep their places.
pub(super) fn choose(policy: CachePolicy, heat: &[u32], held: &mut [u32], roll: u64) -> Vec<Fetch> {
    let mut chosen = hottest(policy, heat, held, roll);
    let mut vacant = Vec::new();
    for (place, bucket) in (0..).zip(held.iter()) {
        match chosen.get_mut(*bucket as usize) {
            Some(wanted) if *wanted => *wanted = false,
            _ => vacant.push(place),
        }
    }
    let missing = (0..).zip(&chosen).filter(|(_, wanted)| **wanted).map(|(bucket, _)| bucket);
    let fetches: Vec<Fetch> =
        vacant.into_iter().zip(missing).map(|(place, bucket)| Fetch { place, bucket }).collect();
    for fetch in &fetches {
        held[fetch.place as usize] = fetch.bucket;
    }
    fetches
}

/// As many buckets as there are places, a mark each.
fn hottest(policy: CachePolicy, heat: &[u32], held: &[u32], roll: u64) -> Vec<bool> {
    let mut chosen = vec![held.len() >= heat.len(); heat.len()];
    if held.len() >= heat.len() || held.is_empty() {
        return chosen;
    }
    let mut here = vec![false; heat.len()];
    for &bucket in held.iter().filter(|&&bucket| bucket != NOT_CACHED) {
        here[bucket as usize] = true;
    }
    // The hottest is the largest: by heat, then those that have a copy already, then the first ones. Heat has 31 bits.
    let rank = |(bucket, &heat): (u32, &u32)| match policy {
        CachePolicy::Random => {
            let drawn = mix64(Seed(roll), u64::from(bucket));
            drawn & !u64::from(u32::MAX) | u64::from(!bucket)
        }
        CachePolicy::Lru | CachePolicy::Lfu => {
            u64::from(heat) << 33 | u64::from(here[bucket as usize]) << 32 | u64::from(!bucket)
        }
    };
    let mut ranks: Vec<u64> = (0..).zip(heat).map(rank).collect();
    let (hot, last, _) = ranks.select_nth_unstable_by(held.len() - 1, |one, other| other.cmp(one));
    for rank in hot.iter().chain([&*last]) {
        chosen[!(*rank as u32) as usize] = true;
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(held: &[u32]) -> Vec<u32> {
        let mut held = held.to_vec();
        held.sort_unstable();
        held
    }

    #[test]
    fn the_hottest_get_places_and_those_that_have_one_keep_it() {
        let mut held = vec![NOT_CACHED; 3];
        let fetches = choose(CachePolicy::Lfu, &[5, 0, 9, 7, 1], &mut held, 0);
        assert_eq!((sorted(&held), fetches.len()), (vec![0, 2, 3], 3));
        let before = held.clone();
        let fetches = choose(CachePolicy::Lfu, &[5, 6, 9, 7, 1], &mut held, 1);
        assert_eq!((sorted(&held), fetches.len()), (vec![1, 2, 3], 1));
        assert_eq!(before[fetches[0].place as usize], 0);
        // Those that are as hot do not change places.
        assert_eq!(choose(CachePolicy::Lru, &[6, 6, 6, 6, 6], &mut held, 2), []);
        assert_eq!(sorted(&held), [1, 2, 3]);
    }

    #[test]
    fn all_and_none_are_shares_too() {
        let mut none = Vec::new();
        assert_eq!(choose(CachePolicy::Lfu, &[1, 2], &mut none, 0), []);
        let mut all = vec![NOT_CACHED; 4];
        assert_eq!(choose(CachePolicy::Random, &[0; 4], &mut all, 0).len(), 4);
        assert_eq!(sorted(&all), [0, 1, 2, 3]);
    }

    #[test]
    fn random_ones_are_others_each_time() {
        let heat = vec![0; 1000];
        let mut held = vec![NOT_CACHED; 100];
        choose(CachePolicy::Random, &heat, &mut held, 1);
        let first = sorted(&held);
        let replaced = choose(CachePolicy::Random, &heat, &mut held, 2).len();
        assert!((70..=100).contains(&replaced), "{replaced}");
        assert_ne!(sorted(&held), first);
        assert_eq!(sorted(&held).windows(2).filter(|pair| pair[0] == pair[1]).count(), 0);
    }
}
