//! Keys by their hashes.

/// The key whose hash this is, with the seed 0: the inverse of `mix64` of `warpkeep/hash.h`.
pub(crate) fn key_of_hash(hash: u64) -> u64 {
    let inverse = |odd: u64| (0..6).fold(odd, |x, _| x.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(x))));
    let unshift = |x: u64| x ^ (x >> 29) ^ (x >> 58);
    let mut x = unshift(hash).wrapping_mul(inverse(0x510E_527F_ADE6_82D1));
    x = (x ^ (x >> 32)).wrapping_mul(inverse(0xA54F_F53A_5F1D_36F1));
    x = unshift(x).wrapping_mul(inverse(0xBB67_AE85_84CA_A73B));
    x ^ (x >> 32) ^ 0x9B05_688C_2B3E_6C1F
}
