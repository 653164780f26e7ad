//! Seeded randomness: the same seed gives the same throws, on any machine.

use warpkeep_core::{Seed, mix64, reduce};

/// An endless sequence of random numbers, one of many that a seed has.
///
/// ```
/// use warpkeep_bench::workload::Dice;
///
/// let mut dice = Dice::new(1, 0);
/// assert!(dice.below(6) < 6 && dice.fraction() < 1.0);
/// assert_eq!(Dice::new(1, 0).word(), Dice::new(1, 0).word());
/// assert_ne!(Dice::new(1, 0).word(), Dice::new(1, 1).word());
/// ```
#[derive(Clone, Debug)]
pub struct Dice {
    seed: Seed,
    turn: u64,
}

impl Dice {
    /// Each stream of a seed is another sequence.
    pub fn new(seed: u64, stream: u64) -> Dice {
        Dice { seed: Seed(seed).derive(stream), turn: 0 }
    }

    /// 64 random bits.
    #[inline]
    pub fn word(&mut self) -> u64 {
        self.turn += 1;
        mix64(self.seed, self.turn)
    }

    /// A number below `end`; 0 if that is 0.
    #[inline]
    pub fn below(&mut self, end: u64) -> u64 {
        reduce(self.word(), end)
    }

    /// From 0 to below 1, in steps of 2^-53.
    #[inline]
    pub fn fraction(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
