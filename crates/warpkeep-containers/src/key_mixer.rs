//! How keys are mixed.

use bytemuck::NoUninit;

/// A bijection of keys, with a seed: `wk::KeyMixer` of `warpkeep/slab_hash.h`.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct KeyMixer {
    seed: u32,
    multiplier: u32,
    inverse: u32,
}

impl KeyMixer {
    pub(crate) fn new(seed: u64) -> Self {
        // Splitmix64: neighbouring seeds give unlike numbers.
        let mixed =
            (seed ^ (seed >> 30)).wrapping_add(0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let multiplier = (mixed >> 32) as u32 | 1;
        // Newton's method: each step doubles the number of right bits, of which an odd number has three.
        let inverse = (0..4).fold(multiplier, |inverse: u32, _| {
            inverse.wrapping_mul(2_u32.wrapping_sub(multiplier.wrapping_mul(inverse)))
        });
        Self { seed: mixed as u32, multiplier, inverse }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `wk::KeyMixer::mix`.
    fn mix(mixer: KeyMixer, key: u32) -> u32 {
        let x = key ^ mixer.seed;
        let x = (x ^ (x >> 16)).wrapping_mul(mixer.multiplier);
        let x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
        x ^ (x >> 16)
    }

    #[test]
    fn multipliers_come_with_their_inverse() {
        for seed in 0..1000 {
            let mixer = KeyMixer::new(seed);
            assert_eq!(mixer.multiplier.wrapping_mul(mixer.inverse), 1);
        }
    }

    #[test]
    fn keys_chosen_against_one_seed_are_spread_by_another() {
        let (known, other) = (KeyMixer::new(1), KeyMixer::new(2));
        let chosen: Vec<u32> = (0..1 << 18).filter(|key| mix(known, *key) % 256 == 7).collect();
        let mut buckets = [0; 256];
        for key in &chosen {
            buckets[(mix(other, *key) % 256) as usize] += 1;
        }
        let most = buckets.iter().max().copied().unwrap_or(0);
        assert!(chosen.len() > 900 && most < 20, "{} keys, {most} in one bucket", chosen.len());
    }
}
