//! Seeded hashing: where a key lies, on the CPU and on the GPU alike.
//!
//! Which slot a key lies in is part of the stored format, so these functions never change; the test vectors in
//! `tests/hash_vectors.rs` pin them, and a port to another language is right when it reproduces those. Only
//! 64-bit additions, xors, shifts, rotations and multiplications (low and high half) are used, and no tables.
//! They scatter regular keys as a random function would (`tests/hash_quality.rs`). They are not cryptographic: no
//! claim is made against keys that were constructed to collide.
//!
//! # Definition
//!
//! All arithmetic is modulo 2^64. `>>` shifts in zeros; `rotl` rotates left; `mul_hi` is the upper half of the
//! 128-bit product; `le(p, n)` is the number in the `n` bytes from `p`, little-endian. The constants are
//! the first 64 bits of the fractional parts of the square roots of 3, 5, 7, 11, 13, 17 and 19.
//!
//! ```text
//! C3 = BB67AE8584CAA73B   C5 = 3C6EF372FE94F82B   C7 = A54FF53A5F1D36F1   C11 = 510E527FADE682D1
//! C13 = 9B05688C2B3E6C1F  C17 = 1F83D9ABFB41BD6B  C19 = 5BE0CD19137E2179
//!
//! mix64(seed, x):
//!     x = x ^ seed ^ C13
//!     x = (x ^ (x >> 32)) * C3
//!     x = x ^ rotl(seed, 32)
//!     x = (x ^ (x >> 29)) * C7
//!     x = (x ^ (x >> 32)) * C11
//!     return x ^ (x >> 29)
//!
//! hash_bytes(seed, p, n):
//!     if n == 8: return mix64(seed, le(p, 8))
//!     h = (seed ^ C17) + n * C5
//!     k = rotl(seed, 32) ^ C19
//!     if n > 16:
//!         for i in 0, 1, ... while i < (n - 1) / 16, rounded down:
//!             h = absorb(h, k, le(p + 16 i, 8), le(p + 16 i + 8, 8))
//!         a = le(p + n - 16, 8);  b = le(p + n - 8, 8)
//!     else if n > 8:  a = le(p, 8);  b = le(p + n - 8, 8)
//!     else if n > 3:  a = le(p, 4);  b = le(p + n - 4, 4)
//!     else if n > 0:  a = p[0] + p[n / 2] * 2^8 + p[n - 1] * 2^16;  b = 0
//!     else:           a = 0;  b = 0
//!     return mix64(seed, absorb(h, k, a, b))
//!
//! absorb(h, k, a, b):
//!     x = a ^ h;  y = b ^ k
//!     return ((x * y) ^ mul_hi(x, y)) + (x ^ rotl(y, 32))
//!
//! second_hash(x):
//!     x = (x ^ (x >> 32)) * C5
//!     x = (x ^ (x >> 29)) * C19
//!     return x ^ (x >> 32)
//! ```
//!
//! A product alone forgets one factor when the other is 0; the sum at the end of `absorb` keeps it. The length
//! goes into `h`, so keys that differ only by zeros at the end hash differently. Eight bytes take the bijection, so
//! 64-bit keys never share a hash, and a table that stores the whole hash need not store the key.

use std::fmt;

use serde::{Deserialize, Serialize};

const C3: u64 = 0xBB67_AE85_84CA_A73B;
const C5: u64 = 0x3C6E_F372_FE94_F82B;
const C7: u64 = 0xA54F_F53A_5F1D_36F1;
const C11: u64 = 0x510E_527F_ADE6_82D1;
const C13: u64 = 0x9B05_688C_2B3E_6C1F;
const C17: u64 = 0x1F83_D9AB_FB41_BD6B;
const C19: u64 = 0x5BE0_CD19_137E_2179;

/// Makes the hashes of one store differ from those of another; drawn at random when the store is created.
///
/// ```
/// use warpkeep_core::{Seed, mix64, unmix64};
/// let seed = Seed(42);
/// assert_eq!(unmix64(seed, mix64(seed, 7)), 7);
/// assert_ne!(mix64(seed, 7), mix64(Seed(43), 7));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seed(pub u64);

