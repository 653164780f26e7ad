//! Persistent memory on x86-64: lines are written back from the caches, then fenced.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count, _mm_clflush, _mm_sfence};

use crate::Persist;

/// The unit of a flush.
const LINE: usize = 64;

/// The domain of an image on persistent memory (devdax, fsdax): stores are durable once their lines have been
/// written back and a fence has passed.
///
/// On a machine whose caches are inside the power-fail domain (eADR) the write-backs are not needed; they are made
/// all the same, because an ordinary process cannot determine that reliably.
///
/// ```
/// use warpkeep_image::{Persist, WriteBack};
///
/// if let Some(domain) = WriteBack::detect() {
///     let bytes = [7_u8; 100];
///     domain.flush("record", bytes.as_ptr(), bytes.len());
///     domain.fence("record");
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteBack {
    instruction: Instruction,
}

/// From the best to the last resort.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instruction {
    /// Writes the line back and may keep it in the cache.
    Clwb,
    /// Writes the line back and drops it.
    ClflushOpt,
    /// The same, one line after the other.
    Clflush,
}

impl WriteBack {
    /// Picks the best instruction this processor has; `None` if it has none for lines of 64 bytes.
    pub fn detect() -> Option<Self> {
        let highest_leaf = __cpuid(0).eax;
        let basics = __cpuid(1);
        let extended = if highest_leaf >= 7 { __cpuid_count(7, 0).ebx } else { 0 };
        // Leaf 1 gives the line size of CLFLUSH, which is also that of the other two, in units of 8 bytes.
        let line = (basics.ebx >> 8 & 0xff) as usize * 8;
        let instruction = if extended >> 24 & 1 == 1 {
            Instruction::Clwb
        } else if extended >> 23 & 1 == 1 {
            Instruction::ClflushOpt
        } else if basics.edx >> 19 & 1 == 1 {
            Instruction::Clflush
        } else {
            return None;
        };
        (line == LINE).then_some(Self { instruction })
    }

    /// The name of the instruction in use, for reports.
    pub fn instruction(&self) -> &'static str {
        match self.instruction {
            Instruction::Clwb => "CLWB",
            Instruction::ClflushOpt => "CLFLUSHOPT",
            Instruction::Clflush => "CLFLUSH",
        }
    }

    /// How many 64-byte lines a flush of `len` bytes at `start` writes back.
    pub fn lines(start: *const u8, len: usize) -> usize {
        lines(start.addr(), len).count()
    }
}

/// The addresses of the lines that `start..start + len` touches.
#[inline(always)]
fn lines(start: usize, len: usize) -> impl Iterator<Item = usize> {
    let first = start & !(LINE - 1);
    // An empty range touches no line, even in the middle of one.
    let end = if len == 0 { first } else { start + len };
    (first..end).step_by(LINE)
}

impl Persist for WriteBack {
    #[inline]
    fn flush(&self, _site: &'static str, start: *const u8, len: usize) {
        for line in lines(start.addr(), len) {
            let line = start.with_addr(line);
            // SAFETY: `detect` found the instruction. The line holds a byte of the range, so it is mapped (a page
            // never ends inside a line), and writing it back changes no byte.
            unsafe {
                match self.instruction {
                    Instruction::Clwb => asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags)),
                    Instruction::ClflushOpt => {
                        asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags));
                    }
                    Instruction::Clflush => _mm_clflush(line),
                }
            }
        }
    }

    #[inline]
    fn fence(&self, _site: &'static str) {
        // SAFETY: every x86-64 processor has SFENCE.
        unsafe { _mm_sfence() };
        // SFENCE orders the processor; this keeps the compiler from moving stores across it.
        std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touched(start: usize, len: usize) -> Vec<usize> {
        lines(start, len).collect()
    }

    #[test]
    fn every_line_touched_and_no_other() {
        assert_eq!(touched(128, 0), [0_usize; 0]);
        assert_eq!(touched(130, 0), [0_usize; 0]);
        assert_eq!(touched(128, 1), [128]);
        assert_eq!(touched(191, 1), [128]);
        assert_eq!(touched(128, 64), [128]);
        assert_eq!(touched(128, 65), [128, 192]);
        assert_eq!(touched(191, 2), [128, 192]);
        assert_eq!(touched(160, 64), [128, 192]);
        assert_eq!(touched(160, 128), [128, 192, 256]);
        for start in 0..130 {
            for len in 1..200 {
                let expected: Vec<usize> =
                    (0..512).step_by(64).filter(|line| line + 64 > start && *line < start + len).collect();
                assert_eq!(touched(start, len), expected, "{len} bytes at {start}");
            }
        }
    }

    #[test]
    fn each_instruction_this_processor_has_changes_no_data() {
        let best = WriteBack::detect().expect("every x86-64 machine we know flushes 64-byte lines");
        let usable: &[Instruction] = match best.instruction {
            Instruction::Clwb => &[Instruction::Clwb, Instruction::Clflush],
            Instruction::ClflushOpt => &[Instruction::ClflushOpt, Instruction::Clflush],
            Instruction::Clflush => &[Instruction::Clflush],
        };
        let bytes: Vec<u8> = (0..10_000_u32).map(|i| ((i * 31) >> 3) as u8).collect();
        let before = bytes.clone();
        for &instruction in usable {
            let domain = WriteBack { instruction };
            for (start, len) in [(0, 10_000), (1, 9_999), (63, 2), (9_999, 1), (5_000, 0)] {
                domain.flush("test", bytes[start..].as_ptr(), len);
                domain.fence("test");
            }
            assert_eq!(bytes, before, "{}", domain.instruction());
        }
    }
}
