//! Random numbers of generators.

use crate::hash_map::mix::mix;

/// An endless sequence of random numbers, one of many that a seed has.
pub(super) struct Draws {
    stream: u64,
    turn: u64,
}

impl Draws {
    pub(super) fn new(seed: u64, stream: u64) -> Draws {
        Draws { stream: mix(seed, stream), turn: 0 }
    }

    pub(super) fn word(&mut self) -> u64 {
        self.turn += 1;
        mix(self.stream, self.turn)
    }

    /// A number below `end`; 0 if that is 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(end)) >> 64) as u64
    }

    /// From 0 to below 1, in steps of 2^-53.
    pub(super) fn fraction(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Numbers from 0 in a random order.
    pub(super) fn shuffled(&mut self, count: usize) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..count as u32).collect();
        for at in (1..count).rev() {
            numbers.swap(at, self.below(at as u64 + 1) as usize);
        }
        numbers
    }
}
