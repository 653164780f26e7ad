//! How keys are mixed.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use bytemuck::NoUninit;

/// A bijection of keys, with a seed: `wk::KeyMixer` of `warpkeep/slab_cell.h`. Keys of 32 bits use the lower halves.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct KeyMixer {
    seed: u64,
    multiplier: u64,
    inverse: u64,
}

/// Splitmix64: neighbouring numbers give unlike ones.
fn splitmix(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

impl KeyMixer {
    /// A mixer with this seed, or a random one.
    pub(super) fn seeded(seed: Option<u64>) -> Self {
        Self::new(seed.unwrap_or_else(|| RandomState::new().build_hasher().finish()))
    }

    fn new(seed: u64) -> Self {
        let first = splitmix(seed);
        let multiplier = splitmix(first) | 1;
        // Newton's method: each step doubles the number of right bits, of which an odd number has three.
        let inverse = (0..5).fold(multiplier, |inverse: u64, _| {
            inverse.wrapping_mul(2_u64.wrapping_sub(multiplier.wrapping_mul(inverse)))
        });
        Self { seed: first, multiplier, inverse }
    }
}

#[cfg(test)]
mod tests {
    #[cfg(not(no_simulator))]
    use warpkeep_device::{Device, Mode};

    use super::*;
    #[cfg(not(no_simulator))]
    use crate::{SlabAnswer, SlabHashOptions, SlabKey, SlabMap, SlabRequest, SlabValue};

    /// `wk::KeyMixer::mix` of 32 bits.
    fn mix(mixer: KeyMixer, key: u32) -> u32 {
        let x = key ^ mixer.seed as u32;
        let x = (x ^ (x >> 16)).wrapping_mul(mixer.multiplier as u32);
        let x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
        x ^ (x >> 16)
    }

    /// `wk::KeyMixer::mix` of 64 bits.
    fn mix_wide(mixer: KeyMixer, key: u64) -> u64 {
        let x = key ^ mixer.seed;
        let x = (x ^ (x >> 32)).wrapping_mul(mixer.multiplier);
        let x = (x ^ (x >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x ^ (x >> 32)
    }

    #[test]
    fn multipliers_come_with_their_inverse() {
        for seed in 0..1000 {
            let mixer = KeyMixer::new(seed);
            assert_eq!(mixer.multiplier.wrapping_mul(mixer.inverse), 1);
            assert_eq!((mixer.multiplier as u32).wrapping_mul(mixer.inverse as u32), 1);
        }
    }

    /// The most keys in one of 256 buckets.
    fn fullest(buckets: impl Iterator<Item = u64>) -> usize {
        let mut counts = [0; 256];
        buckets.for_each(|bucket| counts[bucket as usize % 256] += 1);
        counts.into_iter().max().unwrap_or(0)
    }

    #[test]
    fn keys_chosen_against_one_seed_are_spread_by_another() {
        let (known, other) = (KeyMixer::new(1), KeyMixer::new(2));
        let chosen: Vec<u32> = (0..1 << 18).filter(|key| mix(known, *key) % 256 == 7).collect();
        let most = fullest(chosen.iter().map(|key| mix(other, *key).into()));
        assert!(chosen.len() > 900 && most < 20, "{} keys, {most} in one bucket", chosen.len());
        let chosen: Vec<u64> = (0..1 << 18).filter(|key| mix_wide(known, *key) % 256 == 7).collect();
        let most = fullest(chosen.iter().map(|key| mix_wide(other, *key)));
        assert!(chosen.len() > 900 && most < 20, "{} wide keys, {most} in one bucket", chosen.len());
    }

    /// A map with 1024 buckets, which does not grow, after it was asked everything about these keys; how many slabs are behind the first ones.
    #[cfg(not(no_simulator))]
    fn asked<K: SlabKey<K> + SlabValue>(seed: Option<u64>, keys: &[K]) -> u64 {
        let device = Device::simulated(Mode::fast()).unwrap();
        let options = SlabHashOptions { capacity: 4000, seed, ..SlabHashOptions::default() };
        let mut map = SlabMap::<K, K>::new(&device, options).unwrap();
        let all =
            |request: fn(K) -> SlabRequest<K, K>| keys.iter().map(|key| request(*key)).collect::<Vec<_>>();
        let inserts = all(|key| SlabRequest::Insert(key, key));
        assert!(map.apply(&inserts).unwrap().iter().all(|answer| *answer == SlabAnswer::Inserted));
        let again = map.apply(&inserts).unwrap();
        assert!(again.iter().zip(keys).all(|(answer, key)| *answer == SlabAnswer::Present(*key)));
        let stats = map.stats().unwrap();
        assert_eq!((stats.len, stats.buckets), (keys.len() as u64, 1024));
        map.verify().unwrap();
        let deleted = map.apply(&all(SlabRequest::Delete)).unwrap();
        assert!(deleted.iter().zip(keys).all(|(answer, key)| *answer == SlabAnswer::Removed(*key)));
        assert!(map.search(keys).unwrap().iter().all(Option::is_none));
        stats.chained_slabs
    }

    #[test]
    #[cfg(not(no_simulator))]
    fn trap_keys_of_one_bucket_get_right_answers_and_need_a_known_seed() {
        let known = KeyMixer::new(1);
        let chosen: Vec<u32> = (0..u32::MAX).filter(|key| mix(known, *key) % 1024 == 7).take(700).collect();
        let wide: Vec<u64> =
            (0..u64::MAX).filter(|key| mix_wide(known, *key) % 1024 == 7).take(700).collect();
        // One chain of slabs that are full: seven pairs each, and the first is not counted.
        assert_eq!((asked(Some(1), &chosen), asked(Some(1), &wide)), (99, 99));
        let other =
            [asked(Some(2), &chosen), asked(None, &chosen), asked(Some(2), &wide), asked(None, &wide)];
        assert!(other.iter().all(|chained| *chained < 10), "{other:?}");
    }

    #[test]
    fn seeds_that_are_not_given_differ() {
        let seeds = [KeyMixer::seeded(None), KeyMixer::seeded(None)].map(|mixer| mixer.seed);
        assert_ne!(seeds[0], seeds[1]);
        assert_eq!(KeyMixer::seeded(Some(5)).seed, KeyMixer::new(5).seed);
    }

    #[test]
    fn wide_keys_that_differ_in_few_bits_are_spread() {
        let mixer = KeyMixer::new(3);
        for shift in 0..56 {
            let most = fullest((0..256).map(|i: u64| mix_wide(mixer, i << shift)));
            assert!(most < 12, "{most} of 256 keys with 8 bits from {shift} on are in one bucket");
        }
    }
}
