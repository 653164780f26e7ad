//! Which types keys and values of a map have.

use std::fmt::Debug;
use std::hash::Hash;

use bytemuck::Pod;
use warpkeep_device::{Arch, DeviceError};

use super::op::MapOpKind;
use crate::SortKey;

/// Keys of a [`HashMap`](crate::HashMap) or a [`HashSet`](crate::HashSet): `u32` and `u64`.
pub trait MapKey: SortKey + Hash + Debug + Send + Sync + hashing::Hashing {}

/// Values of a [`HashMap`](crate::HashMap): `u32` and `u64`, which [`Upsert`](crate::Upsert) can add and compare; 16 bytes (`u128`,
/// `[u64; 2]`, `[u32; 4]`, `[u8; 16]`), which it can replace; and `()`, of which a [`HashSet`](crate::HashSet) is made.
pub trait MapValue: Pod + PartialEq + Debug + Send + Sync + values::Updated {}

impl MapKey for u32 {}
impl MapKey for u64 {}

pub(super) mod hashing {
    use crate::hash_map::mix;

    /// How keys are hashed, as `KeyHash` of `warpkeep/hash_map.h` does it. A hash has as many bits as a key.
    pub trait Hashing: Copy {
        fn mix(self, seed: u64) -> Self;
        fn unmix(seed: u64, hash: Self) -> Self;
        /// The hash of the key whose part in a slot of this bucket is `word`.
        fn hash_in(word: Self, bucket: u64, mask: u64) -> Self;
        fn rotated_right(self, bits: u32) -> Self;
        fn is_held(self) -> bool;
    }

    impl Hashing for u64 {
        fn mix(self, seed: u64) -> u64 {
            mix::mix(seed, self)
        }

        fn unmix(seed: u64, hash: u64) -> u64 {
            mix::unmix(seed, hash)
        }

        fn hash_in(word: u64, bucket: u64, mask: u64) -> u64 {
            mix::hash_in(word, bucket, mask)
        }

        fn rotated_right(self, bits: u32) -> u64 {
            self.rotate_right(bits)
        }

        fn is_held(self) -> bool {
            self & mix::HELD != 0
        }
    }

    impl Hashing for u32 {
        fn mix(self, seed: u64) -> u32 {
            mix::mix32(seed, self)
        }

        fn unmix(seed: u64, hash: u32) -> u32 {
            mix::unmix32(seed, hash)
        }

        fn hash_in(word: u32, bucket: u64, mask: u64) -> u32 {
            mix::hash_in32(word, bucket as u32, mask as u32)
        }

        fn rotated_right(self, bits: u32) -> u32 {
            self.rotate_right(bits)
        }

        fn is_held(self) -> bool {
            self & mix::HELD as u32 != 0
        }
    }
}

pub(super) mod values {
    use super::MapOpKind;

    /// The value of a key that had another.
    pub trait Updated: Sized {
        /// Whether values are added and compared.
        const IS_NUMBER: bool;

        fn updated(self, kind: MapOpKind, operand: Self) -> Self;
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl MapValue for $number {}

        impl values::Updated for $number {
            const IS_NUMBER: bool = true;

            fn updated(self, kind: MapOpKind, operand: Self) -> Self {
                match kind {
                    MapOpKind::Put => operand,
                    MapOpKind::Add => self.wrapping_add(operand),
                    MapOpKind::Min => self.min(operand),
                    MapOpKind::Max => self.max(operand),
                    MapOpKind::Insert | MapOpKind::Find | MapOpKind::Contains | MapOpKind::Erase => self,
                }
            }
        }
    )*};
}

macro_rules! others {
    ($($other:ty: $is_number:literal),*) => {$(
        impl MapValue for $other {}

        impl values::Updated for $other {
            const IS_NUMBER: bool = $is_number;

            fn updated(self, kind: MapOpKind, operand: Self) -> Self {
                if kind == MapOpKind::Put { operand } else { self }
            }
        }
    )*};
}

numbers!(u32, u64);
// All values of a set are equal: nothing is wrong with a sum of them.
others!((): true, u128: false, [u64; 2]: false, [u32; 4]: false, [u8; 16]: false);

/// Bytes of keys and values, and how slots have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) key_bytes: u8,
    /// 0 for a set.
    pub(super) value_bytes: u8,
}

impl Shape {
    pub(super) const fn of<K: MapKey, V: MapValue>() -> Shape {
        Shape { key_bytes: size_of::<K>() as u8, value_bytes: size_of::<V>() as u8 }
    }

    /// Whether values have memory of their own.
    pub(super) const fn is_apart(self) -> bool {
        self.value_bytes == 16
    }

    /// Bytes of a slot: of the smallest word that has the key, and the value if that is not apart.
    pub(super) const fn slot_bytes(self) -> usize {
        match self.key_bytes + if self.is_apart() { 0 } else { self.value_bytes } {
            4 => 4,
            8 => 8,
            _ => 16,
        }
    }

    /// Where the value is in a slot.
    pub(super) const fn value_at(self) -> usize {
        self.slot_bytes() / 2
    }

    /// Slots of a bucket, which is 64 bytes of them.
    pub(super) const fn slots(self) -> u64 {
        64 / self.slot_bytes() as u64
    }

    /// Bytes of the values of a bucket that have memory of their own.
    pub(super) const fn apart_bytes(self) -> usize {
        if self.is_apart() { 16 * self.slots() as usize } else { 0 }
    }

    /// A map has 2^k buckets, and k is at most this. Keys of 32 bits have a slot each then.
    pub(super) const fn most_bits(self) -> u32 {
        match self.key_bytes {
            4 => 32 - self.slots().ilog2(),
            _ => 31,
        }
    }

    /// Bytes of a pair, without those that a slot has beside it.
    pub(super) const fn pair_bytes(self) -> usize {
        self.key_bytes as usize + self.value_bytes as usize
    }

    /// An error if a GPU of this architecture cannot change such slots as a whole. Values of 16 bytes beside the slots are written as a whole by any; a
    /// kernel of one's own that exchanges them does not compile for older ones.
    pub(super) fn check_arch(self, arch: Option<Arch>) -> Result<(), DeviceError> {
        match arch {
            Some(arch) if self.slot_bytes() == 16 && arch < WIDE_CAS => Err(DeviceError::Call {
                call: "a hash map with slots of 16 bytes",
                code: "compute capability".to_owned(),
                text: format!("{arch} has no compare-and-swap of 16 bytes"),
                advice: "use values of 16 bytes, which lie beside the slots, keys and values of 32 bits, or a GPU of compute capability 9.0 or later",
            }),
            _ => Ok(()),
        }
    }
}

/// The first architecture with a compare-and-swap of 16 bytes.
const WIDE_CAS: Arch = Arch::new(9, 0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_16_bytes_need_a_gpu_that_swaps_them() {
        let error = Shape::of::<u64, u64>().check_arch(Some(Arch::new(8, 9))).unwrap_err();
        assert!(error.to_string().contains("use values of 16 bytes"), "{error}");
        assert!(Shape::of::<u32, u64>().check_arch(Some(Arch::new(8, 0))).is_err());
        for arch in [None, Some(Arch::new(9, 0)), Some(Arch::new(10, 0))] {
            Shape::of::<u64, u64>().check_arch(arch).unwrap();
        }
        for shape in [Shape::of::<u32, u32>(), Shape::of::<u64, u128>(), Shape::of::<u64, ()>()] {
            shape.check_arch(Some(Arch::new(8, 0))).unwrap();
        }
    }
}
