//! The bijections that keys go through, and how a slot gives its key back: `mix64` of `warpkeep/hash.h`, and what `warpkeep/hash_map.h` has.

/// Flags in a slot: it holds a key, and the key is in its second bucket.
pub(super) const HELD: u64 = 1;
pub(super) const SECOND: u64 = 2;

const C3: u64 = 0xBB67_AE85_84CA_A73B;
const C5: u64 = 0x3C6E_F372_FE94_F82B;
const C7: u64 = 0xA54F_F53A_5F1D_36F1;
const C11: u64 = 0x510E_527F_ADE6_82D1;
const C13: u64 = 0x9B05_688C_2B3E_6C1F;
const C19: u64 = 0x5BE0_CD19_137E_2179;

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
pub(crate) const fn mix(seed: u64, key: u64) -> u64 {
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

/// The hash of the key whose part in a slot of this bucket is `word`.
pub(super) const fn hash_in(word: u64, bucket: u64, mask: u64) -> u64 {
    let upper = word & !mask;
    let first = if word & SECOND == 0 { bucket } else { bucket ^ (((upper >> 32) | 1) & mask) };
    upper | first
}

/// The low half of the number whose product with an odd number is 1.
const fn odd_inverse32(odd: u64) -> u32 {
    odd_inverse(odd) as u32
}

/// As [`mix`], of keys of 32 bits.
pub(super) const fn mix32(seed: u64, key: u32) -> u32 {
    let mut x = key ^ seed as u32 ^ C13 as u32;
    x = (x ^ (x >> 16)).wrapping_mul(C3 as u32);
    x ^= (seed >> 32) as u32;
    x = (x ^ (x >> 15)).wrapping_mul(C7 as u32);
    x = (x ^ (x >> 16)).wrapping_mul(C11 as u32);
    x ^ (x >> 15)
}

/// As [`unmix`], of keys of 32 bits.
pub(super) const fn unmix32(seed: u64, hash: u32) -> u32 {
    let mut x = hash ^ (hash >> 15) ^ (hash >> 30);
    x = x.wrapping_mul(odd_inverse32(C11));
    x = (x ^ (x >> 16)).wrapping_mul(odd_inverse32(C7));
    x = x ^ (x >> 15) ^ (x >> 30) ^ (seed >> 32) as u32;
    x = x.wrapping_mul(odd_inverse32(C3));
    x ^ (x >> 16) ^ seed as u32 ^ C13 as u32
}

const TOP: u32 = 1 << 31;

const fn spread(x: u32) -> u32 {
    let x = x.wrapping_mul(C5 as u32);
    (x ^ (x << 16)).wrapping_mul(C19 as u32)
}

const fn gather(x: u32) -> u32 {
    let x = x.wrapping_mul(odd_inverse32(C19));
    (x ^ (x << 16)).wrapping_mul(odd_inverse32(C5))
}

/// As [`hash_in`], of keys of 32 bits: `KeyHash<u32>::of_second`.
pub(super) const fn hash_in32(word: u32, bucket: u32, mask: u32) -> u32 {
    let upper = word & !mask;
    if word & SECOND as u32 == 0 {
        return upper | bucket;
    }
    let known = (!mask).reverse_bits();
    let all = (spread(upper.reverse_bits()) & known) | bucket.reverse_bits();
    ((gather(all) & !TOP) | (!all & TOP)).reverse_bits()
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

    /// `KeyHash<u32>::second`.
    fn second32(hash: u32, mask: u32) -> u32 {
        let turned = hash.reverse_bits();
        ((spread(turned) & !TOP) | (!turned & TOP)).reverse_bits() & mask
    }

    #[test]
    fn every_key_of_32_bits_comes_back_from_both_buckets() {
        let mut x = 1_u64;
        for i in 0..100_000_u64 {
            x = x.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            let (seed, key) = (x.rotate_left(17), if i < 1000 { i as u32 } else { (x >> 32) as u32 });
            let hash = mix32(seed, key);
            assert_eq!((unmix32(seed, hash), mix32(seed, unmix32(seed, key))), (key, key));
            let mask = (1 << (6 + i % 25)) - 1;
            let (first, second) = (hash & mask, second32(hash, mask));
            assert_ne!(first, second);
            let stored = hash & !mask | HELD as u32;
            assert_eq!(hash_in32(stored, first, mask), hash);
            assert_eq!(hash_in32(stored | SECOND as u32, second, mask), hash);
            // Twice as many buckets: the same one, or the one as far above it as there were.
            assert_eq!(second32(hash, 2 * mask + 1) & mask, second);
        }
    }

    #[test]
    fn hashes_with_the_same_first_bucket_have_different_second_ones() {
        for bits in [10, 16, 20, 24] {
            let mask = (1_u32 << bits) - 1;
            let seconds: std::collections::BTreeSet<u32> =
                (0..200).map(|upper: u32| second32((upper << bits) | 5, mask)).collect();
            // About as many as random numbers would have.
            assert!(seconds.len() >= if bits == 10 { 140 } else { 190 }, "{bits}: {}", seconds.len());
        }
    }

    #[test]
    fn each_bit_of_a_key_of_32_bits_changes_about_half_of_the_hash() {
        for bit in 0..32 {
            let changed: u32 =
                (0..256_u32).map(|key| (mix32(7, key) ^ mix32(7, key ^ (1 << bit))).count_ones()).sum();
            assert!((12 * 256..20 * 256).contains(&changed), "bit {bit}: {changed}");
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
