//! Memory that keeps every store the process executed: tmpfs, hugetlbfs, the page cache.

use std::sync::atomic::{Ordering, fence};

use crate::Persist;

/// The domain of an image whose bytes outlive the process by themselves. Nothing need leave the caches, so a flush
/// does nothing, and a fence only orders stores: no instruction at all on x86-64.
///
/// ```
/// use warpkeep_image::{Coherent, Persist};
///
/// let bytes = [0_u8; 64];
/// Coherent.flush("record", bytes.as_ptr(), bytes.len());
/// Coherent.fence("record");
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Coherent;

impl Persist for Coherent {
    const WRITES_BACK: bool = false;

    #[inline(always)]
    fn flush(&self, _site: &'static str, _start: *const u8, _len: usize) {}

    #[inline(always)]
    fn fence(&self, _site: &'static str) {
        fence(Ordering::Release);
    }
}
