//! Lines of memory in a mapped file, to be read as fast as the machine can.
#![allow(unsafe_code, reason = "the file is read where it is mapped, and prefetched")]

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use warpkeep_image::{Backing, MapOptions, MappedFile};

use crate::BenchError;

const LINE: u64 = 64;

/// A mapped file that an image could lie in, as lines of 64 bytes: it has the pages that an image gets there.
pub(crate) struct Lines {
    file: MappedFile,
    count: u64,
}

impl Lines {
    /// `bytes` bytes in a file of this name, which is removed when this is dropped.
    pub(crate) fn create(path: &Path, bytes: u64) -> Result<Lines, BenchError> {
        let bytes = bytes.next_multiple_of(2 << 20);
        let file = MappedFile::create(path, bytes, &MapOptions::default())?;
        let lines = Lines { file, count: bytes / LINE };
        // One store a page, so that none is missing when it is measured.
        for line in (0..lines.count).step_by(4096 / LINE as usize) {
            lines.word(line).store(0, Ordering::Relaxed);
        }
        Ok(lines)
    }

    /// The number of lines.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The pages they lie in.
    pub(crate) fn pages(&self) -> Result<String, BenchError> {
        Ok(self.file.page_report()?.to_string())
    }

    #[inline]
    fn word(&self, line: u64) -> &AtomicU64 {
        self.word_of(line, 0)
    }

    #[inline]
    fn word_of(&self, line: u64, word: u64) -> &AtomicU64 {
        assert!(line < self.count && word < LINE / 8, "word {word} of line {line} of {}", self.count);
        // SAFETY: within the mapping, which stays while `self` does; aligned; written only by this function's
        // callers, atomically.
        unsafe { AtomicU64::from_ptr(self.file.base().add((line * LINE + word * 8) as usize).cast()) }
    }

    /// Reads the first word of a line.
    #[inline]
    pub(crate) fn read(&self, line: u64) -> u64 {
        self.word(line).load(Ordering::Relaxed)
    }

    /// Copies words from the beginning of a line on.
    #[inline]
    pub(crate) fn copy(&self, line: u64, to: &mut [u64]) {
        assert!(line * LINE + 8 * to.len() as u64 <= self.count * LINE, "words beyond the last line");
        for (word, to) in (0..).zip(to) {
            *to = self.word_of(line + word / (LINE / 8), word % (LINE / 8)).load(Ordering::Relaxed);
        }
    }

    /// Writes all of a line.
    #[inline]
    pub(crate) fn write(&self, line: u64, value: u64) {
        for word in 0..LINE / 8 {
            self.word_of(line, word).store(value, Ordering::Relaxed);
        }
    }

    /// Brings a line nearer.
    #[inline]
    pub(crate) fn prefetch(&self, line: u64) {
        let address = self.file.base().wrapping_add((line * LINE) as usize);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint that reads nothing; any address will do.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(address.cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = address;
    }
}
