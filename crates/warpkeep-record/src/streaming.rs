//! Copies that go past the caches.

use warpkeep_image::{Image, Persist};

/// Bytes of a cache line, which a non-temporal store should fill.
const LINE: usize = 64;

/// Copies rows with non-temporal stores: for answers that are larger than the caches, and read later if at all. A
/// line filled this way is not read first, which saves a third of the memory traffic. Other threads see the copies
/// once this is dropped.
///
/// ```
/// use warpkeep_record::Streaming;
///
/// let (from, mut to) = ([7; 128], [0; 128]);
/// let streaming = Streaming::begin();
/// streaming.copy(&from, &mut to);
/// drop(streaming);
/// assert_eq!(to, from);
/// ```
#[derive(Debug)]
pub struct Streaming(());

impl Streaming {
    /// Begins to copy.
    #[inline]
    pub fn begin() -> Streaming {
        Streaming(())
    }

    /// Copies bytes. Without such stores, or if they would not fill lines, it copies as usual.
    ///
    /// # Panics
    /// If one slice is not as long as the other.
    #[inline(always)]
    pub fn copy(&self, from: &[u8], to: &mut [u8]) {
        assert_eq!(from.len(), to.len(), "a row is as long as its value");
        let is_whole = to.len().is_multiple_of(LINE) && to.as_ptr().addr().is_multiple_of(16);
        match cfg!(target_arch = "x86_64") && is_whole {
            true => past_caches(from, to),
            false => to.copy_from_slice(from),
        }
    }

    /// Copies bytes into an image; as usual if the writer flushes, so that there is something to flush.
    ///
    /// # Safety
    /// No other thread may access the range meanwhile.
    ///
    /// # Panics
    /// If the range lies outside the image, or the image is read-only.
    #[inline(always)]
    pub unsafe fn write<P: Persist>(&self, image: &Image<P>, offset: u64, bytes: &[u8]) {
        if P::WRITES_BACK {
            // SAFETY: passed on to the caller.
            return unsafe { image.write(offset, bytes) };
        }
        assert!(image.is_writable(), "a read-only image was written to");
        let to = image.pointer(offset, bytes.len() as u64).cast_mut();
        // SAFETY: in bounds by `pointer`, writable as just checked, and exclusive by this function's contract.
        self.copy(bytes, unsafe { std::slice::from_raw_parts_mut(to, bytes.len()) });
    }
}

impl Drop for Streaming {
    #[inline]
    fn drop(&mut self) {
        // Non-temporal stores are weakly ordered: without a fence another thread could see a completion signal
        // before them.
        #[cfg(target_arch = "x86_64")]
        // SAFETY: SSE is part of every x86-64.
        unsafe {
            std::arch::x86_64::_mm_sfence();
        }
    }
}

/// Both are as long as each other, in multiples of 16 bytes, and `to` is aligned to as many.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn past_caches(from: &[u8], to: &mut [u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    for (from, to) in from.chunks_exact(16).zip(to.chunks_exact_mut(16)) {
        // SAFETY: both are 16 bytes, the second aligned to 16; SSE2 is part of every x86-64. `Streaming` ends with
        // a fence.
        unsafe { _mm_stream_si128(to.as_mut_ptr().cast::<__m128i>(), _mm_loadu_si128(from.as_ptr().cast())) };
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn past_caches(from: &[u8], to: &mut [u8]) {
    to.copy_from_slice(from);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_arrives_wherever_it_goes() {
        let from: Vec<u8> = (0..512_u32).map(|number| (number * 7) as u8).collect();
        for len in [0, 8, 16, 64, 128, 192, 200, 256] {
            for at in 0..40 {
                let mut to = vec![0xaa; 512];
                let streaming = Streaming::begin();
                streaming.copy(&from[at..at + len], &mut to[64 + at..64 + at + len]);
                drop(streaming);
                assert_eq!(to[64 + at..64 + at + len], from[at..at + len]);
                assert!(to[..64 + at].iter().chain(&to[64 + at + len..]).all(|&byte| byte == 0xaa));
            }
        }
    }

    #[test]
    #[should_panic(expected = "as long as its value")]
    fn what_does_not_fit_is_not_copied() {
        Streaming::begin().copy(&[1; 64], &mut [0; 128]);
    }
}
