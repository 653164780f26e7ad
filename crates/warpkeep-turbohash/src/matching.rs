//! Comparing all tags of a bucket at once.
//!
//! There are sixteen bytes of them, one register of SSE2, which every x86-64 machine has: wider registers would
//! have nothing more to compare. Elsewhere two words are compared.

/// Which of sixteen tags equal this one, a bit each; the result may include slots that do not count.
#[inline(always)]
pub(crate) fn equal(tags: [u64; 2], tag: u8) -> u16 {
    #[cfg(target_arch = "x86_64")]
    {
        sse2(tags, tag)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        portable(tags, tag)
    }
}

/// How tags are compared on this machine.
pub(crate) fn name() -> &'static str {
    if cfg!(target_arch = "x86_64") { "SSE2" } else { "portable" }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn sse2([low, high]: [u64; 2], tag: u8) -> u16 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let wanted = _mm_set1_epi8(tag as i8);
        _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_set_epi64x(high as i64, low as i64), wanted)) as u16
    }
}

/// For any machine: the bytes that are 0 after the difference is taken, exactly.
#[cfg_attr(all(target_arch = "x86_64", not(test)), allow(dead_code, reason = "for other machines"))]
#[inline(always)]
fn portable(tags: [u64; 2], tag: u8) -> u16 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let wanted = u64::from(tag) * 0x0101_0101_0101_0101;
    let [low, high] = tags.map(|word| {
        let difference = word ^ wanted;
        // The top bit of each byte is set where the byte is 0; no carry leaves a byte.
        let zero = !(((difference & LOW) + LOW) | difference | LOW);
        // Gathers the eight top bits in one byte.
        (zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
    });
    (low | high << 8) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_gives_the_same() {
        let mut state = 1_u64;
        for _ in 0..20_000 {
            let mut bytes = [0_u8; 16];
            for byte in &mut bytes {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = [0, 1, 0x7f, 0x80, 0x81, 0xff][(state >> 33) as usize % 6];
            }
            let tags = [0, 8].map(|at| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()));
            for tag in [0, 1, 2, 0x7f, 0x80, 0x81, 0xff] {
                let expected = (0..16).filter(|&slot| bytes[slot] == tag).map(|slot| 1 << slot).sum::<u16>();
                assert_eq!(portable(tags, tag), expected, "{tags:x?} {tag:x}");
                assert_eq!(equal(tags, tag), expected, "{tags:x?} {tag:x}");
            }
        }
    }
}
