//! Keys and values of all widths, and keys by their hashes.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use warpkeep_containers::{MapKey, MapValue};

/// The key whose hash this is, with the seed 0: the inverse of `mix64` of `warpkeep/hash.h`.
pub(crate) fn key_of_hash(hash: u64) -> u64 {
    let inverse = |odd: u64| (0..6).fold(odd, |x, _| x.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(x))));
    let unshift = |x: u64| x ^ (x >> 29) ^ (x >> 58);
    let mut x = unshift(hash).wrapping_mul(inverse(0x510E_527F_ADE6_82D1));
    x = (x ^ (x >> 32)).wrapping_mul(inverse(0xA54F_F53A_5F1D_36F1));
    x = unshift(x).wrapping_mul(inverse(0xBB67_AE85_84CA_A73B));
    x ^ (x >> 32) ^ 0x9B05_688C_2B3E_6C1F
}

/// The same of 32 bits: the inverse of `mix32` of `warpkeep/hash_map.h`.
fn key_of_hash_32(hash: u32) -> u32 {
    let inverse = |odd: u32| (0..5).fold(odd, |x, _| x.wrapping_mul(2_u32.wrapping_sub(odd.wrapping_mul(x))));
    let unshift = |x: u32| x ^ (x >> 15) ^ (x >> 30);
    let mut x = unshift(hash).wrapping_mul(inverse(0xADE6_82D1));
    x = (x ^ (x >> 16)).wrapping_mul(inverse(0x5F1D_36F1));
    x = unshift(x).wrapping_mul(inverse(0x84CA_A73B));
    x ^ (x >> 16) ^ 0x2B3E_6C1F
}

/// The second of 64 buckets of a hash: `KeyHash<u32>::second` of `warpkeep/hash_map.h`.
fn second_of_64(hash: u32) -> u32 {
    let turned = hash.reverse_bits();
    let x = turned.wrapping_mul(0xFE94_F82B);
    let spread = (x ^ (x << 16)).wrapping_mul(0x137E_2179);
    ((spread & (u32::MAX >> 1)) | (!turned & (1 << 31))).reverse_bits() % 64
}

pub(crate) trait TestKey: MapKey {
    /// The low bits of a number: keys of all kinds.
    fn cut(number: u64) -> Self;
    /// A key for each number below 1000 whose two buckets of 64 are these; one is odd and the other even. With the seed 0.
    fn in_buckets(first: u64, second: u64, number: u64) -> Self;
}

impl TestKey for u64 {
    fn cut(number: u64) -> u64 {
        number
    }

    fn in_buckets(first: u64, second: u64, number: u64) -> u64 {
        key_of_hash(first | ((first ^ second) << 32) | (number << 48))
    }
}

impl TestKey for u32 {
    fn cut(number: u64) -> u32 {
        number as u32
    }

    fn in_buckets(first: u64, second: u64, number: u64) -> u32 {
        static FOUND: Mutex<BTreeMap<(u64, u64), Vec<u32>>> = Mutex::new(BTreeMap::new());
        let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        let hashes = found.entry((first, second)).or_insert_with(|| {
            let all = (0..1 << 26).map(|upper| (upper << 6) | first as u32);
            all.filter(|&hash| u64::from(second_of_64(hash)) == second).take(1000).collect()
        });
        key_of_hash_32(hashes[number as usize])
    }
}

pub(crate) trait TestValue: MapValue + Ord {
    const NUMBERS: bool;

    fn of(number: u64) -> Self;
    fn plus(self, other: Self) -> Self;
}

impl TestValue for u64 {
    const NUMBERS: bool = true;

    fn of(number: u64) -> u64 {
        number
    }

    fn plus(self, other: u64) -> u64 {
        self.wrapping_add(other)
    }
}

impl TestValue for u32 {
    const NUMBERS: bool = true;

    fn of(number: u64) -> u32 {
        number as u32
    }

    fn plus(self, other: u32) -> u32 {
        self.wrapping_add(other)
    }
}

impl TestValue for [u64; 2] {
    const NUMBERS: bool = false;

    /// The halves have a relation that those of a torn value would not have.
    fn of(number: u64) -> [u64; 2] {
        [number, !number]
    }

    fn plus(self, _other: [u64; 2]) -> [u64; 2] {
        self
    }
}
