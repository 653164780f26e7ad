//! Comparing all states of a bucket at once.
//!
//! The result is a hint: its user loads the state again. So a bucket may change during the comparison, as long as each
//! state is read as it was or as it is.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::slot::REFERENCE_BITS;

/// A way to compare. Chosen once for a table, and again nowhere.
pub(crate) trait Matching: Copy {
    /// Which words have `word >> shift == wanted`, a bit each.
    fn shifted(self, states: &[AtomicU64], shift: u32, wanted: u64) -> u32;

    /// Packed states that may be of a key with this hash. An empty slot may be among them.
    #[inline(always)]
    fn tags(self, states: &[AtomicU64], hash: u64) -> u32 {
        self.shifted(states, REFERENCE_BITS, hash & (u64::MAX >> REFERENCE_BITS))
    }

    /// States that are this word.
    #[inline(always)]
    fn words(self, states: &[AtomicU64], word: u64) -> u32 {
        self.shifted(states, 0, word)
    }
}

/// What this machine can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

impl Level {
    /// The best of this machine.
    pub(crate) fn detect() -> Level {
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx512f") {
                return Level::Avx512(Avx512(()));
            }
            if std::arch::is_x86_feature_detected!("avx2") {
                return Level::Avx2(Avx2(()));
            }
        }
        Level::Portable
    }

    /// Its usual name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Level::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(_) => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(_) => "AVX-512",
        }
    }
}

/// One by one: for any machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

impl Matching for Portable {
    #[inline(always)]
    fn shifted(self, states: &[AtomicU64], shift: u32, wanted: u64) -> u32 {
        let mut mask = 0;
        for (slot, state) in states.iter().enumerate() {
            mask |= u32::from(state.load(Ordering::Acquire) >> shift == wanted) << slot;
        }
        mask
    }
}

/// Four at a time. Only [`Level::detect`] makes one, so having it proves that the machine can do it.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Avx2(());

#[cfg(target_arch = "x86_64")]
impl Matching for Avx2 {
    #[inline(always)]
    fn shifted(self, states: &[AtomicU64], shift: u32, wanted: u64) -> u32 {
        // SAFETY: there is an `Avx2`, so the machine has it.
        unsafe { shifted_avx2(states, shift, wanted) }
    }
}

/// Eight at a time. Made like [`Avx2`].
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Avx512(());

#[cfg(target_arch = "x86_64")]
impl Matching for Avx512 {
    #[inline(always)]
    fn shifted(self, states: &[AtomicU64], shift: u32, wanted: u64) -> u32 {
        // SAFETY: there is an `Avx512`, so the machine has it.
        unsafe { shifted_avx512(states, shift, wanted) }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn shifted_avx2(states: &[AtomicU64], shift: u32, wanted: u64) -> u32 {
    use std::arch::x86_64::{
        __m256i, _mm_cvtsi32_si128, _mm256_castsi256_pd, _mm256_cmpeq_epi64, _mm256_movemask_pd,
        _mm256_set1_epi64x, _mm256_srl_epi64,
    };
    let (fours, rest) = states.as_chunks::<4>();
    let (wide, count) = (_mm256_set1_epi64x(wanted as i64), _mm_cvtsi32_si128(shift as i32));
    let mut mask = 0;
    for (number, four) in fours.iter().enumerate() {
        let words: __m256i;
        // SAFETY: reads the 32 bytes of four words. Others store to them meanwhile, as atomics, eight bytes at a time;
        // the instruction reads each word in one piece, and the compiler makes no assumption about what it reads.
        unsafe {
            std::arch::asm!("vmovdqu {}, ymmword ptr [{}]", out(ymm_reg) words, in(reg) four.as_ptr(),
                options(nostack, readonly, preserves_flags));
        }
        let equal = _mm256_cmpeq_epi64(_mm256_srl_epi64(words, count), wide);
        mask |= (_mm256_movemask_pd(_mm256_castsi256_pd(equal)) as u32) << (4 * number);
    }
    mask | Portable.shifted(rest, shift, wanted) << (4 * fours.len() as u32 % 32)
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx2")]
fn shifted_avx512(states: &[AtomicU64], shift: u32, wanted: u64) -> u32 {
    use std::arch::x86_64::{
        __m512i, _mm_cvtsi32_si128, _mm512_cmpeq_epi64_mask, _mm512_set1_epi64, _mm512_srl_epi64,
    };
    let (eights, rest) = states.as_chunks::<8>();
    let (wide, count) = (_mm512_set1_epi64(wanted as i64), _mm_cvtsi32_si128(shift as i32));
    let mut mask = 0;
    for (number, eight) in eights.iter().enumerate() {
        let words: __m512i;
        // SAFETY: as in `shifted_avx2`, with 64 bytes.
        unsafe {
            std::arch::asm!("vmovdqu64 {}, zmmword ptr [{}]", out(zmm_reg) words, in(reg) eight.as_ptr(),
                options(nostack, readonly, preserves_flags));
        }
        mask |= u32::from(_mm512_cmpeq_epi64_mask(_mm512_srl_epi64(words, count), wide)) << (8 * number);
    }
    if rest.is_empty() {
        return mask;
    }
    mask | shifted_avx2(rest, shift, wanted) << (8 * eights.len() as u32 % 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(matching: impl Matching) {
        for slots in [2, 4, 8, 16, 32] {
            for seed in 0..200_u64 {
                let word = |slot: u64| ((seed * 31 + slot * 7) % 5) << REFERENCE_BITS | slot;
                let states: Vec<AtomicU64> = (0..slots).map(|slot| AtomicU64::new(word(slot))).collect();
                for wanted in 0..6 {
                    assert_eq!(
                        matching.tags(&states, wanted | 5 << 19),
                        Portable.shifted(&states, REFERENCE_BITS, wanted)
                    );
                    let exact = word(wanted);
                    let expected = (0..slots).filter(|&slot| word(slot) == exact).map(|slot| 1 << slot).sum();
                    assert_eq!(matching.words(&states, exact), expected);
                }
            }
        }
    }

    #[test]
    fn every_way_gives_the_same() {
        check(Portable);
        #[cfg(target_arch = "x86_64")]
        {
            match std::arch::is_x86_feature_detected!("avx2") {
                true => check(Avx2(())),
                false => eprintln!("SKIPPED: this machine has no AVX2"),
            }
            match std::arch::is_x86_feature_detected!("avx512f") {
                true => check(Avx512(())),
                false => eprintln!("SKIPPED: this machine has no AVX-512"),
            }
        }
    }
}