impl Seed {
    /// A seed for one part, such as one table of a store; different parts get different seeds.
    #[must_use]
    pub const fn derive(self, part: u64) -> Seed {
        Seed(mix64(self, part))
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A bijection of the 64-bit numbers, another one for every seed, in which every bit of the result depends on
/// every bit of `key`.
#[inline]
pub const fn mix64(seed: Seed, key: u64) -> u64 {
    let mut x = key ^ seed.0 ^ C13;
    x = (x ^ (x >> 32)).wrapping_mul(C3);
    // The seed once more: entering only at the start, it would do no more than rename the keys.
    x ^= seed.0.rotate_left(32);
    x = (x ^ (x >> 29)).wrapping_mul(C7);
    x = (x ^ (x >> 32)).wrapping_mul(C11);
    x ^ (x >> 29)
}

/// The inverse of [`mix64`].
#[inline]
pub const fn unmix64(seed: Seed, hash: u64) -> u64 {
    const INVERSE_C3: u64 = inverse(C3);
    const INVERSE_C7: u64 = inverse(C7);
    const INVERSE_C11: u64 = inverse(C11);
    let mut x = unshift29(hash).wrapping_mul(INVERSE_C11);
    x = (x ^ (x >> 32)).wrapping_mul(INVERSE_C7);
    x = unshift29(x) ^ seed.0.rotate_left(32);
    x = x.wrapping_mul(INVERSE_C3);
    x ^ (x >> 32) ^ seed.0 ^ C13
}

/// The hash of a 64-bit key: [`mix64`]. [`hash_bytes`] gives the same for its 8 bytes.
#[inline]
pub const fn hash_u64(seed: Seed, key: u64) -> u64 {
    mix64(seed, key)
}

/// The hash of a key of any length.
///
/// ```
/// use warpkeep_core::{Seed, hash_bytes, hash_u64};
/// let seed = Seed(42);
/// assert_eq!(hash_bytes(seed, &7u64.to_le_bytes()), hash_u64(seed, 7));
/// assert_ne!(hash_bytes(seed, b"user:1"), hash_bytes(seed, b"user:1\0"));
/// ```
#[inline]
pub fn hash_bytes(seed: Seed, bytes: &[u8]) -> u64 {
    if let Ok(eight) = bytes.try_into() {
        return mix64(seed, u64::from_le_bytes(eight));
    }
    let len = bytes.len();
    let mut h = (seed.0 ^ C17).wrapping_add((len as u64).wrapping_mul(C5));
    let k = seed.0.rotate_left(32) ^ C19;
    let (a, b) = if len > 16 {
        // The last 16 bytes are read from the end, overlapping the block before: no partial blocks.
        for block in bytes[..len - 1].chunks_exact(16) {
            h = absorb(h, k, le64(block), le64(&block[8..]));
        }
        (le64(&bytes[len - 16..]), le64(&bytes[len - 8..]))
    } else if len > 8 {
        (le64(bytes), le64(&bytes[len - 8..]))
    } else if len > 3 {
        (le32(bytes), le32(&bytes[len - 4..]))
    } else if len > 0 {
        let (first, middle, last) = (bytes[0], bytes[len / 2], bytes[len - 1]);
        (u64::from(first) | u64::from(middle) << 8 | u64::from(last) << 16, 0)
    } else {
        (0, 0)
    };
    mix64(seed, absorb(h, k, a, b))
}

/// A second hash of the same key, computed from the first alone: equal only where the first is, and otherwise
/// unrelated to it. Used for the second position of a key that has two.
#[inline]
pub const fn second_hash(hash: u64) -> u64 {
    let mut x = (hash ^ (hash >> 32)).wrapping_mul(C5);
    x = (x ^ (x >> 29)).wrapping_mul(C19);
    x ^ (x >> 32)
}

/// Spreads a hash evenly over `0..range` by its upper bits, for any range and without a division; 0 if the range
/// is empty.
#[inline]
pub const fn reduce(hash: u64, range: u64) -> u64 {
    ((hash as u128 * range as u128) >> 64) as u64
}

#[inline]
const fn absorb(h: u64, k: u64, a: u64, b: u64) -> u64 {
    let x = a ^ h;
    let y = b ^ k;
    let product = x as u128 * y as u128;
    ((product as u64) ^ (product >> 64) as u64).wrapping_add(x ^ y.rotate_left(32))
}

/// Undoes `x ^ (x >> 29)`.
const fn unshift29(x: u64) -> u64 {
    x ^ (x >> 29) ^ (x >> 58)
}

/// The inverse of an odd number modulo 2^64, by Newton's iteration: each step doubles the bits that are right,
/// and an odd number is its own inverse in the lowest three.
const fn inverse(odd: u64) -> u64 {
    let mut x = odd;
    let mut steps = 0;
    while steps < 5 {
        x = x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x)));
        steps += 1;
    }
    x
}

/// The first 8 bytes as a number; the callers have at least 8.
#[inline]
fn le64(bytes: &[u8]) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(number)
}

/// The first 4 bytes as a number; the callers have at least 4.
#[inline]
fn le32(bytes: &[u8]) -> u64 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[..4]);
    u64::from(u32::from_le_bytes(number))
}
