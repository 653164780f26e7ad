//! The bijection that keys go through: `mix64` of `warpkeep/hash.h`, and its inverse.

const C3: u64 = 0xBB67_AE85_84CA_A73B;
const C7: u64 = 0xA54F_F53A_5F1D_36F1;
const C11: u64 = 0x510E_527F_ADE6_82D1;
const C13: u64 = 0x9B05_688C_2B3E_6C1F;

/// The number whose product with an odd number is 1, modulo 2^64.
const fn odd_inverse(odd: u64) -> u64 {
    // Each step doubles the number of low bits that are right; five are at first.
    let mut inverse = odd.wrapping_mul(3) ^ 2;
    let mut step = 0;
    while step < 4 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

/// A hash of a key; different keys have different ones.
pub(super) const fn mix(seed: u64, key: u64) -> u64 {
    let mut x = key ^ seed ^ C13;
    x = (x ^ (x >> 32)).wrapping_mul(C3);
    x ^= seed.rotate_left(32);
    x = (x ^ (x >> 29)).wrapping_mul(C7);
    x = (x ^ (x >> 32)).wrapping_mul(C11);
    x ^ (x >> 29)
}

/// The key that has this hash.
pub(super) const fn unmix(seed: u64, hash: u64) -> u64 {
    let mut x = hash ^ (hash >> 29) ^ (hash >> 58);
    x = x.wrapping_mul(odd_inverse(C11));
    x = (x ^ (x >> 32)).wrapping_mul(odd_inverse(C7));
    x = x ^ (x >> 29) ^ (x >> 58) ^ seed.rotate_left(32);
    x = x.wrapping_mul(odd_inverse(C3));
    x ^ (x >> 32) ^ seed ^ C13
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_comes_back() {
        let mut x = 1_u64;
        for i in 0..100_000_u64 {
            x = x.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            let (seed, key) = (x.rotate_left(17), if i < 1000 { i } else { x });
            assert_eq!(unmix(seed, mix(seed, key)), key);
            assert_eq!(mix(seed, unmix(seed, key)), key);
        }
        for key in [0, 1, u64::MAX, 1 << 63] {
            assert_eq!(unmix(0, mix(0, key)), key);
        }
    }

    #[test]
    fn each_bit_of_a_key_changes_about_half_of_the_hash() {
        for bit in 0..64 {
            let changed: u32 =
                (0..256_u64).map(|key| (mix(7, key) ^ mix(7, key ^ (1 << bit))).count_ones()).sum();
            assert!((26 * 256..38 * 256).contains(&changed), "bit {bit}: {changed}");
        }
    }
}
